"""Posterior means of the component sizes of single samples, each to a precision.

A sample has a few Gibbs chains, on the sweeps of the fit. They start apart, at activations drawn as
if every component had one token: draws from the prior would be further apart, but at a small α most
of them are next to nothing, and chains take long to come back from there. A sweep adds E[L | h],
which has less variance than the draw of L. Rounds double in length until the chains agree: the
error is that between the means of the chains, or that between the last two rounds, if that is
larger. The mean is over the last two rounds, that is, without the first quarter of all sweeps. The
chains may also end in the middle of a round, which then has half its length: the mean is without
the first third.

Chains mix slowly where components overlap, and most of that error is known. With g = (S + β) h the
surprise g - α - E[L | h] has mean zero, since E[g | L] = α + L. A surprise u of one sweep moves the
expected sizes of the sweeps that follow by A u, A² u, … where A = ∂E[L | h]/∂g at the mean. These
are subtracted: a control variate whose coefficient is almost the best one while h is near its mean.
It costs one product of the sample's rows of W with themselves. N_TERMS of them, rather than the
inverse of I - A, are stable when α is small: A then has eigenvalues near 1 whose directions are far
from linear.

The stream of a sample has its own key, so its result depends on nothing but itself and the model.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapmf.kernels.gibbs import (
    draw_activations,
    draw_allocations,
    expose,
    gather,
    scale_activations,
    sum_rates,
)
from gapmf.kernels.gibbs_layout import AT_ONCE, EStepPlan, stride_of
from gapmf.kernels.jit import inner, kernel
from gapmf.kernels.large_counts import weigh

N_CHAINS = 4
FIRST_ROUND = 2  # sweeps of each chain; the second round has as many, then they double
LEAST_SWEEPS = 8  # after which the error is measured for the first time
SAFETY = 2.2  # standard errors: one that comes from four chains is often too small
DOUBT = 0.25  # of the error without correction: a common one of all chains is hardly seen
N_TERMS = 16  # sweeps whose expected change by a surprise is subtracted
LEAST_SIZE = 1.0  # tokens of a component whose surprises are followed
LEAST_TOTAL = 1e-15  # of a lane: the square of its inverse is a single-precision number

f4 = np.float32


class Chains(NamedTuple):
    """The chains of one sample."""

    sizes: NDArray[np.int64]
    """(N_CHAINS, K): L, their state."""
    sums: NDArray[np.float64]
    """(N_CHAINS, K): Σ E[L | h] over the sweeps of this round."""
    earlier: NDArray[np.float64]
    """The same of the round before."""
    drawn: NDArray[np.float64]
    """(N_CHAINS, K): Σ (g - α) over the sweeps of this round."""
    earlier_drawn: NDArray[np.float64]
    """The same of the round before."""
    mean: NDArray[np.float64]
    """(K,): of all chains, over the last two rounds."""
    slope: NDArray[np.float64]
    """(K, K): A, of the components that are followed."""
    followed: NDArray[np.int64]
    """(K,): these components come first."""
    term: NDArray[np.float64]
    next_term: NDArray[np.float64]
    change: NDArray[np.float64]
    """(K,): what a surprise changes, and two terms of it."""
    changes: NDArray[np.float64]
    """(N_CHAINS, K): what each chain's surprises change in its mean."""


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
    C = N_CHAINS
    return Chains(
        np.empty((C, K), np.int64),
        *(np.empty((C, K)) for _ in range(4)),
        np.empty(K),
        np.empty((K, K)),
        np.empty(K, np.int64),
        *(np.empty(K) for _ in range(3)),
        np.empty((C, K)),
    )


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
def multiply_row(tile, row, n, x, out):
    """out_i = x_i (row of the tile)_i."""
    row = np.uint64(row)
    for j in range(np.uint64(n)):
        i = np.uint64(j)
        out[i] = x[i] * tile[row + i]


