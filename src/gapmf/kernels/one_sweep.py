"""An E-step of one sweep, which is accumulated: it visits every row of W once.

Nothing is used twice, so there is no tile of a whole sample. Its lanes are taken some at a time:
the running sums Σ_{l≤k} w_fl h_l of these stay in the cache, and their last row is [Wh]. The
component of a token is where u·[Wh] falls among them.

The expectations v w_f ∘ h / [Wh]_f are added by feature, after every block of samples: then c_f
stays in registers. Of each sample of the block only h is kept, and of each lane 1/[Wh]. Draws are
added at once, token by token.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels import gibbs_loops as loops
from gapmf.kernels.gibbs import (
    UNDERFLOW,
    add_sizes,
    add_up_draws,
    draw_activations,
    draw_underflowing_tokens,
    expose,
    scale_activations,
)
from gapmf.kernels.gibbs_layout import AT_ONCE, TERMS
from gapmf.kernels.jit import inlined, inner, kernel
from gapmf.kernels.large_counts import draw_large_counts
from gapmf.kernels.random import SEPARATE, TOKENS, U, address, fill
from gapmf.kernels.vectors import LANES, add_products, running_sums

f4 = np.float32
u4 = np.uint32

TILE = 16384  # numbers in the tile of some lanes: 64 kB, of which the second cache has enough


@inner()
def lanes_at_once(K4):
    """Give how many lanes are taken at a time."""
    return max(TILE // K4 // LANES, 2) * LANES


@inner()
def tile_stride(K4):
    """Give the distance between rows of the tile: no power of two, which would crowd the cache."""
    return lanes_at_once(K4) + 2 * LANES


@inner()
def rows_of(feature, a, last, K4):
    """Give where the rows of W of eight lanes begin; lanes beyond the last are the last."""
    return (
        U(feature[min(a, last)]) * K4,
        U(feature[min(a + U(1), last)]) * K4,
        U(feature[min(a + U(2), last)]) * K4,
        U(feature[min(a + U(3), last)]) * K4,
        U(feature[min(a + U(4), last)]) * K4,
        U(feature[min(a + U(5), last)]) * K4,
        U(feature[min(a + U(6), last)]) * K4,
        U(feature[min(a + U(7), last)]) * K4,
    )


@inner()
def sum_rates(feature, first, n, last, rows, h, tile, stride):
    """Fill the tile with the running sums of n lanes; what is beyond n is of no use.

    `last` is the last lane of the sample.
    """
    K4, first, last = U(h.size), U(first), U(last)
    at = rows_of(feature, first, last, K4)
    for i in range(0, n, LANES):
        following = rows_of(feature, first + U(i + LANES), last, K4)
        running_sums(rows, at, h, tile, U(i), U(stride), following)
        at = following


@inner()
def invert(tile, row, n, least, total, lane, inverse, first):
    """inverse[first + i] = 1/[Wh], total[lane + i] = [Wh], which is this row of the tile.

    Where it is below `least`, they are 0 and -1. Return the number of these.
    """
    row, lane, first = U(row), U(lane), U(first)
    n_below = u4(0)
    for j in range(U(n)):
        i = U(j)
        t = tile[row + i]
        below = t < least
        n_below = u4(n_below + u4(below))
        inverse[first + i] = f4(0) if below else f4(1) / t
        total[lane + i] = f4(-1) if below else t
    return n_below


@inner()
def count_1(n, tile, row, stride, token, at):
    """Count the tokens that fall beyond each of four components: token[at + i] of lane i."""
    n_a, n_b, n_c, n_d = u4(0), u4(0), u4(0), u4(0)
    o0, at = U(row), U(at)
    o1 = o0 + U(stride)
    o2 = o1 + U(stride)
    o3 = o2 + U(stride)
    for j in range(U(n)):
        i = U(j)
        t = token[at + i]
        n_a = u4(n_a + u4(t >= tile[o0 + i]))
        n_b = u4(n_b + u4(t >= tile[o1 + i]))
        n_c = u4(n_c + u4(t >= tile[o2 + i]))
        n_d = u4(n_d + u4(t >= tile[o3 + i]))
    return n_a, n_b, n_c, n_d


@inner()
def count_2(n, tile, row, stride, token, at, width):
    """`count_1` for lanes with two tokens, `width` apart."""
    n_a, n_b, n_c, n_d = u4(0), u4(0), u4(0), u4(0)
    o0, at = U(row), U(at)
    o1 = o0 + U(stride)
    o2 = o1 + U(stride)
    o3 = o2 + U(stride)
    at1 = at + U(width)
    for j in range(U(n)):
        i = U(j)
        t, s = token[at + i], token[at1 + i]
        z = tile[o0 + i]
        n_a = u4(n_a + u4(t >= z) + u4(s >= z))
        z = tile[o1 + i]
        n_b = u4(n_b + u4(t >= z) + u4(s >= z))
        z = tile[o2 + i]
        n_c = u4(n_c + u4(t >= z) + u4(s >= z))
        z = tile[o3 + i]
        n_d = u4(n_d + u4(t >= z) + u4(s >= z))
    return n_a, n_b, n_c, n_d


@inner()
def count_4(n, tile, row, stride, token, at, width):
    """`count_1` for lanes with four tokens, `width` apart."""
    n_a, n_b, n_c, n_d = u4(0), u4(0), u4(0), u4(0)
    o0, at = U(row), U(at)
    o1 = o0 + U(stride)
    o2 = o1 + U(stride)
    o3 = o2 + U(stride)
    at1 = at + U(width)
    at2 = at1 + U(width)
    at3 = at2 + U(width)
    for j in range(U(n)):
        i = U(j)
        t, s, r, q = token[at + i], token[at1 + i], token[at2 + i], token[at3 + i]
        z = tile[o0 + i]
        n_a = u4(n_a + u4(t >= z) + u4(s >= z) + u4(r >= z) + u4(q >= z))
        z = tile[o1 + i]
        n_b = u4(n_b + u4(t >= z) + u4(s >= z) + u4(r >= z) + u4(q >= z))
        z = tile[o2 + i]
        n_c = u4(n_c + u4(t >= z) + u4(s >= z) + u4(r >= z) + u4(q >= z))
        z = tile[o3 + i]
        n_d = u4(n_d + u4(t >= z) + u4(s >= z) + u4(r >= z) + u4(q >= z))
    return n_a, n_b, n_c, n_d


@inner()
def count_beyond(tokens, n, width, K4, tile, lane, stride, token, at, reach):
    """reach[k] += the tokens beyond component k, of n lanes with so many tokens each."""
    for k in range(0, K4, AT_ONCE):
        row = k * stride + lane
        if tokens == 4:
            found = count_4(n, tile, row, stride, token, at, width)
        elif tokens == 2:
            found = count_2(n, tile, row, stride, token, at, width)
        else:
            found = count_1(n, tile, row, stride, token, at)
        for q in range(AT_ONCE):
            reach[k + q] += np.int64(found[q])


@inner()
def find_components(n, K4, tile, lane, stride, token, at, component):
    """component[i] = how many running sums of its lane token[at + i] is not below."""
    n, lane, at, stride = U(n), U(lane), U(at), U(stride)
    for j in range(n):
        component[U(j)] = u4(0)
    for q in range(U(0), U(K4), U(AT_ONCE)):
        o0 = lane + U(q) * stride
        o1 = o0 + stride
        o2 = o1 + stride
        o3 = o2 + stride
        for j in range(n):
            i = U(j)
            t = token[at + i]
            found = u4(t >= tile[o0 + i]) + u4(t >= tile[o1 + i])
            found += u4(t >= tile[o2 + i]) + u4(t >= tile[o3 + i])
            component[i] = u4(component[i] + u4(found))


@inner()
def add_draws(n, K4, feature, first, total, lane, component, histogram, c):
    """Count the tokens of n lanes in c_f and by component, but not where [Wh] underflows."""
    for i in range(n):
        if total[lane + i] >= 0.0:
            k = np.int64(component[i])
            c[np.int64(feature[first + i]) * K4 + k] += 1.0
            histogram[k] += 1


@inner()
def sum_beyond(histogram):
    """Turn numbers of tokens by component into those beyond each component."""
    beyond = 0
    for k in range(histogram.size - 1, -1, -1):
        here = histogram[k]
        histogram[k] = beyond
        beyond += here


@inlined
def draw_sizes(
    n, sweep, offset, lanes, large, weights, plan, scales, workspace, inverse, sizes, sums
):
    """`gibbs.draw_allocations` in one pass over the sample's rows of W.

    1/[Wh] of its lanes goes to `inverse`, which begins with lane `offset`.
    """
    slot = 0 if sweep == 0 else -1
    adds_draws = slot >= 0 and not plan.expectations
    tile, total, token = workspace.tile, workspace.total, workspace.token
    h, reach, words = workspace.h, workspace.reach, workspace.words
    start, fours, twos = lanes.start[n], lanes.fours[n], lanes.twos[n]
    n_lanes = lanes.start[n + 1] - start
    ones = n_lanes - fours - twos
    n_tokens = 4 * fours + 2 * twos + ones
    sample = plan.first_sample + n
    K4 = h.size
    some, stride = lanes_at_once(K4), tile_stride(K4)
    scale_activations(workspace.g, h)
    fill(words, (n_tokens + 3) // 4, address(plan.seed, plan.iteration, sample, sweep, TOKENS))
    for k in range(K4):
        reach[k] = 0
    n_below = u4(0)
    for first in range(0, n_lanes, some):
        last = min(first + some, n_lanes)
        sum_rates(
            lanes.feature, start + first, last - first, start + n_lanes - 1, weights.rows, h, tile,
            stride,
        )  # fmt: skip
        row = (K4 - 1) * stride
        n_below += invert(
            tile, row, last - first, UNDERFLOW, total, first, inverse, start - offset + first
        )
        at = 0
        for lane, width, tokens in ((0, fours, 4), (fours, twos, 2), (fours + twos, ones, 1)):
            a, b = max(first, lane), min(last, lane + width)
            if a < b:
                t = at + a - lane
                for j in range(tokens):
                    loops.scale_uniforms(words, t + j * width, total, a, b - a, token)
                    if adds_draws:
                        find_components(
                            b - a, K4, tile, a - first, stride, token, t + j * width,
                            workspace.component,
                        )  # fmt: skip
                        add_draws(
                            b - a, K4, lanes.feature, start + a, total, a, workspace.component,
                            reach, sums.c,
                        )  # fmt: skip
                if not adds_draws:
                    count_beyond(tokens, b - a, width, K4, tile, a - first, stride, token, t, reach)
            at += tokens * width
    if adds_draws:
        sum_beyond(reach)
    at = address(plan.seed, plan.iteration, sample, sweep, SEPARATE)
    index = U(0)
    if n_below:
        index = draw_underflowing_tokens(
            n, slot, lanes, weights, scales, 0, workspace, index, at, None, plan.expectations, sums
        )
    before = n_tokens
    for k in range(sizes.size):
        sizes[k] = before - reach[k]
        before = reach[k]
    if large is not None:
        draw_large_counts(
            n, slot, large, weights, scales, workspace, index, at, plan.expectations, sizes, sums
        )


@kernel()
def add_by_feature(b, blocks, weights, scales, K4, deferred, c):
    """c_f += v_f w_f ∘ h / [Wh]_f over the samples of block b: Eq. 40.

    Large and underflowing counts have 1/[Wh] = 0 here: they were added before.
    """
    for run in range(blocks.runs[b], blocks.runs[b + 1]):
        f, end = np.int64(blocks.feature[run]), blocks.start[run + 1]
        scale = scales.c[f]
        for begin in range(blocks.start[run], end, TERMS):
            n = min(TERMS, end - begin)
            for i in range(n):
                ratio = blocks.count[begin + i] * deferred.inverse[blocks.lane[begin + i]]
                deferred.factors[i] = scale * np.float64(ratio)
                deferred.at[i] = np.int64(blocks.sample[begin + i]) * K4
            add_products(deferred.factors, deferred.at, n, weights.rows, f * K4, deferred.h, K4, c)


@kernel()
def advance_once(
    b, blocks, lanes, large, weights, plan, scales, L, new_L, own, workspace, deferred, sums
):
    """`gibbs.advance` for one accumulated sweep of block b; expectations are to be added after."""
    first, last, K4 = blocks.first[b], blocks.first[b + 1], workspace.h.size
    offset = lanes.start[first]
    for n in range(first, last):
        sizes = new_L[n]
        for k in range(sizes.size):
            sizes[k] = L[n, k]
        empty = lanes.start[n + 1] == lanes.start[n]
        if large is not None:
            empty = empty and large.start[n + 1] == large.start[n]
        # A new chain starts with allocations alone. Their stream is one past the others.
        for t in range(0 if sizes[0] >= 0 else -1, 1):
            sweep = 0 if t == 0 else 1
            if t == 0:
                draw_activations(
                    n, sweep, sizes, weights.alpha, plan, workspace.own_words, workspace.g,
                    workspace.log_g,
                )  # fmt: skip
                if own is not None:
                    expose(own.factors[n], workspace.g, workspace.log_g)
            else:
                for k in range(sizes.size):
                    sizes[k] = 0
                    workspace.g[k] = weights.first[k]
                    workspace.log_g[k] = math.nan
            if not empty:
                draw_sizes(
                    n, sweep, offset, lanes, large, weights, plan, scales, workspace,
                    deferred.inverse, sizes, sums,
                )  # fmt: skip
        add_up_draws(workspace.g, scales, sizes, sums)
        if own is not None:
            add_sizes(sizes, own.sizes[n])
        for k in range(K4):
            deferred.h[(n - first) * K4 + k] = workspace.h[k]
    deferred.inverse[lanes.start[last] - offset] = f4(0)
