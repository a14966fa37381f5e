"""EM-C and EM-CH with exact moments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gapmf import GaP
from gapmf.counts import check_counts
from gapmf.datasets import paper_synthetic
from gapmf.em.exact_em import STEPS, em_c_step, em_ch_step, run_em, still_to_gain
from gapmf.em.expectation import ExactExpectation
from gapmf.em.history import History
from gapmf.em.m_steps import update_h
from gapmf.em.maximum import certify, fit_maximum
from gapmf.em.start import mean_start, perturbed_mean_start, random_start
from strategies import problems


def _load(scale=3.0, n_samples=40, seed=0):
    X, _ = paper_synthetic(scale, n_samples, random_state=seed)
    return ExactExpectation(check_counts(X))


@given(problems(max_count=15, max_samples=6, max_components=3), st.sampled_from(list(STEPS)))
@settings(max_examples=40)
def test_em_never_loses(problem, name):
    model, X = problem
    assume(not (X[:, model.W.sum(axis=1) == 0] > 0).any())
    expect = ExactExpectation(check_counts(X))
    at = expect.e_step(model)
    for _ in range(8):
        model = STEPS[name](model, at)
        before, at = at.log_likelihood, expect.e_step(model)
        assert at.log_likelihood >= before - 1e-11 * abs(before)


@given(problems(max_count=30, max_samples=6, max_components=3))
@settings(max_examples=40)
def test_em_c_keeps_the_means(problem):
    """Σ_k (α_k/β_k) w_fk = v̄_f after every iteration: Eq. 49, for any α and β."""
    model, X = problem
    assume(not (X[:, model.W.sum(axis=1) == 0] > 0).any())
    expect = ExactExpectation(check_counts(X))
    for _ in range(5):
        model = em_c_step(model, expect.e_step(model))
        np.testing.assert_allclose(
            model.W @ (model.alpha / model.beta), X.mean(axis=0), rtol=1e-12, atol=1e-300
        )


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_em_c_keeps_the_means_on_the_papers_data(scale):
    X, _ = paper_synthetic(scale, random_state=0)
    expect = ExactExpectation(check_counts(X))
    model = GaP(random_start(expect.mean_counts, np.ones(3), np.ones(3), np.random.default_rng(0)))
    for _ in range(10):
        model = em_c_step(model, expect.e_step(model))
        np.testing.assert_allclose(model.W.sum(axis=1), X.mean(axis=0), rtol=1e-12)


def test_one_component_is_exact_after_one_iteration():
    X = np.array([[3, 0, 1], [0, 0, 2], [5, 0, 4]])
    expect = ExactExpectation(check_counts(X))
    model = GaP([[9.0], [1.0], [0.3]], alpha=0.7, beta=2.0)
    model = em_c_step(model, expect.e_step(model))
    expected = 2.0 / 0.7 * X.mean(axis=0)
    np.testing.assert_allclose(model.W[:, 0], expected, rtol=1e-13)
    again = em_c_step(model, expect.e_step(model))
    np.testing.assert_allclose(again.W, model.W, rtol=1e-13)
    assert np.abs(expect.e_step(model).gradient[[0, 2]]).max() < 1e-12


@given(problems(max_count=15, max_samples=5, max_components=3, zeros=False))
@settings(max_examples=30)
def test_one_em_h_step_is_em_ch(problem):
    model, X = problem
    at = ExactExpectation(check_counts(X)).e_step(model)
    np.testing.assert_allclose(
        update_h(at.statistics, model.W), em_ch_step(model, at).W, rtol=1e-12, atol=1e-300
    )


@pytest.mark.parametrize("name", list(STEPS))
def test_the_mean_start_is_a_fixed_point(name):
    """With equal α and β only noise leaves it: hence the perturbation."""
    expect = _load()
    start = GaP(mean_start(expect.mean_counts, np.full(3, 0.6), np.full(3, 2.0)), 0.6, 2.0)
    np.testing.assert_allclose(STEPS[name](start, expect.e_step(start)).W, start.W, rtol=1e-11)
    rng = np.random.default_rng(0)
    other = perturbed_mean_start(expect.mean_counts, start.alpha, start.beta, rng)
    np.testing.assert_allclose(other @ (start.alpha / start.beta), expect.mean_counts, rtol=1e-12)
    assert np.ptp(other / other.sum(axis=0), axis=1).max() > 0.01


@pytest.mark.slow
def test_all_share_their_stationary_points():
    """A maximum is a fixed point of both EMs, and a long EM has no gradient left."""
    expect = _load(scale=2.0, n_samples=60, seed=2)
    alpha, beta = np.array([0.5, 1.5]), np.array([1.0, 0.4])
    rng = np.random.default_rng(1)
    start = GaP(random_start(expect.mean_counts, alpha, beta, rng), alpha, beta)
    top = fit_maximum(expect, start, max_iter=500, history=History())
    for step in STEPS.values():
        moved = step(top.model, top.expectation).W
        np.testing.assert_allclose(moved, top.model.W, atol=1e-7)
        fit = next(run_em(expect, start, step, max_iter=3000, tol=0.0, history=History()))
        assert certify(expect, fit.model).projected_gradient < 1e-3
        assert fit.expectation.log_likelihood == pytest.approx(
            top.expectation.log_likelihood, abs=1e-5
        )


def test_rounding_at_the_top_is_not_progress():
    """EM-C at K = 1 is exact after one step; what comes then must not look like a gain."""
    for seed in range(20):
        X = GaP([[30.0], [10.0], [3.0]], 0.7).sample(100, random_state=seed)
        expect = ExactExpectation(check_counts(X))
        history = History()
        fit = next(
            run_em(expect, GaP([[1.0]] * 3, 0.7), em_c_step, max_iter=50, tol=1e-5, history=history)
        )
        assert fit.converged
        assert len(history) < 15


def test_stopping_rule():
    assert still_to_gain(1.0, 2.0) == 1.0  # 1 + 1/2 + 1/4 + ... after a gain of 1, halving
    assert still_to_gain(2.0, 1.0) == np.inf
    assert still_to_gain(0.0, 1.0) == 0.0
    expect = _load()
    rng = np.random.default_rng(0)
    start = GaP(random_start(expect.mean_counts, np.ones(2), np.ones(2), rng))
    fits = {}
    for tol in (1e-3, 1e-5, 0.0):
        history = History()
        fit = next(run_em(expect, start, em_c_step, max_iter=2000, tol=tol, history=history))
        fits[tol] = fit.expectation.log_likelihood, len(history), fit.converged
    assert fits[1e-3][2]
    assert fits[1e-3][1] < fits[1e-5][1] < fits[0.0][1]
    for tol in (1e-3, 1e-5):  # what was said to be left, within a factor
        assert fits[0.0][0] - fits[tol][0] < 3 * tol * expect.n_tokens
