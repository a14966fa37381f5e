"""The rank report: what removing each component costs, and how many components to keep."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.em.expectation import ExactExpectation
from gapmf.em.settings import Settings
from gapmf.engines.base import Sweeps
from gapmf.engines.local import LocalEngine
from gapmf.model import GaP
from gapmf.observation import Observation
from gapmf.parallel import Progress, part_of
from gapmf.ranks.criteria import (
    SHARE,
    SMOOTHING,
    Bic,
    Criterion,
    HeldOutCounts,
    HeldOutSamples,
    Scores,
    n_samples_to_decide,
)
from gapmf.ranks.features import component_labels
from gapmf.ranks.refit import Refit, fit_anew
from gapmf.types import Array

PROBE = 1e-6  # share of the probing component in the expected counts: negligible
N_GROUPS = 10  # of samples, for the standard error
SWEEPS = Sweeps(n_draws=40, n_burn_in=20, expectations=True)

# Iterations of a refit, with one sweep and with more. After short ones, costs are too large. Up to
# three of these, each from where the one before ended, show which components are clearly needed.
# A component is so if it costs more than so many times what is allowed; also if it costs more than
# fewer times at last, should its cost still fall by three times as much as in the last refit. Costs
# fall fast where other components can take the place.
SHORT, N_SHORT = (6, 0), 3
CLEARLY, CLEARLY_AT_LAST, STILL_FALLS = 8.0, 2.0, 3.0
CAREFUL = (20, 10)
# If a careful refit costs more than is allowed, but not so many times as much, a long one decides.
LONG, UNSURE = (60, 20), 3.0
ALLOWED = 2.0  # standard errors that a removal may cost, since refits add some noise of their own
FIT, FIRST_PASS = 0.4, 0.3  # of the work of a report, as a rule

CRITERIA = ("prediction", "bic")


@dataclass(frozen=True, repr=False, eq=False)
class RankReport:
    """Report on the components of a fit: the cost of removing each, and how many to keep.

    Components are removed one at a time, small and cheap ones first. With held-out data, a
    component stays removed if the log-likelihood of these data is then within two standard errors
    of that of the best model so far. With BIC, it stays removed if this costs less log-likelihood
    than `price`.

    If counts are held out, the report describes a new fit to the other counts. Its components are
    numbered like the matching components of the given fit.

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
        Loss in log-likelihood, in nats, when this component alone is removed and the others are
        briefly refitted. It is the log-likelihood of the data that `criterion` names. Two
        components with the same role both cost little, but after one is removed, removing the
        other costs much.
    cost_error : ndarray of shape (n_components,)
        Standard error of `cost`: over samples for held-out data, of Monte Carlo for BIC. The
        error of the refits is not included.
    bound : ndarray of bool of shape (n_components,)
        Where `cost` is only an upper bound. It comes from a shorter refit, after which it is so
        large that the component is clearly needed.
    criterion : {"held-out counts", "held-out samples", "BIC"}
        What decided.
    price : float or None
        Penalty of the Bayesian information criterion for one component, ½ log N per parameter;
        None if held-out data decided.
    removed : tuple of int
        Removed components, in the order of removal.
    r : ndarray of shape (n_features,)
        Score test for one more component. An iteration of EM multiplies the weight of feature f
        in a tiny new component by r_f. Where r_f > 1, such a component raises the likelihood.
        Under the true model, r_f is 1 on average, so compare (r_f − 1) / r_error, the number of
        standard errors above 1.
    r_error : ndarray of shape (n_features,)
        Standard errors of `r`.
    labels : tuple of str
        The most distinctive features of each component.
    feature_names : ndarray of str of shape (n_features,) or None
        Names of the features, if the estimator was fitted with names.
    """

    rank: int
    keep: NDArray[np.bool_]
    model: GaP
    models: tuple[GaP, ...]
    norm: Array
    share: Array
    cost: Array
    cost_error: Array
    bound: NDArray[np.bool_]
    criterion: str
    price: float | None
    removed: tuple[int, ...]
    r: Array
    r_error: Array
    labels: tuple[str, ...] = ()
    feature_names: NDArray[np.object_] | None = None

    def __repr__(self) -> str:
        return f"RankReport(rank={self.rank}, n_components={self.keep.size})"

    def __str__(self) -> str:
        lines = [f"{'component':>9} {'share':>7} {'cost':>18}  kept  distinctive features"]
        for k in np.argsort(-self.share, kind="stable"):
            kept = "yes" if self.keep[k] else "no"
            sign = "<" if self.bound[k] else " "
            cost = f"{sign}{self.cost[k]:>10,.1f} ± {self.cost_error[k]:<4.2g}"
            label = self.labels[k] if self.labels else ""
            lines.append(f"{k:>9} {self.share[k]:>7.2%} {cost:>18}  {kept:<4}  {label}".rstrip())
        lines += ["", *(fill(text, 98, subsequent_indent="  ") for text in self._explain())]
        return "\n".join(lines)

    def _explain(self) -> list[str]:
        """Say in words what the columns are, and what decided."""
        data = {
            "held-out counts": f"held-out counts (a random {SHARE:.0%} of all)",
            "held-out samples": "the held-out samples",
            "BIC": "the fitted counts",
        }[self.criterion]
        anew = ""
        if self.criterion == "held-out counts":
            anew = " The components are those of a new fit to the other counts."
        rule = (
            "the log-likelihood of the held-out data is then within two standard errors of that of "
            "the best model so far"
        )
        if self.price is not None:
            price = f"BIC's price of a component, {self.price:.1f} nats"
            rule = f"this costs less log-likelihood than {price}"
        cheap = self.keep & ~self.bound & (self.cost < 2.0 * self.cost_error)
        if self.removed and cheap.any():
            anew += (
                " A component that costs little alone is kept where another one with its role was "
                "removed before."
            )
        f = int(np.nan_to_num((self.r - 1.0) / np.maximum(self.r_error, 1e-12)).argmax())
        name = f"feature {f}" if self.feature_names is None else repr(str(self.feature_names[f]))
        excess = (self.r[f] - 1.0) / max(float(self.r_error[f]), 1e-12)
        verdict = "more than chance gives" if excess > 4.0 else "no more than chance gives"
        bound = "; <: at most this, clearly needed" if self.bound.any() else ""
        return [
            f"cost: the loss in log-likelihood of {data}, in nats (natural logarithms), when this "
            f"component alone is removed and the others are refitted, ± its standard error{bound}",
            f"rank: {self.rank}, by {self.criterion}. Components are removed one at a time, "
            f"small and cheap ones first. A component stays removed if {rule}.{anew}",
            f"one more component: r = {self.r[f]:.2f} ± {self.r_error[f]:.2f} at {name}. An "
            "iteration of EM multiplies the weight of a feature in a tiny new component by r. "
            "Where r > 1, such a component raises the likelihood. This feature has the largest "
            f"(r − 1)/error of {self.r.size:,} features: {verdict}.",
        ]


@dataclass(frozen=True)
class Candidate:
    """A model of the fitted counts, and how well it does."""

    model: GaP
    scores: Scores


class BackwardElimination:
    """Removal of components one at a time.

    Parameters
    ----------
    refit : Refit
        Fits models to the counts of the criterion.
    criterion : Criterion
        What decides.
    """

    def __init__(self, refit: Refit, criterion: Criterion) -> None:
        self._refit, self._criterion = refit, criterion
        # A refit that is not by Monte Carlo goes to the end in any case.
        self.n_short = N_SHORT if refit.monte_carlo else 0

    def fitted(self, model: GaP, effort: tuple[int, int] = CAREFUL) -> Candidate:
        """Refit a model and score it."""
        model = self._refit.fit(model, effort)
        return Candidate(model, self._criterion.score(model))

    def fitted_briefly(self, model: GaP, near: Array | None = None) -> Candidate:
        """Refit a model briefly and score it roughly; its activations are near these, (N, K)."""
        model = self._refit.fit(model, SHORT)
        return Candidate(model, self._criterion.score(model, rough=True, start=near))

    def without(self, model: GaP, k: int) -> GaP:
        """Return the model without component k, not refitted yet."""
        return self._refit.without(model, k)

    def loss(self, full: Candidate, less: Candidate) -> tuple[float, float]:
        """Return the loss of a smaller model, and its standard error."""
        loss = full.scores.total - less.scores.total
        return loss, self._criterion.error(full.scores, less.scores)

    def excess(self, loss: float, error: float) -> float:
        """Return the loss beyond what is allowed: negative if the smaller model is better."""
        return loss - self.allowed(error)

    def allowed(self, error: float) -> float:
        """Return the loss that is no reason to keep a component."""
        price = self._criterion.price
        return ALLOWED * error if price is None else price

    def needs(self, loss: tuple[float, float], before: float) -> bool:
        """Say whether a component is clearly needed, given its loss and that of a shorter refit."""
        allowed = self.allowed(loss[1])
        at_last = loss[0] - STILL_FALLS * max(before - loss[0], 0.0)
        return loss[0] > CLEARLY * allowed or at_last > CLEARLY_AT_LAST * allowed

    def run(
        self, full: Candidate, first: dict[int, Candidate], progress: Progress | None = None
    ) -> tuple[list[int], list[GaP], GaP]:
        """Remove components one at a time while that pays.

        `first` has the models without single components that may be removed. Returns the removed
        components, the model after each removal, and the last model. As a rule, the cost of a
        component grows as others are removed. So one that was too costly is not tried again.
        """
        best = full
        share = full.model.shares
        losses = {k: self.loss(full, less) for k, less in first.items()}
        cheap = {k: self.excess(*loss) < 0.0 for k, loss in losses.items()}

        def turn(k: int) -> tuple[bool, float]:
            # A spare component can take the place of a large one. Both are cheap then, and a
            # reader expects the large one to stay.
            return not cheap[k], share[k] if cheap[k] else losses[k][0]

        left = list(range(full.model.n_components))
        removed: list[int] = []
        models: list[GaP] = []
        for i, k in enumerate(sorted(first, key=turn)):
            if len(left) == 1:
                break
            less = self.fitted(self.without(full.model, left.index(k))) if removed else first[k]
            # Losses of single steps could add up: held-out data are compared with the best model.
            reference = best if self._criterion.price is None else full
            loss = self.loss(reference, less)
            if self.excess(*loss) >= 0.0 and loss[0] <= UNSURE * self.allowed(loss[1]):
                less = self.fitted(less.model, LONG)  # the refit may not have been at its end
                loss = self.loss(reference, less)
            if self.excess(*loss) < 0.0:
                full = less
                best = max(best, full, key=lambda c: c.scores.total)
                left.remove(k)
                removed.append(k)
                models.append(full.model)
            if progress is not None:
                progress(i / len(first))
        return removed, models, full.model


def report_on(
    elimination: BackwardElimination,
    model: GaP,
    criterion: Criterion,
    score: tuple[Array, Array],
    progress: Progress | None = None,
) -> RankReport:
    """Make the report on a model of the criterion's counts."""
    alive = model.column_norms > 0
    if not alive.all() and model.n_components > 1:
        alive[0] |= not alive.any()
        filled = GaP(model.W[:, alive], model.alpha[alive], model.beta[alive])
        short = report_on(elimination, filled, criterion, score, progress)
        return _with_empty(short, alive, model)
    K = model.n_components
    losses = [(np.inf, 0.0)] * K
    near = list(range(K)) if K > 1 else []
    if near and elimination.n_short:
        near = not_clearly_needed(elimination, model, losses, part_of(progress, 0.0, FIRST_PASS))
    if not near:  # nothing to remove, so nothing to refit
        return _made(criterion, score, model, losses, near, ([], [], model))
    full = elimination.fitted(model)
    first = {}
    for i, k in enumerate(near):
        first[k] = elimination.fitted(elimination.without(full.model, k))
        losses[k] = elimination.loss(full, first[k])
        if progress is not None:
            progress(FIRST_PASS + (0.6 - FIRST_PASS) * (i + 1) / len(near))
    found = elimination.run(full, first, part_of(progress, 0.6, 1.0))
    return _made(criterion, score, model, losses, near, found)


