"""On-line EM: averages that are scaled lazily; fits on parts of the samples that grow."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import naive
from gapmf import GammaPoissonMF, GaP
from gapmf.datasets import paper_synthetic
from gapmf.em.alpha import fit_alpha
from gapmf.em.averages import averages_at
from gapmf.em.expectation import ExactExpectation
from gapmf.em.m_steps import step_c
from gapmf.em.monte_carlo import make_schedule
from gapmf.em.online import MEMORY, model_for, only_met, step, with_samples
from gapmf.engines import growing
from gapmf.engines.base import State, Statistics, Sweeps
from gapmf.errors import InvalidInputError


def empty_averages(F, K, alpha, beta):
    W = np.ones((F, K)) * (beta / alpha)
    return averages_at(GaP(W, alpha, beta), np.zeros(F), 0)


def take(averages, c, n, gamma):
    """A step with given statistics: c (F, K) of n samples."""
    features = np.flatnonzero(c.sum(axis=1) > 0)
    averages = with_samples(averages, features, c[features].sum(axis=1), n)
    rows = np.vstack([c[features], np.zeros(c.shape[1])])
    s = Statistics(rows, np.zeros(c.shape[1]), float(n))
    return step(averages, features, s, gamma, n_samples=n)


def random_batches(rng, F, K, T, kappa):
    for t in range(T):
        c = rng.gamma(0.3, 10.0, (F, K)) * (rng.random((F, 1)) < 0.3)
        yield c, int(rng.integers(1, 9)), (t + 2.0) ** -kappa


@pytest.mark.parametrize(("F", "K", "kappa"), [(30, 4, 0.5), (1, 3, 0.9), (7, 1, 0.3)])
def test_rows_that_are_scaled_lazily_are_those_that_are_scaled_at_once(F, K, kappa):
    rng = np.random.default_rng(F)
    alpha, beta = rng.gamma(2.0, 1.0, K), rng.gamma(2.0, 1.0, K)
    batches = list(random_batches(rng, F, K, 60, kappa))
    averages = empty_averages(F, K, alpha, beta)
    for c, n, gamma in batches:
        averages = take(averages, c, n, gamma)
    shares, weights, W = naive.online_averages(batches, K, alpha, beta, MEMORY)
    np.testing.assert_allclose(averages.shares, shares, rtol=1e-12)
    np.testing.assert_allclose(averages.weights, weights, rtol=1e-12)
    np.testing.assert_allclose(averages.model().W, W, rtol=1e-12)
    np.testing.assert_allclose(
        averages.component_totals, averages.feature_totals @ averages.shares, rtol=1e-12
    )


def test_a_million_steps_of_decay_lose_nothing():
    """A row that was met first and last keeps its shares in between, to the last bit."""
    rng = np.random.default_rng(0)
    averages = take(
        empty_averages(3, 2, np.ones(2), np.ones(2)), rng.gamma(1.0, 1.0, (3, 2)), 4, 0.5
    )
    before = averages.shares.copy()
    c = np.zeros((3, 2))
    c[1] = 2.0, 1.0
    for t in range(2000):
        averages = take(averages, c, 1, (t + 4.0) ** -0.3)
    # The rest of a million steps that do not touch rows 0 and 2.
    t = np.arange(2000, 1_000_000)
    decay = float(np.log1p(-((t + 4.0) ** -0.3)).sum())
    averages = replace(averages, log_decay=averages.log_decay + decay)
    assert averages.log_decay < -20_000
    np.testing.assert_array_equal(averages.shares[[0, 2]], before[[0, 2]])
    W = averages.model().W
    np.testing.assert_allclose(W.sum(axis=1), averages.feature_totals / averages.n_samples)
    met = np.zeros((3, 2))
    met[0] = 0.0, 3.0
    averages = take(averages, met, 10, 0.01)
    least = 0.99 * 0.01 * MEMORY / 10
    expected = (least * before[0] + 0.01 * met[0] / 10) / (least + 0.01 * 3.0 / 10)
    np.testing.assert_allclose(averages.shares[0], expected, rtol=1e-12)


def test_one_whole_batch_with_step_1_is_one_step_of_em():
    X, _ = paper_synthetic(scale=3, n_samples=12, random_state=1)
    counts = sp.csr_array(np.asarray(X))
    rng = np.random.default_rng(0)
    model = GaP(rng.gamma(1.0, 1.0, (4, 2)), [0.7, 1.5], [1.0, 2.0])
    exact = ExactExpectation(counts).e_step(model)
    s = exact.statistics
    features = np.arange(4)
    totals = np.asarray(counts.sum(axis=0), dtype=float)
    # Whatever the averages held before: they are forgotten.
    averages = averages_at(model, totals, 12, n_before=5)
    after = step(averages, features, s, 1.0, n_samples=12)
    np.testing.assert_allclose(after.model().W, step_c(s, model).W, rtol=1e-12)


def test_features_that_a_batch_lacks_are_one_feature():
    rng = np.random.default_rng(0)
    model = GaP(rng.gamma(1.0, 1.0, (9, 3)), 0.5, 2.0)
    averages = averages_at(model, model.W @ (model.alpha / model.beta), 1)
    counts = sp.csr_array(np.array([[0, 2, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 3, 0, 0, 0, 1]]))
    features, met = only_met(counts)
    assert features.tolist() == [1, 4, 8]
    np.testing.assert_array_equal(met.toarray(), [[2, 1, 0, 0], [0, 3, 1, 0]])
    small = model_for(averages, features)
    np.testing.assert_allclose(small.W[:3], model.W[features], rtol=1e-12)
    np.testing.assert_allclose(small.column_norms, model.column_norms, rtol=1e-12)
    whole, part = ExactExpectation(counts), ExactExpectation(met)
    assert math.isclose(
        whole.e_step(model).log_likelihood, part.e_step(small).log_likelihood, rel_tol=1e-12
    )


@pytest.mark.parametrize("shared", ["component", "shared"])
def test_alpha_follows_from_averaged_sizes(shared):
    rng = np.random.default_rng(0)
    averages = empty_averages(2, 2, np.ones(2), np.ones(2))
    mean = None
    for t, longest in enumerate([6, 9, 4]):
        sizes = rng.integers(0, 20, (2, longest))
        gamma = (t + 2.0) ** -0.5
        s = Statistics(np.zeros((1, 2)), np.zeros(2), 10.0, sizes=sizes)
        none = np.array([], dtype=np.int64)
        averages = step(averages, none, s, gamma, n_samples=10, learn_alpha=shared)
        new = np.pad(sizes / 10.0, ((0, 0), (0, 9 - longest)))
        mean = new if mean is None else (1 - gamma) * mean + gamma * new
    expected = fit_alpha(mean, np.ones(2), shared=shared == "shared")
    np.testing.assert_allclose(averages.alpha, expected, rtol=1e-9)
    assert (averages.alpha[0] == averages.alpha[1]) == (shared == "shared")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    truth = GaP(40 * rng.dirichlet(np.full(30, 0.1), 3).T, alpha=0.3)
    return truth.sample(300, random_state=0)


QUICK = {"schedule": "online", "random_state": 0}


@pytest.fixture(scope="module", autouse=True)
def small_parts():
    """Parts of 30, 120 and then all 300 samples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "SAMPLES", 10)
        patch.setattr(growing, "TOKENS", 0.1)
        yield


