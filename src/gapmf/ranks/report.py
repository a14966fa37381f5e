"""What each component is worth: the rank report."""

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
from gapmf.errors import InvalidInputError
from gapmf.likelihood.result import LogLikelihood
from gapmf.model import GaP
from gapmf.ranks.refit import Refit, monte_carlo_error
from gapmf.ranks.score_test import score as score_test
from gapmf.types import Array


@dataclass(frozen=True, repr=False, eq=False)
class RankReport:
    """What each component is worth, and how many are worth their price.

    Attributes
    ----------
    rank : int
        The number of components that are left when, one after another, the cheapest to remove
        is removed as long as the rule says so: it costs less log-likelihood than `price` or,
        with held-out data, what is left has lost no more of theirs than one standard error
        against the best model so far.
    keep : bool array, (K,)
        Which they are.
    model : GaP
        The model of these components, refitted.
    models : tuple of GaP
        The models on the way, each with one component less than the one before.
    norm, share : arrays, (K,)
        ||w_k||₁, and the part of the expected counts.
    cost, cost_error : arrays, (K,)
        How much log-likelihood is lost when this component alone is removed and the others are
        refitted, shortly, and the standard error of its Monte Carlo (not of the fits). Two
        components that share one role are both cheap: `rank` removes one and then finds the
        other dear.
    price : float
        What BIC asks of a component: half a log N for each of its parameters.
    held_out, held_out_error : arrays, (K,), or None
        The same loss, of held-out data, and its standard error, which counts how it differs
        from sample to sample. Counts of features without training counts are left out.
    removed : tuple of int
        The components that were removed, in that order.
    r, r_error : arrays, (F,)
        The score test for one component more: where r_f > 1 a new one would raise the
        likelihood at first. At the truth it is one on average, so look at (r_f − 1)/error.
    feature_names : array of str, (F,), or None
        If the fit had a frame.
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
        return f"RankReport(rank={self.rank}, of {self.keep.size} components)"

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
    """Removes components one at a time.

    Parameters
    ----------
    refit : Refit
    price : float
        What removing may cost, in nats, when there are no held-out data.
    X_test : csr_array, optional
    """

    def __init__(self, refit: Refit, price: float, X_test: sp.csr_array | None) -> None:
        self._refit, self._price, self._X_test = refit, price, X_test

    def worth(self, model: GaP) -> Candidate:
        """The likelihoods of a model."""
        fitted = self._refit.log_likelihood(model)
        if self._X_test is None:
            return Candidate(model, fitted)
        return Candidate(model, fitted, self._refit.log_likelihood(model, self._X_test))

    def without(self, full: Candidate, k: int) -> Candidate:
        """The refitted model without component k."""
        return self.worth(self._refit.fit(self._refit.without(full.model, k)))

    def loss(self, full: Candidate, less: Candidate) -> float:
        """The loss beyond what is allowed: negative if the smaller model is to be preferred."""
        if full.held_out is not None and less.held_out is not None:
            loss, error = _held_out_loss(full.held_out, less.held_out)
            return loss - error
        return full.fitted.total - less.fitted.total - self._price

    def _reference(self, full: Candidate, best: Candidate) -> Candidate:
        """What a smaller model is compared with: held-out losses must not add up unseen."""
        return full if self._X_test is None else best

    def noise(self, full: Candidate, less: Candidate) -> float:
        """Two standard errors of what Monte Carlo adds to a loss."""
        pair = [w.fitted if w.held_out is None else w.held_out for w in (full, less)]
        return 2.0 * math.hypot(*map(monte_carlo_error, pair))

    def run(self, full: Candidate, first: list[Candidate]) -> tuple[list[int], list[GaP]]:
        """Remove the cheapest while that pays: what was removed, and what was left each time.

        `first` holds the models without each single component. What one costs grows as others
        go, as a rule: a component once found dear is not asked again, and one that still costs
        no more than the others did, but for the noise, is the cheapest.
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


def report_on(
    refit: Refit,
    model: GaP,
    *,
    n_parameters: int,
    X_test: sp.csr_array | None,
    score: tuple[Array, Array],
) -> RankReport:
    """The report on a model; n_parameters are those of one component."""
    alive = model.column_norms > 0
    if not alive.all() and model.n_components > 1:
        alive[0] |= not alive.any()
        filled = GaP(model.W[:, alive], model.alpha[alive], model.beta[alive])
        short = report_on(refit, filled, n_parameters=n_parameters, X_test=X_test, score=score)
        return _with_empty(short, alive, model)
    price = 0.5 * n_parameters * math.log(max(refit.counts.shape[0], 2))
    elimination = BackwardElimination(refit, price, X_test)
    K = model.n_components
    if K == 1:
        return _of_one(refit, model, price, score, held_out=X_test is not None)
    refit.set_precision(model, price / 16.0)
    # From the same short fit as the smaller models, so that what such a fit leaves cancels.
    full = elimination.worth(refit.fit(model))
    first = [elimination.without(full, k) for k in range(K)]
    cost, cost_error = _losses(full.fitted, [w.fitted for w in first])
    held_out = held_out_error = None
    if full.held_out is not None:
        given = [_held_out_loss(full.held_out, w.held_out) for w in first if w.held_out is not None]
        held_out, held_out_error = np.array(given).T
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
    """A report with the empty components put back: they cost nothing, and go first."""
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
    """The report on a single component: without it there is no model, so it stays."""
    forever = np.full(1, np.inf)
    return RankReport(
        rank=1,
        keep=np.ones(1, dtype=bool),
        model=refit.fit(model),
        models=(),
        norm=model.column_norms,
        share=model.shares,
        cost=forever,
        cost_error=np.zeros(1),
        price=price,
        held_out=forever if held_out else None,
        held_out_error=np.zeros(1) if held_out else None,
        removed=(),
        r=score[0],
        r_error=score[1],
    )


def _held_out_total(worth: Candidate) -> float:
    return -math.inf if worth.held_out is None else worth.held_out.total


def _held_out_loss(full: LogLikelihood, less: LogLikelihood) -> tuple[float, float]:
    """What held-out samples lose, and its standard error over samples like them."""
    differences = full.per_sample - less.per_sample
    # The spread over samples contains that of Monte Carlo.
    return float(differences.sum()), float(differences.std(ddof=1)) * math.sqrt(differences.size)


def _losses(full: LogLikelihood, less: list[LogLikelihood]) -> tuple[Array, Array]:
    """What each smaller model loses, and the standard error of that."""
    loss = np.array([full.total - other.total for other in less])
    # By what all samples may err together, both models err alike.
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
