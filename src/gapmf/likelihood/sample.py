"""One sample as estimators see it: its rows of p, without the columns that it cannot come from.

With g_k = (S_k + β_k) h_k the prior is g_k ~ Gamma(α_k, 1), and the second factor of Eq. 31 times
Π_f v_f! is the mean of Π_f (Σ_k p_fk g_k)^v_f under it. Given v, x = log g has a density without
poles, which is what estimators work with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln
from threadpoolctl import threadpool_limits

from gapmf.kernels import chains, smc
from gapmf.kernels.moves import HEAVY
from gapmf.kernels.particles import make_particles
from gapmf.likelihood.estimates import Estimates, Mean, births_are_rare, leaves_a_choice
from gapmf.likelihood.exact import scaled_probabilities
from gapmf.likelihood.streams import CHAINS, stream_names
from gapmf.model import GaP
from gapmf.parallel import for_each
from gapmf.rows import sum_entries

Array = NDArray[np.float64]
Index = NDArray[np.int64]

N_CHAINS = 64  # side by side: fewer take nearly as long
N_BURN_IN = 8
N_PASSES = 4  # over the tokens, from which the chains start
LARGEST_LOG = 600.0  # of g: nothing is there


class Sample(NamedTuple):
    """J counts, and the K columns that they can have come from."""

    counts: Index
    """(J,): v_f, where it is not 0."""
    p: Array
    """(J, K): p_fk, each row scaled to a maximum of 1."""
    alpha: Array
    """(K,)."""
    columns: Index
    """(K,): their numbers in the model."""
    constant: float
    """The logarithm of what the scaling and Π v_f! contribute to the factor."""

    def log_density(self, x: Array) -> Array:
        """log p(v, x) of points x (S, K), but for `constant`: prior and likelihood of log g."""
        g = np.exp(np.minimum(x, LARGEST_LOG))
        value = x @ self.alpha - g.sum(axis=1) - gammaln(self.alpha).sum()
        with np.errstate(divide="ignore"):  # a point from which v cannot come has density 0
            value = value + np.log(g @ self.p.T) @ self.counts
        return np.where(x.max(axis=1) < LARGEST_LOG, value, -np.inf)

    def leaves_a_choice(self) -> bool:
        """Whether what its tokens choose matters."""
        return bool(leaves_a_choice(self.p, np.zeros(1, dtype=np.int64))[0])

    def may_miss_a_mode(self, n_particles: int) -> bool:
        """Whether so many particles or chains may all have missed what a small α hides."""
        total = np.asarray(float(self.counts.sum()))
        rare = births_are_rare(self.alpha.min(), total, n_particles)
        return self.leaves_a_choice() and bool(rare)


def take_sample(rows: sp.csr_array, n: int, model: GaP) -> Sample:
    """Row n of rows, which has counts."""
    lo, hi = rows.indptr[n], rows.indptr[n + 1]
    W, counts = model.W[rows.indices[lo:hi]], rows.data[lo:hi].astype(np.int64)
    columns = np.flatnonzero(W.any(axis=0))
    rate = model.column_norms + model.beta
    p, log_scale = scaled_probabilities(W[:, columns], rate[columns])
    constant = float(counts @ log_scale - gammaln(counts + 1.0).sum())
    return Sample(counts, p, model.alpha[columns], columns, constant)


def estimate_each(
    rows: sp.csr_array, model: GaP, estimate: Callable[[int, Sample], Mean], n_jobs: int | None
) -> Estimates:
    """The estimates of all samples, each by itself, from that of a row's number and sample."""
    N = rows.shape[0]
    result = Estimates.empty(N)

    def work(n: int) -> None:
        sample = take_sample(rows, n, model)
        found = estimate(n, sample)
        for array, value in zip(result, found, strict=True):
            array[n] = value
        result.values[n] += sample.constant
        result.reliable[n] &= not sample.may_miss_a_mode(N_CHAINS)

    with threadpool_limits(1, "blas"):  # the threads are ours
        for_each(work, range(N), n_jobs)
    return result


def draw_shapes(
    sample: Sample,
    key: np.uint64,
    name: int,
    n_draws: int,
    n_chains: int,
    n_burn_in: int = N_BURN_IN,
) -> Array:
    """α + L of draws given v, (n_draws × n_chains, K): g_k given L is Gamma(α_k + L_k, 1)."""
    J, K = sample.p.shape
    at = make_particles(n_chains, K, J)
    shapes = np.empty((n_draws, K * n_chains))
    chains.draw_sizes(
        np.arange(J), sample.counts, sample.p, sample.alpha, np.zeros(K), K,
        (key, np.uint64(name)), n_burn_in, at, shapes,
    )  # fmt: skip
    return shapes.reshape(n_draws, K, n_chains).transpose(0, 2, 1).reshape(-1, K)


def pass_cost(rows: sp.csr_array, K: int, n_particles: int) -> Array:
    """Operations for a pass over the tokens, sample by sample, about a nanosecond each."""
    growth = smc.growth(K)
    many = smc.BATCH / growth
    tokens = np.minimum(rows.data, many)
    rounds = np.log(np.maximum(rows.data / many, 1.0)) / growth
    work = sum_entries(rows.indptr, 2.0 * tokens + 50.0 * rounds)
    return np.asarray((work + 50.0) * (K + 2.0) * n_particles)


def sweep_cost(rows: sp.csr_array, K: int) -> Array:
    """Operations for a sweep of one chain, sample by sample, about a nanosecond each."""
    tokens = sum_entries(rows.indptr, np.minimum(rows.data, HEAVY).astype(float))
    return np.asarray((0.5 * K + 3.0) * tokens + 50.0 * K)


def pilot_cost(rows: sp.csr_array, K: int, n_draws: int) -> Array:
    """Operations for `pilot_shapes`."""
    each = pass_cost(rows, K, N_CHAINS)
    return each + sweep_cost(rows, K) * N_CHAINS * (N_BURN_IN + n_draws)


def draw_passes(
    sample: Sample, key: np.uint64, names: list[int], n_draws: int, n_chains: int = N_CHAINS
) -> Array:
    """The same from independent passes, one a name: (passes, n_draws, chains of each, K).

    Chains that start from one pass have ancestors in common.
    """
    each = n_chains // len(names)
    K = sample.alpha.size
    drawn = [draw_shapes(sample, key, name, n_draws, each) for name in names]
    return np.stack(drawn).reshape(len(names), n_draws, each, K)


def pilot_shapes(rows: sp.csr_array, n: int, sample: Sample, key: np.uint64, n_draws: int) -> Array:
    """Draws for the design of an estimator, from streams of their own: see `draw_passes`."""
    return draw_passes(sample, key, stream_names(rows, n, CHAINS, N_PASSES), n_draws)
