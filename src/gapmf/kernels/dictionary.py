"""Passes over all entries of a dictionary (F × K): scaling, balanced rows, momentum."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gapmf.kernels.gibbs_layout import AT_ONCE, Weights
from gapmf.kernels.jit import kernel


@kernel()
def scale_rows(W, rate, out):
    """out[f, k] = p_fk / max_k p_fk with p_fk = w_fk / rate_k; rows of zeros stay so."""
    for f in range(W.shape[0]):
        top = 0.0
        for k in range(W.shape[1]):
            top = max(top, W[f, k] / rate[k])
        if top > 0.0:
            for k in range(W.shape[1]):
                out[f, k] = W[f, k] / rate[k] / top


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
    scale_rows(W, rate, rows)
    log_first = np.log(alpha) + np.log(rate) - np.log(beta)
    return Weights(rows.ravel(), alpha, np.exp(log_first - log_first.max()))


@kernel()
def balance_rows(c, W, expected, least_share):
    """Entries where w_fk > 0 stay above a share of their row, which sums to `expected` exactly.

    What a row is off by goes to its largest entry.
    """
    for f in range(W.shape[0]):
        least = math.ceil(expected[f] * least_share)
        total, largest = 0.0, 0
        for k in range(W.shape[1]):
            if W[f, k] > 0.0 and c[f, k] < least:
                c[f, k] = least
            total += c[f, k]
            if c[f, k] > c[f, largest]:
                largest = k
        c[f, largest] += expected[f] - total


LARGEST_PUSH = math.e  # momentum alone changes no entry by more than this factor
LARGEST_FACTOR = 1e100  # finite, whatever small number a step began at


@kernel()
def roll_rows(means, before, factors, kept, floor, mean_counts):
    """Move `means`, which EM proposes after `before`, on by what the last step did.

    `factors` are what the last step multiplied entries by, and become what this one did; their
    power `kept` is taken again. No positive entry stays below the share `floor` of its row; where
    mean_counts (F,), or an empty array, has an entry the row is scaled to it.
    """
    F, K = means.shape
    for f in range(F):
        for k in range(K):
            if kept == 0.75:  # where most fits spend their time: without a pow
                factor = math.sqrt(factors[f, k]) * math.sqrt(math.sqrt(factors[f, k]))
            else:
                factor = factors[f, k] ** kept
            factor = factor if factor > 1.0 / LARGEST_PUSH else 1.0 / LARGEST_PUSH
            means[f, k] *= factor if factor < LARGEST_PUSH else LARGEST_PUSH
        total = 0.0
        for k in range(K):
            total += means[f, k]
        least = floor * total
        total = 0.0
        for k in range(K):
            low = (means[f, k] > 0.0) & (means[f, k] < least)
            means[f, k] = least if low else means[f, k]
            factors[f, k] = 0.0 if low else 1.0
            total += means[f, k]
        scale = mean_counts[f] / total if mean_counts.size > 0 and total > 0.0 else 1.0
        for k in range(K):
            means[f, k] *= scale
            # Lifted entries do not move, and what is zero stays there.
            moves = (factors[f, k] > 0.0) & (means[f, k] > 0.0) & (before[f, k] > 0.0)
            ratio = means[f, k] / (before[f, k] if moves else 1.0)
            ratio = ratio if ratio < LARGEST_FACTOR else LARGEST_FACTOR
            factors[f, k] = ratio if moves else 1.0
