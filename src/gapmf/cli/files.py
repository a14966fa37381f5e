"""Counts for a model: read from a file, with the features that the model knows.

Results as tables: to standard output or to a file, as CSV, TSV, JSON or Parquet.
"""

from __future__ import annotations

import csv
import io
import json
import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import typer

from gapmf.cli.options import in_cli_words
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.io import Table, read
from gapmf.storage import check_parent_folder, write_atomically


def echo(message: str) -> None:
    """A line on standard error."""
    typer.echo(f"gapmf: {in_cli_words(' '.join(message.split()))}", err=True)


@contextmanager
def echo_warnings(*, quiet: bool = False) -> Iterator[None]:
    """Warnings become lines on standard error, each once, unless only errors are wanted."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in seen):
        if not quiet:
            echo(f"note: {message}")


def read_for(est: GammaPoissonMF, path: Path, options: dict[str, Any]) -> Table:
    """The counts of a file, their features in the order of the model's."""
    with echo_warnings():
        table = read(path, **options)
    names = getattr(est, "feature_names_in_", None)
    if names is not None and table.feature_names is not None:
        return table._replace(
            counts=align(table.counts, table.feature_names, names), feature_names=names
        )
    if table.counts.shape[1] != est.n_features_in_:
        raise InvalidInputError(
            f"{path} has {table.counts.shape[1]} features, but the model has "
            f"{est.n_features_in_}: these must be the same, in the same order, or both have names"
        )
    return table


def align(counts: sp.csr_array, names: Any, wanted: Any) -> sp.csr_array:
    """The columns of the names that are wanted; what is not is left out, and said."""
    if len(names) == len(wanted) and (names == wanted).all():
        return counts
    names, wanted = ([name.strip() for name in listed] for listed in (names, wanted))
    place = {name: f for f, name in enumerate(wanted)}
    for which, listed in (("data", names), ("model", wanted)):
        if len(set(listed)) < len(listed):
            raise InvalidInputError(
                f"the features of data and model differ, and the {which} has some names twice: "
                "they cannot be told apart"
            )
    to = np.array([place.get(name, -1) for name in names])
    known = to >= 0
    if not known.any():
        raise InvalidInputError(
            f"none of the {len(names)} features of the data is one of the model's: "
            f"{names[0]!r} …, but the model has {wanted[0]!r} …"
        )
    lost = counts[:, np.flatnonzero(~known)]
    if lost.shape[1]:
        echo(
            f"note: {lost.shape[1]} features that the model does not know are left out, with "
            f"{float(lost.sum()) / max(float(counts.sum()), 1.0):.2%} of all counts"
        )
    kept = counts[:, np.flatnonzero(known)].tocoo()
    return sp.csr_array(
        (kept.data, (kept.coords[0], to[known][kept.coords[1]])),
        shape=(counts.shape[0], len(wanted)),
    )


def name_samples(table: Table) -> list[str]:
    """Names of samples, or their numbers."""
    if table.sample_names is not None:
        return [str(name) for name in table.sample_names]
    return [str(n) for n in range(table.counts.shape[0])]


Columns = Mapping[str, Sequence[Any]]

SUFFIXES = (".csv", ".tsv", ".json", ".parquet")


def check_output(path: Path | None) -> None:
    """Refuse a file that cannot be written, before the work is done."""
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInputError(f"{path}: the output must end in {', '.join(SUFFIXES)}")
    check_parent_folder(path)
    if path.suffix.lower() == ".parquet":
        _parquet_writer()


def write_table(columns: Columns, path: Path | None, *, as_json: bool = False) -> None:
    """Write columns of equal length to a file, by its suffix, or as CSV or JSON to the screen."""
    if path is None:
        text = _json_rows(columns) if as_json else _delimited(columns, ",")
        sys.stdout.write(text)
    elif path.suffix.lower() == ".parquet":
        write = _parquet_writer()
        write_atomically(path, lambda temporary: write(columns, temporary))
    else:
        text = (
            _json_rows(columns)
            if path.suffix.lower() == ".json"
            else _delimited(columns, "\t" if path.suffix.lower() == ".tsv" else ",")
        )
        write_atomically(path, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


def print_json(content: Any) -> None:
    """One JSON document on standard output; what JSON has no number for is null."""
    sys.stdout.write(json.dumps(_plain(content), indent=1, ensure_ascii=False) + "\n")


def _delimited(columns: Columns, delimiter: str) -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*map(_listed, columns.values()), strict=True))
    return text.getvalue()


def _json_rows(columns: Columns) -> str:
    rows = zip(*map(_listed, columns.values()), strict=True)
    records = [dict(zip(columns, _plain(row), strict=True)) for row in rows]
    return json.dumps(records, indent=1, ensure_ascii=False) + "\n"


def _listed(values: Any) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parquet_writer() -> Any:
    """How Parquet is written with what is installed: polars, or pandas with pyarrow."""
    try:
        import polars

        return lambda columns, path: polars.DataFrame(dict(columns)).write_parquet(path)
    except ImportError:
        pass
    try:
        import pandas
        import pyarrow  # noqa: F401

        return lambda columns, path: pandas.DataFrame(dict(columns)).to_parquet(path)
    except ImportError as error:
        raise InvalidInputError(
            "Parquet needs polars, or pandas and pyarrow: install one, or write a .csv"
        ) from error
