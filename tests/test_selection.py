"""Ranks compared: by held-out counts, held-out samples and BIC. Seeds are fixed."""

import numpy as np
import pytest

from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood, select_rank, selection
from gapmf.counts import check_counts
from gapmf.datasets import paper_synthetic
from gapmf.errors import InvalidInputError
from gapmf.estimator import fit_copy
from gapmf.ranks import criteria

EXACT = GammaPoissonMF(algorithm="exact", random_state=0)
ROUGH = GammaPoissonMF(tol=1e-3, random_state=0)


@pytest.fixture(scope="module")
def data():
    X, truth = paper_synthetic(scale=30, n_samples=200, random_state=0)
    return X, truth.sample(100, random_state=1)


def test_held_out_counts_find_the_papers_rank(data):
    X, _ = data
    found = select_rank(X, [3, 1, 2, 2], estimator=ROUGH)
    assert found.n_components == 2
    assert found.criterion == "held-out counts"
    assert found.ranks.tolist() == [1, 2, 3]
    assert [est.n_components for est in found.estimators] == [1, 2, 3]
    assert not found.interrupted
    best = int(found.score.argmax())
    assert found.error[best] == 0.0
    assert (np.delete(found.error, best) > 0).all()
    assert found.score[1] > found.score[0] + 4 * found.error[0]
    assert repr(found) == "RankSelection(n_components=2, ranks=[1, 2, 3])"
    lines = str(found).splitlines()
    assert [line.endswith("<- chosen") for line in lines] == [False, False, True, *[False] * 3]
    assert "a random fifth of all counts, given the others, in nats" in lines[-2]
    assert "the smallest rank whose log-likelihood is within two standard errors" in lines[-1]
    assert ROUGH.n_components == 10  # untouched


def test_the_estimator_is_a_fit_to_all_counts(data):
    """Its components have the means of all counts: Σ_k (α_k/β_k) w_fk = x̄_f, as after any fit."""
    X, _ = data
    found = select_rank(X, [1, 2], estimator=ROUGH)
    est = found.estimator
    np.testing.assert_allclose(est.model_.expected_counts(), X.mean(axis=0), rtol=1e-9)
    np.testing.assert_array_equal(est.feature_counts_, X.sum(axis=0))
    assert est.n_components == found.n_components == 2
    assert est not in found.estimators
    # The compared fits are on the same scale, up to the noise of the split: 2 % of 10,000 counts.
    for compared in found.estimators:
        assert compared.model_.expected_counts().sum() == pytest.approx(X.sum(1).mean(), rel=0.02)
        np.testing.assert_array_equal(compared.feature_counts_, X.sum(axis=0))


def test_counts_that_all_were_held_out_are_fitted_in_the_end():
    """A feature with one count: in one of two splits or so, the compared fits do not know it."""
    X = np.random.default_rng(0).poisson(4.0, (30, 40))
    X[:, 20:] = 0
    X[np.arange(20), 20 + np.arange(20)] = 1
    found = select_rank(X, [1], estimator=ROUGH)
    np.testing.assert_allclose(found.estimator.model_.expected_counts(), X.mean(axis=0))


def test_held_out_samples(data):
    X, X_test = data
    found = select_rank(X, [1, 2, 3], X_test=X_test, estimator=ROUGH)
    assert found.n_components == 2
    assert found.criterion == "held-out samples"
    for est, score in zip(found.estimators, found.score, strict=True):
        assert log_marginal_likelihood(X_test, est.model_).total == pytest.approx(score, rel=1e-9)
    assert found.estimator is found.estimators[1]
    assert "score: log-likelihood of the held-out samples, in nats" in str(found)


def test_the_training_data_are_not_scored_with_test_data(data, monkeypatch):
    X, X_test = data
    scored = []

    def likelihood(counts, *given, **options):
        scored.append(counts.shape[0])
        return comparison(counts, *given, **options)

    comparison = criteria.comparison_log_likelihood
    monkeypatch.setattr(criteria, "comparison_log_likelihood", likelihood)
    select_rank(X, [1, 2], X_test=X_test, estimator=ROUGH)
    assert scored == [100, 100]
    select_rank(X, [1, 2], criterion="bic", estimator=ROUGH)
    assert scored[2:] == [200, 200]


