"""The estimated likelihood: against exact values, with the error that it states."""

from __future__ import annotations

import numpy as np
import pytest
from smc_runs import a_data_set, estimates

import naive
from gapmf import GaP, NegativeMultinomial, log_marginal_likelihood
from gapmf.kernels import token_smc as kernel
from gapmf.kernels.particles import make_particles
from gapmf.likelihood import smc
from strategies import some_problem


def test_exact_values_lie_within_the_error_bars():
    """Of 200 random problems at least 97 % within three standard errors, and no bias beside it."""
    rng = np.random.default_rng(1)
    z = []
    while len(z) < 200:
        model, x = some_problem(rng)
        exact = log_marginal_likelihood(x, model)
        if exact.std_error > 0:
            continue
        estimate = log_marginal_likelihood(x, model, "smc", random_state=len(z))
        if estimate.methods[0] == "smc":
            z.append((estimate.total - exact.total) / estimate.std_error)
    z = np.array(z)
    assert (np.abs(z) <= 3).mean() >= 0.97
    assert abs(z.mean()) < 0.25
    assert 0.6 < np.sqrt((np.clip(z, -4, 4) ** 2).mean()) < 1.3


@pytest.mark.parametrize("guide", [0.0, 0.7, [2.0, 0.1, 1.0]])
@pytest.mark.parametrize(
    ("W", "alpha", "v", "n_runs", "n_particles"),
    [
        ([[3.0, 1.0], [0.5, 2.0]], [0.3, 0.8], [2, 1], 20_000, 4),
        ([[3.0, 1.0], [0.5, 2.0], [1.0, 1.0]], [0.3, 0.8], [7, 6, 3], 20_000, 8),  # with moves
        ([[3.0, 0.0, 1.0], [0.5, 2.0, 0.3], [1.0, 4.0, 0.0]], [0.2, 1.0, 2.0], [9, 8, 5], 9_000, 8),
        ([[30.0, 10.0], [5.0, 20.0]], [0.5, 2.0], [900, 700], 800, 16),  # in batches
        ([[30.0, 10.0], [5.0, 20.0], [1.0, 0.0]], [0.5, 2.0], [700, 0, 2], 800, 16),
    ],
)  # fmt: skip
def test_the_probability_is_estimated_without_bias(W, alpha, v, n_runs, n_particles, guide):
    """Whatever the guide."""
    guide = np.broadcast_to(guide, 3)[: len(alpha)]
    ratios, variances = estimates(GaP(W, alpha), v, n_runs, n_particles, guide)
    error = ratios.std() / np.sqrt(n_runs)
    assert error < 0.04
    assert abs(ratios.mean() - 1.0) < 4 * error
    # What the weights within a run say about the variance is of the right size, if it is little.
    assert ratios.var() > 0.2 or 0.2 < variances.mean() / ratios.var() < 3.0


def test_resampling_is_fair():
    """Over all u, a particle has as many children, on average, as its weight asks for."""
    at = make_particles(8, 2, 1)
    weight = np.array([0.1, 3.0, 0.0, 1.0, 1.0, 0.4, 2.2, 0.3])
    children = np.zeros(8)
    levels = (np.arange(2000) + 0.5) / 2000
    for u in levels:
        at.weight[:] = weight
        kernel.resample(u, weight.sum(), at)
        children += np.bincount(at.parent, minlength=8)
        assert (at.weight == 1.0).all()
    np.testing.assert_allclose(children / 2000, 8 * weight / weight.sum(), atol=1e-3)


@pytest.mark.parametrize("sd", [0.1, 0.7])
def test_islands_make_an_estimate_and_its_error(sd):
    """Islands with log-normal errors of mean 1: the logarithm's bias is gone, the error right."""
    N, R = 20_000, smc.N_ISLANDS
    rng = np.random.default_rng(0)
    islands = rng.normal(-0.5 * sd**2, sd, (R, N))
    within = np.full((R, N), np.expm1(sd**2) / smc._WITHIN_FACTOR)
    found = smc.combine(islands, within, 512)
    assert abs(found.values.mean()) < 0.2 * 0.5 * sd**2 / R + 4 * found.values.std() / np.sqrt(N)
    assert 0.75 < (found.values / found.std_errors).std() < 1.05
    assert (np.abs(found.values) < 3 * found.std_errors).mean() > 0.99
    alone = smc.combine(islands, 0.0 * within, 512)  # what is within sees nothing
    assert (np.abs(alone.values) < 3 * alone.std_errors).mean() > 0.92  # Student's t with 3


@pytest.mark.parametrize("n_particles", [64, 512])
def test_small_biases_do_not_add_up(n_particles):
    """2000 samples of three components: the total within 3.5 of its standard errors."""
    rng = np.random.default_rng(0)
    model = GaP(rng.gamma(0.5, 6.0, (10, 3)), alpha=0.3)
    X = model.sample(2000, random_state=1)
    exact = log_marginal_likelihood(X, model, n_jobs=2)
    assert exact.std_error == 0.0
    found = log_marginal_likelihood(
        X, model, "smc", random_state=0, n_jobs=2, n_particles=n_particles
    )
    alone = np.sqrt((found.std_errors**2).sum())
    assert abs(found.total - exact.total) < 3.5 * alone


