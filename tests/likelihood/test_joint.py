"""The joint likelihood and its split."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from scipy.special import gammaln

import naive
from gapmf import GaP, log_joint_likelihood, split_joint_cost
from strategies import problems


def _activations(model, X, seed=0):
    rng = np.random.default_rng(seed)
    return rng.gamma(2.0, 1.0, (X.shape[0], model.n_components)) + 1e-3


@given(problems(max_count=9))
def test_equals_the_definition(problem):
    model, X = problem
    H = _activations(model, X)
    with np.errstate(divide="ignore"):
        expected = naive.log_joint(X.T, H.T, model.W, model.alpha, model.beta)
    value = log_joint_likelihood(X, H, model)
    if np.isneginf(expected):
        assert np.isneginf(value)
    else:
        assert value == pytest.approx(expected, rel=1e-12, abs=1e-10)
        assert log_joint_likelihood(sp.csc_array(X), H, model) == value


@given(problems(max_count=9, zeros=False))
def test_split_is_divergence_penalty_and_constant(problem):
    model, X = problem
    H = _activations(model, X)
    split = split_joint_cost(X, H, model)
    assert split.total == -log_joint_likelihood(X, H, model)
    V, rate = X.T.astype(float), model.W @ H.T
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(V > 0, V * np.log(V / rate), 0.0) - V + rate
    assert split.divergence == pytest.approx(kl.sum(), rel=1e-10, abs=1e-10)
    a, b = model.alpha, model.beta
    penalty = ((1 - a) * np.log(H) + b * H).sum() - len(X) * (a * np.log(b)).sum()
    assert split.penalty == pytest.approx(penalty, rel=1e-12, abs=1e-10)
    # the constant depends on V and α only
    other = GaP(model.W * 2 + 1, model.alpha, model.beta * 3)
    assert split_joint_cost(X, H * 0.7, other).constant == split.constant


def test_scaling_shifts_the_joint_cost():
    """C_JL(WΛ, Λ⁻¹H, βΛ) = C_JL − N Σ_k log λ_k: why β cannot be free here."""
    rng = np.random.default_rng(0)
    model = GaP(rng.gamma(1.0, 1.0, (3, 2)), [0.5, 2.0], [1.0, 3.0])
    X, H = model.sample(5, random_state=1), rng.gamma(1.0, 1.0, (5, 2))
    lam = np.array([2.0, 0.3])
    shifted = log_joint_likelihood(X, H / lam, model.rescale(lam))
    assert shifted - log_joint_likelihood(X, H, model) == pytest.approx(5 * np.log(lam).sum())


def test_activations_at_zero():
    X, H = [[0, 0]], [[0.0, 1.0]]
    W = [[1.0, 1.0], [2.0, 1.0]]
    assert np.isfinite(log_joint_likelihood(X, H, GaP(W, [1.0, 2.0])))
    assert log_joint_likelihood(X, H, GaP(W, [2.0, 2.0])) == -np.inf
    assert log_joint_likelihood(X, H, GaP(W, [0.5, 2.0])) == np.inf
    assert log_joint_likelihood([[3, 0]], [[0.0, 0.0]], GaP(W)) == -np.inf


def test_zero_against_infinity_is_zero():
    W = [[1.0, 1.0], [2.0, 1.0]]
    assert log_joint_likelihood([[3, 0]], [[0.0, 0.0]], GaP(W, 0.5)) == -np.inf
    assert log_joint_likelihood([[0, 0]], [[0.0, 0.0]], GaP(W, [0.5, 2.0])) == -np.inf


def test_digits_at_the_ends():
    tiny = log_joint_likelihood([[100]], [[1e-300]], GaP([[1e-7]]))
    assert tiny == pytest.approx(100 * -307 * np.log(10) - gammaln(101), rel=1e-12)
    n = 1e15
    large = log_joint_likelihood([[10**15]], [[1.0]], GaP([[n]]))
    assert large == pytest.approx(-0.5 * np.log(2 * np.pi * n) - 1.0, rel=1e-12)


def test_bad_activations():
    model = GaP([[1.0, 1.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match=r"H must have shape \(1, 2\).*but has shape \(1, 3\)"):
        log_joint_likelihood([[1, 0]], [[1.0, 2.0, 3.0]], model)
    with pytest.raises(ValueError, match=r"H\[0, 1\] is -1.0"):
        log_joint_likelihood([[1, 0]], [[1.0, -1.0]], model)
    with pytest.raises(ValueError, match="model must be a GaP, but is str"):
        log_joint_likelihood([[1, 0]], [[1.0, 1.0]], "model")
