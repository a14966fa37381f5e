"""Likelihood and posterior with exposures and unobserved entries, against literal sums."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln

import naive
from gapmf import GaP, log_marginal_likelihood, posterior_activations, posterior_moments

EXACT = ("enumerate", "polynomial", "quadrature")
ESTIMATED = ("smc", "reverse", "importance", "chib")


def problem(seed, *, masked, K=2, F=3, N=5, largest=4):
    """A model with zeros and unequal α and β, counts, exposures over a factor of 40, and a mask."""
    rng = np.random.default_rng(seed)
    W = rng.gamma(0.7, 1.0, (F, K)) + 0.05
    W[rng.random((F, K)) < 0.2] = 0.0
    W[:, 0] += 0.1  # every count is possible
    model = GaP(W, 10 ** rng.uniform(-1.5, 0.5, K), 10 ** rng.uniform(-0.5, 0.5, K))
    s = 10 ** rng.uniform(-0.8, 0.8, N)
    M = rng.random((N, F)) < 0.6 if masked else np.ones((N, F), dtype=bool)
    if masked:
        M[0] = False  # a sample of which nothing was observed
    X = rng.integers(0, largest + 1, (N, F))
    X[-1] = 0
    return model, X, s, M


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("K", [1, 2, 3])
def test_exact_methods_are_the_literal_sum(K, masked):
    model, X, s, M = problem(K, masked=masked, K=K, F=2 if K == 3 else 3)
    expected = naive.observed_log_likelihood(X.T, model.W, model.alpha, model.beta, s, M.T)
    for method in EXACT:
        ll = log_marginal_likelihood(X, model, method, exposure=s, observed=M)
        assert ll.total == pytest.approx(expected, rel=1e-12)
        assert ll.std_error == 0.0
    one = log_marginal_likelihood(X[2:3], model, exposure=s[2:3], observed=M[2:3]).total
    assert one == pytest.approx(ll.per_sample[2], rel=1e-12)


@pytest.mark.parametrize("masked", [False, True])
def test_moments_are_the_literal_ones(masked):
    model, X, s, M = problem(7, masked=masked)
    moments = posterior_moments(X, model, exposure=s, observed=M)
    c, L, h = naive.observed_moments(X.T, model.W, model.alpha, model.beta, s, M.T)
    np.testing.assert_allclose(moments.L, L.T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(moments.h, h.T, rtol=1e-10)
    n, f = moments.counts.nonzero()
    np.testing.assert_allclose(moments.c, c[f, :, n], rtol=1e-10, atol=1e-12)
    if masked:
        np.testing.assert_allclose(moments.h[0], model.alpha / model.beta)
        np.testing.assert_allclose(moments.h_variance[0], model.alpha / model.beta**2)


def test_second_moments_by_integration():
    """One component: h | v ~ Gamma(α + |v|, R)."""
    model, X, s, M = problem(3, masked=True, K=1)
    moments = posterior_moments(X, model, exposure=s, observed=M)
    rate = model.beta + s[:, None] * (M @ model.W)
    shape = model.alpha + (X * M).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(moments.h_variance, shape / rate**2, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("method", ESTIMATED)
def test_estimators_agree_with_exact_values(method):
    """Five standard errors and rounding: one failure in 10^6 if errors are honest."""
    rng = np.random.default_rng(11)
    model = GaP(rng.gamma(0.5, 8.0, (6, 3)) + 0.1, [0.3, 0.8, 1.5], [1.0, 0.5, 2.0])
    s = 10 ** rng.uniform(-1.0, 0.5, 8)
    M = rng.random((8, 6)) < 0.7
    X = rng.poisson(s[:, None] * (rng.gamma(model.alpha, 1 / model.beta, (8, 3)) @ model.W.T))
    exact = log_marginal_likelihood(X, model, "quadrature", exposure=s, observed=M)
    found = log_marginal_likelihood(X, model, method, exposure=s, observed=M, random_state=0)
    assert (np.abs(found.per_sample - exact.per_sample) <= 5 * found.std_errors + 1e-9).all()
    coarse = log_marginal_likelihood(
        X, model, exposure=s, observed=M, precision=1e-9, random_state=0, max_cost=1e13
    )
    assert abs(coarse.total - exact.total) <= 5 * coarse.std_error + 1e-9


def test_equal_exposures():
    """Ones change no bit; c gives what β / c gives."""
    model, X, _, _ = problem(5, masked=False)
    plain = log_marginal_likelihood(X, model, random_state=0)
    ones = np.ones(X.shape, dtype=bool)
    for form in (1, np.ones(len(X)), [1] * len(X)):
        again = log_marginal_likelihood(X, model, random_state=0, exposure=form, observed=ones)
        assert (again.per_sample == plain.per_sample).all()
    scaled = GaP(model.W, model.alpha, model.beta / 3.0)
    c = log_marginal_likelihood(X, model, exposure=3.0)
    assert c.total == pytest.approx(log_marginal_likelihood(X, scaled).total, rel=1e-13)
    h = posterior_moments(X, model, exposure=3.0).h
    np.testing.assert_allclose(3.0 * h, posterior_moments(X, scaled).h, rtol=1e-12)


def test_forms_of_a_mask_agree():
    model, X, s, M = problem(9, masked=True, N=9, F=6)
    expected = log_marginal_likelihood(X, model, exposure=s, observed=M).per_sample
    for mask in (M, M.astype(int), M.tolist(), sp.csr_array(M), sp.coo_matrix(M)):
        found = log_marginal_likelihood(sp.csr_array(X), model, exposure=s, observed=mask)
        assert (found.per_sample == expected).all()
    # mostly observed, mostly unobserved: listed the other way round
    for mask in (M | (np.arange(6) > 0), M & (np.arange(6) > 3)):
        literal = naive.observed_log_likelihood(X.T, model.W, model.alpha, model.beta, s, mask.T)
        for form in (mask, sp.csr_array(mask)):
            found = log_marginal_likelihood(X, model, exposure=s, observed=form)
            assert found.total == pytest.approx(literal, rel=1e-12)


def test_posterior_from_chains_agrees_with_exact_moments():
    """The chains' own error bars, five of them; and moments of draws (five standard errors)."""
    rng = np.random.default_rng(2)
    K = 4
    model = GaP(rng.gamma(0.5, 6.0, (5, K)) + 0.1, [0.4, 0.9, 1.5, 0.2], [1.0, 0.5, 2.0, 1.0])
    s = 10 ** rng.uniform(-1.0, 0.7, 6)
    M = rng.random((6, 5)) < 0.8
    X = rng.poisson(s[:, None] * (rng.gamma(model.alpha, 1 / model.beta, (6, K)) @ model.W.T))
    X[1, 0] = 200  # drawn as a whole
    moments = posterior_moments(X, model, exposure=s, observed=M)
    from gapmf.likelihood import posterior

    old, posterior.EXACT_COST = posterior.EXACT_COST, 0.0
    try:
        for careful in (False, True):
            found = posterior_activations(
                X, model, exposure=s, observed=M, precision=0.02, n_draws=1024, careful=careful,
                random_state=0,
            )  # fmt: skip
            assert not found.exact.any()
            length = np.linalg.norm(moments.h, axis=1)
            off = np.linalg.norm(found.mean - moments.h, axis=1) / length
            assert (off <= 2 * np.maximum(found.error, 0.01)).all()
            sd = np.sqrt(moments.h_variance)
            np.testing.assert_allclose(found.std, sd, rtol=0.3, atol=0.02)
    finally:
        posterior.EXACT_COST = old


