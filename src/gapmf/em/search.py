"""Search for the maximum with exact moments: starts, climbs, and the best of them improved."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from gapmf.em import start
from gapmf.em.exact_em import ROUNDING, STEPS, ExactFit, em_c_alpha_step, em_c_step, run_em
from gapmf.em.expectation import ExactExpectation, plan_sizes
from gapmf.em.history import Callback, History
from gapmf.em.maximum import WARM_UP, fit_maximum, improve
from gapmf.em.settings import Settings
from gapmf.errors import TooCostlyError
from gapmf.model import GaP
from gapmf.parallel import is_interruption
from gapmf.types import Array


class SearchResult(NamedTuple):
    """The result of a search for the maximum with exact moments."""

    fit: ExactFit
    history: History
    stuck: bool = False
    """Whether all columns have one direction though a perturbed start gains: the fit did not
    leave its symmetric starting point."""
    interrupted: bool = False


def search(
    expect: ExactExpectation,
    settings: Settings,
    rng: np.random.Generator,
    callbacks: Sequence[Callback] = (),
) -> SearchResult:
    """Find the best of `n_init` starts; "exact" then exchanges and regrows columns."""
    best: SearchResult | None = None
    history = History()
    try:
        for i in range(settings.n_init):
            history = History(callbacks, prior=settings.pseudo_count > 0)
            W = deterministic_start(expect.mean_counts, settings, rng)
            found = _climb(i, expect, GaP(W, settings.alpha, settings.beta), settings, history)
            value = found.expectation.objective
            if best is None or value > best.fit.expectation.objective:
                best = SearchResult(found, history)
            if history.stopped:
                break
        assert best is not None
        found, history = best.fit, best.history
        room = settings.max_iter - len(history) - 1
        if settings.algorithm == "exact" and room > 0:
            found = improve(expect, found, max_iter=room, history=history)
        best = SearchResult(found, history)
        stuck = not found.too_costly and _is_stuck(expect, found, rng, settings.tol)
        return best._replace(stuck=stuck)
    except (KeyboardInterrupt, SystemError) as error:
        if not is_interruption(error):
            raise
        if best is not None:
            return best._replace(interrupted=True)
        if history.model is None:
            raise
        found = ExactFit(history.model, expect.e_step(history.model), False)
        return SearchResult(found, history, interrupted=True)


def deterministic_start(mean_counts: Array, settings: Settings, rng: np.random.Generator) -> Array:
    """Return W to start from without Monte Carlo, whose noise would leave the symmetric start."""
    if not isinstance(settings.init, str):
        return settings.init
    begin = start.perturbed_mean_start if settings.init == "mean" else start.random_start
    return begin(mean_counts, settings.alpha, settings.beta, rng)


def _climb(
    i: int, expect: ExactExpectation, model: GaP, settings: Settings, history: History
) -> ExactFit:
    """Run one start."""
    if settings.algorithm == "exact":
        # Every second start goes without the warm-up: it ends in other basins, and some of
        # these are higher.
        warm_up = 0 if i % 2 else WARM_UP
        return fit_maximum(
            expect, model, max_iter=settings.max_iter, history=history, warm_up=warm_up
        )
    step = STEPS[settings.algorithm]
    if expect.learn_alpha:
        plan_sizes(expect, model)  # refuses, before the first E-step, what would take too long
        step = partial(em_c_alpha_step, expect)
    limit = settings.tol * expect.n_tokens
    fits = run_em(
        expect, model, step, max_iter=settings.max_iter, tol=settings.tol, history=history
    )
    for found in fits:
        rounding = ROUNDING * abs(found.expectation.objective)
        if found.converged and _remaining_gain(expect, found) <= limit + rounding:
            break
    return found


def _remaining_gain(expect: ExactExpectation, found: ExactFit) -> float:
    """Return what a short climb from here gains: EM may be slow rather than done."""
    if expect.pseudo_count > 0.0:
        return _gain_in_logs(expect, found)
    climb = fit_maximum(expect, found.model, max_iter=25, history=History(), warm_up=0)
    return climb.expectation.log_likelihood - found.expectation.log_likelihood


def _gain_in_logs(expect: ExactExpectation, found: ExactFit) -> float:
    """Return the gain of a short climb in log W: with a prior, no entry is zero at the maximum."""
    model, eta = found.model, expect.pseudo_count
    used = model.column_norms > 0
    W = model.W.copy()

    def cost(x: Array) -> tuple[float, Array]:
        W[:, used] = np.exp(x.reshape(model.n_features, -1))
        here = GaP(W, model.alpha, model.beta)
        at = expect.e_step(here)
        directions = W[:, used] / here.column_norms[used]
        slope = W[:, used] * at.gradient[:, used] - eta * (1.0 - model.n_features * directions)
        return -at.objective, slope.ravel()

    start = np.log(model.W[:, used]).ravel()
    climb = minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": 25})
    return -float(climb.fun) - found.expectation.objective


def _is_stuck(
    expect: ExactExpectation, found: ExactFit, rng: np.random.Generator, tol: float
) -> bool:
    """Return whether all columns have one direction though a perturbed start would gain."""
    model = found.model
    if not start.has_one_direction(model):
        return False
    W = start.perturbed_mean_start(expect.mean_counts, model.alpha, model.beta, rng)
    begin = GaP(W, model.alpha, model.beta)
    try:
        if expect.pseudo_count > 0.0:
            *_, other = run_em(expect, begin, em_c_step, max_iter=50, tol=tol, history=History())
        else:
            other = fit_maximum(expect, begin, max_iter=50, history=History(), warm_up=5)
    except TooCostlyError:
        return False  # nothing is known of what cannot be computed
    gain = other.expectation.objective - found.expectation.objective
    return gain > max(tol * expect.n_tokens, 1e-6)
