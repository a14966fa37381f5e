"""A guide for sequential Monte Carlo: how large the components of a sample are likely to be."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.likelihood.sample import N_PASSES, draw_shapes, pass_cost, sweep_cost, take_sample
from gapmf.likelihood.streams import GUIDE, stream_names
from gapmf.model import GaP
from gapmf.parallel import for_each

Array = NDArray[np.float64]

STRENGTH = 0.1  # of the sizes
# Of Σ_k α_k, all of a guide together: components that the chains below have missed still get their
# first token in a sixth as many particles as without it.
MOST = 5.0
N_SWEEPS = 1
_CHAINS = (16, 256)  # at least, and at most
_PART = 4  # of the particles that are guided, one in so many


def guides(
    rows: sp.csr_array, model: GaP, seed: np.uint64, n_particles: int, n_jobs: int | None
) -> Array:
    """A part of E[L_k | v_n], roughly, (N, K): from a few short chains, by streams of their own.

    n_particles is the number of those that are to be guided.
    """
    N = rows.shape[0]
    found = np.zeros((N, model.n_components))
    each = _n_chains(n_particles) // N_PASSES

    def work(n: int) -> None:
        if rows.indptr[n + 1] == rows.indptr[n]:
            return
        sample = take_sample(rows, n, model)
        if sample.leaves_a_choice():
            drawn = [
                draw_shapes(sample, seed, name, N_SWEEPS, each, N_SWEEPS)
                for name in stream_names(rows, n, GUIDE, N_PASSES)
            ]
            sizes = np.maximum(np.mean(drawn, axis=(0, 1)) - sample.alpha, 0.0)
            most = MOST * sample.alpha.sum()
            found[n, sample.columns] = min(STRENGTH, most / sizes.sum()) * sizes

    for_each(work, range(N), n_jobs)
    return found


def guide_cost(rows: sp.csr_array, K: int, n_particles: int) -> Array:
    """Operations for a guide, sample by sample, about a nanosecond each."""
    chains = _n_chains(n_particles)
    return pass_cost(rows, K, chains) + 2 * N_SWEEPS * chains * sweep_cost(rows, K)


def _n_chains(n_particles: int) -> int:
    return int(np.clip(n_particles // _PART // 16 * 16, *_CHAINS))
