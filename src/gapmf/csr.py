"""Rows of a CSR array of counts: equal ones found, blocks of them cut out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.types import Index


def distinct_rows(X: sp.csr_array) -> tuple[Index, Index]:
    """The first row of each kind, in order, and for every row its place among those.

    X is canonical (see `check_counts`), so equal rows have equal bytes.
    """
    seen: dict[tuple[bytes, bytes], int] = {}
    first: list[int] = []
    inverse = np.empty(X.shape[0], dtype=np.int64)
    for n in range(X.shape[0]):
        lo, hi = X.indptr[n], X.indptr[n + 1]
        key = (X.indices[lo:hi].tobytes(), X.data[lo:hi].tobytes())
        place = seen.setdefault(key, len(first))
        if place == len(first):
            first.append(n)
        inverse[n] = place
    return np.array(first, dtype=np.int64), inverse


def only_features(X: sp.csr_array, wanted: NDArray[np.bool_]) -> sp.csr_array:
    """X without the counts of other features; its shape stays."""
    kept = wanted[X.indices]
    ends = np.concatenate([[0], np.cumsum(kept)])
    return sp.csr_array((X.data[kept], X.indices[kept], ends[X.indptr]), shape=X.shape)


def sum_entries(indptr: NDArray[Any], entries: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum over each row of a number given for each stored entry, (N,)."""
    N = indptr.size - 1
    row = np.repeat(np.arange(N), np.diff(indptr))
    return np.asarray(np.bincount(row, weights=entries, minlength=N), dtype=np.float64)


class Block(NamedTuple):
    """Some rows with the features that occur in them: CSR over local feature numbers."""

    indptr: Index
    indices: Index
    counts: Index
    features: Index
    """(J,): the features, by their number in X, in ascending order."""


def take_block(X: sp.csr_array, rows: Index) -> Block:
    """The given rows of X, their features renumbered from 0."""
    part = X[rows]
    features, local = np.unique(part.indices, return_inverse=True)
    return Block(
        part.indptr.astype(np.int64),
        local.astype(np.int64),
        part.data,
        features.astype(np.int64),
    )
