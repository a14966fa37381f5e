"""Totals to a precision, from all samples or a random part of them. Seeds are fixed."""

from __future__ import annotations

import numpy as np
import pytest

from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood
from gapmf.counts import check_counts
from gapmf.errors import InvalidInputError
from gapmf.likelihood import smc
from gapmf.likelihood.marginal import log_normaliser
from gapmf.likelihood.partial import total_log_likelihood
from gapmf.likelihood.result import sum_error


def a_model(K=3, F=20, seed=0, alpha=0.4):
    rng = np.random.default_rng(seed)
    return GaP(60 * rng.dirichlet(np.full(F, 0.3), K).T, alpha=alpha)


def total(X, model, precision, seed):
    counts = check_counts(X)
    return total_log_likelihood(counts, model, precision, seed=seed, n_jobs=1, max_cost=np.inf)


@pytest.mark.slow
def test_a_part_is_enough_and_its_error_bar_covers():
    """600 samples: the exact total is within 3 standard errors in 18 of 20 or more.

    With normal errors this fails less than once in 10⁵ times.
    """
    model = a_model()
    X = model.sample(600, random_state=1)
    exact = log_marginal_likelihood(X, model).total
    hits, used = 0, []
    for seed in range(20):
        found = total(X, model, 2e-3, seed)
        hits += abs(found.total - exact) <= 3 * found.std_error
        used.append(int((~np.isnan(found.per_sample)).sum()))
        assert found.std_error < 2e-3 * X.sum()
    assert hits >= 18
    assert min(used) >= 100
    assert max(used) < 600
    assert "of 600 samples, chosen at random" in found.method


@pytest.mark.slow
def test_single_values_never_come_from_a_part():
    X = a_model().sample(400, random_state=2)
    est = GammaPoissonMF(3, random_state=0, tol=1e-3).fit(X)
    found = est.log_likelihood(X, precision=np.inf)
    assert np.isfinite(found.per_sample).all()
    np.testing.assert_array_equal(est.score_samples(X), found.per_sample)
    part = est.log_likelihood(X, total_only=True, precision=1e-2)
    assert np.isnan(part.per_sample).any()
    known = ~np.isnan(part.per_sample)
    np.testing.assert_array_equal(part.per_sample[known], found.per_sample[known])
    assert est.score(X) == est.log_likelihood(X, total_only=True).total / 400


def test_impossible_samples_are_seen():
    W = a_model().W.copy()
    W[0] = 0.0
    X = np.zeros((300, 20), dtype=int)
    X[:, 1] = 3
    X[7, 0] = 1
    assert total(X, GaP(W), 1e-2, 0).total == -np.inf


@pytest.mark.slow
@pytest.mark.parametrize("precision", [3e-3, 1e-3, 3e-4])
def test_estimates_reach_their_target(precision):
    """Standard errors are below the target, and exact totals within three of them.

    Ten problems each; normal errors fail once in 37 times for one of the ten.
    """
    for seed in range(10):
        model = a_model(seed=seed)
        X = check_counts(model.sample(60, random_state=seed))
        X = X[np.diff(X.indptr) > 0]
        exact = log_marginal_likelihood(X, model)
        target = precision * X.sum()
        found = smc.log_factors_to(X, model, np.uint64(3), target, np.ones(X.shape[0]), 1)
        error = sum_error(found, np.ones(X.shape[0]))
        assert error <= 1.1 * target
        off = found.values.sum() - X.shape[0] * log_normaliser(model) - exact.total
        assert abs(off) < 4 * error


def test_a_smaller_precision_costs_more_particles(monkeypatch):
    seen = []
    estimate = smc._estimate

    def spy(rows, model, guided, seed, per_island, *args, **options):
        seen.append(per_island)
        return estimate(rows, model, guided, seed, per_island, *args, **options)

    monkeypatch.setattr(smc, "_estimate", spy)
    model = a_model(5)
    X = model.sample(30, random_state=0)
    sizes = []
    for precision in (1e-1, 5e-4, 1e-4):
        seen.clear()
        ll = log_marginal_likelihood(X, model, precision=precision, random_state=0)
        sizes.append(max(seen))
        assert ll.std_error <= 1.2 * precision * X.sum()
    assert sizes[0] == smc.COARSE_PARTICLES
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]


def test_exact_where_that_is_cheaper():
    X = [[2, 1], [3, 0]]
    ll = log_marginal_likelihood(X, GaP([[3.0, 0.5], [1.0, 2.0]]), precision=1e-4)
    assert ll.std_error == 0.0
    with pytest.raises(InvalidInputError, match="precision is for"):
        log_marginal_likelihood(X, GaP(np.ones((2, 2))), "smc", precision=1e-4)
    with pytest.raises(InvalidInputError, match="precision must be a number, above 0"):
        log_marginal_likelihood(X, GaP(np.ones((2, 2))), precision=0)
