"""The identities behind the rates of EM-C and EM-CH, on ten problems."""

from __future__ import annotations

import numpy as np
import pytest

from gapmf import GaP
from gapmf.counts import check_counts
from gapmf.datasets import paper_synthetic
from gapmf.em.exact_em import em_c_step, em_ch_step
from gapmf.em.expectation import ExactExpectation
from gapmf.em.history import History
from gapmf.em.maximum import fit_maximum
from gapmf.em.start import random_start
from gapmf.reproduce.rates import convergence_rates, jacobian, observed_rate

PROBLEMS = [
    (scale, K, alpha)
    for scale in (1.0, 5.0, 30.0)
    for K, alpha in ((2, 1.0), (2, (0.4, 2.0)), (3, 1.0))
] + [(100.0, 2, 1.0)]


def scale_matrix(model):
    """R, (FK, FK): what a change of a column's norm does to the column, w_k 1ᵀ/(S_k + β_k)."""
    F, K = model.W.shape
    R = np.zeros((F, K, F, K))
    for k in range(K):
        R[:, k, :, k] = (model.W[:, k] / (model.column_norms[k] + model.beta[k]))[:, None]
    return R.reshape(F * K, F * K)


def _solve(scale, K, alpha):
    X, _ = paper_synthetic(scale, 60, random_state=int(scale) + K)
    expect = ExactExpectation(check_counts(X))
    alpha = np.broadcast_to(alpha, K).astype(float)
    beta = np.linspace(1.0, 2.0, K)
    W = random_start(expect.mean_counts, alpha, beta, np.random.default_rng(0))
    fit = fit_maximum(expect, GaP(W, alpha, beta), max_iter=2000, history=History())
    return expect, fit.model


@pytest.mark.parametrize(("scale", "K", "alpha"), PROBLEMS)
def test_identities_of_the_jacobians(scale, K, alpha):
    expect, model = _solve(scale, K, alpha)
    J_c, J_ch = (jacobian(expect, model, step) for step in (em_c_step, em_ch_step))
    R = scale_matrix(model)
    np.testing.assert_allclose(J_ch, R + (np.eye(len(R)) - R) @ J_c, atol=2e-5)
    rates = convergence_rates(expect, model)
    assert (rates.em_ch >= rates.em_c - 1e-4).all()
    assert rates.em_ch[0] >= rates.rho.max() - 1e-5
    assert (np.abs(rates.em_c) < 1e-4).sum() >= model.n_features
    assert rates.em_c.min() > -1e-4
    assert rates.em_c[0] < 1.0 + 1e-4


@pytest.mark.parametrize("step", [em_c_step, em_ch_step])
def test_iterates_contract_by_the_largest_eigenvalue(step):
    expect, model = _solve(5.0, 2, (0.4, 2.0))  # its second eigenvalue is next to the first
    rates = convergence_rates(expect, model)
    largest = (rates.em_c if step is em_c_step else rates.em_ch)[0]
    assert observed_rate(expect, model, step, n_iter=800) == pytest.approx(largest, abs=1e-3)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_one_component(scale):
    """EM-C is exact after one step; EM-CH contracts by exactly ρ."""
    X, _ = paper_synthetic(scale, 30, random_state=0)
    expect = ExactExpectation(check_counts(X))
    model = GaP(X.mean(axis=0)[:, None] * 2.0, beta=2.0)
    rho = model.column_norms[0] / (model.column_norms[0] + 2.0)
    assert observed_rate(expect, model, em_ch_step, n_iter=3) == pytest.approx(rho, rel=1e-4)
    assert np.abs(jacobian(expect, model, em_c_step)).max() < 1e-7


def test_a_vanishing_column_is_multiplied_by_r():
    expect, model = _solve(5.0, 2, 1.0)
    r, _ = expect.score(model)
    extra = np.full((4, 1), 1e-9)
    larger = GaP(np.hstack([model.W, extra]), [1.0, 1.0, 0.7], [*model.beta, 3.0])
    at = expect.e_step(larger)
    for step in (em_c_step, em_ch_step):
        np.testing.assert_allclose(step(larger, at).W[:, 2] / 1e-9, r, rtol=1e-6)
