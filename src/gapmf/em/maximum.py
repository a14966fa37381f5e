"""The maximum of the marginal likelihood itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

from gapmf.dispersion import LARGEST, SMALLEST
from gapmf.em.exact_moments import Fit, em_c_step, fit_em
from gapmf.em.expectation import ExactExpectation, Expectation
from gapmf.em.learned import Step, lower_bound_step, with_alpha
from gapmf.em.record import History
from gapmf.em.start import from_shares, shares_of
from gapmf.errors import TooCostlyError
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
    EM-C's again, which cannot lose. Where α is learned it takes part in all of this. A climb
    that has ended well below the log-likelihood to `beat` is not looked at twice.
    """
    if expect.n_tokens == 0:
        model = GaP(np.zeros_like(model.W), model.alpha, model.beta)
        history.add(model, 0.0)
        return Fit(model, expect(model), not history.stopped)
    last = len(history) + max_iter
    n_warm = min(warm_up, max_iter)
    step = lower_bound_step(expect) if expect.learn_alpha else em_c_step
    fit = fit_em(expect, model, step, max_iter=n_warm, tol=-1.0, history=history)
    problem = _Problem(expect, fit.model, history)
    u, value, at_the_top = problem.variables(fit.model), np.inf, False
    while not (at_the_top or history.stopped or len(history) >= last - 1):
        result = problem.climb(u, last - 1 - len(history))
        # One bad step can end a run: only when a fresh one gains nothing is this the top.
        gain, value = value - result.fun, result.fun
        at_the_top = gain < 1e-7
        u = problem.normalised(np.asarray(result.x))
        best = problem.model(u)
        fit = Fit(best, expect(best), False)
        if fit.expectation.log_likelihood < beat - 0.05:
            break
        if problem.keep_away(best.alpha):  # from what was too costly, not from what is beside it
            at_the_top = False
        elif at_the_top:
            fit = fit._replace(too_costly=problem.held_back(best.alpha))
        if at_the_top and expect.learn_alpha and not fit.too_costly:
            fit, moved = _to_the_bound(expect, fit)
            if moved:  # the rest follows
                u, at_the_top = problem.variables(fit.model), False
    if history.stopped and history.model is not None:
        return Fit(history.model, expect(history.model), False)
    if len(history) < last and not fit.too_costly:
        fit = _polished(expect, fit, step)
        history.add(fit.model, fit.expectation.log_likelihood)
    return fit._replace(converged=at_the_top and not (history.stopped or fit.too_costly))


def _polished(expect: ExactExpectation, fit: Fit, step: Step) -> Fit:
    """The fit after one step more of EM, which cannot lose but for rounding."""
    model = step(fit.model, fit.expectation)
    try:
        after = expect(model)
    except TooCostlyError:
        return fit
    gained = after.log_likelihood >= fit.expectation.log_likelihood
    return Fit(model, after, False) if gained else fit


def _to_the_bound(expect: ExactExpectation, fit: Fit) -> tuple[Fit, bool]:
    """The fit with α at its upper bound where it grows without end, if that gains.

    On the way to infinity the likelihood flattens like 1/α, and the optimiser stops anywhere.
    """
    model = fit.model
    slope = fit.expectation.slope_by_log_alpha(model)
    if expect.learn_alpha == "shared":
        slope = np.full_like(slope, slope.sum())
    growing = (model.alpha > 100.0) & (model.alpha < LARGEST) & (slope > 0.0)
    if not growing.any():
        return fit, False
    model = with_alpha(model, np.where(growing, LARGEST, model.alpha))
    try:
        after = expect(model)
    except TooCostlyError as error:
        return fit._replace(too_costly=str(error)), False
    if after.log_likelihood <= fit.expectation.log_likelihood:
        return fit, False
    return Fit(model, after, False), True


