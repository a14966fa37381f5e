"""Sequential Monte Carlo around a draw from the posterior: an estimate of Eq. 31 from above.

Run as in `token_smc`, but with one particle whose path leads to a given draw of C from the
posterior, the inverse of the estimate is unbiased for the inverse of Eq. 31 (Andrieu, Doucet and
Holenstein's conditional sequential Monte Carlo; Grosse, Ghahramani and Adams' reverse of
annealing). So its logarithm errs upwards where that of `token_smc` errs downwards: together they
are a bracket.

The path is made backwards. The tokens of an entry are exchangeable, so those of the last round are
any of them. Without them, a Gibbs sweep, which is its own reverse, leads to the state before the
move of the round before. Particles are resampled and moved after every round, so the path can be
made before the particles. The guide is reduced after every round as well: α is α + s_r guide in
round r, where s_r is the part of the tokens that come in it or later.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapmf.kernels.gibbs_loops import clear
from gapmf.kernels.jit import inner, kernel
from gapmf.kernels.particles import LEAST, move, padded, put, scale, tick
from gapmf.kernels.random import U, binomial, gamma, log_gamma, pair, uniform
from gapmf.kernels.token_smc import (
    SAFE,
    add_guide,
    add_token,
    load_sample,
    plan_round,
    reduce_guide,
)

GROWTH = 0.1  # a round, as a part of what has been seen
FEW = 16  # tokens of an entry that are shared out one by one


class Path(NamedTuple):
    """The arrays for the path to a draw: R rounds, J entries, K components, n tokens."""

    placed: NDArray[np.int64]
    """(R + 1, J): the tokens of each entry that have been seen before each round."""
    before: NDArray[np.float64]
    """(R, K): α + L before each round."""
    tokens: NDArray[np.int64]
    """(n,): the components of the tokens, round by round and entry by entry."""
    c: NDArray[np.int64]
    """(J, K)."""
    g: NDArray[np.float64]
    """(K,)."""
    current: NDArray[np.float64]
    """(K,)."""


def make_room(counts: NDArray[np.int64], K: int) -> Path:
    """Make the arrays for a sample."""
    n, J = int(counts.sum()), counts.size
    R = count_rounds(n)
    return Path(
        placed=np.empty((R + 1, J), np.int64),
        before=np.empty((R, K)),
        tokens=np.empty(n, np.int64),
        c=np.empty((J, K), np.int64),
        g=np.empty(K),
        current=np.empty(K),
    )


def count_rounds(n: int) -> int:
    """Give the number of rounds for n tokens."""
    rounds, goal = 0, 0.0
    while goal < n:
        goal += max(1.0, math.floor(GROWTH * goal))
        rounds += 1
    return rounds


@inner()
def plan_rounds(counts, at, placed):
    """placed[r] (J,): the tokens of each entry that have been seen before round r."""
    J = counts.size
    n = 0
    for j in range(J):
        n += counts[j]
        placed[0, j] = 0
    goal = 0.0
    for r in range(placed.shape[0] - 1):
        goal += max(1.0, math.floor(GROWTH * goal))
        plan_round(min(1.0, goal / n), counts, at)
        for j in range(J):
            placed[r + 1, j] = placed[r, j] + at.batch[j]
            at.placed[j] = placed[r + 1, j]


@inner()
def draw_point(shape, K, stream, clock, g):
    """g_k ~ Gamma(shape_k, 1)."""
    own, more, small = tick(stream, clock), tick(stream, clock), tick(stream, clock)
    for k in range(K):
        first, second = pair(U(k), own)
        if shape[k] >= 1.0:
            g[k] = gamma(shape[k], first, second, U(k), more)
        else:
            g[k] = max(LEAST, math.exp(log_gamma(shape[k], first, second, U(k), more, small)))


@inner()
def allocate(placed, p, K4, K, g, stream, clock, rest, c):
    """c_j ~ Mult(placed_j, p_j ∘ g / Σ), by conditional binomials or token by token."""
    address, single = tick(stream, clock), tick(stream, clock)
    index, t = U(0), 0
    for j in range(placed.size):
        total = 0.0
        for k in range(K - 1, -1, -1):
            c[j, k] = 0
            total += p[j * K4 + k] * g[k]
            rest[k] = total
        left = placed[j]
        if left <= FEW:
            for _ in range(left):
                word, _ = pair(U(t), single)
                t += 1
                c[j, find_component(uniform(word) * total, j, p, K4, K, g)] += 1
            continue
        for k in range(K):
            rate = p[j * K4 + k] * g[k]
            if rate > 0.0 and left > 0:
                x, index = binomial(left, rate / rest[k], index, address)
                c[j, k] = x
                left -= x


@inner()
def find_component(level, j, p, K4, K, g):
    """Give the component in which a level falls among the running sums of p_jk g_k."""
    last = 0
    reached = 0.0
    for k in range(K):
        rate = p[j * K4 + k] * g[k]
        if rate > 0.0:
            last = k
            reached += rate
            if level < reached:
                return k
    return last


@inner()
def to_come(placed, r):
    """Give the part of the tokens that come in round r or later."""
    R, n, m = placed.shape[0] - 1, 0, 0
    for j in range(placed.shape[1]):
        n += placed[R, j]
        m += placed[r, j]
    return (n - m) / n


@inner()
def make_path(alpha, shape, K, stream, at, path):
    """Make the path backwards from a draw with α + L = shape, given all tokens."""
    placed, before, tokens, c, g, current = path
    K4 = padded(K)
    J = placed.shape[1]
    o = tokens.size
    for k in range(K):
        current[k] = shape[k]
    for r in range(placed.shape[0] - 2, -1, -1):
        draw_point(current, K, stream, at.clock, g)
        allocate(placed[r + 1], at.p, K4, K, g, stream, at.clock, at.rest, c)
        address = tick(stream, at.clock)
        t = 0
        for j in range(J - 1, -1, -1):
            left = placed[r + 1, j]
            while left > placed[r, j]:
                word, _ = pair(U(t), address)
                t += 1
                level = np.int64(uniform(word) * left)
                k = 0
                while level >= c[j, k]:
                    level -= c[j, k]
                    k += 1
                c[j, k] -= 1
                left -= 1
                o -= 1
                tokens[o] = k
        left_of_guide = to_come(placed, r)
        for k in range(K):
            current[k] = alpha[k] + left_of_guide * at.guide[k]
            for j in range(J):
                current[k] += c[j, k]
            before[r, k] = current[k]


@inner()
def choose_parents(total, stream, at):
    """Draw a parent for every particle but the first, in proportion to the weights."""
    P = at.weight.size
    address = tick(stream, at.clock)
    reached = 0.0
    for i in range(P):
        reached += at.weight[i]
        at.cum[i] = reached
    for i in range(1, P):
        word, _ = pair(U(i), address)
        level = uniform(word) * total
        low, high = 0, P - 1
        while low < high:
            middle = (low + high) // 2
            if level < at.cum[middle]:
                high = middle
            else:
                low = middle + 1
        at.parent[i] = low
    at.parent[0] = 0


@kernel()
def estimate_above(features, counts, p, alpha, guide, shape, stream, at, path):
    """Estimate log of Eq. 31's second factor times Π v_f!; the estimate's inverse is unbiased.

    shape (K,) is α + L of a posterior draw, guide (K,) as in `token_smc`; every column of p (J, K)
    has a positive entry.
    """
    J, K, P = features.size, alpha.size, at.weight.size
    K4 = padded(K)
    at.clock[0] = U(0)
    at.clock[1] = U(at.words.size)
    load_sample(features, counts, p, alpha, stream, at)
    add_guide(guide, K, at)
    placed, before, tokens = path.placed, path.before, path.tokens
    R = before.shape[0]
    plan_rounds(counts, at, placed)
    make_path(alpha, shape, K, stream, at, path)
    clear(at.shape, K4 * P)
    clear(at.g, K4 * P)
    clear(at.h, K4 * P)
    for k in range(K):
        put(at.shape, k * P, P, at.alpha[k])
    put(at.weight, 0, P, 1.0)
    result = 0.0
    o = 0
    for r in range(R):
        for k in range(K):
            at.shape[k * P] = before[r, k]
        total = float(P)
        for j in range(J):
            at.placed[j] = placed[r + 1, j]
            for _ in range(placed[r + 1, j] - placed[r, j]):
                total, _squares = add_token(
                    at.p, j * K4, K4, P, at.shape, at.weight, at.total, at.cum, at.token,
                    at.found, at.words, at.clock, stream,
                )  # fmt: skip
                at.shape[np.int64(at.found[0]) * P] -= 1.0
                at.shape[tokens[o] * P] += 1.0
                o += 1
                if not P / SAFE < total < P * SAFE:
                    scale(at.weight, P / total, P)
                    result += math.log(total / P)
                    total = float(P)
        (total, _squares), taken = reduce_guide(to_come(placed, r + 1), K, at)
        result += taken + math.log(total / P)
        if r < R - 1:
            choose_parents(total, stream, at)
            put(at.weight, 0, P, 1.0)
            move(stream, J, K, at)
    return result
