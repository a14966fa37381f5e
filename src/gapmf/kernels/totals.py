"""The law of a sample's total count: a sum of negative binomials with different rates."""

from __future__ import annotations

import math

from gapmf.kernels.compiled import kernel

LARGE = 1e250


@kernel(fastmath={"reassoc", "contract"})
def dot_backwards(a, b, n):
    """Σ_{j=1…n} a[j] b[n − j]."""
    total = 0.0
    for j in range(1, n + 1):
        total += a[j] * b[n - j]
    return total


@kernel()
def log_law(alpha, q, c, p, log_p):
    """log p(n) for n = 0 … size − 1, where the total is Σ_k NB(α_k, q_k).

    The generating function Π_k ((1 − q_k)/(1 − q_k z))^α_k has the logarithmic derivative
    Σ_j c_j z^(j−1) with c_j = Σ_k α_k q_k^j, so n p(n) = Σ_j c_j p(n − j): all terms are positive.
    c and p are room to work in, of the same size.
    """
    size = log_p.size
    for j in range(size):
        c[j] = 0.0
    for k in range(alpha.size):
        power = alpha[k]
        for j in range(1, size):
            power *= q[k]
            c[j] += power
    log_scale = 0.0
    for k in range(alpha.size):
        log_scale += alpha[k] * math.log1p(-q[k])
    p[0] = 1.0
    log_p[0] = log_scale
    for n in range(1, size):
        p[n] = dot_backwards(c, p, n) / n
        log_p[n] = math.log(p[n]) + log_scale if p[n] > 0.0 else -math.inf
        if p[n] > LARGE:  # what is so much smaller than the rest no longer counts
            for j in range(n + 1):
                p[j] /= LARGE
            log_scale += math.log(LARGE)