@pytest.mark.parametrize("s", [1e-6, 0.03, 40.0, 1e6])
def test_extreme_exposures_are_those_of_forty_digits(s):
    """A sample with exposure s is one without, of the model with β/s."""
    rng = np.random.default_rng(8)
    model = GaP(rng.gamma(0.5, 2.0, (4, 3)), [0.01, 0.3, 5.0], [0.5, 2.0, 1.0])
    x = np.array([[9, 0, 14, 2]])
    expected = naive.log_likelihood_40_digits(x[0], model.W, model.alpha, model.beta / s)
    for method in ("polynomial", "quadrature"):
        found = log_marginal_likelihood(x, model, method, exposure=s).total
        assert found == pytest.approx(expected, rel=1e-10)
    found = log_marginal_likelihood(x, model, "smc", exposure=s, random_state=0)
    assert abs(found.total - expected) <= 5 * found.std_error + 1e-9
    large = GaP([[2.0]], 0.01)
    v, p = 100_000, s * 2.0 / (s * 2.0 + 1.0)
    log_p0 = -np.log1p(2.0 * s)
    expected = gammaln(0.01 + v) - gammaln(0.01) - gammaln(v + 1.0) + 0.01 * log_p0 + v * np.log(p)
    found = log_marginal_likelihood([[v]], large, exposure=s).total
    assert found == pytest.approx(expected, rel=1e-10)
