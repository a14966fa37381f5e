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
