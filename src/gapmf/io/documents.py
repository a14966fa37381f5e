"""Documents: UCI bags of words (``docword.NAME.txt``), and text whose words are counted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.errors import ReadError
from gapmf.io import table
from gapmf.validation import shorten

DOCWORD, TEXT = r"docword.*\.txt(\.gz)?", r".*\.txt(\.gz)?"  # names of files


def read_uci(path: str, *, vocab: str | None = None, encoding: str = "utf-8") -> table.Table:
    """Read the sizes N, F, NNZ, one per line, then NNZ lines 'document word count', from 1."""
    path, (N, F, n_entries), features = read_uci_head(path, vocab, encoding)
    counts = table.to_counts(table.read_entries(path, 3, (N, F), n_entries), f"{path}, X")
    return table.Table(counts, features, None)


def read_uci_head(
    path: str, vocab: str | None, encoding: str
) -> tuple[str, tuple[int, int, int], table.Names | None]:
    """Return the path of the file, the sizes at its top, and the names of the words."""
    path = table.find_one(path, DOCWORD, "docword.NAME.txt")
    name = os.path.basename(path)
    if vocab is None and name.lower().startswith("docword"):
        vocab = table.find_beside(path, ["vocab" + name[len("docword") :].removesuffix(".gz")])
    head = _head(path, 3)
    if not all(map(str.isdigit, head)):
        raise ReadError(
            f"{path} must begin with N, F and NNZ (the numbers of documents, of words and of "
            f"entries), one per line, but begins with {shorten(head)}"
        )
    N, F, n_entries = map(int, head)
    names = table.read_names(vocab, F, f"features in {path}", encoding)
    return path, (N, F, n_entries), names


def looks_like_uci(path: str) -> bool:
    """Tell whether each of the first three lines of a text is a number."""
    return all(map(str.isdigit, _head(path, 3)))


def _head(path: str, n_lines: int) -> list[str]:
    """Return the first lines of a text, stripped; if it has fewer, the last ones are empty."""
    lines = [line.strip() for line in islice(table.read_lines(path, errors="replace"), n_lines)]
    return lines + [""] * (n_lines - len(lines))


def read_text(
    path: str, *, vocab: str | None = None, encoding: str = "utf-8", **options: Any
) -> table.Table:
    """Count the words of documents: one per line of a file, or one per .txt file of a folder."""
    from sklearn.feature_extraction.text import CountVectorizer

    words = None if vocab is None else list(filter(str.strip, table.read_lines(vocab, encoding)))
    samples = table.as_names(table.files_in(path, TEXT)) if os.path.isdir(path) else None
    read = table.read_text_lines if samples is None else _read_files
    vectorizer = CountVectorizer(vocabulary=words, dtype=np.int64, **options)
    try:
        counts = sp.csr_array(vectorizer.fit_transform(read(path, encoding)))
    except ReadError:
        raise
    except ValueError as error:  # an option that cannot be, or no words that are left
        raise ReadError(f"{path}: {error}") from None
    counts.sort_indices()
    return table.Table(counts, table.as_names(vectorizer.get_feature_names_out()), samples)


def _read_files(folder: str, encoding: str) -> Iterator[str]:
    for name in table.files_in(folder, TEXT):
        with table.open_text(os.path.join(folder, name), encoding) as stream:
            yield stream.read()


def refuse_tables(path: str) -> None:
    """Refuse a .txt whose lines are rows of numbers: it is not meant as documents."""
    rows = list(filter(None, _head(path, 20)))
    for delimiter, kind in (("\t", "tsv"), (",", "csv"), (";", "csv")):
        cells = [row.split(delimiter)[1:] for row in rows[1:]]
        numbers = [bool(table.NUMBER.fullmatch(cell.strip())) for row in cells for cell in row]
        if len(rows) > 2 and len(set(map(len, cells))) == 1 and len(numbers) > 1 and all(numbers):
            raise ReadError(
                f"{path} looks like a table with {delimiter!r} between its cells: set the option "
                f"`format` to {kind}, or to text if its lines are documents"
            )
