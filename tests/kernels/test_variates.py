"""Normal, Gamma and binomial variates against their laws, with fixed seeds.

Each statistical test refuses a correct sampler with probability 1e-4.
"""

import numpy as np
import pytest
from numba import njit
from scipy import stats

from gapmf.kernels.random import (
    ACTIVATIONS,
    RETRIES,
    SEPARATE,
    U,
    address,
    binomial,
    gamma,
    normal,
    pair,
    small_gamma,
)

REFUSE = 1e-4
N = 200_000


@njit
def normals(n, seed):
    out = np.empty(n)
    for i in range(n):
        word, _ = pair(U(i), address(seed, 0, 0, 0, ACTIVATIONS))
        out[i], _ = normal(word, U(0), address(seed, 0, i, 0, RETRIES))
    return out


@njit
def gammas(n, shape, seed):
    out = np.empty(n)
    for i in range(n):
        first, second = pair(U(i), address(seed, 0, 0, 0, ACTIVATIONS))
        out[i] = gamma(shape, first, second, U(7), address(seed, 0, i, 0, RETRIES))
    return out


@njit
def small_gammas(n, shape, seed):
    out = np.empty(n)
    for i in range(n):
        first, second = pair(U(i), address(seed, 0, 0, 0, ACTIVATIONS))
        out[i] = small_gamma(shape, first, second, U(7), address(seed, 0, i, 0, RETRIES))
    return out


@njit
def binomials(m, n, p, seed):
    """One after another from one index, as a sample with many large counts draws them."""
    out = np.empty(m, np.int64)
    index = U(0)
    for i in range(m):
        out[i], index = binomial(n, p, index, address(seed, 0, 0, 0, SEPARATE))
    return out


@pytest.mark.slow
def test_normals():
    x = normals(5 * N, U(1))
    assert stats.kstest(x, "norm").pvalue > REFUSE
    for beyond in (3.0, 3.6, 3.7, 4.2):  # the ziggurat's tail begins at 3.654
        n = int((np.abs(x) > beyond).sum())
        assert stats.binomtest(n, x.size, 2 * stats.norm.sf(beyond)).pvalue > REFUSE
    assert stats.binomtest(int((x > 3.654).sum()), int((np.abs(x) > 3.654).sum())).pvalue > REFUSE


@pytest.mark.slow
@pytest.mark.parametrize("shape", [1.0, 1.05, 1.7, 5.0, 300.0, 1e9])
def test_gammas(shape):
    x = gammas(N, shape, U(int(shape) + 2))
    assert stats.kstest(x, stats.gamma(shape).cdf).pvalue > REFUSE


@pytest.mark.slow
@pytest.mark.parametrize("shape", [0.02, 0.12, 0.5, 0.9, 0.9999])
def test_gammas_of_small_shapes(shape):
    """Also far in both tails, where a test of the whole law sees little."""
    x, law = small_gammas(5 * N, shape, U(int(1e4 * shape))), stats.gamma(shape)
    assert stats.kstest(x, law.cdf).pvalue > REFUSE
    for p in (1e-3, 1e-4):
        assert stats.binomtest(int((x < law.ppf(p)).sum()), x.size, p).pvalue > REFUSE
        assert stats.binomtest(int((x > law.isf(p)).sum()), x.size, p).pvalue > REFUSE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "p"),
    [
        (1, 0.5),
        (5, 0.3),
        (40, 0.9),
        (99, 0.1),
        (101, 0.1),
        (1000, 0.7),
        (10**5, 0.5),
        (10**5, 1e-4),
        (10**9, 1e-3),
        (10**6, 1 - 1e-7),
        (2**53, 1e-14),
    ],
)
def test_binomials(n, p):
    x = binomials(N, n, p, U(n))
    law = stats.binom(n, p)
    cuts = np.unique(law.ppf(np.linspace(0.002, 0.998, 60)))
    cdf = np.concatenate([[0.0], law.cdf(cuts), [1.0]])
    seen = np.histogram(x, np.concatenate([[-1], cuts, [n + 1]]) + 0.5)[0]
    expected = N * np.diff(cdf)
    some = expected > 5
    if some.sum() < 2:
        assert abs(x.mean() - n * p) < 4 * np.sqrt(n * p * (1 - p) / N)
        return
    rest = [expected[~some].sum(), seen[~some].sum()]
    seen, expected = np.append(seen[some], rest[1]), np.append(expected[some], rest[0])
    if expected[-1] == 0:
        seen, expected = seen[:-1], expected[:-1]
    assert stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > REFUSE


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p"), [(10**14, 0.3), (10**15, 0.01), (2**53, 0.3), (2**53, 0.5)])
def test_enormous_binomials_are_normal(n, p):
    """The normal law is exact to 1e-7 there."""
    z = (binomials(N, n, p, U(n)) - n * p) / np.sqrt(n * p * (1 - p))
    assert stats.kstest(z, "norm").pvalue > REFUSE


@pytest.mark.parametrize(("n", "p", "x"), [(0, 0.5, 0), (9, 0.0, 0), (9, 1.0, 9), (9, 1.5, 9)])
def test_certain_binomials(n, p, x):
    assert (binomials(3, n, p, U(0)) == x).all()
