"""Exact moments, likelihood, gradient and score of the E-step without Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings

import naive
from component_sizes import law_of_sizes
from gapmf import GaP, count_admissible, log_marginal_likelihood, posterior_moments
from gapmf.counts import check_counts
from gapmf.em.expectation import ExactExpectation
from gapmf.errors import InvalidInputError, TooCostlyError
from strategies import problems


def _by_enumeration(x, model):
    """E[c] (F, K), E[h h'] (K, K) and the law of L, from the sum over admissible components."""
    F, K = model.W.shape
    total, c, second, law = 0.0, np.zeros((F, K)), np.zeros((K, K)), {}
    rate = model.beta + model.column_norms
    for C in naive.admissible(x[:, None], K):
        weight = 1.0
        for k in range(K):
            p = model.event_probabilities[:, k]
            weight *= naive.negative_multinomial_pmf(C[:, k, 0].tolist(), model.alpha[k], p)
        L = C[:, :, 0].sum(axis=0)
        shape = model.alpha + L
        total += weight
        c += weight * C[:, :, 0]
        second += weight * (np.outer(shape / rate, shape / rate) + np.diag(shape / rate**2))
        law[tuple(L.tolist())] = law.get(tuple(L.tolist()), 0.0) + weight
    return c / total, second / total, {L: w / total for L, w in law.items()}


def _possible(X, model):
    return not (X[:, model.W.sum(axis=1) == 0] > 0).any()


@given(problems(max_count=3, max_samples=3))
@settings(max_examples=60)
def test_moments_equal_the_enumeration(problem):
    model, X = problem
    assume(_possible(X, model))
    assume(max(count_admissible(X, model.n_components)) <= 500)
    moments = posterior_moments(X, model)
    dense = np.zeros((*X.shape, model.n_components))
    n, f = moments.counts.tocoo().coords
    dense[n, f] = moments.c
    for i, x in enumerate(X):
        c, second, law = _by_enumeration(x, model)
        np.testing.assert_allclose(dense[i], c, atol=1e-11)
        np.testing.assert_allclose(moments.L[i], c.sum(axis=0), atol=1e-11)
        mean = (model.alpha + c.sum(axis=0)) / (model.beta + model.column_norms)
        np.testing.assert_allclose(moments.h[i], mean, rtol=1e-11)
        np.testing.assert_allclose(moments.h_second[i], second, rtol=1e-10)
        np.testing.assert_allclose(moments.h_variance[i], np.diag(second) - mean**2, rtol=1e-7)
        sizes, probability = law_of_sizes(x, model)
        for L, p in zip(sizes.tolist(), probability, strict=True):
            assert p == pytest.approx(law.get(tuple(L), 0.0), abs=1e-11)


@given(problems(max_count=3, max_samples=4))
@settings(max_examples=60)
def test_sums_equal_the_enumeration(problem):
    model, X = problem
    assume(_possible(X, model))
    assume(max(count_admissible(X, model.n_components)) <= 500)
    at = ExactExpectation(check_counts(X)).e_step(model)
    c = sum(_by_enumeration(x, model)[0] for x in X)
    np.testing.assert_allclose(at.statistics.c_sum, c, atol=1e-10)
    rate = model.beta + model.column_norms
    h = (len(X) * model.alpha + c.sum(axis=0)) / rate
    np.testing.assert_allclose(at.statistics.h_sum, h, rtol=1e-10)
    assert at.log_likelihood == pytest.approx(log_marginal_likelihood(X, model).total, rel=1e-11)
    assert at.statistics.n_draws == len(X)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 1.0, 30.0])
@pytest.mark.parametrize("K", [1, 2, 3])
def test_moments_at_large_counts_and_small_alpha(alpha, K):
    """Against the law of L, which comes from the other method, at |v| = 300."""
    rng = np.random.default_rng(K)
    model = GaP(rng.gamma(0.5, 50.0, (5, K)), alpha * np.arange(1, K + 1), rng.gamma(2, 1, K))
    x = rng.multinomial(300, rng.dirichlet(np.ones(5)))[None]
    moments = posterior_moments(x, model)
    sizes, p = law_of_sizes(x, model)
    np.testing.assert_allclose(moments.L[0], p @ sizes, rtol=1e-9, atol=1e-12)
    shape, rate = model.alpha + sizes, model.beta + model.column_norms
    second = np.einsum("m,mk,ml->kl", p, shape / rate, shape / rate)
    second += np.diag(p @ (shape / rate**2))
    np.testing.assert_allclose(moments.h_second[0], second, rtol=1e-9)


