"""Importance sampling: weights, the mixture and its mode."""

from __future__ import annotations

import numpy as np
import pytest
from sample_cases import CASES, a_sample
from scipy.special import logsumexp

from gapmf.likelihood import importance
from gapmf.likelihood.result import log_mean


@pytest.mark.parametrize(("W", "alpha", "v"), CASES)
def test_importance_weights_are_unbiased(W, alpha, v):
    _, sample, factor = a_sample(W, alpha, v)
    rng = np.random.default_rng(0)
    # Proposals that are a poor guess: the mixture must correct them.
    shapes = sample.alpha + rng.gamma(1.0, sample.counts.sum() / len(alpha), (8, len(alpha)))
    log_weights, parts = importance.weigh(sample, shapes, 40_000, rng)
    assert sum(parts) == log_weights.size
    found = log_mean(log_weights, parts)
    assert found.std_error < 0.05
    assert abs(found.value + sample.constant - factor) < 4 * found.std_error


def test_the_mixture_is_a_density():
    """Its parts integrate to one: over a grid in two dimensions."""
    mode, factor = np.array([0.3, -0.2]), np.linalg.cholesky([[2.0, 0.5], [0.5, 1.0]])
    axis = np.linspace(-40, 40, 601)
    x = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    cell = 2 * np.log(axis[1] - axis[0])
    assert logsumexp(importance._log_student(x, mode, factor)) + cell == pytest.approx(0, abs=0.01)
    gammas = importance._log_gammas(x, np.array([[0.8, 3.0], [2.0, 1.0]]))
    np.testing.assert_allclose(logsumexp(gammas, axis=0) + cell, 0.0, atol=0.01)


def test_the_mode_is_one():
    rng = np.random.default_rng(0)
    for alpha in (0.05, 1.0, 5.0):
        _, sample, _ = a_sample(rng.gamma(0.5, 3.0, (4, 3)), np.full(3, alpha), [30, 2, 0, 8])
        mode, _ = importance.find_mode(sample, np.zeros(3))
        top = sample.log_density(mode[None])[0]
        near = mode + 0.01 * rng.standard_normal((50, 3))
        assert (sample.log_density(near) < top).all()
