"""Warnings on standard error; a model and counts that are read for it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gapmf.cli.options import Request, echo
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.io import Table, read
from gapmf.io.vocabulary import align_features
from gapmf.output import check_output


@contextmanager
def echo_warnings(*, quiet: bool = False) -> Iterator[None]:
    """Print each distinct warning as one line on standard error, unless `quiet`."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in seen):
        if not quiet:
            echo(f"note: {message}")


def load(request: Request) -> tuple[GammaPoissonMF, Table]:
    """Load the model and the data of a command, whose output must be neither."""
    check_output(request.output)
    check_not_input(request.output, data=request.data, model=request.model)
    est = GammaPoissonMF.load(request.model).set_params(n_jobs=request.jobs, verbose=verbosity())
    return est, read_for(est, request.data, request.reading)


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


def name_samples(table: Table) -> list[str]:
    """Return the names of samples, or their numbers."""
    if table.sample_names is not None:
        return [str(name) for name in table.sample_names]
    return [str(n) for n in range(table.counts.shape[0])]
