"""Warnings on standard error; a model and counts that are read for it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.cli.options import Request, as_options, echo
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.io import Table, find_format, read
from gapmf.io.dataframes import read_column
from gapmf.io.shards import is_shards, open_shards
from gapmf.io.vocabulary import align_features
from gapmf.storage import write_atomically
from gapmf.storage.output import SUFFIXES, check_output

PICTURES = (".png", ".svg", ".pdf")


@contextmanager
def echo_warnings(*, quiet: bool = False) -> Iterator[None]:
    """Print each distinct warning as one line on standard error, unless `quiet`."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in seen):
        if not quiet:
            echo(f"note: {as_options(message)}")


def read_data(path: Path, options: dict[str, Any]) -> Table:
    """Read counts; of a folder of shards, only the manifest: the counts are then `Shards`."""
    if not is_shards(path) or any(value is not None for value in options.values()):
        return read(path, **options)
    shards = open_shards(path)
    counts: Any = shards
    return Table(counts, shards.feature_names, None)


def load(
    request: Request, suffixes: tuple[str, ...] = SUFFIXES, *, streamed: bool = False
) -> tuple[GammaPoissonMF, Table]:
    """Load the model and the data of a command, whose output must be neither.

    With `streamed`, shards are not read into memory, if their features are those of the model.
    """
    check_output(request.output, suffixes)
    if is_picture(request.output):
        new_figure()  # fails early without Matplotlib
    check_not_input(request.output, data=request.data, model=request.model)
    est = GammaPoissonMF.load(request.model).set_params(n_jobs=request.jobs, verbose=verbosity())
    exposed = getattr(request, "exposure", None) is not None or hasattr(est, "exposure_")
    if streamed and is_shards(request.data) and not any(request.reading.values()) and not exposed:
        table = read_data(request.data, request.reading)
        names = getattr(est, "feature_names_in_", None)
        own = table.feature_names
        if names is None or own is None or np.array_equal(names, own):
            return est, table._replace(sample_names=open_shards(request.data).sample_names())
    _, options = column_exposure(getattr(request, "exposure", None), request.data, request.reading)
    return est, read_for(est, request.data, options)


def is_picture(path: Path | None) -> bool:
    """Return whether the name of a file is that of a picture."""
    return path is not None and path.suffix.lower() in PICTURES


def new_figure() -> Any:
    """Return an empty figure of the size of a picture."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidInputError(
            "a picture needs Matplotlib: pip install 'gapmf[plot]', or write a .csv"
        ) from error
    return Figure(figsize=(6.4, 4.0), layout="constrained")


def write_picture(figure: Any, path: Path) -> None:
    """Write a figure to a file, in the format that its suffix names."""
    kind = path.suffix[1:].lower()
    write_atomically(path, lambda temporary: figure.savefig(temporary, format=kind, dpi=160))


def verbosity() -> int:
    """Return 1 on a terminal, where bars are shown."""
    return int(sys.stderr.isatty())


def check_not_input(output: Path | None, **inputs: Path | None) -> None:
    """Refuse to write to a file that is read."""
    for name, path in inputs.items():
        if output and path and output.exists() and path.exists() and output.samefile(path):
            raise InvalidInputError(f"{output} is the {name}: name another file for the output")


def read_for(est: GammaPoissonMF, path: Path, options: dict[str, Any]) -> Table:
    """Read counts, with their features in the order of the model's."""
    names = getattr(est, "feature_names_in_", None)
    return read_like(path, options, names, est.n_features_in_, "the model")


def read_like(
    path: Path, options: dict[str, Any], names: Any, n_features: int, owner: str
) -> Table:
    """Read counts, with their features as those of `owner`: by name if both have names."""
    with echo_warnings():
        table = read(path, **options)
        if names is not None and table.feature_names is not None:
            return align_features(table, names)
    if table.counts.shape[1] != n_features:
        raise InvalidInputError(
            f"{path} has {table.counts.shape[1]} features, but {owner} has "
            f"{n_features}: use the same features in the same order, or give names to both"
        )
    return table


def column_exposure(
    given: str | None, data: Path, options: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return exposures from a column of a table, and options of `read` that leave it out.

    Such a column need not hold counts. The exposures are None if there is no such column.
    """
    kind = options.get("format")
    if given is None or given == "total" or Path(given).is_file() or options.get("transpose"):
        return None, options
    kind = find_format(str(data)) if kind is None and data.exists() else kind
    if kind not in ("csv", "tsv", "parquet") or options.get("layout") == "triplets":
        return None, options
    how = {name: options[name] for name in ("delimiter", "encoding") if options.get(name)}
    if kind == "tsv":
        how.setdefault("delimiter", "\t")
    found = read_column(str(data), given, parquet=kind == "parquet", **how)
    return found, options if found is None else options | {"leave_out": given}


def take_exposure(given: str | None, data: Path, table: Table) -> tuple[Any, Table]:
    """Return the exposures of samples, and the table without the column that holds them."""
    if given is None or given == "total":
        return given, table
    if Path(given).is_file():
        return _numbers_in(Path(given), table.counts.shape[0]), table
    if data.suffix == ".h5ad":
        return _obs_column(data, given), table
    names = [] if table.feature_names is None else [str(name) for name in table.feature_names]
    if given not in names:
        raise InvalidInputError(
            f"--exposure {given}: there is neither a file nor a column of that name in {data}; use "
            "total, a file with one number per line, or a column"
        )
    f = names.index(given)
    others = np.delete(np.arange(len(names)), f)
    assert table.feature_names is not None
    exposure = table.counts[:, [f]].toarray().reshape(-1)
    return exposure, Table(
        sp.csr_array(table.counts[:, others]), table.feature_names[others], table.sample_names
    )


def _numbers_in(path: Path, n_samples: int) -> Any:
    """Return the numbers in a file, one per line and sample."""
    lines = path.read_text(encoding="utf-8").split("\n")
    lines = lines[:-1] if lines and not lines[-1].strip() else lines
    numbers = []
    for i, line in enumerate(lines, 1):
        try:
            numbers.append(float(line))
        except ValueError:
            raise InvalidInputError(
                f"{path}, line {i}: {line.strip()!r} is not a number; the file must have one "
                "exposure per line, and no header"
            ) from None
    if len(numbers) != n_samples:
        raise InvalidInputError(
            f"{path} has {len(numbers)} exposures, one per line, but there are {n_samples} samples"
        )
    return numbers


def _obs_column(data: Path, column: str) -> Any:
    """Return a column of obs of an .h5ad file."""
    import anndata

    obs = anndata.read_h5ad(data, backed="r").obs
    if column not in obs:
        known = ", ".join(map(repr, obs.columns)) or "none"
        raise InvalidInputError(
            f"--exposure {column}: there is neither a file nor a column of obs of that name in "
            f"{data}; the columns are {known}"
        )
    return obs[column].to_numpy()


def exposure_for(given: str | None, data: Path, table: Table, options: dict[str, Any]) -> Any:
    """Return the exposures of samples that are read for a model.

    Their table has the features of the model alone, so a column is looked up in the file.
    """
    if given is None or given == "total" or Path(given).is_file() or data.suffix == ".h5ad":
        return take_exposure(given, data, table)[0]
    numbers, _ = column_exposure(given, data, options)
    if numbers is not None:
        return numbers
    with echo_warnings(quiet=True):
        return take_exposure(given, data, read(data, **options))[0]


def name_samples(table: Table) -> list[str]:
    """Return the names of samples, or their numbers."""
    if table.sample_names is not None:
        return [str(name) for name in table.sample_names]
    return [str(n) for n in range(table.counts.shape[0])]
