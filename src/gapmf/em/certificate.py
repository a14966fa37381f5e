"""How near a model is to a maximum of the likelihood, and what one column more would do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gapmf.em.expectation import ExactExpectation
from gapmf.model import GaP

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Certificate:
    """First-order conditions at a model, and the score test for one column more.

    Attributes
    ----------
    projected_gradient : float
        The largest violation of the first-order conditions, in nats a unit of share (the share
        u_fk of feature f's mean count that component k explains): |∂C_ML/∂u_fk| where
        u_fk > 0, and only what would push it up where u_fk = 0. Zero at a maximum.
    identity : float
        The largest relative deviation from Σ_k (α_k/β_k) w_fk = v̄_f, which holds at every
        stationary point.
    r : array, (F,)
        The score test for one column more: where r_f > 1 a new column would raise the
        likelihood, at first by N (α/β) (r_f − 1) nats a unit of w_f. One on average at the
        truth.
    """

    projected_gradient: float
    identity: float
    r: Array

    @property
    def gains_from_a_column(self) -> bool:
        """Whether some feature would gain from one column more (max r_f > 1, to 1e-6)."""
        return bool(self.r.max() > 1.0 + 1e-6)


def certify(expect: ExactExpectation, model: GaP) -> Certificate:
    """The certificate of a model for the data that `expect` holds."""
    at = expect(model, zeros_too=True)
    mean = expect.mean_counts
    gradient = at.gradient * (model.beta / model.alpha) * mean[:, None]
    shares = shares_of(model, mean)
    projected = shares - np.maximum(shares - gradient, 0.0)
    seen = mean > 0
    expected = model.expected_counts()[seen] / mean[seen]
    return Certificate(
        projected_gradient=float(np.abs(projected).max()),
        identity=float(np.abs(expected - 1.0).max(initial=0.0)),
        r=expect.score(model),
    )


def shares_of(model: GaP, mean_counts: Array) -> Array:
    """u_fk = (α_k/β_k) w_fk / v̄_f, (F, K); zero for features without counts."""
    expected = model.W * (model.alpha / model.beta)
    seen = mean_counts[:, None] > 0
    return np.divide(expected, mean_counts[:, None], out=np.zeros_like(expected), where=seen)
