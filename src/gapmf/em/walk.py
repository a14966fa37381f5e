"""A fit of Monte Carlo EM by a schedule that watches what it gains, and can be taken up again.

It goes in windows of iterations. At the end of a window an E-step tells what was gained since the
end of the window before, and how surely. No decision reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gapmf.em.gain import Point, gain
from gapmf.em.history import History
from gapmf.em.schedules import Pace, Rule, Turn
from gapmf.em.start import are_alike
from gapmf.em.state import (
    pack_model,
    pack_point,
    pack_statistics,
    unpack_model,
    unpack_point,
    unpack_statistics,
)
from gapmf.engines.base import Engine, Statistics, Sweeps
from gapmf.model import GaP
from gapmf.types import Tree

RESTARTS = 2  # at a random point, when all components stay alike

Keep = Callable[[Callable[[], Tree]], None]
"""Is offered, after every iteration, a function that packs what there is to go on from."""


@dataclass(frozen=True)
class Outcome:
    """What a schedule came to; `alike` if all components stayed the same."""

    model: GaP
    converged: bool
    alike: bool


@dataclass
class Place:
    """Where a walk is: in a window of which so many iterations are done."""

    model: GaP
    total: Statistics | None = None
    """All statistics of the window so far."""
    n_done: int = 0
    before: Point | None = None
    """Where the window before ended."""
    restarts: int = 0
    resting: bool = False


class Walk:
    """A fit by one of the paces.

    Parameters
    ----------
    engine, pace, rule
    sizes : bool
        Whether M-steps need the histogram of L.
    restart : callable, optional
        Makes a model to start from when all components have stayed alike.
    max_iter : int
    history : History
    keep : Keep, optional
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
        keep: Keep | None = None,
    ) -> None:
        self._engine, self._pace, self._rule = engine, pace, rule
        self._sizes, self._restart = sizes, restart
        self._max_iter, self._history, self._keep = max_iter, history, keep
        self._n_sweeps = 0

    def __call__(self, model: GaP) -> Outcome:
        """Go from `model` until the rule is met, or there are no iterations left."""
        return self._go(Place(model))

    def resume(self, tree: Tree) -> Outcome:
        """Go on from what was kept; engine and history must be there already."""
        self._n_sweeps = tree["n_sweeps"]
        self._pace.unpack(tree["pace"])
        return self._go(
            Place(
                unpack_model(tree["model"]),
                unpack_statistics(tree["total"]),
                tree["n_done"],
                unpack_point(tree["before"]),
                tree["restarts"],
                tree["resting"],
            )
        )

    def _pack(self, at: Place) -> Tree:
        return {
            "n_sweeps": self._n_sweeps,
            "pace": self._pace.pack(),
            "model": pack_model(at.model),
            "total": pack_statistics(at.total),
            "n_done": at.n_done,
            "before": pack_point(at.before),
            "restarts": at.restarts,
            "resting": at.resting,
        }

    def _go(self, at: Place) -> Outcome:
        history, pace = self._history, self._pace
        while True:
            total = self._window(at)
            if history.stopped:
                return Outcome(at.model, False, False)
            rest = pace.resting_point(at.model, total)
            if len(history) >= self._max_iter:
                # On the way an average lags behind; at rest it has less noise.
                return Outcome(rest if at.resting else at.model, False, False)
            here = self._look(rest)
            if at.before is not None:
                gained = gain(at.before, here)
                turn = pace.turn(gained, self._rule.met(gained, pace.way))
                at.resting = turn is not Turn.ON
                if turn is Turn.STOP:
                    alike = are_alike(here.statistics, self._engine.n_samples)
                    if not alike or self._restart is None or at.restarts == RESTARTS:
                        return Outcome(here.model, True, alike)
                    pace.begin()
                    at = Place(self._restart(), restarts=at.restarts + 1, resting=True)
                    continue
                if turn is Turn.FROM_REST:
                    at.model = here.model
            at.before = here

    def short(self, model: GaP) -> GaP:
        """A short way from a model that is near: two windows to move, and one of little noise."""
        at = Place(model)
        self._pace.begin()
        for _ in range(2):
            self._window(at)
        self._pace.settle()
        total = self._window(at)
        return self._pace.resting_point(at.model, total)

    def _draw(self, model: GaP, n_draws: int) -> Statistics:
        self._n_sweeps += n_draws
        return self._engine.advance(model, Sweeps(n_draws, expectations=True, sizes=self._sizes))

    def _look(self, model: GaP) -> Point:
        n_look = self._pace.n_look
        return Point(model, self._draw(model, n_look), n_look)

    def _window(self, at: Place) -> Statistics:
        """What is left of a window of iterations; all its statistics together."""
        left = self._max_iter - len(self._history)
        n_iter = min(self._pace.n_iter, at.n_done + left)
        while at.n_done < n_iter:
            statistics = self._draw(at.model, self._pace.n_draws)
            at.total = statistics if at.total is None else at.total + statistics
            at.model = self._pace.step(at.model, statistics)
            at.n_done += 1
            if self._history.add(at.model, n_sweeps=self._n_sweeps):
                break
            if self._keep is not None:
                self._keep(lambda: self._pack(at))
        total, at.total, at.n_done = at.total, None, 0
        assert total is not None
        return total
