"""Schedules of Monte Carlo EM that watch what they gain: "adaptive" and "saem".

Both go in windows of iterations. At the end of a window an E-step tells what was gained since the
end of the window before, and how surely. No decision reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gapmf.em.gain import Gain, Point, gain
from gapmf.em.momentum import Momentum
from gapmf.em.record import History
from gapmf.em.start import are_alike
from gapmf.engines.base import Engine, Sweeps
from gapmf.m_steps import Statistics
from gapmf.model import GaP

Array = NDArray[np.float64]
MStep = Callable[[Statistics, GaP], GaP]

ERRORS = 2.0  # a gain below so many standard errors cannot be told from none
RESTARTS = 2  # at a random point, when all components stay alike
MOST_DRAWS = 1024  # sweeps an iteration: what cannot be told from nothing then is not worth more
DAMPING = 0.75  # "saem": the j-th step of a window has size j^-0.75


@dataclass(frozen=True)
class Rule:
    """When to stop: what a window may gain at most, in nats.

    `a_sweep` for each sweep of the window that moved the model, and not more than `in_all`
    however many they are.
    """

    a_sweep: float
    in_all: float

    def met(self, gained: Gain, n_sweeps: float) -> bool:
        """Whether so little was gained, surely."""
        most = abs(gained.estimate) + ERRORS * gained.error
        return most <= min(self.a_sweep * n_sweeps, self.in_all)


class Turn(Enum):
    """How to go on after a window."""

    ON = auto()
    """From its last model."""
    FROM_REST = auto()
    """From its resting point."""
    STOP = auto()


class Pace(Protocol):
    """How a schedule walks."""

    n_iter: int
    """Iterations of a window."""
    n_draws: int
    """Sweeps of an iteration."""

    @property
    def n_look(self) -> int:
        """Sweeps that tell what a window gained."""

    @property
    def way(self) -> float:
        """The sweeps of a window, each as far as it may move the model."""

    def begin(self) -> None:
        """Start at a new point."""

    def settle(self) -> None:
        """Look for little noise rather than for new ways."""

    def step(self, model: GaP, statistics: Statistics) -> GaP:
        """The next model, from an E-step at this one."""

    def resting_point(self, model: GaP, total: Statistics) -> GaP:
        """What a window has come to: its last model, or what all its statistics say."""

    def turn(self, gained: Gain, little: bool) -> Turn:
        """What to do after a window that gained so much."""


class Adaptive:
    """One sweep an iteration, with momentum, for as long as distance limits the progress.

    When what a window gained cannot be told from nothing, noise limits it: the sweeps of an
    iteration are doubled. At first no entry of W falls below a small share of its feature, so
    that it may still return; when the rule has been met, it has to be met again without.
    """

    def __init__(self, m_step: MStep, mean_counts: Array | None, n_components: int) -> None:
        self._m_step = m_step
        self._momentum = Momentum(mean_counts)
        self._floor = 0.01 / n_components
        self.begin()

    def begin(self) -> None:
        """Start at a new point."""
        self._momentum.rest()
        self._momentum.floor = self._floor
        self._draw(1)

    @property
    def n_look(self) -> int:
        """Sweeps that tell what a window gained."""
        return self.n_draws

    @property
    def way(self) -> float:
        """The sweeps of a window."""
        return (self.n_iter + 1.0) * self.n_draws

    def settle(self) -> None:
        """Look for little noise rather than for new ways."""
        self._momentum.floor = 0.0
        self._draw(4)
        self.n_iter = 20

    def _draw(self, n_draws: int) -> None:
        self.n_draws = n_draws
        self.n_iter = 20 if n_draws == 1 else 40
        # The less noise there is, the less of it a longer memory adds up.
        self._momentum.friction = 0.25 if n_draws < 8 else 0.1

    def step(self, model: GaP, statistics: Statistics) -> GaP:
        """The next model, from an E-step at this one."""
        return self._momentum.step(model, self._m_step(statistics, model))

    def resting_point(self, model: GaP, total: Statistics) -> GaP:
        """What all statistics of the window say: their noise has averaged out."""
        return self._m_step(total, model)

    def turn(self, gained: Gain, little: bool) -> Turn:
        """What to do after a window that gained so much."""
        unclear = abs(gained.estimate) <= ERRORS * gained.error
        if little or (unclear and self.n_draws >= MOST_DRAWS):
            if not self._momentum.floor:
                return Turn.STOP
            self._momentum.floor = 0.0
            return Turn.FROM_REST
        if unclear:
            self._draw(2 * self.n_draws)
            return Turn.FROM_REST
        return Turn.ON


class Saem:
    """Stochastic approximation EM: statistics are averaged from iteration to iteration.

    s̄ ← s̄ + γ (s − s̄). γ = 1, so there is no memory, and an iteration has one sweep, until the
    gain of a window is little or cannot be told from nothing. From there γ = j^-0.75 in the j-th
    iteration of a window, and when its gain cannot be told from nothing the sweeps of an
    iteration are doubled: where γ went on falling instead, as in the textbook, steps would become
    small before the maximum is near. What a window may gain is counted by the sum of its γ, the
    number of full steps it is worth: small steps gain little anywhere.
    """

    n_iter = 20

    def __init__(self, m_step: MStep) -> None:
        self._m_step = m_step
        self.begin()

    def begin(self) -> None:
        """Start at a new point."""
        self._mean: Statistics | None = None
        self._averaging = False
        self.n_draws = 1
        self._rewind()

    def _rewind(self) -> None:
        self._j = 1
        self._way = 0.0

    @property
    def n_look(self) -> int:
        """Sweeps that tell what a window gained."""
        return self.n_draws

    @property
    def way(self) -> float:
        """The sum of the window's γ."""
        return self._way

    def settle(self) -> None:
        """Look for little noise rather than for new ways."""
        self._averaging = True
        self._rewind()

    def step(self, model: GaP, statistics: Statistics) -> GaP:
        """The next model, from an E-step at this one."""
        size = self._j**-DAMPING if self._averaging else 1.0
        self._mean = statistics if self._mean is None else self._mean.moved_to(statistics, size)
        self._j += 1
        self._way += size
        return self._m_step(self._mean, model)

    def resting_point(self, model: GaP, total: Statistics) -> GaP:
        """The last model of the window."""
        return model

    def turn(self, gained: Gain, little: bool) -> Turn:
        """What to do after a window that gained so much."""
        unclear = abs(gained.estimate) <= ERRORS * gained.error
        if self._averaging and (little or (unclear and self.n_draws >= MOST_DRAWS)):
            return Turn.STOP
        if self._averaging and unclear:
            self.n_draws *= 2
        self._averaging = self._averaging or little or unclear
        self._rewind()
        return Turn.ON


