"""The estimators of the likelihood, by name: what they cost, and how many draws they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.errors import InvalidInputError
from gapmf.likelihood import chib, importance, reverse, smc
from gapmf.likelihood.estimates import Estimates
from gapmf.likelihood.sample import most_side_by_side
from gapmf.model import GaP
from gapmf.validation import check_whole

Array = NDArray[np.float64]

Check = Callable[[int | None, int], int]
Cost = Callable[[sp.csr_array, int, int], Array]
Estimate = Callable[[sp.csr_array, GaP, np.uint64, int, int | None], Estimates]


class Estimator(NamedTuple):
    """A method that estimates."""

    check: Check
    """From the number that is asked (None for the usual one), and K, to the one that is used."""
    cost: Cost
    """Operations for each of some samples, about a nanosecond each, from K and the number."""
    log_factors: Estimate
    """The logarithm of the second factor of Eq. 31, estimated for each sample."""
    once: Estimate
    """The same, with that number for every sample, whether or not it is enough."""


def _alike(check: Check, cost: Cost, log_factors: Estimate) -> Estimator:
    """A method that gives every sample the same number."""
    return Estimator(check, cost, log_factors, log_factors)


def _points(n: int | None, n_components: int) -> int:
    return check_whole(importance.N_POINTS if n is None else n, "n_particles", 64)


def _chains(n: int | None, n_components: int) -> int:
    n = check_whole(chib.N_PASSING if n is None else n, "n_particles", 32)
    most = most_side_by_side(n_components)
    if n > most:
        raise InvalidInputError(
            f"n_particles is {n}, but with {n_components} components at most {most} chains can "
            "be told apart"
        )
    return -(-n // 4) * 4


ESTIMATORS: dict[str, Estimator] = {
    "smc": Estimator(smc.check_particles, smc.predict_cost, smc.log_factors, smc.estimate_once),
    "importance": _alike(_points, importance.predict_cost, importance.log_factors),
    "reverse": _alike(reverse.check_particles, reverse.predict_cost, reverse.log_factors),
    "chib": _alike(_chains, chib.predict_cost, chib.log_factors),
}