def test_bic(data):
    X, _ = data
    found = select_rank(X, [1, 2, 3], criterion="bic", estimator=ROUGH)
    assert found.n_components == 2
    assert found.criterion == "BIC"
    for est, score in zip(found.estimators, found.score, strict=True):
        value = log_marginal_likelihood(X, est.model_).total
        assert value - est.n_components * 2 * np.log(200) == pytest.approx(score, rel=1e-9)
    assert found.estimator is found.estimators[1]
    assert "less ½ log N for each parameter, in nats" in str(found)
    assert str(found).endswith("the rank with the highest score")


@pytest.mark.slow
def test_exact_fits_find_the_papers_rank():
    X, truth = paper_synthetic(scale=10, n_samples=150, random_state=0)
    X_test = truth.sample(100, random_state=1)
    for options in ({}, {"X_test": X_test}):  # BIC: below, by the same exact likelihoods
        assert select_rank(X, [1, 2, 3], estimator=EXACT, **options).n_components == 2


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"criterion": "bic"}])
def test_pruning_down(options):
    X, _ = paper_synthetic(scale=10, n_samples=150, random_state=0)
    found = select_rank(X, [1, 2, 3], how="prune", estimator=EXACT, **options)
    assert found.n_components == 2
    np.testing.assert_array_equal(found.ranks, [2, 3])
    assert EXACT.n_components == 10  # untouched


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"criterion": "bic"}])
def test_ctrl_c_in_the_third_fit_keeps_the_others(options, data, monkeypatch):
    X, _ = data
    whole = select_rank(X, [1, 2], estimator=ROUGH, **options)
    made = []

    def interrupt_the_third(estimator, counts, **changes):
        made.append(changes["n_components"])
        if len(made) == 3:
            raise KeyboardInterrupt
        return fit_copy(estimator, counts, **changes)

    monkeypatch.setattr(selection, "fit_copy", interrupt_the_third)
    with pytest.warns(UserWarning, match="stopped: 2 of 4 numbers of components are compared"):
        found = select_rank(X, [1, 2, 3, 4], estimator=ROUGH, **options)
    assert made == [1, 2, 3]
    assert found.interrupted
    assert found.ranks.tolist() == [1, 2]
    np.testing.assert_array_equal(found.score, whole.score)
    np.testing.assert_array_equal(found.error, whole.error)
    assert found.n_components == 2
    assert found.estimator.components_.shape == (2, 4)


def test_ctrl_c_within_a_fit(data):
    """The fit itself keeps its model so far; the comparison must not take it for a finished one."""
    X, _ = data
    iterations = []

    def interrupt(record):
        iterations.append(record.model.n_components)
        if record.model.n_components == 2 and iterations.count(2) == 5:
            raise KeyboardInterrupt

    est = GammaPoissonMF(tol=1e-3, random_state=0, callbacks=[interrupt])
    with pytest.warns(UserWarning, match="stopped: 1 of 3 numbers") as said:
        found = select_rank(X, [1, 2, 3], estimator=est)
    assert not any("the model so far" in str(w.message) for w in said)
    assert found.interrupted
    assert found.ranks.tolist() == [1]


def test_ctrl_c_in_the_first_fit_leaves_nothing(data, monkeypatch):
    def interrupt(*given, **changes):
        raise KeyboardInterrupt

    monkeypatch.setattr(selection, "fit_copy", interrupt)
    with pytest.raises(KeyboardInterrupt):
        select_rank(data[0], [1, 2], estimator=ROUGH)


def test_ctrl_c_in_the_score_drops_that_rank(data, monkeypatch):
    X, _ = data
    score, scored = criteria.HeldOutCounts.score, []

    def interrupt_the_second(judge, model, **options):
        scored.append(model.n_components)
        if len(scored) == 2:
            raise KeyboardInterrupt
        return score(judge, model, **options)

    monkeypatch.setattr(criteria.HeldOutCounts, "score", interrupt_the_second)
    with pytest.warns(UserWarning, match="stopped: 1 of 2 numbers"):
        found = select_rank(X, [1, 2], estimator=ROUGH)
    assert found.ranks.tolist() == [1]
    assert found.interrupted


