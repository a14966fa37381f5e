"""The engine protocol: samples in, an E-step's statistics out.

An engine holds the samples and the state of their chains. A loop asks it to advance them and
gets additive statistics. It does not know whether threads or other machines did the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from gapmf.model import GaP
from gapmf.observation import Observation
from gapmf.types import Array


@dataclass(frozen=True)
class Statistics:
    """What an M-step needs of the samples, summed over samples n and draws j.

    Statistics of different samples are added with `+`. With exact moments, expectations take the
    place of averages over draws, and there is one "draw".

    Attributes
    ----------
    c_sum : array, (F, K)
        Σ_jn c_fkn.
    h_sum : array, (K,)
        Σ_jn h_kn.
    n_draws : float
        J N: the number of terms in these sums.
    ratio_sum : array, (F, K), optional
        Σ_jn h_kn v_fn / [Wh_n]_f, at the W that the expectations were taken with.
    sizes : array, (K, max_n |v_n| + 1), optional
        How often L_kn = Σ_f c_fkn was 0, 1, 2, …: whole numbers for draws.
    exposed_sum : array, (K,), or (F, K) with unobserved entries, optional
        Σ_jn m_nf s_n h_kn, if samples have exposures or unobserved entries. This and h_sum are
        then sums of E[h_kn | L_kn] = (α_k + L_kn) / R_kn.
    L_sum : array, (N, K), optional
        Σ_j L_kn of every sample, in the same case.
    pseudo : float
        J η: the pseudo-counts that a prior on directions adds to each entry of c_sum. They are not
        in c_sum.
    """

    c_sum: Array
    h_sum: Array
    n_draws: float
    ratio_sum: Array | None = None
    sizes: NDArray[Any] | None = None
    exposed_sum: Array | None = None
    L_sum: Array | None = None
    pseudo: float = 0.0

    @property
    def below(self) -> Array:
        """Σ_jn m_nf s_n h_kn, (K,) or (F, K): what Σ_jn c_fkn is divided by in EM-CH."""
        return self.h_sum if self.exposed_sum is None else self.exposed_sum

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.c_sum + other.c_sum,
            self.h_sum + other.h_sum,
            self.n_draws + other.n_draws,
            add_given(self.ratio_sum, other.ratio_sum),
            add_given(self.sizes, other.sizes),
            None if self.exposed_sum is None else self.below + other.below,
            add_given(self.L_sum, other.L_sum),
            self.pseudo + other.pseudo,
        )

    def moved_to(self, other: Statistics, step: float) -> Statistics:
        """(1 − step) times these and `step` times the others, as averages over draws."""
        here, there = (1.0 - step) / self.n_draws, step / other.n_draws

        def mix(a: Any, b: Any) -> Any:
            return None if a is None or b is None else here * a + there * b

        return Statistics(
            mix(self.c_sum, other.c_sum),
            mix(self.h_sum, other.h_sum),
            1.0,
            mix(self.ratio_sum, other.ratio_sum),
            mix(self.sizes, other.sizes),
            mix(self.exposed_sum, other.exposed_sum),
            mix(self.L_sum, other.L_sum),
            mix(self.pseudo, other.pseudo),
        )


Given = TypeVar("Given", bound=np.generic)


def add_given(a: NDArray[Given] | None, b: NDArray[Given] | None) -> NDArray[Given] | None:
    """a + b, of which histograms may differ in length; both or neither are given."""
    if a is None and b is None:
        return None
    if a is None or b is None:
        raise TypeError("only statistics that hold the same things can be added")
    if a.shape[1] < b.shape[1]:
        a, b = b, a
    total = a.copy()
    np.add(total[:, : b.shape[1]], b, out=total[:, : b.shape[1]])
    return total


@dataclass(frozen=True)
class Sweeps:
    """What an E-step does.

    Attributes
    ----------
    n_draws : int
        Number of sweeps that are accumulated.
    n_burn_in : int
        Number of sweeps that are discarded before them.
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
    """The state of the chains: all that they need to go on exactly as if not interrupted."""

    L: NDArray[np.signedinteger[Any]]
    """(N, K): Σ_f c_fkn, or -1 before the first sweep."""
    iteration: int


class Engine(Protocol):
    """An engine holds counts, N × F, and one chain per sample."""

    @property
    def n_samples(self) -> int:
        """N."""

    @property
    def totals(self) -> NDArray[np.float64]:
        """(F,): Σ_n v_fn."""

    @property
    def mean_counts(self) -> NDArray[np.float64]:
        """(F,): Σ_n v_fn / Σ_n m_nf s_n, the mean count of each feature at exposure 1."""

    @property
    def observation(self) -> Observation | None:
        """How the samples were observed, if they have exposures or unobserved entries."""

    @property
    def state(self) -> State:
        """The state of the chains."""

    @state.setter
    def state(self, state: State) -> None: ...

    def advance(self, model: GaP, sweeps: Sweeps) -> Statistics:
        """One E-step from the present state. If it is interrupted the state is as before."""
