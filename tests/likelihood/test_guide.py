"""Guides of particles: they reduce the variance, and never bias an estimate."""

from __future__ import annotations

import numpy as np
import pytest
from smc_runs import a_data_set, estimates

from gapmf import GaP, log_marginal_likelihood, posterior_moments
from gapmf.counts import check_counts
from gapmf.likelihood.guide import MAX_GUIDE_MASS, concentration, guides


@pytest.mark.slow
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
    assert np.isclose(mass, MAX_GUIDE_MASS * model.alpha.sum()).any()
    some = (mass > 0) & (mass < 0.999 * MAX_GUIDE_MASS * model.alpha.sum())
    assert some.any()
    assert mass.max() <= MAX_GUIDE_MASS * model.alpha.sum() * (1 + 1e-9)
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
