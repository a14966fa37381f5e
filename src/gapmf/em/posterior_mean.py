"""The posterior mean of the components: schedule="posterior".

Each component's direction φ_k = w_k / S_k has a Dirichlet(η) prior, and is drawn together with C
and H: given C, it is Dirichlet(Σ_n c_fkn + η). The norms S, α and η are fitted as before, but from
draws in which the directions vary, too. The result is the mean of the directions given J draws of
C: (Σ_jn c_fkn + J η) / (Σ_f Σ_jn c_fkn + J F η).

A mode fits the training data more closely than they can justify; a mean over all directions that
are plausible predicts new samples better. Draws begin at the starting point. A run that first
climbs to a mode draws around that mode for thousands of iterations, and predicts worse.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapmf.em.evidence import predictive_pseudo_count
from gapmf.em.gain import Gain
from gapmf.em.schedules import EVALUATION, SHORTEST_WINDOW, Decision, Schedule, StoppingRule
from gapmf.engines.base import Engine, State, Statistics, Sweeps
from gapmf.kernels.directions import draw_gammas
from gapmf.model import GaP, model_of_step
from gapmf.types import Array

LEAST_WINDOW = 240  # iterations: a run does not end after a shorter one
HALVES = 0x68616C66  # the purpose of the hashes that divide samples
BURN_IN = 8  # sweeps at a draw of W before C shows η: the chains come from an average


@dataclass(frozen=True)
class PosteriorProgress:
    """Where a run is."""

    n_window: int = SHORTEST_WINDOW
    """Iterations of the present window."""
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
    """Draw W given C before every E-step, in windows each as long as all before it.

    The model of a run is always an estimate: the mean of W given the last draw of C. The first
    window has no gain, since nothing was averaged before. The run ends after a long window whose
    average gains little on the average before: it is the result.
    """

    is_drawing: ClassVar[bool] = True
    stopping: StoppingRule
    seed: int
    halves: tuple[Half, ...]
    """Both halves of the samples, where η is chosen from them; none if the evidence decides."""

    def start(self) -> PosteriorProgress:
        """Return the progress at the beginning of a run."""
        return PosteriorProgress()

    def sweeps(self, progress: PosteriorProgress) -> Sweeps:
        """Return one sweep: a draw of W needs a draw of C, not an expectation."""
        return Sweeps(1, sizes=self.sizes)

    def evaluation(self, progress: PosteriorProgress) -> Sweeps:
        """Return what the E-step does that tells the gain of a window."""
        return Sweeps(EVALUATION, expectations=True, sizes=self.sizes)

    def window_length(self, progress: PosteriorProgress) -> int:
        """Return the iterations of the present window."""
        return progress.n_window

    def n_averaged(self, progress: PosteriorProgress) -> int:
        """Return that all iterations of the window make its average."""
        return progress.n_window

    def model_of_e_step(self, progress: PosteriorProgress, model: GaP) -> GaP:
        """Return a draw of W, whose mean is that of the model."""
        if progress.concentration is None:
            return model
        W = draw_directions(model, progress.concentration, self.seed, progress.n_drawn)
        return model_of_step(W, model.alpha, model.beta)

    def step(
        self, progress: PosteriorProgress, model: GaP, statistics: Statistics
    ) -> tuple[GaP, PosteriorProgress]:
        """Return the mean of W given the draw of C, with norms, α and η as EM has them."""
        concentration = statistics.c_sum.sum(axis=0) + model.n_features * statistics.pseudo
        progress = replace(progress, n_drawn=progress.n_drawn + 1, concentration=concentration)
        return self.m_step(statistics, model), progress

    def averaged_model(self, model: GaP, window: Statistics) -> GaP:
        """Return the M-step of all statistics of the window."""
        return self.m_step(window, model)

    def best_pseudo_count(
        self, engine: Engine, progress: PosteriorProgress, model: GaP, average: GaP
    ) -> tuple[float, int]:
        """Return the η with which one half of the samples best predicts the other."""
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
        if progress.n_window >= LEAST_WINDOW and self.stopping.is_met(gained, progress.n_window):
            return Decision.STOP, progress
        return Decision.CONTINUE, replace(progress, n_window=progress.n_drawn)


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
