"""Names of random streams, from the content of a sample.

What is drawn for a sample then depends on the seed and on its counts alone: not on the samples
beside it, on their order, or on who computes them.

One sample as estimators see it: its rows of p, without the columns that it cannot come from.

With g_k = (S_k + β_k) h_k the prior is g_k ~ Gamma(α_k, 1), and the second factor of Eq. 31 times
Π_f v_f! is the mean of Π_f (Σ_k p_fk g_k)^v_f under it. Given v, x = log g has a density without
poles, which is what estimators work with.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from gapmf.csr import sum_entries
from gapmf.kernels import chains
from gapmf.kernels import token_smc as smc
from gapmf.kernels.particles import HEAVY, make_particles
from gapmf.likelihood.exact import scaled_probabilities
from gapmf.likelihood.result import is_ambiguous
from gapmf.model import GaP
from gapmf.types import Array, Index

CHAINS = 1 << 24  # purposes below it are numbers of particles
IMPORTANCE = 2 << 24
CHIB = 3 << 24
ACTIVATIONS = 4 << 24
REVERSE = 5 << 24
PILOT = 6 << 24
GUIDE = 7 << 24


def stream_keys(rows: sp.csr_array, n: int, purpose: int, how_many: int) -> list[int]:
    """So many names of 64 bits for row n: hashes of its counts and of the purpose."""
    lo, hi = rows.indptr[n], rows.indptr[n + 1]
    content = np.concatenate([rows.indices[lo:hi], rows.data[lo:hi]]).astype("<i8").tobytes()
    person = purpose.to_bytes(4, "little")
    return [
        int.from_bytes(
            hashlib.blake2b(content, digest_size=8, salt=bytes([i]), person=person).digest(),
            "little",
        )
        for i in range(how_many)
    ]


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

    def is_ambiguous(self) -> bool:
        """Whether what its tokens choose matters."""
        return bool(is_ambiguous(self.p, np.zeros(1, dtype=np.int64))[0])


def sample_of_row(rows: sp.csr_array, n: int, model: GaP) -> Sample:
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
    names = np.array([name], dtype=np.uint64)
    smc.estimates(
        np.array([0, J]), np.arange(J), sample.counts, np.ascontiguousarray(sample.p),
        sample.alpha, guide[None], key, names, at, np.empty(1), np.empty(1),
    )  # fmt: skip
    chains.draw_sizes(J, K, (key, names[0]), n_burn_in, at, shapes)
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


def max_particles(n_components: int) -> int:
    """Particles of a run that the counters of the random numbers can tell apart."""
    return max((1 << 20) // max(n_components, 1) // 4 * 4, 4)
