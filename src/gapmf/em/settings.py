"""The parameters of a fit, checked."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.em.alpha import LARGEST, SMALLEST
from gapmf.errors import InvalidInputError
from gapmf.types import Array
from gapmf.validation import (
    as_float,
    check_alpha,
    check_entries,
    check_number,
    check_option,
    check_positive,
    check_whole,
)

MONTE_CARLO = ("mcem-c", "mcem-h", "mcem-ch")
EXACT_MOMENTS = ("em-c", "em-ch", "exact")
OBJECTIVES = {"vbem": "bound", "mjle": "log_joint_likelihood"}
"""Algorithms that do not maximise the marginal likelihood, and what they maximise."""
ALGORITHMS = (*MONTE_CARLO, *EXACT_MOMENTS, *OBJECTIVES)
LEARNS_ALPHA = ("mcem-c", "em-c", "exact", "vbem")
WAYS_TO_LEARN = ("component", "shared")
SCHEDULES = ("adaptive", "paper", "saem", "saem-textbook", "online", "posterior")
STARTS = ("mean", "random")

PAPER_SWEEPS = 150  # draws, and as many before them
MAX_ITER = {"paper": 500, "no Monte Carlo": 1000}
MOST_ITER = 2000  # for all others
FIRST_PSEUDO_COUNT = 0.1  # where it is chosen from the data


@dataclass(frozen=True)
class Settings:
    """What a fit depends on, checked and in its final form."""

    algorithm: str
    alpha: Array
    beta: Array
    learn_alpha: str | None
    """One of `WAYS_TO_LEARN`, or None."""
    schedule: str
    n_draws: int
    n_burn_in: int
    max_iter: int
    tol: float
    init: str | Array
    """One of `STARTS`, or W (F, K) to start from."""
    n_init: int
    score_every: int
    pseudo_count: float = 0.0
    """η of the prior on directions; where it is chosen from the data, the first guess."""
    choose_pseudo_count: bool = False

    @property
    def monte_carlo(self) -> bool:
        """Whether the algorithm draws rather than integrates."""
        return self.algorithm in MONTE_CARLO

    @property
    def on_line(self) -> bool:
        """Whether it may begin with a part of the samples."""
        return self.monte_carlo and self.schedule == "online"

    @property
    def chooses_by_halves(self) -> bool:
        """Whether η is chosen by what one half of the samples says of the other."""
        return self.monte_carlo and self.schedule == "posterior" and self.choose_pseudo_count

    @property
    def exact_moments(self) -> bool:
        """Whether the algorithm integrates exactly."""
        return self.algorithm in EXACT_MOMENTS

    @property
    def ascent(self) -> bool:
        """Whether the algorithm maximises something else than the marginal likelihood."""
        return self.algorithm in OBJECTIVES


def check_settings(given: dict[str, Any], counts: sp.csr_array) -> Settings:
    """Make settings from the parameters of the estimator, for these counts."""
    K = check_whole(given["n_components"], "n_components")
    algorithm = check_option(given["algorithm"], ALGORITHMS, "algorithm")
    monte_carlo = algorithm in MONTE_CARLO
    schedule = check_option(given["schedule"], SCHEDULES, "schedule")
    n_init = check_whole(given["n_init"], "n_init")
    max_iter = given["max_iter"]
    if max_iter is None:
        max_iter = MAX_ITER.get(schedule if monte_carlo else "no Monte Carlo", MOST_ITER)
    if schedule == "online" and algorithm not in ("mcem-c", *EXACT_MOMENTS, *OBJECTIVES):
        raise InvalidInputError(
            f"schedule='online' makes the steps of 'mcem-c', but algorithm={algorithm!r}: use "
            "algorithm='mcem-c', or another schedule"
        )
    if schedule == "posterior":
        _check_posterior(algorithm, given["pseudo_count"])
    learn_alpha = _check_learn_alpha(given["learn_alpha"], algorithm)
    alpha = _first_alpha(check_alpha(given["alpha"], K), learn_alpha)
    if algorithm == "mjle":
        _check_joint_maximum(alpha)
    return Settings(
        algorithm=algorithm,
        alpha=alpha,
        beta=check_positive(given["beta"], K, "beta"),
        learn_alpha=learn_alpha,
        schedule=schedule,
        n_draws=_check_sweeps(given, "n_draws", least=1),
        n_burn_in=_check_sweeps(given, "n_burn_in", least=0),
        max_iter=check_whole(max_iter, "max_iter"),
        tol=check_number(given["tol"], "tol", least=0.0),
        init=_check_init(given["init"], K, counts, 1 if monte_carlo else n_init),
        n_init=n_init,
        score_every=check_whole(given["score_every"], "score_every", least=0),
        pseudo_count=_check_pseudo_count(given["pseudo_count"], algorithm, schedule),
        choose_pseudo_count=isinstance(given["pseudo_count"], str),
    )


def _check_posterior(algorithm: str, pseudo_count: Any) -> None:
    """Refuse what has no posterior of components: another algorithm, or no prior."""
    if algorithm in ("mcem-h", "mcem-ch"):
        raise InvalidInputError(
            f"schedule='posterior' fits norms as 'mcem-c' does, but algorithm={algorithm!r}: use "
            "algorithm='mcem-c', or another schedule"
        )
    if algorithm == "mcem-c" and isinstance(pseudo_count, numbers.Real) and pseudo_count == 0:
        raise InvalidInputError(
            "schedule='posterior' needs a prior on the components, but pseudo_count is 0: use "
            "pseudo_count='auto', or a number such as 0.1"
        )


def _check_learn_alpha(value: Any, algorithm: str) -> str | None:
    """How α is learned, if it is."""
    how = {False: None, True: "component"} | {way: way for way in WAYS_TO_LEARN}
    if not isinstance(value, (bool, np.bool_, str)) or value not in how:
        raise InvalidInputError(
            "learn_alpha must be False, 'component' (or True, which means the same) or 'shared', "
            f"but is {value!r}"
        )
    learned = how[value if isinstance(value, str) else bool(value)]
    if learned is not None and algorithm not in LEARNS_ALPHA:
        able = ", ".join(repr(name) for name in LEARNS_ALPHA)
        raise InvalidInputError(
            f"algorithm={algorithm!r} cannot learn alpha: use one of {able}, or learn_alpha=False"
        )
    return learned


def _check_pseudo_count(value: Any, algorithm: str, schedule: str) -> float:
    """η, or the first guess of it for "auto"."""
    if algorithm in MONTE_CARLO and schedule == "online":
        check_no_pseudo_count(value, "schedule='online'", "schedule='adaptive'")
    if isinstance(value, str):
        check_option(value, ("auto",), "pseudo_count")
        if algorithm not in MONTE_CARLO or schedule == "paper":
            raise InvalidInputError(
                "pseudo_count='auto' needs draws, and windows after which it is chosen again: use "
                "'mcem-c' with schedule='adaptive' or 'saem', or give a number, such as 0.1"
            )
        return FIRST_PSEUDO_COUNT
    eta = check_number(value, "pseudo_count", least=0.0)
    if eta > 0.0 and algorithm == "exact":
        raise InvalidInputError(
            "algorithm='exact' climbs in variables whose sums a pseudo_count above 0 changes: use "
            "'em-c', whose M-step has a closed form with it, or pseudo_count=0"
        )
    return eta


def check_no_pseudo_count(value: Any, where: str, instead: str) -> None:
    """Refuse pseudo-counts where on-line averages would need them."""
    if isinstance(value, str) or check_number(value, "pseudo_count", least=0.0) > 0.0:
        raise InvalidInputError(
            f"{where} has no pseudo-counts, but pseudo_count={value!r}: use {instead}, or "
            "pseudo_count=0"
        )


def _first_alpha(alpha: Array, learn_alpha: str | None) -> Array:
    """α to start from: within its bounds when it is learned, and one for all when shared.

    Shared, unequal values are replaced by their geometric mean: α is a scale.
    """
    if learn_alpha is None:
        return alpha
    alpha = np.clip(alpha, SMALLEST, LARGEST)
    if learn_alpha == "shared" and np.ptp(alpha) > 0:
        alpha = np.full_like(alpha, np.exp(np.log(alpha).mean()))
    return alpha


def _check_joint_maximum(alpha: Array) -> None:
    """Refuse α at which the joint likelihood of counts and activations has no maximum."""
    if (alpha > 1.0).all() or (alpha == 1.0).all():
        return
    if (alpha < 1.0).any():
        k = int((alpha < 1.0).argmax())
        reason = f"alpha of component {k} is {alpha[k]:g}: below 1 it is infinite at h = 0"
    else:
        reason = (
            "some alpha are 1 and others larger: where alpha is 1 it grows for ever as W grows "
            "and the activations shrink"
        )
    raise InvalidInputError(
        f"the joint likelihood has no maximum, because {reason}; use alpha > 1 for all components, "
        "alpha=1 for all (which gives KL-NMF), or an algorithm that integrates the activations "
        "out, such as 'mcem-c'"
    )


def _check_sweeps(given: dict[str, Any], name: str, least: int) -> int:
    """n_draws or n_burn_in, which only the paper's schedule has."""
    value = given[name]
    if value is None:
        return PAPER_SWEEPS
    if given["algorithm"] not in MONTE_CARLO:
        raise InvalidInputError(
            f"{name} is for Monte Carlo only: leave it out with algorithm={given['algorithm']!r}"
        )
    if given["schedule"] != "paper":
        raise InvalidInputError(
            f"{name} is for schedule='paper' only, but the schedule is {given['schedule']!r}, "
            f"which chooses the number of sweeps itself: leave {name} out"
        )
    return check_whole(value, name, least=least)


