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


def _root(beyond: Array, means: Array) -> float:
    """α in [SMALLEST, LARGEST] at which the slope vanishes, or the end that is nearer to it."""
    low, high = np.log(SMALLEST), np.log(LARGEST)
    if _slope(low, beyond, means) <= 0.0:
        return SMALLEST
    if _slope(high, beyond, means) >= 0.0:
        return LARGEST
    return float(np.exp(brentq(_slope, low, high, args=(beyond, means), xtol=1e-12)))


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
    beyond = (n[:, None] - np.cumsum(sizes, axis=1))[:, :-1] / n[:, None]
    means = beyond.sum(axis=1)
    used = means > 0
    new = alpha.copy()
    if shared:
        if used.any():
            new[:] = _root(beyond[used], means[used])
        return new
    for k in np.flatnonzero(used):
        new[k] = _root(beyond[k : k + 1], means[k : k + 1])
    return new
