"""How runs are compared over seeds, those that never came near the minimum included."""

import numpy as np
import pytest
from scipy import stats

from gapmf import GaP, log_marginal_likelihood
from gapmf.datasets import paper_synthetic
from gapmf.reproduce.results import quantiles
from gapmf.reproduce.synthetic import V1, _compare, _cost_of_the_start

NEVER = np.nan


def _runs(**until):
    """Make the columns of runs with these iterations, and one second per iteration."""
    n = len(next(iter(until.values())))
    values = np.concatenate([until[a] for a in ("mcem_c", "mcem_h", "mcem_ch")]).astype(float)
    return {
        "algorithm": np.repeat(["mcem-c", "mcem-h", "mcem-ch"], n),
        "iterations_until_near": values,
        "cpu_seconds_until_near": 2.0 * values,
        "cpu_seconds": np.repeat([10.0, 11.0, 12.0], n),
        "excess_at_the_end": np.arange(3.0 * n),
    }


def test_the_median_of_an_even_number_is_the_mean_of_the_two_in_the_middle():
    assert quantiles(np.arange(10.0)) == [0.0, 2.0, 4.5, 7.0, 9.0]
    assert quantiles([1.0, 2.0, np.inf, np.inf]) == [1.0, 1.5, None, None, None]


def test_ratios_are_paired_and_a_run_that_never_came_near_is_infinitely_slow():
    mcem_c = [10, 20, 40, 10, NEVER, NEVER]
    mcem_h = [20, 30, 40, NEVER, 50, NEVER]  # ratios 2, 1.5, 1, never, 0, and none
    found = _compare(_runs(mcem_c=mcem_c, mcem_h=mcem_h, mcem_ch=[30, 60, 120, 30, NEVER, NEVER]))
    assert found["mcem-h"]["iterations_relative_to_mcem_c"] == [0.0, 1.0, 1.5, 2.0, None]
    assert found["mcem-ch"]["iterations_relative_to_mcem_c"] == [3.0] * 5
    assert found["mcem-ch"]["cpu_seconds_relative_to_mcem_c"] == [3.0] * 5
    assert [found[a]["never_near"] for a in ("mcem-c", "mcem-h", "mcem-ch")] == [2, 2, 2]
    whole = "cpu_seconds_of_all_iterations_relative_to_mcem_c"
    assert found["mcem-ch"][whole] == pytest.approx([1.2] * 5)


def test_the_p_value_is_that_of_pairs():
    rng = np.random.default_rng(0)
    mcem_c = rng.permutation(np.arange(10, 110, 10.0))
    factor = np.linspace(1.05, 1.4, 10)
    found = _compare(_runs(mcem_c=mcem_c, mcem_h=factor * mcem_c, mcem_ch=mcem_c[::-1]))
    assert found["mcem-h"]["p_of_no_difference"] == pytest.approx(2 / 2**10)  # all ten are slower
    d = np.log(mcem_c[::-1]) - np.log(mcem_c)
    assert found["mcem-ch"]["p_of_no_difference"] == pytest.approx(stats.wilcoxon(d).pvalue)


def test_the_cost_of_the_start_is_that_of_equal_columns():
    X, _ = paper_synthetic(1.0, 100, random_state=3)
    W = np.repeat(X.mean(axis=0)[:, None] / 3, 3, axis=1)
    exact = -log_marginal_likelihood(X, GaP(W)).total
    assert _cost_of_the_start(V1, 3) == pytest.approx(exact, rel=1e-12)
