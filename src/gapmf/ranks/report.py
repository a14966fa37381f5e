"""The rank report: what removing each component costs, and how many components to keep."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.csr import only_features
from gapmf.em.expectation import ExactExpectation
from gapmf.em.settings import Settings
from gapmf.engines.base import Sweeps
from gapmf.engines.local import LocalEngine
from gapmf.errors import InvalidInputError
from gapmf.likelihood.result import LogLikelihood, paired_difference
from gapmf.model import GaP
from gapmf.ranks.refit import Refit, monte_carlo_error
from gapmf.types import Array

PROBE = 1e-6  # share of the probing component in the expected counts: negligible
N_GROUPS = 10  # of samples, for the standard error
SWEEPS = Sweeps(n_draws=40, n_burn_in=20, expectations=True)


@dataclass(frozen=True, repr=False, eq=False)
class RankReport:
    """Report on the components of a fit: the cost of removing each, and how many to keep.

    Components are removed one at a time, the cheapest first. Without held-out counts this goes on
    while a removal costs less log-likelihood than `price`; with them, while the held-out
    log-likelihood is within one standard error of that of the best model so far.

    Attributes
    ----------
    rank : int
        Number of remaining components.
    keep : ndarray of bool of shape (n_components,)
        Which components remain.
    model : GaP
        Refitted model of the remaining components.
    models : tuple of GaP
        Model after each removal.
    norm : ndarray of shape (n_components,)
        Column norms ||w_k||₁.
    share : ndarray of shape (n_components,)
        Shares of the expected total count.
    cost : ndarray of shape (n_components,)
        Log-likelihood lost when this component alone is removed and the others are briefly
        refitted. Two components with the same role are both cheap; once one is removed, removing
        the other is costly.
    cost_error : ndarray of shape (n_components,)
        Monte Carlo standard error of `cost`; the error of the refits is not included.
    price : float
        Charge of the Bayesian information criterion for one component, ½ log N per parameter.
    held_out : ndarray of shape (n_components,) or None
        Same loss as `cost`, for held-out counts. Features without training counts are ignored.
    held_out_error : ndarray of shape (n_components,) or None
        Standard error of `held_out` over samples.
    removed : tuple of int
        Removed components, in order.
    r : ndarray of shape (n_features,)
        Score test for one more component. Where r_f > 1, a new component with feature f raises
        the likelihood at first. Under the true model r_f is 1 on average, so compare
        (r_f − 1) / r_error.
    r_error : ndarray of shape (n_features,)
        Standard errors of `r`.
    feature_names : ndarray of str of shape (n_features,) or None
        Names of the features, if the estimator was fitted to a data frame.
    """

    rank: int
    keep: NDArray[np.bool_]
    model: GaP
    models: tuple[GaP, ...]
    norm: Array
    share: Array
    cost: Array
    cost_error: Array
    price: float
    held_out: Array | None
    held_out_error: Array | None
    removed: tuple[int, ...]
    r: Array
    r_error: Array
    feature_names: NDArray[np.object_] | None = None

    def __repr__(self) -> str:
        return f"RankReport(rank={self.rank}, n_components={self.keep.size})"

    def __str__(self) -> str:
        head = f"{'component':>9} {'norm':>10} {'share':>7} {'cost':>16}"
        head += f" {'held-out':>16}" if self.held_out is not None else ""
        lines = [head + "  kept"]
        for k in np.argsort(-self.share, kind="stable"):
            line = f"{k:>9} {self.norm[k]:>10.4g} {self.share[k]:>7.2%} "
            line += _with_error(self.cost[k], self.cost_error[k])
            if self.held_out is not None and self.held_out_error is not None:
                line += " " + _with_error(self.held_out[k], self.held_out_error[k])
            lines.append(line + ("  yes" if self.keep[k] else "  no"))
        rule = "cost < price"
        if self.held_out is not None:
            rule = "held-out data lose at most one standard error"
        lines.append(f"price of a component (BIC): {self.price:.1f} nats")
        lines.append(f"rank: {self.rank} (components are removed one by one while {rule})")
        f = int(np.nan_to_num((self.r - 1.0) / np.maximum(self.r_error, 1e-12)).argmax())
        name = f"feature {f}" if self.feature_names is None else self.feature_names[f]
        lines.append(f"one more: r = {self.r[f]:.3f} ± {self.r_error[f]:.3f} at {name}")
        return "\n".join(lines)


def _with_error(value: float, error: float) -> str:
    return f"{value:>9.1f} ± {error:<4.2g}"


@dataclass(frozen=True)
class Candidate:
    """A model and its likelihoods."""

    model: GaP
    fitted: LogLikelihood
    held_out: LogLikelihood | None = field(default=None)


class BackwardElimination:
    """Removal of components one at a time.

    Parameters
    ----------
    refit : Refit
        Fits models to the counts.
    price : float
        Largest cost of a removal in nats, if there are no held-out counts.
    X_test : csr_array or None
        Held-out counts.
    """

    def __init__(self, refit: Refit, price: float, X_test: sp.csr_array | None) -> None:
        self._refit, self._price, self._X_test = refit, price, X_test

    def evaluate(self, model: GaP) -> Candidate:
        """Compute the likelihoods of a model."""
        fitted = self._refit.log_likelihood(model)
        if self._X_test is None:
            return Candidate(model, fitted)
        return Candidate(model, fitted, self._refit.log_likelihood(model, self._X_test))

    def without(self, full: Candidate, k: int) -> Candidate:
        """Return the refitted model without component k."""
        return self.evaluate(self._refit.fit(self._refit.without(full.model, k)))

    def loss(self, full: Candidate, less: Candidate) -> float:
        """Return the loss minus the allowed loss: negative if the smaller model is better."""
        if full.held_out is not None and less.held_out is not None:
            loss, error = paired_difference(full.held_out, less.held_out)
            return loss - error
        return full.fitted.total - less.fitted.total - self._price

    def _reference(self, full: Candidate, best: Candidate) -> Candidate:
        """Return the model to compare with; held-out losses of single steps could add up."""
        return full if self._X_test is None else best

    def noise(self, full: Candidate, less: Candidate) -> float:
        """Return two Monte Carlo standard errors of a loss."""
        pair = [c.fitted if c.held_out is None else c.held_out for c in (full, less)]
        return 2.0 * math.hypot(*map(monte_carlo_error, pair))

    def run(self, full: Candidate, first: list[Candidate]) -> tuple[list[int], list[GaP]]:
        """Remove the cheapest component while that pays.

        Returns the removed components and the model after each removal. `first` holds the models
        without each single component. As a rule, the cost of a component grows as others are
        removed. So a component that was too costly once is not tried again, and one whose cost,
        up to noise, is still not above the earlier costs of the others is the cheapest.
        """
        best = full
        left = list(range(full.model.n_components))
        losses = {k: self.loss(full, less) for k, less in zip(left, first, strict=True)}
        known: dict[int, Candidate] = dict(enumerate(first))
        share = full.model.shares
        removed: list[int] = []
        models: list[GaP] = []
        while len(left) > 1:
            cheap = [k for k in left if losses[k] < 0.0]
            if not cheap:
                break
            k = min(cheap, key=lambda k: (losses[k], share[k]))
            if k not in known:
                known[k] = self.without(full, left.index(k))
                losses[k] = self.loss(self._reference(full, best), known[k])
                others = min((losses[j] for j in cheap if j != k), default=0.0)
                if losses[k] >= min(others + self.noise(full, known[k]), 0.0):
                    continue
            full = known[k]
            best = max(best, full, key=_held_out_total)
            known = {}
            left.remove(k)
            removed.append(k)
            models.append(full.model)
        return removed, models


def bic_price(n_parameters: int, n_samples: int) -> float:
    """Return the charge of the Bayesian information criterion, ½ log N per parameter."""
    return 0.5 * n_parameters * math.log(max(n_samples, 2))


def report_on(
    refit: Refit,
    model: GaP,
    *,
    n_parameters: int,
    X_test: sp.csr_array | None,
    score: tuple[Array, Array],
) -> RankReport:
    """Make the report on a model; n_parameters is the number of parameters of one component."""
    alive = model.column_norms > 0
    if not alive.all() and model.n_components > 1:
        alive[0] |= not alive.any()
        filled = GaP(model.W[:, alive], model.alpha[alive], model.beta[alive])
        short = report_on(refit, filled, n_parameters=n_parameters, X_test=X_test, score=score)
        return _with_empty(short, alive, model)
    price = bic_price(n_parameters, refit.counts.shape[0])
    elimination = BackwardElimination(refit, price, X_test)
    K = model.n_components
    if K == 1:
        return _of_one(refit, model, price, score, held_out=X_test is not None)
    refit.set_precision(model, price / 16.0)
    # Refitted as briefly as the smaller models, so that the error of such a fit cancels.
    full = elimination.evaluate(refit.fit(model))
    first = [elimination.without(full, k) for k in range(K)]
    cost, cost_error = _losses(full.fitted, [c.fitted for c in first])
    held_out = held_out_error = None
    if full.held_out is not None:
        others = [c.held_out for c in first if c.held_out is not None]
        losses = [paired_difference(full.held_out, other) for other in others]
        held_out, held_out_error = np.array(losses).T
    removed, models = elimination.run(full, first)
    keep = ~np.isin(np.arange(K), removed)
    return RankReport(
        rank=int(keep.sum()),
        keep=keep,
        model=models[-1] if models else full.model,
        models=tuple(models),
        norm=model.column_norms,
        share=model.shares,
        cost=cost,
        cost_error=cost_error,
        price=price,
        held_out=held_out,
        held_out_error=held_out_error,
        removed=tuple(removed),
        r=score[0],
        r_error=score[1],
    )


def _with_empty(short: RankReport, alive: NDArray[np.bool_], model: GaP) -> RankReport:
    """Put the empty components back into a report: they cost nothing and are removed first."""
    places = np.flatnonzero(alive)

    def among_all(values: Array | None) -> Array | None:
        if values is None:
            return None
        result = np.zeros(alive.size, dtype=values.dtype)
        result[places] = values
        return result

    spread: dict[str, Any] = {
        name: among_all(getattr(short, name))
        for name in ("keep", "cost", "cost_error", "held_out", "held_out_error")
    }
    removed = (*np.flatnonzero(~alive).tolist(), *places[list(short.removed)].tolist())
    return dataclasses.replace(
        short, norm=model.column_norms, share=model.shares, removed=removed, **spread
    )


def _of_one(
    refit: Refit, model: GaP, price: float, score: tuple[Array, Array], *, held_out: bool
) -> RankReport:
    """Make the report on a single component, which cannot be removed."""
    infinite = np.full(1, np.inf)
    return RankReport(
        rank=1,
        keep=np.ones(1, dtype=bool),
        model=refit.fit(model),
        models=(),
        norm=model.column_norms,
        share=model.shares,
        cost=infinite,
        cost_error=np.zeros(1),
        price=price,
        held_out=infinite if held_out else None,
        held_out_error=np.zeros(1) if held_out else None,
        removed=(),
        r=score[0],
        r_error=score[1],
    )


def _held_out_total(candidate: Candidate) -> float:
    return -math.inf if candidate.held_out is None else candidate.held_out.total


def _losses(full: LogLikelihood, less: list[LogLikelihood]) -> tuple[Array, Array]:
    """Return the loss of each smaller model and its standard error.

    The common part of the samples' errors is the same in both models and cancels.
    """
    loss = np.array([full.total - other.total for other in less])
    errors = [monte_carlo_error(ll) for ll in (full, *less)]
    return loss, np.array([math.hypot(errors[0], error) for error in errors[1:]])


def make_report(
    model: GaP,
    counts: sp.csr_array,
    settings: Settings,
    *,
    X_test: sp.csr_array | None,
    seed: int,
    n_jobs: int | None,
    feature_names: NDArray[Any] | None = None,
) -> RankReport:
    """Make the rank report of a model that was fitted to these counts with these settings."""
    refit = Refit(counts, settings, n_jobs, seed)
    seen = refit.mean_counts > 0
    if X_test is not None:
        if X_test.shape[0] < 2:
            raise InvalidInputError(
                "X_test must have two samples or more, but has one: the error of a difference "
                "comes from how it varies from sample to sample"
            )
        X_test = only_features(X_test, seen)
    if settings.monte_carlo:
        test = score_test(counts, model, seed, n_jobs)
    else:
        test = ExactExpectation(counts, n_jobs).score(model)
    n_parameters = int(seen.sum()) + (settings.learn_alpha == "component")
    report = report_on(refit, model, n_parameters=n_parameters, X_test=X_test, score=test)
    return dataclasses.replace(report, feature_names=feature_names)


def score_test(X: sp.csr_array, model: GaP, seed: int, n_jobs: int | None) -> tuple[Array, Array]:
    """Return r_f = mean_n v_fn E[1/[Wh_n]_f | v_n] and its standard error over samples, both (F,).

    A probing component that is almost empty and has activations of almost one receives the fraction
    PROBE · r_f of the expected counts. The standard error comes from independent groups of samples.
    """
    N = X.shape[0]
    groups = np.array_split(np.random.default_rng(seed).permutation(N), min(N_GROUPS, N))
    expected = model.expected_counts()
    first = np.cumsum([0, *(rows.size for rows in groups)])
    r = np.array(
        [
            _score_of_group(model, expected, LocalEngine(n_jobs).load(X[rows], seed, int(n)))
            for rows, n in zip(groups, first, strict=False)
        ]
    )
    weights = np.array([rows.size for rows in groups]) / N
    mean = weights @ r
    if len(groups) == 1:
        return mean, np.full_like(mean, np.nan)
    variance = weights @ (r - mean) ** 2 / (len(groups) - 1)
    return mean, np.sqrt(variance)


def _score_of_group(model: GaP, expected: Array, engine: LocalEngine) -> Array:
    """Return r_f over some samples: the factor by which EM multiplies a probing component."""
    steady = 1e6  # Gamma(α, α) with this α is 1 ± 0.001
    probe = PROBE * expected
    with_probe = GaP(
        np.column_stack([model.W, probe]),
        np.append(model.alpha, steady),
        np.append(model.beta, steady),
    )
    s = engine.advance(with_probe, SWEEPS)
    got = s.c_sum[:, -1] / s.n_draws
    return np.divide(got, probe, out=np.zeros_like(got), where=probe > 0)