def test_equal_samples_share_their_error():
    X, model = a_data_set(N=3)
    once = log_marginal_likelihood(X, model, "smc", random_state=0)
    often = log_marginal_likelihood(X[[0, 1, 0, 0, 2]], model, "smc", random_state=0)
    np.testing.assert_array_equal(often.per_sample, once.per_sample[[0, 1, 0, 0, 2]])
    for found, times in ((once, np.ones(3)), (often, np.array([3, 1, 1]))):
        alone = np.sqrt(((times * once.std_errors) ** 2).sum())
        expected = np.hypot(alone, 0.5 * times @ once.corrections)
        assert found.std_error == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_one_feature_at_twenty_components(alpha):
    w = np.random.default_rng(0).gamma(0.5, 3.0, (1, 20))
    model = GaP(w, alpha)
    v = np.array([1, 5, 40, 150])
    p = naive.one_feature_probabilities(150, w[0], model.alpha, model.beta)[v]
    ll = log_marginal_likelihood(v[:, None], model, "smc", random_state=0)
    assert (np.abs(ll.per_sample - np.log(p)) < 4 * ll.std_errors).all()
    assert ll.std_errors.max() < 0.5
    assert ll.reliable.all()


def test_what_needs_no_chance_has_no_error():
    """No counts, one column, columns without a common feature, equal columns."""
    model = GaP([[3.0, 0.0], [1.0, 0.0], [0.0, 2.0]], alpha=[0.3, 4.0], beta=[1.0, 0.5])
    X = np.array([[0, 0, 0], [4, 1, 0], [0, 0, 900], [5, 2, 7]])
    ll = log_marginal_likelihood(X, model, "smc", random_state=0)
    np.testing.assert_allclose(ll.per_sample, log_marginal_likelihood(X, model).per_sample, 1e-12)
    assert ll.methods.tolist() == ["enumerate"] * 3 + ["smc"]
    assert (ll.std_errors[:3] == 0).all()
    assert np.isinf(ll.ess[:3]).all()
    assert ll.std_error < 1e-8
    assert ll.reliable.all()
    one = NegativeMultinomial.from_rates(6.0, 1.0, [2.0, 3.0])
    equal = GaP(np.repeat([[2.0], [3.0]], 3, axis=1), alpha=[1.0, 2.0, 3.0])
    ll = log_marginal_likelihood([[40, 30]], equal, "smc", random_state=0)
    assert ll.total == pytest.approx(one.logpmf([40, 30]), rel=1e-12)
    assert ll.std_error < 1e-8


def test_what_cannot_be_is_impossible():
    model = GaP([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [3.0, 0.0, 0.0]], alpha=[0.5, 1.0, 2.0])
    ll = log_marginal_likelihood([[2, 0, 1], [3, 2, 1]], model, "smc", random_state=0)
    exact = log_marginal_likelihood([[2, 0, 1]], model)
    assert ll.per_sample[1] == -np.inf
    assert ll.methods.tolist() == ["smc", "impossible"]
    assert ll.std_errors[1] == 0
    assert abs(ll.per_sample[0] - exact.total) < 4 * ll.std_errors[0]
    nothing = log_marginal_likelihood([[0, 0], [1, 0]], GaP(np.zeros((2, 3))), "smc")
    np.testing.assert_array_equal(nothing.per_sample, [0.0, -np.inf])


def test_large_counts_and_tiny_alpha():
    model = GaP([[300.0, 1.0], [20.0, 900.0], [5.0, 5.0]], alpha=0.01, beta=[0.1, 3.0])
    X = [[100_000, 3, 0], [50_000, 50_000, 1], [0, 0, 100_000], [0, 1, 1]]
    exact = log_marginal_likelihood(X, model)
    assert exact.std_error == 0
    ll = log_marginal_likelihood(X, model, "smc", random_state=0)
    assert (np.abs(ll.per_sample - exact.per_sample) < 4 * ll.std_errors).all()
    assert ll.std_errors.max() < 0.3
    tiny = GaP([[3.0, 1.0], [1.0, 2.0]], alpha=[1e-100, 1e-90])
    exact = log_marginal_likelihood([[3, 2]], tiny).total
    ll = log_marginal_likelihood([[3, 2]], tiny, "smc", random_state=0)
    assert abs(ll.total - exact) < 4 * ll.std_error + 1e-9
    vast = GaP([[3.0, 1.0], [1.0, 2.0]], alpha=1.0)
    counts = [[10**9, 10**9]]
    ll = log_marginal_likelihood(counts, vast, "smc", random_state=0)
    assert abs(ll.total - naive_two_features(counts[0], vast)) < 4 * ll.std_error + 1e-3


def naive_two_features(v, model):
    """log p(v) at K = 2, α = 1: the integral over θ by a fine sum around its maximum."""
    from scipy.special import gammaln

    n = np.array(v, dtype=float)
    p = model.W / (model.column_norms + model.beta)
    u = np.linspace(1e-9, 1 - 1e-9, 4_000_001)
    f = n @ np.log(p[:, :1] * u + p[:, 1:] * (1 - u))
    top = f.max()
    expectation = top + np.log(np.exp(f - top).sum() * (u[1] - u[0]))
    constant = gammaln(2 + n.sum()) - gammaln(n + 1).sum()
    return expectation + constant - np.log1p(model.column_norms / model.beta).sum()
