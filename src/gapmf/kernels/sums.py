"""Sums over samples that do not depend on their order: whole numbers, held in doubles.

Draws are whole. Expectations are rounded to whole multiples of a unit, sample by sample. As long
as a sum stays below 2⁵³ every addition is exact, so threads, blocks and partitions give the same
bits; units are chosen so that it does, a unit for each feature. Doubles rather than 64-bit
integers because rounding and adding them vectorises on every machine, and converting does not.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.compiled import kernel
from gapmf.kernels.lanes import walk
from gapmf.kernels.philox import U

# Adding and taking away 1.5·2⁵² rounds a double below 2⁵¹ to a whole number.
SHIFT = 1.5 * 2.0**52


@kernel()
def whole(x):
    """x rounded to a whole number; any size."""
    return math.floor(x + 0.5)


@kernel()
def add_activations(desk_g, units, g):
    """g_k += desk_g_k: in its units, and what they leave in finer ones."""
    K = desk_g.size
    for k in range(K):
        x = desk_g[k] * units.g[k]
        high = whole(x)
        g[k] += high
        g[K + k] += whole((x - high) * units.g_low)


@kernel()
def _add_rows(c, row, n, w, h, a, b, factor_a, factor_b):
    """c_k += factor_a w_k h_k + factor_b w_k h_k, each rounded, from `row` in flat c and w.

    The h of two samples, from a and b in flat h: c_k is fetched and stored once for both.
    """
    row, a, b = U(row), U(a), U(b)
    for j in range(U(n)):
        k = U(j)
        p = np.float64(w[row + k])
        x = factor_a * (p * np.float64(h[a + k]))
        y = factor_b * (p * np.float64(h[b + k]))
        c[row + k] += ((x + SHIFT) - SHIFT) + ((y + SHIFT) - SHIFT)


@kernel()
def keep_one(n, lanes, columns, inverse, h, kept):
    """v_f / [Wh]_f of every entry of sample n, and its h, for `add_by_feature`."""
    four, two, one = 0, lanes.fours[n], lanes.fours[n] + lanes.twos[n]
    for i in range(lanes.entry_start[n], lanes.entry_start[n + 1]):
        v = lanes.entry_count[i]
        lane, four, two, one = walk(v, lanes.heavy, four, two, one)
        kept.ratio[columns.place[i]] = v * inverse[lane] if lane >= 0 else 0.0
    row = n * h.size
    for k in range(h.size):
        kept.h[row + k] = h[k]


@kernel()
def add_by_feature(first, last, columns, kept, rows, units, K4, c):
    """c_f += v_f w_f ∘ h / [Wh]_f over all samples, features first … last: Eq. 40.

    By feature rather than by sample: c_f and w_f stay where they are while it lasts, and only h
    is fetched. Heavy and faint counts have ratio 0 here: they were added singly.
    """
    for f in range(first, last):
        last_entry = columns.start[f + 1]
        for i in range(columns.start[f], last_entry, 2):
            j = min(i + 1, last_entry - 1)
            a, b = np.int64(columns.sample[i]) * K4, np.int64(columns.sample[j]) * K4
            factor_a = units[f] * np.float64(kept.ratio[i])
            factor_b = units[f] * np.float64(kept.ratio[j]) if j > i else 0.0
            _add_rows(c, f * K4, K4, rows, kept.h, a, b, factor_a, factor_b)


@kernel()
def _add_ratios(c, row, n, tile, ratios, lane, stride, factor):
    """c_k += factor w_k Σ_j h_k / [Wh], rounded, for the n components from `row` in flat c."""
    row, o, stride = U(row), U(lane), U(stride)
    for q in range(U(n)):
        x = factor * (np.float64(tile[o]) * np.float64(ratios[o]))
        c[row + U(q)] += (x + SHIFT) - SHIFT
        o += stride


@kernel()
def add_expectations(n, lanes, stride, units, K4, tile, ratios, c):
    """c_f += v_f w_f ∘ Σ_j h / [Wh]_f for sample n: Eq. 40."""
    four, two, one = 0, lanes.fours[n], lanes.fours[n] + lanes.twos[n]
    for i in range(lanes.entry_start[n], lanes.entry_start[n + 1]):
        v = lanes.entry_count[i]
        lane, four, two, one = walk(v, lanes.heavy, four, two, one)
        if lane >= 0:
            f = np.int64(lanes.entry_feature[i])
            _add_ratios(c, f * K4, K4, tile, ratios, lane, stride, v * units[f])


@kernel()
def add_draws(n, n_draws, lanes, stride, K, K4, kept, c):
    """c_f += Σ_j c_fn^(j) for the lanes of sample n, from how many tokens fell beyond each k."""
    start = lanes.start[n]
    fours, twos = lanes.fours[n], lanes.twos[n]
    for i in range(lanes.start[n + 1] - start):
        tokens = 4 if i < fours else (2 if i < fours + twos else 1)
        row = np.int64(lanes.feature[start + i]) * K4
        before = n_draws * tokens
        for k in range(K):
            beyond = np.int64(kept[k * stride + i])
            c[row + k] += before - beyond
            before = beyond
