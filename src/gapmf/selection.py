"""Choice of the number of components."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF, fit_copy, fit_from
from gapmf.observation import Observation, observe
from gapmf.ranks.criteria import (
    Bic,
    Criterion,
    HeldOutCounts,
    HeldOutEntries,
    HeldOutSamples,
    Scores,
)
from gapmf.ranks.report import ALLOWED, CRITERIA, scaled
from gapmf.types import Array
from gapmf.validation import check_option, check_random_state, check_whole


@dataclass(frozen=True, repr=False, eq=False)
class RankSelection:
    """Comparison of fits with different numbers of components.

    Attributes
    ----------
    n_components : int
        The chosen rank. With held-out data, it is the smallest one whose log-likelihood is within
        two standard errors of that of the best. With BIC, it is the one with the highest `score`.
    estimator : GammaPoissonMF
        The fit of this rank to all counts; if `interrupted`, it may be the compared one.
    ranks : ndarray of int of shape (n_ranks,)
        The compared ranks, ascending.
    score : ndarray of shape (n_ranks,)
        Log-likelihood of the held-out data; with BIC, that of the fitted counts minus ½ log N per
        parameter. Larger is better.
    error : ndarray of shape (n_ranks,)
        Standard errors of the differences between `score` and its maximum: over samples for
        held-out data, else of Monte Carlo.
    criterion : {"held-out counts", "held-out entries", "held-out samples", "BIC"}
        What decided.
    estimators : tuple of GammaPoissonMF
        The compared fits, in the order of `ranks`. They are made without the counts or entries
        that are held out. With held-out counts, `components_` is on the scale of all counts.
    interrupted : bool
        Whether Ctrl-C came before all fits were made.
    """

    n_components: int
    estimator: GammaPoissonMF
    ranks: NDArray[np.int64]
    score: Array
    error: Array
    criterion: str
    estimators: tuple[GammaPoissonMF, ...]
    interrupted: bool = False

    def __repr__(self) -> str:
        return f"RankSelection(n_components={self.n_components}, ranks={self.ranks.tolist()})"

    def __str__(self) -> str:
        below = self.score - self.score.max()
        lines = [f"{'rank':>5} {'score':>16} {'below the best':>20}"]
        for i, rank in enumerate(self.ranks):
            line = f"{rank:>5} {self.score[i]:>16,.1f} {-below[i]:>12,.1f} ± {self.error[i]:<5.2g}"
            lines.append(line + ("  <- chosen" if rank == self.n_components else ""))
        smallest = (
            "the smallest rank whose log-likelihood is within two standard errors of that of the "
            "best"
        )
        what, rule = {
            "held-out counts": (
                "log-likelihood of a random fifth of all counts, given the others",
                smallest,
            ),
            "held-out entries": (
                "log-likelihood of a random fifth of all entries, given the others",
                smallest,
            ),
            "held-out samples": ("log-likelihood of the held-out samples", smallest),
            "BIC": (
                "log-likelihood of the fitted counts, less ½ log N for each parameter",
                "the rank with the highest score",
            ),
        }[self.criterion]
        return "\n".join([*lines, f"score: {what}, in nats", f"chosen: {rule}"])


def select_rank(
    X: Any,
    n_components: Sequence[int] = (1, 2, 3, 5, 8),
    *,
    X_test: Any = None,
    criterion: str = "prediction",
    how: str = "fits",
    estimator: GammaPoissonMF | None = None,
    holdout: str = "counts",
    exposure: Any = None,
    observed: Any = None,
) -> RankSelection:
    """Choose the number of components (the rank) by how well fits predict held-out data.

    After Ctrl-C, the ranks that are finished are compared.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Counts to fit.
    n_components : sequence of int, default=(1, 2, 3, 5, 8)
        Ranks to compare.
    X_test : array-like, sparse matrix or DataFrame of shape (n_test, n_features), optional
        Held-out samples that decide, by their log-likelihood. Features without counts in X are
        ignored.
    criterion : {"prediction", "bic"}, default="prediction"
        What decides without `X_test`. "prediction" holds out a random fifth of the counts of each
        sample. Each rank is fitted to the rest and predicts the held-out counts; given the
        activations, the two parts are independent. The chosen rank is the smallest one whose
        log-likelihood of the held-out counts is within two standard errors of that of the best;
        its fit is then continued with all counts. "bic" is the Bayesian information criterion
        [1]_, which is strict when there are many features.
    how : {"fits", "prune"}, default="fits"
        How to get the fits. "fits" makes one per rank. "prune" fits the largest rank and removes
        components one at a time, the least costly first, as `GammaPoissonMF.rank_report` does.
        It stops at the rank that this report gives. Of the ranks on the way, those in
        `n_components` are compared.
    estimator : GammaPoissonMF, optional
        Estimator whose parameters, except `n_components`, are used. By default,
        ``GammaPoissonMF()``.
    holdout : {"counts", "entries"}, default="counts"
        What criterion="prediction" holds out: a fifth of the counts, or of the entries of X. A
        held-out entry is hidden from the fit as if it had not been observed. Use "entries" for
        data with exposures or unobserved entries, such as ratings.
    exposure : float, array-like of shape (n_samples,) or "total", default=None
        Exposure of each sample, as in `GammaPoissonMF.fit`. Only with holdout="entries".
    observed : array-like or sparse matrix of bool, or "nan", default=None
        Which entries were observed, as in `GammaPoissonMF.fit`. Only with holdout="entries".

    Returns
    -------
    RankSelection
        The chosen rank, its fit, and the comparison.

    See Also
    --------
    GammaPoissonMF.rank_report : Report the cost of removing each component of a fit.

    References
    ----------
    .. [1] Schwarz, G., "Estimating the Dimension of a Model", The Annals of Statistics 6(2), 1978.

    Examples
    --------
    >>> from gapmf import GammaPoissonMF, select_rank
    >>> from gapmf.datasets import paper_synthetic
    >>> X, truth = paper_synthetic(scale=10, n_samples=200, random_state=0)
    >>> est = GammaPoissonMF(algorithm="exact", random_state=0)
    >>> select_rank(X, [1, 2, 3], estimator=est)
    RankSelection(n_components=2, ranks=[1, 2, 3])
    """
    by_entries = check_option(holdout, ("counts", "entries"), "holdout") == "entries"
    if by_entries and (X_test is not None or criterion != "prediction" or how != "fits"):
        raise InvalidInputError(
            "holdout='entries' goes with criterion='prediction' and how='fits', without X_test"
        )
    if not by_entries and not (exposure is None and observed is None):
        raise InvalidInputError("exposure and observed need holdout='entries'")
    counts, observation, _ = observe(X, exposure, observed)
    ranks = sorted({check_whole(K, "n_components") for K in n_components})
    if not ranks:
        raise InvalidInputError("n_components is empty: give at least one rank")
    check_option(how, ("fits", "prune"), "how")
    check_option(criterion, CRITERIA, "criterion")
    template = GammaPoissonMF() if estimator is None else estimator
    judge = _criterion(counts, X_test, criterion, template, by_entries, observation)
    hidden = judge.observation if isinstance(judge, HeldOutEntries) else None
    made = ranks if how == "fits" else ranks[-1:]
    judged: list[tuple[GammaPoissonMF, Scores]] = []
    interrupted = False
    try:
        for K in made:
            fit = fit_copy(template, judge.fitted, observed=hidden, n_components=K)
            judged.append((fit, judge.score(fit.model_)))
        if how == "prune":
            largest = judged[0][0]
            report = largest.rank_report(judge.fitted, X_test, criterion=criterion)
            for model in report.models:
                if model.n_components in ranks:
                    fit = fit_from(largest, judge.fitted, model)
                    judged.insert(0, (fit, judge.score(fit.model_)))
    except KeyboardInterrupt:
        interrupted = True
        if not judged:
            raise
    given = {"exposure": exposure, "observed": observed}
    found = _compare(judged, X if by_entries else counts, judge, interrupted, given)
    if found.interrupted:
        done = f"{len(found.ranks)} of {len(ranks)} numbers of components are compared"
        if len(found.ranks) == len(ranks):
            done = "all are compared, but the chosen model is not fitted to the held-out counts yet"
        warnings.warn(f"stopped: {done}", UserWarning, stacklevel=2)
    for est in (found.estimator, *found.estimators):  # as if each had been fitted to X
        est._check_names(X, reset=True)
        kept = ("init", "n_init", "alpha", "beta", "checkpoint")
        est.set_params(**{name: getattr(template, name) for name in kept})
    return found


def _criterion(
    counts: sp.csr_array,
    X_test: Any,
    criterion: str,
    template: GammaPoissonMF,
    by_entries: bool,
    observation: Observation | None,
) -> Criterion:
    """Return what decides."""
    seed = int(check_random_state(template.random_state).integers(2**63))
    if by_entries:
        return HeldOutEntries(counts, observation, seed, template.n_jobs)
    if X_test is not None:
        test = check_counts(X_test, n_features=counts.shape[1])
        return HeldOutSamples(counts, test, seed, template.n_jobs)
    if criterion == "bic":
        n_features = int((np.asarray(counts.sum(axis=0)) > 0).sum())
        learned = template.learn_alpha in (True, "component")
        return Bic(counts, n_features + learned, seed, template.n_jobs)
    return HeldOutCounts(counts, seed, template.n_jobs)


def _compare(
    judged: list[tuple[GammaPoissonMF, Scores]],
    counts: Any,
    judge: Criterion,
    interrupted: bool,
    given: dict[str, Any],
) -> RankSelection:
    """Compare fits, given in ascending order of rank, and finish the best.

    `counts` and `given` are what to fit in the end, and how it was observed.
    """
    fits, scores = [fit for fit, _ in judged], [score for _, score in judged]
    ranks = np.array([fit.n_components for fit in fits])
    values = np.array([score.total for score in scores]) - (judge.price or 0.0) * ranks
    best = int(values.argmax())
    error = np.array([judge.error(score, scores[best]) for score in scores])
    error[best] = 0.0
    chosen = best
    if judge.price is None:
        chosen = int((values >= values[best] - ALLOWED * error).argmax())
    if judge.scale != 1.0:
        fits = [_rescaled(fit, counts, judge.scale) for fit in fits]
    final = fits[chosen]
    if (judge.scale != 1.0 or isinstance(judge, HeldOutEntries)) and not interrupted:
        try:
            final = fit_from(final, counts, final.model_, **given)
        except KeyboardInterrupt:
            interrupted = True
    return RankSelection(
        n_components=int(ranks[chosen]),
        estimator=final,
        ranks=ranks,
        score=values,
        error=error,
        criterion=judge.name,
        estimators=tuple(fits),
        interrupted=interrupted,
    )


def _rescaled(fit: GammaPoissonMF, counts: sp.csr_array, scale: float) -> GammaPoissonMF:
    """Return a fit to thinned counts as one on the scale of all counts."""
    totals = np.asarray(counts.sum(axis=0), dtype=float)
    model = scaled(fit.model_, scale, totals)
    return fit._store(dataclasses.replace(fit._fitted, model_=model, feature_counts_=totals))
