"""The estimated likelihood: against exact values, with the error that it states."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import naive
from gapmf import GaP, NegativeMultinomial, log_marginal_likelihood, posterior_moments
from gapmf.counts import check_counts
from gapmf.kernels import smc as kernel
from gapmf.kernels.particles import make_particles
from gapmf.likelihood import smc
from gapmf.likelihood.exact import scaled_probabilities
from gapmf.likelihood.guide import MOST, concentration, guides
from gapmf.likelihood.streams import stream_names
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


def estimates(model, v, n_runs, n_particles, guide=0.0, seed=0):
    """exp(log-estimate − exact) of independent runs of a single island."""
    v = np.asarray(v)
    features = np.flatnonzero(v)
    counts = v[features].astype(np.int64)
    p, log_scale = scaled_probabilities(model.W[features], model.column_norms + model.beta)
    at = make_particles(n_particles, model.n_components, features.size)
    J = features.size
    rows = np.arange(n_runs + 1) * J
    values, variances = np.empty((2, n_runs))
    kernel.estimates(
        rows, np.tile(np.arange(J), n_runs), np.tile(counts, n_runs), p, model.alpha,
        np.tile(guide * np.ones(model.n_components), (n_runs, 1)), np.uint64(seed),
        np.arange(n_runs, dtype=np.uint64), at, values, variances,
    )  # fmt: skip
    exact = log_marginal_likelihood(v[None], model).total
    constant = smc._constants(smc.take_block(sp.csr_array(v[None]), np.array([0])), log_scale)
    constant -= model.alpha @ np.log1p(model.column_norms / model.beta)
    return np.exp(values + constant - exact), variances


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


def test_a_guide_finds_what_a_small_alpha_hides():
    """One component explains half of the tokens, but hardly ever gets its first one."""
    model = GaP([[8.0, 1.0], [1.0, 8.0], [4.0, 4.0]], alpha=[1.0, 0.003])
    v = [10, 10, 5]
    alone, _ = estimates(model, v, 3000, 32)
    guided, _ = estimates(model, v, 3000, 32, guide=[1.0, 1.0])
    for ratios in (alone, guided):
        assert abs(ratios.mean() - 1.0) < 4 * ratios.std() / np.sqrt(3000)
    assert guided.var() < 0.1 * alone.var()


def test_guides_are_a_part_of_the_expected_sizes():
    X, model = a_data_set(N=8, K=3)
    model = GaP(model.W, 0.3)
    X[3] = 0
    found = guides(check_counts(X), model, np.uint64(1), 4096, 1).sizes
    expected = posterior_moments(X, model)
    sizes = expected.h * (model.column_norms + model.beta) - model.alpha
    assert (found[3] == 0).all()
    mass = found.sum(axis=1)
    assert np.isclose(mass, MOST * model.alpha.sum()).any()
    some = (mass > 0) & (mass < 0.999 * MOST * model.alpha.sum())
    assert some.any()
    assert mass.max() <= MOST * model.alpha.sum() * (1 + 1e-9)
    part = np.divide(X.sum(axis=1), mass, out=np.zeros(8), where=mass > 0)
    assert np.abs(found * part[:, None] - sizes)[mass > 0].max() < 0.25 * X.sum(axis=1).max()
    np.testing.assert_array_equal(
        guides(check_counts(X[[5, 2]]), model, np.uint64(1), 4096, 2).sizes, found[[5, 2]]
    )


def test_the_concentration_of_a_dirichlet_law():
    """θ given L, over L of data drawn from the prior, is as sure as the prior."""
    rng = np.random.default_rng(0)
    alpha = np.array([3.0, 5.0, 2.0])
    L = np.array([rng.multinomial(200, theta) for theta in rng.dirichlet(alpha, 20_000)])
    assert concentration(alpha + L) == pytest.approx(10.0, rel=0.03)
    assert concentration(np.tile(alpha, (4, 1))) == pytest.approx(10.0)


def test_a_guide_is_no_surer_than_the_posterior():
    """Two features say little about three overlapping components, however many counts there are."""
    model = GaP([[1040.0, 1055.0, 647.0], [375.0, 711.0, 652.0]], [1.68, 1.31, 1.40])
    X = check_counts([[1591, 971]])
    found = guides(X, model, np.uint64(1), 4096, 1).sizes
    assert found.sum() < 3.0
    exact = log_marginal_likelihood(X, model).total
    z = []
    for seed in range(20):
        estimate = log_marginal_likelihood(X, model, "smc", random_state=seed)
        z.append((estimate.total - exact) / estimate.std_error)
    assert np.abs(z).max() < 4.0


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


def a_data_set(N=12, K=6, F=30):
    rng = np.random.default_rng(3)
    model = GaP(rng.gamma(0.3, 10.0, (F, K)), alpha=10 ** rng.uniform(-1, 0.5, K))
    return model.sample(N, random_state=1), model


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


def test_auto_estimates_only_where_it_must():
    rng = np.random.default_rng(0)
    model = GaP(rng.gamma(1.0, 10.0, (5, 12)))
    X = np.array([[0] * 5, [1, 0, 1, 0, 0], [40, 30, 20, 10, 0], [2, 0, 0, 0, 0]])
    ll = log_marginal_likelihood(X, model, random_state=0)
    assert (ll.methods == "smc").tolist() == [False, False, True, False]
    np.testing.assert_array_equal(ll.std_errors > 0, ll.methods == "smc")
    assert "smc 1" in ll.method
    alone = log_marginal_likelihood(X[[2]], model, "smc", random_state=0)
    assert alone.total == ll.per_sample[2]
    assert ll.std_errors[2] == alone.std_errors[0]


def test_a_poor_estimate_says_so():
    rng = np.random.default_rng(0)
    model = GaP(1.0 + rng.gamma(1.0, 1.0, (200, 30)), alpha=0.02)
    x = rng.multinomial(3000, np.full(200, 1 / 200))[None]
    poor = log_marginal_likelihood(x, model, "smc", random_state=0, n_particles=32)
    assert not poor.reliable[0]
    assert poor.ess[0] < 8


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


def test_who_gets_more_particles_does_not_bias_the_total():
    """3000 samples, a seventh with more: the total within 4 of its errors, as if independent."""
    rng = np.random.default_rng(0)
    model = GaP(rng.gamma(0.5, 20.0, (8, 3)), alpha=0.05)
    X = model.sample(3000, random_state=1)
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
    with pytest.raises(ValueError, match="can be told apart"):
        log_marginal_likelihood([[1]], model, "smc", n_particles=10**8)
    with pytest.raises(ValueError, match="random_state must be"):
        log_marginal_likelihood([[1]], model, "smc", random_state="seed")


def test_many_components_have_a_default_too():
    for K in (300, 2000):
        found = log_marginal_likelihood(np.eye(2, dtype=int), GaP(np.ones((2, K))), "smc")
        assert np.isfinite(found.total)


def test_tiny_alpha_is_flagged():
    """A mode that no particle may have come by."""
    W = [[3, 1, 0.5], [1, 2, 0.1], [0.3, 0.2, 4]]
    for method in ("smc", "importance", "chib", "reverse"):
        found = log_marginal_likelihood([[8, 8, 8]], GaP(W, alpha=1e-5), method, random_state=0)
        assert not found.reliable[0]
    fine = log_marginal_likelihood([[8, 8, 8]], GaP(W, alpha=0.05), "smc", random_state=0)
    assert fine.reliable[0]
    exact = log_marginal_likelihood([[8, 8, 8]], GaP(W, alpha=1e-5))
    assert exact.reliable[0]


def test_names_of_streams_are_stable():
    """They must not change from one machine, process or version to the next."""
    rows = sp.csr_array(np.array([[0, 3, 0, 1], [3, 0, 0, 1]]))
    first, second = (stream_names(rows, n, 8, smc.N_ISLANDS) for n in (0, 1))
    assert len({*first, *second}) == 2 * smc.N_ISLANDS
    wide = sp.csr_array((rows.data, rows.indices.astype(np.int64), rows.indptr), rows.shape)
    assert stream_names(wide, 0, 8, smc.N_ISLANDS) == first
    assert first[0] == FIRST_NAME


FIRST_NAME = 16047000857053376359
