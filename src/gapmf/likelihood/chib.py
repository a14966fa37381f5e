"""Chib's identity, p(v) = p(v, g*) / p(g* | v), at a fixed point g*, from both sides.

The density of g* given v is the mean of p(g* | L) over draws of L. Chains that run by themselves
may not have met the L that matter: the density comes out too small, and p(v) too large. Chains that
pass through g* at a random place, as Murray and Salakhutdinov have it, make p(v) right on average,
and too small, most of the time, when they do not get away from g*. So the latter are the estimate,
and the error is no less than half the way to the former.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, logsumexp

from gapmf.kernels import chains
from gapmf.kernels.particles import make_particles
from gapmf.likelihood.guide import N_PASSES, draw_passes, estimate_each, pilot_cost, pilot_shapes
from gapmf.likelihood.result import LARGEST_STD_ERROR, Estimates, Mean, log_mean
from gapmf.likelihood.sample import CHIB, Sample, stream_keys, sweep_cost
from gapmf.model import GaP
from gapmf.types import Array

N_PASSING = 128  # chains through g*
N_SWEEPS = 32  # of each of these
N_PILOT = 4  # sweeps of the chains that g* comes from
N_FREE = 16  # sweeps of the chains that run by themselves


def predict_cost(rows: sp.csr_array, K: int, n_chains: int) -> Array:
    """Operations for each sample, about a nanosecond each."""
    cost: Array = sweep_cost(rows, K) * n_chains * N_SWEEPS
    return np.asarray(cost + pilot_cost(rows, K, N_PILOT) + pilot_cost(rows, K, N_FREE))


def log_factors(
    rows: sp.csr_array, model: GaP, seed: np.uint64, n_chains: int, n_jobs: int | None
) -> Estimates:
    """The logarithm of the second factor of Eq. 31, estimated for each sample.

    Every sample must be possible, and meet two columns or more.
    """

    def estimate(n: int, sample: Sample, guide: Array) -> Mean:
        point = fixed_point(pilot_shapes(rows, n, sample, guide, seed, N_PILOT))
        passing, *free = stream_keys(rows, n, CHIB, 1 + N_PASSES)
        joint = float(sample.log_density(point[None])[0])
        below = log_mean(joint - log_densities(sample, point, seed, passing, n_chains))
        above = from_above(sample, guide, point, joint, seed, free)
        apart = abs(above.value - below.value)
        # A choice that no chain made may still be as probable as one in so many.
        error = max(below.std_error, 0.5 * apart, 1.0 / (n_chains * N_SWEEPS))
        fine = below.reliable and error <= LARGEST_STD_ERROR
        return below._replace(std_error=error, reliable=fine)

    return estimate_each(rows, model, estimate, seed, n_jobs)


def fixed_point(shapes: Array) -> Array:
    """log g* from draws of α + L: the posterior mean of g."""
    return np.asarray(np.log(shapes.reshape(-1, shapes.shape[-1]).mean(axis=0)))


def log_densities(sample: Sample, point: Array, key: np.uint64, name: int, n_chains: int) -> Array:
    """log p(log g* | v) by each chain that passes through g*: its inverse is unbiased."""
    J, K = sample.p.shape
    result, top = np.empty((2, n_chains))
    chains.densities(
        np.arange(J), sample.counts, sample.p, sample.alpha, point, (key, np.uint64(name)),
        N_SWEEPS, make_particles(n_chains, K, J), np.empty(K * n_chains), top, result,
    )  # fmt: skip
    return np.asarray(result - np.exp(point).sum())


def from_above(
    sample: Sample, guide: Array, point: Array, joint: float, key: np.uint64, names: list[int]
) -> Mean:
    """Chib's own estimate: the density is the mean over chains that run by themselves."""
    shapes = draw_passes(sample, guide, key, names, N_FREE)
    density = shapes @ point - np.exp(point).sum() - gammaln(shapes).sum(axis=-1)
    mean = log_mean(logsumexp(density, axis=1).ravel() - math.log(N_FREE))
    return mean._replace(value=joint - mean.value)
