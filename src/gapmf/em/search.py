"""Fits with exact moments: starts, climbs, and the best of them improved."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gapmf.em import start
from gapmf.em.exact_moments import STEPS, Fit, fit_em
from gapmf.em.expectation import ExactExpectation
from gapmf.em.learned import em_c_alpha_step
from gapmf.em.maximum import WARM_UP, fit_maximum
from gapmf.em.moves import improve
from gapmf.em.record import History
from gapmf.em.sizes import plan_sizes
from gapmf.errors import TooCostlyError
from gapmf.model import GaP
from gapmf.settings import Settings

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Search:
    """What a search found.

    `stuck`: all columns have one direction though a perturbed start gains, so the fit did not
    leave its symmetric starting point. `interrupted`: by Ctrl-C, and this is what there was.
    """

    fit: Fit
    history: History
    stuck: bool = False
    interrupted: bool = False


def search(expect: ExactExpectation, settings: Settings, rng: np.random.Generator) -> Search:
    """The best of `n_init` starts; for "exact" columns are then exchanged and regrown."""
    best: Search | None = None
    history = History()
    try:
        for i in range(settings.n_init):
            history = History(settings.callbacks)
            W = _start(expect.mean_counts, settings, rng)
            fit = _climb(i, expect, GaP(W, settings.alpha, settings.beta), settings, history)
            value = fit.expectation.log_likelihood
            if best is None or value > best.fit.expectation.log_likelihood:
                best = Search(fit, history)
            if history.stopped:
                break
        assert best is not None
        fit, history = best.fit, best.history
        room = settings.max_iter - len(history) - 1
        if settings.algorithm == "exact" and room > 0:
            fit = improve(expect, fit, max_iter=room, history=history)
        best = Search(fit, history)
        stuck = not fit.too_costly and _did_not_leave(expect, fit, rng, settings.tol)
        return replace(best, stuck=stuck)
    except KeyboardInterrupt:
        if best is not None:
            return replace(best, interrupted=True)
        if history.model is None:
            raise
        fit = Fit(history.model, expect(history.model), False)
        return Search(fit, history, interrupted=True)


def _start(mean_counts: Array, settings: Settings, rng: np.random.Generator) -> Array:
    if not isinstance(settings.init, str):
        return settings.init
    begin = start.perturbed_mean_start if settings.init == "mean" else start.random_start
    return begin(mean_counts, settings.alpha, settings.beta, rng)


def _climb(
    i: int, expect: ExactExpectation, model: GaP, settings: Settings, history: History
) -> Fit:
    if settings.algorithm == "exact":
        # Every second start goes without the warm-up: it ends in other basins, and some of
        # these are higher.
        warm_up = 0 if i % 2 else WARM_UP
        return fit_maximum(
            expect, model, max_iter=settings.max_iter, history=history, warm_up=warm_up
        )

    def left(fit: Fit) -> float:
        """What a short climb from here gains: EM may be slow rather than done."""
        climb = fit_maximum(expect, fit.model, max_iter=25, history=History(), warm_up=0)
        return climb.expectation.log_likelihood - fit.expectation.log_likelihood

    step = STEPS[settings.algorithm]
    if expect.learn_alpha:
        plan_sizes(expect, model)  # refuses, before the first E-step, what would take too long
        step = em_c_alpha_step(expect)
    return fit_em(
        expect,
        model,
        step,
        max_iter=settings.max_iter,
        tol=settings.tol,
        history=history,
        left=left,
    )


def _did_not_leave(
    expect: ExactExpectation, fit: Fit, rng: np.random.Generator, tol: float
) -> bool:
    """Whether all columns have one direction though a perturbed start would gain."""
    model = fit.model
    norms = model.column_norms
    if model.n_components == 1 or not (norms > 0).all():
        return False
    if np.ptp(model.W / norms, axis=1).max() > 1e-6:
        return False
    W = start.perturbed_mean_start(expect.mean_counts, model.alpha, model.beta, rng)
    try:
        other = fit_maximum(
            expect, GaP(W, model.alpha, model.beta), max_iter=50, history=History(), warm_up=5
        )
    except TooCostlyError:
        return False  # what cannot be looked at is not said to be better
    gain = other.expectation.log_likelihood - fit.expectation.log_likelihood
    return gain > max(tol * expect.n_tokens, 1e-6)
