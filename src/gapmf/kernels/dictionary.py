"""Passes over F × K arrays before and after the sweeps, each in one go."""

from __future__ import annotations

import math

from gapmf.kernels.compiled import kernel


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


@kernel()
def settle_rows(c, W, expected, least_share):
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
