"""The maximum of the exact likelihood: a certificate, the climb, and moves to better maxima."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from gapmf.em.alpha import LARGEST, SMALLEST, projected_alpha_slope, with_alpha
from gapmf.em.exact_em import ExactFit, Step, em_c_step, lower_bound_step, run_em
from gapmf.em.expectation import ExactExpectation, Expectation
from gapmf.em.history import Certificate, History
from gapmf.em.start import from_shares, shares_of
from gapmf.errors import TooCostlyError
from gapmf.model import GaP
from gapmf.types import Array


def certify(expect: ExactExpectation, model: GaP, at: Expectation | None = None) -> Certificate:
    """Return the certificate of a model for the data of `expect`; `at` is an E-step there."""
    at = at or expect.e_step(model)
    mean, seen = expect.mean_counts, expect.mean_counts > 0
    with np.errstate(invalid="ignore"):  # inf · 0 where w is next to nothing
        gradient = at.gradient[seen] * (model.beta / model.alpha) * mean[seen, None]
        down = shares_of(model, mean)[seen] * gradient
    moves = np.fmax(-gradient, down).max(initial=0.0)
    useless = (at.gradient * model.W)[~seen]  # what explains no counts had better be zero
    eta, used = expect.pseudo_count, model.column_norms > 0
    if eta > 0.0:  # no entry is zero at the maximum: a relative change of one entry
        directions = model.W[:, used] / model.column_norms[used]
        pull = eta * (model.n_features * directions - 1.0)
        moves = np.abs(at.gradient[:, used] * model.W[:, used] + pull).max(initial=0.0)
        useless = np.zeros(0)
    slopes = projected_alpha_slope(expect, model, at) if expect.learn_alpha else np.zeros(0)
    expected = model.expected_counts()
    deviation = np.abs(expected[seen] / mean[seen] - 1.0).max(initial=0.0)
    if expect.observation is not None or eta > 0.0:
        deviation = _identity(expect, model, at)
    beyond = expected[~seen].max(initial=0.0) if eta == 0.0 else 0.0
    r, r_error = expect.score(model)
    return Certificate(
        projected_gradient=float(
            max(moves, useless.max(initial=0.0), np.abs(slopes).max(initial=0.0))
        ),
        identity=float(max(deviation, beyond)),
        r=r,
        r_error=r_error,
    )


def _identity(expect: ExactExpectation, model: GaP, at: Expectation) -> float:
    """Return the largest deviation from what holds at stationary points with exposures or a prior.

    Σ_n m_nf s_n [W E h_n]_f + η Σ_k (F w_fk/S_k − 1) = Σ_n v_fn for each feature, and
    β_k Σ_n E h_kn = N α_k for each component that is not empty. Features without counts are
    compared with K η.
    """
    s, total = at.statistics, expect.mean_counts * expect.exposures
    used = model.column_norms > 0
    pseudo = expect.pseudo_count * int(used.sum())
    own = expect.observation is not None
    # Without exposures, what holds after every step of EM-C: the components' part in it.
    below = s.below if own else s.n_draws * model.alpha / model.beta
    expected = (model.W * below).sum(axis=1)
    if pseudo > 0.0:
        shares = (model.W[:, used] / model.column_norms[used]).sum(axis=1)
        expected += expect.pseudo_count * model.n_features * shares
    seen = total + pseudo > 0
    features = expected[seen] / (total + pseudo)[seen]
    components = (model.beta * s.h_sum / (s.n_draws * model.alpha))[used & own]
    return float(np.abs(np.concatenate([features, components]) - 1.0).max(initial=0.0))


WARM_UP = 20  # iterations of EM-C before the quasi-Newton method takes over


def fit_maximum(
    expect: ExactExpectation,
    model: GaP,
    *,
    max_iter: int,
    history: History,
    warm_up: int = WARM_UP,
    beat: float = -np.inf,
) -> ExactFit:
    """Climb from `model` to a maximum by a quasi-Newton method on the exact gradient.

    A few iterations of EM-C come first: most of the time they choose a better basin than the
    first long steps of L-BFGS-B, which then does the climbing. The last step is EM-C's again,
    which cannot lose. A learned α takes part in all of this. A climb that ends well below the
    log-likelihood to `beat` is not repeated.
    """
    if expect.n_tokens == 0:
        model = GaP(np.zeros_like(model.W), model.alpha, model.beta)
        history.add(model, 0.0)
        return ExactFit(model, expect.e_step(model), not history.stopped)
    last = len(history) + max_iter
    n_warm = min(warm_up, max_iter)
    step = partial(lower_bound_step, expect) if expect.learn_alpha else em_c_step
    # No remaining gain is below a negative tolerance, so the first fit comes after n_warm steps.
    fit = next(run_em(expect, model, step, max_iter=n_warm, tol=-1.0, history=history))
    problem = _Problem(expect, fit.model, history)
    u, value, at_the_top = problem.variables(fit.model), np.inf, False
    while not (at_the_top or history.stopped or len(history) >= last - 1):
        result = problem.climb(u, last - 1 - len(history))
        # One bad step can end a run: only when a fresh one gains nothing is this the top.
        gain, value = value - result.fun, result.fun
        at_the_top = gain < 1e-7
        u = problem.normalised(np.asarray(result.x))
        best = problem.model(u)
        fit = ExactFit(best, expect.e_step(best), False)
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
        return ExactFit(history.model, expect.e_step(history.model), False)
    if len(history) < last and not fit.too_costly:
        fit = _polished(expect, fit, step)
        history.add(fit.model, fit.expectation.log_likelihood)
    return fit._replace(converged=at_the_top and not (history.stopped or fit.too_costly))


def _polished(expect: ExactExpectation, fit: ExactFit, step: Step) -> ExactFit:
    """Return the fit after one more EM step, which cannot lose except by rounding."""
    model = step(fit.model, fit.expectation)
    try:
        after = expect.e_step(model)
    except TooCostlyError:
        return fit
    gained = after.log_likelihood >= fit.expectation.log_likelihood
    return ExactFit(model, after, False) if gained else fit


def _to_the_bound(expect: ExactExpectation, fit: ExactFit) -> tuple[ExactFit, bool]:
    """Put α at its upper bound where it grows without end, if that gains.

    As α grows, the likelihood flattens like 1/α, and the optimiser may stop anywhere.
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
        after = expect.e_step(model)
    except TooCostlyError as error:
        return fit._replace(too_costly=str(error)), False
    if after.log_likelihood <= fit.expectation.log_likelihood:
        return fit, False
    return ExactFit(model, after, False), True


