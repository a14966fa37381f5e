"""Chib's identity, p(v) = p(v, g*) / p(g* | v), with an unbiased estimate for a fixed point g*.

The density of g* given v is the mean of p(g* | L) over draws of L. A chain from anywhere that has
not yet met the L that matter makes it too small, and p(v) too large; with g* among the draws it
is the other way round. Murray and Salakhutdinov's remedy makes p(v) right on average: the chain
passes through g* at a random place.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.kernels import chains
from gapmf.kernels.particles import make_particles
from gapmf.likelihood.estimates import Estimates, log_mean
from gapmf.likelihood.sample import (
    Sample,
    pilot_cost,
    pilot_shapes,
    sweep_cost,
    take_sample,
)
from gapmf.likelihood.streams import CHIB, stream_names
from gapmf.model import GaP
from gapmf.parallel import for_each

Array = NDArray[np.float64]

N_CHAINS = 64
N_SWEEPS = 64  # of each chain
N_PILOT = 8  # sweeps of the chains that g* comes from


def log_factors(
    rows: sp.csr_array, model: GaP, seed: np.uint64, n_chains: int, n_jobs: int | None
) -> Estimates:
    """The logarithm of the second factor of Eq. 31, estimated for each sample.

    Every sample must be possible, and meet two columns or more.
    """
    N = rows.shape[0]
    result = Estimates.empty(N)

    def work(n: int) -> None:
        sample = take_sample(rows, n, model)
        point = fixed_point(pilot_shapes(rows, n, sample, seed, N_PILOT))
        (name,) = stream_names(rows, n, CHIB, 1)
        density = log_densities(sample, point, seed, name, n_chains)
        found = log_mean(sample.log_density(point[None]) - density)
        for array, value in zip(result, found, strict=True):
            array[n] = value
        result.values[n] += sample.constant

    for_each(work, range(N), n_jobs)
    return result


def predict_cost(rows: sp.csr_array, K: int, n_chains: int) -> Array:
    """Operations for each sample, about a nanosecond each."""
    cost: Array = sweep_cost(rows, K) * n_chains * N_SWEEPS
    return cost + pilot_cost(rows, K, N_PILOT)


def fixed_point(shapes: Array) -> Array:
    """log g* from draws of α + L: the posterior mean of g."""
    return np.log(shapes.mean(axis=0))


def log_densities(sample: Sample, point: Array, key: np.uint64, name: int, n_chains: int) -> Array:
    """log p(log g* | v) by each chain: its inverse is unbiased."""
    J, K = sample.p.shape
    result, top = np.empty((2, n_chains))
    chains.densities(
        np.arange(J), sample.counts, sample.p, sample.alpha, point, (key, np.uint64(name)),
        N_SWEEPS, make_particles(n_chains, K, J), np.empty(K * n_chains), top, result,
    )  # fmt: skip
    return np.asarray(result - np.exp(point).sum())
