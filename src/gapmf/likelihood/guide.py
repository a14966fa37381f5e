"""Guides of particles, and posterior draws from guided chains.

A guide says how large the components of a sample are likely to be. It is added to α where particles
choose components. When α is small, a Gibbs chain stays in the mode in which it starts, however long
it runs. So chains start from guided passes over the tokens, and many short chains are better than a
few long ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from gapmf.likelihood.result import MIN_FIRST_TOKENS, Estimates, Mean, expected_first_tokens
from gapmf.likelihood.sample import (
    GUIDE,
    Sample,
    draw_shapes,
    pass_cost,
    sample_of_row,
    stream_keys,
    sweep_cost,
)
from gapmf.likelihood.short_chains import sample_sizes
from gapmf.model import GaP
from gapmf.parallel import Progress, for_each, part_of
from gapmf.types import Array

N_CHAINS = 64  # run side by side: fewer take nearly as long
N_BURN_IN = 8
N_PASSES = 2  # independent passes over the tokens from which chains start

MAX_CONCENTRATION = 0.5  # of α + guide, relative to the posterior's
MAX_GUIDE_MASS = 30.0  # Σ guide, in units of Σ α
N_GUIDE_SWEEPS = 1
_CHAIN_SWEEPS, _CHAIN_DRAWS = 32, 16  # of each of four chains, for a rough guide
_MAX_HELD = 1 << 24  # numbers of draws that are held at once
_GUIDE_CHAINS = (64, 256)  # minimum and maximum
_PARTICLES_PER_CHAIN = 4


class Guides(NamedTuple):
    """Guides of N samples."""

    sizes: Array  # (N, K): roughly proportional to E[L_k | v_n]
    n_chains: int  # number of short chains behind each guide


def guides(
    rows: sp.csr_array,
    model: GaP,
    seed: np.uint64,
    n_particles: int,
    n_jobs: int | None,
    progress: Progress | None = None,
    rates: Array | None = None,
) -> Guides:
    """Make the guides of all samples for n_particles particles each."""
    N = rows.shape[0]
    found = np.zeros((N, model.n_components))

    def work(n: int) -> None:
        if rows.indptr[n + 1] == rows.indptr[n]:
            return
        sample = sample_of_row(rows, n, model, rates)
        if sample.is_ambiguous():
            found[n, sample.columns] = guide(rows, n, sample, seed, n_particles)

    for_each(work, range(N), n_jobs, progress)
    return Guides(found, n_guide_chains(n_particles))


def guides_from_chains(
    rows: sp.csr_array,
    model: GaP,
    seed: np.uint64,
    n_jobs: int | None,
    progress: Progress | None = None,
    rates: Array | None = None,
) -> Guides:
    """Make the guides of all samples from a few short chains each: rougher, and much cheaper."""
    found = np.zeros((rows.shape[0], model.n_components))
    at_once = max(_MAX_HELD // (model.n_components * 4 * _CHAIN_DRAWS), 1)
    for lo in range(0, rows.shape[0], at_once):
        hi = min(lo + at_once, rows.shape[0])
        drawn = sample_sizes(
            rows[lo:hi],
            model,
            seed,
            GUIDE,
            precision=0.0,
            n_jobs=n_jobs,
            max_sweeps=_CHAIN_SWEEPS,
            n_draws=_CHAIN_DRAWS,
            progress=part_of(progress, lo / rows.shape[0], hi / rows.shape[0]),
            rates=None if rates is None else rates[lo:hi],
        )
        for n in range(lo, hi):
            shapes = model.alpha + drawn.draws[n - lo]
            found[n] = _with_mass(drawn.mean[n - lo], shapes, model.alpha)
    return Guides(found, 4)


def guide(rows: sp.csr_array, n: int, sample: Sample, seed: np.uint64, n_particles: int) -> Array:
    """Make the guide (K,) of row n for the columns of its sample."""
    each = n_guide_chains(n_particles) // N_PASSES
    nothing = np.zeros(sample.alpha.size)
    drawn = [
        draw_shapes(sample, nothing, seed, key, N_GUIDE_SWEEPS, each, N_GUIDE_SWEEPS)
        for key in stream_keys(rows, n, GUIDE, N_PASSES)
    ]
    shapes = np.concatenate(drawn)
    sizes = np.maximum(shapes.mean(axis=0) - sample.alpha, 0.0)
    return _with_mass(sizes, shapes, sample.alpha)


def _with_mass(sizes: Array, shapes: Array, alpha: Array) -> Array:
    """Scale expected sizes (K,) to a guide, given draws of α + L, (S, K)."""
    A, total = alpha.sum(), sizes.sum()
    if total == 0.0:
        return np.zeros_like(sizes)
    mass = min(max(MAX_CONCENTRATION * concentration(shapes) - A, 0.0), MAX_GUIDE_MASS * A)
    return np.asarray(sizes * (mass / total))


def concentration(shapes: Array) -> float:
    """Return the concentration of the Dirichlet law with the mean and total variance of θ.

    shapes (S, K) are draws of α + L, given which θ = g / Σ_k g_k is Dirichlet(α + L).
    """
    total = shapes.sum(axis=1, keepdims=True)
    mean = (shapes / total).mean(axis=0)
    most = float((mean * (1.0 - mean)).sum())  # the variance at concentration 0
    given = float(((shapes / total) * (1.0 - shapes / total) / (total + 1.0)).sum(axis=1).mean())
    return most / (float((shapes / total).var(axis=0, ddof=1).sum()) + given) - 1.0


def n_guide_chains(n_particles: int) -> int:
    """Return the number of chains behind a guide."""
    return int(np.clip(n_particles // _PARTICLES_PER_CHAIN // 16 * 16, *_GUIDE_CHAINS))


def guide_cost(rows: sp.csr_array, K: int, n_particles: int) -> Array:
    """Predict the operations of a guide, for each sample."""
    n_chains = n_guide_chains(n_particles)
    return pass_cost(rows, K, n_chains) + 2 * N_GUIDE_SWEEPS * n_chains * sweep_cost(rows, K)


def few_first_tokens(
    alpha: Array,
    mass: Array,
    guide_mass: Array,
    total: Array,
    n_particles: int | NDArray[np.int64],
    n_chains: int,
) -> NDArray[np.bool_]:
    """Return whether all particles and their guide may have missed a component with this α.

    mass is Σ_k α_k, guide_mass the sum of the guide and total the tokens of a sample. The
    n_chains behind the guide choose by α alone. Particles also follow the guide, which is zero
    for components that those chains have missed.
    """
    parts = n_chains * expected_first_tokens(alpha, mass, total)
    parts = parts + n_particles * expected_first_tokens(alpha, mass + guide_mass, total)
    return np.asarray(parts < MIN_FIRST_TOKENS)


def may_miss_a_mode(sample: Sample, guide: Array, n_particles: int) -> bool:
    """Return whether n_particles particles or chains with this guide may all miss a mode."""
    alpha, total = sample.alpha, np.asarray(float(sample.counts.sum()))
    n_chains = n_guide_chains(n_particles)
    few = few_first_tokens(alpha.min(), alpha.sum(), guide.sum(), total, n_particles, n_chains)
    return sample.is_ambiguous() and bool(few)


def draw_passes(
    sample: Sample,
    guide: Array,
    seed: np.uint64,
    keys: list[int],
    n_draws: int,
    n_chains: int = N_CHAINS,
) -> Array:
    """Draw α + L from chains of independent passes, one per key.

    The shape is (passes, n_draws, chains per pass, K). Chains of one pass may have ancestors in
    common.
    """
    each = n_chains // len(keys)
    drawn = [draw_shapes(sample, guide, seed, key, n_draws, each, N_BURN_IN) for key in keys]
    return np.stack(drawn).reshape(len(keys), n_draws, each, sample.alpha.size)


def chains_cost(rows: sp.csr_array, K: int, n_draws: int, n_chains: int = N_CHAINS) -> Array:
    """Predict the operations of `draw_passes` and its guide, for each sample."""
    sweeps = sweep_cost(rows, K) * n_chains * (N_BURN_IN + n_draws)
    return pass_cost(rows, K, n_chains) + sweeps + guide_cost(rows, K, n_chains)


def estimate_each(
    rows: sp.csr_array,
    model: GaP,
    rates: Array | None,
    estimate: Callable[[int, Sample, Array], Mean],
    seed: np.uint64,
    n_jobs: int | None,
    n_chains: int = N_CHAINS,
) -> Estimates:
    """Estimate all samples in parallel by `estimate(row, sample, guide)`.

    n_chains is the number of Gibbs chains that supply the draws of an estimate; rates (N, K) are
    the samples' own R/s, if they have exposures.
    """
    N = rows.shape[0]
    result = Estimates.empty(N)

    def work(n: int) -> None:
        sample = sample_of_row(rows, n, model, rates)
        own = guide(rows, n, sample, seed, n_chains)
        found = estimate(n, sample, own)
        for array, value in zip(result, found, strict=True):
            array[n] = value
        result.values[n] += sample.constant
        result.reliable[n] &= not may_miss_a_mode(sample, own, n_chains)

    with threadpool_limits(1, "blas"):  # samples are computed in parallel already
        for_each(work, range(N), n_jobs)
    return result