@given(problems(max_count=40, max_samples=4, max_components=3))
def test_the_total_activation_is_gamma(problem):
    """Σ_k (S_k+β_k) h_kn | v_n ~ Gamma(A+|v_n|, 1): its first two moments."""
    model, X = problem
    assume(_possible(X, model))
    moments = posterior_moments(X, model)
    rate = model.beta + model.column_norms
    shape = model.alpha.sum() + X.sum(axis=1)
    np.testing.assert_allclose(moments.h @ rate, shape, rtol=1e-11)
    second = np.einsum("nkl,k,l->n", moments.h_second, rate, rate)
    np.testing.assert_allclose(second, shape * (shape + 1), rtol=1e-11)


@pytest.mark.slow
@given(problems(max_count=12, max_samples=4, max_components=3))
@settings(max_examples=20)
def test_gradient_agrees_with_differences(problem):
    """Where w_fk > 0 (central) and where w_fk = 0 (one-sided, of second order)."""
    model, X = problem
    assume(_possible(X, model))
    expect = ExactExpectation(check_counts(X))
    gradient = expect.e_step(model).gradient

    def cost(W):
        return -log_marginal_likelihood(X, GaP(W, model.alpha, model.beta)).total

    for place in np.ndindex(*model.W.shape):
        if model.W[place[0]].sum() == 0 and X[:, place[0]].any():
            continue
        h = 1e-4 * (model.W[place] or 0.1)
        shifts = (-2, -1, 1, 2) if model.W[place] > 0 else (0, 1, 2, 3, 4)
        values = []
        for times in shifts:
            W = model.W.copy()
            W[place] += times * h
            values.append(cost(W))
        if model.W[place] > 0:
            slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
        else:
            slope = np.dot([-25, 48, -36, 16, -3], values) / (12 * h)
        assert slope == pytest.approx(gradient[place], rel=1e-6, abs=1e-6 * (1 + X.sum() / len(X)))


def test_score_is_the_slope_of_one_column_more():
    """∂ log p / ∂ w_fK+1 at a new, empty column: N (α/β) (r_f − 1), whatever α and β."""
    rng = np.random.default_rng(3)
    model = GaP(rng.gamma(1.0, 3.0, (3, 2)), [0.4, 2.0], [1.0, 0.5])
    X = model.sample(12, random_state=4)
    r, _ = ExactExpectation(check_counts(X)).score(model)
    for alpha, beta in [(1.0, 1.0), (0.3, 2.0)]:
        for f in range(3):
            values = []
            for size in (0.0, 1e-5, 2e-5):
                extra = np.zeros((3, 1))
                extra[f] = size
                larger = GaP(np.hstack([model.W, extra]), [0.4, 2.0, alpha], [1.0, 0.5, beta])
                values.append(log_marginal_likelihood(X, larger).total)
            slope = (4 * values[1] - values[2] - 3 * values[0]) / 2e-5
            assert slope == pytest.approx(12 * alpha / beta * (r[f] - 1), rel=1e-4)


def test_score_of_one_component_is_known():
    """K = 1: E[1/(w_f h)] with h ~ Gamma(α+|v|, β+S) is (β+S) / (w_f (α+|v|−1))."""
    model = GaP([[2.0], [3.0]], alpha=0.7, beta=1.3)
    X = np.array([[3, 1], [0, 2], [0, 0]])
    n = X.sum(axis=1)
    expected = np.zeros(2)
    for x, total in zip(X, n, strict=True):
        expected += np.where(x > 0, x * 6.3 / (model.W[:, 0] * (0.7 + total - 1)), 0.0)
    r, _ = ExactExpectation(check_counts(X)).score(model)
    np.testing.assert_allclose(r, expected / 3, rtol=1e-12)


def test_score_is_one_on_average_at_the_truth():
    """E[r_f] = 1: over 4000 samples within 5 of its standard errors, which are right, too."""
    model = GaP([[3.0, 0.5], [1.0, 4.0]], alpha=[1.5, 2.5])
    X = model.sample(4000, random_state=0)
    r, error = ExactExpectation(check_counts(X)).score(model)
    assert (np.abs(r - 1) < 5 * error).all()
    parts = [ExactExpectation(check_counts(X[i::40])).score(model)[0] for i in range(40)]
    np.testing.assert_allclose(np.std(parts, axis=0) / np.sqrt(40), error, rtol=0.4)


