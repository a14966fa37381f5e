"""Recommendations beside a literal version: ties, seen items, empty samples, padding."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import naive
from gapmf import GammaPoissonMF, GaP
from gapmf.analysis import recommend as module
from gapmf.analysis.recommend import recommend
from gapmf.errors import InvalidInputError

NAMES = [f"song {f}" for f in range(30)]


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    counts = GaP(20 * rng.dirichlet(np.full(30, 0.2), 3).T, alpha=0.4).sample(80, random_state=1)
    counts[:, 7] = 0  # no component has it
    counts[[3, 11]] = 0  # users without any counts
    return counts


@pytest.fixture(scope="module")
def est(X):
    frame = pd.DataFrame(X, columns=NAMES)
    return GammaPoissonMF(3, tol=1e-3, random_state=0).fit(frame)


def same_as_naive(H, W, n, seen, items, expected):
    for row in range(len(H)):
        there = np.zeros(len(W), bool) if seen is None else seen[row] > 0
        wanted, values = naive.recommend(H[row], W, n, there)
        assert items[row].tolist() == wanted + [-1] * (n - len(wanted))
        np.testing.assert_array_equal(expected[row][: len(wanted)], values)
        assert np.isnan(expected[row][len(wanted) :]).all()


@pytest.mark.parametrize("n", [1, 10, 29, 40])
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_the_estimator_beside_a_literal_version(est, X, n, exclude_seen):
    frame = pd.DataFrame(X, columns=NAMES)
    found = est.recommend(frame, n, exclude_seen=exclude_seen)
    H = est.transform(frame)
    H[X.sum(axis=1) == 0] = est.model_.alpha / est.model_.beta
    assert found.items.shape == found.expected.shape == (80, n)
    same_as_naive(H, est.model_.W, n, X if exclude_seen else None, found.items, found.expected)
    assert not (found.items == 7).any()
    if exclude_seen:
        there = np.where(found.items >= 0, found.items, 7)
        assert np.take_along_axis(X, there, axis=1).sum() == 0


def test_users_without_counts_have_the_expected_counts_of_the_model(est):
    """The prior mean, not E[h | nothing was counted], which is smaller."""
    nobody = pd.DataFrame(np.zeros((1, 30), int), columns=NAMES)
    found = est.recommend(nobody, 5)
    popular = est.model_.expected_counts()
    np.testing.assert_allclose(found.expected[0], np.sort(popular)[::-1][:5], rtol=1e-12)
    assert not np.allclose(found.expected[0], (est.transform(nobody) @ est.components_)[0, :5])
    unknown = nobody.copy()
    unknown["song 7"] = 9  # an item that the fit has not seen says nothing either
    with pytest.warns(UserWarning, match="song 7"):
        again = est.recommend(unknown, 5)
    np.testing.assert_array_equal(again.items, found.items)
    np.testing.assert_array_equal(again.expected, found.expected)


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 1, 3), (7, 90, 1), (1, 90, 4), (50, 90, 4)])
@pytest.mark.parametrize("block", [1, 300, 1 << 22])
def test_ties_and_blocks(shape, block, monkeypatch):
    """Equal items come by number, however many there are, and blocks change no bit."""
    monkeypatch.setattr(module, "_BLOCK", block)
    N, F, K = shape
    rng = np.random.default_rng(F + K)
    kinds = rng.gamma(0.5, 1.0, (3, K)) * np.array([[0.0], [1e-5], [1e5]])
    W = kinds[rng.integers(3, size=F)]  # three values among all the items
    H = rng.gamma(0.5, 1.0, (N, K))
    seen = rng.poisson(0.3, (N, F))
    for n in (1, 5, F, F + 2):
        items, expected = recommend(H, W, n, sp.csr_array(seen), n_jobs=2)
        same_as_naive(H, W, n, seen, items, expected)


def test_exposures_scale_expected_counts(X):
    hours = np.linspace(0.5, 3.0, 80)
    est = GammaPoissonMF(3, tol=1e-3, random_state=0).fit(X, exposure=hours)
    found = est.recommend(X, 4, exposure=hours)
    H = est.transform(X, exposure=hours)
    H[X.sum(axis=1) == 0] = est.model_.alpha / est.model_.beta
    same_as_naive(hours[:, None] * H, est.model_.W, 4, X, found.items, found.expected)
    with pytest.raises(InvalidInputError, match="these samples need theirs"):
        est.recommend(X)


def test_unobserved_entries_are_no_zeros(X):
    """What a user was not shown says nothing about the user, and can be recommended."""
    shown = np.random.default_rng(5).random(X.shape) < 0.6
    shown[20] = False
    est = GammaPoissonMF(3, tol=1e-3, random_state=0).fit(X, observed=shown)
    found = est.recommend(X, 4, observed=shown)
    H = est.transform(X, observed=shown)
    H[(X * shown).sum(axis=1) == 0] = est.model_.alpha / est.model_.beta
    same_as_naive(H, est.model_.W, 4, X * shown, found.items, found.expected)
    assert (est.recommend(X, 4).items != found.items).any()
    most = np.argsort(-est.model_.expected_counts(), kind="stable")[:4]
    np.testing.assert_array_equal(found.items[20], most)


def test_a_user_gets_the_same_alone(est, X):
    frame = pd.DataFrame(X, columns=NAMES)
    every = est.recommend(frame)
    alone = est.recommend(frame.iloc[[20]])
    np.testing.assert_array_equal(alone.items[0], every.items[20])
    np.testing.assert_array_equal(alone.expected[0], every.expected[20])


def test_names_and_the_printed_form(est, X):
    frame = pd.DataFrame(X, columns=NAMES)
    found = est.recommend(frame, 2)
    assert repr(found) == "Recommendations(80 samples × 2 items)"
    said = str(found).splitlines()
    (first, value), (second, _) = found.to_lists()[0]
    assert said[1].split("  ")[-1].startswith(f"{first} {value:.3g}, {second}")
    assert first == NAMES[found.items[0, 0]]
    assert said[-1].endswith("70 more")
    everything = frame.iloc[:1] * 0 + est.model_.W.any(axis=1).astype(int)
    assert est.recommend(everything, 2).to_lists() == [[]]
    assert str(est.recommend(everything, 2)).endswith("none left")


def test_bad_input(est, X):
    frame = pd.DataFrame(X, columns=NAMES)
    with pytest.raises(InvalidInputError, match="n must be a whole number, 1 or more, but is 0"):
        est.recommend(frame, 0)
    with pytest.raises(InvalidInputError, match="X has 29 features"):
        est.recommend(X[:, 1:])
    with pytest.raises(InvalidInputError, match="song"):
        est.recommend(frame.rename(columns={"song 3": "other"}))
    with pytest.raises(InvalidInputError, match="Negative"):
        est.recommend(-X)
