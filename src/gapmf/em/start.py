"""Starting points. All satisfy Σ_k (α_k/β_k) w_fk = v̄_f, as every maximum does."""

from __future__ import annotations

import numpy as np

from gapmf.engines.base import Statistics
from gapmf.model import GaP
from gapmf.types import Array


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


def has_one_direction(model: GaP) -> bool:
    """Whether there are several components, none empty, that are the same up to scale."""
    norms = model.column_norms
    if model.n_components == 1 or not (norms > 0).all():
        return False
    return bool(np.ptp(model.W / norms, axis=1).max() <= 1e-6)


def are_alike(s: Statistics, n_samples: int) -> bool:
    """Whether all components have the same direction, but for the noise of one sweep.

    Σ c_fk log(c_fk c.. / c_f. c_.k) is what K directions explain better than one. If allocations
    were independent of features it would be half a χ² with (F−1)(K−1) degrees of freedom, and
    less for averages over draws. It cannot exceed Σ c times the entropy of the components' shares:
    where counts are few, half of that is a difference too.
    """
    c = s.c_sum[s.c_sum.sum(axis=1) > 0] * (n_samples / s.n_draws)
    c = c[:, c.sum(axis=0) > 0]
    if min(c.shape) < 2:
        return False  # then there is only one direction to have
    n_used = max(2, int((c.sum(axis=0) >= 1.0).sum()))  # less than a count tells nothing
    degrees = (c.shape[0] - 1) * (n_used - 1)
    expected = c.sum(axis=1, keepdims=True) * c.sum(axis=0) / c.sum()
    ratio = np.divide(c, expected, out=np.ones_like(c), where=c > 0)
    share = c.sum(axis=0) / c.sum()
    most = -float(c.sum() * (share @ np.log(share)))
    return bool((c * np.log(ratio)).sum() <= min(degrees, 0.5 * most))
