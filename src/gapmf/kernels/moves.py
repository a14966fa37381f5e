"""How particles move: a Gibbs sweep over the tokens that they have seen (Eqs. 38 to 40)."""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.compiled import kernel
from gapmf.kernels.particles import add_rows, find, give, place_single, put, take_words, tick
from gapmf.kernels.philox import U, fill, join, pair, uniform
from gapmf.kernels.variates import binomial, gamma

HEAVY = 128  # counts above are moved by conditional binomials
LEAST = 1e-280  # a smaller activation would be 0 in products; it makes no difference
LEAST_SINGLE = 1e-36  # the same in single precision
ZERO, ONE = np.float32(0), np.float32(1)


@kernel()
def padded(K):
    """K, rounded up to a multiple of four."""
    return (K + 3) // 4 * 4


@kernel()
def draw_activations(stream, K, at):
    """g_k ~ Gamma(α_k + L_k, 1) for every particle, L being its parent's: Eq. 38."""
    P = at.weight.size
    n = K * P
    words = at.own_words
    fill(words, n, tick(stream, at.clock))
    more = tick(stream, at.clock)
    small = tick(stream, at.clock)
    for k in range(K):
        for i in range(P):
            o = k * P + i
            shape = at.shape[k * P + at.parent[i]]
            first = join(words[o], words[n + o])
            second = join(words[2 * n + o], words[3 * n + o])
            if shape >= 1.0:
                at.g[o] = gamma(shape, first, second, U(o), more)
            else:
                word, _ = pair(o, small)
                log_g = math.log(gamma(shape + 1.0, first, second, U(o), more))
                log_g += math.log(uniform(word)) / shape
                at.g[o] = max(LEAST, math.exp(log_g))


@kernel()
def scale_activations(K, at):
    """h = g, each particle's scaled to a maximum of 1, in single precision."""
    P = at.weight.size
    put(at.total, 0, P, 0.0)
    for k in range(K):
        for i in range(P):
            at.total[i] = max(at.total[i], at.g[k * P + i])
    for k in range(K):
        for i in range(P):
            at.h[k * P + i] = np.float32(max(LEAST_SINGLE, at.g[k * P + i] / at.total[i]))


@kernel()
def share_batch(j, m, K, index, address, at):
    """m tokens of entry j among the components of each particle, by conditional binomials."""
    P, K4 = at.weight.size, padded(K)
    for i in range(P):
        rest = 0.0
        for k in range(K - 1, -1, -1):
            rest += at.p[j * K4 + k] * at.g[k * P + i]
            at.rest[k] = rest
        left = m
        for k in range(K):
            if left == 0:
                break
            rate = at.p[j * K4 + k] * at.g[k * P + i]
            if rate > 0.0:
                x, index = binomial(left, rate / at.rest[k], index, address)
                at.shape[k * P + i] += x
                left -= x
    return index


@kernel()
def share_tokens(m, p, row, K4, P, h, shape, total, cum, token, found, words, clock, stream):
    """m tokens of an entry, one by one, given h.

    The arrays come one by one too: to pass all of `Particles` on takes as long as a token.
    """
    add_rows(total, P, h, p, row, K4)
    for _ in range(m):
        place_single(token, words, take_words(stream, words, clock, P), total, P)
        find(h, P, p, row, K4, cum, token, found, ONE, ZERO)
        give(shape, P, found)


@kernel()
def reallocate(stream, J, K, at):
    """L given g, for all tokens seen so far."""
    P, K4 = at.weight.size, padded(K)
    scale_activations(K, at)
    address = tick(stream, at.clock)
    index = U(0)
    for k in range(K):
        put(at.shape, k * P, P, at.alpha[k])
    for j in range(J):
        m = at.placed[j]
        if m > HEAVY:
            index = share_batch(j, m, K, index, address, at)
        elif m > 0:
            share_tokens(
                m, at.single_p, j * K4, K4, P, at.h, at.shape, at.single_total, at.single_cum,
                at.single_token, at.single_found, at.words, at.clock, stream,
            )  # fmt: skip


@kernel()
def move(stream, J, K, at):
    """A Gibbs sweep: g given the parent's L, then L given g for all tokens seen so far."""
    draw_activations(stream, K, at)
    reallocate(stream, J, K, at)
