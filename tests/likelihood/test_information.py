"""Standard errors of W: against numerical second derivatives, and from draws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood
from gapmf.counts import check_counts
from gapmf.errors import TooCostlyError
from gapmf.likelihood import information
from gapmf.likelihood.information import standard_errors


def covariance_by_differences(X, model, active):
    """The inverse of −∂²log p(X | W)/∂(w/ŵ)² over the active entries, from differences."""
    place = np.flatnonzero(active)
    step = 1e-3

    def value(moves):
        x = np.zeros(model.W.size)
        x[place] = moves
        W = model.W * (1.0 + x.reshape(model.W.shape))
        return log_marginal_likelihood(X, GaP(W, model.alpha, model.beta)).total

    # f(a+b) + f(−a−b) − 2 f(0) is that of the sum, from which those of a and of b are taken.
    unit, here = step * np.eye(place.size), 2.0 * value(np.zeros(place.size))
    H = np.diag([value(a) + value(-a) - here for a in unit])
    for i, j in itertools.combinations(range(place.size), 2):
        both = unit[i] + unit[j]
        H[i, j] = H[j, i] = (value(both) + value(-both) - here - H[i, i] - H[j, j]) / 2
    return np.linalg.inv(-H / step**2)


def asked(X, model, method="exact", n_draws=256):
    return standard_errors(
        check_counts(X), model, method=method, n_draws=n_draws, seed=5, n_jobs=None
    )


def problem(F, K, N, seed):
    rng = np.random.default_rng(seed)
    W = rng.gamma(2.0, 1.0, (F, K))
    W[np.arange(F), np.arange(F) % K] += 12.0  # so that the columns can be told apart
    model = GaP(W, rng.uniform(0.5, 1.0, K), rng.uniform(0.5, 1.0, K))
    return model, model.sample(N, random_state=seed)


@pytest.mark.parametrize(
    ("F", "K", "N"),
    [(3, 2, 60), (4, 1, 20), (1, 1, 5), pytest.param(3, 3, 150, marks=pytest.mark.slow)],
)
def test_exact_errors_are_those_of_the_second_derivatives(F, K, N):
    """At any W: no gradient has to vanish."""
    model, X = problem(F, K, N, seed=F + K)
    covariance = covariance_by_differences(X, model, np.ones((F, K), bool))
    found = asked(X, model)
    expected = model.W * np.sqrt(np.diag(covariance)).reshape(F, K)
    np.testing.assert_allclose(found.components.T, expected, rtol=1e-4)
    of_w = (covariance * np.outer(model.W, model.W)).reshape(F, K, F, K)
    norms = np.sqrt([of_w[:, k, :, k].sum() for k in range(K)])
    np.testing.assert_allclose(found.norms, norms, rtol=1e-4)
    assert found.complete
    assert found.method == "exact"


def test_zeros_and_empty_columns_have_no_error():
    """They are held at zero, also where some columns cannot have produced some samples."""
    W = np.array([[4.0, 0.0, 0.0], [2.0, 3.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 0.0]])
    model = GaP(W, [0.7, 1.5, 1.0])
    X = model.sample(80, random_state=0)
    found = asked(X, model)
    covariance = covariance_by_differences(X, model, W > 0)
    np.testing.assert_array_equal(np.isnan(found.components.T), W == 0)
    expected = W[W > 0] * np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(found.components.T[W > 0], expected, rtol=1e-4)
    np.testing.assert_array_equal(np.isnan(found.norms), [False, False, True])
    lower, upper = found.intervals()
    assert (lower.T < W)[W > 0].all()
    assert (upper.T > W)[W > 0].all()


def test_entries_of_less_than_one_expected_count_are_on_the_boundary():
    model = GaP([[4.0, 2.0], [2.0, 1e-9], [1.0, 3.0]])
    found = asked(model.sample(50, random_state=1), model)
    assert np.argwhere(np.isnan(found.components.T)).tolist() == [[1, 1]]


def test_one_sample_cannot_tell_two_columns_apart():
    model = GaP([[4.0, 2.0], [2.0, 5.0], [1.0, 3.0]])
    with pytest.warns(UserWarning, match="not positive definite"):
        found = asked(np.array([[9, 9, 9]]), model)
    assert np.isnan(found.components).all()


def test_no_counts_give_no_errors():
    found = asked(np.zeros((3, 2), int), GaP([[1.0, 2.0], [3.0, 1.0]]))
    assert np.isnan(found.components).all()


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 3])
def test_draws_give_the_same_errors(K):
    """The mean of 12 seeds is within 5 of its standard errors plus 3 %, and each within 40 %.

    Beyond 5 are 0.04 % of means (t with 11 degrees of freedom); there are 8 or 12 of them.
    """
    model, X = problem(4, K, 200, seed=K)
    exact = asked(X, model).components
    counts = check_counts(X)
    found = np.array(
        [
            standard_errors(
                counts, model, method="sampled", n_draws=64, seed=seed, n_jobs=None
            ).components
            for seed in range(12)
        ]
    )
    ratio = found / exact
    assert np.abs(np.log(ratio)).max() < np.log(1.4)
    error = ratio.std(axis=0, ddof=1) / np.sqrt(12)
    assert (np.abs(ratio.mean(axis=0) - 1.0) < 5.0 * error + 0.03).all()


def test_draws_at_a_large_signal_agree_closely():
    """Columns without a common feature: C is known, and draws add nothing."""
    W = np.array([[40.0, 0.0], [20.0, 0.0], [0.0, 30.0], [0.0, 9.0]])
    model = GaP(W, [0.7, 1.5])
    X = model.sample(60, random_state=2)
    drawn = asked(X, model, "sampled", n_draws=4)
    np.testing.assert_allclose(drawn.components, asked(X, model).components, rtol=1e-10)


def test_blocks_of_features_are_the_same_when_nothing_connects_them(monkeypatch):
    """With one column and β far above its norm, entries are independent."""
    model = GaP([[3.0], [2.0], [1.0]], 1.0, 1e7)
    X = np.random.default_rng(0).poisson(5.0, (40, 3))
    whole = asked(X, model)
    monkeypatch.setattr(information, "MAX_ENTRIES", 0)
    blocks = asked(X, model)
    assert (whole.complete, blocks.complete) == (True, False)
    np.testing.assert_allclose(blocks.components, whole.components, rtol=1e-5)


def test_blocks_of_features_are_never_larger(monkeypatch):
    model, X = problem(4, 2, 300, seed=3)
    whole = asked(X, model)
    monkeypatch.setattr(information, "MAX_ENTRIES", 0)
    blocks = asked(X, model)
    assert (blocks.components <= whole.components * (1 + 1e-9)).all()
    assert (blocks.norms <= whole.norms * (1 + 1e-9)).all()


def test_too_costly_moments_are_drawn(monkeypatch):
    model, X = problem(3, 2, 30, seed=4)
    monkeypatch.setattr(information, "MAX_NODES", 1)
    assert asked(X, model, "auto", n_draws=32).method == "sampled"
    with pytest.raises(TooCostlyError, match="sampled"):
        asked(X, model, "exact")


@pytest.mark.slow
def test_estimator(tmp_path):
    truth = GaP([[30.0, 1.0], [10.0, 20.0], [2.0, 40.0]])
    X = truth.sample(150, random_state=0)
    est = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X)
    found = est.standard_errors(X)
    assert found.components.shape == est.components_.shape
    np.testing.assert_array_equal(found.estimates, est.components_)
    covariance = covariance_by_differences(X, est.model_, np.ones((3, 2), bool))
    expected = est.model_.W * np.sqrt(np.diag(covariance)).reshape(3, 2)
    np.testing.assert_allclose(found.components.T, expected, rtol=1e-4)
    again = est.set_params(n_jobs=2).standard_errors(X, method="sampled", n_draws=8)
    same = est.set_params(n_jobs=1).standard_errors(X, method="sampled", n_draws=8)
    np.testing.assert_array_equal(again.components, same.components)
    with pytest.warns(UserWarning, match="α was learned"):
        est.set_params(learn_alpha=True).standard_errors(X)
    est.set_params(learn_alpha=False)
    with pytest.raises(ValueError, match="method"):
        est.standard_errors(X, method="nonsense")
    with pytest.raises(ValueError, match="n_draws"):
        est.standard_errors(X, n_draws=1)
    with pytest.raises(ValueError, match="level"):
        found.intervals(1.0)


def test_it_prints_in_one_line():
    model, X = problem(3, 2, 20, seed=1)
    shown = repr(asked(X, model))
    assert shown == "StandardErrors(n_components=2, n_features=3, method='exact')"