class _Problem:
    """The marginal likelihood as a function of shares u ≥ 0, (features with counts) × K.

    Every stationary point satisfies Σ_k (α_k/β_k) w_fk = v̄_f, so W is written with the shares of
    that sum, w_fk = (β_k/α_k) v̄_f u_fk / Σ_l u_fl: no scale is left to search, all variables are
    of size one, and a column can go to zero and come back. Where α is learned, log α_k (or the
    one log α) come after the shares, and the expected counts stay the same when they move.

    With exposures stationary points satisfy something else, which depends on E h. The rows of u
    are then not divided by their sums.
    """

    def __init__(self, expect: ExactExpectation, model: GaP, history: History) -> None:
        self._expect, self._history = expect, history
        self._free = expect.observation is not None
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
        """The bounds of the variables."""
        n_shares = self._shape[0] * self._shape[1]
        tops = np.log(self._largest)[: self._n_alpha]
        if self._n_alpha == 1:
            tops = np.log(self._largest.min(keepdims=True))
        lowest = float(np.log(SMALLEST))
        return [(0.0, None)] * n_shares + [(lowest, float(top)) for top in tops]

    def keep_away(self, alpha: Array) -> bool:
        """Bound α half-way to what the last run found too costly; return whether there was any."""
        if self._refused is None or self._n_refused >= 20:
            return False
        refused, self._reason = self._refused
        beyond = refused > alpha * (1.0 + 1e-6)
        between = np.sqrt(alpha * refused)
        self._largest = np.where(beyond, np.minimum(self._largest, between), self._largest)
        self._n_refused += 1
        return bool(beyond.any())

    def held_back(self, alpha: Array) -> str:
        """Return what would have been too costly, if that is what keeps α from growing."""
        held = (self._largest < LARGEST) & (alpha > 0.999 * self._largest)
        return self._reason if held.any() or self._refused is not None else ""

    def climb(self, x: Array, max_iter: int) -> OptimizeResult:
        """Run the optimiser from x."""
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
        """Return the variables of a model."""
        shares = shares_of(model, self._expect.mean_counts)[self._seen].ravel()
        return np.concatenate([shares, np.log(model.alpha[: self._n_alpha])])

    def _split(self, x: Array) -> tuple[Array, Array]:
        """Return the shares and α of the variables x."""
        n = self._shape[0] * self._shape[1]
        alpha = self._alpha
        if x.size > n:  # the bounds are whole numbers, and a logarithm does not come back to them
            alpha = np.clip(np.exp(x[n:]), SMALLEST, LARGEST) * np.ones_like(alpha)
        return x[:n].reshape(self._shape), alpha

    def model(self, x: Array) -> GaP:
        """The model with shares and α as in x."""
        shares, alpha = self._split(x)
        W = np.zeros((self._expect.n_features, self._shape[1]))
        mean = self._expect.mean_counts[self._seen]
        if self._free:
            W[self._seen] = self._beta / alpha * mean[:, None] * shares
        else:
            W[self._seen] = from_shares(shares, mean, alpha, self._beta)
        return GaP(W, alpha, self._beta)

    def normalised(self, x: Array) -> Array:
        """Return the same variables, with rows of shares that sum to one."""
        if self._free:
            return x
        shares, _ = self._split(x)
        shares = shares / shares.sum(axis=1, keepdims=True)
        return np.concatenate([shares.ravel(), x[shares.size :]])

    def cost(self, x: Array) -> tuple[float, Array]:
        """Return C_ML and its gradient with respect to x."""
        shares, alpha = self._split(x)
        total = shares.sum(axis=1, keepdims=True)
        if not (total > 0).all():  # a feature that nobody explains: step back
            return np.inf, np.zeros(x.size)
        model = self.model(x)
        try:
            at = self._expect.e_step(model)
        except TooCostlyError as error:
            self._refused = alpha, str(error)
            return np.inf, np.zeros(x.size)
        self._at = model, at.log_likelihood
        mean = self._expect.mean_counts[self._seen]
        slope = at.gradient[self._seen] * (self._beta / alpha) * mean[:, None]
        if not self._free:
            slope = (slope - (slope * shares / total).sum(axis=1, keepdims=True)) / total
        return -at.log_likelihood, np.concatenate([slope.ravel(), self._by_log_alpha(model, at)])

    def _by_log_alpha(self, model: GaP, at: Expectation) -> Array:
        if not self._expect.learn_alpha:
            return np.zeros(0)
        slope = -at.slope_by_log_alpha(model)
        return slope if self._expect.learn_alpha == "component" else slope.sum(keepdims=True)

    def note(self, intermediate_result: object) -> None:
        """Add an iteration of the optimiser to the history; stop if a callback asks for it."""
        if self._history.add(*self._at):
            raise StopIteration