class _Problem:
    """The marginal likelihood as a function of shares u ≥ 0, (features with counts) × K.

    Every stationary point satisfies Σ_k (α_k/β_k) w_fk = v̄_f, so W is written with the shares of
    that sum, w_fk = (β_k/α_k) v̄_f u_fk / Σ_l u_fl: no scale is left to search, all variables are
    of size one, and a column can go to zero and come back. Where α is learned, log α_k (or the
    one log α) come after the shares, and the expected counts stay the same when they move.
    """

    def __init__(self, expect: ExactExpectation, model: GaP, history: History) -> None:
        self._expect, self._history = expect, history
        self._alpha, self._beta = model.alpha, model.beta
        self._seen = np.flatnonzero(expect.mean_counts > 0)
        self._shape = self._seen.size, model.n_components
        K = model.n_components
        self._n_alpha = {None: 0, "shared": 1, "component": K}[expect.learn_alpha]
        self._at: tuple[GaP, float] = model, np.nan
        self._largest = np.full(model.n_components, LARGEST)
        self._refused: tuple[Array, str] | None = None
        self._reason, self._n_refused = "", 0

    @property
    def bounds(self) -> list[tuple[float, float | None]]:
        """Of the variables."""
        n_shares = self._shape[0] * self._shape[1]
        tops = np.log(self._largest)[: self._n_alpha]
        if self._n_alpha == 1:
            tops = np.log(self._largest.min(keepdims=True))
        lowest = float(np.log(SMALLEST))
        return [(0.0, None)] * n_shares + [(lowest, float(top)) for top in tops]

    def keep_away(self, alpha: Array) -> bool:
        """Bound α half-way to what the last run found too costly; whether there was any."""
        if self._refused is None or self._n_refused >= 20:
            return False
        refused, self._reason = self._refused
        beyond = refused > alpha * (1.0 + 1e-6)
        between = np.sqrt(alpha * refused)
        self._largest = np.where(beyond, np.minimum(self._largest, between), self._largest)
        self._n_refused += 1
        return bool(beyond.any())

    def held_back(self, alpha: Array) -> str:
        """What would have been too costly, if it is that which keeps α from growing."""
        held = (self._largest < LARGEST) & (alpha > 0.999 * self._largest)
        return self._reason if held.any() or self._refused is not None else ""

    def climb(self, x: Array, max_iter: int) -> OptimizeResult:
        """A run of the optimiser from x."""
        self._refused = None
        return minimize(
            self.cost,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=self.bounds,
            callback=self.note,
            options={
                "maxiter": max_iter,
                "maxfun": 10**6,
                "maxcor": 30,
                "ftol": 3e-14,
                "gtol": 1e-6,
            },
        )

    def variables(self, model: GaP) -> Array:
        """The x that stands for a model."""
        shares = shares_of(model, self._expect.mean_counts)[self._seen].ravel()
        return np.concatenate([shares, np.log(model.alpha[: self._n_alpha])])

    def _split(self, x: Array) -> tuple[Array, Array]:
        """The shares and α that x stands for."""
        n = self._shape[0] * self._shape[1]
        alpha = self._alpha
        if x.size > n:  # the bounds are whole numbers, and a logarithm does not come back to them
            alpha = np.clip(np.exp(x[n:]), SMALLEST, LARGEST) * np.ones_like(alpha)
        return x[:n].reshape(self._shape), alpha

    def model(self, x: Array) -> GaP:
        """The model with shares and α as in x."""
        shares, alpha = self._split(x)
        W = np.zeros((self._expect.n_features, self._shape[1]))
        W[self._seen] = from_shares(shares, self._expect.mean_counts[self._seen], alpha, self._beta)
        return GaP(W, alpha, self._beta)

    def normalised(self, x: Array) -> Array:
        """The same, with rows of shares that sum to one."""
        shares, _ = self._split(x)
        shares = shares / shares.sum(axis=1, keepdims=True)
        return np.concatenate([shares.ravel(), x[shares.size :]])

    def cost(self, x: Array) -> tuple[float, Array]:
        """C_ML and its gradient with respect to x."""
        shares, alpha = self._split(x)
        total = shares.sum(axis=1, keepdims=True)
        if not (total > 0).all():  # a feature that nobody explains: step back
            return np.inf, np.zeros(x.size)
        model = self.model(x)
        try:
            at = self._expect(model)
        except TooCostlyError as error:
            self._refused = alpha, str(error)
            return np.inf, np.zeros(x.size)
        self._at = model, at.log_likelihood
        mean = self._expect.mean_counts[self._seen]
        slope = at.gradient[self._seen] * (self._beta / alpha) * mean[:, None]
        slope = (slope - (slope * shares / total).sum(axis=1, keepdims=True)) / total
        return -at.log_likelihood, np.concatenate([slope.ravel(), self._by_log_alpha(model, at)])

    def _by_log_alpha(self, model: GaP, at: Expectation) -> Array:
        if not self._expect.learn_alpha:
            return np.zeros(0)
        slope = -at.slope_by_log_alpha(model)
        return slope if self._expect.learn_alpha == "component" else slope.sum(keepdims=True)

    def note(self, intermediate_result: object) -> None:
        """After each iteration of the optimiser: the history, and whether to stop."""
        if self._history.add(*self._at):
            raise StopIteration
