"""Parameters that are refused, and what is said then."""

from __future__ import annotations

import numpy as np
import pytest

from gapmf.errors import InvalidInputError
from gapmf.validation import check_option, check_positive, check_random_state, check_whole


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (0.0, "alpha is 0.0: it must be finite and greater than 0"),
        (-1, "alpha is -1.0"),
        (np.nan, "alpha is nan"),
        ([1.0, np.inf], r"alpha\[1\] is inf"),
        ([1.0, 2.0, 3.0], r"alpha has shape \(3,\), but there are 2 components"),
        ([[1.0, 2.0]], r"alpha has shape \(1, 2\), but there are 2 components"),
        ("one", "alpha must be a number, or 2 numbers, one per component, but is str: 'one'"),
        (None, "alpha must be a number"),
        ([1.0, [2.0]], "alpha must be a number"),
        (10**400, "alpha must be a number"),
        (["3", 2.0], "alpha must be a number"),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), "alpha must be a number"),
        ([1.0, 1e-200], r"alpha\[1\] is 1e-200: it must be .*1e-100 to 1e\+100"),
    ],
)
def test_alpha_and_beta(value, says):
    with pytest.raises(InvalidInputError, match=says):
        check_positive(value, 2, "alpha")


def test_small_checks():
    with pytest.raises(InvalidInputError, match="form must be one of 'a', 'b', but is 'x'"):
        check_option("x", ("a", "b"), "form")
    for bad in (0, -1, 2.0, True, "3"):
        with pytest.raises(InvalidInputError, match="n must be a whole number, 1 or more"):
            check_whole(bad, "n")
    assert check_whole(np.int32(3), "n") == 3


def test_random_states():
    ints = [check_random_state(seed).integers(1000) for seed in (3, np.int64(3))]
    assert ints[0] == ints[1]
    rng = np.random.default_rng(0)
    assert check_random_state(rng) is rng
    old = np.random.RandomState(0)
    first = check_random_state(old).random()
    assert check_random_state(old).random() != first  # the caller's state advances
    assert check_random_state(np.random.RandomState(0)).random() == first
    for bad in ("seed", 1.5, -1, True):
        with pytest.raises(InvalidInputError, match="random_state must be"):
            check_random_state(bad)
