"""Leave the plateau at large α, where the likelihood no longer depends on the columns of W.

As α_k → ∞, component k adds Poisson counts of fixed means m_fk = (α_k/β_k) w_fk. When several
components are there, only the sum of their means matters: how it is divided among them changes
nothing, so EM has no reason to move. It may have arrived before the columns differed, since columns
that are alike have sizes that vary no more than Poisson counts. So all slopes are next to zero at
such a point, and yet it need not be a maximum.

Let λ_n be the rates of sample n and let one component with means m have α < ∞. To first order in
1/α, the log-likelihood changes by

    (1/2α) Σ_n [ (Σ_f m_f (v_fn/λ_fn − 1))² − Σ_f m_f² v_fn/λ_fn² ],

which is a quadratic form of m (with one α for several components: the sum of their forms). Where it
is positive for some m between 0 and the means that the plateau has to give, a component of those
means and with a finite α is better.
"""

from __future__ import annotations

import numpy as np

from gapmf.em.alpha import LARGEST
from gapmf.em.expectation import ExactExpectation
from gapmf.errors import TooCostlyError
from gapmf.likelihood.moments import moments_of
from gapmf.model import GaP
from gapmf.types import Array

_ALPHAS = np.geomspace(0.03, 1e3, 10)
_LEAST, _MOST = 0.02, 0.98  # of a feature's mean: EM multiplies, so an entry of zero cannot grow


def leave_plateau(expect: ExactExpectation, model: GaP, objective: float) -> GaP | None:
    """Return a better model off the plateau; None if it is not on it, or none better is near.

    `objective` is that of the model: its log-likelihood, and the prior's part if there is one.

    The first component of the plateau takes the part of its means that varies most, with the best
    of a few values of α (for all components, if they share one). The others get equal parts of the
    rest.
    """
    plateau = np.flatnonzero((model.alpha >= LARGEST) & (model.column_norms > 0))
    if plateau.size < 2:
        return None
    means = model.W * (model.alpha / model.beta)
    to_give = means[:, plateau].sum(axis=1)
    first, others = plateau[0], plateau[1:]
    try:
        weight = 1.0 / others.size if expect.learn_alpha == "shared" else 0.0
        taken = _most_dispersed(expect, model, to_give, weight)
        if taken is None:
            return None
        means[:, others] = (to_give - taken)[:, None] / others.size
        means[:, first] = taken
        best: GaP | None = None
        for a in _ALPHAS:
            alpha = model.alpha.copy()
            alpha[slice(None) if expect.learn_alpha == "shared" else first] = a
            other = GaP(means * (model.beta / alpha), alpha, model.beta)
            value = expect.e_step(other).objective
            if value > objective:
                best, objective = other, value
    except TooCostlyError:
        return None  # nothing is known of what cannot be computed
    return best


def _most_dispersed(
    expect: ExactExpectation, model: GaP, to_give: Array, others: float
) -> Array | None:
    """Return the means m ≤ to_give, (F,), where the form above is largest; None if not positive.

    `others` is the weight of the same form for the rest, to_give − m. Coordinates are set to their
    best value in turn, from the best single feature: every step gains.
    """
    seen = np.flatnonzero(to_give > 0)
    own = expect.observation
    rates = moments_of(expect.rows, model, expect.n_jobs, own).h @ model.W[seen].T
    share = expect.rows[:, seen].toarray() / rates  # v/λ
    exposed: Array | float = 1.0  # with exposures λ is s_n times these rates where m_nf = 1
    if own is not None:
        mask = own.mask(np.arange(own.n_samples), model.n_features)[:, seen]
        exposed = own.exposure[:, None] * mask
    residual = np.sqrt(expect.times)[:, None] * (share - exposed) * to_give[seen]
    noise = expect.times @ (share / rates) * to_give[seen] ** 2

    def form(u: Array) -> float:
        return float(((residual @ u) ** 2).sum() - noise @ u**2)

    alone = (residual**2).sum(axis=0) - noise
    rest = others * (residual.T @ residual.sum(axis=1) - noise)
    u = np.full(seen.size, _LEAST)
    u[alone.argmax()] = _MOST
    for _ in range(20):
        before = u.copy()
        sums = residual @ u
        for f in range(seen.size):
            without = residual[:, f] @ sums - (alone[f] + noise[f]) * u[f]
            bend, slope = (1.0 + others) * alone[f], (1.0 + others) * without - rest[f]
            ends = [bend * x**2 + 2.0 * slope * x for x in (_LEAST, _MOST)]
            best = _MOST if ends[1] > ends[0] else _LEAST
            if bend < 0.0:
                best = float(np.clip(-slope / bend, _LEAST, _MOST))
            sums += residual[:, f] * (best - u[f])
            u[f] = best
        if np.abs(u - before).max() < 1e-6:
            break
    if form(u) + others * form(1.0 - u) <= 0.0:
        return None
    taken = np.zeros_like(to_give)
    taken[seen] = u * to_give[seen]
    return taken
