"""MatrixMarket files (.mtx), alone or with the name files of a 10x folder beside them."""

from __future__ import annotations

import os
import re

from gapmf.errors import ReadError
from gapmf.io.market_body import Header, read_dense, read_sparse
from gapmf.io.names import check_name_file, find_beside, read_names
from gapmf.io.source import Source, check_encoding
from gapmf.io.table import Table, check_side
from gapmf.validation import shorten

_WORDS = (
    ("coordinate", "array"),
    ("integer", "unsigned-integer", "real", "double", "pattern"),
    ("general", "symmetric"),
)
_BANNER = "%%MatrixMarket matrix coordinate integer general"
_MOST_COMMENTS = 1_000_000  # lines
_MATRIX = re.compile(r"(.*)matrix\.mtx(\.gz)?", re.IGNORECASE | re.DOTALL)
FEATURE_FILES = ("features.tsv", "genes.tsv")
SAMPLE_FILES = ("barcodes.tsv",)


def read_market(
    path: str,
    *,
    vocab: str | None = None,
    transpose: bool | None = None,
    encoding: str | None = None,
) -> Table:
    r"""Read a MatrixMarket file, or a folder with one and its name files, as 10x writes it.

    Coordinates or a dense array; integer, real (whole) or pattern (ones); general or symmetric.
    Entries of the same place are added up.

    If there are ``features.tsv`` (or ``genes.tsv``) and ``barcodes.tsv``, or ``.gz`` of these,
    beside the file, they name features and samples, and the matrix is taken as features ×
    samples: that is 10x's convention. Beside ``PREFIXmatrix.mtx`` their names begin with PREFIX,
    too. The second column of ``features.tsv``, its symbols, gives the names, where it has one.

    Parameters
    ----------
    path : str
        A file, or a folder with exactly one .mtx (or .mtx.gz).
    vocab : str, optional
        A file with the names of the features, a line each, instead of ``features.tsv``.
    transpose : bool, optional
        Whether the file is features × samples. By default only with the name files of 10x.
    encoding : str, optional
        Of the name files; UTF-8 by default.

    Examples
    --------
    >>> import os, tempfile
    >>> from gapmf.io.market import read_market
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "zoo.mtx")
    ...     with open(path, "w") as file:
    ...         _ = file.write("%%MatrixMarket matrix coordinate integer general\n")
    ...         _ = file.write("2 3 1\n1 3 7\n")
    ...     read_market(path).counts.toarray()
    array([[0, 0, 7],
           [0, 0, 0]])
    """
    coding = check_encoding(encoding)
    vocab = check_name_file(vocab)
    if os.path.isdir(path):
        path = matrix_in(path)
    feature_file, sample_file = _names_beside(path, transpose)
    if transpose is None:
        transpose = feature_file is not None and sample_file is not None
    feature_file = vocab or feature_file
    with Source(path) as source:
        header = _read_header(source)
        shape = (header.n_rows, header.n_columns)
        if transpose:
            shape = shape[::-1]
        features = samples = None
        if feature_file is not None:
            column = None if vocab else 1
            features = read_names(feature_file, shape[1], f"features in {path}", coding, column)
        if sample_file is not None:
            samples = read_names(sample_file, shape[0], f"samples in {path}", coding, 0)
        entries = read_dense(source, header) if header.dense else read_sparse(source, header)
        if transpose:
            entries.transpose()
        return Table(entries.to_counts(path, shape), features, samples)


def matrix_in(folder: str) -> str:
    """The one MatrixMarket file of a folder."""
    found = matrices_in(folder)
    if len(found) != 1:
        listed = ", ".join(found) or "none"
        raise ReadError(
            f"{folder} must have exactly one .mtx or .mtx.gz, but has {listed}: name the file"
        )
    return os.path.join(folder, found[0])


def matrices_in(folder: str) -> list[str]:
    """The MatrixMarket files of a folder."""
    return sorted(name for name in os.listdir(folder) if name.lower().endswith((".mtx", ".mtx.gz")))


def _names_beside(path: str, transpose: bool | None) -> tuple[str | None, str | None]:
    """The files with the names of features and of samples that are beside a matrix."""
    parts = _MATRIX.fullmatch(os.path.basename(path))
    prefix = "" if parts is None else parts[1]
    found = [
        find_beside(path, [prefix + name for name in names])
        for names in (FEATURE_FILES, SAMPLE_FILES)
    ]
    if transpose is None and (found[0] is None) != (found[1] is None):
        there, missing = (found[0], "barcodes.tsv") if found[0] else (found[1], "features.tsv")
        raise ReadError(
            f"{there} is beside {path}, but no {missing}: with both, the matrix is features × "
            "samples; with one alone, say so by transpose=True or False"
        )
    return found[0], found[1]


def _read_header(source: Source) -> Header:
    """The first line, which says what kind of matrix follows, and the line with its size."""
    layout, field, symmetry = _read_banner(source)
    line = source.next_line()
    while line is not None and (not line.strip() or line.lstrip().startswith(b"%")):
        if source.line > _MOST_COMMENTS:
            source.fail(source.line, "is still a comment: where is the size of the matrix?")
        line = source.next_line()
    dense, symmetric = layout == "array", symmetry == "symmetric"
    names = ("rows", "columns") if dense else ("rows", "columns", "entries")
    parts = [] if line is None else line.split()
    if len(parts) != len(names) or not all(p.isdigit() and len(p) <= 18 for p in parts):
        found = "the file ends" if line is None else f"found {shorten(line)}"
        source.fail(
            source.line + (line is None),
            f"expected the size, '{' '.join(names)}', {len(names)} whole numbers, but {found}",
        )
    n_rows, n_columns, *rest = (int(part) for part in parts)
    for name, size in (("rows", n_rows), ("columns", n_columns)):
        check_side(source.path, source.line, f"the number of {name}", size)
    if symmetric and n_rows != n_columns:
        source.fail(source.line, f"a symmetric matrix is square, not {n_rows} × {n_columns}")
    if not dense:
        n_entries = rest[0]
    else:
        n_entries = n_rows * (n_rows + 1) // 2 if symmetric else n_rows * n_columns
    return Header(dense, field == "pattern", symmetric, n_rows, n_columns, n_entries)


def _read_banner(source: Source) -> tuple[str, str, str]:
    banner = source.next_line()
    if banner is None:
        raise ReadError(f"{source.path} is empty: a MatrixMarket file begins with '{_BANNER}'")
    words = banner.decode("latin-1").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        source.fail(1, f"expected a line like '{_BANNER}', but found {shorten(banner)}")
    for word, known in zip(words[2:], _WORDS, strict=True):
        if word not in known:
            listed = ", ".join(known)
            source.fail(1, f"expected one of {listed} in a file of counts, but found {word!r}")
    _, _, layout, field, symmetry = words
    if layout == "array" and field == "pattern":
        source.fail(1, "a pattern lists places, so it must be 'coordinate', not 'array'")
    return layout, field, symmetry
