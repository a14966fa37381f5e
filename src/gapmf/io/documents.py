"""Documents: UCI bags of words (``docword.NAME.txt``), and text whose words are counted."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import LARGEST_COUNT, first_bad
from gapmf.errors import ReadError
from gapmf.io import table
from gapmf.validation import shorten

DOCWORD, TEXT = r"docword.*\.txt(\.gz)?", r".*\.txt(\.gz)?"  # names of files
_SIZES = (("N", "documents"), ("F", "words in the vocabulary"), ("NNZ", "entries"))
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)


def read_uci(path: str, *, vocab: str | None = None, encoding: str = "utf-8") -> table.Table:
    """Read the sizes N, F, NNZ, one per line, then NNZ lines 'document word count', from 1."""
    path = table.find_one(path, DOCWORD, "docword.NAME.txt")
    name = os.path.basename(path)
    if vocab is None and name.lower().startswith("docword"):
        vocab = table.find_beside(path, ["vocab" + name[len("docword") :].removesuffix(".gz")])
    N, F, nnz = _read_sizes(path)
    features = (
        None if vocab is None else table.read_names(vocab, F, f"features in {path}", encoding)
    )
    entries = _read_entries(path, N, F, nnz)
    places = (entries[:, 0] - 1, entries[:, 1] - 1)
    counts = table.to_counts(sp.coo_array((entries[:, 2], places), shape=(N, F)), f"{path}, X")
    return table.Table(counts, features, None)


def looks_like_uci(path: str) -> bool:
    """Tell whether a text begins with one number on each of three lines, then three on one."""
    with table.open_text(path, errors="replace") as stream:
        head = [line.split() for line in islice(stream, 4)]
    numbers = all(part.isascii() and part.isdigit() for line in head for part in line)
    return numbers and [*map(len, head)] in ([1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 3])


def _read_sizes(path: str) -> list[int]:
    sizes = []
    with table.open_text(path) as stream:
        for number, (name, meaning) in enumerate(_SIZES, 1):
            text = stream.readline().strip()
            if re.fullmatch(r"\d{1,18}", text, re.ASCII) is None:
                raise ReadError(
                    f"{path}, line {number}: expected {name}, the number of {meaning}, alone on "
                    f"the line, but found {shorten(text)}: a UCI file begins with N, F and NNZ"
                )
            sizes.append(int(text))
    return sizes


def _read_entries(path: str, N: int, F: int, nnz: int) -> NDArray[np.int64]:
    """Read the lines below the header; counts such as 3.0 take a second pass, by float64."""
    table.check_fits(path, nnz)
    for dtype in (np.int64, np.float64):
        with table.open_text(path) as stream, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*contained no data")
            for _ in _SIZES:
                stream.readline()
            try:  # one row more than announced shows whether the file has more
                entries: Any = np.loadtxt(stream, dtype, comments=None, max_rows=nnz + 1, ndmin=2)
            except UnicodeDecodeError:
                raise
            except ValueError:
                continue
        entries = entries if entries.size else np.empty((0, 3), np.int64)
        if entries.shape == (nnz, 3) and first_bad(entries.reshape(-1)) is None:
            places = entries[:, :2]
            if (places >= 1).all() and (places <= (N, F)).all():
                return np.asarray(entries, np.int64)
        break
    raise ReadError(path + _find_fault(path, N, F, nnz))


def _find_fault(path: str, N: int, F: int, nnz: int) -> str:
    """Say which line of a UCI file is wrong: slow, and only for files that are."""
    n_entries = 0
    for number, line in enumerate(table.read_lines(path), 1):
        parts = line.split()
        if number <= len(_SIZES) or not parts:
            continue
        n_entries += 1
        numbers = [float(part) if _NUMBER.fullmatch(part) else np.nan for part in parts]
        if len(parts) != 3 or not all(x.is_integer() and 0 <= x < LARGEST_COUNT for x in numbers):
            return (
                f", line {number}: expected 'document word count', three whole numbers from 0 to "
                f"2**53, but found {shorten(line)}: give raw counts"
            )
        for value, size, what in zip(numbers, (N, F), ("document", "word"), strict=False):
            if not 1 <= value <= size:
                return f", line {number}: {what} is {value:g}, but the header allows 1 to {size}"
        if n_entries > nnz:
            return f", line {number}: is entry {n_entries}, but the header announces {nnz}"
    return f" ends with {n_entries} of the {nnz} entries that its header announces"


def read_text(
    path: str, *, vocab: str | None = None, encoding: str = "utf-8", **options: Any
) -> table.Table:
    """Count the words of documents: one per line of a file, or one per .txt file of a folder."""
    from sklearn.feature_extraction.text import CountVectorizer

    words = None
    if vocab is not None:
        words = [word for word in table.read_lines(vocab, encoding) if word.strip()]
    samples, documents = None, _read_documents(path, encoding)
    if os.path.isdir(path):
        names = table.files_in(path, TEXT)
        samples, documents = table.as_names(names), _read_files(path, names, encoding)
    vectorizer = CountVectorizer(vocabulary=words, dtype=np.int64, **options)
    counts = sp.csr_array(vectorizer.fit_transform(documents))
    counts.sort_indices()
    return table.Table(counts, table.as_names(vectorizer.get_feature_names_out()), samples)


def refuse_tables(path: str) -> None:
    """Refuse a .txt whose lines are rows of numbers: it is not meant as documents."""
    with table.open_text(path, errors="replace") as stream:
        rows = [line for line in islice(stream, 20) if line.strip()]
    for delimiter, kind in (("\t", "tsv"), (",", "csv"), (";", "csv")):
        cells = [row.split(delimiter)[1:] for row in rows[1:]]
        found = [_NUMBER.fullmatch(cell) is not None for row in cells for cell in row]
        even = len(rows) > 2 and len({len(row) for row in cells}) == 1
        if even and len(found) > 1 and sum(found) >= 0.9 * len(found):
            raise ReadError(
                f"{path} looks like a table with {delimiter!r} between its cells: set the option "
                f"`format` to {kind}, or to text if its lines are documents"
            )


def _read_documents(path: str, encoding: str) -> Iterator[str]:
    """Yield the lines of a file, except for empty ones at its end."""
    n_blank = 0
    for line in table.read_lines(path, encoding):
        n_blank += 1
        if line.strip():
            yield from [""] * (n_blank - 1)
            yield line
            n_blank = 0


def _read_files(folder: str, names: Iterable[str], encoding: str) -> Iterator[str]:
    for name in names:
        with table.open_text(os.path.join(folder, name), encoding) as stream:
            yield stream.read()
