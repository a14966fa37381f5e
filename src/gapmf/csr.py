"""Operations on the rows of CSR arrays of counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.types import Index


def distinct_rows(X: sp.csr_array, also: Sequence[bytes] | None = None) -> tuple[Index, Index]:
    """Return the first of each group of equal rows, and the group of every row.

    X must be canonical (see `check_counts`), so that equal rows have equal bytes. Rows also differ
    if what `also` has of them does.
    """
    seen: dict[tuple[bytes, ...], int] = {}
    first: list[int] = []
    inverse = np.empty(X.shape[0], dtype=np.int64)
    for n in range(X.shape[0]):
        lo, hi = X.indptr[n], X.indptr[n + 1]
        key: tuple[bytes, ...] = (X.indices[lo:hi].tobytes(), X.data[lo:hi].tobytes())
        if also is not None:
            key = (*key, also[n])
        place = seen.setdefault(key, len(first))
        if place == len(first):
            first.append(n)
        inverse[n] = place
    return np.array(first, dtype=np.int64), inverse


def only_features(X: sp.csr_array, wanted: NDArray[np.bool_]) -> sp.csr_array:
    """Remove the counts of all features that are not wanted; the shape stays."""
    kept = wanted[X.indices]
    ends = np.concatenate([[0], np.cumsum(kept)])
    return sp.csr_array((X.data[kept], X.indices[kept], ends[X.indptr]), shape=X.shape)


def sum_entries(indptr: NDArray[Any], entries: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum one number per stored entry over each row: (N,)."""
    N = indptr.size - 1
    row = np.repeat(np.arange(N), np.diff(indptr))
    return np.asarray(np.bincount(row, weights=entries, minlength=N), dtype=np.float64)


class Digest(NamedTuple):
    """Two sums of 64 bits. Those of parts of the data add up to that of all."""

    low: int
    high: int

    def __add__(self, other: tuple[object, ...]) -> Digest:  # of sums, not of tuples
        low, high = Digest(*other)  # type: ignore[arg-type]
        return Digest((self.low + low) % 2**64, (self.high + high) % 2**64)


def content_digest(X: sp.csr_array, first_row: int = 0) -> Digest:
    """Sum a hash of (row, column, count) over all entries; row 0 of X is `first_row` of the whole.

    The sum does not depend on how rows are divided into parts, or on the order of the parts.
    """
    rows = _mix(np.arange(first_row, first_row + X.shape[0]).astype(np.uint64))
    low = np.repeat(rows, np.diff(X.indptr))
    low = _mix(low + X.indices.astype(np.uint64))
    low = _mix(low + X.data.astype(np.uint64))
    high = _mix(low)
    return Digest(int(low.sum(dtype=np.uint64)), int(high.sum(dtype=np.uint64)))


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64: a bijection of 64 bits in which every bit changes half of the others."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


class Block(NamedTuple):
    """Some rows of a CSR array, with their features renumbered from 0."""

    indptr: Index
    indices: Index
    counts: Index
    features: Index  # (J,): original numbers of the features; ascending unless entries are `own`


def take_block(X: sp.csr_array, rows: Index, *, own: bool = False) -> Block:
    """Cut out the given rows of X and renumber their features from 0.

    With `own`, every entry counts as a feature of its own: `features` then repeat.
    """
    part = X[rows]
    features, local = part.indices, np.arange(part.nnz)
    if not own:
        features, local = np.unique(part.indices, return_inverse=True)
    return Block(
        part.indptr.astype(np.int64), local.astype(np.int64), part.data, features.astype(np.int64)
    )
