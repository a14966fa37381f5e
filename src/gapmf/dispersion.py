"""The maximum-likelihood α of component sizes: the dispersion of a negative binomial.

Given C, the sizes L_kn of component k are negative binomial with shape α_k, and MCEM-C's M-step
puts their mean at its average. What is left is one equation in α_k alone,

    mean[ψ(α + L) − ψ(α)] = log(1 + L̄/α),

in which ψ(α + L) − ψ(α) = Σ_{m<L} 1/(α + m): only how many sizes exceed m matters, and a
histogram tells. The left side is larger for α → 0; for α → ∞ it is smaller if and only if the
sizes vary more than Poisson counts do. Otherwise there is no finite maximum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Array = NDArray[np.float64]

SMALLEST, LARGEST = 1e-4, 1e4


def _slope(log_alpha: float, beyond: Array, means: Array) -> float:
    """The derivative of the mean log-likelihood by α, summed over components."""
    alpha = np.exp(log_alpha)
    terms = beyond.sum(axis=0) / (alpha + np.arange(beyond.shape[1]))
    return float(terms.sum() - np.log1p(means / alpha).sum())


def _value(alpha: float, beyond: Array, means: Array) -> float:
    """The mean log-likelihood, summed over components, up to what does not depend on α."""
    terms = beyond.sum(axis=0) * np.log(alpha + np.arange(beyond.shape[1]))
    rest = alpha * np.log1p(means / alpha) + means * np.log(alpha + means)
    return float(terms.sum() - rest.sum())


def _best(beyond: Array, means: Array) -> float:
    """The best α in [SMALLEST, LARGEST].

    One component has one maximum. Of several with one α between them some may vary like Poisson
    counts and others much more, and then there may be two: the slope's sign is looked at on a
    grid, and the candidates are compared.
    """
    n_steps = 1 if means.size == 1 else 40
    grid = np.linspace(np.log(SMALLEST), np.log(LARGEST), n_steps + 1)
    slopes = [_slope(x, beyond, means) for x in grid]
    candidates = [SMALLEST] if slopes[0] <= 0.0 else []
    for i in range(n_steps):
        if slopes[i] > 0.0 > slopes[i + 1]:
            top = brentq(_slope, grid[i], grid[i + 1], args=(beyond, means), xtol=1e-12)
            candidates.append(float(np.exp(top)))
    if slopes[-1] >= 0.0:
        candidates.append(LARGEST)
    return max(candidates, key=lambda alpha: _value(alpha, beyond, means))


def fit_alpha(sizes: NDArray[np.int64] | Array, alpha: Array, *, shared: bool) -> Array:
    """α of each component, (K,), or one for all, from how often its size was 0, 1, 2, …

    Parameters
    ----------
    sizes : array, (K, M + 1)
        Counts, or expected counts, of the sizes 0 … M.
    alpha : array, (K,)
        Kept where nothing can be learned: for components that never had any counts.
    shared : bool
        One α for all components.
    """
    n = sizes.sum(axis=1)
    # From the top down: a rare size must not drown in the rounding of the common ones.
    beyond = np.cumsum(sizes[:, :0:-1], axis=1)[:, ::-1] / n[:, None]
    means = beyond.sum(axis=1)
    used = means > 0
    new = alpha.copy()
    if shared:
        if used.any():
            new[:] = _best(beyond[used], means[used])
        return new
    for k in np.flatnonzero(used):
        new[k] = _best(beyond[k : k + 1], means[k : k + 1])
    return new


def lift_alpha(rising: Array, means: Array, alpha: Array, *, shared: bool) -> Array:
    """A better α of each component, (K,), or of all, from less than the law of their sizes.

    rising is mean[ψ(α + L) − ψ(α)] at the present α and means is L̄, both (K,). By Jensen,
    log(α' + m) ≥ α/(α + m) log α' + a constant; so Σ_{m<L} log(α' + m), which is what the
    likelihood has of α' besides the mean, is at least α (ψ(α + L) − ψ(α)) log α' + a constant,
    with equality at α' = α. That bound has one maximum, α' log(1 + L̄/α') = α · rising.
    """
    new = alpha.copy()
    used = (means > 0) & (rising > 0)
    groups = [np.flatnonzero(used)] if shared else [np.array([k]) for k in np.flatnonzero(used)]
    for group in groups:
        if group.size:
            target = float(alpha[group] @ rising[group])
            new[slice(None) if shared else group] = _lifted(target, means[group])
    return new


def _lifted(target: float, means: Array) -> float:
    """α in [SMALLEST, LARGEST] with α Σ_k log(1 + L̄_k/α) = target, or the end nearer to it."""

    def excess(log_alpha: float) -> float:
        alpha = np.exp(log_alpha)
        return float(alpha * np.log1p(means / alpha).sum() - target)

    low, high = np.log(SMALLEST), np.log(LARGEST)
    if excess(low) >= 0.0:
        return SMALLEST
    if excess(high) <= 0.0:
        return LARGEST
    return float(np.exp(brentq(excess, low, high, xtol=1e-12)))
