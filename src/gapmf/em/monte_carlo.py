"""Monte Carlo EM: MCEM-C, MCEM-H and MCEM-CH, on any engine, by any schedule.

The state of a run goes in and comes out. History, callbacks and checkpoints belong to the caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gapmf.em.gain import EStep, gain
from gapmf.em.m_steps import m_step_for
from gapmf.em.posterior_mean import Half, Posterior, PosteriorProgress
from gapmf.em.schedules import (
    Adaptive,
    AdaptiveProgress,
    Decision,
    Growing,
    Paper,
    Saem,
    SaemProgress,
    Schedule,
    StoppingRule,
    TextbookSaem,
)
from gapmf.em.settings import Settings
from gapmf.em.start import are_alike
from gapmf.engines.base import Engine, Statistics, Sweeps
from gapmf.engines.growing import GrowingEngine
from gapmf.model import GaP

# An estimate is uncertain by about half a nat per parameter: a tenth of that is little.
NATS_PER_PARAMETER = 5e3  # times tol
UNCERTAIN = 2.0  # times that: where a part of the samples has shown most of what it can

# A mean over directions gains little when twice as many draws gain so much, times tol: held-out
# samples gain a fraction of that.
NATS_PER_TOKEN = 2e3

SAEM = {"saem": Saem, "saem-textbook": TextbookSaem}


@dataclass(frozen=True)
class RunState:
    """Where a run is. With the engine's chains this is all that the next iteration needs.

    An iteration takes over the momentum's arrays: go on from the latest state only.
    """

    model: GaP
    progress: AdaptiveProgress | PosteriorProgress | SaemProgress | None
    """The schedule's own record; None for the paper's schedule."""
    n_iter: int = 0
    n_sweeps: int = 0
    window: Statistics | None = None
    """The sum of all statistics of the present window."""
    tail: Statistics | None = None
    """The sum of the last of them, by whose average the window is judged."""
    n_window: int = 0
    """Its iterations so far."""
    last: EStep | None = None
    """The E-step that evaluated the window before."""
    gain: float = np.nan
    """The gain of that window and twice its error, in nats per token and sweep."""
    last_gain: float | None = None
    """The same, of the whole window: in nats per token."""
    near_end: bool = False
    """Whether the last decision was not simply to continue."""
    n_restarts: int = 0
    converged: bool = False
    alike: bool = False
    """Whether the run ended with components that are all the same."""
    pseudo_count: float = 0.0
    """η of the prior on directions: as given, or as chosen so far."""


def run(
    engine: Engine, schedule: Schedule, state: RunState, *, max_iter: int
) -> Iterator[RunState]:
    """Run Monte Carlo EM from `state`, yielding the new state after every E-step.

    An E-step that evaluates a window is not an iteration: it leaves `n_iter` as it was.
    """
    while not state.converged and state.n_iter < max_iter:
        if state.n_window == schedule.window_length(state.progress):
            state = evaluate_window(engine, schedule, state)
        else:
            state = iterate(engine, schedule, state)
        yield state


def iterate(engine: Engine, schedule: Schedule, state: RunState) -> RunState:
    """One iteration: an E-step at the present model, and the schedule's M-step."""
    sweeps = schedule.sweeps(state.progress)
    at = schedule.model_of_e_step(state.progress, state.model)
    statistics = _e_step(engine, at, sweeps, state.pseudo_count)
    model, progress = schedule.step(state.progress, at, statistics)
    window, tail, length = state.window, state.tail, schedule.window_length(state.progress)
    if length is not None:
        window = statistics if window is None else window + statistics
        if state.n_window >= length - schedule.n_averaged(state.progress):
            tail = statistics if tail is None else tail + statistics
    return replace(
        state,
        model=model,
        progress=progress,
        n_iter=state.n_iter + 1,
        n_sweeps=state.n_sweeps + sweeps.n_burn_in + sweeps.n_draws,
        window=window,
        tail=tail,
        n_window=state.n_window + 1,
    )


def _e_step(engine: Engine, model: GaP, sweeps: Sweeps, pseudo_count: float) -> Statistics:
    """Advance the chains; the statistics also hold the pseudo-counts, once for each draw."""
    if sweeps.n_draws == 2 and sweeps.n_burn_in == 0:
        # Two E-steps of one sweep take less time than one of two, up to K = 50 at least.
        one = replace(sweeps, n_draws=1)
        statistics = engine.advance(model, one) + engine.advance(model, one)
    else:
        statistics = engine.advance(model, sweeps)
    if pseudo_count == 0.0:
        return statistics
    return replace(statistics, pseudo=sweeps.n_draws * pseudo_count)


def evaluate_window(engine: Engine, schedule: Schedule, state: RunState) -> RunState:
    """End a window: an E-step at the model it came to tells its gain; the schedule decides."""
    model, window, tail = state.model, state.window, state.tail
    assert window is not None
    if tail is not None:
        model = schedule.averaged_model(model, tail)
    sweeps = schedule.evaluation(state.progress)
    eta = 0.0 if schedule.is_drawing else state.pseudo_count
    here = EStep(model, _e_step(engine, model, sweeps, eta), sweeps.n_draws)
    before, n_window = state.last, state.n_window
    state = replace(
        state,
        n_sweeps=state.n_sweeps + sweeps.n_draws,
        window=None,
        tail=None,
        n_window=0,
        last=here,
    )
    if before is None:
        return _with_best_pseudo_count(engine, schedule, state, model)
    gained = gain(before, here, engine.observation)
    decision, progress = schedule.decide(state.progress, gained)
    n_tokens = max(float(engine.totals.sum()), 1.0)
    n_sweeps = n_window * schedule.sweeps(state.progress).n_draws
    state = replace(
        state,
        progress=progress,
        near_end=decision is not Decision.CONTINUE,
        gain=gained.largest / (n_tokens * n_sweeps),
        last_gain=gained.largest / n_tokens,
    )
    if decision is not Decision.STOP:
        state = _with_best_pseudo_count(engine, schedule, state, model)
    if decision is Decision.CONTINUE:
        return state
    if decision is Decision.CONTINUE_FROM_AVERAGE:
        return replace(state, model=model)
    alike = are_alike(here.statistics, engine.n_samples)
    # Little has changed in the window, so the average of all of it has the least noise.
    model = schedule.averaged_model(state.model, window)
    return replace(state, model=model, converged=True, alike=alike)


