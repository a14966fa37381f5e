"""What a file of counts holds: counts, the names of features, the names of samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import LARGEST_COUNT
from gapmf.errors import ReadError
from gapmf.io.parsing import LARGEST_SIDE

Names = NDArray[np.object_]

# A sparse matrix takes memory for each sample, even those without counts: so there may not be
# many more of them than counts, whatever a header says.
_FREE_SIDE = 10_000_000
_SIDE_PER_ENTRY = 100


class Table(NamedTuple):
    """Counts with their names, as `gapmf.read` gives them; it unpacks as three.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from gapmf.io import Table
    >>> Table(sp.csr_array([[0, 2], [1, 0]]), np.array(["ape", "bee"], dtype=object), None)
    Table of 2 samples × 2 features, 2 counts above 0; features have names, samples have none
    """

    counts: sp.csr_array
    """(N, F) int64: samples × features; sorted indices, no duplicates, no stored zeros."""
    feature_names: Names | None
    """(F,) str objects, or None."""
    sample_names: Names | None
    """(N,) str objects, or None."""

    def __repr__(self) -> str:
        N, F = self.counts.shape
        said = ["none" if names is None else "names" for names in self[1:]]
        return (
            f"Table of {N} samples × {F} features, {self.counts.nnz} counts above 0; "
            f"features have {said[0]}, samples have {said[1]}"
        )


def as_names(names: Iterable[str]) -> Names:
    """Names as an array of objects."""
    listed = list(names)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def check_side(path: str, line: int, name: str, value: int) -> None:
    """Refuse a number of rows or columns that no sparse matrix has."""
    if value > LARGEST_SIDE:
        raise ReadError(
            f"{path}, line {line}: {name} is {value}, and {LARGEST_SIDE} is the most that can be "
            "read: is the header right?"
        )


class Labels(dict[Any, int]):
    """Numbers for labels, in the order in which they first appear."""

    def __missing__(self, label: Any) -> int:
        self[label] = number = len(self)
        return number

    def names(self) -> Names:
        """The labels, in the order of their numbers."""
        return as_names(map(str, self))


class Entries:
    """Counts as they come from a file: (row, column, count), in pieces; zeros are dropped."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: tuple[list[NDArray[Any]], ...] = ([], [], [])

    def add(self, rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any]) -> None:
        """Take a piece: places that are checked, and values that are counts."""
        kept = values != 0
        for place, (array, dtype) in enumerate(
            [(rows, np.int32), (columns, np.int32), (values, np.int64)]
        ):
            self._pieces[place].append(array[kept].astype(dtype, copy=False))
        self.size += int(np.count_nonzero(kept))

    def transpose(self) -> None:
        """Turn rows into columns."""
        rows, columns, values = self._pieces
        self._pieces = (columns, rows, values)

    def shift_columns(self, by: int) -> None:
        """Move all columns so far."""
        self._pieces[1][:] = [piece + np.int32(by) for piece in self._pieces[1]]

    def to_counts(self, path: str, shape: tuple[int, int]) -> sp.csr_array:
        """The matrix; counts of the same place are added up. The pieces are given away."""
        for side, what in zip(shape, ("samples", "features"), strict=True):
            if side > _FREE_SIDE + _SIDE_PER_ENTRY * self.size:
                raise ReadError(
                    f"{path} is to have {side} {what}, but has only {self.size} counts above 0: "
                    "its header cannot be right"
                )
        rows, columns, values = (self._take(place) for place in range(3))
        if values.sum(dtype=np.float64) > LARGEST_COUNT:
            totals = np.bincount(rows, weights=values)
            if totals.max() > LARGEST_COUNT:
                raise ReadError(
                    f"{path}: the counts of sample {int(totals.argmax())} (from 0) add up to more "
                    "than 2**53, beyond what float64 counts exactly"
                )
        counts = sp.csr_array(sp.coo_array((values, (rows, columns)), shape=shape))
        counts.sum_duplicates()
        return counts

    def _take(self, place: int) -> NDArray[Any]:
        """One of the three arrays in one piece, its pieces forgotten."""
        pieces = self._pieces[place]
        dtype = np.int64 if place == 2 else np.int32
        whole = np.concatenate(pieces) if pieces else np.empty(0, dtype=dtype)
        pieces.clear()
        return whole
