"""Runs of on-line EM over samples in memory: growing parts of them, windows, and when to stop.

The samples are shuffled into mini-batches, and chains are kept from visit to visit. Components form
on a random part of the samples, by EM with momentum as in the adaptive schedule; the part grows
from time to time. On-line EM over all samples goes on from there. (It could begin at once, but then
components form from the noise of the first mini-batches, and more often at a lower maximum: design
note 0016.) Its passes make windows, whose gains are measured and compared with `tol` as in the
adaptive schedule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.em.averages import Averages, averages_at, continued
from gapmf.em.gain import EStep, gain
from gapmf.em.m_steps import m_step_for
from gapmf.em.monte_carlo import NATS_PER_PARAMETER
from gapmf.em.online import model_for, only_met, step
from gapmf.em.schedules import (
    AVERAGED_FRACTION,
    EVALUATION,
    Adaptive,
    AdaptiveProgress,
    StoppingRule,
)
from gapmf.em.settings import Settings
from gapmf.em.start import are_alike, mean_start, random_start
from gapmf.engines.base import State, Statistics, Sweeps, add_given
from gapmf.engines.local import LocalEngine
from gapmf.model import GaP

EXPONENT, DELAY = 0.5, 4.0  # γ_t = (t + DELAY)^-EXPONENT
BATCH = 2000  # samples of a mini-batch, at most
FIRST_PART = 8  # mini-batches
FEWEST = 32  # mini-batches, if there are as many samples
GROWTH = 4  # of the part
FIRST_PASSES, MORE_PASSES = 60, 20  # over the first part, and over each of the others
N_BEFORE = 64  # mini-batches that a model stands for when on-line EM begins
BURN_IN = 2  # sweeps of a chain at its first visit; every visit then accumulates one
WINDOW_STEPS = 20.0  # a window has passes with at least this sum of γ
SHORTEST_WINDOW = 3  # passes
MAX_DRAWS = 16  # sweeps of an evaluation; a gain that is unclear then is not worth more
MAX_RESTARTS = 2  # at a random point, when all components stay alike


@dataclass(frozen=True)
class OnlineProgress:
    """Where a run is. With the chains, this is all that the next mini-batch needs.

    A mini-batch takes over the arrays: go on from the latest progress only.
    """

    averages: Averages | None
    """None while components form on a part of the samples."""
    n_batches: int
    """Mini-batches of the present part."""
    model: GaP | None = None
    """The model until then."""
    momentum: AdaptiveProgress | None = None
    n_iter: int = 0
    """Passes so far, over whatever part."""
    place: int = 0
    """Mini-batches of the present pass so far."""
    n_part: int = 0
    """Passes since the part was last enlarged."""
    n_swept: int = 0
    """Sweeps of single samples so far."""
    factor: float = 1.0
    """Of γ: halved where noise limits the progress."""
    length: int = 0
    """Passes of the present window; 0 before the first one."""
    passed: Statistics | None = None
    """Σ of the statistics of the present pass, in a window."""
    window: Statistics | None = None
    """Σ of the statistics of the window's passes."""
    tail: Statistics | None = None
    """Σ of those that are averaged to judge the window."""
    n_window: int = 0
    """Its passes so far."""
    gammas: float = 0.0
    """The sum of its γ so far."""
    n_draws: int = EVALUATION
    """Sweeps of the E-step that evaluates the window."""
    last: EStep | None = None
    """The E-step that evaluated the window before."""
    gain: float = np.nan
    """Its gain and twice the error, in nats per token and full step."""
    last_gain: float | None = None
    """The same, of the whole window: in nats per token."""
    n_restarts: int = 0
    converged: bool = False
    alike: bool = False


