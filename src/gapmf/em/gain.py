"""The gain in log-likelihood of a step from one model to another, from draws at both ends.

With a prior on directions it is the gain of the objective: the prior's part is known exactly.

log p(V | b) − log p(V | a) is at least E[log p(C | b) − log p(C | a)] with C drawn given V at a,
and at most the same with C drawn at b: Jensen's inequality, twice. Their mean is the trapezoidal
rule along the way from a to b in the logarithms of the parameters, right to third order in its
length. log p(C | W, α) is linear in the statistics of an E-step, so two E-steps give the gain.

Noise makes the way long: rare entries move by large factors from window to window. What an entry
u_fk = (α_k/β_k) w_fk contributes is ∫ c_fk d log u_fk, where c_fk is about a constant if the
component has the feature for itself, but proportional to u_fk if its share of the feature is small.
Then ∫ (c_fk/u_fk) du_fk is the integral for a trapezoidal rule. The two rules are mixed, in
proportion to the share.

The two bounds also give the noise. To second order they are d'I d apart, where d is the difference
of the parameters and I the information on them that C has beyond V. The statistics of one sweep
vary from sweep to sweep with covariance I too, so what they say about a step d has variance d'I d.
Successive sweeps of a chain are correlated; two of them count as one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gapmf.distributions import log_rising
from gapmf.engines.base import Statistics
from gapmf.model import GaP
from gapmf.observation import Observation
from gapmf.types import Array

SWEEPS_PER_DRAW = 2.0  # sweeps that are worth one independent draw
TINY = 1e-200  # the smallest mean that is divided by
N_ERRORS = 2.0  # a gain below this many standard errors cannot be told from nothing


class EStep(NamedTuple):
    """A model and the statistics of an E-step there."""

    model: GaP
    statistics: Statistics
    n_draws: int


class Gain(NamedTuple):
    """An estimate of log p(V | b) − log p(V | a) over all samples, in nats, and its error."""

    estimate: float
    error: float

    @property
    def largest(self) -> float:
        """The largest size of the gain, within `N_ERRORS` standard errors."""
        return abs(self.estimate) + N_ERRORS * self.error


def gain(a: EStep, b: EStep, observation: Observation | None = None) -> Gain:
    """Return the gain of the step from a to b."""
    n_samples = a.statistics.n_draws / a.n_draws
    at_a, at_b = (e.statistics.c_sum / e.n_draws for e in (a, b))
    means_a, means_b = _means(a.model), _means(b.model)
    moved = (means_a > 0) & (means_b > 0)
    log_ratio = np.log(np.divide(means_b, means_a, out=np.ones_like(means_a), where=moved))
    share = 0.5 * (_shares(means_a) + _shares(means_b)) * moved
    # ∫ c d log u = ∫ r du with c = r u: the trapezoidal rule for c in log u, and for r in u.
    rates = [
        np.divide(c, u, out=np.zeros_like(c), where=u > TINY)
        for c, u in ((at_a, means_a), (at_b, means_b))
    ]
    # An entry that is zero at one end has the rate of the other throughout.
    rate = np.where(moved, 0.5 * (rates[0] + rates[1]), np.maximum(*rates))
    both = 0.5 * (at_a + at_b)
    entries = share * both * log_ratio + (1.0 - share) * rate * (means_b - means_a)
    rests = [_rest(e, a.model, b.model, n_samples, observation) for e in (a, b)]
    estimate = float(entries.sum()) + 0.5 * sum(rests)
    eta = b.statistics.pseudo / b.n_draws
    estimate += b.model.log_prior(eta) - a.model.log_prior(eta)
    between = float(((at_b - at_a) * log_ratio).sum())
    between += rests[1] - rests[0]
    # The difference of the bounds is noisy too, and may be negative when there is little of it.
    variance = SWEEPS_PER_DRAW * abs(between) / 4.0 * (1.0 / a.n_draws + 1.0 / b.n_draws)
    return Gain(estimate, math.sqrt(variance))


def _means(model: GaP) -> Array:
    """u_fk = (α_k/β_k) w_fk, (F, K)."""
    return model.W * (model.alpha / model.beta)


def _shares(means: Array) -> Array:
    """Each component's share of the expected counts of each feature, (F, K)."""
    totals = means.sum(axis=1, keepdims=True)
    shares: Array = np.divide(means, totals, out=np.zeros_like(means), where=totals > 0)
    return shares


def _rest(at: EStep, a: GaP, b: GaP, n_samples: float, observation: Observation | None) -> float:
    """E[log p(C | b) − log p(C | a)] at an E-step, without Σ c_fk log u_fk.

    log p(C | W, α) has Σ_fk c_fk log p_fk with p_fk = u_fk / (U_k + α_k) and U_k = Σ_f u_fk. With
    exposures, samples have their own p_fkn = s_n w_fk / R_kn: what is not common to them is
    Σ_kn (α_k + L_kn) log R_kn.
    """
    s = at.statistics
    totals = s.c_sum.sum(axis=0) / at.n_draws
    if observation is None:
        scales = [np.log(m.column_norms * (m.alpha / m.beta) + m.alpha) for m in (a, b)]
        logs = [n_samples * float(m.alpha @ np.log1p(m.column_norms / m.beta)) for m in (a, b)]
    else:
        assert s.L_sum is not None
        L = s.L_sum / at.n_draws
        scales = [np.log(m.alpha) for m in (a, b)]
        logs = [
            float(((m.alpha + L) * np.log1p(observation.norms(m.W) / m.beta)).sum()) for m in (a, b)
        ]
    value = -float(totals @ (scales[1] - scales[0])) - (logs[1] - logs[0])
    if not np.array_equal(a.alpha, b.alpha):
        assert s.sizes is not None
        sizes = np.arange(s.sizes.shape[1])
        rise = log_rising(b.alpha[:, None], sizes) - log_rising(a.alpha[:, None], sizes)
        value += float((s.sizes * rise).sum()) / at.n_draws
    return value
