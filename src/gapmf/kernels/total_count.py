"""The law of a sample's total count: a sum of negative binomials with different rates."""

from __future__ import annotations

import math

from gapmf.kernels.jit import inner, kernel

LARGE = 1e200


@inner(fastmath={"reassoc", "contract"})
def dot_backwards(a, b, n):
    """Σ_{j=1…n} a[j] b[n − j]."""
    total = 0.0
    for j in range(1, n + 1):
        total += a[j] * b[n - j]
    return total


@kernel()
def log_law(alpha, log_q, log_rest, c, p, log_p):
    """log p(n) for n = 0 … size − 1, where the total is Σ_k NB(α_k, q_k) and 1 − q_k = e^log_rest.

    The generating function Π_k ((1 − q_k)/(1 − q_k z))^α_k has the logarithmic derivative
    Σ_j c_j z^(j−1) with c_j = Σ_k α_k q_k^j, so n p(n) = Σ_j c_j p(n − j): all terms are positive.
    With r_k = q_k / max q in the place of q_k, p(n) has lost a factor (max q)^n, and nothing
    underflows: c_j is at least the largest component's α. c and p are scratch arrays.
    """
    top = -math.inf
    for k in range(alpha.size):
        top = max(top, log_q[k])
    size = log_p.size
    for j in range(size):
        c[j] = 0.0
    for k in range(alpha.size):
        power = alpha[k]
        ratio = math.exp(log_q[k] - top) if log_q[k] > -math.inf else 0.0
        for j in range(1, size):
            power *= ratio
            c[j] += power
    log_scale = 0.0
    for k in range(alpha.size):
        log_scale += alpha[k] * log_rest[k]
    p[0] = 1.0
    log_p[0] = log_scale
    for n in range(1, size):
        p[n] = dot_backwards(c, p, n) / n
        log_p[n] = math.log(p[n]) + n * top + log_scale if p[n] > 0.0 else -math.inf
        if not 1.0 / LARGE < p[n] < LARGE and p[n] > 0.0:
            scale = p[n]  # what is so much smaller than the rest no longer counts
            for j in range(n + 1):
                p[j] /= scale
            log_scale += math.log(scale)
