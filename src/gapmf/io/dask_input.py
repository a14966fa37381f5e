"""Dask collections as counts: blocks of rows that workers compute. Dask itself is not imported."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from gapmf.counts import check_counts


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or data frame. Dask is not imported to find out."""
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(X).__mro__}
    return ("dask", "Array") in kinds or ("dask", "DataFrame") in kinds


def is_dask_frame(X: Any) -> bool:
    """Whether X is a Dask data frame."""
    return is_dask(X) and hasattr(X, "columns")


def row_blocks(X: Any) -> list[Any]:
    """Return the blocks of rows of a Dask collection, as delayed objects."""
    if is_dask_frame(X):
        return list(X.to_delayed())
    return list(in_rows(X).to_delayed().ravel())


def in_rows(X: Any) -> Any:
    """Return a Dask array whose blocks are whole rows."""
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def counts_of_block(block: Any, n_features: int, i: int) -> sp.csr_array:
    """Return a computed block as counts; an error names it."""
    if block.shape[0] == 0:
        return sp.csr_array((0, n_features), dtype="int64")
    return check_counts(block, n_features=n_features, name=f"block {i} of X", owner="X")
