"""The paper's sum over admissible components, term by term."""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.jit import inner, kernel


@inner()
def _next_composition(c):
    """Turn c into the next way to write its sum with K parts; False after the last."""
    K = c.size
    k = 0
    while c[k] == 0:
        k += 1
        if k == K:
            return False
    if k == K - 1:
        return False
    rest = c[k]
    c[k] = 0
    c[0] = rest - 1
    c[k + 1] += 1
    return True


@inner()
def _term(c, log_p, log_factorial):
    """log Π_k p_k^{c_k} / c_k!"""
    value = 0.0
    for k in range(c.size):
        if c[k] > 0:
            value += c[k] * log_p[k] - log_factorial[c[k]]
    return value


@kernel(_nrt=True)
def log_sum_over_components(counts, log_p, alpha):
    """log Σ_C Ω_α(C) Π_fk p_fk^{c_fk} over the admissible C of one sample: Eqs. 25, 28, 29 and 31.

    counts (J,) are the sample's non-zero counts, log_p (J, K) their rows of log p_fk, where
    −inf stands for p_fk = 0. An odometer over one composition of v_f a feature; the sum is
    scaled by its largest term so far.
    """
    J, K = log_p.shape
    total = 0
    largest_count = 0
    for j in range(J):
        total += counts[j]
        largest_count = max(largest_count, counts[j])
    log_rising = np.zeros((K, total + 1))
    for k in range(K):
        for i in range(total):
            log_rising[k, i + 1] = log_rising[k, i] + math.log(alpha[k] + i)
    log_factorial = np.zeros(largest_count + 1)
    for i in range(1, largest_count + 1):
        log_factorial[i] = log_factorial[i - 1] + math.log(i)

    c = np.zeros((J, K), dtype=np.int64)
    L = np.zeros((J + 1, K), dtype=np.int64)  # L[j]: sizes from the features before j
    value = np.zeros(J + 1)
    largest, scaled_sum = -math.inf, 0.0
    j = 0
    entering = True
    while j >= 0:
        if j == J:
            log_term = value[J]
            for k in range(K):
                log_term += log_rising[k, L[J, k]]
            if log_term > largest:
                scaled_sum = scaled_sum * math.exp(largest - log_term) + 1.0
                largest = log_term
            elif log_term > -math.inf:
                scaled_sum += math.exp(log_term - largest)
            j -= 1
            entering = False
            continue
        if entering:
            c[j, :] = 0
            c[j, 0] = counts[j]
        elif not _next_composition(c[j]):
            j -= 1
            continue
        value[j + 1] = value[j] + _term(c[j], log_p[j], log_factorial)
        for k in range(K):
            L[j + 1, k] = L[j, k] + c[j, k]
        j += 1
        entering = True
    if largest == -math.inf:
        return -math.inf
    return largest + math.log(scaled_sum)
