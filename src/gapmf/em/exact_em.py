"""EM-C and EM-CH without Monte Carlo: the paper's algorithms with exact expectations.

When α is learned, there is a plateau that EM must be helped to leave. As α_k → ∞, component k adds
Poisson counts of fixed means m_fk = (α_k/β_k) w_fk. When several components are there, only the sum
of their means matters: how it is divided among them changes nothing, so EM has no reason to move.
It may have arrived before the columns differed, since columns that are alike have sizes that vary
no more than Poisson counts. So all slopes are next to zero at such a point, and yet it need not be
a maximum.

Let λ_n be the rates of sample n and let one component with means m have α < ∞. To first order in
1/α, the log-likelihood changes by

    (1/2α) Σ_n [ (Σ_f m_f (v_fn/λ_fn − 1))² − Σ_f m_f² v_fn/λ_fn² ],

which is a quadratic form of m (with one α for several components: the sum of their forms). Where it
is positive for some m between 0 and the means that the plateau has to give, a component of those
means and with a finite α is better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from gapmf.em.alpha import LARGEST, alpha_from_bound, alpha_from_bound_at_means
from gapmf.em.expectation import ExactExpectation, Expectation, expected_sizes
from gapmf.em.history import History
from gapmf.em.m_steps import step_c, step_c_alpha, step_ch, update_c
from gapmf.errors import TooCostlyError
from gapmf.likelihood.moments import moments_of
from gapmf.model import GaP
from gapmf.types import Array

Step: TypeAlias = Callable[[GaP, Expectation], GaP]

ROUNDING = 4e-15  # relative, of a log-likelihood
TIMES_SMALL = 5
_ALPHAS = np.geomspace(0.03, 1e3, 10)  # to leave a plateau with
_LEAST, _MOST = 0.02, 0.98  # of a feature's mean: EM multiplies, so an entry of zero cannot grow


class ExactFit(NamedTuple):
    """A fitted model, the E-step at it, and whether the stopping rule was met."""

    model: GaP
    expectation: Expectation
    converged: bool
    too_costly: str = ""
    """What the next E-step would have cost, if that ended the fit: with a learned α the cost of
    an E-step changes during the fit."""


def em_c_step(model: GaP, at: Expectation) -> GaP:
    """One iteration of EM-C from an E-step at `model`: the minimum of Q_C, Eq. 37."""
    return step_c(at.statistics, model)


def em_ch_step(model: GaP, at: Expectation) -> GaP:
    """One iteration of EM-CH, which is also one multiplicative step of EM-H: Eqs. 35 and 36."""
    return step_ch(at.statistics, model)


def em_c_alpha_step(expect: ExactExpectation, model: GaP, at: Expectation) -> GaP:
    """One iteration of EM-C for W and α together, from the exact law of L.

    Where EM has no reason to move although a better model is near, it goes there.
    """
    better = leave_plateau(expect, model, at.objective)
    if better is not None:
        return better
    s = replace(at.statistics, sizes=expected_sizes(expect, model))
    return step_c_alpha(
        s,
        model,
        shared=expect.learn_alpha == "shared",
        observation=expect.observation,
        weights=expect.times,
    )


def lower_bound_step(expect: ExactExpectation, model: GaP, at: Expectation) -> GaP:
    """One iteration for W and α that cannot lose either, and needs no law of L.

    It maximises a lower bound of Q_C in which α enters through E[ψ(α + L) − ψ(α)] alone, which
    quadrature gives. So it is much cheaper than `em_c_alpha_step`, and moves α less.
    """
    assert at.rising is not None
    s = at.statistics
    rising, means = at.rising / s.n_draws, s.c_sum.sum(axis=0) / s.n_draws
    shared = expect.learn_alpha == "shared"
    if expect.observation is not None:
        W = update_c(s, model.alpha, model.beta)
        sizes = expect.observation.norms(W) * (model.alpha / model.beta)
        alpha = alpha_from_bound_at_means(
            s, rising, sizes, model.alpha, shared=shared, weights=expect.times
        )
        return GaP(W * (model.alpha / alpha), alpha, model.beta)
    alpha = alpha_from_bound(rising, means, model.alpha, shared=shared)
    return GaP(update_c(s, alpha, model.beta), alpha, model.beta)


STEPS: dict[str, Step] = {"em-c": em_c_step, "em-ch": em_ch_step}


def run_em(
    expect: ExactExpectation, model: GaP, step: Step, *, max_iter: int, tol: float, history: History
) -> Iterator[ExactFit]:
    """Iterate one of the EMs, and yield a fit each time the remaining gain seems small.

    The remaining gain is the last gain times λ/(1−λ), where λ is the ratio of the last two gains:
    what is left of a sequence that converges linearly. It must be below `tol` nats per token five
    times in a row, since near a saddle gains shrink before they grow. λ may still come from a fast
    direction while a slow one is not done. So the caller can look for what is left in another way
    and ask for the next fit, which comes after as many iterations again at the earliest.

    The last fit is one that has not converged: max_iter, a callback or the cost ended it.
    """
    at = expect.e_step(model)
    previous_gain, times_small, ask_at = 0.0, 0, 0
    for i in range(max_iter):
        here, model = model, step(model, at)
        try:
            after = expect.e_step(model)
        except TooCostlyError as error:
            if i == 0:
                raise
            yield ExactFit(here, at, False, str(error))
            return
        before, at = at.objective, after
        if history.add(model, at.log_likelihood, pseudo_count=expect.pseudo_count):
            break
        gain = at.objective - before
        if gain <= ROUNDING * abs(at.objective):
            gain = 0.0
        small = still_to_gain(gain, previous_gain) <= tol * expect.n_tokens
        times_small = times_small + 1 if small else 0
        if times_small >= TIMES_SMALL and i >= ask_at:
            yield ExactFit(model, at, True)
            ask_at = 2 * i
        previous_gain = gain
    yield ExactFit(model, at, False)


def still_to_gain(gain: float, previous_gain: float) -> float:
    """Return what a geometric sequence with these last two gains would still gain."""
    if gain <= 0.0:
        return 0.0  # EM never loses: this is the maximum, to rounding
    if gain >= previous_gain:
        return float("inf")  # still accelerating, as it leaves a saddle
    return gain * gain / (previous_gain - gain)


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
