"""Fits that maximise something else than the marginal likelihood, by steps that never lose.

An `Objective` is a function of a model and of something for each sample. Its E-step improves the
latter at the present model, and its M-step the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gapmf.em.exact_em import ROUNDING, TIMES_SMALL, still_to_gain
from gapmf.engines.allocation import Allocation, Allocator
from gapmf.engines.base import Statistics
from gapmf.model import GaP
from gapmf.types import Array

N_FIRST_PASSES = 100  # from nothing, over the counts, with a model that is given


@dataclass(frozen=True)
class Evaluation:
    """An E-step at a model."""

    value: float
    """The objective, in nats, with the prior's part."""
    statistics: Statistics
    L: Array
    """(N, K): expected component sizes, which the next E-step begins with."""
    H: Array | None = None
    """(N, K): activations, if the objective is a function of these."""
    log_prior: float = 0.0
    """What the prior on directions adds to the value."""


class Objective(ABC):
    """What a fit maximises, for one data set."""

    name: ClassVar[str]
    """Its name in `history_`."""

    def __init__(self, allocator: Allocator, pseudo_count: float = 0.0) -> None:
        self.allocator = allocator
        self.pseudo_count = pseudo_count

    def first_sizes(self, model: GaP, *, given: bool) -> Array:
        """Return L (N, K) to begin with.

        Each sample's counts are shared out as all expected counts are. If the model was `given`,
        L is then fitted to it: an M-step with other L would spoil what may be the result of a fit.
        """
        L = np.outer(self.allocator.sample_totals, model.shares)
        return self.allocate(model, L, N_FIRST_PASSES).L if given else L

    @abstractmethod
    def allocate(self, model: GaP, L: Array, n_passes: int) -> Allocation:
        """Fit L to a model, by n_passes passes."""

    @abstractmethod
    def e_step(self, model: GaP, L: Array) -> Evaluation:
        """Improve what belongs to the samples, from these component sizes on."""

    @abstractmethod
    def m_step(self, model: GaP, at: Evaluation) -> GaP:
        """Return the best model for what belongs to the samples, or at least a better one."""


@dataclass(frozen=True)
class AscentState:
    """Where a fit is: all that the next iteration needs."""

    model: GaP
    L: Array
    """(N, K): what the E-step at the model begins with."""
    n_iter: int = 0
    previous_gain: float = 0.0
    times_small: int = 0
    """How many times in a row little was left to gain."""

    @property
    def converged(self) -> bool:
        """Whether the stopping rule is met: that of EM with exact moments."""
        return self.times_small >= TIMES_SMALL


def run_ascent(
    objective: Objective, state: AscentState, *, max_iter: int, tol: float
) -> Iterator[tuple[AscentState, Evaluation]]:
    """Iterate from `state`, and yield the state after each iteration, with the E-step there.

    If `state` itself is at its end, it is yielded.
    """
    at = objective.e_step(state.model, state.L)
    if state.converged or state.n_iter >= max_iter:
        yield state, at
    while not state.converged and state.n_iter < max_iter:
        model = objective.m_step(state.model, at)
        after = objective.e_step(model, at.L)
        gain = after.value - at.value
        if gain <= ROUNDING * abs(after.value):
            gain = 0.0
        left = still_to_gain(gain, state.previous_gain)
        small = left <= tol * objective.allocator.n_tokens
        state = replace(
            state,
            model=model,
            L=at.L,
            n_iter=state.n_iter + 1,
            previous_gain=gain,
            times_small=state.times_small + 1 if small else 0,
        )
        at = after
        yield state, at
