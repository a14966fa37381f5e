"""Results as tables: to standard output or to a file, as CSV, TSV, JSON or Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gapmf.errors import InvalidInputError
from gapmf.files import check_folder, replace_file

Columns = Mapping[str, Sequence[Any]]

SUFFIXES = (".csv", ".tsv", ".json", ".parquet")


def check_output(path: Path | None) -> None:
    """Refuse a file that cannot be written, before the work is done."""
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInputError(f"{path}: the output must end in {', '.join(SUFFIXES)}")
    check_folder(path)
    if path.suffix.lower() == ".parquet":
        _parquet_writer()


def write_table(columns: Columns, path: Path | None, *, as_json: bool = False) -> None:
    """Write columns of equal length to a file, by its suffix, or as CSV or JSON to the screen."""
    if path is None:
        text = _json_rows(columns) if as_json else _delimited(columns, ",")
        sys.stdout.write(text)
    elif path.suffix.lower() == ".parquet":
        write = _parquet_writer()
        replace_file(path, lambda temporary: write(columns, temporary))
    else:
        text = (
            _json_rows(columns)
            if path.suffix.lower() == ".json"
            else _delimited(columns, "\t" if path.suffix.lower() == ".tsv" else ",")
        )
        replace_file(path, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


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
