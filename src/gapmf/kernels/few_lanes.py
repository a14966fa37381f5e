"""Sweeps of a sample with few lanes: loops over single numbers, words of many sweeps at once.

Vectors are of no use to a sample of two or three tokens, nor is a loop that makes the words of one
sweep. An address has the sweep in it, so the words of several sweeps are made together, in vectors
along the sweeps. What is drawn is what `gibbs.draw_allocations` draws otherwise, bit by bit.
"""

from __future__ import annotations

import numpy as np

from gapmf.kernels.gibbs_layout import FEW_LANES, FEW_TOKENS
from gapmf.kernels.gibbs_loops import BELOW_ONE, FUSE, HALF, UNIT
from gapmf.kernels.jit import inlined, inner
from gapmf.kernels.random import PURPOSES, U
from gapmf.kernels.vectors import LANES as SWEEPS
from gapmf.kernels.vectors import eight_words

f4 = np.float32
u4 = np.uint32


@inner()
def fill_sweeps(words, n, at):
    """Fill 4n × SWEEPS words: those of `random.fill` for the sweep of this address and the next.

    Word i of sweep s is words[SWEEPS i + s].
    """
    c1, c2, c3, k0, k1 = at
    gap = U(n) * U(SWEEPS)
    for i in range(U(n)):
        t = U(i)
        eight_words(words, t * U(SWEEPS), gap, (t, c1, c2, c3), (U(0), PURPOSES), (k0, k1))


@inner()
def has_few(n_lanes, n_tokens):
    """Give whether a sample is drawn by these loops."""
    return n_lanes <= FEW_LANES and n_tokens <= FEW_TOKENS


@inner(fastmath=FUSE)
def sum_lane(i, h, tile, stride):
    """Give [Wh] of one lane, to a factor: the last of the running sums."""
    z = f4(0)
    o, stride = U(i), U(stride)
    for k in range(U(h.size)):
        z += h[k] * tile[o]
        o += stride
    return z


@inner(fastmath=FUSE)
def find_component(word, total, i, h, tile, stride):
    """Give the component in which u·[Wh] falls among the running sums of lane i."""
    u = (f4(np.int32(word >> u4(1))) + HALF) * UNIT
    u = u if u < BELOW_ONE else BELOW_ONE
    token = u * total
    z = f4(0)
    beyond = 0
    o, stride = U(i), U(stride)
    for k in range(U(h.size)):
        z += h[k] * tile[o]
        beyond += np.int64(token >= z)
        o += stride
    return beyond


@inlined
def draw_few(n, s, slot, lanes, stride, least, workspace, beyond, sizes):
    """`gibbs.draw_allocations` for a sample of few lanes, unless a total underflows: then False.

    The words of the tokens are those of sweep s in `few_words`. 1/[Wh] is put in the first slot.
    """
    tile, total, h = workspace.tile, workspace.total, workspace.h
    words = workspace.few_words
    start, fours, twos = lanes.start[n], lanes.fours[n], lanes.twos[n]
    n_lanes = lanes.start[n + 1] - start
    for i in range(n_lanes):
        total[i] = sum_lane(i, h, tile, stride)
        if total[i] < least:
            return False
        if slot >= 0 and beyond is None:
            workspace.inverse[i] = f4(1) / total[i]
    for k in range(sizes.size):
        sizes[k] = 0
    t = s
    for lane, width, tokens in (
        (0, fours, 4),
        (fours, twos, 2),
        (fours + twos, n_lanes - fours - twos, 1),
    ):
        for _ in range(tokens):
            for i in range(lane, lane + width):
                k = find_component(words[U(t)], total[i], i, h, tile, stride)
                t += SWEEPS
                sizes[k] += 1
                if slot >= 0 and beyond is not None:
                    for q in range(k):
                        beyond[q * stride + i] += u4(1)
    return True


@inner(fastmath=FUSE)
def add_ratios(n_lanes, stride, h, inverse, ratios):
    """ratios_k += h_k / [Wh] for one sweep, as `gibbs.add_batch` adds four."""
    for i in range(n_lanes):
        o = U(i)
        for k in range(U(h.size)):
            ratios[o] += h[k] * inverse[i]
            o += U(stride)
