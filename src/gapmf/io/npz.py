"""Sparse matrices of SciPy (.npz), as scipy.sparse.save_npz writes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapmf.errors import ReadError
from gapmf.io.names import check_name_file, read_names
from gapmf.io.npy import Members
from gapmf.io.parsing import LARGEST_SIDE, first, first_bad
from gapmf.io.source import check_encoding
from gapmf.io.table import Entries, Table
from gapmf.validation import shorten

_Place = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # rows, columns, values


def read_npz(
    path: str,
    *,
    vocab: str | None = None,
    transpose: bool = False,
    encoding: str | None = None,
) -> Table:
    """Read what scipy.sparse.save_npz wrote: csr, csc, coo, bsr or dia.

    Nothing is unpickled, and every index is checked. Entries of the same place are added up.

    Parameters
    ----------
    path : str
    vocab : str, optional
        A file with the names of the features, a line each: .npz files have none.
    transpose : bool
        Whether the file is features × samples.
    encoding : str, optional
        Of the vocabulary; UTF-8 by default.

    Examples
    --------
    >>> import os, tempfile, scipy.sparse as sp
    >>> from gapmf.io.npz import read_npz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "counts.npz")
    ...     sp.save_npz(path, sp.csc_array([[0, 2], [1, 0]]))
    ...     read_npz(path).counts.toarray()
    array([[0, 2],
           [1, 0]])
    """
    coding, vocab = check_encoding(encoding), check_name_file(vocab)
    with Members(path) as members:
        entries, shape = _read_matrix(members)
    if transpose:
        entries.transpose()
        shape = shape[::-1]
    features = None
    if vocab is not None:
        features = read_names(vocab, shape[1], f"features in {path}", coding)
    return Table(entries.to_counts(path, shape), features, None)


def _read_matrix(members: Members) -> tuple[Entries, tuple[int, int]]:
    kind = members.read("format", "SU", 0).item()
    kind = kind.decode("latin-1") if isinstance(kind, bytes) else kind
    if kind not in _READERS:
        known = ", ".join(_READERS)
        raise ReadError(f"{members.path} has the sparse format {kind!r}: known are {known}")
    sides = members.read("shape", "iu", 1).tolist()
    if len(sides) != 2 or not all(0 <= side <= LARGEST_SIDE for side in sides):
        raise ReadError(
            f"{members.path} has the shape {shorten(tuple(sides))}: expected two numbers, "
            f"samples and features, each from 0 to {LARGEST_SIDE}"
        )
    N, F = sides
    rows, columns, values = _READERS[kind](members, N, F)
    entries = Entries()
    at = first_bad(values)
    if at is not None:
        raise ReadError(
            f"{members.path}: the entry of row {int(rows[at])} and column {int(columns[at])} "
            f"(from 0) is {values[at].item()}: expected a whole number from 0 to 2**53; pass raw "
            "counts"
        )
    entries.add(rows, columns, values.astype(np.int64))
    return entries, (N, F)


def _check_indices(path: str, name: str, indices: NDArray[Any], size: int) -> None:
    at = first((indices < 0) | (indices >= size))
    if at is not None:
        raise ReadError(
            f"{path} is damaged: {name!r}[{at}] is {int(indices[at])}, outside 0 to {size - 1}"
        )


def _expand(members: Members, n_major: int, n_minor: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The row (or column, of csc) and the column of each entry, from indptr and indices."""
    indices, indptr = members.read("indices", "iu", 1), members.read("indptr", "iu", 1)
    whole = indptr.size == n_major + 1 and indptr[0] == 0 and indptr[-1] == indices.size
    if not whole or (indptr[1:] < indptr[:-1]).any():
        raise ReadError(
            f"{members.path} is damaged: 'indptr' must have {n_major + 1} numbers that rise from 0 "
            f"to {indices.size}"
        )
    _check_indices(members.path, "indices", indices, n_minor)
    ends = indptr.astype(np.int64)
    lengths = ends[1:] - ends[:-1]
    return np.repeat(np.arange(n_major, dtype=np.int64), lengths), indices.astype(np.int64)


def _same_length(members: Members, name: str, found: int, expected: int) -> None:
    if found != expected:
        raise ReadError(
            f"{members.path} is damaged: {name!r} has {found} entries, and {expected} were expected"
        )


def _read_csr(members: Members, N: int, F: int) -> _Place:
    rows, columns = _expand(members, N, F)
    data = members.read("data", "biuf", 1)
    _same_length(members, "data", data.size, rows.size)
    return rows, columns, data


def _read_csc(members: Members, N: int, F: int) -> _Place:
    columns, rows, data = _read_csr(members, F, N)
    return rows, columns, data


def _read_coo(members: Members, N: int, F: int) -> _Place:
    if "coords" in members:  # which SciPy writes for arrays that are not 2-D, so far
        rows, columns = _two_rows(members)
    else:
        rows, columns = members.read("row", "iu", 1), members.read("col", "iu", 1)
    data = members.read("data", "biuf", 1)
    for name, indices, size in (("row", rows, N), ("col", columns, F)):
        _same_length(members, name, indices.size, data.size)
        _check_indices(members.path, name, indices, size)
    return rows.astype(np.int64), columns.astype(np.int64), data


def _two_rows(members: Members) -> tuple[NDArray[Any], NDArray[Any]]:
    coords = members.read("coords", "iu", 2)
    _same_length(members, "coords", coords.shape[0], 2)
    return coords[0], coords[1]


def _read_bsr(members: Members, N: int, F: int) -> _Place:
    data = members.read("data", "biuf", 3)
    _, R, C = data.shape
    if not R or not C or N % R or F % C:
        raise ReadError(
            f"{members.path} is damaged: blocks of {R} × {C} do not fill a matrix of {N} × {F}"
        )
    rows, columns = _expand(members, N // R, F // C)
    _same_length(members, "data", len(data), rows.size)
    block, i, j = np.nonzero(data)
    return rows[block] * R + i, columns[block] * C + j, data[block, i, j]


def _read_dia(members: Members, N: int, F: int) -> _Place:
    """Diagonals: data[d, column] stands in row column - offsets[d]."""
    data, offsets = members.read("data", "biuf", 2), members.read("offsets", "iu", 1)
    _same_length(members, "offsets", offsets.size, len(data))
    offsets = offsets.astype(np.int64)
    far = (offsets > LARGEST_SIDE) | (offsets < -LARGEST_SIDE)
    if len(np.unique(offsets)) != offsets.size or far.any():
        raise ReadError(f"{members.path} is damaged: 'offsets' has a diagonal twice or far outside")
    which, columns = np.nonzero(data)
    rows = columns - offsets[which]
    inside = (rows >= 0) & (rows < N) & (columns < F)
    rows, columns, which = rows[inside], columns[inside], which[inside]
    return rows, columns, data[which, columns]


_READERS = {
    "csr": _read_csr,
    "csc": _read_csc,
    "coo": _read_coo,
    "bsr": _read_bsr,
    "dia": _read_dia,
}
