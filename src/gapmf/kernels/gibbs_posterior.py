"""Posterior means of the component sizes of single samples, each to a precision.

A sample has a few Gibbs chains, on the sweeps of the fit. They start apart, at activations drawn as
if every component had one token: draws from the prior would be further apart, but at a small α most
of them are next to nothing, and chains take long to come back from there. A sweep adds E[L | h],
which has less variance than the draw of L. Rounds double in length until the chains agree: the
error is that between the means of the chains, or that between the last two rounds, if that is
larger. The mean is over the last two rounds, that is, without the first quarter of all sweeps.

The stream of a sample has its own key, so its result depends on nothing but itself and the model.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapmf.kernels.gibbs import draw_activations, draw_allocations, expose, gather, weigh
from gapmf.kernels.gibbs_layout import AT_ONCE, EStepPlan, stride_of
from gapmf.kernels.jit import inner, kernel

N_CHAINS = 4
FIRST_ROUND = 2  # sweeps of each chain; the second round has as many, then they double
SAFETY = 2.5  # standard errors: one that comes from four chains is often too small

f4 = np.float32


class Chains(NamedTuple):
    """The chains of one sample."""

    sizes: NDArray[np.int64]
    """(N_CHAINS, K): L, their state."""
    sums: NDArray[np.float64]
    """(N_CHAINS, K): Σ E[L | h] over the sweeps of this round."""
    earlier: NDArray[np.float64]
    """The same of the round before."""


class Found(NamedTuple):
    """What is found about N samples."""

    mean: NDArray[np.float64]
    """(N, K): E[L | v]."""
    error: NDArray[np.float64]
    """(N,): the error of E[h | v] relative to its length."""
    n_sweeps: NDArray[np.int64]
    """(N,): sweeps of each chain."""
    draws: NDArray[np.int64]
    """(N, n_draws, N_CHAINS, K): draws of L, each after another sweep."""


def make_chains(K: int) -> Chains:
    """Make the arrays of one sample's chains."""
    return Chains(*(np.empty((N_CHAINS, K), kind) for kind in (np.int64, float, float)))


@inner(fastmath={"contract", "reassoc", "nsz"})
def dot_rows(tile, row, stride, n, x):
    """Give Σ_i x_i (row of the tile)_i for four rows."""
    a, b, c, d = f4(0), f4(0), f4(0), f4(0)
    o0 = np.uint64(row)
    o1 = o0 + np.uint64(stride)
    o2 = o1 + np.uint64(stride)
    o3 = o2 + np.uint64(stride)
    for j in range(np.uint64(n)):
        i = np.uint64(j)
        a += x[i] * tile[o0 + i]
        b += x[i] * tile[o1 + i]
        c += x[i] * tile[o2 + i]
        d += x[i] * tile[o3 + i]
    return a, b, c, d


@inner()
def add_separately(count, row, weights, workspace, sums):
    """sums_k += count × w_fk h_k / [Wh]_f, in double precision."""
    weigh(row, weights.rows, workspace.g, workspace.log_g, workspace.p, workspace.rest)
    for k in range(sums.size):
        sums[k] += count * workspace.p[k]


@inner()
def add_expected_sizes(n, n_below, lanes, large, weights, stride, workspace, sums):
    """sums_k += E[L_k | h] = Σ_f v_f w_fk h_k / [Wh]_f, for the h and 1/[Wh] of the last sweep."""
    h, ratio = workspace.h, workspace.total
    start, K = lanes.start[n], sums.size
    fours, twos = lanes.fours[n], lanes.twos[n]
    n_lanes = lanes.start[n + 1] - start
    for i in range(n_lanes):
        tokens = 4 if i < fours else (2 if i < fours + twos else 1)
        if n_below and workspace.inverse[i] == f4(0):
            row = np.int64(lanes.feature[start + i]) * h.size
            add_separately(tokens, row, weights, workspace, sums)
        ratio[i] = f4(tokens) * workspace.inverse[i]
    for k in range(0, h.size, AT_ONCE):
        found = dot_rows(workspace.tile, k * stride, stride, n_lanes, ratio)
        for q in range(AT_ONCE):
            if k + q < K:
                sums[k + q] += np.float64(found[q] * h[k + q])
    if large is not None:
        for i in range(large.start[n], large.start[n + 1]):
            row = np.int64(large.feature[i]) * h.size
            add_separately(large.count[i], row, weights, workspace, sums)


