"""The inner loops of a Gibbs sweep, each a straight line over the lanes of one sample.

Matrices (components × lanes) are flat, a row every `stride` numbers. Offsets are unsigned and
arrays are never sliced: LLVM then vectorises each of these loops, and no reference is counted.
Components come four at a time (the weights are padded with zeros), which keeps running sums in
registers. Only contraction is allowed to the compiler, so that `add_up` and the tallies reach
the same sums.
"""

from __future__ import annotations

import numpy as np

from gapmf.kernels.compiled import kernel
from gapmf.kernels.philox import U

f4 = np.float32
u4 = np.uint32

HALF = f4(0.5)
UNIT = f4(2.0**-31)
ONE = u4(1)
FUSE = {"contract"}


@kernel()
def clear(out, n):
    """out[:n] = 0."""
    for i in range(U(n)):
        out[i] = 0


@kernel(fastmath=FUSE)
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


@kernel(fastmath=FUSE)
def step(cum, n, tile, row, a):
    """cum += a × (this row of the tile)."""
    row = U(row)
    for j in range(U(n)):
        i = U(j)
        cum[i] += a * tile[row + i]


@kernel()
def keep(cum, lane, n, token, at, kept, row):
    """How many of the lanes' tokens reach cum, a token a lane; each adds 1 to its lane's count."""
    lane, at = U(lane), U(at)
    row = U(row) + lane
    total = u4(0)
    for j in range(U(n)):
        i = U(j)
        reaches = u4(token[at + i] >= cum[lane + i])
        kept[row + i] = u4(kept[row + i] + reaches)
        total = u4(total + reaches)
    return total


@kernel()
def invert(total, n, least, out, row):
    """out[row + i] = 1/total[i]; where the total is below `least`, 0, and the total becomes -1.

    Gives the number of the latter.
    """
    row = U(row)
    faint = u4(0)
    for j in range(U(n)):
        i = U(j)
        t = total[i]
        below = t < least
        faint = u4(faint + u4(below))
        out[row + i] = f4(0) if below else f4(1) / t
        total[i] = f4(-1) if below else t
    return faint


@kernel()
def scale_uniforms(words, word, total, lane, n, out):
    """out[word + i] = u total[lane + i], with u in (0, 1] from words[word + i].

    Down to 2⁻³², in steps of 2⁻²⁴ near 1; 1 itself comes once in 2²⁵ times, see `pull_back`.
    """
    word, lane = U(word), U(lane)
    for j in range(U(n)):
        i = U(j)
        u = (f4(np.int32(words[word + i] >> ONE)) + HALF) * UNIT
        out[word + i] = u * total[lane + i]


@kernel(fastmath=FUSE)
def tally_1(cum, lane, n, token, at, tile, row, stride, a, b, c, d):
    """How many tokens reach beyond each of four components; cum moves on by these.

    Lanes lane … lane + n, a token each: token[at + i].
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


@kernel(fastmath=FUSE)
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


@kernel(fastmath=FUSE)
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
