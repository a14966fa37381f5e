"""Run a fit: several starts, the best of them, checkpoints, and what to warn of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from gapmf.csr import content_digest
from gapmf.em import start
from gapmf.em.alpha import alpha_bound_warning
from gapmf.em.expectation import ExactExpectation
from gapmf.em.fit_ascent import fit_ascent
from gapmf.em.fit_state import FinishedStart, FitState, MonteCarloState, interrupted_start
from gapmf.em.history import Callback, Certificate, History
from gapmf.em.maximum import certify
from gapmf.em.monte_carlo import RunState, final_model, make_schedule, run
from gapmf.em.posterior_mean import HALVES, Half
from gapmf.em.schedules import Schedule
from gapmf.em.search import SearchResult, search
from gapmf.em.settings import EXACT_MOMENTS, MONTE_CARLO, OBJECTIVES, Settings
from gapmf.engines.base import Engine
from gapmf.engines.growing import GrowingEngine, part_sizes
from gapmf.engines.local import LocalEngine
from gapmf.engines.streamed import PartedEngine
from gapmf.errors import GapmfError, InvalidInputError, TooCostlyError
from gapmf.likelihood.marginal import comparison_log_likelihood
from gapmf.likelihood.sample import stream_keys
from gapmf.model import GaP
from gapmf.observation import Observation
from gapmf.parallel import is_interruption
from gapmf.storage.checkpoint import Checkpoint, fingerprint
from gapmf.types import Array
from gapmf.validation import as_float, check_entries

MAX_RESTARTS = 2  # at a random point, when all components stay alike
_MAX_ENTRIES = 1e9


class FitWarning(NamedTuple):
    """A warning that the estimator gives after the fit."""

    message: str
    category: type[Warning] = ConvergenceWarning


@dataclass(frozen=True)
class FitData:
    """The counts of a fit."""

    counts: sp.csr_array | None
    """In memory; None if an engine has them elsewhere."""
    weights: Array | None
    """How many times each sample counts; None for once."""
    observation: Observation | None = None
    """How the samples were observed, if they have exposures or unobserved entries."""
    engine: PartedEngine | None = None
    """What has the counts, if they are not in memory."""

    def __enter__(self) -> FitData:
        return self

    def __exit__(self, *_: object) -> None:
        if self.engine is not None:
            self.engine.close()

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and of features."""
        if self.engine is not None:
            return self.engine.n_samples, self.engine.totals.size
        assert self.counts is not None
        N, F = self.counts.shape
        return N, F

    @property
    def fingerprint(self) -> str:
        """A hash of the data, for a checkpoint; it does not depend on where they are."""
        if self.engine is not None:
            return fingerprint(self.shape, self.engine.summary.digest)
        assert self.counts is not None
        keys = [] if self.observation is None else self.observation.keys()
        return fingerprint(self.shape, content_digest(self.counts), self.weights, keys)

    @property
    def feature_counts(self) -> Array:
        """Σ_n x_nf, (F,)."""
        if self.engine is not None:
            return self.engine.totals
        assert self.counts is not None
        weights = np.ones(self.counts.shape[0]) if self.weights is None else self.weights
        return np.asarray(self.counts.T @ weights)

    def log_likelihood(self, model: GaP, n_jobs: int | None) -> float:
        """Compute log p(X | W) for a comparison of models."""
        if self.engine is not None:
            part = partial(_total_log_likelihood, model=model, n_jobs=n_jobs)
            return math.fsum(self.engine.map_counts(part))
        assert self.counts is not None
        return _total_log_likelihood(self.counts, model, n_jobs, self.observation)


def _total_log_likelihood(
    counts: sp.csr_array, model: GaP, n_jobs: int | None, observation: Observation | None = None
) -> float:
    return comparison_log_likelihood(
        counts, model, seed=0, n_jobs=n_jobs, observation=observation
    ).total


