"""Posterior draws of the component sizes: chains that start where guided passes have come to.

Gibbs chains alone stay in the mode in which they begin when α is small, however long they are: so
where they begin is what matters, and how many there are.

A guide for sequential Monte Carlo: how large the components of a sample are likely to be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from gapmf.likelihood.result import FEWEST_BIRTHS, Estimates, Mean, expected_first_tokens
from gapmf.likelihood.sample import (
    CHAINS,
    GUIDE,
    Sample,
    draw_shapes,
    pass_cost,
    sample_of_row,
    stream_keys,
    sweep_cost,
)
from gapmf.model import GaP
from gapmf.parallel import for_each
from gapmf.types import Array

N_CHAINS = 64  # side by side: fewer take nearly as long
N_BURN_IN = 8
N_PASSES = 2  # over the tokens, from which the chains start


def draw_passes(
    sample: Sample,
    guide: Array,
    key: np.uint64,
    names: list[int],
    n_draws: int,
    n_chains: int = N_CHAINS,
) -> Array:
    """Draws of α + L from independent passes, one a name: (passes, n_draws, chains of each, K).

    Chains that start from one pass have ancestors in common.
    """
    each = n_chains // len(names)
    drawn = [draw_shapes(sample, guide, key, name, n_draws, each, N_BURN_IN) for name in names]
    return np.stack(drawn).reshape(len(names), n_draws, each, sample.alpha.size)


def pilot_shapes(
    rows: sp.csr_array,
    n: int,
    sample: Sample,
    guide: Array,
    key: np.uint64,
    n_draws: int,
    n_chains: int = N_CHAINS,
    n_passes: int = N_PASSES,
) -> Array:
    """Draws for the design of an estimator, from streams of their own: see `draw_passes`."""
    names = stream_keys(rows, n, CHAINS, n_passes)
    return draw_passes(sample, guide, key, names, n_draws, n_chains)


def pilot_cost(rows: sp.csr_array, K: int, n_draws: int, n_chains: int = N_CHAINS) -> Array:
    """Operations for `pilot_shapes`, sample by sample, about a nanosecond each."""
    sweeps = sweep_cost(rows, K) * n_chains * (N_BURN_IN + n_draws)
    return pass_cost(rows, K, n_chains) + sweeps + guide_cost(rows, K, n_chains)


def estimate_each(
    rows: sp.csr_array,
    model: GaP,
    estimate: Callable[[int, Sample, Array], Mean],
    seed: np.uint64,
    n_jobs: int | None,
    n_chains: int = N_CHAINS,
) -> Estimates:
    """The estimates of all samples, each by itself, from that of a row's number, sample and guide.

    n_chains is what the draws that an estimate is made from come from.
    """
    N = rows.shape[0]
    result = Estimates.empty(N)

    def work(n: int) -> None:
        sample = sample_of_row(rows, n, model)
        own = guide(rows, n, sample, seed, n_chains)
        found = estimate(n, sample, own)
        for array, value in zip(result, found, strict=True):
            array[n] = value
        result.values[n] += sample.constant
        result.reliable[n] &= not may_miss_a_mode(sample, own, n_chains)

    with threadpool_limits(1, "blas"):  # the threads are ours
        for_each(work, range(N), n_jobs)
    return result


SURENESS = 0.5  # that α and guide together may have, as a part of the posterior's own
MOST = 30.0  # of Σ_k α_k, all of a guide together
N_SWEEPS = 1
_CHAINS = (64, 256)  # at least, and at most
_PART = 4  # of the particles that are guided, one in so many


class Guides(NamedTuple):
    """A guide for each of N samples."""

    sizes: Array
    """(N, K): a part of E[L_k | v_n], roughly."""
    n_chains: int
    """The short chains that each comes from, by streams of their own."""


def guides(
    rows: sp.csr_array, model: GaP, seed: np.uint64, n_particles: int, n_jobs: int | None
) -> Guides:
    """The guides of all samples. n_particles is the number of those that are to be guided."""
    N = rows.shape[0]
    found = np.zeros((N, model.n_components))

    def work(n: int) -> None:
        if rows.indptr[n + 1] == rows.indptr[n]:
            return
        sample = sample_of_row(rows, n, model)
        if sample.is_ambiguous():
            found[n, sample.columns] = guide(rows, n, sample, seed, n_particles)

    for_each(work, range(N), n_jobs)
    return Guides(found, n_chains(n_particles))


def guide(rows: sp.csr_array, n: int, sample: Sample, seed: np.uint64, n_particles: int) -> Array:
    """The guide of row n, of which this is the sample, for its own columns: (K,)."""
    each = n_chains(n_particles) // N_PASSES
    nothing = np.zeros(sample.alpha.size)
    drawn = [
        draw_shapes(sample, nothing, seed, name, N_SWEEPS, each, N_SWEEPS)
        for name in stream_keys(rows, n, GUIDE, N_PASSES)
    ]
    shapes = np.concatenate(drawn)
    sizes = np.maximum(shapes.mean(axis=0) - sample.alpha, 0.0)
    A = sample.alpha.sum()
    mass = min(max(SURENESS * concentration(shapes) - A, 0.0), MOST * A)
    return np.asarray(sizes * (mass / sizes.sum()))


def concentration(shapes: Array) -> float:
    """That of the Dirichlet law with the mean, and all variances together, of θ = g / Σ_k g_k.

    shapes (S, K) are draws of α + L: given these θ is Dirichlet(α + L).
    """
    total = shapes.sum(axis=1, keepdims=True)
    mean = (shapes / total).mean(axis=0)
    most = float((mean * (1.0 - mean)).sum())  # of a Dirichlet law whose concentration is 0
    given = float(((shapes / total) * (1.0 - shapes / total) / (total + 1.0)).sum(axis=1).mean())
    return most / (float((shapes / total).var(axis=0, ddof=1).sum()) + given) - 1.0


def guide_cost(rows: sp.csr_array, K: int, n_particles: int) -> Array:
    """Operations for a guide, sample by sample, about a nanosecond each."""
    chains = n_chains(n_particles)
    return pass_cost(rows, K, chains) + 2 * N_SWEEPS * chains * sweep_cost(rows, K)


def few_first_tokens(
    alpha: Array,
    mass: Array,
    guiding: Array,
    total: Array,
    n_particles: int | NDArray[np.int64],
    n_chains: int,
) -> NDArray[np.bool_]:
    """Whether a component with this α may have been missed by all particles, and by their guide.

    mass is Σ_k α_k, guiding all of the guide, total the tokens of a sample. The n_chains that the
    guide comes from see α, the particles the guide as well, in which components that those have
    missed have no part.
    """
    parts = n_chains * expected_first_tokens(alpha, mass, total)
    parts = parts + n_particles * expected_first_tokens(alpha, mass + guiding, total)
    return np.asarray(parts < FEWEST_BIRTHS)


def may_miss_a_mode(sample: Sample, guide: Array, n_particles: int) -> bool:
    """Whether so many particles or chains with this guide may all have missed a mode."""
    alpha, total = sample.alpha, np.asarray(float(sample.counts.sum()))
    chains = n_chains(n_particles)
    rare = few_first_tokens(alpha.min(), alpha.sum(), guide.sum(), total, n_particles, chains)
    return sample.is_ambiguous() and bool(rare)


def n_chains(n_particles: int) -> int:
    """How many chains a guide comes from."""
    return int(np.clip(n_particles // _PART // 16 * 16, *_CHAINS))
