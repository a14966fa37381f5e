"""Methods of an estimator, applied to data that are not in memory: block by block.

What a sample gets does not depend on the samples beside it, so that blocks give the same bits as
the whole. Of a Dask collection the results are Dask arrays, which compute nothing until asked.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gapmf.counts import is_dask, is_dask_frame
from gapmf.errors import InvalidInputError
from gapmf.io.count_blocks import CountBlocks, in_rows, row_blocks
from gapmf.likelihood.result import LogLikelihood, common_error
from gapmf.types import Array

PRECISION = 1e-4  # of a score, in nats per token


@dataclass(frozen=True)
class BlockMethod:
    """A method of an estimator, as a function of a block. Workers get a copy."""

    estimator: Any
    name: str
    width: int | None = None
    """The number of columns of the result, or None if it is one number per sample."""

    def __call__(self, block: Any) -> Any:
        """Apply it."""
        if block.shape[0] == 0:
            return np.empty((0,) if self.width is None else (0, self.width))
        return _quietly(getattr(self.estimator, self.name), block)


@dataclass(frozen=True)
class BlockTotal:
    """The log-likelihood of a block, and its number of samples."""

    estimator: Any
    precision: float

    def __call__(self, block: Any) -> tuple[float, int]:
        """Compute them."""
        if block.shape[0] == 0:
            return 0.0, 0
        options = {"precision": self.precision, "total_only": True}
        found = _quietly(self.estimator.log_likelihood, block, **options)
        return found.total, found.per_sample.size


def _quietly(call: Callable[..., Any], block: Any, **options: Any) -> Any:
    """Call a method; names of features were compared before, and a block may have none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return call(block, **options)


def for_workers(estimator: Any) -> Any:
    """Return a shallow copy of an estimator that can be sent: without a client and callbacks."""
    light = copy.copy(estimator)
    light.engine, light.callbacks, light.verbose, light.checkpoint = "local", None, 0, None
    return light


def refuse_options(**options: Any) -> None:
    """Refuse what only counts in memory can have."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InvalidInputError(
            f"{given[0]} is for counts in memory, but X is in blocks: leave it out, or read X into "
            "memory"
        )


def apply_to_blocks(estimator: Any, name: str, X: Any, width: int | None) -> Any:
    """Apply a method to all blocks: an array, or of a Dask collection a Dask array."""
    if is_dask(X):
        return _apply_lazily(BlockMethod(for_workers(estimator), name, width), X)
    method = BlockMethod(estimator, name, width)
    result: Array = np.empty(X.shape[:1] if width is None else (X.shape[0], width))
    for i, block in enumerate(X):
        result[X.starts[i] : X.starts[i + 1]] = method(block)
    return result


def _apply_lazily(method: BlockMethod, X: Any) -> Any:
    import dask.array as da

    if is_dask_frame(X):
        from dask.delayed import delayed

        shape: tuple[float, ...] = (np.nan,) if method.width is None else (np.nan, method.width)
        apply = delayed(method)
        parts = [da.from_delayed(apply(block), shape, float) for block in row_blocks(X)]
        return da.concatenate(parts)
    rows = in_rows(X)
    if method.width is None:
        return rows.map_blocks(method, drop_axis=1, dtype=float, meta=np.empty(0))
    chunks = (rows.chunks[0], (method.width,))
    return rows.map_blocks(method, chunks=chunks, dtype=float, meta=np.empty((0, 0)))


def mean_log_likelihood(estimator: Any, X: Any) -> float:
    """Compute the mean of log p(x_n | W) over the samples of all blocks of a Dask collection."""
    from dask.base import compute
    from dask.delayed import delayed

    blocks = row_blocks(X)
    total = delayed(BlockTotal(for_workers(estimator), PRECISION * math.sqrt(len(blocks))))
    found = compute(*(total(block) for block in blocks))
    return float(math.fsum(value for value, _ in found) / sum(n for _, n in found))


def log_likelihood_of_blocks(
    compute: Callable[..., LogLikelihood], X: CountBlocks, precision: float | None, **options: Any
) -> LogLikelihood:
    """Compute log p(X | W) block by block, to a precision of the total."""
    if precision is not None:
        precision *= math.sqrt(X.n_blocks)  # errors of blocks are independent
    return join_blocks([_quietly(compute, block, precision=precision, **options) for block in X])


def join_blocks(parts: Sequence[LogLikelihood]) -> LogLikelihood:
    """Return the result of the samples of all parts, in their order."""
    independent, common = 0.0, 0.0
    for part in parts:
        own = 0.0 if np.isnan(part.std_errors).any() else common_error(part)
        independent += part.std_error**2 - own**2
        common += own
    names = ("per_sample", "std_errors", "ess", "reliable", "corrections", "methods")
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in names
    }
    method = parts[0].method
    if np.isnan(arrays["per_sample"]).any():
        n = int((~np.isnan(arrays["per_sample"])).sum())
        method = f"auto (from {n:,} of {arrays['per_sample'].size:,} samples, chosen at random)"
    return replace(
        parts[0],
        total=math.fsum(part.total for part in parts),
        std_error=math.hypot(math.sqrt(max(independent, 0.0)), common),
        method=method,
        **arrays,
    )
