"""Short fits that start from a given model."""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse as sp

from gapmf.em.expectation import ExactExpectation
from gapmf.em.fit import FitData, FitResult, fit
from gapmf.em.monte_carlo import adaptive_schedule, refit_briefly
from gapmf.em.search import search
from gapmf.em.settings import Settings
from gapmf.em.start import from_shares, shares_of
from gapmf.engines.local import LocalEngine
from gapmf.model import GaP
from gapmf.observation import Observation
from gapmf.ranks.features import match_components
from gapmf.types import Array

ROUGH_TOL = 3e-5  # of a fit that only decides which components are needed


class Refit:
    """Short fits to one data set, each started from a given model; all draws follow from `seed`."""

    def __init__(
        self,
        counts: sp.csr_array,
        settings: Settings,
        n_jobs: int | None,
        seed: int,
        observation: Observation | None = None,
    ) -> None:
        self.counts = counts
        self.mean_counts: Array = np.asarray(counts.sum(axis=0)) / counts.shape[0]
        if observation is not None:
            totals = observation.totals(counts.shape[1])
            self.mean_counts = np.asarray(counts.sum(axis=0)) / totals
        self._settings, self._n_jobs, self._seed = settings, n_jobs, seed
        self.monte_carlo = settings.monte_carlo
        if settings.monte_carlo:
            self._engine = LocalEngine(n_jobs).load(counts, seed, observation=observation)
            self._begin = self._engine.state
        elif settings.exact_moments:
            self._expect = ExactExpectation(
                counts,
                n_jobs,
                settings.learn_alpha,
                observation=observation,
                pseudo_count=settings.pseudo_count,
            )

    def fit(self, model: GaP, effort: tuple[int, int]) -> GaP:
        """Return the model that a short fit from this one ends at.

        effort has the iterations with one sweep, and the more precise ones after them.
        """
        settings = dataclasses.replace(
            self._settings, init=model.W, alpha=model.alpha, beta=model.beta, n_init=1
        )
        rng = np.random.default_rng(self._seed)
        if settings.exact_moments:
            return search(self._expect, settings, rng).fit.model
        if settings.ascent:
            settings = dataclasses.replace(settings, max_iter=sum(effort), score_every=0)
            return _uninterrupted(
                fit(FitData(self.counts, None), settings, rng, n_jobs=self._n_jobs)
            )
        self._engine.state = self._begin
        schedule = adaptive_schedule(settings, self._engine)
        return refit_briefly(self._engine, schedule, model, *effort, settings.pseudo_count)

    def without(self, model: GaP, k: int) -> GaP:
        """Return the model without component k; the others get its counts in proportion."""
        others = np.delete(np.arange(model.n_components), k)
        shares = shares_of(model, self.mean_counts)[:, others]
        lone = shares.sum(axis=1) == 0
        alpha, beta = model.alpha[others], model.beta[others]
        shares[lone] = GaP(model.W[:, others], alpha, beta).shares
        return GaP(from_shares(shares, self.mean_counts, alpha, beta), alpha, beta)


def _uninterrupted(result: FitResult) -> GaP:
    if result.interrupted:
        raise KeyboardInterrupt
    return result.model


def fit_anew(
    counts: sp.csr_array,
    settings: Settings,
    like: GaP,
    n_jobs: int | None,
    seed: int,
    observation: Observation | None = None,
) -> GaP:
    """Fit a model to counts from the start, and order its components as those of another model.

    A refit would not do where some counts are held out: it forgets only slowly what the other
    model has learned from them. Components that are empty in the other model stay so.
    """
    used = like.column_norms > 0
    used |= not used.any()
    like_used = GaP(like.W[:, used], like.alpha[used], like.beta[used])
    settings = dataclasses.replace(
        settings,
        alpha=settings.alpha[used],
        beta=settings.beta[used],
        init=settings.init if isinstance(settings.init, str) else "mean",
        n_init=1,
        score_every=0,
        tol=max(settings.tol, ROUGH_TOL),
        # As refits: models are compared that were all fitted in the same way.
        schedule="adaptive" if settings.schedule == "posterior" else settings.schedule,
    )
    rng = np.random.default_rng(seed)
    data = FitData(counts, None, observation)
    found = _uninterrupted(fit(data, settings, rng, n_jobs=n_jobs))
    order = match_components(like_used, found)[0]
    W, alpha, beta = np.zeros_like(like.W), like.alpha.copy(), like.beta.copy()
    W[:, used], alpha[used], beta[used] = found.W[:, order], found.alpha[order], found.beta[order]
    return GaP(W, alpha, beta)
