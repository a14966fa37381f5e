"""Measures of the comparison, against values by hand."""

import numpy as np
import pytest
import scipy.sparse as sp

from peers import measures
from peers.protocol import from_factors, rows_to_one


def _counts(*rows):
    return sp.csr_array(np.array(rows, dtype=np.int64))


def test_perplexity_by_hand():
    hidden = _counts([2, 1, 0], [0, 0, 1])
    phi = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    theta = np.array([[1.0, 0.0], [0.5, 0.5]])
    base = np.array([0.2, 0.3, 0.5])
    p = [0.9 * 0.5 + 0.1 * 0.2, 0.9 * 0.5 + 0.1 * 0.3, 0.9 * 0.25 + 0.1 * 0.5]
    expected = (p[0] ** 2 * p[1] * p[2]) ** (-1 / 4)
    found = measures.completion_perplexity(hidden, theta, phi, base, 0.1)
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_sample_without_proportions_is_predicted_by_the_background():
    hidden, base = _counts([1, 1, 0]), np.array([0.2, 0.3, 0.5])
    phi = np.array([[1.0, 0.0, 0.0]])
    found = measures.completion_perplexity(hidden, np.zeros((1, 1)), phi, base)
    assert found == pytest.approx((0.2 * 0.3) ** -0.5, rel=1e-12)


def test_many_samples_are_scored_as_one_by_one():
    rng = np.random.default_rng(0)
    hidden = sp.csr_array(rng.poisson(0.5, (150, 6)))
    theta, phi = rng.dirichlet(np.ones(3), 150), rng.dirichlet(np.ones(6), 3)
    base = np.full(6, 1 / 6)
    total = (hidden.toarray() * np.log(0.999 * theta @ phi + 0.001 / 6)).sum()
    expected = np.exp(-total / hidden.sum())
    assert measures.completion_perplexity(hidden, theta, phi, base) == pytest.approx(expected)


def test_background_adds_one_half():
    found = measures.background(_counts([3, 0], [1, 0]))
    np.testing.assert_allclose(found, [4.5 / 5, 0.5 / 5])


def test_npmi_by_hand():
    # Features 0 and 1 always together, in half of the samples; 2 never with 0.
    counts = _counts([1, 2, 0, 1], [5, 1, 0, 0], [0, 0, 1, 1], [0, 0, 3, 0])
    phi = np.array([[0.6, 0.4, 0.0, 0.0], [0.6, 0.0, 0.4, 0.0], [0.6, 0.0, 0.0, 0.4]])
    alone = [measures.npmi(counts, phi[k : k + 1], 2) for k in range(3)]
    assert alone == pytest.approx([1.0, -1.0, 0.0])  # p_03 = 1/4 = p_0 p_3
    assert measures.npmi(counts, phi, 2) == pytest.approx(0.0)


def test_features_that_all_samples_have_are_not_coherent():
    assert measures.npmi(_counts([1, 1], [2, 1]), np.array([[0.5, 0.5]]), 2) == 0.0


def test_components_of_zeros_are_left_out():
    counts = _counts([1, 2, 0], [5, 1, 0], [0, 0, 1])
    phi = np.array([[0.6, 0.4, 0.0], [0.0, 0.0, 0.0]])
    assert measures.npmi(counts, phi, 2) == measures.npmi(counts, phi[:1], 2)
    assert measures.npmi(counts, phi[1:], 2) == -1.0
    assert measures.stability([phi, phi]) == pytest.approx(1.0)


def test_matched_cosine():
    truth = np.eye(3)
    assert measures.matched_cosine(truth, truth[[2, 0, 1]]) == pytest.approx(1.0)
    assert measures.matched_cosine(truth, truth[:2]) == pytest.approx(2 / 3)  # one is missing
    found = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert measures.matched_cosine(truth, found) == pytest.approx((2 + 0.5**0.5) / 3)


def test_stability_is_the_mean_over_pairs():
    a, b = np.eye(2), np.array([[1.0, 0.0], [1.0, 0.0]])
    assert measures.stability([a, a, b]) == pytest.approx((1.0 + 0.5 + 0.5) / 3)
    assert measures.stability([a]) is None


def test_common_proportions_are_a_fixed_point():
    rng = np.random.default_rng(1)
    phi, base = rng.dirichlet(np.ones(8), 3), np.full(8, 1 / 8)
    shown = sp.csr_array(rng.poisson(3.0, (4, 8)))
    theta = measures.common_proportions(shown, phi, base, alpha=0.5)
    mixed = 0.999 * phi + 0.001 / 8
    step = 0.5 + theta * ((shown.toarray() / (theta @ mixed)) @ mixed.T)
    np.testing.assert_allclose(rows_to_one(step), theta, atol=1e-4)


def test_factors_become_distributions():
    W, H = np.array([[2.0, 2.0], [1.0, 0.0]]), np.array([[1.0, 4.0], [0.0, 0.0]])
    phi, theta = from_factors(W, H)
    np.testing.assert_allclose(phi, [[0.5, 0.5], [1.0, 0.0]])
    np.testing.assert_allclose(theta, [[0.5, 0.5], [0.0, 0.0]])
    expected = H[0] @ W
    np.testing.assert_allclose(theta[0] @ phi, expected / expected.sum())
