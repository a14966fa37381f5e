"""The Gibbs sampler of h and C given W, sample by sample. Its state is L alone.

A sweep draws h_k ~ Gamma(α_k + L_k, S_k + β_k) and then shares each count v_f out among the
components, with probabilities w_fk h_k / [Wh]_f. Only the sums L_k = Σ_f c_fk are kept. W is fixed
meanwhile, so the rows of W of a sample's features are gathered once, transposed, into a tile of
components × lanes, and every sweep runs along its rows. A token has the component in which u·[Wh]
falls among the running sums of w_fk h_k. L needs only the number of tokens beyond each component.

In w_fk h_k = p_fk g_k, with p_fk = w_fk / (S_k + β_k) and g_k = (S_k + β_k) h_k, neither factor
depends on the scale of W and β. The kernels know only p and g: p in single precision, with each row
scaled to a maximum of 1, which cancels in the probabilities.

Two kinds of counts are shared out one by one, in double precision. One is large counts, see
`large_counts`. The other kind is tokens whose [Wh] underflows in single precision: every component
that could have made them has next to no activation. That happens at small α and soon after W has
changed.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels import gibbs_loops as loops
from gapmf.kernels.few_lanes import SWEEPS, add_ratios, draw_few, fill_sweeps, has_few
from gapmf.kernels.gibbs_layout import AT_ONCE, stride_of
from gapmf.kernels.jit import inlined, inner, kernel
from gapmf.kernels.large_counts import add_expectation, draw_large_counts, weigh
from gapmf.kernels.random import (
    ACTIVATIONS,
    ONE,
    RETRIES,
    SEPARATE,
    SMALL_SHAPES,
    TOKENS,
    U,
    address,
    fill,
    gamma,
    join,
    log_gamma,
    pair,
    uniform,
)

f4 = np.float32
u4 = np.uint32

UNDERFLOW = f4(1e-20)  # tokens with a total below it are drawn in double precision
NEGLIGIBLE = 1e-30  # an activation that is smaller, beside the sample's largest, is 0 in float32


@inner()
def draw_underflowing_tokens(
    n, slot, lanes, weights, scales, stride, workspace, index, at, beyond, expectations, sums
):
    """Draw the tokens of lanes whose total is -1, and add them to `reach`.

    If slot ≥ 0, add their expectations to sums, or the draws: to `beyond`, or if that is None to
    sums. Return the next index.
    """
    p, rest = workspace.p, workspace.rest
    start = lanes.start[n]
    fours, twos = lanes.fours[n], lanes.twos[n]
    for i in range(lanes.start[n + 1] - start):
        if workspace.total[i] >= 0.0:
            continue
        tokens = 4 if i < fours else (2 if i < fours + twos else 1)
        f = np.int64(lanes.feature[start + i])
        row = f * workspace.h.size
        weigh(row, weights.rows, workspace.g, workspace.log_g, p, rest)
        if slot >= 0 and expectations:
            add_expectation(tokens, row, p, scales.c[f], sums.c)
        for _ in range(tokens):
            word, _other = pair(index, at)
            index += ONE
            u = uniform(word)
            k = 0
            while k + 1 < p.size and rest[k + 1] > u:
                workspace.reach[k] += 1
                if slot >= 0 and beyond is not None:
                    beyond[k * stride + i] += 1
                k += 1
            if slot >= 0 and beyond is None and not expectations:
                sums.c[row + k] += 1.0
    return index


@inner()
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


@inlined
def make_activations(n, sweep, sizes, alpha, plan, words, s, step, g, log_g):
    """g_k ~ Gamma(α_k + L_k, 1), where h_k = g_k / (S_k + β_k), of words s, s + step, …: Eq. 38.

    For shapes below 1 the logarithm is drawn: at α = 0.01 half of the activations of components
    without tokens are below 1e-30.
    """
    K = alpha.size
    sample = plan.first_sample + n
    more = address(plan.seed, plan.iteration, sample, sweep, RETRIES)
    small = address(plan.seed, plan.iteration, sample, sweep, SMALL_SHAPES)
    for k in range(K):
        shape = alpha[k] + sizes[k]
        i = U(s) + U(step) * U(k)
        row = U(step) * U(K)
        first = join(words[i], words[i + row])
        second = join(words[i + U(2) * row], words[i + U(3) * row])
        if shape >= 1.0:
            g[k] = gamma(shape, first, second, U(k), more)
            log_g[k] = math.nan
        else:
            log_g[k] = log_gamma(shape, first, second, U(k), more, small)
            g[k] = math.exp(log_g[k])


@inner()
def draw_activations(n, sweep, sizes, alpha, plan, words, g, log_g):
    """Draw h, to the factor of `make_activations`, from the words of this sweep: Eq. 38."""
    at = address(plan.seed, plan.iteration, plan.first_sample + n, sweep, ACTIVATIONS)
    fill(words, alpha.size, at)
    make_activations(n, sweep, sizes, alpha, plan, words, 0, 1, g, log_g)


@inner()
def expose(factors, g, log_g):
    """g_k ← (S_k + β_k) h_k for the rates of this sample; factors (K,) are (S_k + β_k) / R_k."""
    for k in range(g.size):
        g[k] *= factors[k]
        log_g[k] += math.log(factors[k])


@inner()
def add_sizes(sizes, total):
    """Add a draw of L to its sum over sweeps."""
    for k in range(sizes.size):
        total[k] += sizes[k]


@inner()
def scale_activations(g, h):
    """h = g, scaled to a maximum of 1."""
    top = 0.0
    for k in range(g.size):
        top = max(top, g[k])
    for k in range(g.size):
        scaled = g[k] / top
        h[k] = f4(scaled) if scaled > NEGLIGIBLE else f4(0)


@inner()
def sum_rates(h, n_lanes, stride, tile, total):
    """[Wh] of every lane, to a factor."""
    loops.clear(total, n_lanes)
    for k in range(0, h.size, AT_ONCE):
        a, b, c, d = h[k], h[k + 1], h[k + 2], h[k + 3]
        loops.add_up(total, 0, n_lanes, tile, k * stride, stride, a, b, c, d)


@inner()
def place_tokens(fours, twos, ones, at, words, total, token):
    """u·[Wh] for every token: first the lanes of four tokens, then those of two, then of one."""
    fill(words, (4 * fours + 2 * twos + ones + 3) // 4, at)
    t = 0
    for lane, width, tokens in ((0, fours, 4), (fours, twos, 2), (fours + twos, ones, 1)):
        for _ in range(tokens):
            loops.scale_uniforms(words, t, total, lane, width, token)
            t += width


@inner()
def count_reach(fours, twos, ones, stride, h, tile, token, cum, reach):
    """reach[k] = the number of tokens that fall beyond component k."""
    loops.clear(cum, fours + twos + ones)
    for k in range(0, h.size, AT_ONCE):
        row = k * stride
        a, b, c, d = h[k], h[k + 1], h[k + 2], h[k + 3]
        at = 4 * fours
        x = loops.tally_4(cum, 0, fours, token, 0, tile, row, stride, a, b, c, d)
        y = loops.tally_2(cum, fours, twos, token, at, tile, row, stride, a, b, c, d)
        at += 2 * twos
        z = loops.tally_1(cum, fours + twos, ones, token, at, tile, row, stride, a, b, c, d)
        for q in range(AT_ONCE):
            reach[k + q] = np.int64(x[q]) + np.int64(y[q]) + np.int64(z[q])


@inner()
def add_reach(fours, twos, ones, stride, h, tile, token, cum, beyond):
    """Add to `beyond`, lane by lane, how many tokens fall beyond each component."""
    n_lanes = fours + twos + ones
    loops.clear(cum, n_lanes)
    for k in range(h.size):
        row = k * stride
        loops.step(cum, n_lanes, tile, row, h[k])
        t = 0
        for lane, width, tokens in ((0, fours, 4), (fours, twos, 2), (fours + twos, ones, 1)):
            for _ in range(tokens):
                loops.count_beyond(cum, lane, width, token, t, beyond, row)
                t += width


@inlined
def draw_allocations(
    n, sweep, s, slot, lanes, large, weights, plan, scales, stride, workspace, beyond, sizes, sums
):
    """c_f ~ Mult(v_f, w_f ∘ h / [Wh]_f), of which `sizes` keep L_k = Σ_f c_fk: Eq. 39.

    With slot ≥ 0 the sweep is accumulated, in that slot of the batch. With s ≥ 0 the sample has few
    lanes, and s is the place of this sweep among those whose words were made at once. Return the
    number of lanes whose total underflows.
    """
    tile, total, cum, token = workspace.tile, workspace.total, workspace.cum, workspace.token
    h, reach = workspace.h, workspace.reach
    fours, twos = lanes.fours[n], lanes.twos[n]
    n_lanes = lanes.start[n + 1] - lanes.start[n]
    ones = n_lanes - fours - twos
    sample = plan.first_sample + n
    scale_activations(workspace.g, h)
    separate = address(plan.seed, plan.iteration, sample, sweep, SEPARATE)
    index, n_below = U(0), u4(0)
    drawn = s >= 0 and draw_few(n, s, slot, lanes, stride, UNDERFLOW, workspace, beyond, sizes)
    if not drawn:
        sum_rates(h, n_lanes, stride, tile, total)
        row = slot * stride if slot >= 0 else 0
        n_below = loops.invert(total, n_lanes, UNDERFLOW, workspace.inverse, row)
        at = address(plan.seed, plan.iteration, sample, sweep, TOKENS)
        place_tokens(fours, twos, ones, at, workspace.words, total, token)
        count_reach(fours, twos, ones, stride, h, tile, token, cum, reach)
        if slot >= 0 and beyond is not None:
            add_reach(fours, twos, ones, stride, h, tile, token, cum, beyond)
        if n_below:
            index = draw_underflowing_tokens(
                n, slot, lanes, weights, scales, stride, workspace, index, separate, beyond,
                plan.expectations, sums,
            )  # fmt: skip
        before = 4 * fours + 2 * twos + ones
        for k in range(sizes.size):
            sizes[k] = before - reach[k]
            before = reach[k]
    if large is not None:
        draw_large_counts(
            n, slot, large, weights, scales, workspace, index, separate, plan.expectations, sizes,
            sums,
        )  # fmt: skip
    return n_below


@inner()
def add_batch(n_used, n_lanes, stride, K4, batch, inverse, ratios):
    """ratios_k += Σ_j h_k^(j) / [Wh^(j)] for the sweeps of a batch."""
    for k in range(n_used * K4, AT_ONCE * K4):
        batch[k] = f4(0)
    for k in range(K4):
        a, b, c, d = batch[k], batch[K4 + k], batch[2 * K4 + k], batch[3 * K4 + k]
        loops.add_up(ratios, k * stride, n_lanes, inverse, 0, stride, a, b, c, d)


@inner()
def add_up_draws(g, scales, sizes, sums):
    """Add a sample's activations, and its sizes to their histogram."""
    loops.add_activations(g, scales, sums.g)
    if sums.sizes.shape[1]:
        for k in range(sizes.size):
            sums.sizes[k, sizes[k]] += 1


