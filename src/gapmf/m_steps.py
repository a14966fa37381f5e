"""The M-steps: additive statistics in, a new W out. They look like the paper's equations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Statistics:
    """What an M-step needs of the samples, summed over samples n and draws j.

    Statistics of different samples add up with `+`. With exact moments expectations take the
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
    """

    c_sum: Array
    h_sum: Array
    n_draws: float
    ratio_sum: Array | None = None
    sizes: NDArray[Any] | None = None

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.c_sum + other.c_sum,
            self.h_sum + other.h_sum,
            self.n_draws + other.n_draws,
            _add_given(self.ratio_sum, other.ratio_sum),
            _add_given(self.sizes, other.sizes),
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
        )


Given = TypeVar("Given", bound=np.generic)


def _add_given(a: NDArray[Given] | None, b: NDArray[Given] | None) -> NDArray[Given] | None:
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


def update_c(s: Statistics, alpha: Array, beta: Array) -> Array:
    """w_fk = (1/JN) (β_k/α_k) Σ_jn c_fkn: the minimum of Q_C, Eqs. 43 to 48."""
    return beta / alpha * s.c_sum / s.n_draws


def update_ch(s: Statistics) -> Array:
    """w_fk = Σ_jn c_fkn / Σ_jn h_kn: Eq. 41.

    A component without counts may have activations that are all 0 in floating point, at small
    α; its column is 0.
    """
    return _divide(s.c_sum, s.h_sum)


def update_h(s: Statistics, W: Array) -> Array:
    """w_fk = w̃_fk Σ_jn h_kn v_fn [W̃h]_fn⁻¹ / Σ_jn h_kn: Eq. 42."""
    assert s.ratio_sum is not None
    return _divide(W * s.ratio_sum, s.h_sum)


def _divide(upper: Array, h_sum: Array) -> Array:
    """Columns divided by activations; 0 where these are nothing, or next to it."""
    with np.errstate(over="ignore"):
        W = np.divide(upper, h_sum, out=np.zeros_like(upper), where=(upper > 0) & (h_sum > 0))
    return np.where(np.isfinite(W), W, 0.0)
