"""Schedules of Monte Carlo EM: the sweeps of an iteration, its step, and when to stop.

A schedule is a set of constants; what changes during a run is its progress, a small frozen record
that goes into each method and comes out of it. "adaptive" and "saem" divide a run into windows of
iterations. After each window they decide, from what it gained in log-likelihood, how to go on.
No decision reads a clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, ClassVar, TypeAlias

from gapmf.em.evidence import best_pseudo_count
from gapmf.em.gain import N_ERRORS, Gain
from gapmf.em.momentum import FRICTION, Momentum
from gapmf.engines.base import Engine, Statistics, Sweeps
from gapmf.model import GaP
from gapmf.types import Array

MStep: TypeAlias = Callable[[Statistics, GaP], GaP]

MAX_DRAWS = 1024  # sweeps per iteration; a gain that is still unclear then is not worth more
SHORTEST_WINDOW = 60  # iterations
WINDOW_FRACTION = 4  # a later window has the iterations so far, divided by this
GROWING_WINDOW = 12  # iterations of "online"
EVALUATION = 4  # the sweeps that judge a window are so many times those of an iteration
AVERAGED_FRACTION = 3  # the last iterations of a window, one of so many, make its average
DAMPING = 0.75  # "saem": the j-th step of a window has size j^-0.75


@dataclass(frozen=True)
class StoppingRule:
    """The largest gain of a window, in nats, at which a run stops.

    It is `per_sweep` times the sweeps of the window that moved the model, and at most `in_all`.
    """

    per_sweep: float
    in_all: float

    def bound(self, n_sweeps: float) -> float:
        """Return the largest gain of a window with so many sweeps."""
        return min(self.per_sweep * n_sweeps, self.in_all)

    def is_met(self, gained: Gain, n_sweeps: float) -> bool:
        """Return whether the gain is surely that small."""
        return gained.largest <= self.bound(n_sweeps)

    def is_in_doubt(self, gained: Gain, n_sweeps: float) -> bool:
        """Return whether the gain may be that small, or cannot be told from nothing."""
        return abs(gained.estimate) <= max(self.bound(n_sweeps), N_ERRORS * gained.error)


class Decision(Enum):
    """How to go on after a window."""

    CONTINUE = auto()
    CONTINUE_FROM_AVERAGE = auto()
    STOP = auto()


@dataclass(frozen=True)
class Schedule(ABC):
    """What a run asks of its schedule. `progress` is the schedule's own record."""

    is_drawing: ClassVar[bool] = False
    """Whether W is drawn: only averages are results then, and they are judged without a prior."""
    m_step: MStep
    sizes: bool
    """Whether the M-step needs the histogram of L."""
    choose_pseudo_count: bool = field(default=False, kw_only=True)
    """Whether η of the prior on directions is chosen anew after each window."""

    @abstractmethod
    def start(self) -> Any:
        """Return the progress at the beginning of a run."""

    def sweeps(self, progress: Any) -> Sweeps:
        """Return what the next E-step does."""
        return Sweeps(progress.n_draws, expectations=True, sizes=self.sizes)

    def evaluation(self, progress: Any) -> Sweeps:
        """Return what the E-step does that tells the gain of a window."""
        return Sweeps(EVALUATION * progress.n_draws, expectations=True, sizes=self.sizes)

    @abstractmethod
    def window_length(self, progress: Any) -> int | None:
        """Return the iterations of the present window; None for one without end."""

    def n_averaged(self, progress: Any) -> int:
        """Return how many of the last iterations of the present window make its average."""
        return 0

    def model_of_e_step(self, progress: Any, model: GaP) -> GaP:
        """Return the model at which the next E-step draws: the present one, or one near it."""
        return model

    @abstractmethod
    def step(self, progress: Any, model: GaP, statistics: Statistics) -> tuple[GaP, Any]:
        """Return the next model, from an E-step at this one, and the new progress."""

    def averaged_model(self, model: GaP, window: Statistics) -> GaP:
        """Return the model that a window came to, from its last model and all its statistics."""
        return model

    @abstractmethod
    def decide(self, progress: Any, gained: Gain) -> tuple[Decision, Any]:
        """Return how to go on after a window, and the new progress."""

    def best_pseudo_count(
        self, engine: Engine, progress: Any, model: GaP, average: GaP
    ) -> tuple[float, int]:
        """Return η for the prior on directions, and the sweeps that this took.

        `model` is that of the run, `average` that of its last window.
        """
        return best_pseudo_count(engine.advance(average, Sweeps(1)).c_sum), 1


