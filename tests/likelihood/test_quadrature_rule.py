"""Quadrature rules: exactness on monomials, which bounds the error of the likelihood."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.special import betaln, logsumexp

from gapmf.likelihood.exact import beta_rule, nodes_per_stick, simplex_rule

SHAPES = [
    (1.0, 1.0),
    (0.05, 2.0),
    (0.01, 0.3),
    (20.0, 0.05),
    (1000.0, 1000.0),
    (1e4, 0.01),
    (1e-3, 1e-3),
    (3.0, 40.0),
    (1e-6, 1.0),
    (1e-10, 1e-3),
    (1e6, 0.01),
]


@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("m", [1, 2, 7, 100, 427])
def test_gauss_rule_is_exact_to_degree_2m_minus_1(a, b, m):
    u, y, log_w = beta_rule(a, b, m)
    assert (np.diff(u) > 0).all()
    assert (np.diff(y) < 0).all()
    assert u.min() > 0
    assert y.min() > 0
    rng = np.random.default_rng(m)
    powers = {(0, 0), (1, 0), (0, 1), (2 * m - 1, 0), (0, 2 * m - 1), (m, m - 1)}
    powers |= {(int(i), 2 * m - 1 - int(i)) for i in rng.integers(0, 2 * m, 6)}
    for i, j in powers:
        value = logsumexp(log_w + i * np.log(u) + j * np.log(y))
        with mpmath.workdps(40):
            ratio = mpmath.beta(mpmath.mpf(a) + i, mpmath.mpf(b) + j) / mpmath.beta(a, b)
            expected = float(mpmath.log(ratio))
        assert abs(value - expected) < 1e-14 * (i + j) + 5e-13, (i, j)


def test_one_node_fewer_is_not_exact():
    u, y, log_w = beta_rule(0.7, 1.3, 10)
    value = logsumexp(log_w + 10 * np.log(u) + 10 * np.log(y))  # degree 20, one too many
    assert abs(value - (betaln(10.7, 11.3) - betaln(0.7, 1.3))) > 1e-6


@pytest.mark.parametrize("n", [90, 400, 3000, 20000])
@pytest.mark.parametrize(
    "alpha", [(1.0, 1.0), (0.01, 0.01), (0.3, 1.0), (154.0, 0.017), (20.0, 20.0), (1000.0, 0.5)]
)
def test_dense_rule_integrates_every_monomial(alpha, n):
    """Each u^i (1−u)^(d−i), d ≤ n, with a relative error that is rounding's."""
    a, b = alpha
    nodes, complements, log_w = (part[0] for part in simplex_rule(np.array(alpha), n))
    for degree in (n, n // 2, 3):
        i = np.unique(np.linspace(0, degree, 60).astype(int))
        i = np.union1d(i, np.minimum(np.arange(20), degree))[:, None]
        terms = log_w + i * np.log(nodes) + (degree - i) * np.log(complements)
        value = logsumexp(terms, axis=1)
        expected = betaln(a + i, b + degree - i)[:, 0] - betaln(a, b)
        # log-sums and betaln both round at about 1e-16 of n log u
        assert np.abs(value - expected).max() < 2e-12 + 2e-14 * (n + a + b)


def test_dense_rule_is_smaller_and_sizes_are_shared():
    n = np.arange(1, 4000)
    m, dense = nodes_per_stick(np.array([1.0, 1.0, 1.0]), n)
    assert (np.diff(m) >= 0).all()
    assert not dense[:80].any()
    assert dense[200:].all()
    assert (m[~dense] >= n[~dense] // 2 + 1).all()
    assert (m[dense] >= 4 * np.sqrt(n[dense]) + 6).all()
    assert np.unique(m).size < 90


def test_simplex_rule_has_dirichlet_moments():
    alpha = np.array([0.2, 3.5, 1.0, 0.01])
    for n in (4, 300):
        rule = simplex_rule(alpha, n)
        k, m = rule.nodes.shape
        grid = np.array(np.meshgrid(*[range(m)] * k, indexing="ij")).reshape(k, -1)
        sticks = np.arange(k)[:, None]
        u, y = rule.nodes[sticks, grid], rule.complements[sticks, grid]
        w = np.exp(rule.log_weights[sticks, grid].sum(axis=0))
        theta = np.vstack([u, np.ones_like(w)]) * np.vstack([np.ones_like(w), np.cumprod(y, 0)])
        np.testing.assert_allclose(theta @ w, alpha / alpha.sum(), rtol=1e-12)
        A = alpha.sum()
        second = (np.outer(alpha, alpha) + np.diag(alpha)) / (A * (A + 1))
        np.testing.assert_allclose((theta * w) @ theta.T, second, rtol=1e-12)
