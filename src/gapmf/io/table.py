"""What every reader needs: the `Table` that it returns, text files, files of names."""

from __future__ import annotations

import gzip
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts
from gapmf.errors import InvalidInputError, ReadError
from gapmf.validation import shorten

Names = NDArray[np.object_]

# A sparse matrix takes memory per row, and a header of a few bytes may announce any number of
# rows. This many may be without counts; more only in proportion to the counts.
_FREE_SIDE = 10_000_000
_SIDE_PER_COUNT = 100
_DEFLATE_RATIO = 1032  # the most that gzip can compress
_LARGEST_SIDE = 2**31 - 1  # indices are int32


class Table(NamedTuple):
    """Counts with their names, as `gapmf.read` returns them; unpacks as three values.

    Attributes
    ----------
    counts : csr_array of int64 of shape (n_samples, n_features)
        Counts with sorted indices, without duplicates and stored zeros.
    feature_names : ndarray of str objects of shape (n_features,) or None
        Names of the features.
    sample_names : ndarray of str objects of shape (n_samples,) or None
        Names of the samples.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from gapmf.io import Table
    >>> Table(sp.csr_array([[0, 2], [1, 0]]), np.array(["ape", "bee"], dtype=object), None)
    Table of 2 samples × 2 features, 2 counts above 0; features have names, samples have none
    """

    counts: sp.csr_array
    feature_names: Names | None
    sample_names: Names | None

    def __repr__(self) -> str:
        N, F = self.counts.shape
        said = ["none" if names is None else "names" for names in self[1:]]
        return (
            f"Table of {N} samples × {F} features, {self.counts.nnz} counts above 0; "
            f"features have {said[0]}, samples have {said[1]}"
        )


def turned(table: Table, transpose: bool) -> Table:
    """Return the table of a file that is features × samples, or the table itself."""
    if not transpose:
        return table
    return Table(sp.csr_array(table.counts.T), table.sample_names, table.feature_names)


def as_names(names: Iterable[Any]) -> Names:
    """Return names as an array of str objects."""
    listed = [str(name) for name in names]
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def to_counts(matrix: Any, name: str) -> sp.csr_array:
    """Return a matrix from a file as counts; unlike `check_counts`, it may be empty."""
    n_counts = matrix.nnz if hasattr(matrix, "nnz") else math.prod(matrix.shape)
    for side, what in zip(matrix.shape, ("rows", "columns"), strict=False):
        if side > min(_FREE_SIDE + _SIDE_PER_COUNT * n_counts, _LARGEST_SIDE):
            raise ReadError(
                f"{name} announces {side} {what}, but holds {n_counts} counts: its header is "
                "wrong, or the file is damaged"
            )
    if len(matrix.shape) == 2 and 0 in matrix.shape:
        return sp.csr_array(matrix.shape, dtype=np.int64)
    try:
        return check_counts(matrix, name=name)
    except InvalidInputError as error:
        raise ReadError(str(error)) from None


def is_packed(path: str) -> bool:
    """Tell whether a file is compressed by gzip, whatever it is called."""
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def check_fits(path: str, n_entries: int) -> None:
    """Refuse a file that announces more entries than it can hold, before memory is taken."""
    size = os.path.getsize(path)
    if n_entries > size * (_DEFLATE_RATIO if is_packed(path) else 1):
        raise ReadError(
            f"{path} announces {n_entries} entries, more than fit into its {size} bytes: it is "
            "incomplete, or its header is wrong"
        )


@contextmanager
def open_text(
    path: str, encoding: str = "utf-8", newline: str = "\n", errors: str = "strict"
) -> Iterator[TextIO]:
    """Open a text file, compressed or not; errors of unpacking and decoding become ours."""
    opened = gzip.open if is_packed(path) else open
    coding = "utf-8-sig" if encoding == "utf-8" else encoding  # drops a byte order mark
    with cast(TextIO, opened(path, "rt", -1, coding, errors, newline)) as stream:
        try:
            yield stream
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ReadError(
                f"{path} is a gzip file that is damaged or incomplete ({error}): download or copy "
                "it again"
            ) from None
        except UnicodeDecodeError as error:
            lines = enumerate(read_lines(path, encoding, errors="replace"), 1)
            place, what = next(
                ((f", line {n}", shorten(line)) for n, line in lines if "\ufffd" in line),
                ("", error),
            )
            raise ReadError(
                f"{path}{place}: not {encoding}, {what}: set the option `encoding`, for example to "
                "latin-1, or save the file as UTF-8"
            ) from None


def read_lines(path: str, encoding: str = "utf-8", errors: str = "strict") -> Iterator[str]:
    """Yield the lines of a text file without their ends."""
    with open_text(path, encoding, errors=errors) as stream:
        for line in stream:
            yield line.removesuffix("\n").removesuffix("\r")


def find_beside(path: str, names: Iterable[str]) -> str | None:
    """Return the first of these files that is in the folder of `path`, compressed or not."""
    folder = os.path.dirname(path)
    candidates = (os.path.join(folder, name + end) for name in names for end in ("", ".gz"))
    return next(filter(os.path.isfile, candidates), None)


def files_in(folder: str, pattern: str) -> list[str]:
    """List the files of a folder whose names match a pattern."""
    names = (name for name in os.listdir(folder) if re.fullmatch(pattern, name, re.I | re.S))
    return sorted(name for name in names if os.path.isfile(os.path.join(folder, name)))


def find_one(path: str, pattern: str, expected: str) -> str:
    """Return the file of a kind in a folder, of which there must be one; or `path`, if a file."""
    if not os.path.isdir(path):
        return path
    names = files_in(path, pattern)
    if len(names) != 1:
        listed = ", ".join(names) or "none"
        raise ReadError(f"{path} must have one {expected}, but has {listed}: name the file")
    return os.path.join(path, names[0])


def read_names(
    path: str, n_names: int, what: str, encoding: str, column: int | None = None
) -> Names:
    """Read a file with one name per line: in a tab-separated column, or the whole line."""
    lines = list(read_lines(path, encoding))
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) != n_names:
        raise ReadError(
            f"{path} has {len(lines)} names, but there are {n_names} {what}: give one name per "
            "line, in their order"
        )
    if column is None:
        return as_names(lines)
    cells = (line.split("\t") for line in lines)
    return as_names(parts[min(column, len(parts) - 1)] for parts in cells)
