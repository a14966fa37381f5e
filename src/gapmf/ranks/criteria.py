"""What decides how many components there are: held-out counts, held-out samples, or BIC.

Without test data, counts themselves are split. If each count is thinned binomially, the two parts
are independent given W h: one is fitted, and the other one judges how well it is predicted.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from gapmf.csr import only_features
from gapmf.errors import InvalidInputError
from gapmf.likelihood.marginal import comparison_log_likelihood
from gapmf.likelihood.predictive import estimate_activations, held_out_scores, split_tokens
from gapmf.likelihood.result import LogLikelihood
from gapmf.model import GaP
from gapmf.observation import Observation
from gapmf.types import Array

SHARE = 0.2  # of all counts, held out
# Of many samples a random part decides: at least so many, and so many counts per parameter.
MIN_SAMPLES, COUNTS_PER_PARAMETER = 2000, 20.0
SMOOTHING = 1e-3  # of models that predict counts: features may have all of theirs held out
COARSE = 1e-3  # nats per token of a likelihood that is compared sample by sample


class Scores(NamedTuple):
    """How well a model does."""

    per_sample: Array  # (N,), in nats
    noise: float  # the Monte Carlo standard error of the sum
    activations: Array | None = None  # (N, K), where they were estimated

    @property
    def total(self) -> float:
        """Sum over the samples."""
        return float(self.per_sample.sum())


class Criterion(Protocol):
    """What decides: counts to fit models to, their scores, and what a difference is worth."""

    name: str
    price: float | None
    """What a component may cost in nats; None if standard errors decide."""
    fitted: sp.csr_array
    """The counts that models are fitted to."""
    observation: Observation | None
    """How these were observed, if they have exposures or unobserved entries."""
    scale: float
    """Of W for these counts, beside that for all counts."""

    def score(self, model: GaP, *, rough: bool = False, start: Array | None = None) -> Scores:
        """Return the scores of a model of the fitted counts; rough ones cost less, if there are.

        They cost still less with activations (N, K) to start at.
        """

    def error(self, more: Scores, less: Scores) -> float:
        """Return the standard error of the difference of two totals."""


def error_over_samples(more: Scores, less: Scores) -> float:
    """Return the standard error of a difference over samples like these, Monte Carlo included."""
    differences = more.per_sample - less.per_sample
    return float(differences.std(ddof=1)) * math.sqrt(differences.size)


class HeldOutCounts:
    """Some of the counts of every sample are held out, and predicted from the others."""

    name = "held-out counts"
    price: float | None = None

    def __init__(
        self,
        counts: sp.csr_array,
        seed: int,
        n_jobs: int | None,
        n_samples: int | None = None,
        observation: Observation | None = None,
    ) -> None:
        if counts.shape[0] < 2:
            raise InvalidInputError(
                "X has one sample, but the error of a prediction comes from how it varies from "
                "sample to sample: use more samples, or criterion='bic'"
            )
        rng = np.random.default_rng(seed)
        if n_samples is not None and n_samples < counts.shape[0]:
            some = np.sort(rng.choice(counts.shape[0], n_samples, replace=False))
            counts = counts[some]
            observation = None if observation is None else observation.take(some)
        self.scale = 1.0 - SHARE
        self.fitted, self._rest = split_tokens(counts, self.scale, rng)
        self._totals = np.asarray(self.fitted.sum(axis=0), dtype=float)
        self._seed, self._n_jobs = seed, n_jobs
        self.observation = observation

    def score(self, model: GaP, *, rough: bool = False, start: Array | None = None) -> Scores:
        """Return the log-likelihood of the held-out counts given the others."""
        model = model.smoothed(self._totals, SMOOTHING)
        h = estimate_activations(
            self.fitted,
            model,
            self._seed,
            self._n_jobs,
            mean_field=rough,
            start=start,
            observation=self.observation,
        )
        found = held_out_scores(self._rest, SHARE, model, h, self.observation)
        return Scores(found, 0.0, h)

    def error(self, more: Scores, less: Scores) -> float:
        """Return the standard error over samples."""
        return error_over_samples(more, less)


def n_samples_to_decide(counts: sp.csr_array, K: int) -> int:
    """Return how many samples decide about the components of a model."""
    N, total = counts.shape[0], max(float(counts.sum()), 1.0)
    n_features = np.unique(counts.indices).size
    enough = math.ceil(N * COUNTS_PER_PARAMETER * n_features * K / total)
    return min(N, max(MIN_SAMPLES, enough))


class HeldOutSamples:
    """Other samples decide, by their marginal likelihood."""

    name = "held-out samples"
    price: float | None = None
    scale = 1.0

    def __init__(
        self,
        counts: sp.csr_array,
        X_test: sp.csr_array,
        seed: int,
        n_jobs: int | None,
        observation: Observation | None = None,
        observation_test: Observation | None = None,
    ) -> None:
        if X_test.shape[0] < 2:
            raise InvalidInputError(
                "X_test must have two samples or more, but has one: the error of a difference "
                "comes from how it varies from sample to sample"
            )
        self.fitted = counts
        # Features without counts in the fit would make every model impossible.
        self._X_test = only_features(X_test, np.asarray(counts.sum(axis=0)) > 0)
        self.observation, self._observation_test = observation, observation_test
        self._seed, self._n_jobs = seed, n_jobs

    def score(self, model: GaP, *, rough: bool = False, start: Array | None = None) -> Scores:
        """Return the log-likelihood of the test samples."""
        found = comparison_log_likelihood(
            self._X_test, model, self._seed, self._n_jobs, COARSE, self._observation_test
        )
        return Scores(found.per_sample, monte_carlo_error(found))

    def error(self, more: Scores, less: Scores) -> float:
        """Return the standard error over samples."""
        return error_over_samples(more, less)


class HeldOutEntries:
    """Some entries of X are hidden from the fit, and predicted from the others.

    The score of a sample is log p(all of its entries) − log p(those that the fit saw).
    """

    name = "held-out entries"
    price: float | None = None
    scale = 1.0

    def __init__(
        self, counts: sp.csr_array, observation: Observation | None, seed: int, n_jobs: int | None
    ) -> None:
        if counts.shape[0] < 2:
            raise InvalidInputError(
                "X has one sample, but the error of a prediction comes from how it varies from "
                "sample to sample: use more samples"
            )
        whole = Observation(np.ones(counts.shape[0])) if observation is None else observation
        rng = np.random.default_rng(seed)
        shown, lost = whole.hide(SHARE, counts.shape[1], rng)
        self.observation: Observation | None = shown
        self.fitted = shown.keep(counts)
        self._totals = np.asarray(self.fitted.sum(axis=0), dtype=float)
        some = np.flatnonzero(lost)
        self._parts = [(counts[some], whole.take(some)), (self.fitted[some], shown.take(some))]
        self._some, self._n_samples = some, counts.shape[0]
        self._seed, self._n_jobs = seed, n_jobs

    def score(self, model: GaP, *, rough: bool = False, start: Array | None = None) -> Scores:
        """Return the log-likelihood of the hidden entries given the others."""
        model = model.smoothed(self._totals, SMOOTHING)
        both, shown = (
            comparison_log_likelihood(
                part, model, self._seed, self._n_jobs, COARSE, observation=observation
            )
            for part, observation in self._parts
        )
        values = np.zeros(self._n_samples)
        values[self._some] = both.per_sample - shown.per_sample
        return Scores(values, math.hypot(monte_carlo_error(both), monte_carlo_error(shown)))

    def error(self, more: Scores, less: Scores) -> float:
        """Return the standard error over samples."""
        return error_over_samples(more, less)


class Bic:
    """The likelihood of the fitted counts, and a price of ½ log N per parameter."""

    name = "BIC"
    scale = 1.0

    def __init__(
        self,
        counts: sp.csr_array,
        n_parameters: int,
        seed: int,
        n_jobs: int | None,
        observation: Observation | None = None,
    ) -> None:
        self.fitted, self.observation = counts, observation
        price = bic_price(n_parameters, counts.shape[0])
        self.price: float | None = price
        self._precision = price / 16.0 / max(float(counts.sum()), 1.0)
        self._seed, self._n_jobs = seed, n_jobs

    def score(self, model: GaP, *, rough: bool = False, start: Array | None = None) -> Scores:
        """Return the log-likelihood of the fitted counts."""
        found = comparison_log_likelihood(
            self.fitted,
            model,
            self._seed,
            self._n_jobs,
            self._precision,
            observation=self.observation,
        )
        return Scores(found.per_sample, monte_carlo_error(found))

    def error(self, more: Scores, less: Scores) -> float:
        """Return the Monte Carlo standard error; what models have in common cancels."""
        return math.hypot(more.noise, less.noise)


def bic_price(n_parameters: int, n_samples: int) -> float:
    """Return the charge of the Bayesian information criterion, ½ log N per parameter."""
    return 0.5 * n_parameters * math.log(max(n_samples, 2))


def monte_carlo_error(ll: LogLikelihood) -> float:
    """Return the part of a total's standard error that is independent between models."""
    return math.sqrt(float((ll.std_errors**2).sum()))
