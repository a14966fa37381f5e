"""Who gets how many particles, what does not matter, and what is flagged or refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from smc_runs import a_data_set

from gapmf import GaP, log_marginal_likelihood
from gapmf.likelihood import smc
from gapmf.likelihood.sample import stream_keys

FIRST_NAME = 16047000857053376359


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
    with pytest.raises(ValueError, match="have distinct random numbers"):
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
    first, second = (stream_keys(rows, n, 8, smc.N_ISLANDS) for n in (0, 1))
    assert len({*first, *second}) == 2 * smc.N_ISLANDS
    wide = sp.csr_array((rows.data, rows.indices.astype(np.int64), rows.indptr), rows.shape)
    assert stream_keys(wide, 0, 8, smc.N_ISLANDS) == first
    assert first[0] == FIRST_NAME
