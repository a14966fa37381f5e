"""A lower bound of each sample's log-likelihood: the mean-field approximation of its posterior.

With independent Gamma laws for the activations and multinomials for the allocations of the counts,
the best bound of log p(v) is found by passes over the counts. It takes no random numbers, and a
fraction of the time of a few Gibbs sweeps: see `kernels.mean_field` and `em.variational`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from gapmf.csr import sum_entries
from gapmf.distributions import log_one_plus
from gapmf.kernels.dictionary import scale_rows
from gapmf.kernels.mean_field import settle
from gapmf.model import GaP
from gapmf.parallel import Progress, check_n_jobs, even_blocks, map_reduce
from gapmf.types import Array

_AT_ONCE = 4  # components, in the kernel's loops


class Bound(NamedTuple):
    """What the mean-field approximation says of N samples."""

    value: Array  # (N,): lower bounds of log p(v)
    sizes: Array  # (N, K): expected component sizes L


def mean_field_bound(
    counts: sp.csr_array,
    model: GaP,
    *,
    tol: float,
    max_passes: int,
    sizes: Array | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Bound:
    """Find the bound of each sample, which must be possible.

    Passes end when they move less than `tol` of a sample's tokens. They start at the given sizes,
    or where each component has its share of the model's expected counts.
    """
    (N, F), K = counts.shape, model.n_components
    K4 = -(-K // _AT_ONCE) * _AT_ONCE
    rows = np.zeros((F, K4))
    p = model.event_probabilities
    scale_rows(p, np.ones(K), rows)
    data = counts.data.astype(np.float64)
    X = counts.indptr.astype(np.int64), counts.indices.astype(np.int32), data
    L = np.outer(sum_entries(counts.indptr, data), model.shares) if sizes is None else sizes.copy()
    values = np.empty(N)
    longest = int(np.diff(counts.indptr).max(initial=0))

    def make_arrays() -> tuple[Array, Array, Array, Array]:
        return np.empty(K4 * longest), np.empty(longest), np.zeros(K4), np.empty(K4)

    def work(block: tuple[int, int], arrays: tuple[Array, Array, Array, Array]) -> None:
        settle(*block, X, rows.ravel(), model.alpha, tol, max_passes, L, values, arrays)

    running = counts.indptr[1:] + 20.0 * np.arange(1, N + 1)
    blocks = even_blocks(running, K4 * max_passes, check_n_jobs(n_jobs))
    map_reduce(work, blocks, make_arrays, n_jobs, progress)
    with np.errstate(divide="ignore"):
        scale = np.log(p.max(axis=1))
    values += sum_entries(counts.indptr, data * scale[counts.indices] - gammaln(data + 1.0))
    values -= float(model.alpha @ log_one_plus(model.column_norms, model.beta))
    return Bound(values, L)
