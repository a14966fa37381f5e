"""The M-steps against the paper's linear systems and the functions that they minimise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from gapmf.em.m_steps import update_c, update_ch, update_h
from gapmf.engines.base import Statistics

F, K, N, J = 4, 3, 7, 5


@pytest.fixture
def draws():
    rng = np.random.default_rng(0)
    C = rng.poisson(3.0, (J, F, K, N))
    H = rng.gamma(2.0, 1.0, (J, K, N))
    W = rng.gamma(1.0, 1.0, (F, K))
    alpha, beta = rng.gamma(2.0, 1.0, K), rng.gamma(2.0, 1.0, K)
    V = C.sum(axis=(0, 2))
    ratio = np.zeros((F, K))
    for j in range(J):
        rate = W @ H[j]
        ratio += np.einsum("kn,fn->fk", H[j], V / rate)
    s = Statistics(C.sum(axis=(0, 3)).astype(float), H.sum(axis=(0, 2)), J * N, ratio)
    return s, C, H, V, W, alpha, beta


def test_update_c_solves_the_papers_linear_system(draws):
    """A_k w_k = b_k, Eqs. 45 to 47, with the sums over j, f, n written out."""
    s, C, *_, alpha, beta = draws
    W = update_c(s, alpha, beta)
    for k in range(K):
        A = np.zeros((F, F))
        for f in range(F):
            for g in range(F):
                A[f, g] = (J * N * alpha[k] + C[:, :, k].sum()) * (f == g) - C[:, f, k].sum()
        b = beta[k] * np.array([C[:, f, k].sum() for f in range(F)])
        np.testing.assert_allclose(W[:, k], np.linalg.solve(A, b), rtol=1e-12)


def test_update_c_minimises_q_c(draws):
    """Eqs. 43 and 44."""
    s, C, *_, alpha, beta = draws

    def q(log_w):
        W = np.exp(log_w.reshape(F, K))
        S = np.log(W.sum(axis=0) + beta)
        return (J * N * alpha * S).sum() + (C.sum(axis=(0, 3)) * (S - np.log(W))).sum()

    best = minimize(q, np.zeros(F * K), method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(update_c(s, alpha, beta), np.exp(best).reshape(F, K), rtol=1e-4)


def test_update_ch_minimises_q_ch(draws):
    s, C, H, *_ = draws
    W = update_ch(s)
    for k in range(K):
        for f in range(F):
            # Σ w h − c log w is least where its derivative Σ h − c/w is zero
            slope = H[:, k].sum() - C[:, f, k].sum() / W[f, k]
            assert slope == pytest.approx(0.0, abs=1e-9)


def test_update_h_decreases_q_h(draws):
    s, _, H, V, W, *_ = draws

    def q(W):
        return sum(((W @ H[j]) - V * np.log(W @ H[j])).sum() for j in range(J))

    assert q(update_h(s, W)) < q(W)


def test_statistics_add(draws):
    s, *_ = draws
    both = s + s
    assert both.n_draws == 2 * s.n_draws
    np.testing.assert_array_equal(both.c_sum, 2 * s.c_sum)
    np.testing.assert_array_equal(both.h_sum, 2 * s.h_sum)
    np.testing.assert_array_equal(both.ratio_sum, 2 * s.ratio_sum)
    np.testing.assert_allclose(update_ch(both), update_ch(s))


def test_only_statistics_of_one_kind_add_up():
    s = Statistics(np.ones((2, 1)), np.ones(1), 1.0)
    with_sizes = Statistics(np.ones((2, 1)), np.ones(1), 1.0, sizes=np.array([[1, 2]]))
    longer = Statistics(np.ones((2, 1)), np.ones(1), 1.0, sizes=np.array([[1, 2, 3]]))
    np.testing.assert_array_equal((with_sizes + longer).sizes, [[2, 4, 3]])
    np.testing.assert_array_equal((longer + with_sizes).sizes, [[2, 4, 3]])
    for a, b in ((s, with_sizes), (with_sizes, s)):
        with pytest.raises(TypeError, match="hold the same things"):
            a + b


def test_a_component_without_counts_gets_a_column_of_zeros():
    s = Statistics(np.array([[2.0, 0.0]]), np.array([1.0, 0.0]), 1.0, np.array([[2.0, 0.0]]))
    np.testing.assert_array_equal(update_ch(s), [[2.0, 0.0]])
    np.testing.assert_array_equal(update_h(s, np.ones((1, 2))), [[2.0, 0.0]])