@inlined
def accumulate(j, n_draws, few, n_lanes, stride, scales, workspace, beyond, sizes, sums):
    """Add the j-th accumulated sweep: h, the histogram of L, and its part in the batch."""
    add_up_draws(workspace.g, scales, sizes, sums)
    if beyond is None and few:
        add_ratios(n_lanes, stride, workspace.h, workspace.inverse, workspace.ratios)
    elif beyond is None:
        K4 = workspace.h.size
        slot = j % AT_ONCE
        for k in range(K4):
            workspace.batch[slot * K4 + k] = workspace.h[k]
        if slot == AT_ONCE - 1 or j == n_draws - 1:
            add_batch(
                slot + 1, n_lanes, stride, K4, workspace.batch, workspace.inverse, workspace.ratios
            )


@inlined
def add_up_sample(n, n_draws, lanes, scales, stride, workspace, beyond, sums):
    """Add the sample's part of Σ C for all accumulated sweeps."""
    K, K4 = workspace.g.size, workspace.h.size
    if beyond is not None:
        loops.add_draws(n, n_draws, lanes, stride, K, K4, beyond, sums.c)
    else:
        loops.add_expectations(
            n, lanes, stride, scales.c, K4, workspace.tile, workspace.ratios, sums.c
        )


@inlined
def load_sample(n, n_lanes, stride, lanes, weights, workspace, beyond):
    """Gather the sample's rows of W, and clear its sums."""
    K4 = workspace.h.size
    gather(lanes.feature, lanes.start[n], n_lanes, weights.rows, K4, stride, workspace.tile)
    if workspace.ratios.size:
        loops.clear(workspace.ratios, K4 * stride)
    if beyond is not None:
        loops.clear(beyond, K4 * stride)


