"""One sample as the estimators see it, its random streams, and costs of passes over its tokens.

With g_k = (S_k + β_k) h_k the prior is g_k ~ Gamma(α_k, 1), and the second factor of Eq. 31 times
Π_f v_f! is the mean of Π_f (Σ_k p_fk g_k)^v_f under it. Estimators work with x = log g, whose
density given v has no poles.

The keys of random streams are hashes of a sample's counts. So the draws for a sample depend on the
seed and on its counts alone, not on other samples, their order or the thread that computes them.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from gapmf.csr import sum_entries
from gapmf.errors import InvalidInputError
from gapmf.kernels import chains
from gapmf.kernels import token_smc as smc
from gapmf.kernels.particles import HEAVY, make_particles
from gapmf.likelihood.exact import scaled_probabilities
from gapmf.likelihood.result import is_ambiguous
from gapmf.model import GaP
from gapmf.types import Array, Index
from gapmf.validation import check_whole

# Purposes of streams. Smaller numbers are numbers of particles.
CHAINS, IMPORTANCE, CHIB, ACTIVATIONS, REVERSE, PILOT, GUIDE, COARSE = (
    i << 24 for i in range(1, 9)
)

LARGEST_LOG = 600.0  # of g: larger values have density 0


def stream_keys(rows: sp.csr_array, n: int, purpose: int, n_keys: int) -> list[int]:
    """Return 64-bit keys of random streams for row n: hashes of its counts and the purpose."""
    lo, hi = rows.indptr[n], rows.indptr[n + 1]
    content = np.concatenate([rows.indices[lo:hi], rows.data[lo:hi]]).astype("<i8").tobytes()
    person = purpose.to_bytes(4, "little")
    return [
        int.from_bytes(
            hashlib.blake2b(content, digest_size=8, salt=bytes([i]), person=person).digest(),
            "little",
        )
        for i in range(n_keys)
    ]


class Sample(NamedTuple):
    """The J positive counts of a sample, and the K columns that can have produced them."""

    counts: Index  # (J,): v_f > 0
    p: Array  # (J, K): p_fk, each row scaled to a maximum of 1
    alpha: Array  # (K,)
    columns: Index  # (K,): numbers of the columns in the model
    constant: float  # logarithm of the contribution of the scaling and of Π v_f! to the factor

    def log_density(self, x: Array) -> Array:
        """Return log p(v, x) − `constant` at points x (S, K): prior and likelihood of log g."""
        g = np.exp(np.minimum(x, LARGEST_LOG))
        value = x @ self.alpha - g.sum(axis=1) - gammaln(self.alpha).sum()
        with np.errstate(divide="ignore"):  # the density is 0 where v is impossible
            value = value + np.log(g @ self.p.T) @ self.counts
        return np.where(x.max(axis=1) < LARGEST_LOG, value, -np.inf)

    def is_ambiguous(self) -> bool:
        """Return whether the components of the tokens are uncertain and matter."""
        return bool(is_ambiguous(self.p, np.zeros(1, dtype=np.int64))[0])


def sample_of_row(rows: sp.csr_array, n: int, model: GaP, rates: Array | None = None) -> Sample:
    """Return row n, which must have counts, as a Sample; rates (N, K) are those of the rows."""
    lo, hi = rows.indptr[n], rows.indptr[n + 1]
    W, counts = model.W[rows.indices[lo:hi]], rows.data[lo:hi].astype(np.int64)
    columns = np.flatnonzero(W.any(axis=0))
    rate = model.column_norms + model.beta if rates is None else rates[n]
    p, log_scale = scaled_probabilities(W[:, columns], rate[columns])
    constant = float(counts @ log_scale - gammaln(counts + 1.0).sum())
    return Sample(counts, p, model.alpha[columns], columns, constant)


def draw_shapes(
    sample: Sample,
    guide: Array,
    seed: np.uint64,
    key: int,
    n_draws: int,
    n_chains: int,
    n_burn_in: int,
) -> Array:
    """Draw α + L given v, (n_draws × n_chains, K): g_k given L is Gamma(α_k + L_k, 1).

    The chains start from one pass over the tokens with this guide (K,).
    """
    J, K = sample.p.shape
    at = make_particles(n_chains, K, J)
    shapes = np.empty((n_draws, K * n_chains))
    streams = np.array([key], dtype=np.uint64)
    smc.estimates(
        np.array([0, J]), np.arange(J), sample.counts, np.ascontiguousarray(sample.p),
        sample.alpha, guide[None], smc.MOVE, seed, streams, at, np.empty(1), np.empty(1),
    )  # fmt: skip
    chains.draw_sizes(J, K, (seed, streams[0]), n_burn_in, at, shapes)
    return shapes.reshape(n_draws, K, n_chains).transpose(0, 2, 1).reshape(-1, K)


def log_gamma(shapes: Array, rng: np.random.Generator) -> Array:
    """Draw logarithms of Gamma variables; the variables themselves may underflow."""
    x = np.log(rng.standard_gamma(shapes + 1.0))
    return np.asarray(x - rng.standard_exponential(shapes.shape) / shapes)


def pass_cost(rows: sp.csr_array, K: int, n_particles: int) -> Array:
    """Predict the operations of one pass over the tokens, for each sample."""
    growth = smc.growth(K)
    many = smc.BATCH / growth
    tokens = np.minimum(rows.data, many)
    rounds = np.log(np.maximum(rows.data / many, 1.0)) / growth
    work = sum_entries(rows.indptr, 2.0 * tokens + 50.0 * rounds)
    return np.asarray((work + 50.0) * (K + 2.0) * n_particles)


def sweep_cost(rows: sp.csr_array, K: int) -> Array:
    """Predict the operations of one sweep of one chain, for each sample."""
    tokens = sum_entries(rows.indptr, np.minimum(rows.data, HEAVY).astype(float))
    return np.asarray((0.5 * K + 3.0) * tokens + 50.0 * K)


def max_particles(n_components: int) -> int:
    """Return the largest number of particles per run with distinct random-number counters."""
    return max((1 << 20) // max(n_components, 1) // 4 * 4, 4)


def particles_per_run(
    n_particles: int | None, n_components: int, default: int, n_runs: int = 1, least: int = 4
) -> int:
    """Check n_particles and return the particles of each run, a multiple of four.

    All runs together have at least n_particles; None stands for the default.
    """
    most = max_particles(n_components)
    n = min(default, n_runs * most) if n_particles is None else n_particles
    n = check_whole(n, "n_particles", least * n_runs)
    each = -(-n // (4 * n_runs)) * 4
    if each > most:
        raise InvalidInputError(
            f"n_particles is {n}, but with {n_components} components there are random numbers for "
            f"{most * n_runs} at most: use fewer"
        )
    return each
