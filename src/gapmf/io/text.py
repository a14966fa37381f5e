"""Documents: a file with one a line, or a folder with one a .txt file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.errors import InvalidInputError, ReadError
from gapmf.io.parsing import looks_like_number
from gapmf.io.source import BLOCK, Source, check_encoding
from gapmf.io.table import Table, as_names
from gapmf.validation import shorten

SUFFIXES = (".txt", ".txt.gz")


def read_text(
    path: str, *, vocab: str | None = None, encoding: str | None = None, **words: Any
) -> Table:
    r"""Count the words of documents, by scikit-learn's CountVectorizer.

    Parameters
    ----------
    path : str
        A file with a document a line (an empty line is a document without words; empty lines at
        its end are dropped), or a folder with a document a .txt (or .txt.gz) file, in the order
        of their names, which become the names of the samples.
    vocab : str, optional
        A file with the words to count, a line each: these and no others, in their order.
    encoding : str, optional
        UTF-8 by default.
    **words
        `lowercase`, `stop_words`, `token_pattern`, `ngram_range`, `min_df`, `max_df`,
        `max_features`: those of CountVectorizer.

    Examples
    --------
    >>> import os, tempfile
    >>> from gapmf.io.text import read_text
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "zoo.txt")
    ...     with open(path, "w") as file:
    ...         _ = file.write("An ape met an ape.\nA bee!\n")
    ...     counts, features, samples = read_text(path, stop_words="english")
    >>> print(counts.toarray(), features)
    [[2 0 1]
     [0 1 0]] ['ape' 'bee' 'met']
    """
    coding = check_encoding(encoding)
    vocabulary = None if vocab is None else _read_vocabulary(os.fspath(vocab), coding)
    samples = None
    if os.path.isdir(path):
        names = documents_in(path)
        if not names:
            raise ReadError(f"{path} has no .txt file: expected a folder with a document a file")
        samples = as_names(names)
        paths = (os.path.join(path, name) for name in names)
        documents: Iterator[str] = (_read_whole(file, coding) for file in paths)
    else:
        documents = _documents(path, coding)
    counts, features = _count_words(path, documents, vocabulary, words)
    return Table(counts, as_names(features), samples)


def refuse_tables(path: str) -> None:
    """Refuse a .txt whose lines are rows of numbers: it was not meant as documents."""
    with Source(path) as source:
        lines = [line.decode("latin-1") for _, line in islice(source.lines(), 20)]
    rows = [line for line in lines if line.strip()]
    for delimiter, kind in (("\t", "tsv"), (",", "csv"), (";", "csv")):
        cells = [row.split(delimiter)[1:] for row in rows[1:]]
        found = [looks_like_number(cell) for row in cells for cell in row]
        even = len(rows) > 2 and len({len(row) for row in cells}) == 1
        if even and len(found) > 1 and sum(found) >= 0.9 * len(found):
            raise ReadError(
                f"{path} looks like a table, with {delimiter!r} between its cells: say "
                f"format={kind!r}, or format='text' if its lines are documents"
            )


def documents_in(folder: str) -> list[str]:
    """The names of the documents in a folder, in order."""
    return sorted(
        name
        for name in os.listdir(folder)
        if name.lower().endswith(SUFFIXES) and os.path.isfile(os.path.join(folder, name))
    )


def _documents(path: str, encoding: str) -> Iterator[str]:
    """The lines of a file, but for empty ones at its end."""
    with Source(path) as source:
        n_blank = 0
        for _, text in source.texts(encoding):
            if not text.strip():
                n_blank += 1
                continue
            for _ in range(n_blank):
                yield ""
            n_blank = 0
            yield text


def _read_whole(path: str, encoding: str) -> str:
    """A file as one text."""
    with Source(path) as source:
        pieces = []
        while piece := source.read(BLOCK):
            pieces.append(piece)
    data = b"".join(pieces)
    try:
        return data.decode(encoding)
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = data.count(b"\n", 0, start) + 1
        raise ReadError(
            f"{path}, line {line}: byte {start + 1} of the file, {data[start : start + 1]!r}, is "
            f"not {encoding}: if the file is in another encoding, name it (encoding='latin-1')"
        ) from None


def _read_vocabulary(path: str, encoding: str) -> list[str]:
    """The words of a file, each once."""
    words: dict[str, int] = {}
    with Source(path) as source:
        for number, word in source.texts(encoding):
            if not word.strip():
                continue
            if word in words:
                source.fail(number, f"{shorten(word)} is in line {words[word]}, too")
            words[word] = number
    if not words:
        raise ReadError(f"{path} is empty: expected the words to count, a line each")
    return list(words)


def _count_words(
    path: str, documents: Iterator[str], vocabulary: list[str] | None, words: dict[str, Any]
) -> tuple[sp.csr_array, list[str]]:
    """The counts, and the words that they are of."""
    from sklearn.feature_extraction.text import CountVectorizer

    first = next(documents, None)
    if first is None:
        raise ReadError(f"{path} is empty: expected a document a line")
    n_seen = 0

    def counted() -> Iterator[str]:
        nonlocal n_seen
        for n_seen, document in enumerate(chain([first], documents), 1):  # noqa: B007
            yield document

    vectorizer = CountVectorizer(vocabulary=vocabulary, dtype=np.int64, **words)
    try:
        counts = sp.csr_array(vectorizer.fit_transform(counted()))
    except (ReadError, OSError):
        raise
    except (ValueError, TypeError, re.error) as error:
        if n_seen == 0:  # scikit-learn looks at its options first
            raise InvalidInputError(f"options of CountVectorizer: {error}") from None
        raise ReadError(f"{path}: no words to count in {n_seen} documents: {error}") from None
    counts.sort_indices()
    return counts, list(vectorizer.get_feature_names_out())
