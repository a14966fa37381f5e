"""Posterior draws of the component sizes: chains that start where guided passes have come to.

Gibbs chains alone stay in the mode in which they begin when α is small, however long they are: so
where they begin is what matters, and how many there are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from gapmf.likelihood.estimates import Estimates, Mean
from gapmf.likelihood.guide import guide, guide_cost, may_miss_a_mode
from gapmf.likelihood.sample import Sample, draw_shapes, pass_cost, sweep_cost, take_sample
from gapmf.likelihood.streams import CHAINS, stream_names
from gapmf.model import GaP
from gapmf.parallel import for_each

Array = NDArray[np.float64]

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
    names = stream_names(rows, n, CHAINS, n_passes)
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
        sample = take_sample(rows, n, model)
        own = guide(rows, n, sample, seed, n_chains)
        found = estimate(n, sample, own)
        for array, value in zip(result, found, strict=True):
            array[n] = value
        result.values[n] += sample.constant
        result.reliable[n] &= not may_miss_a_mode(sample, own, n_chains)

    with threadpool_limits(1, "blas"):  # the threads are ours
        for_each(work, range(N), n_jobs)
    return result