@dataclass(frozen=True)
class FitResult:
    """The result of a fit."""

    model: GaP
    history: dict[str, NDArray[Any]]
    converged: bool
    warnings: tuple[FitWarning, ...] = ()
    exact: tuple[float, Certificate] | None = None
    """With exact moments: log p(X | W), and how near this is to a maximum."""
    activations: Array | None = None
    """(N, K), where they are fitted: by MJLE."""
    interrupted: bool = False
    last_gain: float | None = None
    """Monte Carlo: what the last window gained at most, in nats per token."""
    pseudo_count: float = 0.0
    """η of the prior on directions, as given or as chosen."""


def refuse_in_memory_only(settings: Settings) -> None:
    """Refuse algorithms that need all counts in memory."""
    if not settings.monte_carlo:
        raise InvalidInputError(
            f"algorithm={settings.algorithm!r} needs all counts in memory, but X is not: use one "
            f"of the algorithms {', '.join(map(repr, MONTE_CARLO))}, or read X into memory"
        )
    if settings.schedule == "online":
        raise InvalidInputError(
            "schedule='online' needs all counts in memory, but X is not: use partial_fit, which "
            "takes shards block by block, or schedule='adaptive'"
        )
    if settings.chooses_by_halves:
        raise InvalidInputError(
            "pseudo_count='auto' with schedule='posterior' compares halves of the samples, which "
            "needs all counts in memory, but X is not: give a number, such as pseudo_count=0.1"
        )


def apply_sample_weight(
    counts: sp.csr_array,
    sample_weight: Any,
    settings: Settings,
    observation: Observation | None = None,
) -> FitData:
    """Return the samples that count; with Monte Carlo each is repeated as often as it counts."""

    def taken(rows: NDArray[np.int64], weights: Array | None) -> FitData:
        own = None if observation is None else observation.take(rows)
        return FitData(counts[rows], weights, own)

    if sample_weight is None:
        return FitData(counts, None, observation)
    weights = as_float(sample_weight, "sample_weight", "numbers, one for each sample")
    if weights.shape != counts.shape[:1]:
        raise InvalidInputError(
            f"sample_weight must have shape {counts.shape[:1]}, one weight for each sample, "
            f"but has shape {weights.shape}"
        )
    check_entries(weights, "sample_weight")
    if not weights.any():
        raise InvalidInputError("sample_weight is zero for every sample: nothing is left to fit")
    if not settings.monte_carlo:
        return taken(np.flatnonzero(weights > 0), weights[weights > 0])
    fractional = np.flatnonzero(weights != np.floor(weights))
    if fractional.size:
        n = fractional[0]
        raise InvalidInputError(
            f"sample_weight[{n}] is {weights[n]:g}, but algorithm={settings.algorithm!r} needs "
            "whole numbers, because it draws each sample sample_weight times; use whole numbers, "
            f"or one of the algorithms {', '.join(map(repr, (*EXACT_MOMENTS, *OBJECTIVES)))}"
        )
    entries = float(np.diff(counts.indptr) @ weights)
    if entries > _MAX_ENTRIES:
        raise TooCostlyError(
            f"repeated by sample_weight, the samples have {entries:.2g} entries, but the limit is "
            f"{_MAX_ENTRIES:.0e}: divide the weights by a common factor"
        )
    rows = np.repeat(np.arange(weights.size), weights.astype(np.int64))
    return taken(rows, None)


