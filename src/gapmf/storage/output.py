"""Write results: tables as CSV, TSV, JSON or Parquet, and documents as JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gapmf.errors import InvalidInputError
from gapmf.storage.archive import check_parent_folder, write_atomically

Columns = Mapping[str, Any]
"""Columns of equal length, by name: arrays or lists."""

SUFFIXES = (".csv", ".tsv", ".json", ".parquet")


def check_output(path: Path | None, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Refuse a file that cannot be written, before the work is done."""
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise InvalidInputError(f"{path}: the name must end in {', '.join(suffixes)}")
    check_parent_folder(path)
    if path.suffix.lower() == ".parquet":
        _parquet_writer()


def write_table(columns: Columns, path: Path) -> None:
    """Write a table to a file, in the format that its suffix names."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        write = _parquet_writer()
        write_atomically(path, lambda temporary: write(columns, temporary))
    elif suffix == ".json":
        write_text(to_json(to_records(columns)), path)
    else:
        write_text(to_csv(columns, "\t" if suffix == ".tsv" else ","), path)


def write_text(text: str, path: Path) -> None:
    """Write a text file. An earlier file is replaced when the new one is complete."""
    write_atomically(path, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


def to_csv(columns: Columns, delimiter: str = ",") -> str:
    r"""Format a table as CSV, with a header.

    >>> to_csv({"sample": ["a", "b"], "count": [1, 2]}, ";")
    'sample;count\na;1\nb;2\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*map(_to_list, columns.values()), strict=True))
    return text.getvalue()


def to_json(content: Any) -> str:
    r"""Format a JSON document. Arrays become lists; NaN and infinity become null.

    >>> to_json({"x": float("nan")})
    '{\n "x": null\n}\n'
    """
    return json.dumps(_to_plain(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def to_records(columns: Columns) -> list[dict[str, Any]]:
    """Return one dict per row."""
    rows = zip(*map(_to_list, columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _to_list(values: Any) -> list[Any]:
    values = values.tolist() if hasattr(values, "tolist") else values
    return [_to_unicode(value) if isinstance(value, str) else value for value in values]


def _to_unicode(text: str) -> str:
    r"""Escape what is not Unicode: a name of a file that is not UTF-8 has surrogates in it.

    >>> print(_to_unicode("caf\udce9.txt"))
    caf\udce9.txt
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_to_plain(key): _to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _to_plain(value.tolist())
    if isinstance(value, str):
        return _to_unicode(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parquet_writer() -> Callable[[Columns, str], Any]:
    """Return a function that writes Parquet. It fails early if pyarrow is not installed."""
    try:
        import pandas
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise InvalidInputError(
            "Parquet needs pyarrow: pip install 'gapmf[parquet]', or write a .csv"
        ) from error
    return lambda columns, path: pandas.DataFrame(
        {name: _to_list(values) for name, values in columns.items()}
    ).to_parquet(path)