@inlined
def fill_words(n, sweep, few, n_tokens, K, plan, workspace):
    """Make the words of this sweep and the next ones: of activations, and of the tokens if few."""
    at = address(plan.seed, plan.iteration, plan.first_sample + n, sweep, ACTIVATIONS)
    fill_sweeps(workspace.own_words, K, at)
    if few:
        at = address(plan.seed, plan.iteration, plan.first_sample + n, sweep, TOKENS)
        fill_sweeps(workspace.few_words, (n_tokens + 3) // 4, at)


@kernel()
def advance(
    first, last, lanes, large, weights, plan, scales, L, new_L, own, workspace, beyond, sums
):
    """One E-step of samples first … last: new_L from L, their statistics added to `sums`.

    L is -1 where there is no state yet. `beyond` (K4 × lanes) counts the tokens beyond each
    component when draws are summed; it is None for expectations. `large` is None where there are no
    large counts, and `own` where there are no exposures. Code for what is None is not compiled.
    """
    n_draws = plan.n_sweeps - plan.n_burn_in
    many = plan.n_sweeps >= SWEEPS
    for n in range(first, last):
        sizes = new_L[n]
        for k in range(sizes.size):
            sizes[k] = L[n, k]
        n_lanes = lanes.start[n + 1] - lanes.start[n]
        stride = stride_of(n_lanes)
        n_tokens = n_lanes + 3 * lanes.fours[n] + lanes.twos[n]
        few = many and has_few(n_lanes, n_tokens)
        empty = n_lanes == 0
        if large is not None:
            empty = empty and large.start[n + 1] == large.start[n]
        load_sample(n, n_lanes, stride, lanes, weights, workspace, beyond)
        # A new chain starts with allocations alone (t = -1). Their stream is one past the others.
        for t in range(0 if sizes[0] >= 0 else -1, plan.n_sweeps):
            sweep = t if t >= 0 else plan.n_sweeps
            j = t - plan.n_burn_in if t >= 0 else -1
            s = t % SWEEPS if many and t >= 0 else -1
            if s == 0:
                fill_words(n, t, few, n_tokens, weights.alpha.size, plan, workspace)
            if s >= 0:
                make_activations(
                    n, sweep, sizes, weights.alpha, plan, workspace.own_words, s, SWEEPS,
                    workspace.g, workspace.log_g,
                )  # fmt: skip
            elif t >= 0:
                draw_activations(
                    n, sweep, sizes, weights.alpha, plan, workspace.own_words, workspace.g,
                    workspace.log_g,
                )  # fmt: skip
            if t >= 0:
                if own is not None:
                    expose(own.factors[n], workspace.g, workspace.log_g)
            else:
                for k in range(sizes.size):
                    sizes[k] = 0
                    workspace.g[k] = weights.first[k]
                    workspace.log_g[k] = math.nan
            if not empty:
                slot = (0 if few else j % AT_ONCE) if j >= 0 else -1
                draw_allocations(
                    n, sweep, s if few else -1, slot, lanes, large, weights, plan, scales, stride,
                    workspace, beyond, sizes, sums,
                )  # fmt: skip
            if j >= 0:
                accumulate(j, n_draws, few, n_lanes, stride, scales, workspace, beyond, sizes, sums)
                if own is not None:
                    add_sizes(sizes, own.sizes[n])
        add_up_sample(n, n_draws, lanes, scales, stride, workspace, beyond, sums)
