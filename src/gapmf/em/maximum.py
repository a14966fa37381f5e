"""The maximum of the marginal likelihood itself, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from gapmf.em.exact_moments import Fit, em_c_step, fit_em
from gapmf.em.expectation import ExactExpectation, Expectation
from gapmf.em.record import History
from gapmf.em.start import from_shares
from gapmf.model import GaP

Array = NDArray[np.float64]


_WARM_UP = 20  # iterations of EM-C before the quasi-Newton method takes over


@dataclass(frozen=True)
class Certificate:
    """How near a model is to a maximum of the marginal likelihood.

    Attributes
    ----------
    projected_gradient : float
        The largest violation of the first-order conditions, in nats: of moving a feature's
        whole mean count to a better component, or of any positive w_fk being off its optimum.
    identity : float
        The largest relative deviation from Σ_k (α_k/β_k) w_fk = v̄_f, which holds at every
        stationary point.
    r : array, (F,)
        The score test for one column more: where r_f > 1 a new column would raise the
        likelihood, at first by N (α/β) (r_f − 1) nats a unit of w_f.
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
    # In nats: u_fk is the part of v̄_f that component k explains, w_fk = (β_k/α_k) v̄_f u_fk.
    gradient = at.gradient * (model.beta / model.alpha) * mean[:, None]
    shares = _shares(model, mean)
    projected = shares - np.maximum(shares - gradient, 0.0)
    identity = model.W @ (model.alpha / model.beta)
    seen = mean > 0
    deviation = np.abs(identity[seen] / mean[seen] - 1.0).max() if seen.any() else 0.0
    return Certificate(
        float(np.abs(np.where(np.abs(gradient) < np.abs(projected), gradient, projected)).max()),
        float(deviation),
        expect.score(model),
    )


def _shares(model: GaP, mean_counts: Array) -> Array:
    """u_fk = (α_k/β_k) w_fk / v̄_f, (F, K); zero for features without counts."""
    expected = model.W * (model.alpha / model.beta)
    seen = mean_counts[:, None] > 0
    return np.divide(expected, mean_counts[:, None], out=np.zeros_like(expected), where=seen)


def fit_maximum(expect: ExactExpectation, model: GaP, *, max_iter: int, history: History) -> Fit:
    """Climb from `model` to a maximum by a quasi-Newton method on the exact gradient.

    Every stationary point satisfies Σ_k (α_k/β_k) w_fk = v̄_f, so W is written with the shares
    u_fk of that sum, w_fk = (β_k/α_k) v̄_f u_fk / Σ_l u_fl, u ≥ 0: no scale is left to search,
    all variables are of size one, and a column can go to zero and come back. L-BFGS-B minimises
    over u, after a few iterations of EM-C, which choose the basin more wisely than its first
    long steps; the last step is EM-C's again, which cannot lose.
    """
    seen = np.flatnonzero(expect.mean_counts > 0)
    mean = expect.mean_counts[seen]
    alpha, beta = model.alpha, model.beta
    shape = (seen.size, model.n_components)
    latest: dict[str, tuple[GaP, Expectation]] = {}

    def build(u: Array) -> GaP:
        W = np.zeros((expect.n_features, shape[1]))
        W[seen] = from_shares(u.reshape(shape), mean, alpha, beta)
        return GaP(W, alpha, beta)

    def cost(u: Array) -> tuple[float, Array]:
        u = u.reshape(shape)
        total = u.sum(axis=1, keepdims=True)
        if not (total > 0).all():
            return np.inf, np.zeros(u.size)
        here = build(u)
        at = expect(here, zeros_too=True)
        latest["point"] = here, at
        slope = at.gradient[seen] * (beta / alpha) * mean[:, None]
        slope = (slope - (slope * u / total).sum(axis=1, keepdims=True)) / total
        return -at.log_likelihood, slope.ravel()

    def note(intermediate_result: object) -> None:
        here, at = latest["point"]
        if history.add(here, at.log_likelihood):
            raise StopIteration

    if seen.size == 0:
        return Fit(model, expect(model), True)
    warm = fit_em(
        expect, model, em_c_step, max_iter=min(_WARM_UP, max_iter), tol=0.0, history=history
    )
    if history.stopped:
        return warm
    model = warm.model
    result = minimize(
        cost,
        _shares(model, expect.mean_counts)[seen].ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * (shape[0] * shape[1]),
        callback=note,
        options={
            "maxiter": max(1, max_iter - len(history) - 1),
            "maxcor": 30,
            "ftol": 0.0,
            "gtol": 1e-7,
            "maxfun": 10**6,
        },
    )
    best = build(np.asarray(result.x))
    at = expect(best)
    polished = em_c_step(best, at)
    after = expect(polished)
    if after.log_likelihood >= at.log_likelihood:
        best, at = polished, after
    if not history.stopped:
        history.add(best, at.log_likelihood)
    return Fit(best, at, not history.stopped and len(history) < max_iter)
