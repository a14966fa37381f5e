"""Likelihoods and posterior expectations: sums over the nodes of a product rule on the simplex.

Given v, the weight of node θ_j is q_j ∝ w_j Π_f (Σ_k p_fk θ_jk)^{v_f}. The likelihood needs the
sum of these weights. Expectations take two passes. The first finds the normaliser of each sample,
and the largest weight in each chunk of nodes. The second adds up expectations over the chunks that
matter to a sample (few, at large counts). A chunk of nodes is computed once for many samples.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.jit import inner, kernel

CHUNK = 256  # nodes at a time; fixed, so that a sample's bits do not depend on its company
NEGLIGIBLE = 60.0  # terms e^-60 of the largest add nothing to 1e-16, however many there are


@inner(_nrt=True)
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


@inner(_nrt=True)
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


@inner(_nrt=True)
def add_scaled(weight, row, out):
    """out += weight · row, in a loop of its own: so it vectorises."""
    for j in range(out.size):
        out[j] += weight * row[j]


@inner(_nrt=True)
def fill_log(row, out):
    """out = log row."""
    for j in range(row.size):
        out[j] = math.log(row[j])


@inner(_nrt=True)
def fill_rates(p, theta, rates, log_rates):
    """Σ_k p_fk θ_k and its logarithm, (F, CHUNK); p (F, K) has no zero rows."""
    for f in range(p.shape[0]):
        rates[f, :] = 0.0
        for k in range(p.shape[1]):
            add_scaled(p[f, k], theta[k], rates[f])
        fill_log(rates[f], log_rates[f])


@inner(_nrt=True)
def fill_exponents(log_w, indices, counts, log_rates, out):
    """log w_j + Σ_f v_f log (Pθ_j)_f for one sample, (CHUNK,)."""
    for j in range(out.size):
        out[j] = log_w[j]
    for i in range(indices.size):
        add_scaled(float(counts[i]), log_rates[indices[i]], out)


@inner(_nrt=True)
def largest(values):
    """The maximum."""
    top = values[0]
    for j in range(1, values.size):
        top = max(top, values[j])
    return top


@kernel(_nrt=True)
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


_NEGLIGIBLE = 45.0  # weights below e^-45 are left out: 3e-20 each


@inner(_nrt=True)
def _weights(exponent, top, total, q):
    """q_j = e^(exponent_j − top) / total: they sum to one, however large the exponents."""
    for j in range(CHUNK):
        z = exponent[j] - top
        q[j] = math.exp(z) / total if z > -_NEGLIGIBLE else 0.0


@inner(fastmath={"reassoc", "contract"})
def _dot(a, b):
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@inner(fastmath={"reassoc", "contract"}, error_model="python")  # so it is not vectorised
def _dot_over(a, b, c):
    """Σ_j a_j b_j / c_j"""
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j] / c[j]
    return total


def _first_pass(indptr, indices, counts, p, nodes, complements, log_weights):
    """Give each sample's normaliser as total · e^top, both (N,), and which chunks matter to it."""
    sticks, m = nodes.shape
    tops = np.empty((-(-(m**sticks) // CHUNK), indptr.size - 1))
    top, total = expectations(indptr, indices, counts, p, nodes, complements, log_weights, tops)
    matters = tops > top - _NEGLIGIBLE
    return top, total, matters, np.flatnonzero(matters.any(axis=1))


def sums(indptr, indices, counts, weights, p, nodes, complements, log_weights, logs):
    """Give what an EM needs of a block, summed over its samples.

    Returns top and total (N,), with E[Π_f (Pθ)_f^{v_f}] = total · e^top; ratio (F, K) =
    Σ_n weights_n v_fn E[θ_k / (Pθ)_f | v_n]; and log_theta (K,) = Σ_n weights_n E[log θ_k | v_n],
    or zero when `logs` has no entries.
    """
    block, rule = (indptr, indices, counts), (nodes, complements, log_weights)
    first = _first_pass(*block, p, *rule)
    ratio, log_theta = np.zeros(p.shape), np.zeros(p.shape[1])
    _add_sums(*block, weights, p, *rule, logs, *first, ratio, log_theta)
    return *first[:2], ratio, log_theta


@kernel(_nrt=True)
def _add_sums(
    indptr, indices, counts, weights, p, nodes, complements, log_weights, logs, top, total,
    matters, chunks, ratio, log_theta,
):  # fmt: skip
    """Do the second pass of `sums`."""
    N, (F, K) = indptr.size - 1, p.shape
    theta, rates, log_rates = np.empty((K, CHUNK)), np.empty((F, CHUNK)), np.empty((F, CHUNK))
    log_w, exponent, q = np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK)
    mass = np.empty((F, CHUNK))  # Σ_n weights_n v_fn q_nj: K enters per chunk, not per sample
    wanted = logs.shape[0] > 0
    plain, log_nodes = np.empty(CHUNK), np.empty((K, CHUNK))
    for c in chunks:
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


def moments(indptr, indices, counts, p, nodes, complements, log_weights):
    """Give posterior moments sample by sample.

    Returns theta (N, K); theta2 (N, K, K), the means of θ_k θ_l; and ratio (entries, K), the
    means of θ_k / (Pθ)_f for each stored count.
    """
    block, rule = (indptr, indices, counts), (nodes, complements, log_weights)
    N, K = indptr.size - 1, p.shape[1]
    result = np.zeros((N, K)), np.zeros((N, K, K)), np.zeros((indices.size, K))
    _add_moments(*block, p, *rule, *_first_pass(*block, p, *rule), *result)
    return result


@kernel(_nrt=True)
def _add_moments(
    indptr, indices, counts, p, nodes, complements, log_weights, top, total, matters, chunks,
    means, second, ratio,
):  # fmt: skip
    """Do the second pass of `moments`."""
    N, (F, K) = indptr.size - 1, p.shape
    theta, rates, log_rates = np.empty((K, CHUNK)), np.empty((F, CHUNK)), np.empty((F, CHUNK))
    log_w, exponent, q = np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK)
    weighted = np.empty(CHUNK)
    for c in chunks:
        fill_nodes(c * CHUNK, nodes, complements, log_weights, theta, log_w)
        fill_rates(p, theta, rates, log_rates)
        for s in range(N):
            if matters[c, s]:
                lo, hi = indptr[s], indptr[s + 1]
                fill_exponents(log_w, indices[lo:hi], counts[lo:hi], log_rates, exponent)
                _weights(exponent, top[s], total[s], q)
                for k in range(K):
                    mean = 0.0
                    for j in range(CHUNK):
                        weighted[j] = q[j] * theta[k, j]
                        mean += weighted[j]
                    means[s, k] += mean
                    for k2 in range(K):
                        second[s, k, k2] += _dot(weighted, theta[k2])
                    for i in range(lo, hi):
                        ratio[i, k] += _dot_over(q, theta[k], rates[indices[i]])
