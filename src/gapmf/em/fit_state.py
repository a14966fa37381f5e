"""The state of a fit that has not ended, as a checkpoint keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapmf.em.ascent import AscentState
from gapmf.em.history import HISTORY, History
from gapmf.em.momentum import Momentum
from gapmf.em.monte_carlo import RunState
from gapmf.em.posterior_mean import PosteriorProgress
from gapmf.em.schedules import MAX_DRAWS, AdaptiveProgress, SaemProgress
from gapmf.em.settings import OBJECTIVES, Settings
from gapmf.engines.base import State
from gapmf.errors import StorageError
from gapmf.model import GaP
from gapmf.types import Array


@dataclass(frozen=True)
class FinishedStart:
    """One start of a fit, after its run."""

    value: float
    """The log-likelihood, or other objective, by which starts are compared."""
    model: GaP
    converged: bool
    alike: bool
    stopped: bool
    """Whether a callback stopped it."""
    history: dict[str, NDArray[Any]]
    activations: Array | None = None
    """(N, K): those that were fitted, if any were."""
    last_gain: float | None = None
    """What the last window gained at most, in nats per token, if it was measured."""
    pseudo_count: float = 0.0
    """η of the prior on directions."""


def interrupted_start(history: History) -> FinishedStart:
    """Return the start that Ctrl-C has ended: the model of its last iteration."""
    assert history.model is not None
    arrays = history.arrays(history.model.n_components)
    eta = history.pseudo_count
    return FinishedStart(0.0, history.model, False, False, False, arrays, pseudo_count=eta)


@dataclass(frozen=True)
class MonteCarloState:
    """All that a Monte Carlo fit needs to go on exactly as if it had not been interrupted."""

    start: int
    """The number of the present start, from 0."""
    best: FinishedStart | None
    """The best of the starts before it."""
    seed: int
    """Of the engine's chains."""
    chains: State
    history: dict[str, NDArray[Any]]
    run: RunState


@dataclass(frozen=True)
class AscentFitState:
    """The same for a fit by VBEM or MJLE."""

    start: int
    best: FinishedStart | None
    history: dict[str, NDArray[Any]]
    run: AscentState


@dataclass(frozen=True)
class FitState:
    """What a checkpoint holds of a fit that has not ended.

    Without progress the fit begins anew from the generator, as one with exact moments always does.
    """

    rng: np.random.Generator
    monte_carlo: MonteCarloState | None = None
    ascent: AscentFitState | None = None


def check_state(state: FitState, shape: tuple[int, int], settings: Settings, path: Any) -> None:
    """Raise unless a state that was read from a file can be one of this fit.

    The kernels do not check the sizes of arrays. The chains are checked by the engine. `shape` is
    that of the counts.
    """
    (N, F), K = shape, settings.alpha.size
    if settings.monte_carlo:
        possible = state.monte_carlo is not None and _is_possible(state.monte_carlo, settings, F)
        possible &= state.ascent is None
    else:
        possible = state.monte_carlo is None
        if state.ascent is not None:
            possible &= settings.ascent and _is_possible_ascent(state.ascent, settings, N, F)
    if not possible:
        raise StorageError(
            f"{path} cannot be resumed: its content is not that of a fit by {settings.algorithm} "
            f"with {F} features and {K} components; remove the file and fit again"
        )


def _is_possible(kept: MonteCarloState, settings: Settings, F: int) -> bool:
    state, progress, K = kept.run, kept.run.progress, settings.alpha.size
    arrays = [state.model.W]
    arrays += [
        s.c_sum
        for s in (state.window, state.tail, getattr(progress, "mean", None))
        if s is not None
    ]
    if state.last is not None:
        arrays += [state.last.model.W, state.last.statistics.c_sum]
    momentum = getattr(progress, "momentum", Momentum(1.0, 0.0))
    if momentum.factors is not None:
        arrays += [momentum.factors[0].astype(np.float64), momentum.factors[1] * np.ones((F, 1))]
    records = {
        "paper": type(None),
        "adaptive": AdaptiveProgress,
        "online": AdaptiveProgress,
        "posterior": PosteriorProgress,
    }
    return (
        type(progress) is records.get(settings.schedule, SaemProgress)
        and 1 <= getattr(progress, "n_draws", 1) <= 2 * MAX_DRAWS
        and getattr(progress, "n_window", 1) >= 1
        and getattr(getattr(progress, "concentration", None), "shape", (K,)) == (K,)
        and 0.0 <= momentum.friction <= 1.0
        and 0.0 <= momentum.floor <= 1.0
        and 0.0 <= state.pseudo_count < np.inf
        and (state.window is None) == (state.n_window == 0 or settings.schedule == "paper")
        and (state.tail is not None) == _is_averaging(state)
        and 0 <= kept.start < settings.n_init
        and 0 <= kept.seed < 2**64
        and 0 <= kept.chains.iteration < 2**32
        and 0 <= state.n_iter <= settings.max_iter
        and all(len(kept.history.get(name, ())) == state.n_iter for name in HISTORY)
        and kept.history["norms"].shape[1:] == (K,)
        and all(array.shape == (F, K) and np.isfinite(array).all() for array in arrays)
    )


def _is_averaging(state: RunState) -> bool:
    """Return whether the last iteration is one of those that make a window's average."""
    progress = state.progress
    if isinstance(progress, PosteriorProgress):
        return state.n_window > 0
    if not isinstance(progress, AdaptiveProgress):
        return False
    return state.n_window > progress.n_window - progress.n_averaged


def _is_possible_ascent(kept: AscentFitState, settings: Settings, N: int, F: int) -> bool:
    state, K = kept.run, settings.alpha.size
    names = (*HISTORY, OBJECTIVES[settings.algorithm])
    return (
        state.model.W.shape == (F, K)
        and state.L.shape == (N, K)
        and bool((np.isfinite(state.L) & (state.L >= 0.0)).all())
        and 0 <= kept.start < settings.n_init
        and 0 <= state.n_iter <= settings.max_iter
        and all(len(kept.history.get(name, ())) == state.n_iter for name in names)
        and kept.history["norms"].shape[1:] == (K,)
    )
