"""Counts that are shared out one by one, with double arithmetic.

Heavy counts, by conditional binomials: time does not grow with the count. Faint ones, whose
total [Wh] underflows in single precision: every component that could have made them has next to
no activation. That happens at small α and soon after W has changed.

The Gibbs sampler of h and C given W, sample by sample; its state is L alone.

A sweep draws h_k ~ Gamma(α_k + L_k, S_k + β_k) and then shares each count v_f out among the
components with probabilities w_fk h_k / [Wh]_f. Of the shares only their sums L_k = Σ_f c_fk are
kept. W is fixed meanwhile, so the rows of W that a sample meets are gathered once, transposed,
into a tile of components × lanes, and every sweep runs along its rows: a token takes its
component by where u·[Wh] falls among the running sums of w_fk h_k, and L needs only how many
tokens fall beyond each component, not which.

In w_fk h_k = p_fk g_k, with p_fk = w_fk / (S_k + β_k) and g_k = (S_k + β_k) h_k, neither factor
depends on the scale of W and β. The kernels know only p and g: p in single precision, each row
scaled to a maximum of 1 (that cancels in the probabilities). Where that would not do, and where
counts are large, see `singly`.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels import gibbs_loops as tally
from gapmf.kernels.gibbs_layout import AT_ONCE, stride_of
from gapmf.kernels.gibbs_loops import (
    add_activations,
    add_draws,
    add_expectations,
    keep_one,
    round_half_up,
)
from gapmf.kernels.jit import kernel
from gapmf.kernels.random import (
    ACTIVATIONS,
    ONE,
    RETRIES,
    SINGLY,
    SMALL_SHAPES,
    TOKENS,
    U,
    address,
    binomial,
    fill,
    gamma,
    join,
    pair,
    uniform,
)

TINY = 1e-290


@kernel()
def _weigh_logs(row, weights, workspace):
    """`weigh` where even doubles underflow: relative to the largest."""
    top = -math.inf
    for k in range(workspace.p.size):
        workspace.p[k] = -math.inf
        w = weights.rows[row + k]
        if w > 0.0:
            log_g = (
                math.log(workspace.g[k]) if math.isnan(workspace.log_g[k]) else workspace.log_g[k]
            )
            workspace.p[k] = math.log(w) + log_g
            top = max(top, workspace.p[k])
    total = 0.0
    for k in range(workspace.p.size):
        workspace.p[k] = math.exp(workspace.p[k] - top)
        total += workspace.p[k]
    return total


@kernel()
def weigh(f, weights, workspace):
    """p_k = w_fk h_k / [Wh]_f, and rest_k = Σ_{l≥k} p_l; where f stands in flat arrays: Eq. 40."""
    row = np.int64(f) * workspace.h.size
    total = 0.0
    for k in range(workspace.p.size):
        workspace.p[k] = weights.rows[row + k] * workspace.g[k]
        total += workspace.p[k]
    if total < TINY:
        total = _weigh_logs(row, weights, workspace)
    rest = 0.0
    for k in range(workspace.p.size - 1, -1, -1):
        workspace.p[k] /= total
        rest += workspace.p[k]
        workspace.rest[k] = rest
    return row


@kernel()
def draw_large_counts(
    n, accumulated, lanes, weights, plan, scales, workspace, index, at, sizes, sums
):
    """Heavy counts by conditional binomials, added to `sizes` and, if accumulated, to the sums."""
    for i in range(lanes.heavy_start[n], lanes.heavy_start[n + 1]):
        f, left = lanes.heavy_feature[i], lanes.heavy_count[i]
        row = weigh(f, weights, workspace)
        if accumulated and plan.expectations:
            for k in range(sizes.size):
                sums.c[row + k] += round_half_up(left * workspace.p[k] * scales.c[f])
        for k in range(sizes.size):
            if left == 0:
                break
            if workspace.p[k] > 0.0:
                x, index = binomial(left, workspace.p[k] / workspace.rest[k], index, at)
                sizes[k] += x
                left -= x
                if accumulated and not plan.expectations:
                    sums.c[row + k] += x
    return index


@kernel()
def draw_underflowing_tokens(
    n, accumulated, lanes, weights, plan, scales, stride, workspace, index, at, sums
):
    """Tokens in lanes whose total is -1, added to `reach` and, if accumulated, to the sums."""
    start = lanes.start[n]
    fours, twos = lanes.fours[n], lanes.twos[n]
    for i in range(lanes.start[n + 1] - start):
        if workspace.total[i] >= 0.0:
            continue
        tokens = 4 if i < fours else (2 if i < fours + twos else 1)
        f = lanes.feature[start + i]
        row = weigh(f, weights, workspace)
        if accumulated and plan.expectations:
            for k in range(workspace.p.size):
                sums.c[row + k] += round_half_up(tokens * workspace.p[k] * scales.c[f])
        for _ in range(tokens):
            word, _other = pair(index, at)
            index += ONE
            u = uniform(word)
            k = 0
            while k + 1 < workspace.p.size and workspace.rest[k + 1] > u:
                workspace.reach[k] += 1
                if accumulated and not plan.expectations:
                    workspace.kept[k * stride + i] += 1
                k += 1
    return index


f4 = np.float32

FAINT = f4(1e-20)  # a total below it is drawn singly
NEGLIGIBLE = 1e-30  # an activation that is smaller, beside the sample's largest, is 0 in float32


@kernel()
def gather(feature, start, n_lanes, rows, K4, stride, tile):
    """tile[k, i] = w_fk for the features f of the lanes i, four lanes at once."""
    start, K4, stride = U(start), U(K4), U(stride)
    one, two, three = U(1), U(2), U(3)
    n_blocked = U(n_lanes // 4 * 4)
    for j in range(U(0), n_blocked, U(4)):
        i = U(j)
        a = U(feature[start + i]) * K4
        b = U(feature[start + i + one]) * K4
        c = U(feature[start + i + two]) * K4
        d = U(feature[start + i + three]) * K4
        o = i
        for q in range(K4):
            k = U(q)
            tile[o] = rows[a + k]
            tile[o + one] = rows[b + k]
            tile[o + two] = rows[c + k]
            tile[o + three] = rows[d + k]
            o += stride
    for j in range(n_blocked, U(n_lanes)):
        i = U(j)
        row = U(feature[start + i]) * K4
        for q in range(K4):
            tile[U(q) * stride + i] = rows[row + U(q)]


@kernel()
def draw_activations(n, sweep, sizes, weights, plan, workspace):
    """g_k ~ Gamma(α_k + L_k, 1), where h_k = g_k / (S_k + β_k): Eq. 38.

    For shapes below 1 the logarithm is drawn: at α = 0.01 half of the activations of components
    without tokens are below 1e-30.
    """
    K = weights.alpha.size
    sample = plan.first_sample + n
    words = workspace.own_words
    fill(words, K, address(plan.seed, plan.iteration, sample, sweep, ACTIVATIONS))
    more = address(plan.seed, plan.iteration, sample, sweep, RETRIES)
    small = address(plan.seed, plan.iteration, sample, sweep, SMALL_SHAPES)
    for k in range(K):
        shape = weights.alpha[k] + sizes[k]
        first = join(words[k], words[K + k])
        second = join(words[2 * K + k], words[3 * K + k])
        if shape >= 1.0:
            workspace.g[k] = gamma(shape, first, second, U(k), more)
            workspace.log_g[k] = math.nan
        else:
            word, _ = pair(k, small)
            log_g = math.log(gamma(shape + 1.0, first, second, U(k), more))
            log_g += math.log(uniform(word)) / shape
            workspace.g[k] = math.exp(log_g)
            workspace.log_g[k] = log_g


@kernel()
def sum_rates(n_lanes, stride, workspace):
    """[Wh] of every lane, to a factor: with g scaled to a maximum of 1."""
    top = 0.0
    for k in range(workspace.g.size):
        top = max(top, workspace.g[k])
    for k in range(workspace.g.size):
        h = workspace.g[k] / top
        workspace.h[k] = f4(h) if h > NEGLIGIBLE else f4(0)
    tally.clear(workspace.total, n_lanes)
    for k in range(0, workspace.h.size, AT_ONCE):
        a, b, c, d = workspace.h[k], workspace.h[k + 1], workspace.h[k + 2], workspace.h[k + 3]
        tally.add_up(workspace.total, 0, n_lanes, workspace.tile, k * stride, stride, a, b, c, d)


@kernel()
def place_tokens(fours, twos, ones, at, workspace):
    """u·[Wh] for every token: first the lanes of four tokens, then those of two, then of one."""
    fill(workspace.words, (4 * fours + 2 * twos + ones + 3) // 4, at)
    t = 0
    for lane, width, tokens in ((0, fours, 4), (fours, twos, 2), (fours + twos, ones, 1)):
        for _ in range(tokens):
            tally.scale_uniforms(workspace.words, t, workspace.total, lane, width, workspace.token)
            t += width


@kernel()
def count_reach(fours, twos, ones, stride, workspace):
    """reach[k] = the number of tokens that fall beyond component k."""
    tally.clear(workspace.cum, fours + twos + ones)
    cum, token, tile, reach = workspace.cum, workspace.token, workspace.tile, workspace.reach
    for k in range(0, workspace.h.size, AT_ONCE):
        row = k * stride
        a, b, c, d = workspace.h[k], workspace.h[k + 1], workspace.h[k + 2], workspace.h[k + 3]
        at = 4 * fours
        x = tally.tally_4(cum, 0, fours, token, 0, tile, row, stride, a, b, c, d)
        y = tally.tally_2(cum, fours, twos, token, at, tile, row, stride, a, b, c, d)
        at += 2 * twos
        z = tally.tally_1(cum, fours + twos, ones, token, at, tile, row, stride, a, b, c, d)
        for q in range(AT_ONCE):
            reach[k + q] = np.int64(x[q]) + np.int64(y[q]) + np.int64(z[q])


@kernel()
def keep_reach(fours, twos, ones, stride, workspace):
    """Add to `kept`, lane by lane, how many tokens fall beyond each component."""
    n_lanes = fours + twos + ones
    tally.clear(workspace.cum, n_lanes)
    for k in range(workspace.h.size):
        row = k * stride
        tally.step(workspace.cum, n_lanes, workspace.tile, row, workspace.h[k])
        t = 0
        for lane, width, tokens in ((0, fours, 4), (fours, twos, 2), (fours + twos, ones, 1)):
            for _ in range(tokens):
                tally.keep(workspace.cum, lane, width, workspace.token, t, workspace.kept, row)
                t += width


@kernel()
def pull_back(fours, twos, ones, workspace):
    """Tokens that rounding has put beyond the last component go back below the total."""
    t = 0
    for lane, width, tokens in ((0, fours, 4), (fours, twos, 2), (fours + twos, ones, 1)):
        for _ in range(tokens):
            for i in range(lane, lane + width):
                if workspace.token[t] >= workspace.cum[i]:
                    workspace.token[t] = workspace.cum[i] * (f4(1) - f4(2.0**-22))
                t += 1


@kernel()
def draw_allocations(n, sweep, slot, lanes, weights, plan, scales, stride, workspace, sizes, sums):
    """c_f ~ Mult(v_f, w_f ∘ h / [Wh]_f), of which `sizes` keep L_k = Σ_f c_fk: Eq. 39.

    With slot ≥ 0 the sweep is accumulated, in that place of the batch.
    """
    fours, twos = lanes.fours[n], lanes.twos[n]
    n_lanes = lanes.start[n + 1] - lanes.start[n]
    ones = n_lanes - fours - twos
    accumulated = slot >= 0
    sample = plan.first_sample + n
    at = address(plan.seed, plan.iteration, sample, sweep, SINGLY)
    sum_rates(n_lanes, stride, workspace)
    n_faint = tally.invert(
        workspace.total, n_lanes, FAINT, workspace.inverse, max(slot, 0) * stride
    )
    where = address(plan.seed, plan.iteration, sample, sweep, TOKENS)
    place_tokens(fours, twos, ones, where, workspace)
    count_reach(fours, twos, ones, stride, workspace)
    while workspace.reach[workspace.h.size - 1] > 0:
        pull_back(fours, twos, ones, workspace)
        count_reach(fours, twos, ones, stride, workspace)
    if accumulated and not plan.expectations:
        keep_reach(fours, twos, ones, stride, workspace)
    index = U(0)
    if n_faint:
        index = draw_underflowing_tokens(
            n, accumulated, lanes, weights, plan, scales, stride, workspace, index, at, sums
        )
    before = 4 * fours + 2 * twos + ones
    for k in range(sizes.size):
        sizes[k] = before - workspace.reach[k]
        before = workspace.reach[k]
    draw_large_counts(
        n, accumulated, lanes, weights, plan, scales, workspace, index, at, sizes, sums
    )


@kernel()
def add_batch(n_used, n_lanes, stride, workspace):
    """ratios_k += Σ_j h_k^(j) / [Wh^(j)] for the sweeps of a batch."""
    K4 = workspace.h.size
    for k in range(n_used * K4, AT_ONCE * K4):
        workspace.batch[k] = f4(0)
    for k in range(K4):
        a, b = workspace.batch[k], workspace.batch[K4 + k]
        c, d = workspace.batch[2 * K4 + k], workspace.batch[3 * K4 + k]
        tally.add_up(
            workspace.ratios, k * stride, n_lanes, workspace.inverse, 0, stride, a, b, c, d
        )


@kernel()
def accumulate(j, n_draws, n_lanes, stride, plan, scales, workspace, sizes, sums):
    """Add the j-th accumulated sweep: h, the histogram of L, and its part in the batch."""
    add_activations(workspace.g, scales, sums.g)
    if sums.sizes.shape[1]:
        for k in range(sizes.size):
            sums.sizes[k, sizes[k]] += 1
    if plan.expectations and n_draws > 1:
        K4 = workspace.h.size
        slot = j % AT_ONCE
        for k in range(K4):
            workspace.batch[slot * K4 + k] = workspace.h[k]
        if slot == AT_ONCE - 1 or j == n_draws - 1:
            add_batch(slot + 1, n_lanes, stride, workspace)


@kernel()
def add_up_sample(n, n_draws, lanes, columns, plan, scales, stride, workspace, kept, sums):
    """Add the sample's part of Σ C for all accumulated sweeps, or keep it if there is one."""
    K, K4 = workspace.g.size, workspace.h.size
    if not plan.expectations:
        add_draws(n, n_draws, lanes, stride, K, K4, workspace.kept, sums.c)
    elif n_draws == 1:
        keep_one(n, lanes, columns, workspace.inverse, workspace.h, kept)
    else:
        add_expectations(n, lanes, stride, scales.c, K4, workspace.tile, workspace.ratios, sums.c)