def fit(
    data: FitData,
    settings: Settings,
    rng: np.random.Generator,
    *,
    n_jobs: int | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    resumed: FitState | None = None,
) -> FitResult:
    """Fit by the algorithm of the settings, or go on from a state that a checkpoint kept."""
    resumed = FitState(rng) if resumed is None else resumed
    if settings.schedule == "posterior" and settings.monte_carlo:
        _refuse_unobserved(data.observation)
    try:
        if settings.on_line and data.observation is not None:
            raise InvalidInputError(
                "schedule='online' fits neither exposures nor unobserved entries: use "
                "schedule='adaptive'"
            )
        if settings.monte_carlo:
            return _fit_monte_carlo(
                data, settings, rng, n_jobs, callbacks, checkpoint, resumed.monte_carlo
            )
        assert data.counts is not None
        if settings.ascent:
            if data.observation is not None:
                raise InvalidInputError(
                    f"algorithm={settings.algorithm!r} fits neither exposures nor unobserved "
                    "entries: use 'mcem-c', or for few components 'exact'"
                )
            best, interrupted = fit_ascent(
                data.counts,
                data.weights,
                settings,
                rng,
                n_jobs,
                callbacks,
                checkpoint,
                resumed.ascent,
            )
            return _to_result(settings, best, interrupted=interrupted)
        if checkpoint is not None:
            checkpoint.write(FitState(rng))
        expect = ExactExpectation(
            data.counts,
            n_jobs,
            settings.learn_alpha,
            data.weights,
            data.observation,
            settings.pseudo_count,
        )
        return _fit_exact(expect, settings, rng, callbacks)
    except GapmfError:
        if checkpoint is not None:
            checkpoint.discard()  # a new fit would be refused again
        raise


# Monte Carlo.


def _fit_monte_carlo(
    data: FitData,
    settings: Settings,
    rng: np.random.Generator,
    n_jobs: int | None,
    callbacks: Sequence[Callback],
    checkpoint: Checkpoint | None,
    resumed: MonteCarloState | None,
) -> FitResult:
    """Run all starts and keep the best. After Ctrl-C, return the model so far."""

    def score(model: GaP) -> float:
        return data.log_likelihood(model, n_jobs)

    best = None if resumed is None else resumed.best
    K, interrupted = settings.alpha.size, False
    has_prior = settings.pseudo_count > 0
    history = History()
    try:
        for i in range(0 if resumed is None else resumed.start, settings.n_init):
            history = History(callbacks, score, settings.score_every, prior=has_prior)
            if resumed is not None:
                history.restore(resumed.history)
                # For Ctrl-C before the next iteration:
                history.model, history.pseudo_count = resumed.run.model, resumed.run.pseudo_count
            seed, engine, schedule, state = _prepare(data, settings, rng, n_jobs, resumed)
            resumed = None
            for state in run_with_restarts(engine, schedule, settings, rng, state):  # noqa: B020
                is_iteration = state.n_iter > len(history)
                if is_iteration and history.add(
                    state.model,
                    n_sweeps=state.n_sweeps,
                    gain=state.gain,
                    pseudo_count=state.pseudo_count,
                ):
                    break
                if checkpoint is not None and checkpoint.is_due():
                    kept = MonteCarloState(i, best, seed, engine.state, history.arrays(K), state)
                    checkpoint.write_progress(FitState(rng, kept))
            stopped = history.stopped and not schedule.is_drawing
            model = state.model if stopped else final_model(schedule, state)
            # Priors with different η cannot be compared without their constants.
            no_prior = settings.choose_pseudo_count or schedule.is_drawing
            prior = model.log_prior(0.0 if no_prior else state.pseudo_count)
            del engine, schedule  # before the next start loads its own
            finished = FinishedStart(
                value=score(model) + prior if settings.n_init > 1 else 0.0,
                model=model,
                converged=state.converged,
                alike=state.alike,
                stopped=history.stopped,
                history=history.arrays(K),
                last_gain=state.last_gain,
                pseudo_count=state.pseudo_count,
            )
            if best is None or finished.value > best.value:
                best = finished
            if history.stopped:
                break
    except (KeyboardInterrupt, SystemError) as error:
        if not is_interruption(error) or (best is None and history.model is None):
            raise
        interrupted = True
        if best is None:
            best = interrupted_start(history)
    assert best is not None
    return _to_result(settings, best, interrupted=interrupted)


