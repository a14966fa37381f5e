"""Short fits that start from a given model, and likelihoods to compare models."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import scipy.sparse as sp

from gapmf.em.expectation import ExactExpectation
from gapmf.em.monte_carlo import adaptive_schedule, refit_briefly
from gapmf.em.search import search
from gapmf.em.settings import Settings
from gapmf.em.start import from_shares, shares_of
from gapmf.engines.local import LocalEngine
from gapmf.likelihood.marginal import COMPARISON_PARTICLES, comparison_log_likelihood
from gapmf.likelihood.result import LogLikelihood
from gapmf.model import GaP
from gapmf.types import Array

_MOST_PARTICLES = 4096


def monte_carlo_error(ll: LogLikelihood) -> float:
    """Return the part of a total's standard error that is independent between models."""
    return math.sqrt(float((ll.std_errors**2).sum()))


class Refit:
    """Short fits to one data set, each started from a given model; all draws follow from `seed`."""

    def __init__(
        self, counts: sp.csr_array, settings: Settings, n_jobs: int | None, seed: int
    ) -> None:
        self.counts = counts
        self.mean_counts: Array = np.asarray(counts.sum(axis=0)) / counts.shape[0]
        self._settings, self._n_jobs, self._seed = settings, n_jobs, seed
        self._n_particles = COMPARISON_PARTICLES
        if settings.monte_carlo:
            self._engine = LocalEngine(n_jobs).load(counts, seed)
            self._begin = self._engine.state
        else:
            self._expect = ExactExpectation(counts, n_jobs, settings.learn_alpha)

    def fit(self, model: GaP) -> GaP:
        """Return the model that a short fit from this one ends at."""
        settings = dataclasses.replace(
            self._settings, init=model.W, alpha=model.alpha, beta=model.beta, n_init=1
        )
        if not settings.monte_carlo:
            return search(self._expect, settings, np.random.default_rng(self._seed)).fit.model
        self._engine.state = self._begin
        return refit_briefly(self._engine, adaptive_schedule(settings, self._engine), model)

    def log_likelihood(self, model: GaP, counts: sp.csr_array | None = None) -> LogLikelihood:
        """Compute the log-likelihood of the fitted counts, or of others."""
        X = self.counts if counts is None else counts
        return comparison_log_likelihood(X, model, self._seed, self._n_jobs, self._n_particles)

    def set_precision(self, model: GaP, std_error: float) -> None:
        """Choose the number of particles for totals with this standard error, up to a limit."""
        found = monte_carlo_error(self.log_likelihood(model))
        if found > std_error:
            wanted = COMPARISON_PARTICLES * (found / std_error) ** 2
            self._n_particles = int(min(wanted, _MOST_PARTICLES))

    def without(self, model: GaP, k: int) -> GaP:
        """Return the model without component k; the others get its counts in proportion."""
        others = np.delete(np.arange(model.n_components), k)
        shares = shares_of(model, self.mean_counts)[:, others]
        lone = shares.sum(axis=1) == 0
        alpha, beta = model.alpha[others], model.beta[others]
        shares[lone] = GaP(model.W[:, others], alpha, beta).shares
        return GaP(from_shares(shares, self.mean_counts, alpha, beta), alpha, beta)
