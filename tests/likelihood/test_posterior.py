"""Activations given the counts: exact where cheap, by chains elsewhere. Seeds are fixed."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

import naive
from gapmf import (
    GammaPoissonMF,
    GaP,
    log_marginal_likelihood,
    posterior_activations,
    posterior_moments,
)
from gapmf.em import fit as em_fit
from gapmf.em import history
from gapmf.errors import InvalidInputError
from gapmf.likelihood import posterior as activations
from gapmf.likelihood.marginal import comparison_log_likelihood


def a_data_set(K=3, N=20, seed=0):
    rng = np.random.default_rng(seed)
    model = GaP(rng.gamma(0.5, 8.0, (12, K)), alpha=10 ** rng.uniform(-1, 0.5, K), beta=2.0)
    return model.sample(N, random_state=1), model


def relative_error(found, exact):
    """Of each sample's activations: the length of the error over that of the vector, (N,)."""
    return np.linalg.norm(found - exact, axis=1) / np.linalg.norm(exact, axis=1)


def test_moments_are_exact_where_cheap():
    X, model = a_data_set()
    exact = posterior_moments(X, model)
    found = posterior_activations(X, model)
    assert found.exact.all()
    np.testing.assert_allclose(found.mean, exact.h)
    np.testing.assert_allclose(found.std, np.sqrt(exact.h_variance))


def test_the_rule_of_second_moments_is_what_has_to_be_cheap():
    """Five counts of eight components: 3⁷ nodes for the means, but 4⁷ for second moments."""
    model = GaP(np.random.default_rng(0).gamma(1.0, 1.0, (6, 8)))
    found = posterior_activations([[1, 1, 1, 1, 1, 0], [1, 1, 0, 0, 0, 0]], model, quantiles=())
    assert found.exact.tolist() == [False, True]


def test_a_large_alpha_hides_no_error(monkeypatch):
    """An activation of thousands in every sample would make any relative error of all small.

    In units of its prior mean it is about one. Samples are within 0.05 in 96 % of cases, see below:
    fewer than 85 of 100 are so in 1e-5 of seeds.
    """
    monkeypatch.setattr(activations, "EXACT_COST", 0.0)
    rng = np.random.default_rng(0)
    W = np.column_stack([rng.gamma(1.0, 8.0, (6, 2)), np.full(6, 1e-4)])
    model = GaP(W, alpha=[0.3, 0.3, 1e4])
    X = model.sample(100, random_state=1)
    exact = posterior_moments(X, model).h / [1.0, 1.0, 1e4]
    found = posterior_activations(X, model, quantiles=(), random_state=2).mean / [1.0, 1.0, 1e4]
    assert (relative_error(found, exact) <= 0.05).sum() >= 85


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "N", "allowed"),
    [({"precision": 0.1}, 200, 0.1), ({}, 200, 0.05), ({"careful": True}, 10, 0.01)],
)
def test_chains_agree_with_exact_moments(options, N, allowed, monkeypatch):
    """Where components overlap so much that chains of 40 % of the samples end too early.

    Of 2,000 such samples, 96 % were within the precision, and 99.9 % within twice: fewer than 92 %
    or 98 % of 200 are in 0.1 % of seeds. The careful way promises a standard error of half of what
    is allowed here.
    """
    monkeypatch.setattr(activations, "EXACT_COST", 0.0)
    X, model = a_data_set(N=N)
    X[0] = 0
    exact = posterior_moments(X, model)
    drawn = posterior_activations(X, model, random_state=0, **options)
    assert not drawn.exact[X.sum(axis=1) > 0].any()
    units = np.maximum(model.alpha, 1.0) / model.beta  # in which errors are measured
    off = relative_error(drawn.mean / units, exact.h / units)
    assert (off <= allowed).mean() > 0.92
    assert (off <= 2.0 * allowed).mean() > 0.98
    # Chains know it. The careful way reports one standard error: three are exceeded by less than
    # 1 % of samples, and by two of ten in less than 0.5 % of seeds.
    times, share = (3.0, 0.85) if "careful" in options else (2.0, 0.97)
    assert (off <= times * drawn.error + 1e-12).mean() > share
    assert off.max() > 1e-4
    assert drawn.reliable.mean() > 0.45
    deviation = np.sqrt(exact.h_variance)
    assert (np.abs(drawn.std / deviation - 1.0) < 0.3).mean() > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("precision", [0.1, 0.01])