def parts_of(est, X):
    """Fit, and return the number of samples of each E-step."""
    seen, advance = [], growing.GrowingEngine.advance

    def watched(engine, model, sweeps):
        seen.append(engine.n_samples)
        return advance(engine, model, sweeps)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing.GrowingEngine, "advance", watched)
        est.fit(X)
    return seen


@pytest.fixture(scope="module")
def fits(data):
    online = GammaPoissonMF(3, **QUICK)
    seen = parts_of(online, data)
    adaptive = GammaPoissonMF(3, tol=1e-4, random_state=0).fit(data)
    return {"online": online, "adaptive": adaptive, "parts": seen}


def test_a_fit_ends_near_where_the_adaptive_schedule_does(data, fits):
    """Within half a nat per parameter: what the samples can tell."""
    online, adaptive = fits["online"], fits["adaptive"]
    assert online.converged_
    assert (adaptive.score(data) - online.score(data)) * data.shape[0] < 0.5 * 3 * 30
    assert online.history_["norms"].shape == (online.n_iter_, 3)
    means = np.asarray(data.mean(axis=0))
    np.testing.assert_allclose(online.components_.sum(axis=0), means, rtol=1e-9)


def test_parts_grow_and_end_with_all_samples(fits):
    assert sorted(set(fits["parts"])) == [30, 120, 300]
    assert fits["parts"] == sorted(fits["parts"])


def test_the_bits_are_the_same_for_any_number_of_threads(data, fits):
    again = GammaPoissonMF(3, **QUICK, n_jobs=2).fit(data)
    np.testing.assert_array_equal(again.components_, fits["online"].components_)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["first part", "before growth", "after growth", "all"])
