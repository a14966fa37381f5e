"""Counts shared out among components in proportion to p_fk e_kn: the E-steps of VBEM and MJLE.

A sample's weights e_k follow from its expected component sizes L_k, and L_k from the weights:
L_k = Σ_f v_f p_fk e_k / Σ_l p_fl e_l. A pass over the non-zero counts of a sample takes both steps.
Its rows of p are gathered once for all its passes into a tile (components × entries), so that the
loops of a pass run over contiguous arrays. What a feature receives from all samples, Σ_n E[c_fkn],
is added by feature: every sum has one order, so any number of threads gives the same bits.

Rows of p are scaled to a maximum of 1 and padded with zeros to a multiple of four components.
"""

from __future__ import annotations

import math

from gapmf.kernels.gibbs_loops import add_up, clear, step
from gapmf.kernels.jit import inner, kernel
from gapmf.kernels.random import U

SMALLEST_LOG = -600.0  # of a weight, relative to the largest: no rate underflows
DIGAMMA_FROM = 10.0  # from there on the series below is right to 1e-16
DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
PRODUCT_FROM, PRODUCT_TO = 1e-100, 1e100  # two such factors do not underflow or overflow
MOST_FACTORS = 3.0  # counts up to this are multiplied, larger ones have a logarithm of their own


@inner()
def digamma(x):
    """ψ(x) for x > 0: ψ(x) = ψ(x + 1) − 1/x, then the asymptotic series."""
    value = 0.0
    while x < DIGAMMA_FROM:
        value -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    series = 0.0
    for i in range(len(DIGAMMA_SERIES) - 1, -1, -1):
        series = y * (DIGAMMA_SERIES[i] + series)
    return value + math.log(x) - 0.5 / x - series


@inner()
def fill_weights(alpha, L, n, joint, e):
    """VBEM: e_k = exp(ψ(α_k + L_k)), relative to the largest. MJLE: e_k = α_k − 1 + L_k.

    Up to the rate of h_k these are exp E[log h_k] under q, and the mode of h_k.
    """
    top = -math.inf
    for k in range(alpha.size):
        e[k] = (alpha[k] - 1.0) + L[n, k] if joint else digamma(alpha[k] + L[n, k])
        top = max(top, e[k])
    if not joint:
        for k in range(alpha.size):
            e[k] = math.exp(max(e[k] - top, SMALLEST_LOG))


@inner()
def gather(first, n_entries, indices, rows, K4, tile):
    """tile[k, i] = p_fk of the sample's i-th feature f; both flat."""
    n = U(n_entries)
    for k in range(0, K4, 4):
        o0 = U(k) * n
        o1 = o0 + n
        o2 = o1 + n
        o3 = o2 + n
        for j in range(n):
            i = U(j)
            row = U(indices[U(first) + i]) * U(K4) + U(k)
            tile[o0 + i] = rows[row]
            tile[o1 + i] = rows[row + U(1)]
            tile[o2 + i] = rows[row + U(2)]
            tile[o3 + i] = rows[row + U(3)]


@inner()
def fill_ratios(first, n, counts, rate):
    """rate[i] ← v_i / rate[i]."""
    first = U(first)
    for j in range(U(n)):
        i = U(j)
        rate[i] = counts[first + i] / rate[i]


@inner(fastmath={"contract", "reassoc"})
def add_shares(n, tile, row, ratio, out, k):
    """out[k … k + 3] = Σ_i tile[k, i] ratio[i]: in vectors, which have one order on one machine."""
    o0 = U(row)
    o1 = o0 + U(n)
    o2 = o1 + U(n)
    o3 = o2 + U(n)
    a = b = c = d = 0.0
    for j in range(U(n)):
        i = U(j)
        a += tile[o0 + i] * ratio[i]
        b += tile[o1 + i] * ratio[i]
        c += tile[o2 + i] * ratio[i]
        d += tile[o3 + i] * ratio[i]
    out[k], out[k + 1], out[k + 2], out[k + 3] = a, b, c, d


@inner()
def weighted_log(first, n, counts, rate):
    """Σ_i v_i log rate[i]: rates with small counts are multiplied first, and have one logarithm."""
    value, product = 0.0, 1.0
    for i in range(n):
        v, x = counts[first + i], rate[i]
        if v > MOST_FACTORS or x < PRODUCT_FROM or x > PRODUCT_TO:
            value += v * math.log(x)
            continue
        while v >= 1.0:
            product *= x
            v -= 1.0
            if product < PRODUCT_FROM or product > PRODUCT_TO:
                value += math.log(product)
                product = 1.0
    return value + math.log(product)