@kernel()
def load_sample(n, n_lanes, stride, lanes, weights, workspace):
    """The sample's rows of W on the desk, and room for its sums."""
    K4 = workspace.h.size
    gather(lanes.feature, lanes.start[n], n_lanes, weights.rows, K4, stride, workspace.tile)
    if workspace.ratios.size:
        tally.clear(workspace.ratios, K4 * stride)
    if workspace.kept.size:
        tally.clear(workspace.kept, K4 * stride)


@kernel()
def advance(first, last, lanes, columns, weights, plan, scales, L, new_L, workspace, kept, sums):
    """One E-step of samples first … last: new_L from L, their statistics added to `sums`.

    L is -1 where there is no state yet. With a single accumulated sweep and expectations Σ C goes
    to `kept` instead.
    """
    n_draws = plan.n_sweeps - plan.n_burn_in
    for n in range(first, last):
        sizes = new_L[n]
        for k in range(sizes.size):
            sizes[k] = L[n, k]
        n_lanes = lanes.start[n + 1] - lanes.start[n]
        stride = stride_of(n_lanes)
        empty = n_lanes == 0 and lanes.heavy_start[n + 1] == lanes.heavy_start[n]
        load_sample(n, n_lanes, stride, lanes, weights, workspace)
        # A chain that begins does so with allocations alone; their stream is one past the others.
        for turn in range(0 if sizes[0] >= 0 else -1, plan.n_sweeps):
            sweep = turn if turn >= 0 else plan.n_sweeps
            j = turn - plan.n_burn_in if turn >= 0 else -1
            if turn >= 0:
                draw_activations(n, sweep, sizes, weights, plan, workspace)
            else:
                for k in range(sizes.size):
                    sizes[k] = 0
                    workspace.g[k] = weights.first[k]
                    workspace.log_g[k] = math.nan
            if not empty:
                slot = j % AT_ONCE if j >= 0 else -1
                draw_allocations(
                    n, sweep, slot, lanes, weights, plan, scales, stride, workspace, sizes, sums
                )
            if j >= 0:
                accumulate(j, n_draws, n_lanes, stride, plan, scales, workspace, sizes, sums)
        add_up_sample(n, n_draws, lanes, columns, plan, scales, stride, workspace, kept, sums)