def test_tiny_rows_do_not_overflow():
    X = np.array([[3, 1, 2], [0, 5, 1]])
    model = GaP([[1e-300, 1e-300], [1e10, 2e10], [3e10, 1e10]])
    at = ExactExpectation(check_counts(X)).e_step(model)
    np.testing.assert_allclose(at.statistics.c_sum.sum(axis=1), X.sum(axis=0), rtol=1e-12)
    scaled = GaP([[1e-3, 1e-3], [1e10, 2e10], [3e10, 1e10]])
    c = ExactExpectation(check_counts(X)).e_step(scaled).statistics.c_sum
    np.testing.assert_allclose(at.statistics.c_sum, c, rtol=1e-9)


def test_large_counts_are_refused_at_once_or_fitted():
    huge = np.array([[10**13, 3], [2, 5 * 10**12], [5, 5]])
    for work in (
        lambda: posterior_moments(huge, GaP(np.ones((2, 2)))),
        lambda: ExactExpectation(check_counts(huge)).e_step(GaP([[2.0, 1.0], [1.0, 2.0]])),
    ):
        with pytest.raises(TooCostlyError):
            work()
    model = GaP(np.random.default_rng(0).gamma(1.0, 1e4, (6, 2)))
    X = model.sample(20, random_state=1)  # a hundred thousand counts per sample
    assert np.isfinite(ExactExpectation(check_counts(X)).e_step(model).log_likelihood)


def test_a_refusal_leaves_the_engine_as_it_was():
    expect = ExactExpectation(check_counts(np.full((4, 3), 60)))
    small = GaP(np.ones((3, 2)) + np.eye(3)[:, :2])
    before = expect.e_step(small).log_likelihood
    with pytest.raises(TooCostlyError):
        expect.e_step(GaP(np.random.default_rng(0).gamma(1.0, 1.0, (3, 14))))
    assert expect.e_step(small).log_likelihood == before


def test_threads_give_the_same_bits_and_equal_samples_count_as_often_as_they_occur():
    model = GaP(np.random.default_rng(0).gamma(1.0, 20.0, (4, 3)), [0.5, 1.0, 2.0])
    X = model.sample(80, random_state=1)
    one, two = (ExactExpectation(check_counts(X), n_jobs=n).e_step(model) for n in (1, 2))
    assert one.log_likelihood == two.log_likelihood
    np.testing.assert_array_equal(one.statistics.ratio_sum, two.statistics.ratio_sum)
    twice = ExactExpectation(check_counts(np.repeat(X, 2, axis=0))).e_step(model)
    assert twice.log_likelihood == pytest.approx(2 * one.log_likelihood, rel=1e-13)
    np.testing.assert_allclose(twice.statistics.c_sum, 2 * one.statistics.c_sum, rtol=1e-13)


def test_shared_rules_change_nothing():
    """The E-step lets samples share larger rules than they need; moments use each its own."""
    model = GaP(np.random.default_rng(1).gamma(0.7, 30.0, (5, 3)), [0.3, 1.0, 2.0], [1.0, 2.0, 0.5])
    X = model.sample(60, random_state=2)
    expect = ExactExpectation(check_counts(X))
    assert len(expect._works(model)) < 10
    moments = posterior_moments(X, model)
    c_sum = np.zeros((5, 3))
    np.add.at(c_sum, moments.counts.indices, moments.c)
    statistics = expect.e_step(model).statistics
    np.testing.assert_allclose(statistics.c_sum, c_sum, rtol=1e-10)
    np.testing.assert_allclose(statistics.h_sum, moments.h.sum(axis=0), rtol=1e-10)


def test_refusals():
    model = GaP([[1.0, 1.0], [0.0, 0.0]])
    with pytest.raises(InvalidInputError, match="feature 1 has counts in row 0, but row 1 of W"):
        posterior_moments([[1, 2]], model)
    with pytest.raises(InvalidInputError, match="one sample is expected, but 2 came"):
        law_of_sizes([[1, 0], [1, 0]], model)
    wide = GaP(np.random.default_rng(0).gamma(1.0, 1.0, (3, 12)))
    for work in (
        lambda: posterior_moments([[300, 300, 300]], wide),
        lambda: law_of_sizes([300, 300, 300], wide),
        lambda: ExactExpectation(check_counts([[300, 300, 300]])).e_step(wide),
    ):
        with pytest.raises(TooCostlyError, match="use fewer components"):
            work()


def test_law_of_sizes_is_certain_when_supports_are_apart():
    model = GaP([[3.0, 0.0], [0.0, 2.0]])
    sizes, p = law_of_sizes([4, 5], model)
    assert sizes[p > 1e-12].tolist() == [[4, 5]]
