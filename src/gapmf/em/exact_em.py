"""EM-C and EM-CH without Monte Carlo: the paper's algorithms with exact expectations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from gapmf.em.alpha import alpha_from_bound
from gapmf.em.expectation import ExactExpectation, Expectation, expected_sizes
from gapmf.em.exposed_alpha import alpha_from_bound_at_means
from gapmf.em.history import History
from gapmf.em.m_steps import step_c, step_c_alpha, step_ch, update_c
from gapmf.em.plateau import leave_plateau
from gapmf.errors import TooCostlyError
from gapmf.model import GaP

Step: TypeAlias = Callable[[GaP, Expectation], GaP]

ROUNDING = 4e-15  # relative, of a log-likelihood
TIMES_SMALL = 5


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