_SEED = 0.02  # the share of one feature from which a column is grown


def improve(
    expect: ExactExpectation, fit: ExactFit, *, max_iter: int, history: History
) -> ExactFit:
    """Exchange, level and regrow columns while it helps; the history ends with what is kept.

    max_iter bounds the iterations of all climbs of the whole model together, which are in the
    history; those with a column less, or with one α for all, are not.
    """
    last = len(history) + max_iter
    helped = fit.model.n_components > 1 and expect.n_tokens > 0
    moves: list[Move] = [*_exchanges(fit.model), _regrown]
    if expect.learn_alpha:  # α moves along with W, so there is nothing to exchange
        moves = [_levelled, _regrown] if expect.learn_alpha == "component" else [_regrown]
    came_by: Move | None = None
    while helped:
        helped = False
        for make in moves:
            if make is came_by and make is not _regrown:
                continue  # the same again would only lead back
            room = last - len(history) - 1
            if room < 1 or history.stopped or not fit.converged:
                break
            value = fit.expectation.log_likelihood
            try:
                other = fit_maximum(
                    expect,
                    make(expect, fit.model, room),
                    max_iter=room,
                    history=history,
                    warm_up=0,
                    beat=value,
                )
            except TooCostlyError:
                continue  # it leads to an α whose E-steps cost too much: the fit stays
            gain = other.expectation.log_likelihood - value
            if other.converged and gain > 1e-6:
                fit, helped, came_by = other, True, make
                break
    if history.model is not fit.model and not history.stopped:
        history.add(fit.model, fit.expectation.log_likelihood)
    return fit


