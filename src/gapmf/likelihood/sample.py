"""One sample as estimators see it: its rows of p, without the columns that it cannot come from.

With g_k = (S_k + β_k) h_k the prior is g_k ~ Gamma(α_k, 1), and the second factor of Eq. 31 times
Π_f v_f! is the mean of Π_f (Σ_k p_fk g_k)^v_f under it. Given v, x = log g has a density without
poles, which is what estimators work with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from gapmf.kernels import chains, smc
from gapmf.kernels.moves import HEAVY
from gapmf.kernels.particles import make_particles
from gapmf.likelihood.estimates import leaves_a_choice
from gapmf.likelihood.exact import scaled_probabilities
from gapmf.model import GaP
from gapmf.rows import sum_entries

Array = NDArray[np.float64]
Index = NDArray[np.int64]

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


def take_sample(rows: sp.csr_array, n: int, model: GaP) -> Sample:
    """Row n of rows, which has counts."""
    lo, hi = rows.indptr[n], rows.indptr[n + 1]
    W, counts = model.W[rows.indices[lo:hi]], rows.data[lo:hi].astype(np.int64)
    columns = np.flatnonzero(W.any(axis=0))
    rate = model.column_norms + model.beta
    p, log_scale = scaled_probabilities(W[:, columns], rate[columns])
    constant = float(counts @ log_scale - gammaln(counts + 1.0).sum())
    return Sample(counts, p, model.alpha[columns], columns, constant)


def draw_shapes(
    sample: Sample,
    guide: Array,
    key: np.uint64,
    name: int,
    n_draws: int,
    n_chains: int,
    n_burn_in: int,
) -> Array:
    """α + L of draws given v, (n_draws × n_chains, K): g_k given L is Gamma(α_k + L_k, 1).

    From one pass over the tokens, with this guide (K,), and sweeps after it.
    """
    J, K = sample.p.shape
    at = make_particles(n_chains, K, J)
    shapes = np.empty((n_draws, K * n_chains))
    chains.draw_sizes(
        np.arange(J), sample.counts, sample.p, sample.alpha, guide, K,
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


def most_side_by_side(n_components: int) -> int:
    """Particles of a run that the counters of the random numbers can tell apart."""
    return max((1 << 20) // max(n_components, 1) // 4 * 4, 4)
