"""Tables: CSV, TSV, Parquet and data frames, dense (a row per sample) or triplets (per entry)."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import column_values, explain, first_bad
from gapmf.errors import ReadError
from gapmf.io.table import NUMBER, Names, Table, as_names, open_text, to_counts, turned
from gapmf.validation import shorten

# In small letters, and without "id" etc. at their end: doc_id, docID and "Doc name" are doc.
_SAMPLES = ("sample", "doc", "document", "cell", "barcode", "user", "obs", "row", "customer")
_FEATURES = (
    "feature", "word", "term", "token", "gene", "item", "var", "column", "col",
    "song", "track", "artist", "movie", "product",
)  # fmt: skip
_MISSING = ("", "na", "n/a", "nan", "null", "none", "-", "?")
_CHUNK_CELLS = 1 << 22

Row = tuple[int, list[str]]  # the number of its first line, and its cells


def find_triplets(titles: Sequence[str] | None) -> tuple[int, int, int] | None:
    """Find the columns of samples, features and counts, if the titles of three say so.

    >>> find_triplets(["count", "Doc ID", "word"]), find_triplets(["user", "item", "plays"])
    ((1, 2, 0), (0, 1, 2))
    """
    plain = [_plain_title(title) for title in titles or ()]
    samples = [f for f, title in enumerate(plain) if title in _SAMPLES]
    features = [f for f, title in enumerate(plain) if title in _FEATURES]
    if len(plain) != 3 or len(samples) != 1 or len(features) != 1:
        return None
    return samples[0], features[0], 3 - samples[0] - features[0]


def _plain_title(title: str) -> str:
    return re.sub(r"[ _.-]?(ids?|name|index|idx)$", "", title.strip().lower())


def _triplet_order(
    path: str, titles: list[str] | None, width: int, layout: str | None
) -> tuple[int, int, int] | None:
    """Return the columns of samples, features and counts, or None if the table is dense."""
    order = find_triplets(titles)
    if layout == "dense" or (layout is None and order is None):
        return None
    if width != 3:
        raise ReadError(
            f"{path} has {width} columns, but triplets have three: sample, feature and count"
        )
    return order or (0, 1, 2)


def _has_names(title: str | None, first: Collection[str], sample_names: bool | None) -> bool:
    """Decide whether the first column, with its title or None, holds the names of samples."""
    if sample_names is not None:
        return sample_names
    if title is not None and _plain_title(title) in ("", *_SAMPLES):
        return not title.strip() or len(set(first)) == len(first)
    return len(first) > 0 and not any(map(_is_number, first))


def _is_number(cell: str) -> bool:
    """Tell whether a cell holds a number, be it a count or not, or says that it is missing."""
    return cell.strip().lower() in _MISSING or NUMBER.fullmatch(cell.strip()) is not None


def _from_triplets(columns: Sequence[Any], fail: Callable[[int, int, str | None], object]) -> Table:
    """Number samples and features in the order in which they first appear.

    `fail` raises an error about a row of the first, second or third column.
    """
    import pandas as pd

    places, names = [], []
    for i in range(2):
        codes, unique = pd.factorize(columns[i])
        names.append(as_names(unique))
        blank = [-1, *(code for code, name in enumerate(names[i]) if not name.strip())]
        if (empty := np.isin(codes, blank)).any():
            fail(int(empty.argmax()), i, "is empty: give a name")
        places.append(codes)
    if (row := first_bad(columns[2])) is not None:
        fail(row, 2, None)
    values, shape = columns[2].astype(np.int64), (len(names[0]), len(names[1]))
    counts = to_counts(sp.coo_array((values, tuple(places)), shape=shape), "the table")
    return Table(counts, names[1], names[0])


def read_parquet(path: str, **options: Any) -> Table:
    """Read a Parquet file by pandas and pyarrow."""
    import pandas as pd

    with open(path, "rb") as file:  # of a path, a folder "key=value" would become a column
        frame = pd.read_parquet(file, engine="pyarrow")
    return read_frame(frame, path, **options)


def read_frame(
    frame: Any,
    path: str,
    *,
    layout: str | None = None,
    sample_names: bool | None = None,
    transpose: bool = False,
    leave_out: str | None = None,
) -> Table:
    """Read a pandas or polars frame; its index or first column may name the samples."""
    if leave_out is not None:
        _check_column(path, leave_out, frame.columns)
        kept = [title for title in frame.columns if str(title) != leave_out]
        frame = frame[kept]
    if layout != "dense":
        frame = _with_index_of_triplets(frame, layout)
    titles = [str(title) for title in frame.columns]
    order = _triplet_order(path, titles, len(titles), layout)
    if order is not None:
        import pandas as pd

        columns = [column_values(frame, f) for f in order]

        def fail(row: int, i: int, what: str | None) -> NoReturn:
            what = what or explain(columns[i][row])
            raise ReadError(f"{path}, row {row} (from 0): column {titles[order[i]]!r} {what}")

        counts = columns[2]
        if counts.dtype.kind in "OUST" and first_bad(counts) is not None:
            counts = _numbers(pd.Series(counts))  # from digits, as in a text file
        return turned(_from_triplets([*columns[:2], counts], fail), transpose)
    index = getattr(frame, "index", ())
    names: Iterable[Any] | None = None
    n_named = 0  # columns
    if sample_names is not False and list(index) != list(range(len(index))):
        names = index
    elif titles:
        first = as_names(column_values(frame, 0)).tolist()
        if _has_names(titles[0], first, sample_names):
            names, n_named = first, 1
    if n_named == len(titles):
        raise ReadError(f"{path} has no columns of counts")
    counts = frame.iloc[:, n_named:] if hasattr(frame, "iloc") else frame[:, n_named:]
    samples = None if names is None else as_names(names)
    table = Table(to_counts(counts, f"{path}, X"), as_names(titles[n_named:]), samples)
    return turned(table, transpose)


def _with_index_of_triplets(frame: Any, layout: str | None) -> Any:
    """Return a pandas frame with its index as columns, as in a CSV, if that makes it triplets."""
    levels = getattr(getattr(frame, "index", None), "names", [None])
    if None in levels or len(levels) + len(frame.columns) != 3:
        return frame
    whole = frame.reset_index(allow_duplicates=True)
    is_long = layout == "triplets" or find_triplets([str(title) for title in whole.columns])
    return whole if is_long else frame


@dataclass
class _TextTable:
    """A CSV or TSV file. pandas reads it; `csv` reads the first rows, and those with faults."""

    path: str
    delimiter: str
    encoding: str
    titles: list[str] | None = None
    width: int = 0
    start: int = 0  # the line of the first row of counts, if there is one

    def rows(self) -> Generator[Row, None, None]:
        """Yield the rows that are not blank: slow."""
        with open_text(self.path, self.encoding, newline="") as stream:
            line, reader = 1, csv.reader(stream, delimiter=self.delimiter)
            for cells in reader:
                if len(cells) > 1 or (cells and cells[0].strip()):
                    yield line, cells
                line = reader.line_num + 1

    def chunks(self, dtypes: dict[int, Any], n_rows: int | None) -> Iterator[Any]:
        """Yield frames of `n_rows` rows, or one of all, with columns 0, 1, …"""
        import pandas as pd

        if not self.start:
            yield pd.DataFrame(columns=range(self.width))
            return
        with open_text(self.path, self.encoding, newline="") as stream:
            for _ in range(self.start - 1):
                stream.readline()
            try:  # one more column shows whether a row has too many cells
                for chunk in pd.read_csv(
                    stream, sep=self.delimiter, header=None, names=range(self.width + 1),
                    dtype={self.width: str} | dtypes, na_filter=False, low_memory=False,
                    engine="c", chunksize=n_rows or sys.maxsize,
                ):  # fmt: skip
                    if chunk[self.width].any():
                        raise pd.errors.ParserError
                    yield chunk
            except pd.errors.ParserError:  # too many cells, or quotes without an end
                for row in islice(self.rows(), self.titles is not None, None):
                    self.check_width(row)
                raise

    def check_width(self, row: Row) -> None:
        if len(row[1]) != self.width:
            raise ReadError(
                f"{self.path}, line {row[0]}: expected {self.width} cells, as in the rows above, "
                f"but found {len(row[1])}"
            )

    def fail(self, row: int, f: int, what: str | None = None) -> NoReturn:
        """Raise an error about a cell, by default that it does not hold a count."""
        found = next(islice(self.rows(), row + (self.titles is not None), None))
        self.check_width(found)
        cell = found[1][f].strip()
        if what is None:
            value = None if cell.lower() in _MISSING else cell
            what = explain(Decimal(cell) if NUMBER.fullmatch(cell) else value, shorten(cell))
            if not _is_number(cell):
                what += "; if it is a name, set the options `layout` or `sample_names`"
        title = "" if self.titles is None else f" ({shorten(self.titles[f])})"
        raise ReadError(f"{self.path}, line {found[0]}: column {f + 1}{title} {what}")


def read_delimited(
    path: str,
    *,
    delimiter: str = ",",
    layout: str | None = None,
    header: bool | None = None,
    sample_names: bool | None = None,
    transpose: bool = False,
    encoding: str = "utf-8",
    leave_out: str | None = None,
) -> Table:
    """Read a table of text; as R writes it, the first row may lack the first of its cells."""
    text, order = _open_text_table(path, delimiter, layout, header, encoding)
    if leave_out is not None:
        _check_column(path, leave_out, [] if order else text.titles or [])
    if order is None:
        return turned(_read_dense(text, sample_names, leave_out), transpose)
    [frame] = text.chunks(dict.fromkeys(order[:2], "category"), None)
    columns = [frame[order[0]], frame[order[1]], _numbers(frame[order[2]])]
    table = _from_triplets(columns, lambda row, i, what: text.fail(row, order[i], what))
    return turned(table, transpose)


def _open_text_table(
    path: str, delimiter: str, layout: str | None, header: bool | None, encoding: str
) -> tuple[_TextTable, tuple[int, int, int] | None]:
    """Return a table whose titles are known, and the order of its columns if it has triplets."""
    text = _TextTable(path, delimiter, encoding)
    with closing(text.rows()) as rows:
        top, below = next(rows, None), next(rows, None)
    if top is None:
        raise ReadError(f"{path} is empty: expected a row of names, then rows of counts")
    text.titles = None if header is False else _find_titles(path, top, below, header)
    text.width = len(top[1] if text.titles is None else text.titles)
    if (start := top if text.titles is None else below) is not None:
        text.check_width(start)  # more cells in the first row are an index to pandas
        text.start = start[0]
    return text, _triplet_order(path, text.titles, text.width, layout)


def stream_delimited(
    path: str,
    *,
    delimiter: str = ",",
    layout: str | None = None,
    header: bool | None = None,
    sample_names: bool | None = None,
    encoding: str = "utf-8",
) -> tuple[int, Names | None, Iterator[tuple[sp.csr_array, Any]]] | None:
    """Return the number of features, their names, and blocks of samples; None for triplets."""
    text, order = _open_text_table(path, delimiter, layout, header, encoding)
    if order is not None:
        return None
    first = [cell for _, cells in _dense_blocks(text) for cell in cells]
    has_names = _first_column_is_names(text, first, sample_names)
    names = None if text.titles is None else as_names(text.titles[has_names:])

    def blocks() -> Iterator[tuple[sp.csr_array, Any]]:
        n_before = 0
        for counts, cells in _dense_blocks(text):
            if has_names:
                yield counts, as_names(cells)
            else:
                column = _first_column(text, cells, n_before)
                yield sp.hstack([column, counts], format="csr"), None
            n_before += len(cells)

    return text.width - has_names, names, blocks()


def _find_titles(path: str, top: Row, below: Row | None, header: bool | None) -> list[str]:
    """Return the first row as titles, unless it may be something else."""
    line, titles = top
    if below is not None and len(below[1]) == len(titles) + 1 and find_triplets(titles) is None:
        return ["", *titles]
    if not header and titles[0].strip() and _is_number(titles[-1]):
        raise ReadError(
            f"{path}, line {line}: ends with {titles[-1]!r}, where the name of a column was "
            "expected: set the option `header`, true for names or false for counts"
        )
    return titles


def _check_column(path: str, column: str, titles: Iterable[Any]) -> None:
    known = [str(title) for title in titles]
    if column not in known:
        columns = shorten(", ".join(known) or "none")
        raise ReadError(f"{path} has no column {column!r}; its columns are {columns}")


def read_column(
    path: str, column: str, *, parquet: bool, delimiter: str = ",", encoding: str = "utf-8"
) -> NDArray[np.float64] | None:
    """Read a column of numbers of a CSV, TSV or Parquet file by its title; None without any."""
    import pandas as pd

    if parquet:
        with open(path, "rb") as file:
            frame = pd.read_parquet(file, engine="pyarrow")
        if column not in frame.columns:
            return None
        values = _numbers(frame[column])
    else:
        text = _TextTable(path, delimiter, encoding)
        (_, titles), *cells = [*text.rows()] or [(1, [])]
        # As R writes it, the first row may lack the title of the names.
        text.titles = ["", *titles] if cells and len(cells[0][1]) == len(titles) + 1 else titles
        text.width = len(text.titles)
        if column not in text.titles:
            return None
        f = text.titles.index(column)
        for row in cells:
            text.check_width(row)
        values = _numbers(pd.Series([row[1][f] for row in cells], dtype=object))
        if (missing := np.flatnonzero(np.isnan(values.astype(float)))).size:
            text.fail(int(missing[0]), f, "is not a number")
    return values.astype(np.float64)


def _read_dense(text: _TextTable, sample_names: bool | None, leave_out: str | None) -> Table:
    """Read the counts of all columns; the first is text until it is known what it holds."""
    blocks = list(_dense_blocks(text, leave_out))
    first = [cell for _, cells in blocks for cell in cells]
    counts = sp.vstack([block for block, _ in blocks], format="csr")
    names = text.titles
    if names is not None:
        names = [names[0], *(names[f] for f in _columns_but(text, leave_out))]
        if names[0] == leave_out:
            return Table(counts, as_names(names[1:]), None)
    has_names = _first_column_is_names(text, first, sample_names)
    if not has_names:
        counts = sp.hstack([_first_column(text, first), counts], format="csr")
    features = None if names is None else as_names(names[has_names:])
    return Table(counts, features, as_names(first) if has_names else None)


def _columns_but(text: _TextTable, leave_out: str | None) -> list[int]:
    """Return the columns after the first, without one that is left out."""
    titles = text.titles
    return [f for f in range(1, text.width) if titles is None or titles[f] != leave_out]


def _dense_blocks(
    text: _TextTable, leave_out: str | None = None
) -> Iterator[tuple[sp.csr_array, list[str]]]:
    """Yield blocks of rows: the counts of all columns but the first, and the cells of that."""
    n_before, others = 0, _columns_but(text, leave_out)
    for chunk in text.chunks({0: str}, max(1, _CHUNK_CELLS // text.width)):
        try:
            yield to_counts(chunk[others].to_numpy(), text.path), chunk[0].tolist()
        except ReadError:
            bad = [(row, f) for f in others if (row := first_bad(_numbers(chunk[f]))) is not None]
            if bad:
                text.fail(n_before + min(bad)[0], min(bad)[1])
            raise
        n_before += len(chunk)


def _first_column_is_names(text: _TextTable, first: list[str], sample_names: bool | None) -> bool:
    title = None if text.titles is None else text.titles[0]
    if not _has_names(title, first, sample_names):
        return False
    if text.width == 1:
        raise ReadError(
            f"{text.path} has a single column, of names: is the option `delimiter` right?"
        )
    return True


def _first_column(text: _TextTable, cells: list[str], n_before: int = 0) -> sp.csr_array:
    """Return the first column as counts; n_before rows are above these cells."""
    import pandas as pd

    leading = _numbers(pd.Series(cells, dtype=object))
    if (row := first_bad(leading)) is not None:
        text.fail(n_before + row, 0)
    return sp.csr_array(leading.astype(np.int64).reshape(-1, 1))


def _numbers(column: Any) -> NDArray[Any]:
    """Return the numbers of a column, NaN where a cell holds something else."""
    import pandas as pd

    if column.dtype.kind not in "iuf":
        column = pd.to_numeric(column.astype(str), errors="coerce")
    return np.asarray(column.to_numpy())