def not_clearly_needed(
    elimination: BackwardElimination,
    model: GaP,
    losses: list[tuple[float, float]],
    progress: Progress | None,
) -> list[int]:
    """Return the components of which short refits do not say that they are needed; set losses."""
    whole = [elimination.fitted_briefly(model)]
    near = []
    for k in range(model.n_components):
        smaller, h = elimination.without(model, k), whole[0].scores.activations
        h = None if h is None else np.delete(h, k, axis=1)
        for i in range(elimination.n_short):
            # Refitted as briefly as the smaller model, so that the error of such a fit cancels.
            if i == len(whole):
                last = whole[-1]
                whole.append(elimination.fitted_briefly(last.model, last.scores.activations))
            less = elimination.fitted_briefly(smaller, h)
            before, losses[k] = losses[k][0], elimination.loss(whole[i], less)
            if elimination.needs(losses[k], before):
                break
            smaller, h = less.model, less.scores.activations
        else:
            near.append(k)
        if progress is not None:
            progress((k + 1) / model.n_components)
    return near


def _made(
    criterion: Criterion,
    score: tuple[Array, Array],
    model: GaP,
    losses: list[tuple[float, float]],
    near: list[int],
    found: tuple[list[int], list[GaP], GaP],
) -> RankReport:
    """Make the report from what was found."""
    removed, models, last = found
    K = model.n_components
    keep = ~np.isin(np.arange(K), removed)
    cost, cost_error = np.array(losses).T
    return RankReport(
        rank=int(keep.sum()),
        keep=keep,
        model=last,
        models=tuple(models),
        norm=model.column_norms,
        share=model.shares,
        cost=cost,
        cost_error=cost_error,
        bound=~np.isin(np.arange(K), near),
        criterion=criterion.name,
        price=criterion.price,
        removed=tuple(removed),
        r=score[0],
        r_error=score[1],
    )