class Batches:
    """Counts in mini-batches of shuffled samples, each with its chains.

    The order of samples and the streams of the chains follow from the seed.
    """

    def __init__(self, counts: sp.csr_array, seed: int, n_jobs: int | None) -> None:
        N = counts.shape[0]
        self._seed, self._n_jobs = seed, n_jobs
        rows = np.random.default_rng(seed).permutation(N)
        size = min(BATCH, max(1, N // FEWEST))
        self.first = np.linspace(0, N, max(1, round(N / size)) + 1).astype(np.int64)
        self.n_samples = N
        self.totals = np.bincount(
            counts.indices, weights=counts.data, minlength=counts.shape[1]
        ).astype(np.float64)
        self._features: list[NDArray[np.int64]] = []
        self._engines: list[LocalEngine] = []
        for a, b in pairwise(self.first.tolist()):
            features, met = only_met(sp.csr_array(counts[rows[a:b]]))
            self._features.append(features)
            self._engines.append(LocalEngine(n_jobs).load(met, seed, first_sample=a))

    def __len__(self) -> int:
        return len(self._engines)

    def order(self, n_iter: int, n_batches: int) -> NDArray[np.int64]:
        """Return the order of the first mini-batches in a pass."""
        rng = np.random.default_rng([self._seed, n_iter])
        return np.asarray(rng.permutation(n_batches))

    def size(self, b: int) -> int:
        """Return the number of samples of a mini-batch."""
        return self._engines[b].n_samples

    def features(self, b: int) -> NDArray[np.int64]:
        """Return the features of a mini-batch."""
        return self._features[b]

    def is_new(self, b: int) -> bool:
        """Return whether a mini-batch was never visited."""
        return self._engines[b].state.iteration == 0

    def advance(self, b: int, model: GaP, sweeps: Sweeps) -> Statistics:
        """One E-step of a mini-batch, at the model of its features."""
        return self._engines[b].advance(model, sweeps)

    def evaluate(self, model: GaP, sweeps: Sweeps, n_batches: int) -> Statistics:
        """One E-step of the first mini-batches at one model."""
        at = averages_at(model, model.W @ (model.alpha / model.beta), 1)
        total = nothing(model.W.shape, sizes=sweeps.sizes)
        for b, features in enumerate(self._features[:n_batches]):
            s = self.advance(b, model_for(at, features), sweeps)
            total.c_sum[features] += s.c_sum[:-1]
            total = _with_rest(total, s)
        return total

    @property
    def chains(self) -> tuple[State, ...]:
        """The states of all chains; they can be set."""
        return tuple(engine.state for engine in self._engines)

    @chains.setter
    def chains(self, states: Sequence[State]) -> None:
        for engine, state in zip(self._engines, states, strict=True):
            engine.state = state


def nothing(shape: tuple[int, ...], *, sizes: bool) -> Statistics:
    """Return statistics of no sample, with an array c_sum that can be added to."""
    none = np.zeros((shape[1], 0), dtype=np.int64) if sizes else None
    return Statistics(np.zeros(shape), np.zeros(shape[1]), 0.0, sizes=none)


def _with_rest(total: Statistics, s: Statistics) -> Statistics:
    """Add the statistics of a mini-batch, but for c_sum, which has been added already."""
    return replace(
        total,
        h_sum=total.h_sum + s.h_sum,
        n_draws=total.n_draws + s.n_draws,
        sizes=add_given(total.sizes, s.sizes),
    )


def start(batches: Batches, settings: Settings, rng: np.random.Generator) -> OnlineProgress:
    """Return the progress at the beginning of a run."""
    if isinstance(settings.init, str):
        make = mean_start if settings.init == "mean" else partial(random_start, rng=rng)
        W = make(batches.totals / batches.n_samples, settings.alpha, settings.beta)
        model = GaP(W, settings.alpha, settings.beta)
        n_batches = FIRST_PART if len(batches) > FEWEST else len(batches)
        return OnlineProgress(None, n_batches, model, _with_momentum(batches, settings).start())
    # Components that were given stand for a pass over all samples, and nothing has to form.
    model = GaP(settings.init, settings.alpha, settings.beta)
    return _on_line(batches, OnlineProgress(None, len(batches)), model)


def _with_momentum(batches: Batches, settings: Settings) -> Adaptive:
    return Adaptive(
        m_step_for("mcem-c", settings.learn_alpha),
        settings.learn_alpha is not None,
        _stopping_rule(settings, batches),
        mean_counts=batches.totals / batches.n_samples,
        n_components=settings.alpha.size,
    )


def _on_line(batches: Batches, progress: OnlineProgress, model: GaP) -> OnlineProgress:
    """Go on with on-line EM over all samples from a model."""
    averages = averages_at(model, batches.totals, batches.n_samples, n_before=N_BEFORE)
    progress = replace(
        progress, averages=averages, n_batches=len(batches), model=None, momentum=None
    )
    return _new_window(progress)


def run(
    batches: Batches, settings: Settings, rng: np.random.Generator, progress: OnlineProgress
) -> Iterator[OnlineProgress]:
    """Run on-line EM, yielding the new progress after every mini-batch and every evaluation."""
    stopping = _stopping_rule(settings, batches)
    while not progress.converged and progress.n_iter < settings.max_iter:
        if progress.averages is None:
            progress = form_components(batches, settings, progress)
        elif progress.place == 0 and progress.n_window == progress.length:
            progress = evaluate_window(batches, settings, stopping, progress)
            may_restart = isinstance(settings.init, str) and settings.init == "mean"
            if progress.alike and may_restart and progress.n_restarts < MAX_RESTARTS:
                first = start(batches, replace(settings, init="random"), rng)
                progress = replace(
                    first,
                    n_iter=progress.n_iter,
                    n_swept=progress.n_swept,
                    n_restarts=progress.n_restarts + 1,
                )
        else:
            progress = visit(batches, settings, progress)
        yield progress


def form_components(
    batches: Batches, settings: Settings, progress: OnlineProgress
) -> OnlineProgress:
    """Make one step of EM with momentum on the present part of the samples."""
    model, schedule = progress.model, _with_momentum(batches, settings)
    assert model is not None
    assert progress.momentum is not None
    n, sweeps = progress.n_batches, schedule.sweeps(progress.momentum)
    s = batches.evaluate(model, sweeps, n)
    # Features that only other samples have stay as they are.
    missing = (s.c_sum.sum(axis=1) == 0.0) & (batches.totals > 0.0)
    s.c_sum[missing] = s.n_draws * (model.alpha / model.beta) * model.W[missing]
    model, momentum = schedule.step(progress.momentum, model, s)
    progress = replace(
        progress,
        model=model,
        momentum=momentum,
        n_iter=progress.n_iter + 1,
        n_part=progress.n_part + 1,
        n_swept=progress.n_swept + int(batches.first[n]),
    )
    first = n == (FIRST_PART if len(batches) > FEWEST else len(batches))
    if progress.n_part < (FIRST_PASSES if first else MORE_PASSES):
        return progress
    if 2 * GROWTH * n <= len(batches):
        return replace(progress, n_batches=GROWTH * n, n_part=0)
    return _on_line(batches, progress, model)


def visit(batches: Batches, settings: Settings, progress: OnlineProgress) -> OnlineProgress:
    """Visit the next mini-batch: an E-step of its samples, and a step of the averages."""
    b = int(batches.order(progress.n_iter, progress.n_batches)[progress.place])
    features, averages = batches.features(b), progress.averages
    assert averages is not None
    sizes = settings.learn_alpha is not None
    sweeps = Sweeps(1, BURN_IN if batches.is_new(b) else 0, expectations=True, sizes=sizes)
    s = batches.advance(b, model_for(averages, features), sweeps)
    passed = progress.passed
    if passed is None:
        passed = nothing(averages.shares.shape, sizes=sizes)
    gamma = step_size(progress)
    averages = step(
        averages,
        features,
        s,
        gamma,
        n_samples=batches.size(b),
        learn_alpha=settings.learn_alpha,
        sums=passed.c_sum,
    )
    progress = replace(
        progress,
        averages=averages,
        place=progress.place + 1,
        n_swept=progress.n_swept + batches.size(b) * (sweeps.n_burn_in + sweeps.n_draws),
        passed=_with_rest(passed, s),
        gammas=progress.gammas + gamma,
    )
    return _end_pass(progress) if progress.place == progress.n_batches else progress


def step_size(progress: OnlineProgress) -> float:
    """Return γ of the next mini-batch."""
    assert progress.averages is not None
    return float(progress.factor * (progress.averages.t + DELAY) ** -EXPONENT)


def _end_pass(progress: OnlineProgress) -> OnlineProgress:
    """End a pass: add it to the window."""
    passed, window, tail, n = (
        progress.passed,
        progress.window,
        progress.tail,
        progress.n_window + 1,
    )
    assert passed is not None
    window = passed if window is None else window + passed
    if n > progress.length - progress.length // AVERAGED_FRACTION:
        tail = passed if tail is None else tail + passed
    return replace(
        progress,
        place=0,
        n_iter=progress.n_iter + 1,
        passed=None,
        window=window,
        tail=tail,
        n_window=n,
    )


def _new_window(progress: OnlineProgress) -> OnlineProgress:
    """Begin a window, of so many passes that their γ add up to some full steps of EM."""
    length = math.ceil(WINDOW_STEPS / (progress.n_batches * step_size(progress)))
    return replace(
        progress,
        length=max(length, SHORTEST_WINDOW),
        window=None,
        tail=None,
        n_window=0,
        gammas=0.0,
    )


def evaluate_window(
    batches: Batches, settings: Settings, stopping: StoppingRule, progress: OnlineProgress
) -> OnlineProgress:
    """End a window: an E-step at its average tells its gain, and that tells how to go on."""
    m_step = m_step_for("mcem-c", settings.learn_alpha)
    averages = progress.averages
    assert averages is not None
    assert progress.tail is not None
    model = m_step(progress.tail, averages.model())
    sizes = settings.learn_alpha is not None
    here = EStep(
        model,
        batches.evaluate(
            model, Sweeps(progress.n_draws, expectations=True, sizes=sizes), len(batches)
        ),
        progress.n_draws,
    )
    before, n_steps, window = progress.last, progress.gammas, progress.window
    progress = replace(
        progress, last=here, n_swept=progress.n_swept + progress.n_draws * batches.n_samples
    )
    if before is None:
        return _new_window(progress)
    gained = gain(before, here)
    n_tokens = max(float(batches.totals.sum()), 1.0)
    progress = replace(
        progress, gain=gained.largest / (n_tokens * n_steps), last_gain=gained.largest / n_tokens
    )
    is_unclear = stopping.is_in_doubt(gained, n_steps)
    if stopping.is_met(gained, n_steps) or (is_unclear and progress.n_draws >= MAX_DRAWS):
        alike = are_alike(here.statistics, batches.n_samples)
        return replace(progress, window=window, converged=True, alike=alike)
    if is_unclear:  # noise is the limit: shorter steps, from the average
        averages = continued(model, averages)
        progress = replace(
            progress, averages=averages, factor=progress.factor / 2.0, n_draws=2 * progress.n_draws
        )
    return _new_window(progress)


def model_so_far(progress: OnlineProgress) -> GaP:
    """Return the model at which the next E-step is made."""
    if progress.averages is not None:
        return progress.averages.model()
    assert progress.model is not None
    return progress.model


def final_model(settings: Settings, progress: OnlineProgress) -> GaP:
    """Return the model of a run that has ended: the average of its last window, if it has one."""
    model = model_so_far(progress)
    if progress.window is None:
        return model
    return m_step_for("mcem-c", settings.learn_alpha)(progress.window, model)


def _stopping_rule(settings: Settings, batches: Batches) -> StoppingRule:
    n_parameters = settings.alpha.size * int((batches.totals > 0).sum())
    return StoppingRule(
        per_sweep=settings.tol * float(batches.totals.sum()),
        in_all=settings.tol * NATS_PER_PARAMETER * n_parameters,
    )
