"""The M-steps: additive statistics in, a new W out. They look like the paper's equations."""

from __future__ import annotations

import numpy as np

from gapmf.engines.base import Statistics
from gapmf.types import Array


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