@inner()
def measure(length, last, alpha, rate, chains, mean):
    """Give the error of the mean of h relative to its length; set the mean of L.

    length is the number of sweeps of this round, last that of the round before.
    """
    C, K = chains.sums.shape
    spread = drift = square = 0.0
    for k in range(K):
        total = now = 0.0
        for c in range(C):
            now += chains.sums[c, k]
            total += chains.sums[c, k] + chains.earlier[c, k]
        mean[k] = total / (C * (length + last))
        for c in range(C):
            own = (chains.sums[c, k] + chains.earlier[c, k]) / (length + last)
            spread += ((own - mean[k]) / rate[k]) ** 2
        moved = now / (C * length) - (total - now) / (C * last)
        drift += (moved / rate[k]) ** 2
        square += ((alpha[k] + mean[k]) / rate[k]) ** 2
    # If all sweeps are alike, the means of two rounds differ by so many times the error of both.
    drift /= (length + last) ** 2 / (length * last)
    return SAFETY * math.sqrt(max(spread / (C * (C - 1)), drift) / square)


@kernel()
def posterior_sizes(
    first, last, lanes, large, weights, rates, factors, keys, precision, most, scales, sums,
    workspace, chains, found,
):  # fmt: skip
    """Find E[L | v] of samples first … last, with at most so many sweeps of each chain.

    rates (1, K) is S + β, or (N, K) with exposures, and factors (N, K) are then the ratio of the
    two, else None. keys (N,) are the samples' streams. scales and sums are not used: what is drawn
    is not added over samples.
    """
    K = rates.shape[1]
    for n in range(first, last):
        rate = rates[n if factors is not None else 0]
        n_lanes = lanes.start[n + 1] - lanes.start[n]
        stride = stride_of(n_lanes)
        gather(
            lanes.feature, lanes.start[n], n_lanes, weights.rows, workspace.h.size, stride,
            workspace.tile,
        )  # fmt: skip
        done = 0
        length, earlier = FIRST_ROUND, 0
        keep = found.draws.shape[1]
        error = math.inf
        ended = False
        while True:
            for c in range(N_CHAINS):
                plan = EStepPlan(keys[n], c, -n, 0, 0, True)
                own = chains.sizes[c]
                for k in range(K):
                    chains.earlier[c, k] = chains.sums[c, k]
                    chains.sums[c, k] = 0.0
                    if done == 0:
                        own[k] = 1
                for t in range(done, done + length):
                    draw_activations(
                        n, t, own, weights.alpha, plan, workspace.own_words, workspace.g,
                        workspace.log_g,
                    )  # fmt: skip
                    if factors is not None:
                        expose(factors[n], workspace.g, workspace.log_g)
                    for k in range(K):
                        own[k] = 0
                    n_below = draw_allocations(
                        n, t, -1, lanes, large, weights, plan, scales, stride, workspace, None,
                        own, sums,
                    )  # fmt: skip
                    if ended:
                        for k in range(K):
                            found.draws[n, t - done, c, k] = own[k]
                    else:
                        add_expected_sizes(
                            n, n_below, lanes, large, weights, stride, workspace, chains.sums[c]
                        )
            if ended:
                break
            done += length
            if done >= 4 * FIRST_ROUND:
                error = measure(length, earlier, weights.alpha, rate, chains, found.mean[n])
            earlier = length
            length = done
            ended = error <= precision or done + length > most
            if ended:
                found.error[n] = error
                found.n_sweeps[n] = done
                if keep == 0:
                    break
                length = keep