@inner()
def find_slope(n, mean, factors, lanes, large, weights, stride, workspace, chains):
    """Set A_kl = ∂E[L_k | h]/∂g_l at g = α + mean, for components that are followed; count them.

    With p_fk = w_fk h_k / [Wh]_f and M = Σ_f v_f p_f p_fᵀ: A = (diag(M 1) - M) diag(1/g).
    """
    start, K, h = lanes.start[n], mean.size, workspace.h
    fours, twos = lanes.fours[n], lanes.twos[n]
    n_lanes = lanes.start[n + 1] - start
    g, followed, slope = workspace.g, chains.followed, chains.slope
    n_followed = 0
    for k in range(K):
        g[k] = weights.alpha[k] + mean[k]
        if mean[k] >= LEAST_SIZE:
            followed[n_followed] = k
            n_followed += 1
            for j in range(K):
                slope[k, j] = 0.0
        workspace.log_g[k] = math.nan
    if factors is not None:
        expose(factors[n], g, workspace.log_g)
    if large is not None:
        for i in range(large.start[n], large.start[n + 1]):
            row = np.int64(large.feature[i]) * h.size
            weigh(row, weights.rows, g, workspace.log_g, workspace.p, workspace.rest)
            for a in range(n_followed):
                k = followed[a]
                for j in range(K):
                    slope[k, j] += large.count[i] * workspace.p[k] * workspace.p[j]
    scale_activations(g, h)
    sum_rates(h, n_lanes, stride, workspace.tile, workspace.total)
    squares, scaled = workspace.total, workspace.inverse
    for i in range(n_lanes):
        tokens = 4 if i < fours else (2 if i < fours + twos else 1)
        total = squares[i]
        squares[i] = f4(tokens) / (total * total) if total > f4(LEAST_TOTAL) else f4(0)
    for a in range(n_followed):
        k = followed[a]
        multiply_row(workspace.tile, k * stride, n_lanes, squares, scaled)
        for j in range(0, h.size, AT_ONCE):
            found = dot_rows(workspace.tile, j * stride, stride, n_lanes, scaled)
            for q in range(AT_ONCE):
                if j + q < K:
                    slope[k, j + q] += np.float64(found[q]) * h[k] * h[j + q]
    for a in range(n_followed):
        k = followed[a]
        own = 0.0
        for j in range(K):
            own += slope[k, j]
            slope[k, j] = -slope[k, j] / (weights.alpha[j] + mean[j])
        slope[k, k] += own / (weights.alpha[k] + mean[k])
    return n_followed


@inner()
def follow(n_followed, chains):
    """Set change = Σ_j A^j term, for j = 1 … N_TERMS."""
    term, after, change = chains.term, chains.next_term, chains.change
    for k in range(change.size):
        change[k] = 0.0
    for _ in range(N_TERMS):
        for a in range(n_followed):
            k = chains.followed[a]
            total = 0.0
            for b in range(n_followed):
                j = chains.followed[b]
                total += chains.slope[k, j] * term[j]
            after[k] = total
        for a in range(n_followed):
            k = chains.followed[a]
            term[k] = after[k]
            change[k] += after[k]


