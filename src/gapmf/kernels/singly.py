"""Counts that are shared out one by one, with double arithmetic.

Heavy counts, by conditional binomials: time does not grow with the count. Faint ones, whose
total [Wh] underflows in single precision: every component that could have made them has next to
no activation. That happens at small α and soon after W has changed.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.compiled import kernel
from gapmf.kernels.philox import pair, uniform
from gapmf.kernels.sums import whole
from gapmf.kernels.variates import ONE, binomial

TINY = 1e-290


@kernel()
def _weigh_logs(row, weights, desk):
    """`weigh` where even doubles underflow: relative to the largest."""
    top = -math.inf
    for k in range(desk.p.size):
        desk.p[k] = -math.inf
        w = weights.rows[row + k]
        if w > 0.0:
            log_g = math.log(desk.g[k]) if math.isnan(desk.log_g[k]) else desk.log_g[k]
            desk.p[k] = math.log(w) + log_g
            top = max(top, desk.p[k])
    total = 0.0
    for k in range(desk.p.size):
        desk.p[k] = math.exp(desk.p[k] - top)
        total += desk.p[k]
    return total


@kernel()
def weigh(f, weights, desk):
    """p_k = w_fk h_k / [Wh]_f, and rest_k = Σ_{l≥k} p_l; where f stands in flat arrays: Eq. 40."""
    row = np.int64(f) * desk.h.size
    total = 0.0
    for k in range(desk.p.size):
        desk.p[k] = weights.rows[row + k] * desk.g[k]
        total += desk.p[k]
    if total < TINY:
        total = _weigh_logs(row, weights, desk)
    rest = 0.0
    for k in range(desk.p.size - 1, -1, -1):
        desk.p[k] /= total
        rest += desk.p[k]
        desk.rest[k] = rest
    return row


@kernel()
def draw_heavy(n, accumulated, lanes, weights, plan, units, desk, index, at, sizes, sums):
    """Heavy counts by conditional binomials, added to `sizes` and, if accumulated, to the sums."""
    for i in range(lanes.heavy_start[n], lanes.heavy_start[n + 1]):
        f, left = lanes.heavy_feature[i], lanes.heavy_count[i]
        row = weigh(f, weights, desk)
        if accumulated and plan.expectations:
            for k in range(sizes.size):
                sums.c[row + k] += whole(left * desk.p[k] * units.c[f])
        for k in range(sizes.size):
            if left == 0:
                break
            if desk.p[k] > 0.0:
                x, index = binomial(left, desk.p[k] / desk.rest[k], index, at)
                sizes[k] += x
                left -= x
                if accumulated and not plan.expectations:
                    sums.c[row + k] += x
    return index


@kernel()
def draw_faint(n, accumulated, lanes, weights, plan, units, stride, desk, index, at, sums):
    """Tokens in lanes whose total is -1, added to `reach` and, if accumulated, to the sums."""
    start = lanes.start[n]
    fours, twos = lanes.fours[n], lanes.twos[n]
    for i in range(lanes.start[n + 1] - start):
        if desk.total[i] >= 0.0:
            continue
        tokens = 4 if i < fours else (2 if i < fours + twos else 1)
        f = lanes.feature[start + i]
        row = weigh(f, weights, desk)
        if accumulated and plan.expectations:
            for k in range(desk.p.size):
                sums.c[row + k] += whole(tokens * desk.p[k] * units.c[f])
        for _ in range(tokens):
            word, _other = pair(index, at)
            index += ONE
            u = uniform(word)
            k = 0
            while k + 1 < desk.p.size and desk.rest[k + 1] > u:
                desk.reach[k] += 1
                if accumulated and not plan.expectations:
                    desk.kept[k * stride + i] += 1
                k += 1
    return index
