"""Gauss-Jacobi rules for the Beta distribution, to the last few digits of float64.

The polynomials orthogonal under Beta(a, b), scaled to q_n(0) = 1, satisfy

    q_{n+1} − q_n = A_n (q_n − q_{n−1}) − B_n u q_n,        A_n ≥ 0, B_n > 0.

Carrying the *differences* keeps a node near 0 exact to a relative 1e-15: the usual recurrence
forms u − 1/2, which loses a small u, and small nodes carry most of the weight when a is small.
Nodes beyond the middle are found from the other end, with a and b exchanged.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.jit import inner, kernel

_HUGE, _TINY = 1e100, 1e-100
_LOG_HUGE = math.log(_HUGE)


@kernel(_nrt=True)
def recurrence(a, b, m):
    """A_n and B_n of the module's recurrence, and the ratios of norms h_n / h_{n−1}."""
    s = a + b
    A, B, ratio = np.zeros(m), np.empty(m), np.ones(m)
    B[0] = s / a
    for n in range(1, m):
        # (n−1) + b, not n + (b−1): the sum must not lose a small a or b.
        A[n] = (
            n * ((n - 1) + b) * (2 * n + s)
            / (((n - 1) + s) * (n + a) * ((2 * n - 2) + s))
        )  # fmt: skip
        B[n] = ((2 * n - 1) + s) * (2 * n + s) / (((n - 1) + s) * (n + a))
        ratio[n] = A[n] * B[n - 1] / B[n]
    return A, B, ratio


@inner()
def _polish(u, A, B):
    """The root of q_m next to u, by Newton; it stops when the steps no longer shrink."""
    previous = math.inf
    for _ in range(100):
        q, dq, d, e = 1.0, 0.0, 0.0, 0.0  # q_n, its derivative, and their differences
        for n in range(A.size):
            e = A[n] * e - B[n] * (q + u * dq)
            d = A[n] * d - B[n] * u * q
            q += d
            dq += e
            size = abs(q) + abs(dq) * u
            if size > _HUGE or size < _TINY:  # only the ratio q/dq is wanted
                size = 1.0 / size
                q, dq, d, e = q * size, dq * size, d * size, e * size
        step = q / dq
        u -= step
        step = abs(step)
        if step <= 1e-16 * u or (step >= previous and previous < 1e-10 * u):
            break
        previous = step
    return u


@inner()
def _next(p, d, a, b_u, ratio):
    """q_{n+1} and its difference, over √h_{n+1}, from those of n."""
    d = a * d - b_u * p
    p += d
    norm = 1.0 / math.sqrt(ratio)
    return p * norm, d * norm


@inner()
def _log_weight(u, A, B, ratio):
    """log of Christoffel's 1 / Σ_{n<m} q_n(u)² / h_n, a sum of positive terms."""
    p, d = 1.0, 0.0  # q_n and its difference, over √h_n
    total, log_scale = 1.0, 0.0
    for n in range(A.size - 1):
        p, d = _next(p, d, A[n], B[n] * u, ratio[n + 1])
        total += p * p
        if abs(p) > _HUGE:
            p, d = p * _TINY, d * _TINY
            total = total * _TINY * _TINY
            log_scale += 2.0 * _LOG_HUGE
    return -(math.log(total) + log_scale)


@kernel(_nrt=True)
def refine(guess, a, b):
    """Nodes u, complements 1 − u and log-weights of the rule, from eigenvalues as guesses."""
    m = guess.size
    A, B, ratio = recurrence(a, b, m)
    A_other, B_other, ratio_other = recurrence(b, a, m)
    nodes, complements, log_weights = np.empty(m), np.empty(m), np.empty(m)
    for i in range(m):
        if guess[i] < 0.5:
            # An eigenvalue is good to 1e-16 at best, so no guess for a tinier node; Newton
            # from 0 reaches the first root from the left.
            start = 0.0 if i == 0 and guess[i] < 1e-9 else guess[i]
            u = _polish(start, A, B)
            nodes[i], complements[i] = u, 1.0 - u
            log_weights[i] = _log_weight(u, A, B, ratio)
        else:
            start = 0.0 if i == m - 1 and guess[i] > 1.0 - 1e-9 else 1.0 - guess[i]
            u = _polish(start, A_other, B_other)
            nodes[i], complements[i] = 1.0 - u, u
            log_weights[i] = _log_weight(u, A_other, B_other, ratio_other)
    return nodes, complements, log_weights


@inner(_nrt=True)
def _log_coefficients(a, b, ratio):
    """E[p_n log u] and E[p_n log(1 − u)] under Beta(a, b), for orthonormal p_n with p_n(0) > 0.

    By the Saalschütz sum E[q_n log u] = −(n−1)! (b)_n / ((a)_n (a+b)_n) and E[q_n log(1 − u)] =
    (−1)^{n+1} (n−1)! / (a+b)_n for n ≥ 1. Entry 0 is left at zero: the means are added apart.
    """
    m = ratio.size
    near, far = np.zeros(m), np.zeros(m)
    x, y = -b / (a * (a + b)), 1.0 / (a + b)
    for n in range(1, m):
        if n > 1:
            x *= (n - 1) * (b + (n - 1)) / ((a + (n - 1)) * (a + b + (n - 1)))
            y *= -(n - 1) / (a + b + (n - 1))
        norm = math.sqrt(ratio[n])
        x /= norm
        y /= norm
        near[n], far[n] = x, y
    return near, far


@inner()
def _expand(u, A, B, ratio, near, far):
    """Σ_n near_n p_n(u) and Σ_n far_n p_n(u), both over n < m."""
    p, d = 1.0, 0.0
    x, y = 0.0, 0.0
    for n in range(A.size - 1):
        p, d = _next(p, d, A[n], B[n] * u, ratio[n + 1])
        x += near[n + 1] * p
        y += far[n + 1] * p
    return x, y


@kernel(_nrt=True)
def projected_logs(nodes, complements, a, b):
    """log u and log(1 − u) less their means, as polynomials of degree m − 1, at the m nodes.

    These are the projections in the norm of Beta(a, b). What is projected away is orthogonal to
    every polynomial of smaller degree than m, and the Gauss rule is exact up to degree 2m − 1.
    So in a product with a polynomial f of degree < m they stand for the logarithms exactly:
    E[f(u) log u] has no error from the singularity, however much weight lies next to it.
    """
    m = nodes.size
    A, B, ratio = recurrence(a, b, m)
    A_other, B_other, ratio_other = recurrence(b, a, m)
    near, far = _log_coefficients(a, b, ratio)
    near_other, far_other = _log_coefficients(b, a, ratio_other)
    log_u, log_y = np.empty(m), np.empty(m)
    for i in range(m):
        if nodes[i] < 0.5:
            log_u[i], log_y[i] = _expand(nodes[i], A, B, ratio, near, far)
        else:
            log_y[i], log_u[i] = _expand(
                complements[i], A_other, B_other, ratio_other, near_other, far_other
            )
    return log_u, log_y