@inner()
def take_pass(n, begin, size, counts, alpha, joint, L, work):
    """Set e from L, v_f / Σ_k p_fk e_k, and L from these; return Σ_k |change of L_k|."""
    tile, rate, e, out = work
    fill_weights(alpha, L, n, joint, e)
    clear(rate, size)
    for k in range(0, e.size, 4):
        add_up(rate, 0, size, tile, k * size, size, e[k], e[k + 1], e[k + 2], e[k + 3])
    fill_ratios(begin, size, counts, rate)
    for k in range(0, e.size, 4):
        add_shares(size, tile, k * size, rate, out, k)
    change = 0.0
    for k in range(alpha.size):
        change += abs(e[k] * out[k] - L[n, k])
        L[n, k] = e[k] * out[k]
    return change


@kernel()
def allocate(first, last, X, rows, alpha, joint, n_passes, L, weights, ratio, values, work):
    """Update L (N, K) in place, for samples first … last, by n_passes passes over their counts.

    X is indptr, indices, counts (float) and place: where an entry stands in the order of features.
    Of the last pass are kept: the weights e, flat (N × K4); ratio = v_f / Σ_k p_fk e_k, in the
    order of features; and values (N,), the sample's part of the objective. `joint` chooses MJLE.
    """
    indptr, indices, counts, place = X
    tile, rate, e = work[:3]
    K4 = e.size
    for n in range(first, last):
        begin, size = indptr[n], indptr[n + 1] - indptr[n]
        gather(begin, size, indices, rows, K4, tile)
        for _ in range(n_passes):
            take_pass(n, begin, size, counts, alpha, joint, L, work)
        for k in range(K4):
            weights[n * K4 + k] = e[k]
        for i in range(size):
            ratio[place[begin + i]] = rate[i]
        fill_ratios(begin, size, counts, rate)  # rates again
        values[n] = weighted_log(begin, size, counts, rate)
        values[n] += joint_rest(alpha, e) if joint else variational_rest(alpha, L, n, e)


@inner()
def variational_rest(alpha, L, n, e):
    """Σ_k log Γ(α_k + L_k) − log Γ(α_k) − L_k log e_k: the bound besides Σ_f v_f log Σ_k p_fk e_k.

    It is a bound for any weights e, with the best q(h) for the shares that they give.
    """
    rest = 0.0
    for k in range(alpha.size):
        size = L[n, k]
        if size > 0.0:
            rest += math.lgamma(alpha[k] + size) - math.lgamma(alpha[k]) - size * math.log(e[k])
    return rest


@inner()
def joint_rest(alpha, e):
    """Σ_k (α_k − 1) log e_k: what depends on h besides the rates and their sum."""
    rest = 0.0
    for k in range(alpha.size):
        if alpha[k] > 1.0:
            rest += (alpha[k] - 1.0) * math.log(e[k])
    return rest


@kernel()
def add_to_features(first, last, columns, ratio, times, weights, rows, out, c):
    """c_fk = p_fk Σ_n times_n e_kn v_fn / Σ_l p_fl e_ln for features first … last; c is (F, K)."""
    K4 = out.size
    for f in range(first, last):
        clear(out, K4)
        for i in range(columns.start[f], columns.start[f + 1]):
            n = columns.sample[i]
            step(out, K4, weights, n * K4, ratio[i] * times[n])
        for k in range(c.shape[1]):
            c[f, k] = rows[f * K4 + k] * out[k]


@kernel()
def settle(first, last, X, rows, alpha, tol, most, L, values, work):
    """Pass over the counts of samples first … last until L (N, K) changes little.

    It ends when Σ_k |change of L_k| is at most `tol` tokens per token, or after `most` passes.
    X is indptr, indices and counts (float). values (N,) gets the sample's part of the bound.
    """
    indptr, indices, counts = X
    tile, rate, e = work[:3]
    for n in range(first, last):
        begin, size = indptr[n], indptr[n + 1] - indptr[n]
        gather(begin, size, indices, rows, e.size, tile)
        allowed = 0.0
        for i in range(size):
            allowed += tol * counts[begin + i]
        for _ in range(most):
            if take_pass(n, begin, size, counts, alpha, False, L, work) <= allowed:
                break
        fill_ratios(begin, size, counts, rate)  # rates again
        values[n] = weighted_log(begin, size, counts, rate) + variational_rest(alpha, L, n, e)
