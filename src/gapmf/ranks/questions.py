"""What an estimator answers about its rank, after the fit."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from gapmf.counts import check_counts
from gapmf.csr import only_features
from gapmf.em.expectation import ExactExpectation
from gapmf.em.settings import Settings, check_settings
from gapmf.errors import InvalidInputError
from gapmf.model import GaP
from gapmf.parallel import check_n_jobs
from gapmf.ranks.refit import Refit
from gapmf.ranks.report import RankReport, report_on
from gapmf.ranks.score_test import score
from gapmf.ranks.stability import Stability, compare
from gapmf.validation import check_option, check_random_state, check_whole


class RankQuestions:
    """The part of `GammaPoissonMF` that asks how many components there are, and how surely.

    It reads an estimator's parameters and fitted model, and changes neither.
    """

    model_: GaP
    n_features_in_: int
    n_jobs: int | None
    random_state: Any
    init: Any
    get_params: Any
    fit: Any

    def rank_report(self, X: Any, X_test: Any = None) -> RankReport:
        """What each component is worth, and how many are worth their price.

        Each component is removed and the others are refitted, shortly: what that costs in
        log-likelihood stands beside BIC's price and, with held-out counts, beside what it
        costs there. Then components are removed one after another as long as that pays.

        Parameters
        ----------
        X : counts, (N, F)
            Those of `fit`.
        X_test : counts, (M, F), optional
            Held-out counts. Features that have none in X are left out of them.

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> from gapmf.datasets import paper_synthetic
        >>> X, truth = paper_synthetic(scale=10, random_state=0)
        >>> est = GammaPoissonMF(3, algorithm="exact", random_state=0).fit(X)
        >>> est.rank_report(X).rank
        2
        """
        check_is_fitted(self, "model_")
        counts, settings, rng = self._prepare(X)
        seed = int(rng.integers(2**63))
        refit = Refit(counts, settings, self.n_jobs, seed)
        report = report_on(
            refit,
            self.model_,
            n_parameters=int((refit.mean_counts > 0).sum()) + (settings.learn_alpha == "component"),
            X_test=None if X_test is None else self._held_out(X_test, refit),
            score=self._score(counts, settings, seed),
        )
        return dataclasses.replace(report, feature_names=getattr(self, "feature_names_in_", None))

    def prune(self, X: Any, X_test: Any = None, *, report: RankReport | None = None) -> Self:
        """A fitted estimator of the components that the rank report keeps.

        Parameters
        ----------
        X, X_test : as for `rank_report`
        report : RankReport, optional
            One that was made before, to save the time.

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> from gapmf.datasets import paper_synthetic
        >>> X, truth = paper_synthetic(scale=10, random_state=0)
        >>> est = GammaPoissonMF(3, algorithm="exact", random_state=0).fit(X)
        >>> est.prune(X).components_.shape
        (2, 4)
        """
        report = self.rank_report(X, X_test) if report is None else report
        return self.refitted(X, report.model)

    def refitted(self, X: Any, model: GaP) -> Self:
        """An estimator with the same parameters, fitted from a model of any rank.

        Parameters
        ----------
        X : counts, (N, F)
        model : GaP
            Where to start, α and β included.

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> from gapmf.datasets import paper_synthetic
        >>> X, truth = paper_synthetic(scale=10, random_state=0)
        >>> est = GammaPoissonMF(3, algorithm="exact", random_state=0).fit(X)
        >>> est.refitted(X, truth).components_.shape
        (2, 4)
        """
        other: Self = clone(self).set_params(
            n_components=model.n_components,
            alpha=model.alpha,
            beta=model.beta,
            init=model.W.T.copy(),
            n_init=1,
        )
        other.fit(X)
        return other

    def stability(
        self, X: Any, n_fits: int = 10, *, by: str = "seeds", n_features: int = 10
    ) -> Stability:
        """How surely each component comes back when the fit is repeated.

        Parameters
        ----------
        X : counts, (N, F)
            Those of `fit`.
        n_fits : int
        by : {"seeds", "bootstrap"}
            Fits of the same counts from other seeds, which tell how much depends on where a
            fit ends; or fits of samples drawn with replacement, which tell what depends on
            the data at hand as well. Fits start as `init` says, or from "mean" if that is an
            array.
        n_features : int
            Features of each component, from the largest, to give intervals for.

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> from gapmf.datasets import paper_synthetic
        >>> X, truth = paper_synthetic(scale=10, random_state=0)
        >>> est = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X)
        >>> bool((est.stability(X, n_fits=2).returned > 0.9).all())
        True
        """
        check_is_fitted(self, "model_")
        check_option(by, ("seeds", "bootstrap"), "by")
        counts, _, rng = self._prepare(X)
        models = []
        for _ in range(check_whole(n_fits, "n_fits", least=2)):
            rows = np.arange(counts.shape[0])
            if by == "bootstrap":
                rows = rng.integers(rows.size, size=rows.size)
            again = clone(self).set_params(
                random_state=int(rng.integers(2**31)),
                init=self.init if isinstance(self.init, str) else "mean",
                callbacks=None,
            )
            models.append(again.fit(counts[rows]).model_)
        found = compare(self.model_, models, check_whole(n_features, "n_features"))
        return dataclasses.replace(found, feature_names=getattr(self, "feature_names_in_", None))

    def _prepare(self, X: Any) -> tuple[sp.csr_array, Settings, np.random.Generator]:
        """Counts and settings for questions about a fit that was made."""
        counts = check_counts(X, n_features=self.n_features_in_)
        settings = check_settings(self.get_params(deep=False), counts)
        check_n_jobs(self.n_jobs)
        return counts, settings, check_random_state(self.random_state)

    def _score(self, counts: sp.csr_array, settings: Settings, seed: int) -> tuple[Any, Any]:
        """The score test for one component more, exactly if the fit was exact."""
        if settings.monte_carlo:
            return score(counts, self.model_, seed, self.n_jobs)
        return ExactExpectation(counts, self.n_jobs).score(self.model_)

    def _held_out(self, X_test: Any, refit: Refit) -> sp.csr_array:
        """Held-out counts of the features that have been seen."""
        counts = check_counts(X_test, n_features=self.n_features_in_)
        if counts.shape[0] < 2:
            raise InvalidInputError(
                "X_test must have two samples or more, but has one: the error of a difference "
                "comes from how it varies from sample to sample"
            )
        return only_features(counts, refit.mean_counts > 0)
