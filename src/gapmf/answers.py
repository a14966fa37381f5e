"""What a fitted estimator says about samples: their activations, and how likely they are."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from gapmf.counts import check_counts
from gapmf.em.settings import check_smoothing
from gapmf.errors import InvalidInputError
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.likelihood.posterior import Posterior, posterior_activations
from gapmf.likelihood.result import LogLikelihood
from gapmf.model import GaP
from gapmf.parallel import check_n_jobs
from gapmf.types import Array
from gapmf.validation import as_float, check_whole

# The numbers of features of the models for which counts that they cannot have were warned of.
_told_of: set[int] = set()


class Answers(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]
    """The part of `GammaPoissonMF` that looks at samples, old or new.

    What a sample gets depends on the fitted model, on a seed that `fit` drew, and on its counts:
    not on the samples beside it, on their order, or on `n_jobs`.
    """

    model_: GaP
    n_features_in_: int
    components_: Array
    feature_counts_: Array
    smoothing: float
    n_jobs: int | None
    _seed: int

    def transform(self, X: Any) -> Array:
        """The posterior mean of the activations, E[h_n | v_n], (N, K).

        Exact where that is cheap; else over 1024 Gibbs draws a sample, and up to 64 times as
        many chains where these disagree by more than 0.5 %. `posterior` tells the error.

        Parameters
        ----------
        X : counts, (N, F)

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [0, 2], [3, 1]])
        >>> est.transform([[4, 1]]).shape
        (1, 1)
        """
        return posterior_activations(
            *self._ask(X), quantiles=(), random_state=self._seed, n_jobs=self.n_jobs
        ).mean

    def posterior(self, X: Any, quantiles: Any = (0.05, 0.95), *, n_draws: int = 0) -> Posterior:
        """Mean, standard deviation and quantiles of each activation given the counts.

        Parameters
        ----------
        X : counts, (N, F)
        quantiles : sequence of floats between 0 and 1
        n_draws : int
            Posterior draws to return as well, at most 1024.

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> found = est.posterior([[4, 1]], quantiles=[0.5])
        >>> found.mean.shape, found.quantiles.shape
        ((1, 1), (1, 1, 1))
        """
        return posterior_activations(
            *self._ask(X),
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

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> ll = est.log_likelihood([[4, 1], [0, 0]])
        >>> ll.std_error, ll.methods.tolist()
        (0.0, ['enumerate', 'enumerate'])
        """
        counts, model = self._ask(X)
        found = log_marginal_likelihood(
            counts, model, method, random_state=self._seed, n_jobs=self.n_jobs
        )
        impossible = not self.smoothing and bool((found.per_sample == -np.inf).any())
        if impossible and self.n_features_in_ not in _told_of:
            # A search over many fits is to say it once; Python's own memory is lost on the way.
            _told_of.add(self.n_features_in_)
            warnings.warn(
                "there are counts of features that no component has (they had none in the fit), "
                "so log p is −inf: set smoothing, say est.set_params(smoothing=0.05), for a "
                "finite one; the fit stays as it is",
                UserWarning,
                stacklevel=2,
            )
        return found

    def score_samples(self, X: Any) -> Array:
        """log p(x_n | W) of every sample, (N,).

        Parameters
        ----------
        X : counts, (N, F)

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> est.score_samples([[4, 1], [0, 0]]).shape
        (2,)
        """
        return self.log_likelihood(X).per_sample

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of log p(x_n | W) over samples: a proper log-likelihood, to compare fits by.

        Parameters
        ----------
        X : counts, (N, F)
        y : ignored

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> est.score([[4, 1]]) < est.score([[0, 0]]) < 0
        True
        """
        return float(self.score_samples(X).mean())

    def inverse_transform(self, X: Any) -> Array:
        """The counts that activations lead to one to expect: H Wᵀ, (N, F).

        Parameters
        ----------
        X : array-like, (N, K)
            Activations H, as from `transform`.

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> est.inverse_transform([[2.0]]).shape
        (1, 2)
        """
        check_is_fitted(self, "model_")
        H = as_float(X, "X", "activations, samples × components")
        if H.ndim != 2 or H.shape[1] != self.model_.n_components:
            raise InvalidInputError(
                f"X must have shape (n, {self.model_.n_components}), samples × components, but "
                f"has shape {H.shape}"
            )
        return np.asarray(H @ self.components_)

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> NDArray[np.int64]:
        """Counts drawn from the fitted model, (n_samples, F).

        Parameters
        ----------
        n_samples : int
        random_state : None, int, Generator or RandomState

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> est.sample(4, random_state=0).shape
        (4, 2)
        """
        check_is_fitted(self, "model_")
        return self.model_.sample(n_samples, random_state=random_state)

    def top_features(self, n: int = 10, *, names: Any = None) -> list[list[tuple[Any, float]]]:
        """The largest features of each component, and their parts of it: [[(name, part), …], …].

        Parameters
        ----------
        n : int
            How many; features that a component does not have are left out.
        names : sequence, (F,), optional
            What to call the features: by default as the frame did that was fitted, or by their
            numbers.

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [1, 0], [3, 1]])
        >>> [(name, round(part, 2)) for name, part in est.top_features(names=["a", "b"])[0]]
        [('a', 0.8), ('b', 0.2)]
        """
        check_is_fitted(self, "model_")
        n = check_whole(n, "n")
        if names is None:
            names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_)).tolist()
        names = list(names)
        if len(names) != self.n_features_in_:
            raise InvalidInputError(
                f"names must be {self.n_features_in_}, one for each feature, but are {len(names)}"
            )
        parts = self.model_.W / np.maximum(self.model_.column_norms, np.finfo(float).tiny)
        return [
            [(names[f], float(part[f])) for f in np.argsort(-part, kind="stable")[:n] if part[f]]
            for part in parts.T
        ]

    @property
    def _n_features_out(self) -> int:
        """K, for the names of what `transform` gives."""
        return self.model_.n_components

    def _ask(self, X: Any) -> tuple[sp.csr_array, GaP]:
        """Checked counts, and the model that is asked about them."""
        check_is_fitted(self, "model_")
        check_n_jobs(self.n_jobs)
        counts = check_counts(X, n_features=self.n_features_in_, owner=type(self).__name__)
        validate_data(self, X, reset=False, skip_check_array=True)  # names of features
        weight = check_smoothing(self.smoothing)
        return counts, self.model_.smoothed(self.feature_counts_, weight)
