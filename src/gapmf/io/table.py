"""What every reader needs: the `Table` that it returns, text files, files of names."""

from __future__ import annotations

import gzip
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, NamedTuple, TextIO, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts
from gapmf.errors import InvalidInputError, ReadError
from gapmf.validation import shorten

Names = NDArray[np.object_]

NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?)", re.ASCII | re.IGNORECASE)


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
    return np.array([str(name) for name in names], dtype=object)


def to_counts(matrix: Any, name: str, labels: Sequence[Any] | None = None) -> sp.csr_array:
    """Return a matrix from a file as counts; unlike `check_counts`, it may be empty."""
    try:
        if hasattr(matrix, "check_format"):  # else SciPy reads and writes wherever indices point
            matrix.check_format(full_check=True)
        if len(matrix.shape) == 2 and 0 in matrix.shape:
            return sp.csr_array(matrix.shape, dtype=np.int64)
        return check_counts(matrix, name=name, labels=labels)
    except InvalidInputError as error:
        raise ReadError(str(error)) from None


@contextmanager
def open_text(
    path: str, encoding: str = "utf-8", newline: str = "\n", errors: str = "strict"
) -> Iterator[TextIO]:
    """Open a text file, compressed or not; errors of decoding name the line."""
    with open(path, "rb") as file:
        opened = gzip.open if file.read(2) == b"\x1f\x8b" else open  # whatever it is called
    coding = "utf-8-sig" if encoding == "utf-8" else encoding  # drops a byte order mark
    with cast(TextIO, opened(path, "rt", -1, coding, errors, newline)) as stream:
        try:
            yield stream
        except UnicodeDecodeError as error:
            lines = enumerate(read_lines(path, encoding, errors="replace"), 1)
            number = next((number for number, line in lines if "\ufffd" in line), "?")
            raise ReadError(
                f"{path}, line {number}: not {encoding} ({error.reason}): set the option "
                "`encoding`, for example to latin-1, or save the file as UTF-8"
            ) from None


def read_lines(path: str, encoding: str = "utf-8", errors: str = "strict") -> Iterator[str]:
    """Yield the lines of a text file without their ends."""
    with open_text(path, encoding, errors=errors) as stream:
        for line in stream:
            yield line.removesuffix("\n").removesuffix("\r")


def read_text_lines(path: str, encoding: str) -> list[str]:
    """Return the lines of a text file, except for blank ones at its end."""
    lines = list(read_lines(path, encoding))
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def read_entries(
    path: str, n_above: int, shape: tuple[int, int], n_entries: int, width: int = 3
) -> sp.coo_array:
    """Read lines 'row column count', from 1, below the header; of width 2, all counts are 1."""
    numbers = read_numbers(path, n_above, n_entries, width)
    places = numbers[:, :2]
    bad = ((places < 1) | (places > shape) | (places % 1 != 0)).any(axis=1)
    if bad.any():
        number, line = next(islice(_lines_below(path, n_above), int(bad.argmax()), None))
        raise ReadError(
            f"{path}, line {number}: {shorten(line)} is not in a matrix of {shape}, which the "
            "header announces; rows and columns are numbered from 1"
        )
    if max(shape) > 10**7 + 100 * n_entries:  # a matrix takes memory for each of them
        raise ReadError(f"{path} announces a matrix of {shape}, but has only {n_entries} entries")
    values = np.ones(len(numbers), np.int64) if width == 2 else numbers[:, 2]
    return sp.coo_array((values, tuple(places.astype(np.int64).T - 1)), shape=shape)


def read_numbers(path: str, n_above: int, n_lines: int, width: int) -> NDArray[Any]:
    """Read lines of numbers, as int64 (which is exact), or else as float64."""
    for dtype in (np.int64, np.float64):
        with open_text(path) as stream, warnings.catch_warnings(), suppress(ValueError):
            warnings.filterwarnings("ignore", message=".*contained no data")
            numbers: Any = np.loadtxt(stream, dtype, comments=None, skiprows=n_above, ndmin=2)
            if numbers.shape == (n_lines, width) or numbers.size == n_lines == 0:
                return np.asarray(numbers.reshape(-1, width))
    n_found = 0
    for number, line in _lines_below(path, n_above):
        parts = line.split()
        if len(parts) != width or not all(map(NUMBER.fullmatch, parts)):
            raise ReadError(
                f"{path}, line {number}: expected numbers, {width} per line, but found "
                f"{shorten(line)}"
            )
        n_found += 1
    raise ReadError(f"{path} has {n_found} entries, but its header announces {n_lines}")


def _lines_below(path: str, n_above: int) -> Iterator[tuple[int, str]]:
    """Yield the lines below the header that are not blank, with their numbers: slow."""
    lines = islice(enumerate(read_lines(path), 1), n_above, None)
    return ((number, line) for number, line in lines if line.strip())


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
    path: str | None, n_names: int, what: str, encoding: str, column: int | None = None
) -> Names | None:
    """Read a file with one name per line: in a tab-separated column, or the whole line."""
    if path is None:
        return None
    lines = read_text_lines(path, encoding)
    if len(lines) != n_names:
        raise ReadError(
            f"{path} has {len(lines)} names, but there are {n_names} {what}: give one name per "
            "line, in their order"
        )
    if column is None:
        return as_names(lines)
    cells = (line.split("\t") for line in lines)
    return as_names(parts[min(column, len(parts) - 1)] for parts in cells)
