"""A prior on the directions of components: pseudo-counts in the M-step.

The objective is log p(V | W) + η Σ_fk log(F w_fk / S_k): each column's direction w_k / S_k has a
Dirichlet(1 + η) prior, up to a constant. Its part of the objective is 0 for equal weights and
negative for others. The column's norm S_k has no prior, so it can vanish; an empty column counts
as one with equal weights.

Given expected counts c_fk, the M-step of EM-C and EM-CH then has the direction in proportion to
c_fk + η, and the norm as before. (So the direction is also the mean of a posterior with the prior
Dirichlet(η).) The identity Σ_k (α_k/β_k) w_fk = v̄_f of stationary points becomes

    Σ_k (α_k/β_k) w_fk + (η/N) (F w_fk/S_k − 1) = v̄_f,

and holds after every step of EM-C as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gapmf.model import GaP
from gapmf.types import Array

if TYPE_CHECKING:  # a model is read without it
    from gapmf.engines.base import Statistics

MOST_STEPS = 100  # of Newton's method


def log_prior(model: GaP, pseudo_count: float) -> float:
    """η Σ_fk log(F w_fk / S_k): the part of the objective that the prior adds, at most 0."""
    if pseudo_count == 0.0:
        return 0.0
    used = model.column_norms > 0
    W = model.W if used.all() else model.W[:, used]
    with np.errstate(divide="ignore"):  # −inf where an entry is 0
        logs = float(np.log(W).sum())
    F = model.n_features
    return pseudo_count * (logs - F * float(np.log(model.column_norms[used] / F).sum()))


def with_pseudo_counts(W: Array, s: Statistics) -> Array:
    """w_fk = S_k (Σ c_fkn + η) / (Σ_f Σ c_fkn + F η), with the norms S_k of W, which is replaced.

    W is that of the M-step without a prior.
    """
    norms = W.sum(axis=0)
    totals = s.c_sum.sum(axis=0) + W.shape[0] * s.pseudo
    np.add(s.c_sum, s.pseudo, out=W)
    W *= norms / totals
    return W


def update_unobserved(s: Statistics) -> Array:
    """w_fk = (Σ c_fkn + η) / (Σ m_nf s_n h_kn + F η / S_k), where S_k is their sum over f.

    The maximum of Σ_f [c_fk log w_fk − w_fk Σ m_nf s_n h_kn] + η Σ_f log(w_fk/S_k), which is
    concave in log w. S_k is the root of Σ_f (c_fk + η) / (S_k Σ m_nf s_n h_kn + F η) = 1. The left
    side falls and is convex in S_k, so that Newton's steps from below never pass the root. It is
    at least Σ_f c_fk / max_f Σ m_nf s_n h_kn.
    """
    above, below = s.c_sum + s.pseudo, s.below
    F = above.shape[0]
    flat = F * s.pseudo
    totals = s.c_sum.sum(axis=0)
    used = (totals > 0) & (below > 0).all(axis=0)
    S = np.divide(totals, below.max(axis=0), out=np.zeros_like(totals), where=used)
    for _ in range(MOST_STEPS):
        under = S * below + flat
        parts = above / under
        excess = parts.sum(axis=0) - 1.0
        slope = (parts * below / under).sum(axis=0)
        step = np.divide(excess, slope, out=np.zeros_like(S), where=used & (slope > 0))
        S += np.maximum(step, 0.0)
        if (step <= 1e-15 * S).all():
            break
    # Written with S above, so that S = 0 gives 0.
    W: Array = above * S / (S * below + flat)
    return W