def test_chains_of_components_that_are_distinct_end_in_time(precision, monkeypatch):
    """More than 98 % of such samples are within the precision."""
    monkeypatch.setattr(activations, "EXACT_COST", 0.0)
    model = GaP(np.random.default_rng(0).gamma(0.1, 10.0, (40, 3)), alpha=0.5)
    X = model.sample(200, random_state=1)
    options = {"precision": precision, "quantiles": (), "random_state": 0}
    found = posterior_activations(X, model, **options)
    assert found.reliable.mean() > 0.99
    assert (found.error <= precision).mean() > 0.99
    off = relative_error(found.mean, posterior_moments(X, model).h)
    assert (off <= precision).mean() > 0.95  # 0.1 % of seeds
    finer = posterior_activations(X, model, **options | {"precision": precision / 10})
    assert finer.error.mean() < 0.5 * found.error.mean()


@pytest.mark.parametrize("cost", [np.inf, 0.0])
def test_proportions_are_expected_shares_of_the_counts(cost, monkeypatch):
    """By hand: E[L | v] over the number of counts; without counts, the model's shares."""
    monkeypatch.setattr(activations, "EXACT_COST", cost)
    X, model = a_data_set(N=30)
    X[4] = 0
    found = posterior_activations(X, model, precision=0.02, quantiles=(), random_state=0)
    np.testing.assert_allclose(found.proportions.sum(axis=1), 1.0)
    np.testing.assert_array_equal(found.proportions[4], model.shares)
    total = X.sum(axis=1, keepdims=True)
    expected = posterior_moments(X, model).L / np.maximum(total, 1)
    expected[4] = model.shares
    np.testing.assert_allclose(found.proportions, expected, atol=1e-12 if cost else 0.03)


@pytest.mark.parametrize("cost", [np.inf, 0.0])
def test_deviations_of_proportions(cost, monkeypatch):
    """Against the sum over all ways to assign the counts; by chains, from 512 draws.

    Such a deviation has a standard error of 3 to 6 %: one of these ten would be off by 25 % in
    less than 0.1 % of seeds.
    """
    monkeypatch.setattr(activations, "EXACT_COST", cost)
    model = GaP([[3.0, 0.5], [1.0, 2.0], [0.2, 4.0]], alpha=[0.5, 1.3], beta=[1.0, 2.0])
    X = np.array([[4, 1, 0], [0, 3, 2], [1, 1, 1], [0, 0, 0], [0, 1, 0], [5, 0, 1]])
    found = posterior_activations(X, model, random_state=0)
    assert np.isnan(found.proportions_std[3]).all()
    for n in (0, 1, 2, 4, 5):
        tensors, weights = naive.posterior_of_components(
            X[n : n + 1].T, model.W, model.alpha, model.beta
        )
        shares = np.array([C[:, :, 0].sum(axis=0) / X[n].sum() for C in tensors])
        mean = weights @ shares
        expected = np.sqrt(weights @ (shares - mean) ** 2)
        np.testing.assert_allclose(found.proportions_std[n], expected, rtol=1e-6 if cost else 0.25)
    without = posterior_activations(X, model, quantiles=(), random_state=0)
    assert np.isnan(without.proportions_std).all() == (cost == 0.0)


def test_quantiles_and_draws_are_those_of_the_posterior():
    """One component: h given v is Gamma(α + n, S + β). Kolmogorov-Smirnov at the 0.1 % level."""
    model = GaP([[2.0], [1.0]], alpha=0.7, beta=0.5)
    found = posterior_activations(
        [[4, 3], [0, 0]], model, quantiles=(0.1, 0.5, 0.9), n_draws=1024, random_state=0
    )
    for n, total in enumerate((7, 0)):
        law = stats.gamma(0.7 + total, scale=1 / 3.5)
        assert stats.kstest(found.draws[:, n, 0], law.cdf).pvalue > 1e-3
        np.testing.assert_allclose(law.cdf(found.quantiles[:, n, 0]), [0.1, 0.5, 0.9], atol=0.05)
        assert found.mean[n, 0] == pytest.approx(law.mean())
        assert found.std[n, 0] == pytest.approx(law.std())