def test_a_fit_resumes_to_the_same_bits(data, fits, tmp_path, monkeypatch, where):
    """Killed in the middle of a window, and in the first E-step of a part."""
    n_first = fits["parts"].index(120)
    last = len(fits["parts"])
    n = {"first part": 5, "before growth": n_first, "after growth": n_first + 1, "all": last}[where]
    path, calls = tmp_path / "fit.part", itertools.count(1)
    monkeypatch.setattr("gapmf.storage.checkpoint.Checkpoint.is_due", lambda _: True)
    advance = growing.GrowingEngine.advance

    def killed(*args):
        if next(calls) == n:
            raise MemoryError
        return advance(*args)

    monkeypatch.setattr(growing.GrowingEngine, "advance", killed)
    with pytest.raises(MemoryError):
        GammaPoissonMF(3, **QUICK, checkpoint=path).fit(data)
    monkeypatch.setattr(growing.GrowingEngine, "advance", advance)
    monkeypatch.setattr("gapmf.storage.checkpoint.Checkpoint.is_due", lambda _: False)
    sizes = []

    def recorded(settings, engine, *args):
        sizes.append(engine.n_samples)
        return make_schedule(settings, engine, *args)

    monkeypatch.setattr("gapmf.em.fit.make_schedule", recorded)
    again = GammaPoissonMF.resume(path, data, n_jobs=2)
    # The stopping rule is that of the part in use, not of the first one.
    assert sizes[0] == fits["parts"][n - 2]
    np.testing.assert_array_equal(again.components_, fits["online"].components_)
    np.testing.assert_array_equal(again.history_["norms"], fits["online"].history_["norms"])


def test_ctrl_c_keeps_the_model_and_a_callback_stops(data):
    def interrupt(record):
        if record.iteration == 4:
            raise KeyboardInterrupt

    est = GammaPoissonMF(3, **QUICK, callbacks=[interrupt])
    with pytest.warns(ConvergenceWarning, match="interrupted after 4 iterations"):
        est.fit(data)
    assert est.interrupted_
    est.set_params(callbacks=[lambda record: record.iteration == 2])
    assert est.fit(data).n_iter_ == 2


@pytest.mark.slow
def test_alpha_is_learned(data):
    est = GammaPoissonMF(3, **QUICK, learn_alpha=True).fit(data)
    other = GammaPoissonMF(3, random_state=0, tol=1e-4, learn_alpha=True).fit(data)
    assert np.abs(np.log(np.sort(est.alpha_) / np.sort(other.alpha_))).max() < 0.15


def test_components_that_are_given_begin_with_all_samples(data, fits):
    warm = GammaPoissonMF(3, **QUICK, init=fits["online"].components_)
    assert set(parts_of(warm, data)) == {300}


def test_few_samples_are_fitted_as_by_the_adaptive_schedule(data, monkeypatch):
    monkeypatch.setattr(growing, "SAMPLES", 100)
    est = GammaPoissonMF(3, **QUICK, tol=1e-3)
    assert parts_of(est, data) == []
    adaptive = GammaPoissonMF(3, random_state=0, tol=1e-3).fit(data)
    np.testing.assert_array_equal(est.components_, adaptive.components_)


def test_a_feature_that_the_part_lacks_keeps_its_row():
    counts = sp.csr_array(np.array([[2, 0, 1], [1, 0, 0], [0, 3, 0], [1, 0, 2], [0, 4, 0]]))
    for seed in range(50):  # until the first part lacks feature 1
        engine = growing.GrowingEngine(counts, seed, [2, 5])
        if engine.totals[1] == 0.0:
            break
    model = GaP(np.array([[1.0, 2.0], [0.3, 0.1], [2.0, 0.5]]), [0.5, 2.0], [1.0, 3.0])
    statistics = engine.advance(model, Sweeps(3, expectations=True))
    after = step_c(statistics, model)
    np.testing.assert_allclose(after.W[1], model.W[1], rtol=1e-12)
    np.testing.assert_allclose(statistics.c_sum[[0, 2]].sum(axis=1), 3 * engine.totals[[0, 2]])
    L = engine.state.L
    engine.grow()
    np.testing.assert_array_equal(engine.state.L[:2], L)
    assert (engine.state.L[2:] == -1).all()
    statistics = engine.advance(model, Sweeps(1, expectations=True))
    np.testing.assert_allclose(statistics.c_sum.sum(axis=1), [4.0, 7.0, 3.0])
    with pytest.raises(InvalidInputError, match="state is of 3 samples"):
        engine.state = State(np.full((3, 2), -1), 0)


@pytest.mark.parametrize(
    ("parameters", "about"),
    [
        ({"pseudo_count": "auto"}, "no pseudo-counts"),
        ({"algorithm": "mcem-ch"}, "steps of 'mcem-c'"),
        ({"n_draws": 5}, "for schedule='paper'"),
    ],
)
def test_what_an_online_fit_cannot_do_is_said(data, parameters, about):
    with pytest.raises(InvalidInputError, match=about):
        GammaPoissonMF(3, schedule="online", **parameters).fit(data)


def test_exposures_are_refused(data):
    with pytest.raises(InvalidInputError, match="neither exposures nor unobserved"):
        GammaPoissonMF(3, schedule="online").fit(data, exposure=2.0)
