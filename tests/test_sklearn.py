"""The estimator among scikit-learn's: its own checks, pipelines, searches, frames."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood, posterior_moments
from gapmf.datasets import paper_synthetic
from gapmf.errors import InvalidInputError


class OfWholeNumbers(GammaPoissonMF):
    """Tags that make scikit-learn's checks feed whole numbers."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


def known_not_to_hold(est):
    fractions = "feeds fractions whatever the tags say; test_weights_are_repetitions does the same"
    return {
        "check_sample_weight_equivalence_on_dense_data": fractions,
        "check_sample_weight_equivalence_on_sparse_data": fractions,
        "check_dtype_object": "wants the TypeError of float() for a dict in a cell; like every "
        "bad cell it gets a ValueError that names the cell",
    }


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:the learned α of components")
@parametrize_with_checks(
    [
        OfWholeNumbers(2, max_iter=3),
        OfWholeNumbers(2, max_iter=3, learn_alpha=True, schedule="saem"),
        OfWholeNumbers(2, max_iter=3, algorithm="exact"),
        OfWholeNumbers(2, max_iter=3, algorithm="vbem", learn_alpha=True),
        OfWholeNumbers(2, max_iter=3, algorithm="mjle"),
    ],
    expected_failed_checks=known_not_to_hold,
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


TEXTS = [
    "the cat sat on the mat with the other cat",
    "a dog and a cat are pets that sit",
    "dogs chase cats and cats chase mice",
    "stocks fell as the market feared rates",
    "the market rose while rates and bonds fell",
    "investors sold bonds and bought stocks",
] * 4
# What only one fold has.
TEXTS[3] += " inflation"
TEXTS[10] += " whiskers"


def text_search(smoothing):
    steps = make_pipeline(
        CountVectorizer(stop_words="english"), GammaPoissonMF(2, tol=1e-3, random_state=0)
    )
    grid = {"gammapoissonmf__n_components": [1, 2], "gammapoissonmf__smoothing": [smoothing]}
    return GridSearchCV(steps, grid, cv=3).fit(TEXTS)


def test_a_pipeline_of_text_in_a_search():
    found = text_search(0.05)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    assert found.best_params_["gammapoissonmf__n_components"] == 2
    names = found.best_estimator_[0].get_feature_names_out()
    topics = found.best_estimator_[-1].top_features(8, names=names)
    first = [{name for name, _ in topic} for topic in topics]
    assert sorted(("market" in topic, "cats" in topic) for topic in first) == [
        (False, True),
        (True, False),
    ]
    assert found.transform(TEXTS).shape == (len(TEXTS), 2)


def counts_with_rare_features():
    """Two kinds of samples, and two features that only one fold of five has."""
    rng = np.random.default_rng(0)
    rates = np.array([[6.0, 4.0, 1.0, 0.5, 0.2, 0.2], [0.2, 0.5, 1.0, 3.0, 6.0, 2.0]])
    X = rng.poisson(rates[rng.integers(2, size=40)])
    X = np.hstack([X, np.zeros((40, 2), dtype=X.dtype)])
    X[4, 6], X[5, 7] = 1, 3  # in the first fold only, of five or fewer
    return X


def test_cross_validation_of_raw_counts_works_on_first_use():
    """Features that are missing from a fold cost something, but no fold is impossible."""
    X = counts_with_rare_features()
    scores = cross_val_score(GammaPoissonMF(random_state=0), X, cv=3)
    assert np.isfinite(scores).all()
    assert scores[0] < scores[1:].min()
    search = GridSearchCV(GammaPoissonMF(tol=1e-3, random_state=0), {"n_components": [1, 2]})
    found = search.fit(sp.csr_array(X))
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    assert found.best_params_ == {"n_components": 2}


def test_without_smoothing_unknown_features_are_impossible():
    X = counts_with_rare_features()
    est = GammaPoissonMF(2, tol=1e-3, smoothing=0.0, random_state=0)
    search = GridSearchCV(est, {"n_components": [1, 2]})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        search.fit(X)
    about = [str(w.message) for w in said if "smoothing" in str(w.message)]
    assert len(about) == 2  # one per fit that meets such a feature
    assert "est.set_params(smoothing=1e-3)" in about[0]
    assert (search.cv_results_["split0_test_score"] == -np.inf).all()
    assert np.isfinite(search.cv_results_["split1_test_score"]).all()
    est.fit(X[8:])
    with pytest.warns(UserWarning, match="log-likelihood is −inf"):
        values = est.score_samples(X[:8])
    assert np.flatnonzero(values == -np.inf).tolist() == [4, 5]


@pytest.mark.parametrize("smoothing", [1e-3, 0.0])
def test_unknown_features_are_ignored_in_activations(smoothing):
    """They say nothing about them: one warning counts and names them, and nothing else changes."""
    X = counts_with_rare_features()
    names = ["ape", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"]
    frame = pd.DataFrame(X, columns=names)
    est = GammaPoissonMF(2, tol=1e-3, smoothing=smoothing, random_state=0).fit(frame[8:])
    without = frame[:8].assign(gnu=0, hen=0)
    share = f"{4 / X[:8].sum():.2%}"
    for ask in (est.transform, est.proportions, lambda X: est.posterior(X).mean):
        with pytest.warns(UserWarning, match="had no counts in the fit") as caught:
            found = ask(frame[:8])
        assert len(caught) == 1
        expected = f"ignored: 2 of 8, with {share} of all counts: 'hen' (3), 'gnu' (1)"
        assert str(caught[0].message).endswith(expected)
        np.testing.assert_array_equal(found, ask(without))
    plain = GammaPoissonMF(2, tol=1e-3, random_state=0).fit(X[8:])
    with pytest.warns(UserWarning, match=r"counts: 'feature 7' \(3\), 'feature 6' \(1\)$"):
        plain.transform(X[:8])


def test_a_search_finds_the_number_of_components():
    rng = np.random.default_rng(5)
    truth = GaP(rng.dirichlet(np.full(20, 0.2), 3).T * 60, alpha=0.5)
    X = truth.sample(150, random_state=0)
    est = GammaPoissonMF(alpha=0.5, tol=1e-3, smoothing=0.01, random_state=0)
    found = GridSearchCV(est, {"n_components": [1, 2, 3, 4]}, cv=2).fit(X)
    assert found.best_params_ == {"n_components": 3}


def test_smoothing_mixes_in_a_background():
    X = np.array([[5, 1, 0], [2, 4, 0], [0, 3, 0], [7, 2, 0]])
    est = GammaPoissonMF(2, alpha=[0.5, 2.0], algorithm="exact", random_state=0).fit(X)
    components = est.components_.copy()
    est.set_params(smoothing=0.0)
    with pytest.warns(UserWarning, match="set smoothing"):
        assert est.score([[1, 1, 1]]) == -np.inf
    est.set_params(smoothing=0.1)
    q = np.array([15, 11, 1]) / 27
    W = 0.9 * components.T + 0.1 * np.outer(q, components.sum(axis=1))
    by_hand = GaP(W, est.alpha_)
    assert est.score([[1, 1, 1]]) == pytest.approx(
        log_marginal_likelihood([[1, 1, 1]], by_hand).total, rel=1e-12
    )
    np.testing.assert_allclose(
        est.transform([[1, 1, 0]]), posterior_moments([[1, 1, 0]], by_hand).h, rtol=1e-9
    )
    np.testing.assert_array_equal(est.components_, components)
    for bad in (-0.1, 1.0, "some", np.nan):
        with pytest.raises(InvalidInputError, match="smoothing must be"):
            est.set_params(smoothing=bad).score(X)
        with pytest.raises(InvalidInputError, match="smoothing must be"):
            GammaPoissonMF(2, smoothing=bad).fit(X)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(2)
    truth = GaP(rng.gamma(0.3, 12.0, (15, 5)), alpha=0.4)
    X = truth.sample(20, random_state=3)
    return GammaPoissonMF(5, alpha=0.4, tol=1e-2, smoothing=0.01, random_state=0).fit(X), X


def test_rows_get_the_same_whatever_stands_beside_them(fitted):
    """With five components: neither the likelihood nor the means are exact."""
    est, X = fitted
    X = X[:10]
    assert est.log_likelihood(X).std_error > 0
    assert not est.posterior(X, ()).exact.all()
    H, values = est.transform(X), est.score_samples(X)
    order = np.random.default_rng(0).permutation(len(X))
    for rows in (order, order[:7], [3], [4, 4, 4]):
        np.testing.assert_array_equal(est.transform(X[rows]), H[rows])
        np.testing.assert_array_equal(est.score_samples(X[rows]), values[rows])


@pytest.mark.parametrize(
    "convert",
    [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, np.asfortranarray, np.float32,
     pd.DataFrame, pl.DataFrame, lambda X: X.tolist()],
)  # fmt: skip
def test_formats_get_the_same(convert, fitted):
    est, X = fitted
    other = convert(X)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X has feature names")  # of the frames
        few = convert(X[:3])
        np.testing.assert_array_equal(est.transform(few), est.transform(X[:3]))
        np.testing.assert_array_equal(est.score_samples(few), est.score_samples(X[:3]))
    again = clone(est).fit(other)
    np.testing.assert_array_equal(again.components_, est.components_)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_names(frame):
    X, _ = paper_synthetic(scale=10, random_state=0)
    names = ["alpha", "beta", "gamma", "delta"]
    table = frame(dict(zip(names, X.T, strict=True)))
    est = GammaPoissonMF(2, tol=1e-3, random_state=0).fit(table)
    assert est.feature_names_in_.tolist() == names
    assert est.get_feature_names_out().tolist() == ["gammapoissonmf0", "gammapoissonmf1"]
    assert {name for name, _ in est.top_features()[0]} <= set(names)
    kind = "pandas" if frame is pd.DataFrame else "polars"
    H = est.set_output(transform=kind).transform(table)
    assert isinstance(H, frame)
    assert list(H.columns) == ["gammapoissonmf0", "gammapoissonmf1"]
    other = frame(dict(zip(names[::-1], X.T[::-1], strict=True)))
    with pytest.raises(ValueError, match="feature names"):
        est.transform(other)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        est.transform(X)
    est.fit(X)
    assert not hasattr(est, "feature_names_in_")


def test_a_frame_keeps_its_rows():
    X, _ = paper_synthetic(scale=10, random_state=0)
    table = pd.DataFrame(X, columns=list("abcd"), index=[f"row {n}" for n in range(len(X))])
    est = GammaPoissonMF(2, tol=1e-3, random_state=0).set_output(transform="pandas")
    assert est.fit_transform(table).index.tolist() == table.index.tolist()


@pytest.mark.parametrize("algorithm", ["mcem-c", "exact"])
def test_weights_are_repetitions(algorithm):
    X, _ = paper_synthetic(scale=10, random_state=0)
    X = X[:30]
    weights = np.random.default_rng(0).integers(0, 4, 30)
    est = GammaPoissonMF(2, algorithm=algorithm, random_state=0)
    weighted = clone(est).fit(X, sample_weight=weights)
    repeated = clone(est).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.components_, repeated.components_, rtol=1e-6)
    np.testing.assert_array_equal(weighted.feature_counts_, repeated.feature_counts_)
    once = clone(est).fit(X)
    assert not np.allclose(once.components_, weighted.components_, rtol=1e-3)
    if algorithm == "exact":
        halved = clone(est).fit(X, sample_weight=weights / 2)
        np.testing.assert_allclose(halved.components_, weighted.components_, rtol=1e-4)
        assert halved.log_likelihood_ == pytest.approx(weighted.log_likelihood_ / 2)


def test_weights_are_checked():
    X = np.ones((3, 2), dtype=int)
    for bad, message in (
        ([1, 2], r"must have shape \(3,\)"),
        ([1, -1, 1], r"sample_weight\[1\] is -1"),
        ([1, np.nan, 1], r"sample_weight\[1\] is nan"),
        ([0, 0, 0], "zero for every sample"),
        ([1, 0.5, 1], r"sample_weight\[1\] is 0.5, but algorithm='mcem-c'"),
        ([1e9, 1, 1], "divide the weights by a common factor"),
        ("much", "sample_weight"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            GammaPoissonMF(1).fit(X, sample_weight=bad)


def test_a_warm_start_goes_on():
    X, _ = paper_synthetic(scale=10, random_state=0)
    est = GammaPoissonMF(2, tol=1e-3, random_state=0, warm_start=True, learn_alpha=True).fit(X)
    first, alpha = est.components_, est.alpha_
    again = est.fit(X)
    np.testing.assert_allclose(again.components_, first, rtol=0.2, atol=0.1)
    np.testing.assert_allclose(again.alpha_, alpha, rtol=0.2)
    with pytest.raises(InvalidInputError, match="with warm_start the fit starts from the 2"):
        est.set_params(n_components=3).fit(X)
    with pytest.raises(InvalidInputError, match="× 4 features of the last one"):
        est.set_params(n_components=2).fit(X[:, :3])


def test_expected_counts_draws_and_top_features(fitted):
    est, X = fitted
    H = est.transform(X)
    np.testing.assert_allclose(est.inverse_transform(H), H @ est.components_)
    assert abs(est.inverse_transform(H).sum() / X.sum() - 1) < 0.05
    for bad in (H[:, :2], H[0], "text"):
        with pytest.raises(InvalidInputError, match="X"):
            est.inverse_transform(bad)
    drawn = est.sample(400, random_state=0)
    assert drawn.shape == (400, 15)
    np.testing.assert_array_equal(drawn, est.sample(400, random_state=0))
    assert abs(drawn.mean() / X.mean() - 1) < 0.3
    top = est.top_features(3, by="weight")
    for component, features in zip(est.components_, top, strict=True):
        order = np.argsort(-component)[:3]
        assert [f for f, _ in features] == order.tolist()
        np.testing.assert_allclose([p for _, p in features], component[order] / component.sum())
    with pytest.raises(InvalidInputError, match="names must have 15 entries"):
        est.top_features(names=["a"])


def test_pyldavis_takes_it():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, of pandas and joblib
        import pyLDAvis

        vectorizer = CountVectorizer(stop_words="english")
        X = vectorizer.fit_transform(TEXTS)
        est = GammaPoissonMF(3, tol=1e-3, random_state=0).fit(X)
        H, W = est.transform(X), est.components_
        data = pyLDAvis.prepare(
            W / W.sum(axis=1, keepdims=True),
            H * W.sum(axis=1) / (H * W.sum(axis=1)).sum(axis=1, keepdims=True),
            np.asarray(X.sum(axis=1)).ravel(),
            vectorizer.get_feature_names_out(),
            np.asarray(X.sum(axis=0)).ravel(),
            n_jobs=1,
        )
    assert len(data.topic_coordinates) == 3


def test_progress_is_shown(capfd):
    X, _ = paper_synthetic(scale=10, random_state=0)
    GammaPoissonMF(2, random_state=0, verbose=True, score_every=5, tol=1e-3).fit(X)
    out, err = capfd.readouterr()
    assert out == ""
    for part in ("mcem-c", "rank 2 of 2", "log p -"):
        assert part in err
    GammaPoissonMF(2, random_state=0, tol=1e-3).fit(X)
    assert capfd.readouterr() == ("", "")
    with pytest.raises(InvalidInputError, match="verbose must be a whole number"):
        GammaPoissonMF(2, verbose="much").fit(X)
