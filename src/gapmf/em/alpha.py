"""The maximum-likelihood α of component sizes: the dispersion of a negative binomial.

Given C, the sizes L_kn of component k are negative binomial with shape α_k, and MCEM-C's M-step
puts their mean at its average. What is left is one equation in α_k alone,

    mean[ψ(α + L) − ψ(α)] = log(1 + L̄/α),

in which ψ(α + L) − ψ(α) = Σ_{m<L} 1/(α + m): only how many sizes exceed m matters, and a
histogram tells. The left side is larger for α → 0; for α → ∞ it is smaller if and only if the
sizes vary more than Poisson counts do. Otherwise there is no finite maximum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gapmf.model import GaP
from gapmf.types import Array

if TYPE_CHECKING:
    from gapmf.em.expectation import ExactExpectation, Expectation

SMALLEST, LARGEST = 1e-4, 1e4
TOLERANCE = 1e-12  # of log α
MOST_STEPS = 100  # halving the interval to TOLERANCE takes 44


def _best_each(beyond: Array, means: Array, alpha: Array) -> Array:
    """The best α in [SMALLEST, LARGEST] of each component, (K,), by Newton's steps from alpha.

    There is one maximum: where the slope is positive it is further up. A step that leaves what
    is left of the interval is replaced by its middle.
    """
    low, high = np.full(means.size, np.log(SMALLEST)), np.full(means.size, np.log(LARGEST))
    falls = _slopes(low, beyond, means)[0] <= 0.0
    rises = _slopes(high, beyond, means)[0] >= 0.0
    x = np.where(falls, low, np.where(rises, high, np.clip(np.log(alpha), low, high)))
    moving = np.flatnonzero(~(falls | rises))
    for _ in range(MOST_STEPS):
        slope, bend = _slopes(x[moving], beyond[moving], means[moving])
        up = slope > 0.0
        low[moving[up]], high[moving[~up]] = x[moving[up]], x[moving[~up]]
        with np.errstate(divide="ignore", invalid="ignore"):
            new = x[moving] - slope / bend
        inside = (new > low[moving]) & (new < high[moving])
        new = np.where(inside, new, 0.5 * (low[moving] + high[moving]))
        near = np.abs(new - x[moving]) <= TOLERANCE
        x[moving] = new
        moving = moving[~near]
        if not moving.size:
            break
    return np.clip(np.exp(x), SMALLEST, LARGEST)


def _slopes(log_alpha: Array, beyond: Array, means: Array) -> tuple[Array, Array]:
    """α times the derivative of the mean log-likelihood by α, and its derivative by log α: (K,)."""
    alpha = np.exp(log_alpha)
    inverse = 1.0 / (alpha[:, None] + np.arange(beyond.shape[1]))
    first = np.einsum("km,km->k", beyond, inverse) - np.log1p(means / alpha)
    second = means / (alpha * (alpha + means)) - np.einsum("km,km,km->k", beyond, inverse, inverse)
    return alpha * first, alpha * (first + alpha * second)


def _slope(log_alpha: float, beyond: Array, means: Array) -> float:
    """The derivative of the mean log-likelihood by α; beyond (M,) is summed over components."""
    alpha = np.exp(log_alpha)
    terms = beyond / (alpha + np.arange(beyond.size))
    return float(terms.sum() - np.log1p(means / alpha).sum())


def _value(alpha: float, beyond: Array, means: Array) -> float:
    """The mean log-likelihood, summed over components, up to what does not depend on α."""
    terms = beyond * np.log(alpha + np.arange(beyond.size))
    rest = alpha * np.log1p(means / alpha) + means * np.log(alpha + means)
    return float(terms.sum() - rest.sum())


def _best_of_all(beyond: Array, means: Array) -> float:
    """The best α in [SMALLEST, LARGEST] for all components together; beyond is their sum, (M,).

    Some may vary like Poisson counts and others much more, and then there may be two maxima: the
    slope's sign is looked at on a grid, and the candidates are compared.
    """
    grid = np.linspace(np.log(SMALLEST), np.log(LARGEST), 41)
    slopes = [_slope(x, beyond, means) for x in grid]
    candidates = [SMALLEST] if slopes[0] <= 0.0 else []
    for i in range(grid.size - 1):
        if slopes[i] > 0.0 >= slopes[i + 1]:
            top = brentq(_slope, grid[i], grid[i + 1], args=(beyond, means), xtol=TOLERANCE)
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
        Where to start from. Kept where nothing can be learned: for components that never had
        any counts.
    shared : bool
        One α for all components.
    """
    n = np.maximum(sizes.sum(axis=1), 1e-300)
    # From the top down: a rare size must not drown in the rounding of the common ones.
    beyond = np.cumsum(sizes[:, :0:-1], axis=1)[:, ::-1] / n[:, None]
    means = beyond.sum(axis=1)
    used = means > 0
    new = alpha.copy()
    if shared:
        if used.any():
            new[:] = _best_of_all(beyond[used].sum(axis=0), means[used])
    elif used.any():
        beyond = beyond[:, : np.flatnonzero(beyond.any(axis=0))[-1] + 1]
        new[used] = _best_each(beyond[used], means[used], alpha[used])
    return new


def alpha_from_bound(rising: Array, means: Array, alpha: Array, *, shared: bool) -> Array:
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


def with_alpha(model: GaP, alpha: Array) -> GaP:
    """The model with another α and the same expected counts of each component."""
    return GaP(model.W * (model.alpha / alpha), alpha, model.beta)


def projected_alpha_slope(expect: ExactExpectation, model: GaP, at: Expectation) -> Array:
    """d log p(V)/d log α_k as far as its bounds let α follow it: (K,), or (1,) when shared."""
    slope, alpha = at.slope_by_log_alpha(model), model.alpha
    if expect.learn_alpha == "shared":
        slope, alpha = slope.sum(keepdims=True), alpha[:1]
    slope = np.where((alpha >= LARGEST) & (slope > 0), 0.0, slope)
    return np.where((alpha <= SMALLEST) & (slope < 0), 0.0, slope)


def alpha_bound_warning(model: GaP) -> str | None:
    """Return a sentence on the components whose α is at a bound, or None."""
    used = model.column_norms > 0
    found = []
    for bound, meaning in (
        (LARGEST, "their sizes vary no more than Poisson counts do, so no finite α is better"),
        (SMALLEST, "the likelihood grows as α falls towards 0"),
    ):
        named = np.flatnonzero(used & (model.alpha == bound))
        if named.size:
            components = ", ".join(str(k) for k in named)
            found.append(
                f"the learned α of components {components} is at its bound {bound:g}: {meaning}"
            )
            if bound == LARGEST and named.size > 1:
                found.append(
                    "how several such components divide the counts is arbitrary, and other starts "
                    "(n_init) may find better ones"
                )
    return "; ".join(found) or None
