"""Fits by VBEM and MJLE: several starts, the best of them, checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from gapmf.em import start
from gapmf.em.ascent import AscentState, Evaluation, Objective, run_ascent
from gapmf.em.fit_state import AscentFitState, FinishedStart, FitState
from gapmf.em.history import Callback, History
from gapmf.em.mjle import JointLikelihood
from gapmf.em.search import deterministic_start
from gapmf.em.settings import Settings
from gapmf.em.variational import VariationalBound
from gapmf.engines.allocation import Allocator
from gapmf.likelihood.marginal import comparison_log_likelihood
from gapmf.model import GaP
from gapmf.parallel import is_interruption
from gapmf.storage.checkpoint import Checkpoint
from gapmf.types import Array


def make_objective(settings: Settings, allocator: Allocator) -> Objective:
    """Return what the algorithm of the settings maximises."""
    if settings.algorithm == "mjle":
        return JointLikelihood(allocator, settings.pseudo_count)
    return VariationalBound(allocator, settings.learn_alpha, settings.pseudo_count)


def fit_ascent(
    counts: sp.csr_array,
    weights: Array | None,
    settings: Settings,
    rng: np.random.Generator,
    n_jobs: int | None,
    callbacks: Sequence[Callback],
    checkpoint: Checkpoint | None,
    resumed: AscentFitState | None,
) -> tuple[FinishedStart, bool]:
    """Run all starts; return the best, or after Ctrl-C the best so far, and whether it came."""
    objective = make_objective(settings, Allocator(counts, n_jobs, weights))
    times = objective.allocator.times

    def score(model: GaP) -> float:
        found = comparison_log_likelihood(counts, model, seed=0, n_jobs=n_jobs)
        return float(times @ found.per_sample)

    best = None if resumed is None else resumed.best
    here: tuple[AscentState, Evaluation, History] | None = None
    K, interrupted = settings.alpha.size, False
    try:
        for i in range(0 if resumed is None else resumed.start, settings.n_init):
            eta = objective.pseudo_count
            history = History(callbacks, score, settings.score_every, objective.name, prior=eta > 0)
            if resumed is None:
                state = _first_ascent_state(objective, settings, rng)
            else:
                state = resumed.run
                history.restore(resumed.history)
            resumed = None
            steps = run_ascent(objective, state, max_iter=settings.max_iter, tol=settings.tol)
            for state, at in steps:
                here = state, at, history
                if state.n_iter > len(history) and history.add(
                    state.model, objective=at.value - at.log_prior, pseudo_count=eta
                ):
                    break
                if checkpoint is not None and checkpoint.is_due():
                    kept = AscentFitState(i, best, history.arrays(K), state)
                    checkpoint.write_progress(FitState(rng, ascent=kept))
            assert here is not None
            if best is None or here[1].value > best.value:
                best = _finished_ascent(*here, eta)
            if history.stopped:
                break
        assert best is not None
        best = replace(best, alike=_is_stuck(objective, best, rng, settings))
    except (KeyboardInterrupt, SystemError) as error:
        if not is_interruption(error) or (best is None and here is None):
            raise
        interrupted = True
        if best is None:
            assert here is not None
            best = _finished_ascent(*here, objective.pseudo_count)
    assert best is not None
    return best, interrupted


def _finished_ascent(
    state: AscentState, at: Evaluation, history: History, pseudo_count: float
) -> FinishedStart:
    arrays = history.arrays(state.model.n_components)
    return FinishedStart(
        at.value,
        state.model,
        state.converged,
        False,
        history.stopped,
        arrays,
        at.H,
        pseudo_count=pseudo_count,
    )


def _first_ascent_state(
    objective: Objective, settings: Settings, rng: np.random.Generator
) -> AscentState:
    counts = objective.allocator
    W = deterministic_start(counts.totals / counts.n_samples, settings, rng)
    model = GaP(W, settings.alpha, settings.beta)
    given = not isinstance(settings.init, str)
    return AscentState(model, objective.first_sizes(model, given=given))


def _is_stuck(
    objective: Objective, found: FinishedStart, rng: np.random.Generator, settings: Settings
) -> bool:
    """Return whether all columns have one direction though a perturbed start would gain."""
    if not start.has_one_direction(found.model):
        return False
    other = replace(settings, init="mean", alpha=found.model.alpha)
    first = _first_ascent_state(objective, other, rng)
    *_, (_, at) = run_ascent(objective, first, max_iter=50, tol=settings.tol)
    return at.value - found.value > max(settings.tol * objective.allocator.n_tokens, 1e-6)