def test_ctrl_c_in_the_last_fit_keeps_the_comparison(data, monkeypatch):
    """All ranks are compared, and the chosen fit is being continued with all counts."""
    X, _ = data
    whole = select_rank(X, [1, 2], estimator=ROUGH)

    def interrupt(*given, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr(selection, "fit_from", interrupt)
    with pytest.warns(UserWarning, match="stopped: all are compared, but the chosen model"):
        found = select_rank(X, [1, 2], estimator=ROUGH)
    assert found.interrupted
    np.testing.assert_array_equal(found.score, whole.score)
    assert found.estimator is found.estimators[1]


def test_refusals():
    X = np.array([[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="at least one rank"):
        select_rank(X, [])
    with pytest.raises(ValueError, match="n_components must be a whole number, 1 or more"):
        select_rank(X, [0])
    with pytest.raises(ValueError, match=r"how must be one of .*, but is 'guess'"):
        select_rank(X, [1], how="guess")
    with pytest.raises(ValueError, match=r"criterion must be one of .*, but is 'aic'"):
        select_rank(X, [1], criterion="aic")
    with pytest.raises(ValueError, match="expecting 2 features"):
        select_rank(X, [1], X_test=[[1, 2, 3]])


@pytest.mark.slow
def test_held_out_entries_find_the_rank():
    """Two components, 40 % unobserved, exposures over a factor of ten."""
    rng = np.random.default_rng(3)
    W = 20.0 * rng.dirichlet(np.full(8, 0.3), 2)
    s = 10 ** rng.uniform(-0.5, 0.5, 80)
    X = rng.poisson(s[:, None] * (rng.gamma(0.5, 2.0, (80, 2)) @ W))
    M = rng.random(X.shape) < 0.6
    given = {"exposure": s, "observed": M, "holdout": "entries"}
    found = select_rank(X, [1, 2], estimator=EXACT, **given)
    assert (found.n_components, found.criterion) == (2, "held-out entries")
    assert "entries" in str(found)
    # the chosen fit is one to all entries
    assert found.estimator.n_unobserved_ == (~M).sum()
    assert found.estimators[1].n_unobserved_ > (~M).sum()
    # what is unobserved plays no part
    again = select_rank(np.where(M, X, 99), [1], estimator=EXACT, **given)
    assert again.score[0] == found.score[0]


def test_held_out_entries_are_scored_by_the_likelihood():
    rng = np.random.default_rng(0)
    X = rng.poisson(3.0, (6, 4))
    judge = criteria.HeldOutEntries(check_counts(X), None, seed=1, n_jobs=None)
    model = GaP(rng.gamma(1.0, 2.0, (4, 2)))
    hidden = ~judge.observation.mask(np.arange(6), 4)
    assert hidden.any()
    smoothed = model.smoothed(judge.fitted.sum(axis=0), criteria.SMOOTHING)
    both = log_marginal_likelihood(X, smoothed).per_sample
    shown = log_marginal_likelihood(X, smoothed, observed=~hidden).per_sample
    np.testing.assert_allclose(judge.score(model).per_sample, both - shown, atol=1e-10)
    assert not (judge.fitted.toarray()[hidden]).any()


def test_holdouts_that_do_not_go_together(data):
    X, X_test = data
    with pytest.raises(InvalidInputError, match="need holdout='entries'"):
        select_rank(X, [1, 2], exposure="total")
    for wrong in ({"X_test": X_test}, {"criterion": "bic"}, {"how": "prune"}):
        with pytest.raises(InvalidInputError, match="holdout='entries' goes with"):
            select_rank(X, [1, 2], holdout="entries", **wrong)
    with pytest.raises(InvalidInputError, match="one sample"):
        select_rank(X[:1], [1, 2], holdout="entries")
