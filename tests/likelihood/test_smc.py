"""Sequential Monte Carlo: unbiased, within its error bars, with more particles where needed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from smc_runs import a_data_set, estimates

import naive
from gapmf import GaP, NegativeMultinomial, log_marginal_likelihood
from gapmf.kernels import token_smc as kernel
from gapmf.kernels.particles import make_particles
from gapmf.likelihood import smc
from strategies import some_problem


@pytest.mark.slow
def test_exact_values_lie_within_the_error_bars():
    """Of 120 random problems at most 4 are outside three standard errors, and there is no bias.

    Of many thousands 1 % are, so that more than 4 are in 1 % of seeds.
    """
    rng = np.random.default_rng(1)
    z = []
    while len(z) < 120:
        model, x = some_problem(rng)
        exact = log_marginal_likelihood(x, model)
        if exact.std_error > 0:
            continue
        estimate = log_marginal_likelihood(x, model, "smc", random_state=len(z))
        if estimate.methods[0] == "smc":
            z.append((estimate.total - exact.total) / estimate.std_error)
    z = np.array(z)
    assert (np.abs(z) > 3).sum() <= 4
    assert abs(z.mean()) < 0.3
    assert 0.6 < np.sqrt((np.clip(z, -4, 4) ** 2).mean()) < 1.3


@pytest.mark.slow
@pytest.mark.parametrize(("guide", "least"), [(0.0, 0.5), (0.7, 0.5), ([2.0, 0.1, 1.0], 0.15)])
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
def test_the_probability_is_estimated_without_bias(W, alpha, v, n_runs, n_particles, guide, least):
    """Whatever the guide, within four standard errors (0.006 % of seeds are outside)."""
    guide = np.broadcast_to(guide, 3)[: len(alpha)]
    ratios, variances = estimates(GaP(W, alpha), v, n_runs, n_particles, guide)
    error = ratios.std() / np.sqrt(n_runs)
    assert error < 0.04
    assert abs(ratios.mean() - 1.0) < 4 * error
    # The variance of the weights within a run is somewhat below that between runs, and far below
    # with a bad guide.
    assert least < variances.mean() / ratios.var() < 1.2


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


@pytest.mark.slow
@pytest.mark.parametrize(("n_particles", "n_samples"), [(64, 1200), (512, 600)])
def test_small_biases_do_not_add_up(n_particles, n_samples):
    """Many samples of three components: the total within 3.5 of its standard errors."""
    rng = np.random.default_rng(0)
    model = GaP(rng.gamma(0.5, 6.0, (10, 3)), alpha=0.3)
    X = model.sample(n_samples, random_state=1)
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


@pytest.mark.slow
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


def test_company_order_format_and_threads_do_not_matter():
    X, model = a_data_set()
    base = log_marginal_likelihood(X, model, "smc", random_state=5, n_particles=64)
    assert (base.std_errors > 0).all()
    order = np.random.default_rng(1).permutation(len(X))
    for n_jobs in (1, 2, 5):
        again = log_marginal_likelihood(
            sp.csc_array(X[order]), model, "smc", random_state=5, n_jobs=n_jobs, n_particles=64
        )
        np.testing.assert_array_equal(again.per_sample, base.per_sample[order])
        np.testing.assert_array_equal(again.std_errors, base.std_errors[order])
    for n in (0, 7):
        alone = log_marginal_likelihood(X[[n]], model, "smc", random_state=5, n_particles=64)
        assert alone.total == base.per_sample[n]
        assert alone.std_errors[0] == base.std_errors[n]
    other = log_marginal_likelihood(X, model, "smc", random_state=6, n_particles=64)
    assert (other.per_sample != base.per_sample).all()


def test_blocks_do_not_matter(monkeypatch):
    X, model = a_data_set()
    base = log_marginal_likelihood(X, model, "smc", random_state=5, n_particles=64)
    monkeypatch.setattr(smc, "_BLOCK_COST", 1.0)
    singly = log_marginal_likelihood(X, model, "smc", random_state=5, n_particles=64)
    np.testing.assert_array_equal(singly.per_sample, base.per_sample)


def test_more_particles_err_less():
    X, model = a_data_set()
    few = log_marginal_likelihood(X, model, "smc", random_state=0, n_particles=128, escalate=False)
    many = log_marginal_likelihood(
        X, model, "smc", random_state=0, n_particles=2048, escalate=False
    )
    assert 0.15 < many.std_error / few.std_error < 0.4
    assert abs(many.total - few.total) < 4 * few.std_error
    assert (many.ess > few.ess).all()
    assert (many.ess < 2048).all()


def test_a_poor_estimate_says_so():
    rng = np.random.default_rng(0)
    model = GaP(1.0 + rng.gamma(1.0, 1.0, (200, 30)), alpha=0.02)
    x = rng.multinomial(3000, np.full(200, 1 / 200))[None]
    poor = log_marginal_likelihood(x, model, "smc", random_state=0, n_particles=32)
    assert not poor.reliable[0]
    assert poor.ess[0] < 8


@pytest.mark.slow
def test_samples_that_need_more_particles_get_them():
    rng = np.random.default_rng(3)
    model = GaP(rng.gamma(3.0, 3.0, (60, 10)), alpha=0.05)
    X = model.sample(30, random_state=1)
    X = X[X.any(axis=1)]
    usual = log_marginal_likelihood(X, model, "smc", random_state=5, n_particles=32)
    alike = [
        log_marginal_likelihood(
            X, model, "smc", random_state=5, n_particles=32 * factor, escalate=False
        )
        for factor in (1, *smc.ESCALATION)
    ]
    assert 3 <= (~alike[0].reliable).sum() <= len(X) - 3
    assert usual.reliable.sum() > alike[0].reliable.sum()
    took = np.array([usual.per_sample == few.per_sample for few in alike])
    # The guide has as many chains for all.
    assert took[0].any()
    assert not took[0].all()
    assert (usual.std_errors == alike[0].std_errors)[took[0]].sum() >= 5


@pytest.mark.slow
def test_who_gets_more_particles_does_not_bias_the_total():
    """2000 samples, a seventh with more: the total within 4 of its errors, as if independent."""
    rng = np.random.default_rng(0)
    model = GaP(rng.gamma(0.5, 20.0, (8, 3)), alpha=0.05)
    X = model.sample(2000, random_state=1)
    exact = log_marginal_likelihood(X, model, n_jobs=2)
    assert exact.std_error == 0.0
    found, few = (
        log_marginal_likelihood(
            X, model, "smc", random_state=0, n_jobs=2, n_particles=16, escalate=escalate
        )
        for escalate in (True, False)
    )
    assert (found.per_sample != few.per_sample).mean() > 0.1
    assert found.reliable.mean() > few.reliable.mean() + 0.1
    for ll in (found, few):
        assert abs(ll.total - exact.total) < 4 * np.sqrt((ll.std_errors**2).sum())


def test_arguments_are_checked():
    model = GaP([[1.0, 2.0]])
    for bad in (0, 15, 2.5, "many"):
        with pytest.raises(ValueError, match="n_particles must be a whole number, 16 or more"):
            log_marginal_likelihood([[1]], model, "smc", n_particles=bad)
    with pytest.raises(ValueError, match="there are random numbers for"):
        log_marginal_likelihood([[1]], model, "smc", n_particles=10**8)
    with pytest.raises(ValueError, match="random_state must be"):
        log_marginal_likelihood([[1]], model, "smc", random_state="seed")


def test_many_components_have_a_default_too():
    for K in (300, 2000):
        found = log_marginal_likelihood(np.eye(2, dtype=int), GaP(np.ones((2, K))), "smc")
        assert np.isfinite(found.total)
