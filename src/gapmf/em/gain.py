"""The gain in log-likelihood of a step from one model to another, from draws at both ends.

log p(V | b) − log p(V | a) is at least E[log p(C | b) − log p(C | a)] with C drawn given V at a,
and at most the same with C drawn at b: Jensen's inequality, twice. Their mean is the trapezoidal
rule along the way from a to b, right to third order in its length. log p(C | W, α) is linear in
the statistics of an E-step, so two E-steps give the gain.

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

SWEEPS_PER_DRAW = 2.0  # sweeps that are worth one independent draw
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
    n = a.statistics.n_draws / a.n_draws
    lower, upper = (n * _expected(s.statistics, a.model, b.model, observation) for s in (a, b))
    # The difference of the bounds is noisy too, and may be negative when there is little of it.
    variance = SWEEPS_PER_DRAW * abs(upper - lower) / 4.0 * (1.0 / a.n_draws + 1.0 / b.n_draws)
    return Gain(0.5 * (lower + upper), math.sqrt(variance))


def _expected(s: Statistics, a: GaP, b: GaP, observation: Observation | None) -> float:
    """The mean of log p(C | b) − log p(C | a) over the draws of s, in nats per sample.

    With exposures, samples have their own p_fkn = s_n w_fk / R_kn: what is not common to them is
    Σ_kn (α_k + L_kn) log R_kn.
    """
    met = s.c_sum > 0
    ratio = np.ones_like(s.c_sum)
    if observation is None:
        np.divide(b.event_probabilities, a.event_probabilities, out=ratio, where=met)
    else:
        np.divide(b.W / b.beta, a.W / a.beta, out=ratio, where=met)
    value = float((s.c_sum * np.log(ratio, out=ratio)).sum()) / s.n_draws
    for sign, m in ((1.0, b), (-1.0, a)):
        if observation is None:
            value -= sign * float(m.alpha @ np.log1p(m.column_norms / m.beta))
        else:
            assert s.L_sum is not None
            shapes = m.alpha + s.L_sum * (observation.n_samples / s.n_draws)
            logs = np.log1p(observation.norms(m.W) / m.beta)
            value -= sign * float((shapes * logs).sum()) / observation.n_samples
    if not np.array_equal(a.alpha, b.alpha):
        assert s.sizes is not None
        sizes = np.arange(s.sizes.shape[1])
        rise = log_rising(b.alpha[:, None], sizes) - log_rising(a.alpha[:, None], sizes)
        value += float((s.sizes * rise).sum()) / s.n_draws
    return value
