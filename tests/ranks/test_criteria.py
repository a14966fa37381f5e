"""What decides about ranks: held-out counts, held-out samples, BIC. Seeds are fixed."""

import numpy as np
import pytest
from scipy import stats

from gapmf import GaP, log_marginal_likelihood, posterior_moments
from gapmf.counts import check_counts
from gapmf.ranks import criteria
from gapmf.ranks.criteria import (
    SHARE,
    SMOOTHING,
    Bic,
    HeldOutCounts,
    HeldOutSamples,
    Scores,
    error_over_samples,
    n_samples_to_decide,
)
from gapmf.validation import check_random_state


def a_data_set(N=300, seed=0, alpha=0.5):
    model = GaP([[9.0, 0.5], [4.0, 1.0], [0.0, 8.0], [1.0, 6.0]], alpha=[alpha, 1.0])
    return check_counts(model.sample(N, random_state=seed)), model


def thinned(model):
    return GaP(model.W * (1.0 - SHARE), model.alpha, model.beta)


def test_thinning_is_a_binomial_split():
    """The parts add up to X, and each token is held out with the same probability.

    χ² over the sizes of counts, at the 0.1 % level.
    """
    X, _ = a_data_set()
    judge = HeldOutCounts(X, 5, None)
    fitted, rest = judge.fitted.toarray(), judge._rest.toarray()
    np.testing.assert_array_equal(fitted + rest, X.toarray())
    assert (fitted >= 0).all()
    assert judge.scale == 1.0 - SHARE
    counts, held_out = X.toarray().ravel(), rest.ravel()
    for size in (1, 2, 3):
        seen = np.bincount(held_out[counts == size], minlength=size + 1)
        law = stats.binom(size, SHARE).pmf(np.arange(size + 1))
        assert stats.chisquare(seen, law * seen.sum()).pvalue > 1e-3


def test_the_parts_are_independent_given_the_rates():
    """Poisson counts of one rate, from the seed that the split is derived from, too.

    Correlations of 60,000 pairs: beyond four standard errors in 0.006 % of seeds.
    """
    X = check_counts(np.random.default_rng(0).poisson(3.0, (2000, 30)))
    seed = int(check_random_state(0).integers(2**63))  # as an estimator with random_state=0 does
    judge = HeldOutCounts(X, seed, None)
    pairs = judge.fitted.toarray().ravel(), judge._rest.toarray().ravel()
    assert abs(np.corrcoef(pairs)[0, 1]) < 4 / np.sqrt(60_000)


def test_a_seed_gives_one_split():
    X, _ = a_data_set()
    one, again, other = (HeldOutCounts(X, seed, None).fitted for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.toarray(), again.toarray())
    assert (one != other).nnz > 0


def test_of_many_samples_a_part_decides():
    X, _ = a_data_set()
    X = X[np.asarray(X.sum(axis=1)) > 0]
    judge = HeldOutCounts(X, 5, None, n_samples=50)
    both = (judge.fitted + judge._rest).toarray()
    known = {row.tobytes() for row in X.toarray().astype(both.dtype)}
    assert both.shape == (50, 4)
    assert all(row.tobytes() in known for row in both)
    assert HeldOutCounts(X, 5, None).fitted.shape == X.shape
    assert HeldOutCounts(X, 5, None, n_samples=10_000).fitted.shape == X.shape


def test_how_many_samples_decide(monkeypatch):
    """At least a minimum, and as many as have 20 counts per parameter, if there are as many."""
    X = check_counts(np.full((1000, 4), 5))
    assert n_samples_to_decide(X, 50) == 1000
    monkeypatch.setattr(criteria, "MIN_SAMPLES", 30)
    assert n_samples_to_decide(X, 1) == 30
    assert n_samples_to_decide(X, 50) == 200  # 20 counts each, 4 × 50 parameters
    assert n_samples_to_decide(X, 500) == 1000
    assert n_samples_to_decide(0 * X, 2) == 1000


def test_held_out_counts_are_predicted_by_poisson_laws():
    """Literally: rates odds × W E[h | the other counts], with exact means, and smoothing.

    Chains give the means to 5 %, which moves the total by less than 0.2 % of it, and the difference
    between two models by a small part of its error.
    """
    X, truth = a_data_set()
    judge = HeldOutCounts(X, 5, None)
    other = GaP(np.full((4, 1), 3.0))
    totals = np.asarray(judge.fitted.sum(axis=0), dtype=float)
    found, literal = [], []
    for model in (thinned(truth), other):
        smoothed = model.smoothed(totals, SMOOTHING)
        h = posterior_moments(judge.fitted, smoothed).h
        law = stats.poisson(SHARE / (1.0 - SHARE) * h @ smoothed.W.T)
        literal.append(law.logpmf(judge._rest.toarray()).sum(axis=1))
        found.append(judge.score(model))
        assert found[-1].total == pytest.approx(literal[-1].sum(), rel=2e-3)
        assert found[-1].per_sample.shape == (300,)
    np.testing.assert_allclose(found[1].per_sample, literal[1], rtol=1e-9)  # one component: exact
    error = judge.error(*found)
    assert found[0].total - found[1].total == pytest.approx(
        (literal[0] - literal[1]).sum(), abs=0.1 * error
    )
    assert found[0].total - found[1].total > 4 * error


def test_a_feature_whose_counts_are_all_held_out_is_possible():
    X = check_counts(np.array([[5, 0], [4, 0], [6, 0], [3, 1]] * 20 + [[2, 1]]))
    judge = HeldOutCounts(X, 5, None)
    without = GaP([[3.0], [0.0]])
    assert judge._rest[:, [1]].sum() > 0
    assert np.isfinite(judge.score(without).per_sample).all()


def test_errors_over_samples_are_those_of_differences():
    """√N times the deviation of differences: what models have in common cancels."""
    rng = np.random.default_rng(0)
    common, more, less = rng.normal(size=(3, 50))
    more, less = more + 100 * common, less + 100 * common
    expected = np.sqrt(((more - less - (more - less).mean()) ** 2).sum() / 49 * 50)
    assert error_over_samples(Scores(more, 9.0), Scores(less, 9.0)) == pytest.approx(expected)


def test_held_out_samples_have_their_likelihood():
    X, truth = a_data_set(N=50)
    X_test, _ = a_data_set(N=40, seed=1)
    judge = HeldOutSamples(X, X_test, 0, None)
    found = judge.score(truth)
    expected = log_marginal_likelihood(X_test, truth)
    np.testing.assert_allclose(found.per_sample, expected.per_sample)
    assert found.noise == 0.0
    assert judge.fitted is X
    assert judge.scale == 1.0
    assert judge.price is None


def test_bic_charges_half_a_logarithm_per_parameter():
    X, truth = a_data_set(N=50)
    judge = Bic(X, 7, 0, None)
    assert judge.price == pytest.approx(3.5 * np.log(50))
    found = judge.score(truth)
    assert found.total == pytest.approx(log_marginal_likelihood(X, truth).total)
    assert judge.error(Scores(found.per_sample, 3.0), Scores(found.per_sample, 4.0)) == 5.0
