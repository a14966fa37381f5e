"""Sums over the nodes of a product rule on the simplex, many samples at once."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

CHUNK = 256  # nodes at a time; fixed, so that a sample's bits do not depend on its company
_NEGLIGIBLE = 60.0  # terms e^-60 below the largest add nothing to 1e-16, however many


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
def _mix(weight, row, out):
    for j in range(out.size):
        out[j] += weight * row[j]


@njit(cache=True, nogil=True)
def _log_in_place(row):
    for j in range(row.size):
        row[j] = math.log(row[j])


@njit(cache=True, nogil=True)
def log_rates(p, theta, out):
    """log Σ_k p_fk θ_k, (F, nodes); p (F, K) has no zero rows."""
    for f in range(p.shape[0]):
        out[f, :] = 0.0
        for k in range(p.shape[1]):
            _mix(p[f, k], theta[k], out[f])
        _log_in_place(out[f])


@njit(cache=True, nogil=True)
def _largest(values):
    top = values[0]
    for j in range(1, values.size):
        top = max(top, values[j])
    return top


@njit(cache=True, nogil=True)
def log_expectations(indptr, indices, counts, p, nodes, complements, log_weights):
    """log E[Π_f (Σ_k p_fk θ_k)^{v_f}], (N,), over the product rule for θ.

    The logarithms of a chunk of nodes are computed once for all samples of the block.
    """
    N, (F, K) = indptr.size - 1, p.shape
    sticks, m = nodes.shape
    theta, rates = np.empty((K, CHUNK)), np.empty((F, CHUNK))
    log_w, exponent = np.empty(CHUNK), np.empty(CHUNK)
    top, total = np.full(N, -math.inf), np.zeros(N)
    for first in range(0, m**sticks, CHUNK):
        fill_nodes(first, nodes, complements, log_weights, theta, log_w)
        log_rates(p, theta, rates)
        for s in range(N):
            exponent[:] = log_w
            for i in range(indptr[s], indptr[s + 1]):
                _mix(float(counts[i]), rates[indices[i]], exponent)
            largest = _largest(exponent)
            if largest > top[s]:
                total[s] *= math.exp(top[s] - largest)
                top[s] = largest
            for j in range(CHUNK):
                if exponent[j] > top[s] - _NEGLIGIBLE:
                    total[s] += math.exp(exponent[j] - top[s])
    return top + np.log(total)