def check_smoothing(value: Any) -> float:
    """The weight of the background, in [0, 1)."""
    weight = check_number(value, "smoothing", least=0.0)
    if weight >= 1.0:
        raise InvalidInputError(f"smoothing must be below 1, but is {value!r}")
    return weight


def check_verbose(value: Any) -> int:
    """Return the verbosity: a whole number, or a bool."""
    return int(value) if isinstance(value, bool) else check_whole(value, "verbose", least=0)


def check_callbacks(callbacks: Any) -> tuple[Any, ...]:
    """Return the callbacks as a tuple."""
    callbacks = () if callbacks is None else callbacks
    if not isinstance(callbacks, Sequence) or not all(callable(c) for c in callbacks):
        raise InvalidInputError(
            "callbacks must be a list of functions of one argument, the record of an iteration, "
            f"but is {callbacks!r}"
        )
    return tuple(callbacks)


def _check_init(init: Any, K: int, counts: sp.csr_array, n_init: int) -> str | Array:
    """A kind of start, or W (F, K) from the components (K, F) that were given."""
    if isinstance(init, str):
        return check_option(init, STARTS, "init")
    components = as_float(init, "init", "'mean', 'random' or numbers, components × features")
    if components.shape != (K, counts.shape[1]):
        raise InvalidInputError(
            f"init must have shape {(K, counts.shape[1])}, components × features, "
            f"but has shape {components.shape}"
        )
    check_entries(components, "init")
    if n_init != 1:
        raise InvalidInputError(
            f"n_init is {n_init}, but all starts from the components in init are the same: use "
            "n_init=1"
        )
    unmet = np.flatnonzero((components.sum(axis=0) == 0) & (np.asarray(counts.sum(axis=0)) > 0))
    if unmet.size:
        raise InvalidInputError(
            f"feature {unmet[0]} has counts, but every component of init is 0 there: "
            "EM cannot leave zero, so start from something positive"
        )
    return components.T
