"""The maximum of the marginal likelihood itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from gapmf.em.exact_moments import Fit, em_c_step, fit_em
from gapmf.em.expectation import ExactExpectation
from gapmf.em.record import History
from gapmf.em.start import from_shares, shares_of
from gapmf.model import GaP

Array = NDArray[np.float64]


WARM_UP = 20  # iterations of EM-C before the quasi-Newton method takes over


def fit_maximum(
    expect: ExactExpectation,
    model: GaP,
    *,
    max_iter: int,
    history: History,
    warm_up: int = WARM_UP,
    beat: float = -np.inf,
) -> Fit:
    """Climb from `model` to a maximum by a quasi-Newton method on the exact gradient.

    A few iterations of EM-C come first: they choose the basin more wisely, most of the time,
    than the first long steps of L-BFGS-B, which then does the climbing. The last step is
    EM-C's again, which cannot lose. A climb that has ended well below the log-likelihood to
    `beat` is not looked at twice.
    """
    if expect.n_tokens == 0:
        model = GaP(np.zeros_like(model.W), model.alpha, model.beta)
        history.add(model, 0.0)
        return Fit(model, expect(model), not history.stopped)
    last = len(history) + max_iter
    n_warm = min(warm_up, max_iter)
    fit = fit_em(expect, model, em_c_step, max_iter=n_warm, tol=-1.0, history=history)
    problem = _Problem(expect, fit.model, history)
    u, value, at_the_top = problem.start, np.inf, False
    while not (at_the_top or history.stopped or len(history) >= last - 1):
        result = minimize(
            problem.cost,
            u,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None)] * u.size,
            callback=problem.note,
            options={
                "maxiter": last - 1 - len(history),
                "maxfun": 10**6,
                "maxcor": 30,
                "ftol": 3e-14,
                "gtol": 1e-6,
            },
        )
        # One bad step can end a run: only when a fresh one gains nothing is this the top.
        gain, value = value - result.fun, result.fun
        at_the_top = gain < 1e-7
        u = problem.normalised(np.asarray(result.x))
        best = problem.model(u)
        fit = Fit(best, expect(best), False)
        if fit.expectation.log_likelihood < beat - 0.05:
            break
    if history.stopped and history.model is not None:
        return Fit(history.model, expect(history.model), False)
    if len(history) < last:
        polished = em_c_step(fit.model, fit.expectation)
        after = expect(polished)
        if after.log_likelihood >= fit.expectation.log_likelihood:
            fit = Fit(polished, after, False)
        history.add(fit.model, fit.expectation.log_likelihood)
    return fit._replace(converged=at_the_top and not history.stopped)


class _Problem:
    """The marginal likelihood as a function of shares u ≥ 0, (features with counts) × K.

    Every stationary point satisfies Σ_k (α_k/β_k) w_fk = v̄_f, so W is written with the shares of
    that sum, w_fk = (β_k/α_k) v̄_f u_fk / Σ_l u_fl: no scale is left to search, all variables are
    of size one, and a column can go to zero and come back.
    """

    def __init__(self, expect: ExactExpectation, model: GaP, history: History) -> None:
        self._expect, self._history = expect, history
        self._alpha, self._beta = model.alpha, model.beta
        self._seen = np.flatnonzero(expect.mean_counts > 0)
        self._shape = self._seen.size, model.n_components
        self.start = shares_of(model, expect.mean_counts)[self._seen].ravel()
        self._at: tuple[GaP, float] = model, np.nan

    def model(self, u: Array) -> GaP:
        """The model with shares u."""
        W = np.zeros((self._expect.n_features, self._shape[1]))
        mean = self._expect.mean_counts[self._seen]
        W[self._seen] = from_shares(u.reshape(self._shape), mean, self._alpha, self._beta)
        return GaP(W, self._alpha, self._beta)

    def normalised(self, u: Array) -> Array:
        """The same shares, with rows that sum to one."""
        u = u.reshape(self._shape)
        return np.asarray(u / u.sum(axis=1, keepdims=True)).ravel()

    def cost(self, u: Array) -> tuple[float, Array]:
        """C_ML and its gradient with respect to u."""
        shares = u.reshape(self._shape)
        total = shares.sum(axis=1, keepdims=True)
        if not (total > 0).all():  # a feature that nobody explains: step back
            return np.inf, np.zeros(u.size)
        model = self.model(u)
        at = self._expect(model)
        self._at = model, at.log_likelihood
        mean = self._expect.mean_counts[self._seen]
        slope = at.gradient[self._seen] * (self._beta / self._alpha) * mean[:, None]
        slope = (slope - (slope * shares / total).sum(axis=1, keepdims=True)) / total
        return -at.log_likelihood, slope.ravel()

    def note(self, intermediate_result: object) -> None:
        """After each iteration of the optimiser: the history, and whether to stop."""
        if self._history.add(*self._at):
            raise StopIteration
