"""The coefficients of Π_f (Σ_k p_fk z_k)^{v_f}, grown a token at a time.

b(L) is the coefficient of z^L times Π_k Γ(α_k+L_k)/Γ(α_k), so a token of feature f adds

    b'(L + e_k) += p_fk (α_k + L_k) b(L)

to an array over all L with Σ_k L_k = i. All terms are positive and the weights are absorbed
while growing, so b, scaled to sum to one, is the exact law of L given the tokens so far.

No α_k + L_k is computed as a difference: for α_k below 1e-8 that would lose its digits. A component
with a tiny α_k has its first token weighted by 1 instead of α_k, and Π_k α_k over the components
present is multiplied in at the end: α_k³ may be below the smallest double while what it belongs to
decides the sum, namely when later tokens force these components to be present.

The array is indexed by (L_1 … L_{K−1}); the last of these runs along a contiguous "row", and
the tuples (L_1 … L_{K−2}) before it number the rows in lexicographic order. Going through the
rows backwards updates them in place: a row needs itself and rows before it only.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.jit import inner, kernel

_NEGLIGIBLE = 1e-280  # below this, denormal numbers would cost time and add nothing
_TINY_ALPHA = 1e-20  # below this, the weight of a component's first token is multiplied in last


def interleave(indptr, counts):
    """The order in which tokens are added: every feature's spread evenly over its row (CSR).

    In the order of features, the law of L after half the tokens may be far from the final
    one, and what is then negligible (or underflows) may be what matters in the end.

    Returns the entry of each token, and where the tokens of each row begin. It is not compiled:
    Numba would compile a sort for two seconds.
    """
    entry = np.repeat(np.arange(counts.size), counts)
    begin = np.concatenate([[0], np.cumsum(counts)])
    row = np.repeat(np.arange(indptr.size - 1), np.diff(begin[indptr]))
    key = (np.arange(entry.size) - begin[entry] + 0.5) / counts[entry]
    return entry[np.lexsort((key, row))], begin[indptr]


@inner(_nrt=True)
def _binomials(n, D):
    """choose[i, d] = C(i+d, d) for i ≤ n, d ≤ D."""
    choose = np.ones((n + 1, D + 1), dtype=np.int64)
    for d in range(1, D + 1):
        for i in range(1, n + 1):
            choose[i, d] = choose[i - 1, d] + choose[i, d - 1]
    return choose


@inner()
def _rank(L, n, choose):
    """The number of tuples with sum ≤ n that come before L in lexicographic order."""
    D = L.size
    rank = 0
    for d in range(D):
        rest = D - d
        rank += choose[n, rest]
        n -= L[d]
        rank -= choose[n, rest]
    return rank


@kernel(_nrt=True)
def rows_of_simplex(n, K):
    """The rows of the array for up to n tokens: their tuples, sums, places and neighbours.

    Returns tuples (R, D), sums (R,), start (R+1,) and before (R, D), with D = K − 2 and
    before[r, d] the row of tuples[r] − e_d, or −1.
    """
    D = K - 2
    choose = _binomials(n, max(D, 1))
    R = choose[n, D]
    tuples = np.zeros((R, D), dtype=np.int64)
    sums = np.zeros(R, dtype=np.int64)
    start = np.zeros(R + 1, dtype=np.int64)
    before = np.full((R, D), -1, dtype=np.int64)
    L = np.zeros(D, dtype=np.int64)
    for r in range(R):
        total = L.sum()
        tuples[r] = L
        sums[r] = total
        start[r + 1] = start[r] + n - total + 1
        for d in range(D):
            if L[d] > 0:
                L[d] -= 1
                before[r, d] = _rank(L, n, choose)
                L[d] += 1
        d = D - 1
        if total == n:  # carry: clear the last non-zero entry and count up the one before it
            while d >= 0 and L[d] == 0:
                d -= 1
            if d >= 0:
                L[d] = 0
            d -= 1
        if d >= 0:
            L[d] += 1
    return tuples, sums, start, before


@inner()
def _grow_row(row, last, scale_last, inner, scale_inner, out):
    """out[i] = s_K (α_K + t−i) row[i] + s_{K−1} (α_{K−1} + i−1) row[i−1], t = row.size − 2.

    Whole numbers are subtracted first: α_K + t, with t then taken away, would not be α_K.
    """
    t = row.size - 2
    out[0] = scale_last * (last + t) * row[0]
    for i in range(1, row.size):
        out[i] = (
            scale_last * (last + (t - i)) * row[i] + scale_inner * (inner + (i - 1)) * row[i - 1]
        )


@inner()
def _add_row(weight, row, out):
    for i in range(row.size):
        out[i] += weight * row[i]


@inner()
def _store_row(out, row):
    total = 0.0
    for i in range(row.size):
        value = out[i]
        value = value if value > _NEGLIGIBLE else 0.0
        row[i] = value
        total += value
    return total


@inner()
def _multiply_present(b, n, alpha, tuples, sums, start):
    """Multiply b(L) by the tiny α_k with L_k > 0; return the sum, and the log of its scale.

    The scale is that of the largest product with b(L) > 0, so that the sum does not underflow.
    """
    D = alpha.size - 2
    scale = -math.inf
    total = 0.0
    for writing in (False, True):
        for r in range(sums.size):
            rest = n - sums[r]
            if rest < 0:
                continue
            log_row = 0.0
            for d in range(D):
                if tuples[r, d] > 0 and alpha[d] < _TINY_ALPHA:
                    log_row += math.log(alpha[d])
            for i in range(rest + 1):
                log_weight = log_row
                if i > 0 and alpha[D] < _TINY_ALPHA:
                    log_weight += math.log(alpha[D])
                if i < rest and alpha[D + 1] < _TINY_ALPHA:
                    log_weight += math.log(alpha[D + 1])
                if writing:
                    b[start[r] + i] *= math.exp(log_weight - scale)
                    total += b[start[r] + i]
                elif b[start[r] + i] > 0.0:
                    scale = max(scale, log_weight)
    return total, scale


@kernel(_nrt=True)
def grow(b, feature, p, alpha, n, tuples, sums, start, before):
    """Fill b with the law of L given the tokens `feature`; return log Σ_L b(L), unscaled.

    p (J, K) holds the rows of p_fk, K ≥ 2; b must be zero where the rows lie; the rows are
    those of `rows_of_simplex(n, K)` with n ≥ the number of tokens.
    """
    K = alpha.size
    D = K - 2
    out = np.empty(n + 2)
    b[start[0]] = 1.0
    log_total, total = 0.0, 1.0
    for i in range(feature.size):
        pf = p[feature[i]]
        new_total = 0.0
        for r in range(sums.size - 1, -1, -1):
            length = i + 1 - sums[r] + 1
            if length <= 0:
                continue
            row = b[start[r] : start[r] + length]
            last, inner = pf[K - 1] / total, pf[K - 2] / total
            _grow_row(row, alpha[K - 1], last, alpha[K - 2], inner, out)
            if length > 1:  # the first tokens of K and K − 1
                if alpha[K - 1] < _TINY_ALPHA:
                    out[length - 2] += last * row[length - 2]
                if alpha[K - 2] < _TINY_ALPHA:
                    out[1] += inner * row[0]
            for d in range(D):
                if before[r, d] >= 0:
                    weight = alpha[d] + (tuples[r, d] - 1)
                    if weight < _TINY_ALPHA:
                        weight = 1.0
                    at = start[before[r, d]]
                    _add_row(pf[d] * weight / total, b[at : at + length], out)
            new_total += _store_row(out, row)
        if new_total == 0.0:
            return -math.inf
        total = new_total
        log_total += math.log(total)
    if alpha.min() < _TINY_ALPHA:
        present, log_scale = _multiply_present(b, feature.size, alpha, tuples, sums, start)
        log_total += math.log(present / total) + log_scale
    return log_total


def log_totals(indptr, indices, counts, p, alpha):
    """log Σ_L b(L) for each row of a block of samples (CSR), in one array reused by all."""
    entry, first = interleave(indptr, counts)
    return _log_totals(first, indices[entry], p, alpha)


@kernel(_nrt=True)
def _log_totals(first, feature, p, alpha):
    N = first.size - 1
    n = np.int64(0)  # not a literal, for which callees would be compiled once more
    for s in range(N):
        n = max(n, first[s + 1] - first[s])
    tuples, sums, start, before = rows_of_simplex(n, alpha.size)
    b = np.zeros(start[-1])
    result = np.empty(N)
    for s in range(N):
        b[:] = 0.0
        tokens = feature[first[s] : first[s + 1]]
        result[s] = grow(b, tokens, p, alpha, n, tuples, sums, start, before)
    return result


@inner()
def _add_margins(b, n, weight, tuples, sums, start, sizes):
    """Add the laws of each L_k, from the law b of L given n tokens, times a weight."""
    D = tuples.shape[1]
    total = 0.0
    for r in range(sums.size):
        if sums[r] <= n:
            total += b[start[r] : start[r] + n - sums[r] + 1].sum()
    for r in range(sums.size):
        rest = n - sums[r]
        if rest < 0:
            continue
        whole = 0.0
        for i in range(rest + 1):
            mass = b[start[r] + i] * (weight / total)
            whole += mass
            sizes[D, i] += mass
            sizes[D + 1, rest - i] += mass
        for d in range(D):
            sizes[d, tuples[r, d]] += whole


def add_sizes(indptr, indices, counts, weights, p, alpha, sizes):
    """Add to sizes (K, largest |v| + 1) the law of each L_k given each row of a block (CSR).

    The arguments are as in `log_totals`; weights (N,) say how often each row counts.
    """
    entry, first = interleave(indptr, counts)
    _add_sizes(first, indices[entry], weights, p, alpha, sizes)


@kernel(_nrt=True)
def _add_sizes(first, feature, weights, p, alpha, sizes):
    n = sizes.shape[1] - 1
    tuples, sums, start, before = rows_of_simplex(n, alpha.size)
    b = np.zeros(start[-1])
    for s in range(first.size - 1):
        b[:] = 0.0
        tokens = feature[first[s] : first[s + 1]]
        grow(b, tokens, p, alpha, n, tuples, sums, start, before)
        _add_margins(b, tokens.size, weights[s], tuples, sums, start, sizes)
