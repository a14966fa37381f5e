"""Sums over the nodes of a product rule on the simplex, many samples at once."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

CHUNK = 256  # nodes at a time; fixed, so that a sample's bits do not depend on its company
NEGLIGIBLE = 60.0  # terms e^-60 of the largest add nothing to 1e-16, however many there are


@njit(cache=True, nogil=True)
def fill_nodes(first, nodes, complements, log_weights, theta, log_w):
    """Nodes θ (K, CHUNK) and log-weights of the product rule, from node `first` on.

    Stick k breaks u_k off what is left: θ_k = u_k Π_{l<k} (1−u_l), the last θ is the rest.
    nodes, complements and log_weights are (K−1, m). Past the last node the weight is zero, so
    that every loop runs over whole, contiguous rows.
    """
    sticks, m = nodes.shape
    filled = min(CHUNK, m**sticks - first)
    theta[:, filled:] = 1.0
    log_w[filled:] = -math.inf
    if sticks == 0:  # one component: θ = 1
        theta[:] = 1.0
        log_w[0] = 0.0
        return
    rest, weight = 1.0, 0.0
    for j in range(filled):
        code = first + j
        i = code % m  # the last stick runs fastest
        if i == 0 or j == 0:  # the sticks before it move
            rest, weight = 1.0, 0.0
            code //= m
            power = m ** (sticks - 2) if sticks > 1 else 1
            for k in range(sticks - 1):
                digit = code // power % m
                power //= m
                theta[k, j] = rest * nodes[k, digit]
                rest *= complements[k, digit]
                weight += log_weights[k, digit]
        else:
            for k in range(sticks - 1):
                theta[k, j] = theta[k, j - 1]
        theta[sticks - 1, j] = rest * nodes[sticks - 1, i]
        theta[sticks, j] = rest * complements[sticks - 1, i]
        log_w[j] = weight + log_weights[sticks - 1, i]


@njit(cache=True, nogil=True)
def fill_logs(first, logs, log_theta):
    """log θ (K, CHUNK) at the nodes of `fill_nodes`, from log u and log(1 − u), (2, K−1, m)."""
    _, sticks, m = logs.shape
    log_theta[:] = 0.0
    for j in range(min(CHUNK, m**sticks - first)):
        code = first + j
        for k in range(sticks - 1, -1, -1):
            digit = code % m
            code //= m
            log_theta[k, j] += logs[0, k, digit]
            for rest in range(k + 1, sticks + 1):
                log_theta[rest, j] += logs[1, k, digit]


@njit(cache=True, nogil=True)
def add_scaled(weight, row, out):
    """out += weight · row, in a loop of its own: so it vectorises."""
    for j in range(out.size):
        out[j] += weight * row[j]


@njit(cache=True, nogil=True)
def log_in_place(row):
    """row ← log row."""
    for j in range(row.size):
        row[j] = math.log(row[j])


@njit(cache=True, nogil=True)
def fill_rates(p, theta, rates, log_rates):
    """Σ_k p_fk θ_k and its logarithm, (F, CHUNK); p (F, K) has no zero rows."""
    for f in range(p.shape[0]):
        rates[f, :] = 0.0
        for k in range(p.shape[1]):
            add_scaled(p[f, k], theta[k], rates[f])
        log_rates[f, :] = rates[f]
        log_in_place(log_rates[f])


@njit(cache=True, nogil=True)
def fill_exponents(log_w, indices, counts, log_rates, out):
    """log w_j + Σ_f v_f log (Pθ_j)_f for one sample, (CHUNK,)."""
    out[:] = log_w
    for i in range(indices.size):
        add_scaled(float(counts[i]), log_rates[indices[i]], out)


@njit(cache=True, nogil=True)
def largest(values):
    """The maximum."""
    top = values[0]
    for j in range(1, values.size):
        top = max(top, values[j])
    return top


@njit(cache=True, nogil=True)
def expectations(indptr, indices, counts, p, nodes, complements, log_weights, tops):
    """E[Π_f (Σ_k p_fk θ_k)^{v_f}] over the product rule for θ, as total · e^top, both (N,).

    The logarithms of a chunk of nodes are computed once for all samples of the block. tops
    (chunks, N) receives the largest exponent of each chunk, unless it has no rows.
    """
    N, (F, K) = indptr.size - 1, p.shape
    sticks, m = nodes.shape
    theta, rates, log_rates = np.empty((K, CHUNK)), np.empty((F, CHUNK)), np.empty((F, CHUNK))
    log_w, exponent = np.empty(CHUNK), np.empty(CHUNK)
    top, total = np.full(N, -math.inf), np.zeros(N)
    for first in range(0, m**sticks, CHUNK):
        fill_nodes(first, nodes, complements, log_weights, theta, log_w)
        fill_rates(p, theta, rates, log_rates)
        for s in range(N):
            lo, hi = indptr[s], indptr[s + 1]
            fill_exponents(log_w, indices[lo:hi], counts[lo:hi], log_rates, exponent)
            here = largest(exponent)
            if tops.shape[0] > 0:
                tops[first // CHUNK, s] = here
            if here > top[s]:
                total[s] *= math.exp(top[s] - here)
                top[s] = here
            if here > top[s] - NEGLIGIBLE:
                for j in range(CHUNK):
                    if exponent[j] > top[s] - NEGLIGIBLE:
                        total[s] += math.exp(exponent[j] - top[s])
    return top, total