@pytest.mark.slow
@pytest.mark.parametrize("careful", [False, True])
def test_draws_cover_what_the_model_drew(careful, monkeypatch):
    """Of activations that the model drew, 90 % lie in their own 5 % to 95 % intervals.

    The number of careful chains is not raised where they disagree: it is their law that is tested.
    """
    monkeypatch.setattr(activations, "CAREFUL_ERROR", np.inf)
    model = a_data_set(K=5)[1]
    X, latents = model.sample(120, random_state=3, return_latent=True)
    found = posterior_activations(X, model, careful=careful, random_state=0)
    low, high = found.quantiles
    inside = (low <= latents.H) & (high >= latents.H)
    # 600 intervals: three sigmas are 0.037 if the five of a sample are independent.
    assert abs(inside.mean() - 0.9) < 0.037


@pytest.mark.slow
@pytest.mark.parametrize("careful", [False, True])
def test_company_order_and_threads_do_not_matter(careful, monkeypatch):
    monkeypatch.setattr(activations, "EXACT_COST", 0.0)
    X, model = a_data_set(K=4, N=4)
    asked = {"model": model, "careful": careful}
    base = posterior_activations(X, **asked, random_state=1)
    order = np.random.default_rng(0).permutation(len(X))
    for n_jobs in (1, 2):
        again = posterior_activations(
            sp.csc_array(X[order]), **asked, random_state=1, n_jobs=n_jobs
        )
        np.testing.assert_array_equal(again.mean, base.mean[order])
        np.testing.assert_array_equal(again.quantiles, base.quantiles[:, order])
    alone = posterior_activations(X[[3]], **asked, random_state=1)
    np.testing.assert_array_equal(alone.mean[0], base.mean[3])
    assert (posterior_activations(X, **asked, random_state=2).mean != base.mean).any()


def test_blocks_of_exact_moments_do_not_matter(monkeypatch):
    X, model = a_data_set()
    base = posterior_activations(X, model, quantiles=())
    monkeypatch.setattr(activations, "MAX_MOMENTS", 3 * 9)
    np.testing.assert_array_equal(posterior_activations(X, model, quantiles=()).mean, base.mean)


def test_what_chains_may_have_missed_is_flagged(monkeypatch):
    """A sample with several modes: few chains see that they disagree, many find the mean."""
    monkeypatch.setattr(activations, "EXACT_COST", 0.0)
    v, W = [[8, 8, 8]], [[3, 1, 0.5], [1, 2, 0.1], [0.3, 0.2, 4]]
    for seed in range(3):  # even where all chains are in the same mode, and agree
        for careful in (False, True):
            found = posterior_activations(v, GaP(W, alpha=1e-4), careful=careful, random_state=seed)
            assert not found.reliable[0]
    model = GaP(W, alpha=0.1)
    exact = posterior_moments(v, model).h
    for seed in range(3):
        careful = posterior_activations(v, model, careful=True, random_state=seed)
        assert relative_error(careful.mean, exact)[0] < 4 * careful.error[0] + 1e-3
        assert careful.reliable[0]
    model = GaP(W, alpha=0.01)
    reliable = [
        posterior_activations(v, model, random_state=seed).reliable[0] for seed in range(20)
    ]
    assert np.mean(reliable) < 0.3


