"""What a fitted estimator says about samples: their activations, and how likely they are."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gapmf.counts import check_counts
from gapmf.likelihood.activations import Posterior, posterior_activations
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.likelihood.result import LogLikelihood
from gapmf.model import GaP
from gapmf.parallel import check_n_jobs

Array = NDArray[np.float64]


class Answers:
    """The part of `GammaPoissonMF` that looks at samples, old or new.

    What a sample gets depends on the fitted model, on a seed that `fit` drew, and on its counts:
    not on the samples beside it, on their order, or on `n_jobs`.
    """

    model_: GaP
    n_features_in_: int
    n_jobs: int | None
    _seed: int
    fit: Any

    def transform(self, X: Any) -> Array:
        """The posterior mean of the activations, E[h_n | v_n], (N, K).

        Exact where that is cheap; else over 1024 Gibbs draws a sample, and up to sixteen times
        as many where the chains disagree by more than 0.4 %. `posterior` tells the error.

        Parameters
        ----------
        X : counts, (N, F)
        """
        counts = self._check(X)
        return posterior_activations(
            counts, self.model_, quantiles=(), random_state=self._seed, n_jobs=self.n_jobs
        ).mean

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """`fit(X).transform(X)`."""
        fitted: Self = self.fit(X, y)
        return fitted.transform(X)

    def posterior(self, X: Any, quantiles: Any = (0.05, 0.95), *, n_draws: int = 0) -> Posterior:
        """Mean, standard deviation and quantiles of each activation given the counts.

        Parameters
        ----------
        X : counts, (N, F)
        quantiles : sequence of floats between 0 and 1
        n_draws : int
            Posterior draws to return as well, at most 1024.
        """
        return posterior_activations(
            self._check(X),
            self.model_,
            quantiles=quantiles,
            n_draws=n_draws,
            random_state=self._seed,
            n_jobs=self.n_jobs,
        )

    def log_likelihood(self, X: Any, *, method: str = "auto") -> LogLikelihood:
        """log p(X | W) with its error bar: see `log_marginal_likelihood`.

        Parameters
        ----------
        X : counts, (N, F)
        method : str
        """
        return log_marginal_likelihood(
            self._check(X), self.model_, method, random_state=self._seed, n_jobs=self.n_jobs
        )

    def score_samples(self, X: Any) -> Array:
        """log p(x_n | W) of every sample, (N,).

        Parameters
        ----------
        X : counts, (N, F)
        """
        return self.log_likelihood(X).per_sample

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of log p(x_n | W) over samples: a proper log-likelihood, to compare fits by.

        Parameters
        ----------
        X : counts, (N, F)
        y : ignored
        """
        return float(self.score_samples(X).mean())

    def _check(self, X: Any) -> sp.csr_array:
        check_is_fitted(self, "model_")
        check_n_jobs(self.n_jobs)
        return check_counts(X, n_features=self.n_features_in_)