def _with_best_pseudo_count(
    engine: Engine, schedule: Schedule, state: RunState, average: GaP
) -> RunState:
    """Choose η from a draw of C, if it is to be chosen."""
    if not schedule.choose_pseudo_count:
        return state
    eta, n_sweeps = schedule.best_pseudo_count(engine, state.progress, state.model, average)
    return replace(state, pseudo_count=eta, n_sweeps=state.n_sweeps + n_sweeps)


def final_model(schedule: Schedule, state: RunState) -> GaP:
    """Return the model of a run that has ended.

    Without convergence it is the last model while the run is far from its end, where an average
    lags behind, and the window's average near the end, where that has less noise. A run that draws
    W has averages only: that of the window before until the present one is half as long.
    """
    if state.converged:
        return state.model
    if schedule.is_drawing:
        length = schedule.window_length(state.progress)
        assert length is not None
        if state.last is not None and 2 * state.n_window < length:
            return state.last.model
    elif not state.near_end:
        return state.model
    if state.window is None:
        return state.model
    return schedule.averaged_model(state.model, state.window)


def refit_briefly(
    engine: Engine,
    schedule: Adaptive,
    model: GaP,
    n_iter: int,
    n_precise: int,
    pseudo_count: float = 0.0,
) -> GaP:
    """Refit a model that is near its maximum: n_iter iterations, then some of less noise."""
    progress, window = schedule.start(), None
    for n, last in ((n_iter, False), (n_precise, True)):
        if n == 0:
            continue
        if last:
            progress = schedule.reduce_noise(progress)
        window = None
        for _ in range(n):
            statistics = _e_step(engine, model, schedule.sweeps(progress), pseudo_count)
            model, progress = schedule.step(progress, model, statistics)
            window = statistics if window is None else window + statistics
    assert window is not None
    return schedule.averaged_model(model, window)


def make_schedule(
    settings: Settings, engine: Engine, seed: int = 0, halves: tuple[Half, ...] = ()
) -> Schedule:
    """Make the schedule that the settings name, for the engine's data.

    `seed` and `halves` are those of `Posterior`.
    """
    m_step = m_step_for(settings.algorithm, settings.learn_alpha, engine.observation)
    sizes = settings.learn_alpha is not None
    if settings.schedule == "paper":
        # MCEM-H needs H alone, so its C is an expectation by definition.
        expectations = settings.algorithm == "mcem-h"
        fixed = Sweeps(settings.n_draws, settings.n_burn_in, expectations, sizes)
        return Paper(m_step, sizes, fixed)
    if settings.schedule in SAEM:
        return SAEM[settings.schedule](
            m_step,
            sizes,
            _stopping_rule(settings, engine),
            choose_pseudo_count=settings.choose_pseudo_count,
        )
    if settings.on_line and isinstance(engine, GrowingEngine):
        return _growing_schedule(settings, engine)
    if settings.schedule == "posterior":
        enough = NATS_PER_TOKEN * settings.tol * float(engine.totals.sum())
        choose = settings.choose_pseudo_count
        rule = StoppingRule(per_sweep=np.inf, in_all=enough)
        return Posterior(m_step, sizes, rule, seed, halves, choose_pseudo_count=choose)
    return adaptive_schedule(settings, engine)


def adaptive_schedule(settings: Settings, engine: Engine) -> Adaptive:
    """Make the adaptive schedule, whichever the settings name."""
    keeps_means = settings.algorithm == "mcem-c"
    return Adaptive(
        m_step_for(settings.algorithm, settings.learn_alpha, engine.observation),
        settings.learn_alpha is not None,
        _stopping_rule(settings, engine),
        mean_counts=engine.totals / engine.n_samples if keeps_means else np.empty(0),
        n_components=settings.alpha.size,
        choose_pseudo_count=settings.choose_pseudo_count,
    )


def _growing_schedule(settings: Settings, engine: GrowingEngine) -> Growing:
    """Make the schedule for the present part of the samples.

    Beyond half a nat per parameter, a window gains more than the part can tell from nothing; where
    there are no more samples, a tenth of that counts.
    """
    bound = _stopping_rule(settings, engine).in_all
    bound *= 1.0 if engine.is_whole else UNCERTAIN
    return Growing(
        m_step_for(settings.algorithm, settings.learn_alpha),
        settings.learn_alpha is not None,
        StoppingRule(per_sweep=np.inf, in_all=bound),
        mean_counts=engine.mean_counts,
        n_components=settings.alpha.size,
    )


def _stopping_rule(settings: Settings, engine: Engine) -> StoppingRule:
    n_parameters = settings.alpha.size * int((engine.totals > 0).sum())
    return StoppingRule(
        per_sweep=settings.tol * float(engine.totals.sum()),
        in_all=settings.tol * NATS_PER_PARAMETER * n_parameters,
    )
