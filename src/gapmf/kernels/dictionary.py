"""Passes over all entries of a dictionary (F × K): scaling, balanced rows, momentum."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gapmf.kernels.gibbs_layout import AT_ONCE, Weights
from gapmf.kernels.jit import inner, kernel


@inner(fastmath={"reassoc"})
def sum_row(a, f, n):
    """Σ_k a[f, k] over k < n, in an order that the compiler chooses: the same in every call."""
    total = 0.0
    for k in range(n):
        total += a[f, k]
    return total


@kernel()
def scale_rows(W, inverse_rate, out):
    """out[f, k] = p_fk / max_k p_fk with p_fk = w_fk / rate_k; rows of zeros stay so."""
    K = W.shape[1]
    for f in range(W.shape[0]):
        top = 0.0
        for k in range(K):
            p = W[f, k] * inverse_rate[k]
            top = p if p > top else top
        top = top if top > 0.0 else 1.0
        for k in range(K):
            out[f, k] = W[f, k] * inverse_rate[k] / top


def make_weights(
    W: NDArray[np.float64],
    norms: NDArray[np.float64],
    alpha: NDArray[np.float64],
    beta: NDArray[np.float64],
) -> Weights:
    """Return a model in the sampler's form: rows scaled to a maximum of 1, padded, in float32."""
    F, K = W.shape
    rate = norms + beta
    rows = np.zeros((F, -(-K // AT_ONCE) * AT_ONCE), dtype=np.float32)
    scale_rows(W, 1.0 / rate, rows)
    log_first = np.log(alpha) + np.log(rate) - np.log(beta)
    return Weights(rows.ravel(), alpha, np.exp(log_first - log_first.max()))


@kernel()
def balance_rows(first, last, sums, W, expected, least_share, scale, out):
    """Turn sums in units of 1/scale_f into out[f, k]; each row sums to `expected` units exactly.

    Entries where w_fk > 0 stay above a share of their row. What a row is off by goes to its
    largest entry.
    """
    K = W.shape[1]
    for f in range(first, last):
        least = math.ceil(expected[f] * least_share)
        unit = 1.0 / scale[f]
        for k in range(K):
            low = (W[f, k] > 0.0) & (sums[f, k] < least)
            out[f, k] = least if low else sums[f, k]
        total, largest = sum_row(out, f, K), 0
        for k in range(K):
            if out[f, k] > out[f, largest]:
                largest = k
        out[f, largest] += expected[f] - total
        for k in range(K):
            out[f, k] *= unit


f4 = np.float32

LARGEST_PUSH = f4(math.e)  # momentum alone changes no entry by more than this factor
SMALLEST_PUSH = f4(1 / math.e)
LARGEST_FACTOR = 1e30  # finite in single precision, whatever small number a step began at


@kernel()
def roll_rows(
    first, last, em, em_scale, before, before_scale, factors, kept, floor, mean_counts, scale, out
):
    """Move the means em_fk em_scale_k, which EM proposes, on by what the last step did.

    The step comes from the means before_fk before_scale_k. `factors` are what the last step
    multiplied entries by, and become what this one did; their power `kept` is taken again. No
    positive entry stays below the share `floor` of its row; where mean_counts (F,), or an empty
    array, has an entry the row is scaled to it. Means times scale_k go to `out`.
    """
    K = em.shape[1]
    for f in range(first, last):
        if kept == 0.875:  # where fits spend their time: without a pow
            for k in range(K):
                half = np.sqrt(factors[f, k])
                quarter = np.sqrt(half)
                factors[f, k] = half * quarter * np.sqrt(quarter)
        else:
            for k in range(K):
                factors[f, k] = factors[f, k] ** f4(kept)
        for k in range(K):
            push = factors[f, k]
            push = push if push > SMALLEST_PUSH else SMALLEST_PUSH
            push = push if push < LARGEST_PUSH else LARGEST_PUSH
            out[f, k] = em[f, k] * em_scale[k] * push
        least = floor * sum_row(out, f, K)
        for k in range(K):
            low = (out[f, k] > 0.0) & (out[f, k] < least)
            out[f, k] = least if low else out[f, k]
            factors[f, k] = f4(0) if low else f4(1)
        total = sum_row(out, f, K)
        row_scale = mean_counts[f] / total if mean_counts.size > 0 and total > 0.0 else 1.0
        for k in range(K):
            mean = out[f, k] * row_scale
            was = before[f, k] * before_scale[k]
            # Lifted entries do not move, and what is zero stays there.
            moves = (factors[f, k] > f4(0)) & (mean > 0.0) & (was > 0.0)
            ratio = mean / (was if moves else 1.0)
            ratio = ratio if ratio < LARGEST_FACTOR else LARGEST_FACTOR
            factors[f, k] = f4(ratio) if moves else f4(1)
            out[f, k] = mean * scale[k]
