"""Monte Carlo EM: MCEM-C, MCEM-H and MCEM-CH, on any engine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gapmf.em import start
from gapmf.em.record import History
from gapmf.engines.base import Engine, Sweeps
from gapmf.m_steps import Statistics, update_c, update_ch
from gapmf.model import GaP
from gapmf.settings import Settings

Array = NDArray[np.float64]


def _step_c(s: Statistics, model: GaP) -> Array:
    return update_c(s, model.alpha, model.beta)


def _step_ch(s: Statistics, model: GaP) -> Array:
    return update_ch(s)


def _step_h(s: Statistics, model: GaP) -> Array:
    """A step of MCEM-H from E[C | h], accumulated: w̃ Σ h v / [W̃h] = Σ c, so it is MCEM-CH's."""
    return update_ch(s)


STEPS: dict[str, Callable[[Statistics, GaP], Array]] = {
    "mcem-c": _step_c,
    "mcem-ch": _step_ch,
    "mcem-h": _step_h,
}


def first_model(engine: Engine, settings: Settings, rng: np.random.Generator) -> GaP:
    """Where the chains start: the paper's point as it is, since Monte Carlo noise leaves it."""
    if not isinstance(settings.init, str):
        return GaP(settings.init, settings.alpha, settings.beta)
    mean_counts = engine.totals / engine.n_samples
    if settings.init == "mean":
        W = start.mean_start(mean_counts, settings.alpha, settings.beta)
    else:
        W = start.random_start(mean_counts, settings.alpha, settings.beta, rng)
    return GaP(W, settings.alpha, settings.beta)


def paper_sweeps(algorithm: str, n_draws: int, n_burn_in: int) -> Sweeps:
    """The paper's E-step. MCEM-H needs H alone, so its C is an expectation by definition."""
    return Sweeps(n_draws, n_burn_in, expectations=algorithm == "mcem-h")


def fit_paper(
    engine: Engine, model: GaP, algorithm: str, sweeps: Sweeps, *, max_iter: int, history: History
) -> GaP:
    """The paper's protocol: so many iterations, each from the last draw of the one before."""
    step = STEPS[algorithm]
    n_sweeps = 0
    for _ in range(max_iter):
        statistics = engine.advance(model, sweeps)
        model = GaP(step(statistics, model), model.alpha, model.beta)
        n_sweeps += sweeps.n_burn_in + sweeps.n_draws
        if history.add(model, n_sweeps=n_sweeps):
            break
    return model
