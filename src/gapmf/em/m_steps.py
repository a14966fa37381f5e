"""The M-steps: additive statistics in, a new W out. They look like the paper's equations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gapmf.em.alpha import fit_alpha
from gapmf.engines.base import Statistics
from gapmf.model import GaP
from gapmf.types import Array


def update_c(s: Statistics, alpha: Array, beta: Array) -> Array:
    """w_fk = (1/JN) (β_k/α_k) Σ_jn c_fkn: the minimum of Q_C, Eqs. 43 to 49."""
    W = beta / alpha * s.c_sum
    W /= s.n_draws  # no further array
    return W


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


def step_c(s: Statistics, model: GaP) -> GaP:
    """One M-step of EM-C, α and β as they are."""
    return GaP.from_step(update_c(s, model.alpha, model.beta), model.alpha, model.beta)


def step_ch(s: Statistics, model: GaP) -> GaP:
    """One M-step of EM-CH, and of EM-H if s holds E[C | h], by Eq. 42: w̃ Σ h v / [W̃h] = Σ c."""
    return GaP.from_step(update_ch(s), model.alpha, model.beta)


def step_c_alpha(s: Statistics, model: GaP, *, shared: bool) -> GaP:
    """One M-step of EM-C for W and α together: the maximum of Q_C over both."""
    assert s.sizes is not None
    alpha = fit_alpha(s.sizes, model.alpha, shared=shared)
    return GaP.from_step(update_c(s, alpha, model.beta), alpha, model.beta)


def m_step_for(algorithm: str, learn_alpha: str | None) -> Callable[[Statistics, GaP], GaP]:
    """Return the M-step of a Monte Carlo algorithm: statistics and a model in, a model out.

    "mcem-h" multiplies W once, as Eq. 42 does. From E[C | h] that is the step of "mcem-ch", so the
    two differ only where the latter adds draws of C: in the paper's schedule. Further updates would
    need every draw of h, not sums (design note 0013).
    """
    if algorithm != "mcem-c":
        return step_ch
    if learn_alpha is None:
        return step_c
    return partial(step_c_alpha, shared=learn_alpha == "shared")