@inner()
def measure(n, length, last, rate, factors, lanes, large, weights, stride, workspace, chains):
    """Set the mean of L; give the error of that of h relative to its length, and of its plain mean.

    length is the number of sweeps of this round, last that of the round before.
    """
    C, K = chains.sums.shape
    mean = chains.mean
    both = length + last
    tokens = 0.0
    for k in range(K):
        mean[k] = 0.0
        for c in range(C):
            mean[k] += (chains.sums[c, k] + chains.earlier[c, k]) / (C * both)
        tokens += mean[k]
    n_followed = find_slope(n, mean, factors, lanes, large, weights, stride, workspace, chains)
    for c in range(C):
        for k in range(K):
            drawn = chains.drawn[c, k] + chains.earlier_drawn[c, k]
            chains.term[k] = (drawn - chains.sums[c, k] - chains.earlier[c, k]) / both
        follow(n_followed, chains)
        for k in range(K):
            chains.changes[c, k] = chains.change[k]
    for k in range(K):
        chains.term[k] = 0.0
        for c in range(C):
            now = (chains.drawn[c, k] - chains.sums[c, k]) / length
            before = (chains.earlier_drawn[c, k] - chains.earlier[c, k]) / last
            chains.term[k] += (now - before) / C
    follow(n_followed, chains)
    # If all sweeps are alike, the means of two rounds differ by so many times the error of both.
    alike = both**2 / (length * last)
    spread = drift = square = plain_spread = plain_drift = 0.0
    for k in range(K):
        changed = moved = 0.0
        for c in range(C):
            changed += chains.changes[c, k] / C
            moved += (chains.sums[c, k] / length - chains.earlier[c, k] / last) / C
        for c in range(C):
            off = (chains.sums[c, k] + chains.earlier[c, k]) / both - mean[k]
            plain_spread += (off / rate[k]) ** 2
            spread += ((off - (chains.changes[c, k] - changed)) / rate[k]) ** 2
        plain_drift += (moved / rate[k]) ** 2 / alike
        drift += ((moved - chains.change[k]) / rate[k]) ** 2 / alike
        mean[k] = max(mean[k] - changed, 0.0)
    left = 0.0
    for k in range(K):
        left += mean[k]
    for k in range(K):
        mean[k] *= tokens / left if left > 0.0 else 1.0
        square += ((weights.alpha[k] + mean[k]) / rate[k]) ** 2
    pairs = C * (C - 1)
    plain = math.sqrt(max(plain_spread / pairs, plain_drift) / square)
    corrected = math.sqrt(max(spread / pairs, drift) / square)
    return SAFETY * (corrected + DOUBT * plain), SAFETY * plain


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
        done = begun = 0  # all sweeps, and those before this round
        length, earlier, step = FIRST_ROUND, 0, FIRST_ROUND
        keep = found.draws.shape[1]
        error = plain_error = math.inf
        settled = ended = False
        while True:
            for c in range(N_CHAINS):
                plan = EStepPlan(keys[n], c, -n, 0, 0, True)
                own = chains.sizes[c]
                for k in range(K):
                    if done == begun:
                        chains.earlier[c, k] = chains.sums[c, k]
                        chains.sums[c, k] = 0.0
                        chains.earlier_drawn[c, k] = chains.drawn[c, k]
                        chains.drawn[c, k] = 0.0
                    if done == 0:
                        own[k] = 1
                for t in range(done, done + step):
                    draw_activations(
                        n, t, own, weights.alpha, plan, workspace.own_words, workspace.g,
                        workspace.log_g,
                    )  # fmt: skip
                    for k in range(K):
                        chains.drawn[c, k] += workspace.g[k] - weights.alpha[k]
                        own[k] = 0
                    if factors is not None:
                        expose(factors[n], workspace.g, workspace.log_g)
                    n_below = draw_allocations(
                        n, t, -1, -1, lanes, large, weights, plan, scales, stride, workspace,
                        None, own, sums,
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
            done += step
            if done >= LEAST_SWEEPS:
                error, plain_error = measure(
                    n, done - begun, earlier, rate, factors, lanes, large, weights, stride,
                    workspace, chains,
                )  # fmt: skip
            if done == begun + length:
                begun, earlier, length = done, length, done
                step = length // 2 if length >= LEAST_SWEEPS else length
            last_round = done + step > most
            if not settled and (error <= precision or last_round):
                settled = True
                for k in range(K):
                    found.mean[n, k] = chains.mean[k]
                found.error[n] = error
                found.n_sweeps[n] = done
            if settled:
                if keep == 0:
                    break
                # Draws come from the chains as they are: these must have arrived.
                ended = plain_error <= precision or last_round
                step = keep if ended else step