def window_after(n_steps: int) -> int:
    """Return the length of a window that begins after n_steps iterations."""
    return max(SHORTEST_WINDOW, n_steps // WINDOW_FRACTION)


@dataclass(frozen=True)
class Paper(Schedule):
    """The paper's schedule: the same sweeps in every iteration, and no stopping rule."""

    fixed_sweeps: Sweeps

    def start(self) -> None:
        """Return None: nothing changes during a run."""

    def sweeps(self, progress: None) -> Sweeps:
        """Return the sweeps of every iteration."""
        return self.fixed_sweeps

    def window_length(self, progress: None) -> None:
        """Return None: the run is one window without end."""

    def step(self, progress: None, model: GaP, statistics: Statistics) -> tuple[GaP, None]:
        """Return the next model."""
        return self.m_step(statistics, model), None

    def decide(self, progress: None, gained: Gain) -> tuple[Decision, None]:
        """Return that the run goes on."""
        return Decision.CONTINUE, None


@dataclass(frozen=True)
class AdaptiveProgress:
    """Where a run of the adaptive schedule is."""

    momentum: Momentum
    n_draws: int = 1
    """Sweeps per iteration."""
    n_window: int = SHORTEST_WINDOW
    """Iterations of the present window."""
    n_steps: int = 0
    """Iterations so far with this number of sweeps."""

    @property
    def n_averaged(self) -> int:
        """The last iterations of the window, which make its average."""
        return self.n_window // AVERAGED_FRACTION

    def with_draws(self, n_draws: int) -> AdaptiveProgress:
        """Return this progress with another number of sweeps."""
        return replace(self, n_draws=n_draws, n_window=SHORTEST_WINDOW, n_steps=0)


@dataclass(frozen=True)
class Adaptive(Schedule):
    """One sweep per iteration, with momentum, for as long as distance limits the progress.

    A window is a quarter of the iterations so far, and its last third is averaged. The draws that
    judge an average come from the chains that it was made of, so they favour it. They also favour
    an average that is made right after them. In the difference of two averages with a gap between
    them the first effect cancels, and the second is gone.

    When the gain of a window cannot be told from nothing, or from what ends a run, noise is the
    limit, and the sweeps per iteration are doubled. At first, no entry of W falls below a small
    share of its feature, so that it can return; when the stopping rule is met, this floor is
    removed and the rule has to be met once more.
    """

    stopping: StoppingRule
    mean_counts: Array
    """(F,): EM-C's invariant, see `Momentum.step`; empty for the other algorithms."""
    n_components: int

    def start(self) -> AdaptiveProgress:
        """Return the progress at the beginning of a run."""
        return AdaptiveProgress(Momentum(FRICTION, 0.01 / self.n_components))

    def window_length(self, progress: AdaptiveProgress) -> int:
        """Return the iterations of the present window."""
        return progress.n_window

    def n_averaged(self, progress: AdaptiveProgress) -> int:
        """Return the last third of the window: what comes before keeps averages apart."""
        return progress.n_averaged

    def step(
        self, progress: AdaptiveProgress, model: GaP, statistics: Statistics
    ) -> tuple[GaP, AdaptiveProgress]:
        """Return EM's next model, with momentum."""
        em = self.m_step(statistics, model)
        exposure = None if statistics.exposed_sum is None else statistics.below / statistics.h_sum
        mean_counts = self.mean_counts
        if statistics.pseudo and mean_counts.size:  # a prior adds its part: as EM has it
            W = em.W if exposure is None else em.W * exposure
            mean_counts = W @ (em.alpha / em.beta)
        model, momentum = progress.momentum.step(model, em, mean_counts, exposure=exposure)
        return model, replace(progress, momentum=momentum, n_steps=progress.n_steps + 1)

    def averaged_model(self, model: GaP, window: Statistics) -> GaP:
        """Return the M-step of all statistics of the window: their noise has averaged out."""
        return self.m_step(window, model)

    def reduce_noise(self, progress: AdaptiveProgress) -> AdaptiveProgress:
        """Return a progress that makes the present model precise instead of moving it far."""
        momentum = replace(progress.momentum, floor=0.0)
        return replace(progress, momentum=momentum).with_draws(4)

    def decide(self, progress: AdaptiveProgress, gained: Gain) -> tuple[Decision, AdaptiveProgress]:
        """Return how to go on after a window, and the new progress."""
        n_sweeps = float(progress.n_window * progress.n_draws)
        is_small = self.stopping.is_met(gained, n_sweeps)
        in_doubt = self.stopping.is_in_doubt(gained, n_sweeps)
        progress = replace(progress, n_window=window_after(progress.n_steps))
        if is_small or (in_doubt and progress.n_draws >= MAX_DRAWS):
            if not progress.momentum.floor:
                return Decision.STOP, progress
            momentum = replace(progress.momentum, floor=0.0)
            return Decision.CONTINUE_FROM_AVERAGE, replace(progress, momentum=momentum)
        if in_doubt:
            return Decision.CONTINUE_FROM_AVERAGE, progress.with_draws(2 * progress.n_draws)
        return Decision.CONTINUE, progress


@dataclass(frozen=True)
class Growing(Adaptive):
    """Short windows of single sweeps with momentum, on a part of the samples or on all of them.

    The first window that gains little ends the run. Its average is where the run on the next,
    larger part begins.
    """

    def start(self) -> AdaptiveProgress:
        """Return the progress at the beginning of a run."""
        return replace(super().start(), n_window=GROWING_WINDOW)

    def evaluation(self, progress: AdaptiveProgress) -> Sweeps:
        """Return the one sweep that tells the gain of a window."""
        return self.sweeps(progress)

    def decide(self, progress: AdaptiveProgress, gained: Gain) -> tuple[Decision, AdaptiveProgress]:
        """Return how to go on after a window, and the new progress."""
        is_small = gained.estimate <= self.stopping.bound(progress.n_window)
        return Decision.STOP if is_small else Decision.CONTINUE, progress


@dataclass(frozen=True)
class SaemProgress:
    """Where a run of stochastic approximation EM is."""

    mean: Statistics | None = None
    """The averaged statistics s̄."""
    averaging: bool = False
    n_draws: int = 1
    """Sweeps per iteration."""
    j: int = 1
    """The next iteration of the window, from 1."""
    effective_sweeps: float = 0.0
    """The sum of the window's step sizes so far."""
    n_window: int = SHORTEST_WINDOW
    """Iterations of the present window."""
    n_steps: int = 0
    """Iterations so far."""


@dataclass(frozen=True)
class Saem(Schedule):
    """Stochastic approximation EM: statistics are averaged from iteration to iteration.

    s̄ ← s̄ + γ (s − s̄). At first γ = 1, so there is no memory, and an iteration has one sweep.
    Once the gain of a window is small or in doubt, γ = j^-0.75 in the j-th iteration of a window,
    and when the gain of a window is in doubt the sweeps per iteration are doubled. (In the textbook
    γ keeps falling; the steps would then become small before the maximum is near.) The stopping
    rule counts the sum of the window's γ times its sweeps per iteration: the number of full steps
    that it is worth, since small steps gain little anywhere.
    """

    stopping: StoppingRule

    def start(self) -> SaemProgress:
        """Return the progress at the beginning of a run."""
        return SaemProgress()

    def window_length(self, progress: SaemProgress) -> int:
        """Return the iterations of the present window."""
        return progress.n_window

    def step(
        self, progress: SaemProgress, model: GaP, statistics: Statistics
    ) -> tuple[GaP, SaemProgress]:
        """Return the M-step of the averaged statistics."""
        size = progress.j**-DAMPING if progress.averaging else 1.0
        mean = progress.mean
        mean = statistics if mean is None else mean.moved_to(statistics, size)
        progress = replace(
            progress,
            mean=mean,
            j=progress.j + 1,
            effective_sweeps=progress.effective_sweeps + size * progress.n_draws,
            n_steps=progress.n_steps + 1,
        )
        return self.m_step(mean, model), progress

    def decide(self, progress: SaemProgress, gained: Gain) -> tuple[Decision, SaemProgress]:
        """Return how to go on after a window, and the new progress."""
        is_small = self.stopping.is_met(gained, progress.effective_sweeps)
        in_doubt = self.stopping.is_in_doubt(gained, progress.effective_sweeps)
        averaging = progress.averaging
        if averaging and (is_small or (in_doubt and progress.n_draws >= MAX_DRAWS)):
            return Decision.STOP, progress
        n_draws = progress.n_draws * (2 if averaging and in_doubt else 1)
        n_steps = progress.n_steps if n_draws == progress.n_draws else 0
        averaging = averaging or is_small or in_doubt
        progress = SaemProgress(
            progress.mean, averaging, n_draws, n_window=window_after(n_steps), n_steps=n_steps
        )
        return Decision.CONTINUE, progress


@dataclass(frozen=True)
class TextbookSaem(Saem):
    """Stochastic approximation EM as Kuhn and Lavielle (2004) have it: γ is never restarted.

    One sweep per iteration throughout. γ = 1 during a burn-in, which ends with the first window
    whose gain is small or unclear, and then γ = j^-0.75 in the j-th iteration after it. The steps
    shorten, so later windows are a quarter of the iterations since the burn-in.
    """

    def decide(self, progress: SaemProgress, gained: Gain) -> tuple[Decision, SaemProgress]:
        """Return how to go on after a window, and the new progress."""
        is_small = self.stopping.is_met(gained, progress.effective_sweeps)
        if progress.averaging and is_small:
            return Decision.STOP, progress
        in_doubt = self.stopping.is_in_doubt(gained, progress.effective_sweeps)
        averaging = progress.averaging or is_small or in_doubt
        j = progress.j if progress.averaging else 1
        progress = replace(
            progress, averaging=averaging, j=j, effective_sweeps=0.0, n_window=window_after(j)
        )
        return Decision.CONTINUE, progress
