"""The deterministic counterpart of a Gibbs sweep: expected allocations of all samples at once.

An `Allocator` holds counts. It takes the expected component sizes L (N × K) of the samples and
returns new ones, with the sums that an M-step needs: state in, state out. No bit of the result
depends on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from gapmf.csr import sum_entries
from gapmf.kernels.mean_field import add_to_features, allocate
from gapmf.parallel import check_n_jobs, even_blocks, map_reduce
from gapmf.types import Array

AT_ONCE = 4  # components, in the kernels' loops


@dataclass(frozen=True)
class Allocation:
    """The result of `Allocator.allocate`."""

    value: float
    """Σ_n of the samples' parts of the objective, and Σ_nf v_fn times what p was scaled by."""
    c_sum: Array
    """(F, K): Σ_n v_fn p_fk e_kn / Σ_l p_fl e_ln."""
    L: Array
    """(N, K): the same, summed over features instead."""
    weights: Array
    """(N, K): e of the last pass, from the L that it began with."""


class ByFeature(NamedTuple):
    """The entries by feature: those of f are start[f] to start[f + 1]."""

    start: NDArray[np.int64]
    sample: NDArray[np.int32]
    place: NDArray[np.int64]
    """(nnz,): where the entries, in the order of samples, stand in the order of features."""


def entries_by_feature(X: sp.csr_array) -> ByFeature:
    """Return the entries of X by feature."""
    entries = sp.csr_array((np.arange(X.nnz), X.indices, X.indptr), shape=X.shape).tocsc()
    place = np.empty(X.nnz, dtype=np.int64)
    place[entries.data] = np.arange(X.nnz)
    return ByFeature(entries.indptr.astype(np.int64), entries.indices.astype(np.int32), place)


class Allocator:
    """Counts (canonical CSR, N × F), with how many times each sample counts: 1 by default."""

    def __init__(
        self, X: sp.csr_array, n_jobs: int | None = None, times: Array | None = None
    ) -> None:
        N = X.shape[0]
        self._n_threads = check_n_jobs(n_jobs)
        self.times: Array = np.ones(N) if times is None else times
        self.n_samples = float(self.times.sum())
        self.sample_totals = sum_entries(X.indptr, X.data.astype(np.float64))
        self.n_tokens = float(self.sample_totals @ self.times)
        self.totals: Array = np.asarray(X.T @ self.times)
        factorials = sum_entries(X.indptr, gammaln(X.data + 1.0))
        self.log_factorials = float(self.times @ factorials)
        self._columns = entries_by_feature(X)
        indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.int32)
        self._X = indptr, indices, X.data.astype(np.float64), self._columns.place
        # What a row costs besides its entries: a few functions of each component size.
        self._sample_work = np.cumsum(np.diff(indptr) + 20.0)
        self._feature_work = np.cumsum(np.diff(self._columns.start) + 1.0)
        self._longest = int(np.diff(indptr).max(initial=0))

    def allocate(
        self, p: Array, alpha: Array, L: Array, *, n_passes: int = 1, joint: bool = False
    ) -> Allocation:
        """Share the counts out in proportion to p_fk e_kn, n_passes times.

        Each pass makes e from L, and L from e: see `kernels.mean_field`. Rows of p (F, K) that have
        counts must not be 0. L itself is left as it is.
        """
        (F, K), N = p.shape, self.times.size
        K4 = -(-K // AT_ONCE) * AT_ONCE
        rows, top = np.zeros((F, K4)), p.max(axis=1)
        np.divide(p, top[:, None], out=rows[:, :K], where=top[:, None] > 0.0)
        flat, L = rows.ravel(), L.copy()
        weights, ratio = np.empty(N * K4), np.empty(self._X[1].size)
        values, c_sum = np.zeros(N), np.empty((F, K))

        def make_arrays() -> tuple[Array, Array, Array, Array]:
            size = self._longest
            return np.empty(K4 * size), np.empty(size), np.zeros(K4), np.empty(K4)

        def by_sample(block: tuple[int, int], work: tuple[Array, Array, Array, Array]) -> None:
            allocate(*block, self._X, flat, alpha, joint, n_passes, L, weights, ratio, values, work)

        def by_feature(block: tuple[int, int], sums: Array) -> None:
            add_to_features(*block, self._columns, ratio, self.times, weights, flat, sums, c_sum)

        samples = even_blocks(self._sample_work, K4 * n_passes, self._n_threads)
        features = even_blocks(self._feature_work, K4, self._n_threads)
        map_reduce(by_sample, samples, make_arrays, self._n_threads)
        map_reduce(by_feature, features, lambda: np.empty(K4), self._n_threads)
        met = self.totals > 0
        scale = float(self.totals[met] @ np.log(top[met]))
        return Allocation(
            float(self.times @ values) + scale, c_sum, L, weights.reshape(N, K4)[:, :K]
        )
