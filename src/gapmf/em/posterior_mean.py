"""The posterior mean of the components: schedule="posterior".

Each component's direction φ_k = w_k / S_k has a Dirichlet(η) prior, and is drawn together with C
and H: given C, it is Dirichlet(Σ_n c_fkn + η). The norms S, α and η are fitted as before, but from
draws in which the directions vary, too. The result is the mean of the directions given J draws of
C: (Σ_jn c_fkn + J η) / (Σ_f Σ_jn c_fkn + J F η).

A mode fits the training data more closely than they can justify; a mean over all directions that
are plausible predicts new samples better. Draws move slowly, so a run climbs towards the mode
first, by the adaptive schedule. It then draws for at least as many iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapmf.em.evidence import predictive_pseudo_count
from gapmf.em.gain import Gain
from gapmf.em.schedules import EVALUATION, Adaptive, AdaptiveProgress, Decision, Schedule
from gapmf.engines.base import Engine, State, Statistics, Sweeps
from gapmf.kernels.directions import draw_gammas
from gapmf.model import GaP, model_of_step
from gapmf.types import Array

FIRST_WINDOW = 60  # draws of W; each later window has twice as many as the one before
HALVES = 0x68616C66  # the purpose of the hashes that divide samples
BURN_IN = 8  # sweeps at a draw of W before C shows η: the chains come from an average


@dataclass(frozen=True)
class PosteriorProgress:
    """Where a run is: it climbs, and then draws."""

    climb: AdaptiveProgress
    is_drawing: bool = False
    n_window: int = FIRST_WINDOW
    """Iterations of the present window, when drawing."""
    n_drawn: int = 0
    """Draws of C so far."""
    concentration: Array | None = None
    """(K,): Σ_f (Σ_n c_fkn + η) at the last draw of C: how narrow each Dirichlet is."""


class Half(NamedTuple):
    """A half of the samples: their numbers, and an engine with chains of its own."""

    rows: NDArray[np.int64]
    engine: Engine


@dataclass(frozen=True)
class Posterior(Schedule):
    """Climb as the adaptive schedule does, then draw W given C before every E-step.

    The model of a run is always an estimate: when drawing, the mean of W given the last draw of C.
    """

    adaptive: Adaptive
    seed: int
    halves: tuple[Half, ...]
    """Both halves of the samples, where η is chosen from them; none if the evidence decides."""

    def start(self) -> PosteriorProgress:
        """Return the progress at the beginning of a run."""
        return PosteriorProgress(self.adaptive.start())

    def sweeps(self, progress: PosteriorProgress) -> Sweeps:
        """Return what the next E-step does: a draw of W needs a draw of C, not an expectation."""
        if progress.is_drawing:
            return Sweeps(1, sizes=self.sizes)
        return self.adaptive.sweeps(progress.climb)

    def evaluation(self, progress: PosteriorProgress) -> Sweeps:
        """Return what the E-step does that tells the gain of a window."""
        if progress.is_drawing:
            return Sweeps(EVALUATION, expectations=True, sizes=self.sizes)
        return self.adaptive.evaluation(progress.climb)

    def window_length(self, progress: PosteriorProgress) -> int:
        """Return the iterations of the present window."""
        return progress.n_window if progress.is_drawing else progress.climb.n_window

    def n_averaged(self, progress: PosteriorProgress) -> int:
        """Return how many of the last iterations of the window make its average."""
        return progress.n_window if progress.is_drawing else progress.climb.n_averaged

    def model_of_e_step(self, progress: PosteriorProgress, model: GaP) -> GaP:
        """Return a draw of W, whose mean is that of the model."""
        if progress.concentration is None:
            return model
        W = draw_directions(model, progress.concentration, self.seed, progress.n_drawn)
        return model_of_step(W, model.alpha, model.beta)

    def step(
        self, progress: PosteriorProgress, model: GaP, statistics: Statistics
    ) -> tuple[GaP, PosteriorProgress]:
        """Return EM's next model: with momentum, or the mean given C."""
        if not progress.is_drawing:
            model, climb = self.adaptive.step(progress.climb, model, statistics)
            return model, replace(progress, climb=climb)
        concentration = statistics.c_sum.sum(axis=0) + model.n_features * statistics.pseudo
        progress = replace(progress, n_drawn=progress.n_drawn + 1, concentration=concentration)
        return self.m_step(statistics, model), progress

    def averaged_model(self, model: GaP, window: Statistics) -> GaP:
        """Return the M-step of all statistics of the window."""
        return self.m_step(window, model)

    def prior_weight(self, progress: PosteriorProgress) -> float:
        """Return 0 when drawing: averages are compared by their likelihood alone."""
        return 0.0 if progress.is_drawing else 1.0

    def is_drawing(self, progress: PosteriorProgress) -> bool:
        """Return whether W is drawn."""
        return progress.is_drawing

    def best_pseudo_count(
        self, engine: Engine, progress: PosteriorProgress, model: GaP, average: GaP
    ) -> tuple[float, int]:
        """Return the η with which one half of the samples best predicts the other, when drawing.

        At a mode, where components overfit, it would be far too large: the evidence decides there.
        """
        if progress.concentration is None or not self.halves:
            return super().best_pseudo_count(engine, progress, model, average)
        at, chains = self.model_of_e_step(progress, model), engine.state
        sweeps = Sweeps(1, n_burn_in=BURN_IN)
        draws = []
        for rows, half in self.halves:
            half.state = State(chains.L[rows], chains.iteration)
            draws.append(half.advance(at, sweeps).c_sum)
        return predictive_pseudo_count((draws[0], draws[1])), 1 + BURN_IN

    def decide(
        self, progress: PosteriorProgress, gained: Gain
    ) -> tuple[Decision, PosteriorProgress]:
        """Return how to go on after a window, and the new progress."""
        if progress.is_drawing:
            if progress.n_drawn >= progress.climb.n_steps:
                return Decision.STOP, progress
            return Decision.CONTINUE, replace(progress, n_window=2 * progress.n_window)
        decision, climb = self.adaptive.decide(progress.climb, gained)
        if decision is Decision.CONTINUE:
            return decision, replace(progress, climb=climb)
        # The mode is near: more precise steps to it would be undone by the first draws.
        climb = replace(progress.climb, momentum=replace(climb.momentum, factors=None))
        return Decision.CONTINUE_FROM_AVERAGE, replace(progress, climb=climb, is_drawing=True)


def draw_directions(model: GaP, concentration: Array, seed: int, iteration: int) -> Array:
    """Draw W (F, K): norms as they are, directions from Dirichlet(concentration_k w_k / S_k)."""
    norms = model.column_norms
    scale = np.divide(concentration, norms, out=np.zeros_like(norms), where=norms > 0)
    W = np.empty_like(model.W)
    words = np.empty(4 * W.shape[1], np.uint32)
    draw_gammas(0, W.shape[0], model.W, scale, np.uint64(seed), iteration, words, W)
    totals = W.sum(axis=0)
    W *= np.divide(norms, totals, out=np.zeros_like(norms), where=totals > 0)
    return W
