"""The M-steps: additive statistics in, a new W out. They look like the paper's equations."""

from __future__ import annotations

from dataclasses import dataclass

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
    ratio_sum : array, (F, K)
        Σ_jn h_kn v_fn / [Wh_n]_f, at the W that the expectations were taken with.
    n_draws : float
        J N: the number of terms in these sums.
    """

    c_sum: Array
    h_sum: Array
    ratio_sum: Array
    n_draws: float

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.c_sum + other.c_sum,
            self.h_sum + other.h_sum,
            self.ratio_sum + other.ratio_sum,
            self.n_draws + other.n_draws,
        )


def update_c(s: Statistics, alpha: Array, beta: Array) -> Array:
    """w_fk = (1/JN) (β_k/α_k) Σ_jn c_fkn: the minimum of Q_C, Eqs. 43 to 48."""
    return beta / alpha * s.c_sum / s.n_draws


def update_ch(s: Statistics) -> Array:
    """w_fk = Σ_jn c_fkn / Σ_jn h_kn: Eq. 41."""
    return s.c_sum / s.h_sum


def update_h(s: Statistics, W: Array) -> Array:
    """w_fk = w̃_fk Σ_jn h_kn v_fn [W̃h]_fn⁻¹ / Σ_jn h_kn: Eq. 42."""
    return W * s.ratio_sum / s.h_sum
