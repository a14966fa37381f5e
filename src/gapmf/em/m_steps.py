"""The M-steps: additive statistics in, a new W out. They look like the paper's equations.

With pseudo-counts η the objective is log p(V | W) + η Σ_fk log(F w_fk / S_k), a prior on the
directions of columns (`GaP.log_prior`). Given expected counts c_fk, the M-step of EM-C and EM-CH
then has the direction in proportion to c_fk + η, and the norm as before: the norm has no prior, so
a column can vanish. (So the direction is also the mean of a posterior with the prior Dirichlet(η).)
The identity Σ_k (α_k/β_k) w_fk = v̄_f of stationary points becomes

    Σ_k (α_k/β_k) w_fk + (η/N) (F w_fk/S_k − 1) = v̄_f,

and holds after every step of EM-C as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gapmf.em.alpha import fit_alpha, fit_alpha_at_means
from gapmf.engines.base import Statistics
from gapmf.model import GaP, model_of_step
from gapmf.observation import Observation
from gapmf.types import Array

MOST_STEPS = 100  # of Newton's method


def update_c(s: Statistics, alpha: Array, beta: Array) -> Array:
    """w_fk = (1/JN) (β_k/α_k) Σ_jn c_fkn: the minimum of Q_C, Eqs. 43 to 49.

    With exposures it is [Σ c_fkn / Σ m_nf s_n h_kn] β_k Σ h_kn / (JN α_k): parameter-expanded EM,
    where the prior's rate moves together with W and is then scaled back to β.

    With pseudo-counts, columns keep their norms, and get other directions.
    """
    if s.exposed_sum is not None:
        return update_ch(s) * (beta * s.h_sum / (s.n_draws * alpha))
    W: Array = beta / alpha * s.c_sum
    W /= s.n_draws  # no further array
    return with_pseudo_counts(W, s) if s.pseudo else W


def update_ch(s: Statistics) -> Array:
    """w_fk = Σ_jn c_fkn / Σ_jn h_kn: Eq. 41.

    A component without counts may have activations that are all 0 in floating point, at small
    α; its column is 0.
    """
    if s.pseudo and s.below.ndim == 2:
        return update_unobserved(s)
    W = _divide(s.c_sum, s.below)
    return with_pseudo_counts(W, s) if s.pseudo else W


def update_h(s: Statistics, W: Array) -> Array:
    """w_fk = w̃_fk Σ_jn h_kn v_fn [W̃h]_fn⁻¹ / Σ_jn h_kn: Eq. 42."""
    assert s.ratio_sum is not None
    return _divide(W * s.ratio_sum, s.below)


def _divide(upper: Array, h_sum: Array) -> Array:
    """Columns divided by activations; 0 where these are nothing, or next to it."""
    with np.errstate(over="ignore"):
        W = np.divide(upper, h_sum, out=np.zeros_like(upper), where=(upper > 0) & (h_sum > 0))
    return np.where(np.isfinite(W), W, 0.0)


def with_pseudo_counts(W: Array, s: Statistics) -> Array:
    """w_fk = S_k (Σ c_fkn + η) / (Σ_f Σ c_fkn + F η), with the norms S_k of W, which is replaced.

    W is that of the M-step without a prior.
    """
    norms = W.sum(axis=0)
    totals = s.c_sum.sum(axis=0) + W.shape[0] * s.pseudo
    np.add(s.c_sum, s.pseudo, out=W)
    W *= norms / totals
    return W


def update_unobserved(s: Statistics) -> Array:
    """w_fk = (Σ c_fkn + η) / (Σ m_nf s_n h_kn + F η / S_k), where S_k is their sum over f.

    The maximum of Σ_f [c_fk log w_fk − w_fk Σ m_nf s_n h_kn] + η Σ_f log(w_fk/S_k), which is
    concave in log w. S_k is the root of Σ_f (c_fk + η) / (S_k Σ m_nf s_n h_kn + F η) = 1. The left
    side falls and is convex in S_k, so that Newton's steps from below never pass the root. It is
    at least Σ_f c_fk / max_f Σ m_nf s_n h_kn.
    """
    above, below = s.c_sum + s.pseudo, s.below
    F = above.shape[0]
    flat = F * s.pseudo
    totals = s.c_sum.sum(axis=0)
    used = (totals > 0) & (below > 0).all(axis=0)
    S = np.divide(totals, below.max(axis=0), out=np.zeros_like(totals), where=used)
    for _ in range(MOST_STEPS):
        under = S * below + flat
        parts = above / under
        excess = parts.sum(axis=0) - 1.0
        slope = (parts * below / under).sum(axis=0)
        step = np.divide(excess, slope, out=np.zeros_like(S), where=used & (slope > 0))
        S += np.maximum(step, 0.0)
        if (step <= 1e-15 * S).all():
            break
    # Written with S above, so that S = 0 gives 0.
    W: Array = above * S / (S * below + flat)
    return W


def step_c(s: Statistics, model: GaP) -> GaP:
    """One M-step of EM-C, α and β as they are."""
    return model_of_step(update_c(s, model.alpha, model.beta), model.alpha, model.beta)


def step_ch(s: Statistics, model: GaP) -> GaP:
    """One M-step of EM-CH, and of EM-H if s holds E[C | h], by Eq. 42: w̃ Σ h v / [W̃h] = Σ c."""
    return model_of_step(update_ch(s), model.alpha, model.beta)


def step_c_alpha(
    s: Statistics,
    model: GaP,
    *,
    shared: bool,
    observation: Observation | None = None,
    weights: Array | None = None,
) -> GaP:
    """One M-step of EM-C for W and α together: the maximum of Q_C over both.

    With exposures, W is updated first, and then α at the expected sizes that W has; weights (N,)
    are how often samples count, if not equally often.
    """
    assert s.sizes is not None
    if observation is not None:
        W = update_c(s, model.alpha, model.beta)
        means = observation.norms(W) * (model.alpha / model.beta)
        alpha = fit_alpha_at_means(s, means, model.alpha, shared=shared, weights=weights)
        return GaP(W * (model.alpha / alpha), alpha, model.beta)
    alpha = fit_alpha(s.sizes, model.alpha, shared=shared)
    return model_of_step(update_c(s, alpha, model.beta), alpha, model.beta)


def m_step_for(
    algorithm: str, learn_alpha: str | None, observation: Observation | None = None
) -> Callable[[Statistics, GaP], GaP]:
    """Return the M-step of a Monte Carlo algorithm: statistics and a model in, a model out.

    "mcem-h" multiplies W once, as Eq. 42 does. From E[C | h] that is the step of "mcem-ch", so the
    two differ only where the latter adds draws of C: in the paper's schedule. Further updates would
    need every draw of h, not sums (design note 0013).
    """
    if algorithm != "mcem-c":
        return step_ch
    if learn_alpha is None:
        return step_c
    return partial(step_c_alpha, shared=learn_alpha == "shared", observation=observation)
