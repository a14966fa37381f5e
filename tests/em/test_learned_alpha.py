"""α learned with exact moments: the slope by α, EM-C with the law of L, and the joint maximum."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from learned_problems import MODES, STEPS, level, load, possible, random_model
from scipy.special import psi

import naive
from component_sizes import law_of_sizes
from gapmf import GaP
from gapmf.datasets import paper_model, paper_synthetic
from gapmf.em.alpha import LARGEST, SMALLEST, with_alpha
from gapmf.em.exact_em import em_c_alpha_step, run_em
from gapmf.em.expectation import expected_sizes
from gapmf.em.history import History
from gapmf.em.maximum import _levelled, certify, fit_maximum, improve
from gapmf.em.start import perturbed_mean_start
from gapmf.likelihood.exact import simplex_logs, simplex_rule
from strategies import problems

# The rule and the slope


@pytest.mark.parametrize("shapes", [(1.0, 1.0), (0.05, 0.3), (1e-4, 2.5), (0.7, 1e-3), (30.2, 4.0)])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 40, 900])
def test_logarithms_times_monomials(shapes, n):
    """E[log u] under Beta(a + i, b + n − i) is known; nodes as they are would be 0.01 to 1 off."""
    alpha = np.array(shapes)
    rule, logs = simplex_rule(alpha, n, logs=True), simplex_logs(alpha, n)
    u, y, log_w = (part[0] for part in rule)
    for i in np.unique(np.linspace(0, n, 30).astype(int)):
        exponent = log_w + i * np.log(u) + (n - i) * np.log(y)
        q = np.exp(exponent - exponent.max())
        found = logs[:, 0] @ q / q.sum()
        counts = np.array([i, n - i])
        expected = psi(alpha + counts) - psi(alpha.sum() + n)
        assert np.abs((found - expected) * np.minimum(1.0, alpha + counts)).max() < 1e-7


@given(problems(max_count=12, max_samples=4, max_components=3))
@settings(max_examples=30)
def test_rising_is_that_of_the_law_of_sizes(problem):
    model, X = problem
    assume(possible(model, X))
    expected = np.zeros(model.n_components)
    for x in X:
        L, q = law_of_sizes(x, model)
        expected += q @ (psi(model.alpha + L) - psi(model.alpha))
    np.testing.assert_allclose(load(X).e_step(model).rising, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("scale", "alpha"), [(10.0, 0.05), (10.0, 3.0), (100.0, 0.6)])
def test_slope_at_hundreds_of_counts(scale, alpha):
    X, _ = paper_synthetic(scale, 4, random_state=1)
    model = random_model(X, 3, 0, alpha)
    laws = [law_of_sizes(x, model) for x in X]
    expected = sum(q @ (psi(model.alpha + L) - psi(model.alpha)) for L, q in laws)
    np.testing.assert_allclose(load(X).e_step(model).rising, expected, rtol=1e-8)


def test_slope_against_40_digits():
    """Central differences of the literal likelihood, the expected counts held fixed."""
    X = np.array([[3, 0, 2], [0, 0, 0], [1, 4, 0], [0, 0, 5]])
    W = np.array([[2.0, 0.3], [1.5, 0.0], [0.1, 0.7]])
    model = GaP(W, [0.08, 2.3], [1.0, 0.4])
    slope = load(X).e_step(model).slope_by_log_alpha(model)
    h = 1e-5
    for k in range(2):
        values = []
        for sign in (1.0, -1.0):
            alpha = model.alpha.copy()
            alpha[k] *= np.exp(sign * h)
            other = with_alpha(model, alpha)
            args = other.W, other.alpha, other.beta
            values.append(sum(naive.log_likelihood_40_digits(x, *args) for x in X))
        assert slope[k] == pytest.approx((values[0] - values[1]) / (2 * h), rel=1e-7)


# EM-C


@pytest.mark.slow
@given(
    problems(max_count=2, max_samples=3, max_features=2, max_components=3), st.sampled_from(MODES)
)
@settings(max_examples=8)
def test_a_step_is_the_literal_one(problem, mode):
    model, X = problem
    assume(possible(model, X) and X.sum() > 0)
    model = level(model, mode)
    expect = load(X, mode)
    new = em_c_alpha_step(expect, model, expect.e_step(model))
    args = X.T, model.W, model.alpha, model.beta
    W, alpha = naive.em_step_with_alpha(*args, shared=mode == "shared")
    bound = (new.alpha == LARGEST) | (new.alpha == SMALLEST)
    np.testing.assert_allclose(new.alpha[~bound], alpha[~bound], rtol=1e-4)
    np.testing.assert_allclose(np.log(new.alpha[bound]), np.log(alpha[bound]), atol=1.0)
    np.testing.assert_allclose(new.W[:, ~bound], W[:, ~bound], rtol=1e-4, atol=1e-12)


@given(problems(max_count=12, max_samples=6, max_components=3))
@settings(max_examples=30)
def test_expected_sizes_are_the_laws_added_up(problem):
    model, X = problem
    assume(possible(model, X))
    X = np.concatenate([X, X[:1]])  # equal samples are computed once
    expected = np.zeros((model.n_components, X.sum(axis=1).max() + 1))
    for x in X:
        L, q = law_of_sizes(x, model)
        for k in range(model.n_components):
            np.add.at(expected[k], L[:, k], q)
    sizes = expected_sizes(load(X), model)
    np.testing.assert_allclose(sizes, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.slow
@given(
    problems(max_count=12, max_samples=6, max_components=3),
    st.sampled_from(MODES),
    st.sampled_from(list(STEPS)),
)
@settings(max_examples=30)
def test_em_never_loses(problem, mode, kind):
    model, X = problem
    assume(possible(model, X) and X.sum() > 0)
    model, expect = level(model, mode), load(X, mode)
    step, at = partial(STEPS[kind], expect), expect.e_step(model)
    for _ in range(6):
        model = step(model, at)
        before, at = at.log_likelihood, expect.e_step(model)
        assert at.log_likelihood >= before - 1e-11 * abs(before)
        assert mode == "component" or np.ptp(model.alpha) == 0
        np.testing.assert_allclose(model.expected_counts(), X.mean(axis=0), rtol=1e-10)


def test_one_component_needs_no_polynomial():
    """L = |v|: EM-C is exact after one iteration, at any count."""
    X = GaP([[3e4], [1e4]], 0.4).sample(40, random_state=0)
    expect = load(X)
    model = em_c_alpha_step(expect, GaP([[1.0], [1.0]]), expect.e_step(GaP([[1.0], [1.0]])))
    assert abs(expect.e_step(model).slope_by_log_alpha(model)[0]) < 1e-6
    assert 0.2 < model.alpha[0] < 0.8


# The maximum


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_both_algorithms_end_at_the_same_top(mode):
    X, _ = paper_synthetic(2.0, 40, random_state=5)
    start, expect = random_model(X, 2, 0), load(X, mode)
    step, n_iter = partial(em_c_alpha_step, expect), 400 if mode == "component" else 150
    em = next(run_em(expect, start, step, max_iter=n_iter, tol=0.0, history=History()))
    top = fit_maximum(expect, em.model, max_iter=300, history=History(), warm_up=0)
    gain = top.expectation.log_likelihood - em.expectation.log_likelihood
    assert -1e-9 < gain < 1e-4
    direct = fit_maximum(expect, start, max_iter=500, history=History())
    assert direct.converged
    assert direct.expectation.log_likelihood == pytest.approx(
        top.expectation.log_likelihood, abs=1e-4
    )
    certificate = certify(expect, direct.model)
    assert certificate.projected_gradient < 1e-4
    assert certificate.identity < 1e-12
    for step in STEPS.values():
        moved = step(expect, direct.model, direct.expectation)
        np.testing.assert_allclose(moved.alpha, direct.model.alpha, rtol=1e-4)
    off = with_alpha(direct.model, direct.model.alpha * 1.3)
    assert certify(expect, off).projected_gradient > 0.05


@pytest.mark.slow
def test_levelling_leaves_a_column_that_explains_a_few_samples():
    """A direct climb ends 2.5 nats lower here, and lower than with one α for all."""
    X, _ = paper_synthetic(1.0, random_state=3)
    expect, rng = load(X), np.random.default_rng(3)
    W = perturbed_mean_start(expect.mean_counts, np.ones(2), np.ones(2), rng)
    caught = fit_maximum(expect, GaP(W), max_iter=500, history=History())
    together = fit_maximum(expect.learning("shared"), GaP(W), max_iter=500, history=History())
    assert caught.expectation.log_likelihood < together.expectation.log_likelihood - 1.0
    start = _levelled(expect, caught.model, 500)
    assert np.ptp(start.alpha) == 0
    fit = fit_maximum(expect, start, max_iter=500, history=History(), warm_up=0)
    assert fit.expectation.log_likelihood == pytest.approx(-386.4407, abs=1e-3)
    history = History()
    better = improve(expect, caught, max_iter=500, history=history)
    assert better.expectation.log_likelihood > together.expectation.log_likelihood
    assert history.model is better.model


@pytest.mark.slow
def test_within_sampling_error_of_the_truth():
    """12 data sets: the mean error of log α within 5 standard errors, for either component.

    Refuses a right program once in 1,000 at most (t with 11 degrees of freedom, two tests),
    beyond the bias of maximum likelihood, which is of the order of 1/N: 0.03 is allowed for.
    """
    truth = GaP(paper_model(8.0).W, [0.4, 2.0])
    errors = []
    for seed in range(12):
        X = truth.sample(120, random_state=seed)
        fit = fit_maximum(load(X), truth, max_iter=300, history=History(), warm_up=0)
        assert fit.converged
        errors.append(np.log(fit.model.alpha / truth.alpha))
    errors = np.array(errors)
    standard_error = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    assert (np.abs(errors.mean(axis=0)) < 5.0 * standard_error + 0.03).all()
    assert (errors.std(axis=0) < 0.5).all()
