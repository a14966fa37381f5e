"""Method "chib": Chib's identity p(v) = p(v, g*) / p(g* | v) at a fixed point g*.

The density of g* given v is the mean of p(g* | L) over posterior draws of L. Independent chains may
miss the L that matter; then the density is too small and p(v) too large (Chib 1995). Chains that
pass through g* at a random sweep estimate p(v) without bias (Murray and Salakhutdinov 2009), but
mostly too low when they do not leave g*. The latter give the estimate. Its standard error is at
least half its distance to the former.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, logsumexp

from gapmf.kernels import chains
from gapmf.kernels.particles import make_particles
from gapmf.likelihood.guide import N_PASSES, chains_cost, draw_passes, estimate_each
from gapmf.likelihood.result import LARGEST_STD_ERROR, Estimates, Mean, log_mean
from gapmf.likelihood.sample import CHAINS, CHIB, Sample, particles_per_run, stream_keys, sweep_cost
from gapmf.model import GaP
from gapmf.types import Array

N_PASSING = 128  # default number of chains through g*
N_SWEEPS = 32  # of each chain through g*
N_PILOT = 4  # sweeps of the chains whose mean is g*
N_FREE = 16  # sweeps of the independent chains


def check_particles(n_particles: int | None, n_components: int) -> int:
    """Return the number of chains through g*."""
    return particles_per_run(n_particles, n_components, N_PASSING, least=32)


def predict_cost(rows: sp.csr_array, K: int, n_chains: int) -> Array:
    """Predict the operations for each sample."""
    cost: Array = sweep_cost(rows, K) * n_chains * N_SWEEPS
    return np.asarray(cost + chains_cost(rows, K, N_PILOT) + chains_cost(rows, K, N_FREE))


def log_factors(
    rows: sp.csr_array,
    model: GaP,
    seed: np.uint64,
    n_chains: int,
    n_jobs: int | None,
    rates: Array | None = None,
) -> Estimates:
    """Estimate the logarithm of the second factor of Eq. 31 for each sample.

    Every sample must be possible for two columns or more. rates (N, K) are their own R/s, if they
    have exposures.
    """

    def estimate(n: int, sample: Sample, guide: Array) -> Mean:
        pilot = stream_keys(rows, n, CHAINS, N_PASSES)
        point = fixed_point(draw_passes(sample, guide, seed, pilot, N_PILOT))
        passing, *free = stream_keys(rows, n, CHIB, 1 + N_PASSES)
        joint = float(sample.log_density(point[None])[0])
        below = log_mean(joint - log_densities(sample, point, seed, passing, n_chains))
        above = from_above(sample, guide, point, joint, seed, free)
        distance = abs(above.value - below.value)
        # A choice that no chain made may still have about the last of these probabilities.
        error = max(below.std_error, 0.5 * distance, 1.0 / (n_chains * N_SWEEPS))
        reliable = below.reliable and error <= LARGEST_STD_ERROR
        return below._replace(std_error=error, reliable=reliable)

    return estimate_each(rows, model, rates, estimate, seed, n_jobs)


def fixed_point(shapes: Array) -> Array:
    """Return log g* from draws of α + L, where g* is the posterior mean of g."""
    return np.asarray(np.log(shapes.reshape(-1, shapes.shape[-1]).mean(axis=0)))


def log_densities(sample: Sample, point: Array, seed: np.uint64, key: int, n_chains: int) -> Array:
    """Estimate log p(log g* | v) by each chain through g*; the inverse densities are unbiased."""
    J, K = sample.p.shape
    result, top = np.empty((2, n_chains))
    chains.densities(
        np.arange(J), sample.counts, sample.p, sample.alpha, point, (seed, np.uint64(key)),
        N_SWEEPS, make_particles(n_chains, K, J), np.empty(K * n_chains), top, result,
    )  # fmt: skip
    return np.asarray(result - np.exp(point).sum())


def from_above(
    sample: Sample, guide: Array, point: Array, joint: float, seed: np.uint64, keys: list[int]
) -> Mean:
    """Return Chib's own estimate, where the density is the mean over independent chains."""
    shapes = draw_passes(sample, guide, seed, keys, N_FREE)
    density = shapes @ point - np.exp(point).sum() - gammaln(shapes).sum(axis=-1)
    mean = log_mean(logsumexp(density, axis=1).ravel() - math.log(N_FREE))
    return mean._replace(value=joint - mean.value)
