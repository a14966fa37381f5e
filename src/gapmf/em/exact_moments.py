"""EM-C and EM-CH without Monte Carlo: the paper's algorithms with exact expectations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gapmf.em.expectation import ExactExpectation, Expectation
from gapmf.em.record import History
from gapmf.m_steps import update_c, update_ch
from gapmf.model import GaP

_TIMES_SMALL = 5


class Fit(NamedTuple):
    """A fitted model, the E-step at it, and whether the stopping rule was met."""

    model: GaP
    expectation: Expectation
    converged: bool


def em_c_step(model: GaP, at: Expectation) -> GaP:
    """One iteration of EM-C from an E-step at `model`: the minimum of Q_C, Eq. 37."""
    return GaP(update_c(at.statistics, model.alpha, model.beta), model.alpha, model.beta)


def em_ch_step(model: GaP, at: Expectation) -> GaP:
    """One iteration of EM-CH, which is also one multiplicative step of EM-H: Eqs. 35 and 36."""
    return GaP(update_ch(at.statistics), model.alpha, model.beta)


STEPS: dict[str, Callable[[GaP, Expectation], GaP]] = {"em-c": em_c_step, "em-ch": em_ch_step}


def fit_em(
    expect: ExactExpectation,
    model: GaP,
    step: Callable[[GaP, Expectation], GaP],
    *,
    max_iter: int,
    tol: float,
    history: History,
) -> Fit:
    """Iterate one of the EMs until the gain still to come is below `tol` nats a token.

    The gain to come is the last gain times λ/(1−λ), λ being the ratio of the last two gains:
    what a linearly convergent sequence has left. It must be small five times in a row: near a
    saddle gains shrink before they grow.
    """
    at = expect(model)
    previous_gain, times_small = 0.0, 0
    for _ in range(max_iter):
        model = step(model, at)
        before, at = at.log_likelihood, expect(model)
        if history.add(model, at.log_likelihood):
            return Fit(model, at, False)
        gain = at.log_likelihood - before
        small = still_to_gain(gain, previous_gain) <= tol * expect.n_tokens
        times_small = times_small + 1 if small else 0
        if times_small == _TIMES_SMALL:
            return Fit(model, at, True)
        previous_gain = gain
    return Fit(model, at, False)


def still_to_gain(gain: float, previous_gain: float) -> float:
    """What a sequence with these last two gains would still gain, if it were geometric."""
    if gain <= 0.0:
        return 0.0  # EM never loses: this is rounding at the top
    if gain >= previous_gain:
        return float("inf")  # still accelerating, as it leaves a saddle
    return gain * gain / (previous_gain - gain)