def _with_empty(short: RankReport, alive: NDArray[np.bool_], model: GaP) -> RankReport:
    """Put the empty components back into a report: they cost nothing and are removed first."""
    places = np.flatnonzero(alive)

    def among_all(values: NDArray[Any]) -> NDArray[Any]:
        result = np.zeros(alive.size, dtype=values.dtype)
        result[places] = values
        return result

    spread: dict[str, Any] = {
        name: among_all(getattr(short, name)) for name in ("keep", "cost", "cost_error", "bound")
    }
    removed = (*np.flatnonzero(~alive).tolist(), *places[list(short.removed)].tolist())
    return dataclasses.replace(
        short, norm=model.column_norms, share=model.shares, removed=removed, **spread
    )


def make_report(
    model: GaP,
    counts: sp.csr_array,
    settings: Settings,
    *,
    X_test: sp.csr_array | None,
    bic: bool,
    seed: int,
    n_jobs: int | None,
    feature_names: NDArray[Any] | None = None,
    progress: Progress | None = None,
    observation: Observation | None = None,
    observation_test: Observation | None = None,
) -> RankReport:
    """Make the rank report of a model that was fitted to these counts with these settings."""
    totals = np.asarray(counts.sum(axis=0), dtype=float)
    names = None if feature_names is None else feature_names.tolist()
    criterion: Criterion
    if X_test is not None:
        criterion = HeldOutSamples(counts, X_test, seed, n_jobs, observation, observation_test)
    elif bic:
        n_parameters = int((totals > 0).sum()) + (settings.learn_alpha == "component")
        criterion = Bic(counts, n_parameters, seed, n_jobs, observation)
    else:
        n_samples = n_samples_to_decide(counts, model.n_components)
        criterion = HeldOutCounts(counts, seed, n_jobs, n_samples, observation)
    if settings.exact_moments:
        test = ExactExpectation(counts, n_jobs, observation=observation).score(model)
    else:
        test = score_test(counts, model, seed, n_jobs, observation)
    start = model
    if criterion.scale != 1.0:
        start = fit_anew(criterion.fitted, settings, model, n_jobs, seed, criterion.observation)
    refit = Refit(criterion.fitted, settings, n_jobs, seed, criterion.observation)
    elimination = BackwardElimination(refit, criterion)
    report = report_on(elimination, start, criterion, test, part_of(progress, FIT, 1.0))
    models = tuple(scaled(m, criterion.scale, totals) for m in report.models)
    return dataclasses.replace(
        report,
        model=scaled(report.model, criterion.scale, totals),
        models=models,
        norm=start.column_norms / criterion.scale,
        share=start.shares,
        labels=tuple(component_labels(start, totals, names)),
        feature_names=feature_names,
    )