def test_no_dense_matrix_is_made():
    """20 samples of 400,000 features: dense they would be 64 MB."""
    rng = np.random.default_rng(0)
    F, K = 400_000, 3
    model = GaP(rng.gamma(0.3, 1e-4, (F, K)), alpha=0.5)
    X = sp.random_array((20, F), density=5e-5, random_state=rng)
    X = sp.csr_array((np.ones(X.nnz, dtype=np.int64), X.tocsr().indices, X.tocsr().indptr), X.shape)
    posterior_activations(X[:2], model, quantiles=())  # compiles
    log_marginal_likelihood(X[:2], model, "smc", n_particles=64)
    tracemalloc.start()
    try:
        posterior_activations(X, model, quantiles=())
        log_marginal_likelihood(X, model, "smc", n_particles=64)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3e7  # W has 10 MB


def test_refusals():
    model = GaP([[1.0, 2.0], [0.0, 0.0]])
    with pytest.raises(InvalidInputError, match="quantiles must lie between 0 and 1"):
        posterior_activations([[1, 0]], model, quantiles=(5, 95))
    with pytest.raises(InvalidInputError, match="must be at most 1024"):
        posterior_activations([[1, 0]], model, n_draws=5000)
    with pytest.raises(InvalidInputError, match="feature 1 has counts"):
        posterior_activations([[1, 1]], model)
    for precision in (0.0, -1.0, np.nan, "high"):
        with pytest.raises(InvalidInputError, match="precision must be"):
            posterior_activations([[1, 0]], model, precision=precision)


@pytest.mark.slow
def test_the_estimator_answers():
    X, _ = a_data_set(K=4, N=6)
    given = {"n_components": 4, "tol": 1e-2, "random_state": 0}
    est = GammaPoissonMF(**given, n_jobs=2).fit(X)
    H = est.transform(X)
    assert H.shape == (6, 4)
    np.testing.assert_array_equal(est.transform(X[3:5]), H[3:5])
    np.testing.assert_array_equal(GammaPoissonMF(**given, n_jobs=1).fit_transform(X), H)
    posterior = est.posterior(X, (0.25,), n_draws=5)
    np.testing.assert_array_equal(posterior.mean, H)
    assert posterior.quantiles.shape == (1, 6, 4)
    assert posterior.draws.shape == (5, 6, 4)
    each = est.log_likelihood(X, precision=np.inf)
    np.testing.assert_array_equal(est.score_samples(X), each.per_sample)
    np.testing.assert_array_equal(est.score_samples(X[2:3]), each.per_sample[2:3])
    carefully = est.log_likelihood(X, precision=None)
    noise = np.hypot(each.std_errors, carefully.std_errors)
    assert (np.abs(each.per_sample - carefully.per_sample) < 4 * noise).all()
    assert est.score(X) == est.log_likelihood(X).total / 6
    assert est.score(X) == pytest.approx(carefully.total / 6, abs=3e-4 * X.sum() / 6)


@pytest.mark.slow
def test_scores_on_the_way(monkeypatch):
    """Every third iteration, outside the clock."""
    X, _ = a_data_set(K=2, N=15)
    seen = []
    est = GammaPoissonMF(2, score_every=3, tol=1e3, random_state=0, callbacks=[seen.append]).fit(X)
    values = est.history_["log_likelihood"]
    assert np.isfinite(values[2::3]).all()
    assert np.isnan(np.delete(values, np.arange(2, len(values), 3))).all()
    np.testing.assert_array_equal([record.log_likelihood for record in seen], values)
    assert values[2::3][-1] > values[2]
    plain = GammaPoissonMF(2, tol=1e3, random_state=0).fit(X)
    np.testing.assert_array_equal(est.components_, plain.components_)
    # The clock of the fit stands still while a score is computed.
    now = [0.0]

    def slow_score(counts, model, **options):
        now[0] += 1000.0
        return comparison_log_likelihood(counts, model, **options)

    monkeypatch.setattr(history.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(em_fit, "comparison_log_likelihood", slow_score)
    slow = GammaPoissonMF(2, score_every=1, tol=1e3, random_state=0).fit(X)
    assert now[0] == 1000.0 * slow.n_iter_
    assert (slow.history_["seconds"] == 0.0).all()
    with pytest.raises(InvalidInputError, match="score_every must be a whole number, 0 or more"):
        GammaPoissonMF(2, score_every=-1).fit(X)
