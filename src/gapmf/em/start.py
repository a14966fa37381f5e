"""Starting points. All satisfy Σ_k (α_k/β_k) w_fk = v̄_f, as every maximum does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapmf.model import GaP

Array = NDArray[np.float64]


def from_shares(shares: Array, mean_counts: Array, alpha: Array, beta: Array) -> Array:
    """w_fk = (β_k/α_k) v̄_f u_fk / Σ_l u_fl, for any u (F, K) ≥ 0: the rows sum as in Eq. 49."""
    total = shares.sum(axis=1, keepdims=True)
    return np.asarray(beta / alpha * mean_counts[:, None] * shares / total)


def shares_of(model: GaP, mean_counts: Array) -> Array:
    """u_fk = (α_k/β_k) w_fk / v̄_f, (F, K); zero for features without counts."""
    expected = model.W * (model.alpha / model.beta)
    seen = mean_counts[:, None] > 0
    return np.divide(expected, mean_counts[:, None], out=np.zeros_like(expected), where=seen)


def mean_start(mean_counts: Array, alpha: Array, beta: Array) -> Array:
    """w_fk = (1/K) (β_k/α_k) v̄_f: the paper's starting point, Eq. 51.

    With equal α_k and equal β_k it is a fixed point of EM with exact moments, and a saddle.
    """
    return from_shares(np.ones((mean_counts.size, alpha.size)), mean_counts, alpha, beta)


def perturbed_mean_start(
    mean_counts: Array, alpha: Array, beta: Array, rng: np.random.Generator
) -> Array:
    """The paper's starting point with its rows shared out unequally, by about a quarter."""
    u = rng.gamma(16.0, 1.0, (mean_counts.size, alpha.size))
    return from_shares(u, mean_counts, alpha, beta)


def random_start(mean_counts: Array, alpha: Array, beta: Array, rng: np.random.Generator) -> Array:
    """Each feature's mean count shared out uniformly at random among the components."""
    u = rng.standard_exponential((mean_counts.size, alpha.size))
    return from_shares(u, mean_counts, alpha, beta)
