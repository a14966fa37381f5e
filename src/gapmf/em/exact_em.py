"""EM-C and EM-CH without Monte Carlo: the paper's algorithms with exact expectations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gapmf.em.expectation import ExactExpectation, Expectation
from gapmf.em.history import History
from gapmf.em.m_steps import update_c, update_ch
from gapmf.errors import TooCostlyError
from gapmf.model import GaP

_TIMES_SMALL = 5
_ROUNDING = 4e-15  # of a log-likelihood


class Fit(NamedTuple):
    """A fitted model, the E-step at it, and whether the stopping rule was met.

    `too_costly` says what the next E-step would have taken, where that ended the fit: with a
    learned α the price of an E-step changes on the way.
    """

    model: GaP
    expectation: Expectation
    converged: bool
    too_costly: str = ""


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
    left: Callable[[Fit], float] | None = None,
) -> Fit:
    """Iterate one of the EMs until the gain still to come is below `tol` nats a token.

    The gain to come is the last gain times λ/(1−λ), λ being the ratio of the last two gains:
    what a linearly convergent sequence has left. It must be small five times in a row, since
    near a saddle gains shrink before they grow. And since λ may come from a fast direction while
    a slow one is still under way, `left` then looks for what is left in another way; when that
    is more, EM goes on, and asks again after as many iterations more.
    """
    at = expect(model)
    previous_gain, times_small, ask_at = 0.0, 0, 0
    for i in range(max_iter):
        here, model = model, step(model, at)
        try:
            after = expect(model)
        except TooCostlyError as error:
            if i == 0:
                raise
            return Fit(here, at, False, str(error))
        before, at = at.log_likelihood, after
        if history.add(model, at.log_likelihood):
            return Fit(model, at, False)
        gain = at.log_likelihood - before
        if gain <= _ROUNDING * abs(at.log_likelihood):
            gain = 0.0
        small = still_to_gain(gain, previous_gain) <= tol * expect.n_tokens
        times_small = times_small + 1 if small else 0
        if times_small >= _TIMES_SMALL and i >= ask_at:
            fit = Fit(model, at, True)
            if left is None or left(fit) <= tol * expect.n_tokens + _ROUNDING * abs(before):
                return fit
            ask_at = 2 * i
        previous_gain = gain
    return Fit(model, at, False)


def still_to_gain(gain: float, previous_gain: float) -> float:
    """What a sequence with these last two gains would still gain, if it were geometric."""
    if gain <= 0.0:
        return 0.0  # EM never loses: this is the top, to rounding
    if gain >= previous_gain:
        return float("inf")  # still accelerating, as it leaves a saddle
    return gain * gain / (previous_gain - gain)