def _to_result(settings: Settings, best: FinishedStart, *, interrupted: bool) -> FitResult:
    """Return the result of a fit of which this start was the best."""
    n_iter = len(best.history["seconds"])
    return FitResult(
        best.model,
        best.history,
        best.converged,
        _warnings(settings, best, best.model, n_iter, interrupted=interrupted),
        activations=best.activations,
        interrupted=interrupted,
        last_gain=best.last_gain,
        pseudo_count=best.pseudo_count,
    )


def _prepare(
    data: FitData,
    settings: Settings,
    rng: np.random.Generator,
    n_jobs: int | None,
    resumed: MonteCarloState | None,
) -> tuple[int, Engine, Schedule, RunState]:
    """Load the counts into an engine, with a seed, for a new start or a resumed one."""
    seed = int(rng.integers(2**64, dtype=np.uint64)) if resumed is None else resumed.seed
    engine: Engine
    if data.engine is not None:
        data.engine.start(seed)
        engine = data.engine
    else:
        assert data.counts is not None
        engine = _engine_in_memory(data, settings, seed, n_jobs)
    if resumed is not None:
        engine.state = resumed.chains  # first: schedules depend on the samples that are in use
    halves = _halves(data, seed, n_jobs) if settings.chooses_by_halves else ()
    schedule = make_schedule(settings, engine, seed, halves)
    if resumed is not None:
        return seed, engine, schedule, resumed.run
    state = RunState(
        first_model(settings, engine, rng), schedule.start(), pseudo_count=settings.pseudo_count
    )
    return seed, engine, schedule, state


def _engine_in_memory(
    data: FitData, settings: Settings, seed: int, n_jobs: int | None
) -> LocalEngine | GrowingEngine:
    """Load counts into memory; "online" begins with a part of them, if they are many.

    Not if components are given: where all samples have been, a part would only add noise.
    """
    assert data.counts is not None
    if settings.on_line:
        (N, F), K = data.shape, settings.alpha.size
        sizes = part_sizes(N, float(data.counts.data.sum()), F, K)
        if len(sizes) > 1:
            sizes = sizes if isinstance(settings.init, str) else sizes[-1:]
            return GrowingEngine(data.counts, seed, sizes, n_jobs)
    return LocalEngine(n_jobs).load(data.counts, seed, observation=data.observation)


def _refuse_unobserved(observation: Observation | None) -> None:
    if observation is not None and observation.entries is not None:
        raise InvalidInputError(
            "schedule='posterior' draws the directions of components, whose law has no closed form "
            "with unobserved entries: use schedule='adaptive'"
        )


def _halves(data: FitData, seed: int, n_jobs: int | None) -> tuple[Half, ...]:
    """Divide the samples at random, by their content, so that copies of one stay together.

    Chains of the halves share no random numbers with each other or with the fit. Without two
    halves there are none.
    """
    counts = data.counts
    assert counts is not None
    keys = [stream_keys(counts, n, HALVES, 1)[0] for n in range(counts.shape[0])]
    in_second = np.array([key % 2 == 1 for key in keys])
    if in_second.all() or not in_second.any():
        return ()
    halves = []
    for i in range(2):
        rows = np.flatnonzero(in_second == bool(i))
        own = None if data.observation is None else data.observation.take(rows)
        other = (seed + 1 + i) % 2**64
        half = LocalEngine(n_jobs).load(counts[rows], other, observation=own)
        halves.append(Half(rows, half))
    return tuple(halves)


def run_with_restarts(
    engine: Engine,
    schedule: Schedule,
    settings: Settings,
    rng: np.random.Generator,
    first: RunState,
) -> Iterator[RunState]:
    """Run, on larger and larger parts of the samples if the engine has parts.

    Start again at a random point if all components have stayed alike.
    """
    may_restart = isinstance(settings.init, str) and settings.init == "mean"
    while True:
        last = first
        for last in run(engine, schedule, first, max_iter=settings.max_iter):
            yield last
        if last.converged and isinstance(engine, GrowingEngine) and not engine.is_whole:
            engine.grow()
            schedule = make_schedule(settings, engine)
            first = replace(last, last=None, converged=False, alike=False)
            continue
        if not (last.alike and may_restart and last.n_restarts < MAX_RESTARTS):
            return
        first = RunState(
            _starting_model("random", settings, engine, rng),
            schedule.start(),
            n_iter=last.n_iter,
            n_sweeps=last.n_sweeps,
            near_end=True,
            n_restarts=last.n_restarts + 1,
            pseudo_count=last.pseudo_count,
        )


