"""Counts that are shared out among the components one by one, in double precision: Eq. 40.

A count of up to `MOST_TOKENS` is drawn token by token, 64 at a time. A token has 48 random bits: it
is beyond component k if they are below those of P(beyond k). The first 16 bits nearly always
decide; of the tokens for which they do not, the other 32 are made. Larger counts are drawn by
conditional binomials, in time that does not grow with the count.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.gibbs_layout import MOST_TOKENS, TOKENS_IN_WORDS
from gapmf.kernels.gibbs_loops import round_half_up
from gapmf.kernels.jit import inlined, inner
from gapmf.kernels.random import LOW, ONE, SHIFT, U, binomial, philox
from gapmf.kernels.vectors import LANES, TOKENS_AT_ONCE, count_bits, eight_words, halves_below

TINY = 1e-290  # a sum of doubles below it has lost digits: logarithms are used
RESOLUTION = 2.0**48
TIES = U(1 << 31)  # words that settle ties are at this index and the next ones


@inner()
def weigh(row, rows, g, log_g, p, rest):
    """p_k = w_fk h_k / [Wh]_f, and rest_k = Σ_{l≥k} p_l, where w_f is rows[row:]: Eq. 40."""
    K = p.size
    total = 0.0
    for k in range(K):
        p[k] = rows[row + k] * g[k]
        total += p[k]
    if total < TINY:
        top = -math.inf
        for k in range(K):
            p[k] = -math.inf
            w = rows[row + k]
            if w > 0.0:
                p[k] = math.log(w) + (math.log(g[k]) if math.isnan(log_g[k]) else log_g[k])
                top = max(top, p[k])
        total = 0.0
        for k in range(K):
            p[k] = math.exp(p[k] - top)
            total += p[k]
    left, share = 0.0, 1.0 / total
    for k in range(K - 1, -1, -1):
        p[k] *= share
        left += p[k]
        rest[k] = left


@inner()
def add_expectation(count, row, p, scale, c):
    """c_fk += count p_k, rounded."""
    for k in range(p.size):
        c[row + k] += round_half_up(count * p[k] * scale)


@inlined
def fill_tokens(words, n_tokens, index, at):
    """Make the first 16 bits of so many tokens; give the next index."""
    c1, c2, c3, k0, k1 = at
    end = index + U((n_tokens + TOKENS_AT_ONCE - 1) // TOKENS_AT_ONCE * LANES)
    begin = index
    while index < end:
        o = (index - begin) * U(4)
        eight_words(words, o, U(LANES), (index, c1, c2, c3), (ONE, U(0)), (k0, k1))
        index += U(LANES)
    return index


@inner()
def settle(below, equal, first, bound, at):
    """Add to the bits `below` those of `equal` whose further 32 bits are below these of `bound`.

    The bits are tokens, the lowest of which has the number `first`.
    """
    c1, c2, c3, k0, k1 = at
    while equal:
        bit = equal & (~equal + ONE)
        equal ^= bit
        token = first + U(count_bits(bit - ONE))
        word, _, _, _ = philox(token | TIES, c1, c2, c3, k0, k1)
        if word < bound & LOW:
            below |= bit
    return below


@inlined
def count_beyond(left, p, rest, words, token, number, at, reach):
    """reach[k] = how many of `left` tokens, from words' `token` on, are beyond component k.

    `number` is that of the words' first token at this address.
    """
    for k in range(p.size):
        reach[k] = 0
    while left > 0:
        n = min(left, TOKENS_AT_ONCE)
        found = n
        for k in range(p.size - 1):
            if p[k] > 0.0:
                bound = U(rest[k + 1] * RESOLUTION)
                below, equal = halves_below(words, token, n, bound >> SHIFT)
                if equal:
                    below = settle(below, equal, number + U(token), bound, at)
                found = count_bits(below)
                if found == 0:
                    break
            reach[k] += found
        token += n
        left -= n


@inner()
def draw_large_count(left, p, rest, index, at, reach):
    """`count_beyond` by conditional binomials; give the next index."""
    for k in range(p.size):
        if left > 0 and p[k] > 0.0:
            x, index = binomial(left, p[k] / rest[k], index, at)
            left -= x
        reach[k] = left
    return index


@inner()
def tokens_of(count):
    """Give the tokens of a count that are drawn one by one: all or none."""
    return count if count <= MOST_TOKENS else 0


@inlined
def draw_large_counts(
    n, slot, large, weights, scales, workspace, index, at, expectations, sizes, sums
):
    """Draw large counts; add them to `sizes` and, if slot ≥ 0, they or expectations to sums."""
    p, rest, reach, words = workspace.p, workspace.rest, workspace.reach, workspace.large_words
    begin, end = large.start[n], large.start[n + 1]
    last = begin
    token = 0
    number = U(0)
    for i in range(begin, end):
        f, left = np.int64(large.feature[i]), large.count[i]
        if i == last:  # the words of the next counts
            n_tokens = 0
            while last < end and n_tokens + tokens_of(large.count[last]) <= TOKENS_IN_WORDS:
                n_tokens += tokens_of(large.count[last])
                last += 1
            token, number = 0, index * U(TOKENS_AT_ONCE // LANES)
            index = fill_tokens(words, n_tokens, index, at)
        row = f * workspace.h.size
        weigh(row, weights.rows, workspace.g, workspace.log_g, p, rest)
        if slot >= 0 and expectations:
            add_expectation(left, row, p, scales.c[f], sums.c)
        if tokens_of(left) > 0:
            count_beyond(left, p, rest, words, token, number, at, reach)
            token += left
        else:
            index = draw_large_count(left, p, rest, index, at, reach)
        for k in range(sizes.size):
            sizes[k] += left - reach[k]
            if slot >= 0 and not expectations:
                sums.c[row + k] += left - reach[k]
            left = reach[k]
