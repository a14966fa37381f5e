"""GaP: parameters, expectations, refusals."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import naive
from gapmf import GaP, log_marginal_likelihood
from gapmf.errors import InvalidInputError
from strategies import models


@given(models())
def test_expectations_event_probabilities_shares_and_penalty(model):
    W, a, b = model.W, model.alpha, model.beta
    S = [W[:, k].sum() for k in range(W.shape[1])]
    np.testing.assert_allclose(model.column_norms, S)
    for k in range(W.shape[1]):
        for f in range(W.shape[0]):
            assert model.event_probabilities[f, k] == pytest.approx(W[f, k] / (S[k] + b[k]))
    expected = sum(a[k] / b[k] * W[:, k] for k in range(W.shape[1]))
    np.testing.assert_allclose(model.expected_counts(), expected)
    if expected.sum() > 0:
        assert model.shares.sum() == pytest.approx(1.0)
        share = a[0] / b[0] * S[0] / expected.sum()
        assert model.shares[0] == pytest.approx(share)
    assert model.penalty() == pytest.approx(sum(a * np.log(np.array(S) + b)))
    means = [model.component(k).mean() for k in range(W.shape[1])]
    np.testing.assert_allclose(np.sum(means, axis=0), expected, rtol=1e-12)
    covs = [model.component(k).cov() for k in range(W.shape[1])]
    np.testing.assert_allclose(np.sum(covs, axis=0), naive.covariance(W, a, b), rtol=1e-10)


@given(models(), st.floats(1e-3, 1e3))
def test_rescaling_keeps_the_law(model, scale):
    other = model.rescale(scale * np.arange(1, model.n_components + 1))
    np.testing.assert_allclose(other.event_probabilities, model.event_probabilities, rtol=1e-12)
    np.testing.assert_allclose(other.expected_counts(), model.expected_counts(), rtol=1e-12)
    np.testing.assert_allclose(other.shares, model.shares, rtol=1e-12)


def test_frozen_and_private():
    W = np.ones((3, 2))
    model = GaP(W, alpha=[1, 2])
    W[0, 0] = 99.0
    assert model.W[0, 0] == 1.0
    for array in (model.W, model.alpha, model.beta, model.event_probabilities, model.shares):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5.0
    with pytest.raises(AttributeError, match="frozen"):
        model.W = W
    with pytest.raises(AttributeError, match="frozen"):
        model.extra = 1
    with pytest.raises(AttributeError, match="frozen"):
        del model.alpha
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(twin.W, model.W)
        assert not twin.W.flags.writeable
        assert twin == model
        assert hash(twin) == hash(model)
    assert model != GaP(W)
    assert model != "GaP"
    assert (model.n_features, model.n_components) == (3, 2)
    assert repr(model) == "GaP(n_features=3, n_components=2, alpha=[1. 2.], beta=1)"


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"W": [[1.0, -2.0]]}, r"W\[0, 1\] is -2.0: the entries of W must be finite and 0 or more"),
        ({"W": [[1.0], [np.nan]]}, r"W\[1, 0\] is nan"),
        ({"W": [[np.inf]]}, r"W\[0, 0\] is inf"),
        ({"W": [1.0, 2.0]}, r"W must be 2-D, features × components .*shape \(2,\)"),
        ({"W": np.zeros((0, 2))}, "W must be 2-D.*at least one of each"),
        ({"W": "W"}, "W must be a matrix of numbers"),
        ({"W": [[1e308], [1e308]]}, "sums to infinity"),
        (
            {"W": [[1.0, 2.0]], "alpha": [1.0] * 3},
            r"alpha has shape \(3,\), but there are 2 components",
        ),
        ({"W": [[1.0, 2.0]], "beta": 0}, "beta is 0.0"),
        ({"W": [[1.0, 2.0]], "alpha": 1e20}, r"alpha is 1e\+20: .*1e-100 to 1e\+15"),
    ],
)
def test_bad_parameters(kwargs, says):
    with pytest.raises(InvalidInputError, match=says):
        GaP(**kwargs)


def test_bad_requests():
    model = GaP([[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"form must be one of 'gamma-poisson', .*, but is 'nm'"):
        model.sample(2, form="nm")
    with pytest.raises(ValueError, match="n_samples must be a whole number, 1 or more"):
        model.sample(0)
    with pytest.raises(ValueError, match="component 2 does not exist: the model has 2"):
        model.component(2)
    with pytest.raises(ValueError, match=r"component 1\.0 does not exist"):
        model.component(1.0)
    for form in ("gamma-poisson", "negative-multinomial", "multinomial"):
        with pytest.raises(ValueError, match="too large for 64-bit integers"):
            GaP([[1e30]]).sample(2, form)
    with pytest.raises(ValueError, match=r"use \.toarray\(\)"):
        GaP(sp.csr_array([[1.0]]))
    with pytest.raises(ValueError, match=r"method must be one of 'auto', .*, but is 'magic'"):
        log_marginal_likelihood([[1]], model, "magic")
    with pytest.raises(ValueError, match="model must be a GaP, but is ndarray"):
        log_marginal_likelihood([[1]], np.ones((1, 1)))
    with pytest.raises(ValueError, match="n_jobs is 0"):
        log_marginal_likelihood([[1]], model, n_jobs=0)
    with pytest.raises(ValueError, match="X has 2 features"):
        log_marginal_likelihood([[1, 1]], model)


def test_a_column_of_zeros():
    model = GaP([[1.0, 0.0], [2.0, 0.0]], alpha=[1.0, 3.0])
    assert model.shares.tolist() == [1.0, 0.0]
    assert GaP([[0.0]]).shares.tolist() == [0.0]
    for form in ("gamma-poisson", "negative-multinomial", "multinomial"):
        X, latent = model.sample(50, form, 0, return_latent=True)
        assert (latent.L[:, 1] == 0).all()
        assert X.sum() == latent.L.sum() > 0