Move = Callable[[ExactExpectation, GaP, int], GaP]


def _exchanges(model: GaP) -> list[Move]:
    """Exchanges of the roles of two columns, for every pair with unequal α.

    With unequal α the likelihood knows which column is which, and every assignment of α to the
    columns' directions is a basin of its own.
    """
    pairs = combinations(range(model.n_components), 2)
    return [partial(_exchanged, pair=pair) for pair in pairs if np.ptp(model.alpha[list(pair)]) > 0]


def _exchanged(expect: ExactExpectation, model: GaP, room: int, *, pair: tuple[int, int]) -> GaP:
    """The model with the shares of two columns exchanged."""
    mean = expect.mean_counts
    shares = np.where(mean[:, None] > 0, shares_of(model, mean), 1.0)
    shares[:, pair] = shares[:, pair[::-1]]
    return GaP(from_shares(shares, mean, model.alpha, model.beta), model.alpha, model.beta)


def _levelled(expect: ExactExpectation, model: GaP, max_iter: int) -> GaP:
    """The best model with one α for all components that a climb from here finds.

    A column with a small α can be caught explaining a few samples only; where all have the same
    α none can, and what is best there is a start that the fit must not fall behind.
    """
    alpha = np.full_like(model.alpha, np.exp(model.shares @ np.log(model.alpha)))
    shares = shares_of(model, expect.mean_counts)
    shares = np.where(expect.mean_counts[:, None] > 0, shares, 1.0)
    level = GaP(from_shares(shares, expect.mean_counts, alpha, model.beta), alpha, model.beta)
    together = expect.learning("shared")
    return fit_maximum(together, level, max_iter=max_iter, history=History()).model


def _regrown(expect: ExactExpectation, model: GaP, max_iter: int) -> GaP:
    """The best model without the smallest column, and that column anew, almost empty.

    The spare column of an over-specified model has several places to be, maxima a few
    hundredths of a nat apart; grown from almost nothing where the score r_f is largest, it
    finds the best of them far more often than random starts do.
    """
    k = int(model.shares.argmin())
    others = np.delete(np.arange(model.n_components), k)
    mean, alpha, beta = expect.mean_counts, model.alpha, model.beta
    shares = shares_of(model, mean)
    left = np.where(shares[:, others].sum(axis=1, keepdims=True) > 0, shares[:, others], 1.0)
    smaller = GaP(from_shares(left, mean, alpha[others], beta[others]), alpha[others], beta[others])
    without = fit_maximum(expect, smaller, max_iter=max_iter, history=History(), warm_up=5).model
    grown = np.ones_like(shares)
    grown[mean > 0, k] = 0.0
    grown[np.ix_(mean > 0, others)] = shares_of(without, mean)[mean > 0]
    grown[int(expect.score(without)[0].argmax()), k] = _SEED
    alpha = alpha.copy()
    alpha[others] = without.alpha
    if expect.learn_alpha:  # a column anew: what its α was belongs to the place that it had
        alpha[k] = np.exp(np.log(without.alpha).mean())
    return GaP(from_shares(grown, mean, alpha, beta), alpha, beta)
