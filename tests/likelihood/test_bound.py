"""Mean-field lower bounds of log p(v), beside their definition and exact values."""

from __future__ import annotations

import numpy as np
import pytest
from tests import naive

from gapmf import GaP, log_marginal_likelihood
from gapmf.counts import check_counts
from gapmf.likelihood.bound import mean_field_bound
from gapmf.likelihood.result import LogLikelihood, joined


def bound(X, model, tol=1e-14, max_passes=20_000, **options):
    return mean_field_bound(check_counts(X), model, tol=tol, max_passes=max_passes, **options)


def a_problem(seed, K=3, F=4, alpha=0.7, scale=1.0):
    rng = np.random.default_rng(seed)
    model = GaP(scale * rng.gamma(0.5, 4.0, (F, K)), alpha * rng.uniform(0.5, 2.0, K))
    return model, model.sample(12, random_state=seed)


PROBLEMS = [
    {},
    {"alpha": 0.01},
    {"K": 5, "alpha": 20.0},
    {"F": 1},
    {"K": 1},
    {"K": 2, "scale": 2e4},
]


@pytest.mark.parametrize("options", PROBLEMS)
def test_it_is_the_bound_at_its_sizes(options):
    model, X = a_problem(0, **options)
    found = bound(X, model)
    literal = [
        naive.mean_field_bound(v, model.W, model.alpha, model.beta, L)
        for v, L in zip(X, found.sizes, strict=True)
    ]
    np.testing.assert_allclose(found.value, literal, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.sizes.sum(axis=1), X.sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("options", PROBLEMS[:5])
def test_it_lies_below_the_likelihood_after_any_number_of_passes(options):
    model, X = a_problem(1, **options)
    exact = log_marginal_likelihood(X, model, "auto").per_sample
    before = np.full(len(X), -np.inf)
    for max_passes in (1, 2, 5, 20, 1000):
        now = bound(X, model, max_passes=max_passes).value
        assert (now <= exact + 1e-9).all()
        assert (now >= before - 1e-9).all()
        before = now


def test_one_component_is_exact():
    model, X = a_problem(2, K=1)
    exact = log_marginal_likelihood(X, model).per_sample
    np.testing.assert_allclose(bound(X, model).value, exact, rtol=1e-12, atol=1e-12)


def test_company_and_threads_do_not_matter_and_sizes_are_a_start():
    model, X = a_problem(3, K=6, F=30)
    X = np.vstack([X, np.zeros_like(X[:1])])
    together = bound(X, model, 1e-3, 50, n_jobs=2)
    alone = [bound(X[n : n + 1], model, 1e-3, 50) for n in range(len(X))]
    np.testing.assert_array_equal(together.value, [one.value[0] for one in alone])
    further = bound(X, model, 1e-3, 50, sizes=together.sizes)
    assert (further.value >= together.value - 1e-12).all()
    assert together.sizes[-1].sum() == 0.0


def test_results_of_two_parts_are_joined():
    model, X = a_problem(4, K=2)
    all_of_it = log_marginal_likelihood(X, model, "importance", n_particles=64, random_state=0)
    parts = [
        log_marginal_likelihood(part, model, "importance", n_particles=64, random_state=0)
        for part in (X[:5], X[5:])
    ]
    both = joined(*parts)
    assert isinstance(both, LogLikelihood)
    np.testing.assert_array_equal(both.per_sample, all_of_it.per_sample)
    assert both.std_error == pytest.approx(all_of_it.std_error, rel=0.2)
    assert both.total == pytest.approx(all_of_it.total)
