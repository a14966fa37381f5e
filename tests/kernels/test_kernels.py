"""Kernels on small inputs: these tests also run without compilation (see the last)."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import gammaln

import naive
from gapmf.kernels import enumeration, polynomial
from gapmf.kernels import quadrature_sums as quadrature
from gapmf.likelihood.exact import simplex_rule


def _problem(seed, F=3, K=3, most=4):
    rng = np.random.default_rng(seed)
    W = rng.gamma(1.0, 2.0, (F, K))
    alpha, beta = rng.gamma(1.0, 1.0, K) + 0.05, rng.gamma(1.0, 1.0, K) + 0.1
    v = rng.integers(1, most + 1, F)
    return v, W, alpha, beta


def _csr(v):
    return np.array([0, v.size]), np.arange(v.size), v


def _expected(v, W, alpha, beta):
    """log Σ_C Ω Π p^c, from the literal likelihood."""
    p0 = (alpha * np.log(beta / (W.sum(axis=0) + beta))).sum()
    return np.log(naive.marginal_likelihood(v[:, None], W, alpha, beta)) - p0


@pytest.mark.parametrize("K", [2, 3, 4])
def test_three_kernels_on_one_sample(K):
    v, W, alpha, beta = _problem(K, K=K)
    p = W / (W.sum(axis=0) + beta)
    expected = _expected(v, W, alpha, beta)
    log_factorial = gammaln(v + 1).sum()
    assert enumeration.log_sum_over_components(v, np.log(p), alpha) == pytest.approx(expected)
    (grown,) = polynomial.log_totals(*_csr(v), p, alpha)
    assert grown - log_factorial == pytest.approx(expected, abs=1e-11)
    rule = simplex_rule(alpha, int(v.sum()))
    top, total = quadrature.expectations(*_csr(v), p, *rule, np.empty((0, 0)))
    log_mean = top[0] + np.log(total[0])
    A = alpha.sum()
    log_rising = gammaln(A + v.sum()) - gammaln(A)
    assert log_mean + log_rising - log_factorial == pytest.approx(expected, abs=1e-11)


def test_rows_of_the_simplex_know_their_neighbours():
    for n, K in [(5, 2), (6, 3), (4, 4), (3, 5), (0, 3)]:
        tuples, sums, start, before = polynomial.rows_of_simplex(n, K)
        place = {tuple(t): r for r, t in enumerate(tuples.tolist())}
        assert len(place) == len(tuples)
        assert (sums == tuples.sum(axis=1)).all()
        assert (np.diff(start) == n - sums + 1).all()
        for r, t in enumerate(tuples.tolist()):
            for d in range(K - 2):
                less = (*t[:d], t[d] - 1, *t[d + 1 :])
                assert before[r, d] == place.get(less, -1)


@pytest.mark.parametrize("tiny", [None, 1e-10, 1e-60])
def test_grown_coefficients_are_the_law_of_l(tiny):
    """b is P(L | v): compared with the sum over components, gathered by L."""
    v, W, alpha, beta = _problem(8, F=2, K=3)
    alpha = alpha if tiny is None else tiny * np.array([1.0, 2.0, 1e5])
    p = W / (W.sum(axis=0) + beta)
    law = {}
    for C in naive.admissible(v[:, None], 3):
        weight = 1.0
        for k in range(3):
            weight *= naive.negative_multinomial_pmf(C[:, k, 0].tolist(), alpha[k], p[:, k])
        L = tuple(C[:, :, 0].sum(axis=0).tolist())
        law[L] = law.get(L, 0.0) + weight
    total = sum(law.values())
    n = int(v.sum())
    rows = polynomial.rows_of_simplex(n, 3)
    b = np.zeros(rows[2][-1])
    order, _ = polynomial.interleave(np.array([0, v.size]), v)
    polynomial.grow(b, order, p, alpha, n, *rows)
    b /= b.sum()
    for r, (l1,) in enumerate(rows[0].tolist()):
        for l2 in range(n - l1 + 1):
            expected = law[l1, l2, n - l1 - l2] / total
            assert b[rows[2][r] + l2] == pytest.approx(expected, rel=1e-11)


def test_tokens_are_interleaved():
    """Of two rows and an empty one between them, each by itself."""
    order, first = polynomial.interleave(np.array([0, 3, 3, 5]), np.array([4, 2, 1, 1, 3]))
    assert first.tolist() == [0, 7, 7, 11]
    assert np.bincount(order).tolist() == [4, 2, 1, 1, 3]
    assert order[:3].tolist() == [0, 1, 0]
    assert order[7:].tolist() == [4, 3, 4, 4]


def test_impossible_terms_and_empty_samples():
    alpha = np.array([0.5, 2.0])
    p = np.array([[0.3, 0.0], [0.0, 0.0]])
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    assert enumeration.log_sum_over_components(np.array([2, 1]), log_p, alpha) == -np.inf
    one = enumeration.log_sum_over_components(np.array([2]), log_p[:1], alpha)
    assert one == pytest.approx(np.log(0.5 * 1.5 / 2 * 0.3**2))
    empty = np.zeros(0, dtype=np.int64)
    assert enumeration.log_sum_over_components(empty, np.zeros((0, 2)), alpha) == 0.0
    assert polynomial.log_totals(*_csr(np.array([2, 1])), p, alpha)[0] == -np.inf


@pytest.mark.slow
@pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="this is that run")
def test_all_of_this_without_compilation():
    """The kernels are plain Python too: bounds are checked there, and types are wider."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
