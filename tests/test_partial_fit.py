"""`partial_fit`: blocks of samples that are seen once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from gapmf import GammaPoissonMF, GaP
from gapmf.em.stream import PASSES, SETTLED, SWEEPS, _typical_sizes
from gapmf.engines.base import State
from gapmf.engines.local import LocalEngine
from gapmf.errors import InvalidInputError
from gapmf.likelihood.bound import mean_field_bound
from gapmf.likelihood.moments import posterior_moments


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    truth = GaP(40 * rng.dirichlet(np.full(30, 0.1), 3).T, alpha=0.3)
    return truth.sample(300, random_state=0)


def blocks(X, size=20, passes=1, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(passes):
        rows = rng.permutation(X.shape[0])
        yield from (X[rows[i : i + size]] for i in range(0, rows.size, size))


@pytest.fixture(scope="module")
def streamed(data):
    return GammaPoissonMF(3, random_state=0).partial_fit(blocks(data, passes=20))


@pytest.mark.slow
def test_passes_over_shuffled_blocks_come_near_a_fit(data, streamed):
    """Within 0.01 nats per token."""
    whole = GammaPoissonMF(3, random_state=0, tol=1e-4).fit(data)
    gap = (whole.score(data) - streamed.score(data)) * data.shape[0] / data.sum()
    assert gap < 0.01
    assert streamed.transform(data[:5]).shape == (5, 3)
    np.testing.assert_allclose(streamed.feature_counts_, 20 * np.asarray(data.sum(axis=0)))
    means = np.asarray(data.mean(axis=0))
    np.testing.assert_allclose(streamed.components_.sum(axis=0), means, rtol=1e-9)


@pytest.mark.slow
def test_calls_and_kinds_of_blocks_and_threads_do_not_matter(data, streamed):
    kinds = [np.asarray, sp.csr_array, sp.csc_array, lambda X: pd.DataFrame(X).to_numpy().tolist()]
    dense = np.asarray(data.todense()) if sp.issparse(data) else data
    est = GammaPoissonMF(3, random_state=0, n_jobs=2)
    for i, block in enumerate(blocks(dense, passes=20)):
        est.partial_fit(kinds[i % 4](block))
    np.testing.assert_array_equal(est.components_, streamed.components_)
    assert (est.n_iter_, streamed.n_iter_) == (1, 300)
    assert est.history_["norms"].shape == (1, 3)


def test_a_saved_stream_goes_on(data, tmp_path):
    est = GammaPoissonMF(3, random_state=0, learn_alpha=True)
    est.partial_fit(blocks(data, passes=2))
    est.save(tmp_path / "stream.gapmf")
    again = GammaPoissonMF.load(tmp_path / "stream.gapmf")
    for both in (est, again):
        both.partial_fit(data[:50])
    np.testing.assert_array_equal(again.components_, est.components_)
    np.testing.assert_array_equal(again.alpha_, est.alpha_)
    assert not np.array_equal(est.alpha_, np.ones(3))


def test_it_goes_on_from_a_fit_and_fit_begins_anew(data):
    est = GammaPoissonMF(3, random_state=0, tol=1e-3).fit(data)
    before, components = est.score(data), est.components_
    est.partial_fit(data[:40])
    gap = (before - est.score(data)) * data.shape[0] / data.sum()
    assert 0 < gap < 0.01  # a mini-batch moves a good model a little
    np.testing.assert_array_equal(est.fit(data).components_, components)


def test_a_bad_block_changes_nothing(data):
    est = GammaPoissonMF(3, random_state=0).partial_fit(data[:50])
    components = est.components_.copy()
    with pytest.raises(InvalidInputError, match="expecting 30 features"):
        est.partial_fit(data[:5, :7])
    with pytest.raises(InvalidInputError, match="whole numbers"):
        est.partial_fit(-np.ones((2, 30)))
    np.testing.assert_array_equal(est.components_, components)
    expected = GammaPoissonMF(3, random_state=0).partial_fit(data[:50]).partial_fit(data[50:99])
    np.testing.assert_array_equal(est.partial_fit(data[50:99]).components_, expected.components_)


def test_features_and_samples_without_counts(data):
    X = np.asarray(data[:60]).copy() if not sp.issparse(data) else data[:60].toarray()
    X[:30, :5] = 0
    X[7] = 0
    est = GammaPoissonMF(3, random_state=0).partial_fit(X[:30])
    assert (est.components_[:, :5] == 0).all()
    est.partial_fit(X[30:])
    assert (est.components_[:, X.sum(axis=0) > 0].sum(axis=0) > 0).all()
    empty = GammaPoissonMF(2, random_state=0).partial_fit(np.zeros((3, 4)))
    assert (empty.components_ == 0).all()


def test_what_a_stream_cannot_do_is_said(data):
    with pytest.raises(InvalidInputError, match="no blocks"):
        GammaPoissonMF(3).partial_fit(iter([]))
    exact = GammaPoissonMF(2, algorithm="exact")
    assert not hasattr(exact, "partial_fit")  # as scikit-learn's estimators do
    with pytest.raises(AttributeError, match="'partial_fit'") as raised:
        exact.partial_fit(data)
    assert "algorithm='mcem-c'" in str(raised.value.__cause__)
    with pytest.raises(InvalidInputError, match="partial_fit has no pseudo-counts"):
        GammaPoissonMF(2, pseudo_count=0.1).partial_fit(data)
    with pytest.warns(ConvergenceWarning):
        est = GammaPoissonMF(3, random_state=0, max_iter=3, tol=1e9).fit(data, exposure=2.0)
    with pytest.raises(InvalidInputError, match="exposures or unobserved"):
        est.partial_fit(data)


@pytest.mark.parametrize("K", [1, 3])
def test_chains_begin_at_whole_numbers_near_the_mean_field(K):
    rng = np.random.default_rng(1)
    model = GaP(rng.gamma(0.3, 1.0, (6, K)), np.linspace(0.01, 2.0, K))
    X = model.sample(40, random_state=2)
    X = np.vstack([X, np.zeros(6, int), 10**5 * np.eye(6, dtype=int), np.ones(6, int)])
    counts = sp.csr_array(X)
    begun = _typical_sizes(counts, model, None)
    sizes = mean_field_bound(counts, model, tol=SETTLED, max_passes=PASSES).sizes
    assert begun.min() >= 0
    np.testing.assert_array_equal(begun.sum(axis=1), X.sum(axis=1))
    assert np.abs(np.cumsum(begun - sizes, axis=1)).max() < 0.5 + 1e-6


def test_few_sweeps_are_enough_for_chains_of_new_samples():
    """Mean E[L] of overlapping components, beside exact moments: 20,000 copies of one sample."""
    W = np.array([[6.0, 4.0], [5.0, 5.0], [1.0, 9.0], [9.0, 1.0]])
    model, v = GaP(W, 0.2), np.array([40, 60, 10, 70])
    exact = posterior_moments(v[None], model).L[0]
    counts = sp.csr_array(np.tile(v, (20_000, 1)))
    errors = []
    for start in (_typical_sizes(counts, model, None), np.full((counts.shape[0], 1), -1)):
        engine = LocalEngine(2).load(counts, 0)
        engine.state = State(start, 0)
        s = engine.advance(model, replace(SWEEPS, expectations=False))
        errors.append(abs(s.c_sum[:, 0].sum() / s.n_draws - exact[0]))
    assert errors[0] < 0.5 * errors[1], errors
