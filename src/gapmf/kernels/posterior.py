"""Posterior expectations over the simplex, by the same nodes as the likelihood.

Given v, the weight of node θ_j is q_j ∝ w_j Π_f (Σ_k p_fk θ_jk)^{v_f}. Two passes: the first
finds the normaliser of each sample, and the largest weight in each chunk of nodes; the second
adds up expectations, visiting only the chunks that matter to a sample (few, at large counts).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from gapmf.kernels.quadrature import (
    CHUNK,
    add_scaled,
    expectations,
    fill_exponents,
    fill_logs,
    fill_nodes,
    fill_rates,
)

_NEGLIGIBLE = 45.0  # weights below e^-45 are left out: 3e-20 each


@njit(cache=True, nogil=True)
def _weights(exponent, top, total, q):
    """q_j = e^(exponent_j − top) / total: they sum to one, however large the exponents."""
    for j in range(CHUNK):
        z = exponent[j] - top
        q[j] = math.exp(z) / total if z > -_NEGLIGIBLE else 0.0


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dot(a, b):
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dot_over(a, b, c):
    """Σ_j a_j b_j / c_j"""
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j] / c[j]
    return total


@njit(cache=True, nogil=True)
def _first_pass(indptr, indices, counts, p, nodes, complements, log_weights):
    """The normaliser of each sample as total · e^top, both (N,), and where chunks matter."""
    sticks, m = nodes.shape
    tops = np.empty((-(-(m**sticks) // CHUNK), indptr.size - 1))
    top, total = expectations(indptr, indices, counts, p, nodes, complements, log_weights, tops)
    return top, total, tops > top - _NEGLIGIBLE


@njit(cache=True, nogil=True)
def sums(indptr, indices, counts, weights, p, nodes, complements, log_weights, logs):
    """What an EM needs of a block, summed over its samples.

    Returns top and total (N,), with E[Π_f (Pθ)_f^{v_f}] = total · e^top; ratio (F, K) =
    Σ_n weights_n v_fn E[θ_k / (Pθ)_f | v_n]; and log_theta (K,) = Σ_n weights_n E[log θ_k | v_n],
    or zero when `logs` has no entries.
    """
    N, (F, K) = indptr.size - 1, p.shape
    top, total, matters = _first_pass(indptr, indices, counts, p, nodes, complements, log_weights)
    theta, rates, log_rates = np.empty((K, CHUNK)), np.empty((F, CHUNK)), np.empty((F, CHUNK))
    log_w, exponent, q = np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK)
    mass = np.empty((F, CHUNK))  # Σ_n weights_n v_fn q_nj: K enters once a chunk, not a sample
    ratio = np.zeros((F, K))
    wanted = logs.shape[0] > 0
    plain, log_nodes, log_theta = np.empty(CHUNK), np.empty((K, CHUNK)), np.zeros(K)
    for c in range(matters.shape[0]):
        if not matters[c].any():
            continue
        fill_nodes(c * CHUNK, nodes, complements, log_weights, theta, log_w)
        fill_rates(p, theta, rates, log_rates)
        mass[:] = 0.0
        plain[:] = 0.0
        for s in range(N):
            if matters[c, s]:
                lo, hi = indptr[s], indptr[s + 1]
                fill_exponents(log_w, indices[lo:hi], counts[lo:hi], log_rates, exponent)
                _weights(exponent, top[s], total[s], q)
                for i in range(lo, hi):
                    add_scaled(weights[s] * counts[i], q, mass[indices[i]])
                add_scaled(weights[s], q, plain)
        for f in range(F):
            for k in range(K):
                ratio[f, k] += _dot_over(mass[f], theta[k], rates[f])
        if wanted:
            fill_logs(c * CHUNK, logs, log_nodes)
            for k in range(K):
                log_theta[k] += _dot(plain, log_nodes[k])
    return top, total, ratio, log_theta


@njit(cache=True, nogil=True)
def moments(indptr, indices, counts, p, nodes, complements, log_weights):
    """Posterior moments sample by sample.

    Returns theta (N, K); theta2 (N, K, K), the means of θ_k θ_l; and ratio (entries, K), the
    means of θ_k / (Pθ)_f for each stored count.
    """
    N, (F, K) = indptr.size - 1, p.shape
    top, total, matters = _first_pass(indptr, indices, counts, p, nodes, complements, log_weights)
    theta, rates, log_rates = np.empty((K, CHUNK)), np.empty((F, CHUNK)), np.empty((F, CHUNK))
    log_w, exponent, q = np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK)
    means, second = np.zeros((N, K)), np.zeros((N, K, K))
    ratio = np.zeros((indices.size, K))
    for c in range(matters.shape[0]):
        if not matters[c].any():
            continue
        fill_nodes(c * CHUNK, nodes, complements, log_weights, theta, log_w)
        fill_rates(p, theta, rates, log_rates)
        for s in range(N):
            if matters[c, s]:
                lo, hi = indptr[s], indptr[s + 1]
                fill_exponents(log_w, indices[lo:hi], counts[lo:hi], log_rates, exponent)
                _weights(exponent, top[s], total[s], q)
                for k in range(K):
                    weighted = q * theta[k]
                    means[s, k] += weighted.sum()
                    for k2 in range(K):
                        second[s, k, k2] += _dot(weighted, theta[k2])
                    for i in range(lo, hi):
                        ratio[i, k] += _dot_over(q, theta[k], rates[indices[i]])
    return means, second, ratio
