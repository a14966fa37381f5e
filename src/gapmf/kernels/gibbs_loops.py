"""The inner loops of a Gibbs sweep, and sums over samples that do not depend on their order.

Matrices (components × lanes) are flat, with rows `stride` apart. Offsets are unsigned and arrays
are never sliced: LLVM then vectorises each of these loops. Components come four at a time (the
weights are padded with zeros), which keeps running sums in registers. Contraction is the only
freedom that the compiler has, so `add_up` and the tallies reach the same sums.

Sums over samples are whole numbers, held in doubles. Draws are whole; expectations are rounded to
multiples of a unit, sample by sample. Every addition is exact as long as a sum stays below 2⁵³, so
threads, blocks and partitions give the same bits. Each feature has a unit for which it does.
Doubles are rounded and added in vectors on every machine; conversions to 64-bit integers are not.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.gibbs_layout import next_lane
from gapmf.kernels.jit import inlined, inner
from gapmf.kernels.random import U
from gapmf.kernels.vectors import SHIFT

f4 = np.float32
u4 = np.uint32

HALF = f4(0.5)
UNIT = f4(2.0**-31)
BELOW_ONE = f4(1.0 - 2.0**-23)
ONE = u4(1)
FUSE = {"contract"}


@inner()
def clear(out, n):
    """out[:n] = 0."""
    for i in range(U(n)):
        out[i] = 0


@inner(fastmath=FUSE)
def add_up(total, at, n, tile, row, stride, a, b, c, d):
    """total[at + i] += a × (this row of the tile)[i] + b × (the next)[i] + … ."""
    at = U(at)
    o0 = U(row)
    o1 = o0 + U(stride)
    o2 = o1 + U(stride)
    o3 = o2 + U(stride)
    for j in range(U(n)):
        i = U(j)
        z = total[at + i] + a * tile[o0 + i]
        z += b * tile[o1 + i]
        z += c * tile[o2 + i]
        z += d * tile[o3 + i]
        total[at + i] = z


@inner(fastmath=FUSE)
def step(cum, n, tile, row, a):
    """cum += a × (this row of the tile)."""
    row = U(row)
    for j in range(U(n)):
        i = U(j)
        cum[i] += a * tile[row + i]


@inner()
def count_beyond(cum, lane, n, token, at, beyond, row):
    """beyond[row + i] += 1 for lanes lane … lane + n whose token reaches cum."""
    lane, at = U(lane), U(at)
    row = U(row) + lane
    for j in range(U(n)):
        i = U(j)
        beyond[row + i] = u4(beyond[row + i] + u4(token[at + i] >= cum[lane + i]))


@inner()
def invert(total, n, least, out, row):
    """out[row + i] = 1/total[i]; where the total is below `least`, 0, and the total becomes -1.

    Return the number of the latter.
    """
    row = U(row)
    n_below = u4(0)
    for j in range(U(n)):
        i = U(j)
        t = total[i]
        below = t < least
        n_below = u4(n_below + u4(below))
        out[row + i] = f4(0) if below else f4(1) / t
        total[i] = f4(-1) if below else t
    return n_below


@inner()
def scale_uniforms(words, word, total, lane, n, out):
    """out[word + i] = u total[lane + i], with u in (0, 1) from words[word + i].

    u goes down to 2⁻³², in steps of 2⁻²⁴ near 1. It stays so far below 1 that u·total does not
    round to the total, which would put the token beyond the last component.
    """
    word, lane = U(word), U(lane)
    for j in range(U(n)):
        i = U(j)
        u = (f4(np.int32(words[word + i] >> ONE)) + HALF) * UNIT
        u = u if u < BELOW_ONE else BELOW_ONE
        out[word + i] = u * total[lane + i]


@inner(fastmath=FUSE)
def tally_1(cum, lane, n, token, at, tile, row, stride, a, b, c, d):
    """Count the tokens that fall beyond each of four components; cum moves on by these.

    Lanes lane … lane + n have a token each: token[at + i].
    """
    n_a, n_b, n_c, n_d = u4(0), u4(0), u4(0), u4(0)
    lane, at = U(lane), U(at)
    o0 = U(row) + lane
    o1 = o0 + U(stride)
    o2 = o1 + U(stride)
    o3 = o2 + U(stride)
    for j in range(U(n)):
        i = U(j)
        t = token[at + i]
        z = cum[lane + i] + a * tile[o0 + i]
        n_a = u4(n_a + u4(t >= z))
        z += b * tile[o1 + i]
        n_b = u4(n_b + u4(t >= z))
        z += c * tile[o2 + i]
        n_c = u4(n_c + u4(t >= z))
        z += d * tile[o3 + i]
        n_d = u4(n_d + u4(t >= z))
        cum[lane + i] = z
    return n_a, n_b, n_c, n_d


@inner(fastmath=FUSE)
def tally_2(cum, lane, n, token, at, tile, row, stride, a, b, c, d):
    """`tally_1` for lanes with two tokens: token[at + i] and token[at + n + i]."""
    n_a, n_b, n_c, n_d = u4(0), u4(0), u4(0), u4(0)
    lane, at = U(lane), U(at)
    at1 = at + U(n)
    o0 = U(row) + lane
    o1 = o0 + U(stride)
    o2 = o1 + U(stride)
    o3 = o2 + U(stride)
    for j in range(U(n)):
        i = U(j)
        t, s = token[at + i], token[at1 + i]
        z = cum[lane + i] + a * tile[o0 + i]
        n_a = u4(n_a + u4(t >= z) + u4(s >= z))
        z += b * tile[o1 + i]
        n_b = u4(n_b + u4(t >= z) + u4(s >= z))
        z += c * tile[o2 + i]
        n_c = u4(n_c + u4(t >= z) + u4(s >= z))
        z += d * tile[o3 + i]
        n_d = u4(n_d + u4(t >= z) + u4(s >= z))
        cum[lane + i] = z
    return n_a, n_b, n_c, n_d


@inner(fastmath=FUSE)
def tally_4(cum, lane, n, token, at, tile, row, stride, a, b, c, d):
    """`tally_1` for lanes with four tokens."""
    n_a, n_b, n_c, n_d = u4(0), u4(0), u4(0), u4(0)
    lane, at = U(lane), U(at)
    at1 = at + U(n)
    at2 = at1 + U(n)
    at3 = at2 + U(n)
    o0 = U(row) + lane
    o1 = o0 + U(stride)
    o2 = o1 + U(stride)
    o3 = o2 + U(stride)
    for j in range(U(n)):
        i = U(j)
        t, s, r, q = token[at + i], token[at1 + i], token[at2 + i], token[at3 + i]
        z = cum[lane + i] + a * tile[o0 + i]
        n_a = u4(n_a + u4(t >= z) + u4(s >= z) + u4(r >= z) + u4(q >= z))
        z += b * tile[o1 + i]
        n_b = u4(n_b + u4(t >= z) + u4(s >= z) + u4(r >= z) + u4(q >= z))
        z += c * tile[o2 + i]
        n_c = u4(n_c + u4(t >= z) + u4(s >= z) + u4(r >= z) + u4(q >= z))
        z += d * tile[o3 + i]
        n_d = u4(n_d + u4(t >= z) + u4(s >= z) + u4(r >= z) + u4(q >= z))
        cum[lane + i] = z
    return n_a, n_b, n_c, n_d


@inlined
def round_half_up(x):
    """Round x, of any size, to a whole number."""
    return math.floor(x + 0.5)


@inner()
def add_activations(drawn, scales, g):
    """Add the activations of a sample to g: in its units, and the remainder in finer ones."""
    K = drawn.size
    for k in range(K):
        x = drawn[k] * scales.g[k]
        high = round_half_up(x)
        g[k] += high
        g[K + k] += round_half_up((x - high) * scales.g_low)


@inner()
def _add_ratios(c, row, n, tile, ratios, lane, stride, factor):
    """c_k += factor w_k Σ_j h_k / [Wh], rounded, for the n components from `row` in flat c."""
    row, o, stride = U(row), U(lane), U(stride)
    for q in range(U(n)):
        x = factor * (np.float64(tile[o]) * np.float64(ratios[o]))
        c[row + U(q)] += (x + SHIFT) - SHIFT
        o += stride


@inner()
def add_expectations(n, lanes, stride, scales, K4, tile, ratios, c):
    """c_f += v_f w_f ∘ Σ_j h / [Wh]_f for sample n: Eq. 40."""
    four, two, one = 0, lanes.fours[n], lanes.fours[n] + lanes.twos[n]
    for i in range(lanes.entry_start[n], lanes.entry_start[n + 1]):
        v = lanes.entry_count[i]
        lane, four, two, one = next_lane(v, lanes.largest[n], four, two, one)
        if lane >= 0:
            f = np.int64(lanes.entry_feature[i])
            _add_ratios(c, f * K4, K4, tile, ratios, lane, stride, v * scales[f])


@inner()
def add_draws(n, n_draws, lanes, stride, K, K4, beyond, c):
    """c_f += Σ_j c_fn^(j) for the lanes of sample n, from how many tokens fell beyond each k."""
    start = lanes.start[n]
    fours, twos = lanes.fours[n], lanes.twos[n]
    for i in range(lanes.start[n + 1] - start):
        tokens = 4 if i < fours else (2 if i < fours + twos else 1)
        row = np.int64(lanes.feature[start + i]) * K4
        before = n_draws * tokens
        for k in range(K):
            after = np.int64(beyond[k * stride + i])
            c[row + k] += before - after
            before = after
