"""EM with exposures and unobserved entries: literal steps, exact moments, the maximum."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import naive
from gapmf.counts import check_counts
from gapmf.em.exact_em import (
    em_c_alpha_step,
    em_c_step,
    em_ch_step,
    leave_plateau,
    lower_bound_step,
)
from gapmf.em.expectation import ExactExpectation
from gapmf.em.gain import EStep, gain
from gapmf.em.history import History
from gapmf.em.maximum import certify, fit_maximum
from gapmf.engines.base import Sweeps
from gapmf.engines.local import LocalEngine
from gapmf.model import GaP
from gapmf.observation import check_observation


def problem(*, masked, seed=0, N=30, F=4, K=2, scale=3.0):
    """Counts of a model with unequal α and β, with exposures over a factor of 50."""
    rng = np.random.default_rng(seed)
    model = GaP(scale * rng.gamma(0.6, 1.0, (F, K)) + 0.05, [0.5, 1.4][:K], [0.7, 2.0][:K])
    s = 10 ** rng.uniform(-0.85, 0.85, N)
    M = rng.random((N, F)) < 0.7 if masked else np.ones((N, F), dtype=bool)
    if masked:
        M[0] = False
    H = rng.gamma(model.alpha, 1 / model.beta, (N, K))
    X = rng.poisson(s[:, None] * (H @ model.W.T))
    counts, observation = check_observation(check_counts(X), s, M)
    return model, X, s, M, counts, observation


def tiny(masked):
    model, X, s, M, *_ = problem(masked=masked, N=6, F=3, scale=1.0)
    X = np.minimum(X, 4)
    X[2] = X[1]  # equal counts with different exposures
    counts, observation = check_observation(check_counts(X), s, M)
    return model, X, s, M, ExactExpectation(counts, observation=observation)


@pytest.mark.parametrize("masked", [False, True])
def test_the_exact_e_step_and_both_steps_are_the_literal_ones(masked):
    model, X, s, M, expect = tiny(masked)
    W, alpha, beta = model.W, model.alpha, model.beta
    at = expect.e_step(model)
    c, _, h = naive.observed_moments(X.T, W, alpha, beta, s, M.T)
    value = naive.observed_log_likelihood(X.T, W, alpha, beta, s, M.T)
    assert at.log_likelihood == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(at.statistics.c_sum, c.sum(axis=2), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(at.statistics.h_sum, h.sum(axis=1), rtol=1e-10)
    below = np.einsum("nf,n,kn->fk", M, s, h)
    np.testing.assert_allclose(np.broadcast_to(at.statistics.below, W.shape), below, rtol=1e-10)
    for step, expanded in ((em_c_step, True), (em_ch_step, False)):
        literal = naive.observed_em_step(X.T, W, alpha, beta, s, M.T, expanded=expanded)
        np.testing.assert_allclose(step(model, at).W, literal, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("masked", [False, True])
def test_the_gradient_is_that_of_the_likelihood(masked):
    model, *_, expect = tiny(masked)
    W = model.W.copy()
    W[0, 1] = 0.0
    zero_at = GaP(W, model.alpha, model.beta)

    def cost(w):
        return -expect.e_step(GaP(w.reshape(W.shape), model.alpha, model.beta)).log_likelihood

    for at in (model, zero_at):
        found = approx_fprime(at.W.ravel(), cost, 1e-6).reshape(W.shape)
        np.testing.assert_allclose(expect.e_step(at).gradient, found, rtol=1e-4, atol=1e-4)


def test_a_column_that_cannot_have_produced_a_sample_has_a_gradient_too():
    W = np.array([[1.0, 0.0], [0.0, 2.0], [0.5, 0.0]])
    X = np.array([[2, 0, 1], [0, 3, 0], [1, 1, 0]])
    counts, observation = check_observation(check_counts(X), [0.3, 2.0, 5.0])
    expect = ExactExpectation(counts, observation=observation)

    def cost(w):
        return -expect.e_step(GaP(w.reshape(W.shape), [0.5, 2.0])).log_likelihood

    found = approx_fprime(W.ravel(), cost, 1e-7).reshape(W.shape)
    gradient = expect.e_step(GaP(W, [0.5, 2.0])).gradient
    np.testing.assert_allclose(gradient, found, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("masked", [False, True])
def test_em_c_is_monotone_and_faster_than_em_ch(masked):
    model, *_, counts, observation = problem(masked=masked)
    expect = ExactExpectation(counts, observation=observation)
    start = GaP(np.full_like(model.W, 0.3) + 0.1 * model.W, model.alpha, model.beta)
    after = {}
    for name, step in (("c", em_c_step), ("ch", em_ch_step)):
        at, values = start, []
        for _ in range(40):
            here = expect.e_step(at)
            values.append(here.log_likelihood)
            at = step(at, here)
        assert np.diff(values).min() >= -1e-9
        after[name] = values
    assert after["c"][1] > after["ch"][1]
    assert after["c"][10] > after["ch"][10]


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_em_c_with_learned_alpha_is_monotone(masked, shared):
    model, *_, counts, observation = problem(masked=masked, N=15, scale=1.5)
    way = "shared" if shared else "component"
    expect = ExactExpectation(counts, learn_alpha=way, observation=observation)
    alpha = np.ones(2) if shared else np.array([2.0, 0.5])
    for step in (partial(em_c_alpha_step, expect), partial(lower_bound_step, expect)):
        at, values = GaP(model.W, alpha, model.beta), []
        for _ in range(8):
            here = expect.e_step(at)
            values.append(here.log_likelihood)
            at = step(at, here)
        assert np.diff(values).min() >= -1e-9
        assert values[-1] > values[0]
        assert (np.ptp(at.alpha) == 0.0) == shared


def test_learned_alpha_is_the_literal_one():
    model, X, s, M, expect = tiny(True)
    expect = ExactExpectation(expect.rows, learn_alpha="component", observation=expect.observation)
    X = expect.rows.toarray()
    s, M = expect.observation.exposure, expect.observation.mask(np.arange(len(X)), X.shape[1])
    # α at a bound would leave nothing to compare: here component 0 has a finite best one
    W, alpha, beta = model.W, np.array([0.5, 1.4]), model.beta
    here = expect.e_step(GaP(W, alpha, beta))
    found = em_c_alpha_step(expect, GaP(W, alpha, beta), here)
    new_W = naive.observed_em_step(X.T, W, alpha, beta, s, M.T)
    for k in range(2):
        literal = naive.observed_alpha(X.T, W, alpha, beta, s, M.T, k, new_W)
        assert found.alpha[k] == pytest.approx(literal, rel=1e-4)
        np.testing.assert_allclose(found.W[:, k], new_W[:, k] * alpha[k] / found.alpha[k])


@pytest.mark.slow
@pytest.mark.parametrize("learn_alpha", [None, "component"])
def test_the_maximum_satisfies_the_identities(learn_alpha):
    model, _, s, _, counts, observation = problem(masked=True)
    expect = ExactExpectation(counts, learn_alpha=learn_alpha, observation=observation)
    found = fit_maximum(expect, model, max_iter=500, history=History())
    certificate = certify(expect, found.model)
    assert found.converged
    assert certificate.identity < 1e-4
    assert certificate.projected_gradient < 1e-2
    h, used = found.expectation.statistics.h_sum, found.model.column_norms > 0
    expected = len(s) * found.model.alpha / found.model.beta
    np.testing.assert_allclose(h[used], expected[used], rtol=1e-4)
    below = found.expectation.statistics.below
    total = (found.model.W * below).sum(axis=1)
    np.testing.assert_allclose(total, np.asarray(counts.sum(axis=0)), rtol=1e-4)
    # EM-C climbs to the same height
    if learn_alpha is None:
        at = model
        for _ in range(300):
            at = em_c_step(at, expect.e_step(at))
        assert expect.e_step(at).log_likelihood == pytest.approx(
            found.expectation.log_likelihood, abs=0.05
        )


def test_r_is_the_factor_of_a_vanishing_column():
    model, *_, counts, observation = problem(masked=True)
    expect = ExactExpectation(counts, observation=observation)
    r, error = expect.score(model)
    tiny_column = np.full((model.n_features, 1), 1e-9)
    more = GaP(np.hstack([model.W, tiny_column]), [*model.alpha, 0.8], [*model.beta, 1.7])
    after = em_c_step(more, expect.e_step(more))
    np.testing.assert_allclose(after.W[:, -1] / 1e-9, r, rtol=1e-5)
    assert (error > 0).all()
    plain = ExactExpectation(counts)
    ones = replace(observation, exposure=np.ones(30), entries=None)
    as_ones = ExactExpectation(counts, observation=ones)
    for a, b in zip(plain.score(model), as_ones.score(model), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_the_plateau_is_left_with_exposures():
    """Two components at α = 1e4 explain overdispersed counts badly."""
    _, *_, counts, observation = problem(masked=False, N=40)
    expect = ExactExpectation(counts, learn_alpha="component", observation=observation)
    W = np.outer(expect.mean_counts, [0.5, 0.5]) / 1e4
    flat = GaP(W, [1e4, 1e4], [1.0, 1.0])
    value = expect.e_step(flat).log_likelihood
    better = leave_plateau(expect, flat, value)
    assert better is not None
    assert expect.e_step(better).log_likelihood > value + 1.0


J = 20_000  # sweeps


@pytest.fixture(scope="module")
def drawn():
    """A long E-step of the Gibbs engine, and the exact one."""
    model, *_, counts, observation = problem(masked=True, N=20)
    expect = ExactExpectation(counts, observation=observation)
    engine = LocalEngine().load(counts, seed=1, observation=observation)
    engine.advance(model, Sweeps(50))
    found = {
        e: engine.advance(model, Sweeps(J, 0, expectations=e, sizes=True)) for e in (False, True)
    }
    return model, expect, found, counts, observation


@pytest.mark.slow
@pytest.mark.parametrize("expectations", [False, True])
def test_gibbs_moments_are_the_exact_ones(drawn, expectations):
    """J sweeps, correlated: 2 % is more than four standard errors, one in 10^4 by chance."""
    model, expect, found, *_ = drawn
    exact, s = expect.e_step(model).statistics, found[expectations]
    np.testing.assert_allclose(s.c_sum / J, exact.c_sum, rtol=0.04, atol=0.05)
    np.testing.assert_allclose(s.h_sum / J, exact.h_sum, rtol=0.02)
    np.testing.assert_allclose(s.below / J, exact.below, rtol=0.02)
    np.testing.assert_allclose(s.L_sum.sum(axis=0), s.sizes @ np.arange(s.sizes.shape[1]))
    assert s.n_draws == J * 20


@pytest.mark.slow
def test_the_gain_between_two_models_is_that_of_the_likelihood(drawn):
    model, expect, found, counts, observation = drawn
    proposed = em_c_step(model, expect.e_step(model))  # a fifth of the way: right to third order
    other = GaP(0.8 * model.W + 0.2 * proposed.W, model.alpha, model.beta)
    engine = LocalEngine().load(counts, seed=2, observation=observation)
    there = engine.advance(other, Sweeps(1000, 50, expectations=True, sizes=True))
    a, b = EStep(model, found[True], J), EStep(other, there, 1000)
    measured = gain(a, b, observation)
    exact = expect.e_step(other).log_likelihood - expect.e_step(model).log_likelihood
    assert abs(measured.estimate - exact) <= 5 * measured.error + 0.05 * abs(exact)
    warmer = GaP(model.W, model.alpha * [1.2, 0.9], model.beta)
    there = engine.advance(warmer, Sweeps(1000, 50, expectations=True, sizes=True))
    measured = gain(a, EStep(warmer, there, 1000), observation)
    exact = expect.e_step(warmer).log_likelihood - expect.e_step(model).log_likelihood
    assert abs(measured.estimate - exact) <= 5 * measured.error + 0.05 * abs(exact)


def test_bits_do_not_depend_on_threads_or_blocks():
    model, *_, counts, observation = problem(masked=True)
    first = None
    for n_jobs, size in ((1, None), (2, 3)):
        engine = LocalEngine(n_jobs, size).load(counts, seed=1, observation=observation)
        s = engine.advance(model, Sweeps(2, 1, expectations=True, sizes=True))
        first = s if first is None else first
        for name in ("c_sum", "h_sum", "below", "L_sum", "sizes"):
            assert (getattr(s, name) == getattr(first, name)).all()


def test_one_sweep_of_many_chains():
    """3000 chains per sample; five standard errors of each sum, one failure in 10^5 for all."""
    model, X, s, M, *_ = problem(masked=True, N=4, scale=2.0)
    rows = np.repeat(np.arange(1, 4), 3000)
    counts, observation = check_observation(check_counts(X[rows]), s[rows], M[rows])
    engine = LocalEngine().load(counts, seed=3, observation=observation)
    engine.advance(model, Sweeps(1, 60))
    one = engine.advance(model, Sweeps(1, expectations=True))
    exact = ExactExpectation(counts, observation=observation).e_step(model).statistics
    L = one.L_sum.reshape(3, 3000, -1)
    expected = exact.L_sum / 3000
    error = L.std(axis=1, ddof=1) / np.sqrt(3000)
    assert (np.abs(L.mean(axis=1) - expected) <= 5 * error + 1e-9).all()
    within = 5 * np.sqrt((L.var(axis=1) * 3000).sum(axis=0))
    assert (np.abs(one.c_sum - exact.c_sum) <= within + 1e-6).all()
    np.testing.assert_allclose(one.h_sum, exact.h_sum, rtol=0.03)
    np.testing.assert_allclose(one.below, exact.below, rtol=0.03)