@dataclass(frozen=True)
class Outcome:
    """What a schedule came to; `alike` if all components stayed the same."""

    model: GaP
    converged: bool
    alike: bool


class Walk:
    """A fit by one of the paces.

    Parameters
    ----------
    engine, pace, rule
    sizes : bool
        Whether M-steps need the histogram of L.
    restart : callable, optional
        Makes a model to start from when all components have stayed alike.
    """

    def __init__(
        self,
        engine: Engine,
        pace: Pace,
        rule: Rule,
        *,
        sizes: bool,
        restart: Callable[[], GaP] | None,
        max_iter: int,
        history: History,
    ) -> None:
        self._engine, self._pace, self._rule = engine, pace, rule
        self._sizes, self._restart = sizes, restart
        self._max_iter, self._history = max_iter, history
        self._n_sweeps = 0

    def __call__(self, model: GaP) -> Outcome:
        """Go from `model` until the rule is met, or there are no iterations left."""
        history, pace = self._history, self._pace
        restarts = 0
        resting = False
        before: Point | None = None
        while True:
            model, total = self._window(model)
            if history.stopped:
                return Outcome(model, False, False)
            rest = pace.resting_point(model, total)
            if len(history) >= self._max_iter:
                # On the way an average lags behind; at rest it has less noise.
                return Outcome(rest if resting else model, False, False)
            here = self._look(rest)
            if before is not None:
                gained = gain(before, here)
                turn = pace.turn(gained, self._rule.met(gained, pace.way))
                resting = turn is not Turn.ON
                if turn is Turn.STOP:
                    alike = are_alike(here.statistics, self._engine.n_samples)
                    if not alike or self._restart is None or restarts == RESTARTS:
                        return Outcome(here.model, True, alike)
                    restarts += 1
                    pace.begin()
                    model, before = self._restart(), None
                    continue
                if turn is Turn.FROM_REST:
                    model = here.model
            before = here

    def short(self, model: GaP) -> GaP:
        """A short way from a model that is near: two windows to move, and one of little noise."""
        self._pace.begin()
        for _ in range(2):
            model, _ = self._window(model)
        self._pace.settle()
        model, total = self._window(model)
        return self._pace.resting_point(model, total)

    def _draw(self, model: GaP, n_draws: int) -> Statistics:
        self._n_sweeps += n_draws
        return self._engine.advance(model, Sweeps(n_draws, expectations=True, sizes=self._sizes))

    def _look(self, model: GaP) -> Point:
        n_look = self._pace.n_look
        return Point(model, self._draw(model, n_look), n_look)

    def _window(self, model: GaP) -> tuple[GaP, Statistics]:
        """A window of iterations: the model after it, and all its statistics together."""
        total: Statistics | None = None
        for _ in range(min(self._pace.n_iter, self._max_iter - len(self._history))):
            statistics = self._draw(model, self._pace.n_draws)
            total = statistics if total is None else total + statistics
            model = self._pace.step(model, statistics)
            if self._history.add(model, n_sweeps=self._n_sweeps):
                break
        assert total is not None
        return model, total
