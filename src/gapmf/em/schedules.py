"""Schedules of Monte Carlo EM that watch what they gain: "adaptive" and "saem".

Both go in windows of iterations, and decide between two of them how to go on: see `walk`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from gapmf.em.gain import Gain
from gapmf.em.momentum import Momentum
from gapmf.em.state import pack_statistics, unpack_statistics
from gapmf.engines.base import Statistics
from gapmf.model import GaP
from gapmf.types import Array, Tree

MStep = Callable[[Statistics, GaP], GaP]

ERRORS = 2.0  # a gain below so many standard errors cannot be told from none
MOST_DRAWS = 1024  # sweeps an iteration: what cannot be told from nothing then is not worth more
SHORTEST_WINDOW = 20  # iterations
WINDOW_PART = 8  # a later window is the way so far, divided by this
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

    def pack(self) -> Tree:
        """All that changes on the way."""

    def unpack(self, tree: Tree) -> None:
        """Go on from there."""


class Adaptive:
    """One sweep an iteration, with momentum, for as long as distance limits the progress.

    Meanwhile a window is an eighth of the way so far. What it comes to is correlated with the
    draws that judge it, which are those of the same chains: so a window appears to have gained
    something, however long it is, and with many parameters more than `Rule` allows a short one.

    When what a window gained cannot be told from nothing, noise limits the progress: the sweeps
    of an iteration are doubled. At first no entry of W falls below a small share of its feature,
    so that it may still return; when the rule has been met, it has to be met again without.
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
        self._n_steps = 0
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
        self.n_iter = SHORTEST_WINDOW

    def _draw(self, n_draws: int) -> None:
        self.n_draws = n_draws
        self.n_iter = SHORTEST_WINDOW if n_draws == 1 else 2 * SHORTEST_WINDOW
        # The less noise there is, the less of it a longer memory adds up.
        self._momentum.friction = 0.25 if n_draws < 8 else 0.1

    def step(self, model: GaP, statistics: Statistics) -> GaP:
        """The next model, from an E-step at this one."""
        self._n_steps += 1
        return self._momentum.step(model, self._m_step(statistics, model))

    def resting_point(self, model: GaP, total: Statistics) -> GaP:
        """What all statistics of the window say: their noise has averaged out."""
        return self._m_step(total, model)

    def turn(self, gained: Gain, little: bool) -> Turn:
        """What to do after a window that gained so much."""
        unclear = abs(gained.estimate) <= ERRORS * gained.error
        if self.n_draws == 1:
            self.n_iter = max(SHORTEST_WINDOW, self._n_steps // WINDOW_PART)
        if little or (unclear and self.n_draws >= MOST_DRAWS):
            if not self._momentum.floor:
                return Turn.STOP
            self._momentum.floor = 0.0
            return Turn.FROM_REST
        if unclear:
            self._draw(2 * self.n_draws)
            return Turn.FROM_REST
        return Turn.ON

    def pack(self) -> Tree:
        """All that changes on the way."""
        return {
            "n_draws": self.n_draws,
            "n_iter": self.n_iter,
            "n_steps": self._n_steps,
            "momentum": self._momentum.pack(),
        }

    def unpack(self, tree: Tree) -> None:
        """Go on from there."""
        self.n_draws, self.n_iter = tree["n_draws"], tree["n_iter"]
        self._n_steps = tree["n_steps"]
        self._momentum.unpack(tree["momentum"])


class Saem:
    """Stochastic approximation EM: statistics are averaged from iteration to iteration.

    s̄ ← s̄ + γ (s − s̄). γ = 1, so there is no memory, and an iteration has one sweep, until the
    gain of a window is little or cannot be told from nothing. From there γ = j^-0.75 in the j-th
    iteration of a window, and when its gain cannot be told from nothing the sweeps of an
    iteration are doubled: where γ went on falling instead, as in the textbook, steps would become
    small before the maximum is near. What a window may gain is counted by the sum of its γ, the
    number of full steps it is worth: small steps gain little anywhere.
    """

    n_iter = SHORTEST_WINDOW

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

    def pack(self) -> Tree:
        """All that changes on the way."""
        return {
            "mean": pack_statistics(self._mean),
            "averaging": self._averaging,
            "n_draws": self.n_draws,
            "j": self._j,
            "way": self._way,
        }

    def unpack(self, tree: Tree) -> None:
        """Go on from there."""
        self._mean = unpack_statistics(tree["mean"])
        self._averaging, self.n_draws = tree["averaging"], tree["n_draws"]
        self._j, self._way = tree["j"], tree["way"]
