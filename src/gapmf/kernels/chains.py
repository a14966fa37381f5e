"""Parallel Gibbs chains of one sample: draws of L, and the density of a point (Eqs. 38, 39).

The chains are the particles of sequential Monte Carlo, and a sweep is their move. They start at
the particles of a pass over the tokens, which are near the posterior already, in all its modes.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.gibbs_loops import clear
from gapmf.kernels.jit import inner, kernel
from gapmf.kernels.particles import move, padded, put, reallocate, tick
from gapmf.kernels.random import U, pair, uniform
from gapmf.kernels.token_smc import load_sample, resample


@inner()
def keep_identity(at):
    """Make every particle its own parent."""
    for i in range(at.parent.size):
        at.parent[i] = i


@inner()
def rotate(by, at):
    """Shift the parents by a number: unshifted, the first is always one of the first particles."""
    P = at.parent.size
    for i in range(P):
        at.found[i] = at.parent[i]
    for i in range(P):
        at.parent[i] = np.int64(at.found[(i + by) % P])


@kernel()
def draw_sizes(J, K, stream, n_burn_in, at, shapes):
    """Store α + L after each sweep but the first n_burn_in in shapes (n_draws, K × P).

    The chains start at the particles that `token_smc.estimates` has left, of a sample with J
    entries. K is the number of columns that are positive for one of these.
    """
    P = at.weight.size
    total = 0.0
    for i in range(P):
        total += at.weight[i]
    word, other = pair(U(0), tick(stream, at.clock))
    resample(uniform(word), total, at)
    rotate(np.int64(uniform(other) * P), at)
    for t in range(n_burn_in + shapes.shape[0]):
        move(stream, J, K, at)
        keep_identity(at)
        if t >= n_burn_in:
            for o in range(K * P):
                shapes[t - n_burn_in, o] = at.shape[o]


@inner()
def add_density(log_point, K, at, top, total):
    """Add each chain's p(log g* | L) = Π_k g*_k^(α_k+L_k) e^(−g*_k) / Γ(α_k + L_k) to its sum.

    The sum is total × e^top. What depends on g* alone, e^(−Σ g*_k), is left out.
    """
    P = at.weight.size
    for i in range(P):
        value = 0.0
        for k in range(K):
            a = at.shape[k * P + i]
            value += a * log_point[k] - math.lgamma(a)
        if value > top[i]:
            total[i] = total[i] * math.exp(top[i] - value) + 1.0
            top[i] = value
        else:
            total[i] += math.exp(value - top[i])


@kernel()
def densities(features, counts, p, alpha, log_point, stream, n_sweeps, at, start, top, result):
    """Give log of the mean of p(log g* | L) over n_sweeps draws of each chain, to e^(−Σ g*_k).

    As in Murray and Salakhutdinov, C ~ p(C | g*, v) is at a uniform position among a chain's
    draws, and the chain runs from there to both sides. Then p(g*, v) divided by the mean is
    unbiased for p(v), however slowly the chain mixes. g* must not depend on the stream. start
    (K × P) and top (P,) are scratch arrays; result is (P,).
    """
    J, P = features.size, at.weight.size
    at.clock[0] = U(0)
    at.clock[1] = U(at.words.size)
    K = load_sample(features, counts, p, alpha, stream, at)
    for j in range(J):
        at.placed[j] = counts[j]
    clear(at.g, padded(K) * P)
    clear(at.h, padded(K) * P)
    clear(at.shape, padded(K) * P)
    for k in range(K):
        put(at.g, k * P, P, math.exp(log_point[k]))
    keep_identity(at)
    reallocate(stream, J, K, at)
    for o in range(K * P):
        start[o] = at.shape[o]
    put(top, 0, P, -math.inf)
    clear(result, P)
    add_density(log_point, K, at, top, result)
    starts = tick(stream, at.clock)
    for t in range(n_sweeps - 1):
        for i in range(P):
            word, _ = pair(U(i), starts)
            if t == np.int64(uniform(word) * n_sweeps):  # the other side begins
                for k in range(K):
                    at.shape[k * P + i] = start[k * P + i]
        move(stream, J, K, at)
        add_density(log_point, K, at, top, result)
    for i in range(P):
        result[i] = top[i] + math.log(result[i] / n_sweeps)
