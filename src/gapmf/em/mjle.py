"""Maximum joint likelihood (MJLE): W and the activations H fitted together.

log p(V, H | W) is maximised by majorisation and minimisation. Given expected components
c_fkn = v_fn w_fk h_kn / [Wh_n]_f, the best h is (α_k − 1 + L_kn)/(β_k + S_k), with
L_kn = Σ_f c_fkn, and the best W with that h is EM-C's with α_k − 1 in the place of α_k:
w_fk = β_k Σ_n c_fkn / (N (α_k − 1)). Both are taken at once: these are the multiplicative updates
of W and H at their common maximum.

This needs α_k > 1. At α = 1 the joint likelihood is the KL divergence and β_k Σ_n h_kn: it grows
for ever as W grows and H shrinks. What is left when the scale is held is KL-NMF. The scale that is
held is mean_n h_kn = α_k/β_k, the prior's mean, so that W has the scale of the model's. With α < 1
the joint likelihood is infinite at h = 0.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from gapmf.em.ascent import Evaluation, Objective
from gapmf.em.m_steps import update_c
from gapmf.engines.allocation import Allocation
from gapmf.engines.base import Statistics
from gapmf.model import GaP
from gapmf.types import Array


class JointLikelihood(Objective):
    """log p(V, H | W), for `algorithm="mjle"`: Eq. 3."""

    name = "log_joint_likelihood"

    def allocate(self, model: GaP, L: Array, n_passes: int) -> Allocation:
        """Take the best H for these component sizes, and share the counts out by it."""
        p = model.W / _activation_rate(model)
        return self.allocator.allocate(p, model.alpha, L, n_passes=n_passes, joint=True)

    def e_step(self, model: GaP, L: Array) -> Evaluation:
        """Take the best H for these component sizes, and compute the joint likelihood there."""
        counts, norms = self.allocator, model.column_norms
        rate = _activation_rate(model)
        found = self.allocate(model, L, 1)
        H = found.weights / rate
        h_sum = counts.times @ H
        # Σ_nf [Wh_n]_f, and the logarithm of the prior besides (α − 1) log(rate · h)
        value = found.value - counts.log_factorials - float((norms + model.beta) @ h_sum)
        constant = model.alpha * np.log(model.beta) - gammaln(model.alpha)
        constant -= (model.alpha - 1.0) * np.log(rate)
        value += counts.n_samples * float(constant.sum())
        s = Statistics(found.c_sum, h_sum, counts.n_samples, pseudo=self.pseudo_count)
        prior = model.log_prior(self.pseudo_count)
        return Evaluation(value + prior, s, found.L, H, prior)

    def m_step(self, model: GaP, at: Evaluation) -> GaP:
        """Return the best W together with the H that the next E-step takes."""
        shape = np.where(model.alpha > 1.0, model.alpha - 1.0, model.alpha)
        return GaP(update_c(at.statistics, shape, model.beta), model.alpha, model.beta)


def _activation_rate(model: GaP) -> Array:
    """Return what α − 1 + L is divided by to give h: β + S, and with a fixed scale S."""
    norms = model.column_norms
    return np.where(model.alpha > 1.0, model.beta + norms, np.where(norms > 0.0, norms, 1.0))
