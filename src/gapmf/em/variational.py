"""Mean-field variational EM (VBEM): Gamma factors for the activations, multinomials for C.

With q(h_kn) = Gamma(a_kn, b_k) and q(c_fn) = Multinomial(v_fn, φ_fn), log p(V | W) is at least

    Σ_nf v_fn log Σ_k p_fk exp ψ(a_kn) − log v_fn! − N Σ_k α_k log(1 + S_k/β_k)
    + Σ_nk log Γ(a_kn) − log Γ(α_k) − (a_kn − α_k) ψ(a_kn),

at the best φ_fkn ∝ p_fk exp ψ(a_kn) and at b_k = β_k + S_k. The best a given φ is α_k + L_kn with
L_kn = Σ_f v_fn φ_fkn. Given φ and the best q(h), W is in the bound exactly as in Q_C, with
Σ_n v_fn φ_fkn in the place of E[C]. So the M-step is EM-C's, and it is the maximum over W and b.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import psi, zeta

from gapmf.distributions import log_one_plus, log_rising
from gapmf.em.alpha import LARGEST, SMALLEST, TOLERANCE
from gapmf.em.ascent import Evaluation, Objective
from gapmf.em.m_steps import update_c
from gapmf.engines.allocation import Allocation, Allocator
from gapmf.engines.base import Statistics
from gapmf.model import GaP
from gapmf.types import Array

N_PASSES = 4  # an M-step and the sums by feature cost as much as several passes
LARGEST_STEP = 2.0  # of Newton's method in log α


class VariationalBound(Objective):
    """The lower bound of log p(V | W), for `algorithm="vbem"`."""

    name = "bound"

    def __init__(
        self, allocator: Allocator, learn_alpha: str | None = None, pseudo_count: float = 0.0
    ) -> None:
        super().__init__(allocator, pseudo_count)
        self.learn_alpha = learn_alpha

    def allocate(self, model: GaP, L: Array, n_passes: int) -> Allocation:
        """Improve q, from a_kn = α_k + L_kn on, by n_passes updates of φ and a."""
        p = model.event_probabilities
        return self.allocator.allocate(p, model.alpha, L, n_passes=n_passes)

    def e_step(self, model: GaP, L: Array) -> Evaluation:
        """Improve q, and compute the bound there."""
        found = self.allocate(model, L, N_PASSES)
        counts, rate = self.allocator, model.beta + model.column_norms
        N = counts.n_samples
        value = found.value - counts.log_factorials
        value -= N * float(model.alpha @ log_one_plus(model.column_norms, model.beta))
        h_sum = (N * model.alpha + found.c_sum.sum(axis=0)) / rate
        prior = model.log_prior(self.pseudo_count)
        s = Statistics(found.c_sum, h_sum, N, pseudo=self.pseudo_count)
        return Evaluation(value + prior, s, found.L, log_prior=prior)

    def m_step(self, model: GaP, at: Evaluation) -> GaP:
        """Maximise the bound over W, given φ; when α is learned, take a step in α as well."""
        alpha = model.alpha
        if self.learn_alpha is not None:
            shared = self.learn_alpha == "shared"
            alpha = better_alpha(at.L, self.allocator.times, alpha, shared=shared)
        return GaP(update_c(at.statistics, alpha, model.beta), alpha, model.beta)


def better_alpha(L: Array, times: Array, alpha: Array, *, shared: bool) -> Array:
    """Return α (K,) at which the bound, with the best W and q(h) given φ, is no lower.

    That bound is the likelihood of a negative binomial with mean L̄_k, at sizes L (N, K) that need
    not be whole. A step of Newton's method in log α, or a long one where the bound is not concave,
    is kept if it gains. Otherwise α is the best for the present q(h), of which there is one: the
    slope there falls in α.
    """
    used = np.flatnonzero(times @ L > 0.0)
    new = alpha.copy()
    if used.size == 0:
        return new
    # One α for all components is the same as one component with all their samples.
    groups = [used] if shared else [np.array([k]) for k in used]
    for group in groups:
        better = _better_one(L[:, group], times, float(alpha[group[0]]))
        new[slice(None) if shared else group] = better
    return new


def _better_one(L: Array, times: Array, alpha: float) -> float:
    """Return a better α for the components with sizes L (N, J)."""
    share = times / times.sum()
    means = share @ L

    def value(a: float) -> float:
        rest = a * np.log1p(means / a) + means * np.log(a + means)
        return float((share @ log_rising(a, L)).sum() - rest.sum())

    at_sizes = psi(alpha + L)
    slope = (share @ (at_sizes - psi(alpha)) - np.log1p(means / alpha)).sum()
    bend = (share @ (zeta(2.0, alpha + L) - zeta(2.0, alpha))).sum()
    bend += (means / (alpha * (alpha + means))).sum()
    bend_in_log = slope + alpha * bend  # d(slope · α)/d log α, divided by α
    newton = -slope / bend_in_log if bend_in_log < 0.0 else np.copysign(np.inf, slope)
    step = float(np.clip(newton, -LARGEST_STEP, LARGEST_STEP))
    new = float(np.clip(alpha * np.exp(step), SMALLEST, LARGEST))
    if value(new) >= value(alpha):
        return new
    return _best_given_q(float((share @ at_sizes).sum()), means)


def _best_given_q(mean_log: float, means: Array) -> float:
    """Return α in [SMALLEST, LARGEST] with Σ_k ψ(α) + log(1 + L̄_k/α) = Σ_k mean_n ψ(a_kn)."""

    def excess(log_alpha: float) -> float:
        a = np.exp(log_alpha)
        return float(mean_log - means.size * psi(a) - np.log1p(means / a).sum())

    low, high = np.log(SMALLEST), np.log(LARGEST)
    if excess(low) <= 0.0:
        return SMALLEST
    if excess(high) >= 0.0:
        return LARGEST
    return float(np.exp(brentq(excess, low, high, xtol=TOLERANCE)))
