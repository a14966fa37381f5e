"""The layouts of what a fit by Monte Carlo packs: see `state`, `walk`, `schedules`."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from gapmf.em.schedules import MOST_DRAWS
from gapmf.em.settings import Settings
from gapmf.em.walk import RESTARTS
from gapmf.layout import MANY, Maybe, Number, Numbers, Whole


def model_layout(F: int, K: int) -> dict[str, Any]:
    """Of `pack_model`."""
    return {"W": Numbers((F, K), 0.0), "alpha": Numbers((K,), 0.0), "beta": Numbers((K,), 0.0)}


def history_layout(K: int, length: str) -> dict[str, Any]:
    """Of a history, with a name for its length."""
    return {
        "seconds": Numbers((length,), 0.0),
        "n_sweeps": Numbers((length,), 0.0, whole=True),
        "norms": Numbers((length, K), 0.0),
        "log_likelihood": Numbers((length,), finite=False),
    }


def statistics_layout(
    settings: Settings, F: int, largest: int, *, averaged: bool = False
) -> dict[str, Any]:
    """Of `pack_statistics`, for samples with at most so many counts; or of averages of these."""
    K = settings.alpha.size
    return {
        "c_sum": Numbers((F, K), 0.0),
        "h_sum": Numbers((K,), 0.0),
        "n_draws": Number(1.0),
        "ratio_sum": type(None),
        "sizes": type(None)
        if settings.learn_alpha is None
        else Numbers((K, largest + 1), 0.0, whole=None if averaged else True),
    }


def draws_layout(settings: Settings, counts: sp.csr_array) -> dict[str, Any]:
    """Of all that a fit by Monte Carlo packs, for these counts (N, F)."""
    N, F = counts.shape
    K = settings.alpha.size
    best = {
        "value": Number(),
        "model": model_layout(F, K),
        "converged": bool,
        "alike": bool,
        "history": history_layout(K, "iterations of the best start"),
    }
    return {
        "start": Whole(0, settings.n_init - 1),
        "best": Maybe(best),
        "rng": dict,
        "seed": Whole(0, 2**64 - 1),
        "L": Numbers((N, K), -1.0, whole=True),
        "iteration": Whole(),
        "history": history_layout(K, "iterations"),
        "walk": walk_layout(settings, F, int(counts.sum(axis=1).max())),
    }


def walk_layout(settings: Settings, F: int, largest: int) -> dict[str, Any]:
    """Of what a schedule packs."""
    K = settings.alpha.size
    begun: dict[str, Any] = {"model": model_layout(F, K), "n_sweeps": Whole()}
    if settings.schedule == "paper":
        return begun
    statistics = statistics_layout(settings, F, largest)
    point = {"model": model_layout(F, K), "statistics": statistics, "n_draws": Whole(1, MANY)}
    pace: dict[str, Any] = {"n_draws": Whole(1, 2 * MOST_DRAWS)}
    if settings.schedule == "saem":
        mean = statistics_layout(settings, F, largest, averaged=True)
        pace |= {"mean": Maybe(mean), "averaging": bool, "j": Whole(1), "way": Number(0.0)}
    else:
        momentum = {
            "friction": Number(0.0, 1.0),
            "floor": Number(0.0, 1.0),
            "factors": Maybe([Numbers((F, K), 0.0), Numbers((K,), 0.0)]),
        }
        pace |= {"n_iter": Whole(1), "n_steps": Whole(), "momentum": momentum}
    return begun | {
        "pace": pace,
        "total": statistics,
        "n_done": Whole(1, settings.max_iter),
        "before": Maybe(point),
        "restarts": Whole(0, RESTARTS),
        "resting": bool,
    }
