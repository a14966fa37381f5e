"""Perplexity and document completion: against enumeration and closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import naive
from gapmf import (
    GammaPoissonMF,
    GaP,
    document_completion,
    log_marginal_likelihood,
    perplexity,
    posterior_moments,
)
from gapmf.counts import check_counts
from gapmf.errors import InvalidInputError, TooCostlyError
from gapmf.likelihood import predictive


def test_the_law_of_totals():
    rng = np.random.default_rng(0)
    for K in (1, 3, 20):
        model = GaP(rng.gamma(0.5, 3.0, (4, K)), 10 ** rng.uniform(-2, 1, K), rng.gamma(2.0, 1.0))
        law = naive.one_feature_probabilities(60, model.column_norms, model.alpha, model.beta)
        X = check_counts(np.arange(61)[:, None] * np.array([[1, 0, 0, 0]]))
        np.testing.assert_allclose(np.exp(predictive.log_totals(X, model)), law, rtol=1e-10)


def test_the_law_of_totals_where_numbers_leave_the_range():
    """Equal rates: a negative binomial, from p(0) = 10⁻¹⁵⁰⁰ to far tails."""
    for norm, K, alpha in ((999.0, 100, 5.0), (1.0, 1, 1.0), (1e-3, 2, 0.5), (1e6, 3, 0.01)):
        model = GaP(np.full((1, K), norm), alpha=alpha)
        n = np.array([0, 1, 2, 50, 700, 5000, 20_000])
        law = predictive.log_totals(check_counts(n[:, None]), model)
        expected = stats.nbinom(K * alpha, 1.0 / (1.0 + norm)).logpmf(n)
        np.testing.assert_allclose(law, expected, rtol=1e-9, atol=1e-9)
    with pytest.raises(TooCostlyError, match="leave the sample out"):
        predictive.log_totals(check_counts([[700_000]]), model)


def test_a_long_sample_in_a_short_model_has_a_perplexity():
    for x, w in (([2000], [[1.0]]), ([15_000, 1], [[18.0], [1.0]]), ([100, 100], [[1e-3]] * 2)):
        found = perplexity([x], GaP(w))
        assert np.isfinite(found.log_p_token)
        assert found.perplexity >= 1.0 - 1e-9


def test_probabilities_of_sequences_sum_to_one():
    """All sequences of three tokens over two features, given that they are three."""
    model = GaP([[3.0, 0.5], [1.0, 2.0]], alpha=[0.4, 1.5])
    total = 0.0
    for sequence in itertools.product((0, 1), repeat=3):
        x = np.bincount(sequence, minlength=2)
        found = perplexity([x], model)
        total += np.exp(3 * found.log_p_token)
        assert found.perplexity == pytest.approx(np.exp(-found.log_p_token))
        assert found.std_error == 0.0
    assert total == pytest.approx(1.0, rel=1e-12)


def test_estimates_carry_their_error():
    rng = np.random.default_rng(0)
    model = GaP(rng.gamma(0.3, 9.0, (30, 6)), alpha=0.4)
    X = model.sample(30, random_state=0)
    found = perplexity(X, model, method="smc", random_state=0)
    assert found.std_error == pytest.approx(found.log_likelihood.std_error / X.sum())
    assert 1.0 < found.perplexity < 30.0
    uniform = perplexity(X, GaP(np.ones((30, 1))))
    assert uniform.perplexity == pytest.approx(30.0)
    assert found.perplexity < uniform.perplexity


def test_tokens_are_split_as_asked():
    X = check_counts(np.random.default_rng(0).poisson(5.0, (200, 30)))
    shown, rest = predictive.split_tokens(X, 0.3, np.random.default_rng(1))
    np.testing.assert_array_equal((shown + rest).toarray(), X.toarray())
    assert shown.sum() / X.sum() == pytest.approx(0.3, abs=0.01)  # four sigmas


def test_completion_by_hand():
    """log p(rest | shown) from the joint law of both, which is a GaP of twice the features."""
    model = GaP([[3.0, 0.5], [1.0, 2.0]], alpha=[0.4, 1.5], beta=[1.0, 2.0])
    X = model.sample(8, random_state=0)
    found = document_completion(X, 0.7, model, joint=True, random_state=5)
    shown, rest = predictive.split_tokens(check_counts(X), 0.3, np.random.default_rng(5))
    joint = GaP(np.vstack([0.3 * model.W, 0.7 * model.W]), model.alpha, model.beta)
    both = log_marginal_likelihood(np.hstack([shown.toarray(), rest.toarray()]), joint).total
    part = log_marginal_likelihood(shown, GaP(0.3 * model.W, model.alpha, model.beta)).total
    assert found.log_p == pytest.approx(both - part, rel=1e-9)
    assert found.std_error == 0.0
    assert found.n_tokens == rest.sum()


def test_a_split_of_the_users_own():
    """Given the two parts, the score is that of the split that gives them; the order is theirs."""
    model = GaP([[3.0, 0.5], [1.0, 2.0]], alpha=[0.4, 1.5], beta=[1.0, 2.0])
    X = model.sample(40, random_state=0)
    shown, rest = predictive.split_tokens(check_counts(X), 0.5, np.random.default_rng(5))
    found = document_completion(shown.toarray(), rest, model)
    share = rest.sum() / X.sum()  # what is held out is estimated by its part of the tokens
    smaller = GaP((1.0 - share) * model.W, model.alpha, model.beta)
    h = posterior_moments(shown, smaller).h
    rates = h @ model.W.T
    expected = (rest.toarray() * np.log(rates / rates.sum(axis=1, keepdims=True))).sum()
    assert found.log_p_token == pytest.approx(expected / rest.sum(), rel=1e-12)
    assert found.n_tokens == rest.sum()
    assert np.isnan(found.log_p)
    assert np.isnan(found.std_error)
    turned = document_completion(rest, shown, model)
    assert turned.n_tokens == shown.sum()
    assert turned.log_p_token != found.log_p_token
    made = document_completion(X, 0.5, model, random_state=5)
    assert made.n_tokens == found.n_tokens
    assert made.log_p_token == pytest.approx(found.log_p_token, rel=0.01)


def test_an_estimator_has_its_smoothing():
    X = np.array([[4, 1, 0], [0, 2, 0], [3, 1, 0], [5, 0, 0]])
    new = [[2, 1, 1]]
    est = GammaPoissonMF(2, algorithm="em-c", tol=1e-2, smoothing=0.1, random_state=0).fit(X)
    smoothed = est.model_.smoothed(est.feature_counts_, 0.1)
    for score in (perplexity, lambda X, model: document_completion(X, [[1, 1, 2]], model)):
        assert score(new, est).perplexity == score(new, smoothed).perplexity
        assert np.isfinite(score(new, est).perplexity)
    bare = est.set_params(smoothing=0.0)
    assert perplexity(new, bare).log_p_token == -np.inf
    assert perplexity(new, bare.model_).log_p_token == -np.inf
    with pytest.raises(InvalidInputError, match="feature 2 has counts in row 0"):
        document_completion([[2, 1, 0]], new, bare)
    with pytest.raises(InvalidInputError, match="GammaPoissonMF is not fitted yet: call fit first"):
        document_completion(X, 0.5, GammaPoissonMF(2))
    with pytest.raises(InvalidInputError, match=r"expected a GaP or a fitted .* received float"):
        document_completion(X, bare, 0.5)


@pytest.mark.parametrize("mean_field", [False, True])
def test_held_out_scores_are_those_of_the_posterior_mean(mean_field):
    """Poisson(odds × [W E[h | shown]]_f), literally, where one component makes the mean exact."""
    model = GaP([[3.0], [1.0], [0.5]], alpha=0.7, beta=2.0)
    shown, rest = np.array([[4, 0, 1], [0, 0, 0], [1, 2, 0]]), np.array([[1, 1, 0]] * 3)
    activations = predictive.estimate_activations(
        check_counts(shown), model, 0, None, mean_field=mean_field
    )
    found = predictive.held_out_scores(check_counts(rest), 0.2, model, activations)
    h = (0.7 + shown.sum(axis=1)) / (4.5 + 2.0)
    rates = 0.25 * h[:, None] * model.W[:, 0]
    np.testing.assert_allclose(found, stats.poisson(rates).logpmf(rest).sum(axis=1), rtol=1e-12)


def test_held_out_scores_of_chains_are_not_too_low():
    """Beside exact means: chains that end as soon as they agree are 4 nats too low here.

    Models that mix well end first, so their scores would be lower than those of others. The mean
    over three seeds of the chains has a standard error of about 0.35 nats: 1.2 nats is beyond three
    of them.
    """
    rng = np.random.default_rng(0)
    W = rng.dirichlet(np.full(8, 0.1), 2).T * 100.0 + 1e-3
    X = check_counts(GaP(W, alpha=0.3).sample(500, random_state=0))
    shown, rest = predictive.split_tokens(X, 0.8, rng)
    model = GaP(0.8 * W, alpha=0.3)
    rates = 0.25 * posterior_moments(shown, model).h @ model.W.T
    exact = stats.poisson(rates).logpmf(rest.toarray()).sum()
    found = [
        predictive.held_out_scores(
            rest, 0.2, model, predictive.estimate_activations(shown, model, seed, None)
        ).sum()
        for seed in range(3)
    ]
    assert np.mean(found) == pytest.approx(exact, abs=1.2)


def test_a_token_is_scored_by_its_rate():
    """One component: rates are those of W whatever was seen."""
    model = GaP([[1.0], [3.0]], alpha=2.0)
    X = [[5, 9], [0, 4]]
    found = document_completion(X, 0.5, model, random_state=0)
    _, rest = predictive.split_tokens(check_counts(X), 0.5, np.random.default_rng(0))
    expected = rest.sum(axis=0) @ np.log([0.25, 0.75]) / rest.sum()
    assert found.log_p_token == pytest.approx(expected)
    assert found.perplexity == pytest.approx(np.exp(-expected))


@pytest.mark.slow
def test_the_truth_completes_better_than_another_model():
    rng = np.random.default_rng(0)
    truth = GaP(rng.gamma(0.2, 9.0, (40, 5)), alpha=0.3)
    X = truth.sample(10, random_state=0)
    other = GaP(rng.gamma(0.2, 9.0, (40, 5)) + 0.01, alpha=0.3)
    good, poor = (
        document_completion(X, 0.5, m, joint=True, random_state=0) for m in (truth, other)
    )
    assert good.perplexity < poor.perplexity
    assert good.log_p > poor.log_p + 100


def test_refusals():
    for seed in range(8):  # whichever side the token falls on
        with pytest.raises(InvalidInputError, match="feature 1 has counts in row 0"):
            document_completion([[5, 1]], 0.5, GaP([[1.0, 2.0], [0.0, 0.0]]), random_state=seed)
    model = GaP([[1.0], [1.0]])
    with pytest.raises(InvalidInputError, match="no counts to score"):
        perplexity([[0, 0]], model)
    for held_out in (0.0, 1.0, 2.0):
        with pytest.raises(ValueError, match="held_out must"):
            document_completion([[1, 2]], held_out, model)
    with pytest.raises(InvalidInputError, match="same samples, but have 1 and 2"):
        document_completion([[1, 2]], [[1, 0], [0, 1]], model)
    for observed, held_out in (([[1, 2]], [[0, 0]]), ([[0, 0]], 0.5)):
        with pytest.raises(InvalidInputError, match="no counts to score"):
            document_completion(observed, held_out, model)
