"""The maximum-likelihood α of component sizes: the dispersion of a negative binomial.

Given C, the sizes L_kn of component k are negative binomial with shape α_k, and MCEM-C's M-step
puts their mean at its average. What is left is one equation in α_k alone,

    mean[ψ(α + L) − ψ(α)] = log(1 + L̄/α),

in which ψ(α + L) − ψ(α) = Σ_{m<L} 1/(α + m): only how many sizes exceed m matters, and a
histogram tells. The left side is larger for α → 0; for α → ∞ it is smaller if and only if the
sizes vary more than Poisson counts do. Otherwise there is no finite maximum.

With exposures, the means differ from sample to sample: M_kn = (α_k/β_k) s_n Σ_f m_nf w_fk. At fixed
means, what depends on α_k is

    Σ_n E[log Γ(α + L_n) − log Γ(α)] + α log α − (α + E L_n) log(α + M_n),

and its derivative needs the histogram of L_kn over samples, and E L_kn of each. (Without exposures
M_n = L̄ for all n, and this is the equation above.) Mean and dispersion of a negative binomial are
orthogonal parameters, so updating W first and then α at its means loses little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gapmf.model import GaP
from gapmf.types import Array, Index

if TYPE_CHECKING:
    from gapmf.em.expectation import ExactExpectation, Expectation
    from gapmf.engines.base import Statistics

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


def fit_alpha_at_means(
    s: Statistics, means: Array, alpha: Array, *, shared: bool, weights: Array | None = None
) -> Array:
    """Return α of each component, (K,), or one for all, at the means M (N, K).

    Components that never had any counts keep theirs. weights (N,) are the draws of each sample, or
    how often it counts; by default all have equally many.
    """
    assert s.sizes is not None
    beyond = np.cumsum(s.sizes[:, :0:-1], axis=1)[:, ::-1] / s.n_draws
    used = np.flatnonzero((beyond.sum(axis=1) > 0) & (means.sum(axis=0) > 0))
    if used.size == 0:
        return alpha
    beyond = beyond[:, : np.flatnonzero(beyond.any(axis=0))[-1] + 1]

    def rising(a: Array) -> tuple[Array, Array]:
        """mean[ψ(α + L) − ψ(α)], and its derivative."""
        inverse = 1.0 / (a[:, None] + np.arange(beyond.shape[1]))
        own = beyond[used]
        return (own * inverse).sum(axis=1), -(own * inverse**2).sum(axis=1)

    return _solve(rising, s, means, alpha, used, shared, weights)


def alpha_from_bound_at_means(
    s: Statistics, rising: Array, means: Array, alpha: Array, *, shared: bool, weights: Array
) -> Array:
    """Return a better α from mean[ψ(α + L) − ψ(α)] at the present α, (K,), at the means M (N, K).

    As `alpha_from_bound`: Σ_{m<L} log(α' + m) is at least α (ψ(α + L) − ψ(α)) log α'.
    """
    used = np.flatnonzero((rising > 0) & (means.sum(axis=0) > 0))
    if used.size == 0:
        return alpha
    target = alpha[used] * rising[used]
    return _solve(lambda a: (target / a, -target / a**2), s, means, alpha, used, shared, weights)


def _solve(
    rising: Callable[[Array], tuple[Array, Array]],
    s: Statistics,
    means: Array,
    alpha: Array,
    used: Index,
    shared: bool,
    weights: Array | None,
) -> Array:
    """Return α with slope 0, or at a bound, by Newton's steps in log α within a shrinking interval.

    `rising` gives mean[ψ(α + L) − ψ(α)] of the used components, and its derivative.
    """
    assert s.L_sum is not None
    M, sizes = means[:, used], s.L_sum[:, used] / s.n_draws
    N = M.shape[0]
    share = np.full(N, 1.0 / N) if weights is None else weights / s.n_draws

    def slopes(x: Array) -> tuple[Array, Array]:
        """The derivative by α, times α, and the derivative of that by log α."""
        a = np.exp(np.broadcast_to(x, used.shape))
        up, bend = rising(a)
        total = a + M
        ratio = (share[:, None] * a + sizes) / total
        first = up + np.log(a) + 1.0 - share @ np.log(total) - ratio.sum(axis=0)
        second = bend + 1.0 / a - 2.0 * (share @ (1.0 / total)) + (ratio / total).sum(axis=0)
        slope, bent = a * first, a * (first + a * second)
        return (slope.sum(keepdims=True), bent.sum(keepdims=True)) if shared else (slope, bent)

    n = 1 if shared else used.size
    low, high = np.full(n, np.log(SMALLEST)), np.full(n, np.log(LARGEST))
    start = np.log(alpha[used])[:n]
    falls, rises = slopes(low)[0] <= 0.0, slopes(high)[0] >= 0.0
    x = np.where(falls, low, np.where(rises, high, np.clip(start, low, high)))
    for _ in range(MOST_STEPS):
        slope, bend = slopes(x)
        up = slope > 0.0
        low, high = np.where(up, x, low), np.where(up, high, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = x - slope / bend
        new = np.where((new > low) & (new < high), new, 0.5 * (low + high))
        new = np.where(falls | rises, x, new)
        done = np.abs(new - x).max() <= TOLERANCE
        x = new
        if done:
            break
    result = alpha.copy()
    found = np.clip(np.exp(x), SMALLEST, LARGEST)
    result[slice(None) if shared else used] = found
    return result
