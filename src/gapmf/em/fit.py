"""Fits with exact moments: starts, climbs, and the best of them improved.

From counts and settings to a fit: starts, the best of them, and what there is to say of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from gapmf.em import monte_carlo, start
from gapmf.em.alpha import alpha_bound_warning, em_c_alpha_step
from gapmf.em.exact_em import STEPS, Fit, fit_em
from gapmf.em.expectation import ExactExpectation, plan_sizes
from gapmf.em.history import History
from gapmf.em.maximum import WARM_UP, Certificate, certify, fit_maximum, improve
from gapmf.em.settings import Settings
from gapmf.em.state import pack_model, pack_rng, unpack_model
from gapmf.em.walk import Outcome
from gapmf.engines.base import State
from gapmf.engines.local import LocalEngine
from gapmf.errors import GapmfError, InvalidInputError, TooCostlyError
from gapmf.likelihood.marginal import comparison_log_likelihood
from gapmf.model import GaP
from gapmf.storage.checkpoint import Checkpoint, fingerprint
from gapmf.types import Array, Tree
from gapmf.validation import as_float, check_entries


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


_MOST_ENTRIES = 1e9


class Note(NamedTuple):
    """Something to warn of."""

    message: str
    category: type[Warning] = ConvergenceWarning


@dataclass(frozen=True)
class Task:
    """What there is to fit."""

    X: Any
    """As it came, for the names of its features."""
    counts: sp.csr_array
    weights: Array | None
    """How many times each sample counts, if not once."""
    settings: Settings

    def feature_counts(self) -> Array:
        """Σ_n x_nf, (F,)."""
        weights = np.ones(self.counts.shape[0]) if self.weights is None else self.weights
        return np.asarray(self.counts.T @ weights)

    def fingerprint(self) -> str:
        """A hash of the data."""
        return fingerprint(self.counts, self.weights)


@dataclass(frozen=True)
class Fitted:
    """What a fit leaves."""

    model: GaP
    history: History
    converged: bool
    notes: tuple[Note, ...] = ()
    exact: tuple[float, Certificate] | None = None
    """With exact moments: log p(X | W), and how near this is to a maximum."""
    interrupted: bool = False


def weigh(
    counts: sp.csr_array, sample_weight: Any, settings: Settings
) -> tuple[sp.csr_array, Array | None]:
    """The samples that count, and how many times; with Monte Carlo each comes as often."""
    if sample_weight is None:
        return counts, None
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
        return counts[weights > 0], weights[weights > 0]
    odd = np.flatnonzero(weights != np.floor(weights))
    if odd.size:
        raise InvalidInputError(
            f"sample_weight[{odd[0]}] is {weights[odd[0]]:g}, but with "
            f"algorithm={settings.algorithm!r} weights must be whole numbers, since a sample is "
            "drawn for as many times as it counts; with exact moments any will do"
        )
    entries = float(np.diff(counts.indptr) @ weights)
    if entries > _MOST_ENTRIES:
        raise TooCostlyError(
            f"sample_weight repeats samples to {entries:.2g} entries in all, but at most "
            f"{_MOST_ENTRIES:.0e} can be drawn for: divide the weights by a common factor"
        )
    return counts[np.repeat(np.arange(weights.size), weights.astype(np.int64))], None


def fit_task(
    task: Task,
    settings: Settings,
    rng: np.random.Generator,
    n_jobs: int | None,
    checkpoint: Checkpoint | None,
    begun: Tree | None,
) -> Fitted:
    """Fit by the algorithm of the settings, or go on from where a checkpoint `begun` it."""
    try:
        if settings.monte_carlo:
            return Draws(task.counts, settings, rng, n_jobs, checkpoint)(begun)
        if checkpoint is not None:
            checkpoint.write({"rng": pack_rng(rng), "walk": None})
        expect = ExactExpectation(task.counts, n_jobs, settings.learn_alpha, task.weights)
        return integrate(expect, settings, rng)
    except GapmfError:
        if checkpoint is not None:
            checkpoint.discard()  # a new fit would be refused again
        raise


class _Start(NamedTuple):
    """A start that has ended."""

    value: float
    """The log-likelihood by which starts are compared."""
    outcome: Outcome
    history: History

    def pack(self) -> Tree:
        outcome = self.outcome
        return {
            "value": self.value,
            "model": pack_model(outcome.model),
            "converged": outcome.converged,
            "alike": outcome.alike,
            "history": self.history.pack(),
        }

    @classmethod
    def unpack(cls, tree: Tree, history: History) -> _Start:
        history.unpack(tree["history"])
        outcome = Outcome(unpack_model(tree["model"]), tree["converged"], tree["alike"])
        return cls(tree["value"], outcome, history)


class Draws:
    """A fit by Monte Carlo: all its starts.

    Parameters
    ----------
    counts : csr_array, (N, F), checked
    settings : Settings
    rng : Generator
    n_jobs : int, optional
    checkpoint : Checkpoint, optional
    """

    def __init__(
        self,
        counts: sp.csr_array,
        settings: Settings,
        rng: np.random.Generator,
        n_jobs: int | None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._counts, self._settings, self._rng = counts, settings, rng
        self._n_jobs, self._checkpoint = n_jobs, checkpoint
        self._best: _Start | None = None
        self._history = self._new_history()

    def __call__(self, begun: Tree | None = None) -> Fitted:
        """Fit, or go on from what a checkpoint holds. After Ctrl-C: with the model so far."""
        interrupted = False
        try:
            self._all_starts(begun)
        except KeyboardInterrupt:
            if self._best is None and self._history.model is not None:
                outcome = Outcome(self._history.model, False, False)
                self._best = _Start(0.0, outcome, self._history)
            if self._best is None:
                raise
            interrupted = True
        assert self._best is not None
        _, outcome, history = self._best
        notes = self._notes(outcome, history, interrupted=interrupted)
        return Fitted(outcome.model, history, outcome.converged, notes, interrupted=interrupted)

    def _all_starts(self, begun: Tree | None) -> None:
        first = 0
        if begun is not None:
            first = begun["start"]
            if begun["best"] is not None:
                self._best = _Start.unpack(begun["best"], self._new_history())
        for i in range(first, self._settings.n_init):
            outcome = self._one_start(i, begun if i == first else None)
            many = self._settings.n_init > 1
            value = self._value(outcome.model) if many else 0.0
            if self._best is None or value > self._best.value:
                self._best = _Start(value, outcome, self._history)
            if self._history.stopped:
                break

    def _one_start(self, i: int, begun: Tree | None) -> Outcome:
        self._history = history = self._new_history()
        engine = LocalEngine(self._n_jobs)
        if begun is None:
            seed = int(self._rng.integers(2**64, dtype=np.uint64))
            engine.load(self._counts, seed)
        else:
            seed = begun["seed"]
            engine.load(self._counts, seed).state = State(begun["L"], begun["iteration"])
            history.unpack(begun["history"])

        def keep(make: Callable[[], Tree]) -> None:
            assert self._checkpoint is not None
            self._checkpoint.write_if_due(self._pack(i, seed, engine, history, make))

        return monte_carlo.fit(
            engine,
            self._settings,
            self._rng,
            history,
            keep if self._checkpoint is not None else None,
            None if begun is None else begun["walk"],
        )

    def _pack(
        self, i: int, seed: int, engine: LocalEngine, history: History, make: Callable[[], Tree]
    ) -> Tree:
        return {
            "start": i,
            "best": None if self._best is None else self._best.pack(),
            "rng": pack_rng(self._rng),
            "seed": seed,
            "L": engine.state.L,
            "iteration": engine.state.iteration,
            "history": history.pack(),
            "walk": make(),
        }

    def _new_history(self) -> History:
        settings = self._settings
        return History(settings.callbacks, score=self._value, every=settings.score_every)

    def _value(self, model: GaP) -> float:
        """The log-likelihood by which starts are compared: for all from the same seed."""
        return comparison_log_likelihood(
            self._counts, model, 0, self._n_jobs, n_particles=256
        ).total

    def _notes(self, outcome: Outcome, history: History, *, interrupted: bool) -> tuple[Note, ...]:
        settings = self._settings
        notes = []
        if interrupted:
            notes.append(_of_interruption(settings, len(history)))
        elif settings.schedule != "paper" and not outcome.converged and not history.stopped:
            notes.append(_of_max_iter(settings, len(history), "raise max_iter or tol"))
        if outcome.alike:
            notes.append(
                Note(
                    "the fit did not leave its symmetric starting point, nor did it from random "
                    "ones: all components are the same but for noise, so that one may be enough"
                )
            )
        return (*notes, *_of_alpha(settings, outcome.model))


def integrate(expect: ExactExpectation, settings: Settings, rng: np.random.Generator) -> Fitted:
    """A fit with exact moments."""
    try:
        found = search(expect, settings, rng)
    except TooCostlyError as error:
        raise TooCostlyError(
            f"{error}; or draw instead of integrating, with algorithm='mcem-c'"
        ) from error
    fit = found.fit
    return Fitted(
        fit.model,
        found.history,
        fit.converged,
        _notes_of_search(found, settings),
        (fit.expectation.log_likelihood, certify(expect, fit.model, fit.expectation)),
        found.interrupted,
    )


def _notes_of_search(found: Search, settings: Settings) -> tuple[Note, ...]:
    fit, n_iter = found.fit, len(found.history)
    notes = []
    if found.interrupted:
        notes.append(_of_interruption(settings, n_iter))
    elif fit.too_costly:
        notes.append(
            Note(
                f"{settings.algorithm} stopped after {n_iter} iterations, at a learned alpha "
                f"beyond which {fit.too_costly}"
            )
        )
    elif not fit.converged and not found.history.stopped:
        exact = settings.algorithm == "exact"
        advice = "raise max_iter" if exact else "raise max_iter or tol"
        notes.append(_of_max_iter(settings, n_iter, advice))
    if found.stuck:
        notes.append(
            Note(
                "the fit did not leave its symmetric starting point: all components are the same "
                "up to scale, and others are better; try another random_state or init='random'"
            )
        )
    return (*notes, *_of_alpha(settings, fit.model))


def _of_max_iter(settings: Settings, n_iter: int, advice: str) -> Note:
    return Note(
        f"{settings.algorithm} stopped after {n_iter} iterations before it converged: {advice}"
    )


def _of_interruption(settings: Settings, n_iter: int) -> Note:
    return Note(
        f"{settings.algorithm} was interrupted after {n_iter} iterations: this is the model so far"
    )


def _of_alpha(settings: Settings, model: GaP) -> tuple[Note, ...]:
    """A learned α at its bound."""
    ended = alpha_bound_warning(model) if settings.learn_alpha else None
    return (Note(ended, UserWarning),) if ended else ()
