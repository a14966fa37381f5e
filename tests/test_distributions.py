"""The negative binomial and multinomial, with the paper's two propositions as tests."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import naive
from gapmf import NegativeMultinomial, negative_binomial
from gapmf.distributions import log_rising
from gapmf.errors import InvalidInputError

shapes = st.floats(0.05, 20.0)


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning:scipy")  # SciPy 1.12, p = 0
@given(shapes, st.floats(0.0, 0.99), st.integers(0, 40))
def test_negative_binomial_is_the_papers(alpha, p, c):
    expected = np.exp(log_rising(alpha, c) - log_rising(1.0, c)) * (1 - p) ** alpha * p**c
    nb = negative_binomial(alpha, p)
    assert nb.pmf(c) == pytest.approx(float(expected), rel=1e-9)
    assert nb.mean() == pytest.approx(alpha * p / (1 - p))
    assert nb.var() == pytest.approx(alpha * p / (1 - p) ** 2)


@pytest.mark.parametrize(("alpha", "beta", "c"), [(0.5, 2.0, 0), (1.5, 0.3, 4), (4.0, 1.0, 9)])
def test_negative_binomial_is_a_gamma_poisson_mixture(alpha, beta, c):
    """Eqs. 13 and 14."""

    def mixed(x):
        return stats.poisson.pmf(c, x) * stats.gamma.pdf(x, alpha, scale=1 / beta)

    value = integrate.quad(mixed, 0, 1)[0] + integrate.quad(mixed, 1, np.inf)[0]
    assert value == pytest.approx(negative_binomial(alpha, 1 / (beta + 1)).pmf(c), rel=1e-6)


@pytest.mark.parametrize("c", [(0, 0, 0), (3, 0, 1), (2, 5, 4)])
def test_proposition_1(c):
    """Poissons with a common Gamma factor are negative multinomial."""
    w, alpha, beta = np.array([0.5, 2.0, 1.2]), 1.7, 0.8

    def mixed(x):
        return np.prod(stats.poisson.pmf(c, w * x)) * stats.gamma.pdf(x, alpha, scale=1 / beta)

    value = integrate.quad(mixed, 0, 2)[0] + integrate.quad(mixed, 2, np.inf)[0]
    nm = NegativeMultinomial.from_rates(alpha, beta, w)
    assert value == pytest.approx(nm.pmf(c), rel=1e-7)
    assert nm.pmf(c) == pytest.approx(NegativeMultinomial(alpha, w / (w.sum() + beta)).pmf(c))


@given(shapes, shapes, st.lists(st.integers(0, 9), min_size=3, max_size=3))
def test_proposition_2(alpha, beta, c):
    """A multinomial whose number of trials is negative binomial, too."""
    w = np.array([0.5, 2.0, 1.2])
    L, S = sum(c), w.sum()
    value = stats.multinomial(L, w / S).pmf(c) * negative_binomial(alpha, S / (S + beta)).pmf(L)
    nm = NegativeMultinomial.from_rates(alpha, beta, w)
    assert value == pytest.approx(float(nm.pmf(c)), rel=1e-9)


@given(shapes, st.lists(st.integers(0, 6), min_size=2, max_size=2))
def test_negative_multinomial_is_the_literal_formula(alpha, c):
    p = [0.2, 0.5]
    expected = naive.negative_multinomial_pmf(c, alpha, p)
    assert NegativeMultinomial(alpha, p).pmf(c) == pytest.approx(expected, rel=1e-10)


def test_moments_are_those_of_the_probabilities():
    nm = NegativeMultinomial(0.7, [0.3, 0.2])
    grid = np.array(list(itertools.product(range(60), repeat=2)))
    p = nm.pmf(grid)
    assert p.sum() == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(p @ grid, nm.mean(), rtol=1e-7)
    second = (grid * p[:, None]).T @ grid - np.outer(nm.mean(), nm.mean())
    np.testing.assert_allclose(second, nm.cov(), rtol=1e-6)


def test_manners_of_scipy():
    nm = NegativeMultinomial(2.0, [0.3, 0.0, 0.2])
    assert nm.logpmf([1, 0, 2]).shape == ()
    assert nm.logpmf(np.zeros((4, 5, 3))).shape == (4, 5)
    assert nm.pmf([1, 1, 0]) == 0.0  # an event of probability zero
    for never in ([-1, 0, 0], [0.5, 0, 0], [np.nan, 0, 0], [np.inf, 0, 0]):
        assert nm.logpmf(never) == -np.inf
    assert nm.rvs(random_state=0).shape == (1, 3)
    assert nm.rvs((2, 4), random_state=0).shape == (2, 4, 3)
    assert nm.rvs((), random_state=0).shape == (3,)
    assert nm.rvs(1000, random_state=0)[:, 1].sum() == 0
    np.testing.assert_array_equal(nm.rvs(5, random_state=1), nm.rvs(5, random_state=1))


def test_p0_survives_large_rates():
    nm = NegativeMultinomial.from_rates(0.5, 1e-9, [1e9, 2e9])
    assert nm.p0 == pytest.approx(1e-9 / 3e9, rel=1e-12)
    np.testing.assert_allclose(nm.mean(), 0.5 / 1e-9 * np.array([1e9, 2e9]), rtol=1e-12)
    draws = NegativeMultinomial.from_rates(50.0, 1.0, [1e15, 2e15]).rvs(4000, random_state=0)
    error = np.sqrt(1 / 50 / 4000)  # relative: the Gamma's spread; within 5 of these
    np.testing.assert_allclose(draws.mean(axis=0), [50e15, 100e15], rtol=5 * error)
    large = negative_binomial(50.0, p0=1 / (1 + 3e15)).rvs(4000, random_state=0)
    assert large.mean() == pytest.approx(150e15, rel=5 * error)


@pytest.mark.parametrize("a", [1e6, 1e10, 1e14])
def test_large_alpha_tends_to_poisson(a):
    nm = NegativeMultinomial.from_rates(a, a, [1.0])
    assert nm.logpmf([0]) == pytest.approx(-a * np.log1p(1 / a), rel=1e-13)


@given(st.floats(1e-8, 1e12), st.integers(0, 10**6))
def test_log_rising_keeps_its_digits(a, n):
    with mpmath.workdps(40):
        expected = float(mpmath.loggamma(mpmath.mpf(a) + n) - mpmath.loggamma(mpmath.mpf(a)))
    assert float(log_rising(a, n)) == pytest.approx(expected, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize(
    ("alpha", "p", "says"),
    [
        (0.0, [0.5], "alpha is 0.0"),
        (np.nan, [0.5], "alpha is nan"),
        ([1.0], [0.5], "alpha must be one number"),
        (1.0, [0.5, 0.5], "p sums to 1.0, but the sum must be below 1"),
        (1.0, [0.5, -0.1], r"p\[1\] is -0.1"),
        (1.0, [0.5, np.nan], r"p\[1\] is nan"),
        (1.0, [], "p must be 1-D and not empty"),
        (1.0, [[0.1]], "p must be 1-D"),
    ],
)
def test_bad_parameters(alpha, p, says):
    with pytest.raises(InvalidInputError, match=says):
        NegativeMultinomial(alpha, p)


def test_more_bad_parameters():
    with pytest.raises(InvalidInputError, match=r"p is 1\.0"):
        negative_binomial(1.0, 1.0)
    with pytest.raises(InvalidInputError, match="alpha is -1"):
        negative_binomial(-1, 0.5)
    with pytest.raises(InvalidInputError, match="beta is 0"):
        NegativeMultinomial.from_rates(1.0, 0, [1.0])
    with pytest.raises(InvalidInputError, match="w must be 1-D"):
        NegativeMultinomial.from_rates(1.0, 1.0, [-1.0])
    with pytest.raises(InvalidInputError, match=r"x must have 1 entries .*shape \(2,\)"):
        NegativeMultinomial(1.0, [0.5]).pmf([1, 2])
    for bad in (("a", [0.5]), (None, [0.5]), (1j, [0.5]), (1.0, ["x"]), (1.0, [[0.1], 0.2])):
        with pytest.raises(InvalidInputError):
            NegativeMultinomial(*bad)
    for size in (2.5, -1, "3"):
        with pytest.raises(InvalidInputError, match="size must be a whole number"):
            NegativeMultinomial(1.0, [0.5]).rvs(size)
    with pytest.raises(InvalidInputError, match="give exactly one of p and p0"):
        negative_binomial(1.0)
    with pytest.raises(InvalidInputError, match="alpha must be a number"):
        negative_binomial("a", 0.5)
