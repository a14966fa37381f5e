"""α from component sizes, against direct maximisation of the negative binomial likelihood."""

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import psi

from gapmf.em.alpha import LARGEST, alpha_from_bound, fit_alpha


def histogram(*columns):
    most = max(column.max() for column in columns) + 1
    return np.array([np.bincount(column, minlength=most) for column in columns])


def log_likelihood(alpha, sizes):
    mean = sizes.mean()
    return stats.nbinom(alpha, alpha / (alpha + mean)).logpmf(sizes).sum()


def maximise(*columns):
    """The α that maximises the likelihood with each mean at its average, by brute force."""
    found = optimize.minimize_scalar(
        lambda x: -sum(log_likelihood(np.exp(x), column) for column in columns),
        bounds=(-9, 9),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return np.exp(found.x)


@pytest.mark.parametrize(("alpha", "mean"), [(0.05, 20), (0.3, 5), (1.0, 3), (5.0, 50), (5.0, 0.7)])
def test_each_component_and_all_together(alpha, mean):
    rng = np.random.default_rng(0)
    columns = [rng.negative_binomial(alpha, alpha / (alpha + m), 800) for m in (mean, 2 * mean)]
    sizes = histogram(*columns)
    expected = [maximise(column) for column in columns]
    np.testing.assert_allclose(fit_alpha(sizes, np.ones(2), shared=False), expected, rtol=1e-5)
    np.testing.assert_allclose(
        fit_alpha(sizes, np.ones(2), shared=True), maximise(*columns), rtol=1e-5
    )


def test_within_its_sampling_error_of_the_truth():
    """20 seeds, 4 standard errors of the mean of log α: refuses with probability 1e-4."""
    for alpha in (0.05, 0.5, 5.0):
        found = []
        for seed in range(20):
            rng = np.random.default_rng(seed)
            column = rng.negative_binomial(alpha, alpha / (alpha + 30), 2000)
            found.append(np.log(fit_alpha(histogram(column), np.ones(1), shared=False)[0]))
        assert abs(np.mean(found) - np.log(alpha)) < 4 * np.std(found) / np.sqrt(20) + 2e-3


def test_expected_counts_will_do():
    """Weights need not be whole: exact laws of the sizes give expected histograms."""
    law = stats.nbinom(0.7, 0.7 / (0.7 + 4)).pmf(np.arange(400))
    np.testing.assert_allclose(fit_alpha(law[None], np.ones(1), shared=False), 0.7, rtol=1e-4)


def test_no_finite_maximum_and_nothing_to_learn():
    constant = np.full(100, 3)
    empty = np.zeros(100, dtype=int)
    new = fit_alpha(histogram(constant, empty), np.array([2.0, 0.3]), shared=False)
    np.testing.assert_array_equal(new, [LARGEST, 0.3])
    only_empty = fit_alpha(np.array([[100]]), np.array([0.3]), shared=True)
    np.testing.assert_array_equal(only_empty, [0.3])


@pytest.mark.slow
def test_one_alpha_for_components_that_disagree():
    """Sizes without any spread next to scattered ones: two maxima, of which the end is worse."""
    constant, scattered = np.full(10, 5000), np.repeat([0, 100], 5)
    values = [log_likelihood(a, constant) + log_likelihood(a, scattered) for a in (1.0, 9e3, 1e4)]
    assert values[0] > values[2] > values[1]
    expected = best_on_a_grid(constant, scattered)
    assert 0.01 < expected < 10.0
    new = fit_alpha(histogram(constant, scattered), np.ones(2), shared=True)
    np.testing.assert_allclose(new, expected, rtol=2e-2)


def best_on_a_grid(*columns):
    grid = np.geomspace(1e-4, 1e4, 801)
    values = [sum(log_likelihood(alpha, column) for column in columns) for alpha in grid]
    return grid[int(np.argmax(values))]


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_lifting_climbs_to_the_same_alpha(shared):
    """Each step gains, none is needed at the top, and components without counts are left alone."""
    rng = np.random.default_rng(1)
    columns = [rng.negative_binomial(a, a / (a + 6), 300) for a in (0.3, 2.0)]
    columns.append(np.zeros(300, dtype=int))
    means = np.array([column.mean() for column in columns])
    alpha = np.full(3, 5.0)
    value = -np.inf
    for _ in range(400):
        rising = np.array(
            [(psi(a + x) - psi(a)).mean() for a, x in zip(alpha, columns, strict=True)]
        )
        now = sum(log_likelihood(a, x) for a, x in zip(alpha[:2], columns[:2], strict=True))
        assert now >= value - 1e-9
        value = now
        alpha = alpha_from_bound(rising, means, alpha, shared=shared)
    np.testing.assert_allclose(
        alpha, fit_alpha(histogram(*columns), np.full(3, 5.0), shared=shared), rtol=1e-4
    )
    assert shared == (alpha[2] != 5.0)