def first_model(settings: Settings, engine: Engine, rng: np.random.Generator) -> GaP:
    """Return where chains start: the paper's point as it is, since Monte Carlo noise leaves it."""
    if not isinstance(settings.init, str):
        return GaP(settings.init, settings.alpha, settings.beta)
    return _starting_model(settings.init, settings, engine, rng)


def _starting_model(kind: str, settings: Settings, engine: Engine, rng: np.random.Generator) -> GaP:
    mean_counts = engine.mean_counts
    if kind == "mean":
        W = start.mean_start(mean_counts, settings.alpha, settings.beta)
    else:
        W = start.random_start(mean_counts, settings.alpha, settings.beta, rng)
    return GaP(W, settings.alpha, settings.beta)


# Exact moments.


def _fit_exact(
    expect: ExactExpectation,
    settings: Settings,
    rng: np.random.Generator,
    callbacks: Sequence[Callback],
) -> FitResult:
    try:
        found = search(expect, settings, rng, callbacks)
    except TooCostlyError as error:
        raise TooCostlyError(f"{error}; or use Monte Carlo, with algorithm='mcem-c'") from error
    fitted = found.fit
    return FitResult(
        fitted.model,
        found.history.arrays(settings.alpha.size),
        fitted.converged,
        _warnings(settings, found, fitted.model, len(found.history), interrupted=found.interrupted),
        (fitted.expectation.log_likelihood, certify(expect, fitted.model, fitted.expectation)),
        interrupted=found.interrupted,
        pseudo_count=settings.pseudo_count,
    )


_ALL_ALIKE = (
    "all components are equal up to noise, from the symmetric starting point and from "
    f"{MAX_RESTARTS} random restarts: one component may be enough; otherwise try another "
    "random_state"
)
_STUCK = (
    "the fit did not leave its symmetric starting point: all components are the same up to scale, "
    "though better ones exist; try another random_state or init='random'"
)


def _warnings(
    settings: Settings,
    result: FinishedStart | SearchResult,
    model: GaP,
    n_iter: int,
    *,
    interrupted: bool,
) -> tuple[FitWarning, ...]:
    """Return what to warn of after a fit."""
    stopped_early = f"{settings.algorithm} stopped after {n_iter} iterations"
    found = []
    if isinstance(result, FinishedStart):
        said = _ALL_ALIKE if settings.monte_carlo else _STUCK
        too_costly, alike = "", said if result.alike else ""
        endless = settings.monte_carlo and settings.schedule == "paper"
        unfinished = not (endless or result.converged or result.stopped)
    else:
        too_costly, alike = result.fit.too_costly, _STUCK if result.stuck else ""
        unfinished = not result.fit.converged and not result.history.stopped
    if interrupted:
        found.append(
            f"{settings.algorithm} was interrupted after {n_iter} iterations: this is the model "
            "so far"
        )
    elif too_costly:
        found.append(f"{stopped_early}, because with the next learned alpha {too_costly}")
    elif unfinished:
        advice = "raise max_iter" + (" or tol" if settings.algorithm != "exact" else "")
        found.append(f"{stopped_early} before it converged: {advice}")
    found += [alike] if alike else []
    warnings = tuple(FitWarning(message) for message in found)
    at_bound = alpha_bound_warning(model) if settings.learn_alpha else None
    return warnings if at_bound is None else (*warnings, FitWarning(at_bound, UserWarning))
