"""A guide for sequential Monte Carlo: how large the components of a sample are likely to be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.likelihood.estimates import FEWEST_BIRTHS, births
from gapmf.likelihood.sample import Sample, draw_shapes, pass_cost, sweep_cost, take_sample
from gapmf.likelihood.streams import GUIDE, stream_names
from gapmf.model import GaP
from gapmf.parallel import for_each

Array = NDArray[np.float64]

SURENESS = 0.5  # that α and guide together may have, as a part of the posterior's own
MOST = 30.0  # of Σ_k α_k, all of a guide together
N_SWEEPS = 1
N_PASSES = 2  # over the tokens, from which the chains start
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
        sample = take_sample(rows, n, model)
        if sample.leaves_a_choice():
            found[n, sample.columns] = guide(rows, n, sample, seed, n_particles)

    for_each(work, range(N), n_jobs)
    return Guides(found, n_chains(n_particles))


def guide(rows: sp.csr_array, n: int, sample: Sample, seed: np.uint64, n_particles: int) -> Array:
    """The guide of row n, of which this is the sample, for its own columns: (K,)."""
    each = n_chains(n_particles) // N_PASSES
    nothing = np.zeros(sample.alpha.size)
    drawn = [
        draw_shapes(sample, nothing, seed, name, N_SWEEPS, each, N_SWEEPS)
        for name in stream_names(rows, n, GUIDE, N_PASSES)
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


def births_are_rare(
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
    parts = n_chains * births(alpha, mass, total)
    parts = parts + n_particles * births(alpha, mass + guiding, total)
    return np.asarray(parts < FEWEST_BIRTHS)


def may_miss_a_mode(sample: Sample, guide: Array, n_particles: int) -> bool:
    """Whether so many particles or chains with this guide may all have missed a mode."""
    alpha, total = sample.alpha, np.asarray(float(sample.counts.sum()))
    chains = n_chains(n_particles)
    rare = births_are_rare(alpha.min(), alpha.sum(), guide.sum(), total, n_particles, chains)
    return sample.leaves_a_choice() and bool(rare)


def n_chains(n_particles: int) -> int:
    """How many chains a guide comes from."""
    return int(np.clip(n_particles // _PART // 16 * 16, *_CHAINS))
