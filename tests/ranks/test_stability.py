"""How surely components come back. Seeds are fixed."""

import numpy as np
import pytest

from gapmf import GammaPoissonMF, GaP
from gapmf.ranks.features import order_features
from gapmf.ranks.stability import compare

COUNTS = np.array([1000.0])  # only the total matters


def test_a_permuted_and_rescaled_model_matches_itself():
    rng = np.random.default_rng(0)
    W = rng.gamma(0.2, 1.0, (12, 4))
    order = [2, 0, 3, 1]
    found = compare(GaP(W), [GaP(W[:, order] * [1, 5, 0.1, 2])] * 3, 2, COUNTS)
    np.testing.assert_allclose(found.overlap, 1.0, rtol=1e-12)
    np.testing.assert_array_equal(found.matches, [np.argsort(order)] * 3)
    assert (found.returned == 1).all()
    np.testing.assert_array_equal(found.top_features, order_features(GaP(W), COUNTS)[:2].T)
    np.testing.assert_allclose(found.weight_intervals[..., 0], found.weights, rtol=1e-12)
    np.testing.assert_allclose(found.weight_intervals[..., 1], found.weights, rtol=1e-12)


def test_what_is_gone_does_not_come_back():
    W = np.eye(4)[:, :3] + 0.01
    other = W.copy()
    other[:, 1] = W[:, 0]
    found = compare(GaP(W), [GaP(W), GaP(other), GaP(W[:, [0, 2]])], 9, COUNTS)
    np.testing.assert_array_equal(found.returned, [1.0, 1 / 3, 1.0])
    np.testing.assert_array_equal(found.matches[2], [0, -1, 1])
    assert found.top_features.shape == (3, 4)
    assert "1 of 3" in str(found)
    nothing = compare(GaP(W), [GaP(other), GaP(other)], 1, COUNTS)
    assert np.isnan(nothing.weight_intervals[1]).all()
    assert "Stability(3 components in 2 fits" in repr(nothing)


def test_the_intervals_are_wilsons():
    """A solves (p̂ − p)² = z² p (1 − p) / n at both ends."""
    W = np.eye(3)
    found = compare(GaP(W), [GaP(W)] * 3 + [GaP(W[:, :2])] * 2, 1, COUNTS)
    rate, z = found.returned[:, None], 1.6448536
    p = found.interval
    inside = (p > 0) & (p < 1)
    np.testing.assert_allclose(
        ((rate - p) ** 2)[inside], (z**2 * p * (1 - p) / 5)[inside], rtol=1e-6
    )
    assert (p[:, 0] < found.returned).all()


@pytest.mark.slow
@pytest.mark.parametrize("by", ["seeds", "bootstrap"])
def test_the_estimator_tells_a_clear_component_from_a_spare_one(by):
    rng = np.random.default_rng(3)
    truth = GaP(rng.dirichlet(np.full(20, 0.1), 2).T * 100, 0.5)
    X = truth.sample(200, random_state=rng)
    est = GammaPoissonMF(3, alpha=0.5, tol=1e-4, random_state=0).fit(X)
    found = est.stability(X, n_fits=3, by=by, n_features=4)
    clear = np.argsort(-est.model_.shares)[:2]
    # A spare component may take a part of a clear one's role in some fits.
    assert (found.returned[clear] >= 2 / 3).all()
    assert np.median(found.overlap[:, clear]) > 0.99
    low, high = found.weight_intervals[clear, :, 0], found.weight_intervals[clear, :, 1]
    assert (low <= high).all()
    if by == "bootstrap":
        assert (high - low).max() > 1e-3
    again = est.stability(X, n_fits=3, by=by, n_features=4)
    np.testing.assert_array_equal(found.overlap, again.overlap)


def test_refusals():
    X = np.array([[1, 2], [3, 4]])
    est = GammaPoissonMF(1, random_state=0).fit(X)
    with pytest.raises(ValueError, match="n_fits must be a whole number, 2 or more"):
        est.stability(X, n_fits=1)
    with pytest.raises(ValueError, match=r"by must be one of .*, but is 'cv'"):
        est.stability(X, by="cv")
