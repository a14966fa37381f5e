"""On-line averages of the rows of a dictionary, of which a mini-batch visits only some."""

from __future__ import annotations

import math

from gapmf.kernels.jit import kernel


@kernel()
def gather_rows(features, shares, feature_totals, scale, out):
    """out[i, k] = scale_k T_f u_fk for f = features[i]."""
    K = shares.shape[1]
    for i in range(features.size):
        f = features[i]
        for k in range(K):
            out[i, k] = scale[k] * feature_totals[f] * shares[f, k]


@kernel()
def average_rows(
    features, c, n_draws, step, log_decay, least, feature_totals, shares, weights, clocks, change
):
    """s_f ← d_f s_f + step · c_f / n_draws for the features of a mini-batch: row i of c is theirs.

    s_fk = weights_f shares_fk, and d_f is the decay since the row was last visited,
    exp(log_decay − clocks_f), with the present step's; but it does not take a weight below `least`.
    change_k += Σ_f T_f times what the share has changed by.
    """
    K = shares.shape[1]
    for i in range(features.size):
        f = features[i]
        total = 0.0
        for k in range(K):
            total += c[i, k]
        old = weights[f] * math.exp(log_decay - clocks[f])
        old = max(old, min(weights[f], least))
        new = old + step * total / n_draws
        clocks[f] = log_decay
        if not new > 0.0:
            weights[f] = 0.0
            continue
        weights[f] = new
        kept, taken = old / new, step / n_draws / new
        for k in range(K):
            share = kept * shares[f, k] + taken * c[i, k]
            change[k] += feature_totals[f] * (share - shares[f, k])
            shares[f, k] = share
