"""The engine protocol: samples in, an E-step's statistics out.

An engine holds the samples and the state of their chains. A loop asks it to advance them and
gets additive statistics; whether threads or other machines did the work is not its business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gapmf.m_steps import Statistics
from gapmf.model import GaP


@dataclass(frozen=True)
class Sweeps:
    """What an E-step is to do.

    Attributes
    ----------
    n_draws : int
        Sweeps that are accumulated, after
    n_burn_in : int
        sweeps that are not.
    expectations : bool
        Accumulate E[C | h], which has less variance, rather than the draws of C.
    sizes : bool
        Also count how often each L_kn was 0, 1, 2, …
    """

    n_draws: int
    n_burn_in: int = 0
    expectations: bool = False
    sizes: bool = False


@dataclass(frozen=True)
class State:
    """Where the chains are: all that is needed to go on exactly as if nothing had happened."""

    L: NDArray[np.int64]
    """(N, K): Σ_f c_fkn, or -1 before the first sweep."""
    iteration: int


class Engine(Protocol):
    """Holds counts, N × F, and one chain a sample."""

    @property
    def n_samples(self) -> int:
        """N."""

    @property
    def totals(self) -> NDArray[np.float64]:
        """(F,): Σ_n v_fn."""

    @property
    def state(self) -> State:
        """Where the chains are; can be set."""

    def advance(self, model: GaP, sweeps: Sweeps) -> Statistics:
        """One E-step from the present state. If it is interrupted the state is as before."""
