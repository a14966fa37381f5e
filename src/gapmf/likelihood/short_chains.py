"""A few Gibbs chains per sample, on the sweeps of the fit: means and draws of component sizes."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.kernels.dictionary import make_weights
from gapmf.kernels.gibbs_layout import (
    LARGEST,
    EStepPlan,
    Scales,
    Sums,
    Workspace,
    build_lanes,
    make_workspace,
)
from gapmf.kernels.gibbs_posterior import Chains, Found, make_chains, posterior_sizes
from gapmf.likelihood.sample import stream_keys
from gapmf.model import GaP
from gapmf.parallel import Progress, map_reduce, part_of
from gapmf.types import Array

_BLOCK_ENTRIES = 1 << 20  # counts that are laid out at once, so that memory is bounded
_TASK_WORK = 2e7  # tokens × components × sweeps: a fraction of a second, so Ctrl-C is answered

# The kernels of a sweep can also add over samples, which is not asked for here.
_NO_PLAN = EStepPlan(np.uint64(0), 0, 0, 0, 0, False)
_NO_SCALES = Scales(np.ones(1), np.ones(1), 1.0)


class Sizes(NamedTuple):
    """Posterior component sizes L of N samples."""

    mean: Array  # (N, K): E[L | v]
    error: Array  # (N,): SAFETY standard errors of E[h | v] in `activation_units`, over its length
    n_sweeps: NDArray[np.int64]  # (N,): sweeps of each chain
    draws: NDArray[np.int64]  # (N, n_draws × 4, K): draws of L


def activation_units(model: GaP) -> Array:
    """Return the scales (K,) on which activations vary: max(α_k, 1)/β_k.

    β_k h_k ~ Gamma(α_k, 1) a priori. A component whose α is thousands has an activation of
    thousands in every sample. In its own units it does not hide the errors of the others.
    """
    return np.asarray(np.maximum(model.alpha, 1.0) / model.beta)


def sample_sizes(
    rows: sp.csr_array,
    model: GaP,
    seed: np.uint64,
    purpose: int,
    *,
    precision: float,
    max_sweeps: int,
    n_jobs: int | None,
    n_draws: int = 0,
    progress: Progress | None = None,
    rates: Array | None = None,
) -> Sizes:
    """Find the sizes of the components of each sample, which must be possible.

    Chains run until the error is at most `precision`, or for `max_sweeps` sweeps. Then n_draws
    more sweeps of each of them give draws. rates (N, K) are the samples' own R/s, if they have
    exposures.
    """
    N, K = rows.shape[0], model.n_components
    keys = [stream_keys(rows, n, purpose, 1)[0] for n in range(N)]
    streams = np.array(keys, dtype=np.uint64) ^ seed
    weights = make_weights(model.W, model.column_norms, model.alpha, model.beta)
    rate = model.column_norms + model.beta
    factors = None if rates is None else rate / rates
    units = activation_units(model)
    found = Found(
        np.empty((N, K)),
        np.empty(N),
        np.empty(N, np.int64),
        np.empty((N, n_draws, make_chains(1).sizes.shape[0], K), np.int64),
    )
    ends = np.unique(np.searchsorted(rows.indptr, np.arange(0, rows.nnz, _BLOCK_ENTRIES)))
    cuts = np.unique([0, *ends.tolist(), N])
    for lo, hi in pairwise(cuts.tolist()):
        block = rows[lo:hi]
        lanes, large = build_lanes(
            block.indptr.astype(np.int64), block.indices.astype(np.int32), block.data, LARGEST
        )
        n_lanes = np.diff(lanes.start)
        most = int(n_lanes.max()), int((n_lanes + 3 * lanes.fours + lanes.twos).max())
        own = Found._make(array[lo:hi] for array in found)
        own_rates = (rate[None] if rates is None else rates[lo:hi]) * units
        own_factors = None if factors is None else factors[lo:hi]
        limits = precision, max_sweeps
        data = lanes, large, weights, own_rates, own_factors, streams[lo:hi], *limits, _NO_SCALES

        def make_arrays(most: tuple[int, int] = most) -> tuple[Sums, Workspace, Chains]:
            sums = Sums(np.empty(0), np.empty(0), np.empty((0, 0), np.int64))
            return sums, make_workspace(*most, K, _NO_PLAN), make_chains(K)

        def work(
            task: tuple[int, int],
            arrays: tuple[Sums, Workspace, Chains],
            data: tuple[object, ...] = data,
            own: Found = own,
        ) -> None:
            posterior_sizes(*task, *data, *arrays, own)

        # A few samples may make all sweeps: at a high precision, tasks have fewer samples.
        each = max(16.0, max_sweeps / 8.0)
        place = (np.cumsum((n_lanes + 20.0) * K * each) / _TASK_WORK).astype(np.int64)
        edges = [0, *(np.flatnonzero(np.diff(place)) + 1).tolist(), int(hi - lo)]
        tasks = list(pairwise(edges))
        map_reduce(work, tasks, make_arrays, n_jobs, part_of(progress, lo / N, hi / N))
    draws = found.draws.transpose(0, 2, 1, 3).reshape(N, -1, K)
    return Sizes(found.mean, found.error, found.n_sweeps, draws)
