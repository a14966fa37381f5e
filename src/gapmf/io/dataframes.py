"""Tables: CSV, TSV, Parquet and data frames, dense (a row per sample) or triplets (per entry).

All become data frames with columns 0, 1, …, to which one set of rules applies.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import column_values, explain, first_bad
from gapmf.errors import InvalidInputError, ReadError
from gapmf.io.table import Table, as_names, open_text, to_counts, turned
from gapmf.validation import shorten

# In small letters, and without "id" or "name" at their end: doc_id, docID and "Doc name" are doc.
_SAMPLE_TITLES = ("sample", "doc", "document", "cell", "barcode", "user", "obs", "row", "customer")
_FEATURE_TITLES = (
    "feature", "word", "term", "token", "gene", "item", "var", "column", "col",
    "song", "track", "artist", "movie", "product",
)  # fmt: skip
_IDS = re.compile(
    r"sample|(doc|document|cell|user|obs|row|customer)?[ _.-]?(id|ids|index|idx)|barcodes?"
)
_NUMBER = re.compile(
    r"[+-]?((\d{1,400}(\.\d{0,400})?|\.\d{1,400})(e[+-]?\d{1,4})?|inf(inity)?)", re.ASCII
)
_MISSING = ("", "na", "n/a", "nan", "null", "none", "-", "?")
_CHUNK_CELLS = 1 << 22

Row = tuple[int, list[str]]  # the number of its first line, and its cells


def find_triplets(titles: Sequence[str] | None) -> tuple[int, int, int] | None:
    """Find the columns of samples, features and counts, if the titles of three say so.

    >>> find_triplets(["count", "Doc ID", "word"]), find_triplets(["user", "item", "plays"])
    ((1, 2, 0), (0, 1, 2))
    """
    plain = [re.sub(r"[ _.-]?(id|name)$", "", title.strip().lower()) for title in titles or ()]
    samples = [f for f, title in enumerate(plain) if title in _SAMPLE_TITLES]
    features = [f for f, title in enumerate(plain) if title in _FEATURE_TITLES]
    if len(plain) != 3 or len(samples) != 1 or len(features) != 1:
        return None
    return samples[0], features[0], 3 - samples[0] - features[0]


def looks_like_number(text: str) -> bool:
    """Tell whether a cell holds a number, be it a count or not, or says that it is missing."""
    word = text.strip().lower()
    return word in _MISSING or _NUMBER.fullmatch(word) is not None


class _Source(NamedTuple):
    """A table in pieces, in which rows are found by number."""

    path: str
    titles: list[str] | None
    width: int
    chunks: Callable[[Sequence[int]], Iterator[Any]]  # frames, in which these columns are text
    find: Callable[[int], tuple[str, list[str]]]  # the place of a row, for errors, and its cells

    def fail(self, row: int, what: str) -> NoReturn:
        raise ReadError(f"{self.path}, {self.find(row)[0]}: {what}")

    def check(self, columns: dict[int, NDArray[Any]], start: int) -> None:
        """Refuse the first cell that is not a count, in rows that begin at `start`."""
        bad = [(at, f) for f, values in columns.items() if (at := first_bad(values)) is not None]
        if bad:
            row, f = min(bad)
            cell = self.find(start + row)[1][f].strip()
            value: Any = cell
            if looks_like_number(cell):
                value = None if cell.lower() in _MISSING else Decimal(cell)
            title = "" if self.titles is None else f" ({shorten(self.titles[f])})"
            hint = "; if these are sample, feature and count, set the option `layout` to triplets"
            what = f"column {f + 1}{title} {explain(value, shorten(cell))}"
            self.fail(start + row, what + (hint if self.width == 3 and len(columns) > 1 else ""))


def _read(source: _Source, layout: str | None, sample_names: bool | None, transpose: bool) -> Table:
    if not source.width:
        raise ReadError(f"{source.path} has no columns")
    order = find_triplets(source.titles)
    if layout == "dense" or (layout is None and order is None):
        return turned(_read_dense(source, sample_names), transpose)
    if transpose or sample_names is not None:
        raise InvalidInputError("transpose and sample_names are for dense tables, not triplets")
    if source.width != 3:
        raise ReadError(f"{source.path} has {source.width} columns: triplets have three")
    return _read_triplets(source, order or (0, 1, 2))


def _read_triplets(source: _Source, order: tuple[int, int, int]) -> Table:
    """Number samples and features in the order in which they first appear."""
    import pandas as pd

    known: tuple[dict[str, int], dict[str, int]] = ({}, {})
    pieces: list[list[NDArray[Any]]] = [[], [], []]
    n_rows = 0
    for chunk in source.chunks(order[:2]):
        counts = _numbers(chunk[order[2]])
        source.check({order[2]: counts}, n_rows)
        for piece, f, labels in zip(pieces, order, known, strict=False):
            codes, unique = pd.factorize(chunk[f])
            empty = np.array([not label.strip() for label in unique])[codes]
            if empty.any():
                source.fail(n_rows + int(empty.argmax()), f"column {f + 1} is empty: give a name")
            piece.append(np.array([labels.setdefault(u, len(labels)) for u in unique])[codes])
        pieces[2].append(counts.astype(np.int64))
        n_rows += len(chunk)
    samples, features = map(as_names, known)
    rows, columns, values = (np.concatenate([np.empty(0, np.int64), *piece]) for piece in pieces)
    matrix = sp.coo_array((values, (rows, columns)), shape=(len(samples), len(features)))
    return Table(to_counts(matrix, source.path), features, samples)


def _read_dense(source: _Source, sample_names: bool | None) -> Table:
    """Read the counts of all columns; the first is text until it is known what it holds."""
    import pandas as pd

    titles, width = source.titles, source.width
    first: list[str] = []
    blocks = [sp.csr_array((0, width - 1), dtype=np.int64)]
    for chunk in source.chunks((0,)):
        columns = {f: _numbers(chunk[f]) for f in range(1, width)}
        source.check(columns, len(first))
        first += chunk[0].tolist()
        block = np.empty((len(chunk), width - 1), dtype=np.int64)
        for f, values in columns.items():
            block[:, f - 1] = values
        blocks.append(sp.csr_array(block))
    counts = sp.vstack(blocks, format="csr")
    if _has_names(source, first, sample_names):
        if width == 1:
            raise ReadError(
                f"{source.path} has a single column, of names: expected columns of counts; set the "
                "option `delimiter` if they are not separated by commas (.csv) or tabs (.tsv)"
            )
        features = None if titles is None else as_names(titles[1:])
        return Table(to_counts(counts, source.path), features, as_names(first))
    values = _numbers(pd.Series(first, dtype=object))
    source.check({0: values}, 0)
    leading = sp.csr_array(values.astype(np.int64).reshape(-1, 1))
    counts = to_counts(sp.hstack([leading, counts], format="csr"), source.path)
    return Table(counts, None if titles is None else as_names(titles), None)


def _has_names(source: _Source, first: list[str], sample_names: bool | None) -> bool:
    """Decide whether the first column holds names of samples."""
    if sample_names is not None:
        return sample_names
    title = None if source.titles is None else source.titles[0]
    if title is not None and not title.strip():
        return True
    numbers = [looks_like_number(cell) for cell in first]
    ids = title is not None and _IDS.fullmatch(title.strip().lower()) is not None
    if all(numbers):
        return ids and len(set(first)) == len(first) > 1
    if any(numbers) and title is not None and not ids:
        at = numbers.index(False)
        source.fail(
            at,
            f"column 1 ({shorten(title)}) has {shorten(first[at])}, and numbers elsewhere: correct "
            "the cell if these are counts, or set the option `sample_names` if they are names",
        )
    return True


def _numbers(column: Any) -> NDArray[Any]:
    """Return the numbers of a column, NaN where a cell holds something else."""
    import pandas as pd

    if column.dtype.kind not in "iuf":
        column = pd.to_numeric(column.astype(str), errors="coerce")
    return np.asarray(column.to_numpy())


def read_parquet(path: str, **options: Any) -> Table:
    """Read a Parquet file by pandas and pyarrow."""
    import pandas as pd

    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(
            ".parquet files need the package pyarrow: pip install 'gapmf[parquet]'"
        ) from error
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
) -> Table:
    """Read a pandas or polars frame; its index or first column of text names the samples."""
    import pandas as pd

    titles = [str(title) for title in frame.columns]
    columns = [column_values(frame, f) for f in range(len(titles))]
    columns = [values + 0 if values.dtype.kind == "b" else values for values in columns]
    if layout != "triplets" and find_triplets(titles) is None and sample_names is not False:
        texts = [f for f, values in enumerate(columns) if _is_text(values)]
        if len(getattr(frame, "index", ())) and list(frame.index) != list(range(len(frame))):
            titles, columns = ["", *titles], [as_names(frame.index), *columns]
        elif texts:
            columns.insert(0, columns.pop(texts[0]))
            titles = ["", *titles[: texts[0]], *titles[texts[0] + 1 :]]
    plain = pd.DataFrame(dict(enumerate(columns)), copy=False)

    def chunks(texts: Sequence[int]) -> Iterator[Any]:
        for f in texts:
            if plain[f].isna().any():
                source.fail(int(plain[f].isna().argmax()), f"column {f + 1} {explain(None)}")
        step = max(1, _CHUNK_CELLS // len(columns))
        for start in range(0, len(plain), step):
            yield plain[start : start + step].astype(dict.fromkeys(texts, str))

    def find(row: int) -> tuple[str, list[str]]:
        return f"row {row} (from 0)", [str(values[row]) for values in columns]

    source = _Source(path, titles, len(columns), chunks, find)
    return _read(source, layout, sample_names, transpose)


def _is_text(values: NDArray[Any]) -> bool:
    import pandas as pd

    kind = pd.api.types.infer_dtype(values, skipna=True) if values.dtype.kind == "O" else ""
    return kind in ("string", "empty")


def read_delimited(
    path: str,
    *,
    delimiter: str = ",",
    layout: str | None = None,
    header: bool | None = None,
    sample_names: bool | None = None,
    transpose: bool = False,
    encoding: str = "utf-8",
) -> Table:
    """Read a table of text; as R writes it, the first row may lack the first of its cells."""

    def rows() -> Generator[Row, None, None]:
        return _rows(path, delimiter, encoding)

    with closing(rows()) as first_rows:
        top, below = next(first_rows, None), next(first_rows, None)
    if top is None:
        raise ReadError(f"{path} is empty: expected a row of names, then rows of counts")
    titles = None if header is False else _find_titles(path, top, below, layout, header)
    width = len(top[1] if titles is None else titles)
    start = top if titles is None else below

    def check_width(line: int, cells: list[str]) -> None:
        if len(cells) != width:
            raise ReadError(
                f"{path}, line {line}: expected {width} cells, as in the rows above, but found "
                f"{len(cells)}"
            )

    def find(row: int) -> tuple[str, list[str]]:
        line, cells = next(islice(rows(), row + (titles is not None), None))
        check_width(line, cells)
        return f"line {line}", cells

    def chunks(texts: Sequence[int]) -> Iterator[Any]:
        import pandas as pd

        if start is None:
            return
        check_width(*start)  # more cells in the first row are an index to pandas
        with open_text(path, encoding, newline="") as stream:
            for _ in range(start[0] - 1):
                stream.readline()
            try:
                for chunk in pd.read_csv(
                    stream, sep=delimiter, header=None, names=range(width + 1), engine="c",
                    dtype=dict.fromkeys((*texts, width), str), na_filter=False, low_memory=False,
                    chunksize=max(1, _CHUNK_CELLS // width),
                ):  # fmt: skip
                    if chunk[width].any():  # else pandas drops cells from a chunk's first row
                        raise pd.errors.ParserError
                    yield chunk
            except pd.errors.ParserError:  # too many cells, or quotes without an end
                for line, cells in islice(rows(), titles is not None, None):
                    check_width(line, cells)
                raise

    return _read(_Source(path, titles, width, chunks, find), layout, sample_names, transpose)


def _find_titles(
    path: str, top: Row, below: Row | None, layout: str | None, header: bool | None
) -> list[str]:
    """Return the first row as titles, unless it may be something else."""
    line, titles = top
    triplets = layout == "triplets" or find_triplets(titles) is not None
    if below is not None and len(below[1]) == len(titles) + 1 and not triplets:
        return ["", *titles]
    certain = header or find_triplets(titles) or (len(titles) > 1 and not titles[0].strip())
    cells = titles[2:] if triplets else titles[1:] or titles
    if not certain and all(map(looks_like_number, cells)):
        raise ReadError(
            f"{path}, line {line}: has numbers, {shorten(titles)}, where names of columns were "
            "expected: set the option `header`, true for names or false for counts"
        )
    return titles


def _rows(path: str, delimiter: str, encoding: str) -> Generator[Row, None, None]:
    """Yield the rows that are not blank: slow, for the first two and for errors."""
    with open_text(path, encoding, newline="") as stream:
        reader = csv.reader(stream, delimiter=delimiter, strict=True)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                line = max(line, reader.line_num)
                raise ReadError(f"{path}, line {line}: is not a row of cells ({error})") from None
            if len(cells) > 1 or (cells and cells[0].strip()):
                yield line, cells
