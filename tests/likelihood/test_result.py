"""Means of weights with error bars, tails of weights, and differences of results."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gapmf.likelihood.result import log_mean, tail_shape


@pytest.mark.parametrize("shape", [0.1, 0.5, 1.0])
def test_the_shape_of_a_tail(shape):
    rng = np.random.default_rng(0)
    found = [tail_shape(stats.genpareto(shape).rvs(4000, random_state=rng)) for _ in range(40)]
    assert abs(np.mean(found) - shape) < 0.1
    assert tail_shape(np.ones(1000)) == 0.0


def test_weights_with_a_heavy_tail_are_not_reliable():
    rng = np.random.default_rng(0)
    fine = log_mean(0.3 * rng.standard_normal(1000))
    assert fine.reliable
    assert fine.value == pytest.approx(0.045, abs=4 * fine.std_error)
    heavy = stats.genpareto(1.5).rvs(100_000, random_state=rng)
    assert not log_mean(np.log(heavy)).reliable
    assert not log_mean(np.array([0.0, 3.0])).reliable


def test_strata_take_out_what_differs_between_them():
    weights = np.log(np.r_[np.full(50, 1.0), np.full(50, 3.0)])
    assert log_mean(weights).std_error > 0.01
    assert log_mean(weights, (50, 50)).std_error < 1e-12