def scaled(model: GaP, scale: float, totals: Array) -> GaP:
    """Return a model of thinned counts as one of all counts, with these totals of features.

    Features may have lost all of their counts, so each component gets some background.
    """
    if scale == 1.0:
        return model
    return GaP(model.W / scale, model.alpha, model.beta).smoothed(totals, SMOOTHING)


def score_test(
    X: sp.csr_array,
    model: GaP,
    seed: int,
    n_jobs: int | None,
    observation: Observation | None = None,
) -> tuple[Array, Array]:
    """Return r_f = mean_n v_fn E[1/[Wh_n]_f | v_n] and its standard error over samples, both (F,).

    With exposures, the sum over samples is divided by Σ_n m_nf s_n.

    A probing component that is almost empty and has activations of almost one receives the fraction
    PROBE · r_f of the expected counts. The standard error comes from independent groups of samples.
    """
    N = X.shape[0]
    groups = np.array_split(np.random.default_rng(seed).permutation(N), min(N_GROUPS, N))
    expected = model.expected_counts()
    first = np.cumsum([0, *(rows.size for rows in groups)])
    parts = []
    for rows, n in zip(groups, first, strict=False):
        own = None if observation is None else observation.take(rows)
        engine = LocalEngine(n_jobs).load(X[rows], seed, int(n), own)
        parts.append(_score_of_group(model, expected, engine))
    r = np.array(parts)
    weights = np.array([rows.size for rows in groups]) / N
    if observation is not None:  # r is then per sample, and its weights are exposures
        exposures = [observation.take(rows).totals(model.n_features) for rows in groups]
        exposed = np.array(exposures)
        share = exposed / exposed.sum(axis=0)
        each = np.divide(r * weights[:, None] * N, exposed, out=np.zeros_like(r), where=exposed > 0)
        mean = (share * each).sum(axis=0)
        if len(groups) == 1:
            return mean, np.full_like(mean, np.nan)
        return mean, np.sqrt((share * (each - mean) ** 2).sum(axis=0) / (len(groups) - 1))
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
