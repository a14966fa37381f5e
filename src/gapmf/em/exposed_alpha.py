"""The best α of component sizes whose expected values differ from sample to sample.

With exposures, the sizes L_kn of component k are negative binomial with shape α_k and means M_kn =
(α_k/β_k) s_n Σ_f m_nf w_fk. At fixed means, what depends on α_k is

    Σ_n E[log Γ(α + L_n) − log Γ(α)] + α log α − (α + E L_n) log(α + M_n),

and its derivative needs the histogram of L_kn over samples, and E L_kn of each. (Without exposures
M_n = L̄ for all n, and this is the equation of `em.alpha`.) Mean and dispersion of a negative
binomial are orthogonal parameters, so updating W first and then α at its means loses little.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gapmf.em.alpha import LARGEST, MOST_STEPS, SMALLEST, TOLERANCE
from gapmf.engines.base import Statistics
from gapmf.types import Array, Index


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

    As `em.alpha.alpha_from_bound`: Σ_{m<L} log(α' + m) is at least α (ψ(α + L) − ψ(α)) log α'.
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
