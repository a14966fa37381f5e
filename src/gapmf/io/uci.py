"""UCI's bag of words: ``docword.NAME.txt``, with ``vocab.NAME.txt`` beside it."""

from __future__ import annotations

import os
import re

from gapmf.io.names import check_name_file, find_beside, read_names
from gapmf.io.source import Source, check_encoding
from gapmf.io.table import Table, check_side
from gapmf.io.triplets import Promise, read_triplets
from gapmf.validation import shorten

_DOCWORD = re.compile(r"docword(.*?)(\.gz)?", re.IGNORECASE | re.DOTALL)
_HEADER = (("N", "documents"), ("F", "words in the vocabulary"), ("NNZ", "entries"))


def read_uci(path: str, *, vocab: str | None = None, encoding: str | None = None) -> Table:
    r"""Read the number of documents, of words, of entries, a line each, then the entries.

    An entry is a line ``document word count``, documents and words numbered from 1. Entries of
    the same document and word are added up.

    Parameters
    ----------
    path : str
    vocab : str, optional
        A file with the words, a line each. By default ``vocab.NAME.txt`` (or ``.gz``) beside
        ``docword.NAME.txt``; if there is none, features have no names.
    encoding : str, optional
        Of the vocabulary; UTF-8 by default.

    Examples
    --------
    >>> import os, tempfile
    >>> from gapmf.io.uci import read_uci
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "docword.zoo.txt")
    ...     with open(path, "w") as file:
    ...         _ = file.write("2\n3\n2\n1 1 4\n2 3 1\n")
    ...     read_uci(path).counts.toarray()
    array([[4, 0, 0],
           [0, 0, 1]])
    """
    coding = check_encoding(encoding)
    vocab = check_name_file(vocab) or vocabulary_beside(path)
    with Source(path) as source:
        N, F, nnz = (_read_size(source, *meaning) for meaning in _HEADER)
        features = None
        if vocab is not None:
            features = read_names(vocab, F, f"features in {path}", coding)
        promise = Promise(N, F, nnz, "document", "word")
        counts = read_triplets(source, promise).to_counts(path, (N, F))
    return Table(counts, features, None)


def vocabulary_beside(path: str) -> str | None:
    """The file with the words of ``docword.NAME.txt``, if it is there."""
    parts = _DOCWORD.fullmatch(os.path.basename(path))
    return None if parts is None else find_beside(path, [f"vocab{parts[1]}"])


def looks_like_uci(path: str) -> bool:
    """Whether a text begins with a number on each of three lines, and three on the fourth.

    Or ends before, where it would have to.
    """
    with Source(path) as source:
        head = [source.next_line() for _ in range(4)]
    fields = [None if line is None else line.split() for line in head]
    if any(line is None or len(line) != 1 or not line[0].isdigit() for line in fields[:3]):
        return False
    last = fields[3]
    return not last or (len(last) == 3 and all(part.isdigit() for part in last))


def _read_size(source: Source, name: str, meaning: str) -> int:
    """A number of the header, alone on its line."""
    line = source.next_line()
    text = b"" if line is None else line.strip()
    if not text.isdigit() or len(text) > 18:
        found = "the file ends" if line is None else f"found {shorten(line)}"
        source.fail(
            source.line + (line is None),
            f"expected {name}, the number of {meaning}, alone on the line, but {found}: a UCI file "
            "begins with N, F and NNZ on three lines",
        )
    size = int(text)
    if name != "NNZ":
        check_side(source.path, source.line, name, size)
    return size
