"""Predicted costs, refusals, and the number of admissible components."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

import naive
from gapmf import GaP, count_admissible, log_marginal_likelihood
from gapmf.counts import check_counts
from gapmf.errors import GapmfError, TooCostlyError
from gapmf.likelihood.planning import EXACT_METHODS, predict, refuse_work
from strategies import problems


@given(problems(max_count=3, max_samples=3))
def test_count_is_the_size_of_the_set(problem):
    model, X = problem
    K = model.n_components
    counts = count_admissible(X, K)
    for x, count in zip(X, counts, strict=True):
        if count <= 2000:
            assert count == sum(1 for _ in naive.admissible(x[:, None], K))
    np.testing.assert_allclose(
        count_admissible(X, K, log=True), [math.log(c) for c in counts], atol=1e-12
    )


def test_count_is_exact_at_any_size():
    (count,) = count_admissible([[500, 300, 0, 77]], 5)
    assert count == math.comb(504, 4) * math.comb(304, 4) * math.comb(81, 4)
    assert type(count) is int


def test_log_count_keeps_its_digits():
    assert count_admissible([[10**15]], 2, log=True)[0] == pytest.approx(math.log(10**15 + 1))


def test_limits_hold_for_any_max_cost():
    with pytest.raises(TooCostlyError, match="GiB"):
        log_marginal_likelihood([[2000, 1000]], GaP(np.ones((2, 4))), "polynomial", max_cost=np.inf)
    many = GaP(np.random.default_rng(0).gamma(1.0, 1.0, (1, 65)))
    with pytest.raises(TooCostlyError):
        log_marginal_likelihood([[3]], many, "quadrature", max_cost=1e60)
    with pytest.raises(TooCostlyError):  # the tables of the polynomial, at large K
        log_marginal_likelihood([[1, 1, 1]], GaP(np.ones((3, 300))), "polynomial")
    with pytest.raises(TooCostlyError):  # a rule of millions of nodes
        log_marginal_likelihood([[10**13, 5]], GaP(np.ones((2, 2))), "quadrature")
    for bad in (0, -1, np.nan, "1", None):
        with pytest.raises(ValueError, match="max_cost must be a number, above 0"):
            log_marginal_likelihood([[1]], GaP([[1.0]]), max_cost=bad)


def test_count_checks_its_arguments():
    with pytest.raises(ValueError, match="K must be a whole number, 1 or more, but is 0"):
        count_admissible([[1]], 0)
    with pytest.raises(ValueError, match=r"X\[0, 0\] is -1"):
        count_admissible([[-1]], 2)


def test_enumeration_refuses_with_the_number_of_terms():
    X = [[200, 200, 200, 200]]
    model = GaP(np.ones((4, 3)) + np.eye(4)[:, :3])
    log10 = count_admissible(X, 3, log=True)[0] / math.log(10)
    assert log10 > 16
    with pytest.raises(TooCostlyError, match=rf"10\^{log10:.1f} terms.*method=\"auto\"") as error:
        log_marginal_likelihood(X, model, "enumerate")
    assert isinstance(error.value, ValueError)
    assert isinstance(error.value, GapmfError)


def test_polynomial_refuses_with_its_memory():
    model = GaP(np.ones((2, 4)))
    with pytest.raises(TooCostlyError, match=r"GiB per thread, but the limit is 2 GiB"):
        log_marginal_likelihood([[2000, 1000]], model, "polynomial")


def test_what_is_too_long_is_refused_with_its_cost_and_a_way_out():
    model = GaP(np.random.default_rng(0).gamma(1.0, 1.0, (3, 12)))
    with pytest.raises(TooCostlyError, match=r"years\), but the limit.*\"auto\", which estimates"):
        log_marginal_likelihood([[60, 60, 60]], model, "enumerate")
    with pytest.raises(TooCostlyError, match=r"than any computer has.*\"auto\", which estimates"):
        log_marginal_likelihood([[500, 500, 500]], model, "quadrature")
    small = GaP(model.W[:, :3])
    for method in ("auto", "smc"):
        with pytest.raises(TooCostlyError, match="larger max_cost"):
            log_marginal_likelihood([[500, 500, 500]], small, method, max_cost=10.0)


@pytest.mark.parametrize(
    ("operations", "shown"),
    [
        (3e9, "3e+09 operations (about 3 seconds)"),
        (5.7e18, "5.7e+18 operations (about 180 years)"),
        (1e22, "1e+22 operations (about 320,000 years)"),
        (1e30, "1e+30 operations (more than a million years)"),
    ],
)
def test_times_are_numbers_that_one_can_read(operations, shown):
    with pytest.raises(TooCostlyError) as error:
        refuse_work("this", operations, 1.0)
    assert f"this needs {shown}, but" in str(error.value)


def test_auto_takes_the_cheapest_by_the_sample_alone():
    model = GaP(np.random.default_rng(0).gamma(1.0, 1.0, (3, 3)))
    X = np.array([[1, 0, 0], [0, 0, 0], [9, 9, 0], [400, 300, 200]])
    together = log_marginal_likelihood(X, model).methods
    alone = [log_marginal_likelihood(x[None], model).methods[0] for x in X]
    assert together.tolist() == alone
    assert alone[1::2] == ["enumerate", "quadrature"]
    costs = predict(check_counts(X[[0, 2, 3]]), model.alpha).operations.argmin(axis=0)
    assert [alone[0], *alone[2:]] == [EXACT_METHODS[c] for c in costs]


def test_costs_grow_with_the_work():
    rows = check_counts([[10, 0], [10, 10], [100, 100]])
    costs = predict(rows, np.ones(3))
    assert (np.diff(costs.operations, axis=1) > 0).all()
    assert costs.memory[1, -1] == pytest.approx(8 * (math.comb(202, 2) + 4 * 201))
