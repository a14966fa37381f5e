"""The estimators of the likelihood, by name: what they cost, and how many draws they take.

The marginal likelihood: the door, and the way from samples to methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts
from gapmf.csr import distinct_rows, take_block
from gapmf.distributions import log_one_plus
from gapmf.errors import InvalidInputError
from gapmf.likelihood import chib, exact, importance, reverse, smc
from gapmf.likelihood.exact import rule_key
from gapmf.likelihood.planning import (
    AUTO_COST,
    EXACT_METHODS,
    MAX_COST,
    Costs,
    cut_blocks,
    group_by_support,
    predict,
    refuse_if_too_costly,
)
from gapmf.likelihood.result import Estimates, LogLikelihood
from gapmf.likelihood.sample import max_particles
from gapmf.model import GaP, check_model
from gapmf.parallel import check_n_jobs, for_each
from gapmf.types import Array, Index
from gapmf.validation import check_number, check_option, check_random_state, check_whole

COMPARISON_PARTICLES = 64  # the error of a total is far below what a component is worth, as a rule

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
    most = max_particles(n_components)
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


def log_marginal_likelihood(
    X: Any,
    model: GaP,
    method: str = "auto",
    *,
    random_state: Any = None,
    n_jobs: int | None = None,
    n_particles: int | None = None,
    escalate: bool = True,
    max_cost: float = MAX_COST,
) -> LogLikelihood:
    """log p(V | W, β) with the activations integrated out: −C_ML of Eqs. 7, 8, 26, 27 and 31.

    Parameters
    ----------
    X : counts, (N, F)
        NumPy array, SciPy sparse, pandas or polars frame. X is Vᵀ.
    model : GaP
    method : {"auto", "enumerate", "polynomial", "quadrature", "smc", "reverse", "importance", \
             "chib", "estimate"}
        "enumerate" is the paper's sum over admissible components; "polynomial" gathers its
        terms by L; "quadrature" integrates over the simplex. These are exact to rounding.
        The others estimate. "smc" is sequential Monte Carlo over the tokens, for any size;
        "importance" draws activations from a mixture made for each sample, for up to some ten
        components; "chib" is Chib's identity at a fixed point, in the unbiased form of Murray
        and Salakhutdinov, for few components. "reverse" is "smc" around draws from the
        posterior: where the others err, they err downwards on average, and it errs upwards.
        "auto" takes, for each sample, the cheapest exact method where that needs a tenth of a
        second or less, and "smc" elsewhere; "estimate" is "auto" without the exact methods.
    random_state : None, int, Generator or RandomState
        For estimates. A sample's estimate depends on this and on its counts alone, not on the
        other samples or their order.
    n_jobs : int, optional
        Threads, in scikit-learn's meaning. The result does not depend on it.
    n_particles : int, optional
        What an estimate of a sample is made of: particles of "smc", in four independent
        islands (by default 288 for up to 17 components, 1440 for 40), points of
        "importance" (1024), chains of "chib" (128), particles of "reverse" (512 in 16 runs for
        up to 20 components, 1000 for 40).
        The variance falls, and the time grows, in proportion.
    escalate : bool
        Whether "smc" gives 2 to 16 times as many to samples that need them, by a pilot run
        with a eighth.
    max_cost : float
        The number of operations (about a nanosecond each) above which to refuse, over all
        distinct samples. Samples that get more particles take up to 16 times as long.

    Returns
    -------
    LogLikelihood
        Samples that the model cannot produce have −inf, and the method "impossible". p(v) is
        estimated without bias (1/p(v), by "reverse"), so its logarithm is too small on average,
        by half the relative variance: that is added, and stands in `corrections`.

    Raises
    ------
    TooCostlyError
        When the predicted cost exceeds `max_cost`, or the memory 2 GiB a thread. With the
        default, a sample of 5,000 counts at K = 3 is far inside.

    Examples
    --------
    >>> from gapmf import GaP, log_marginal_likelihood
    >>> model = GaP([[3.0, 0.5], [1.0, 2.0]])
    >>> ll = log_marginal_likelihood([[4, 1], [0, 0]], model)
    >>> round(ll.total, 6), ll.std_error
    (-6.974131, 0.0)
    """
    check_model(model)
    counts = check_counts(X, n_features=model.n_features)
    method = check_option(method, ("auto", *METHODS, "estimate"), "method")
    check_n_jobs(n_jobs)
    max_cost = check_number(max_cost, "max_cost", above=0.0)
    size = _check_size(n_particles, method, model.n_components)
    seed = check_random_state(random_state).integers(2**64, dtype=np.uint64)
    first, inverse = distinct_rows(counts)
    rows = counts[first]
    N = first.size
    which, tasks = _plan(rows, first, model, method, max_cost, size)
    values, methods = _exact_factors(rows, tasks, model, n_jobs)
    known = Estimates(values, np.zeros(N), np.full(N, np.inf), np.ones(N, dtype=bool), np.zeros(N))
    chosen = np.flatnonzero(which >= len(EXACT_METHODS))
    if chosen.size:
        name = METHODS[which[chosen[0]]]
        estimate = ESTIMATORS[name].log_factors if escalate else ESTIMATORS[name].once
        known.put(chosen, estimate(rows[chosen], model, seed, size, n_jobs))
        methods[chosen] = name
    values -= log_normaliser(model)
    return LogLikelihood.of_distinct(known, methods, inverse, method)


def log_normaliser(model: GaP) -> float:
    """−log Π_k (1 − Σ_f p_fk)^α_k = Σ_k α_k log(1 + ||w_k||₁/β_k): Eq. 31, its first factor."""
    return float(model.alpha @ log_one_plus(model.column_norms, model.beta))


class MarginalCostSplit(NamedTuple):
    """C_ML/N, the mean cost of a sample, as data + penalty + constant: Eqs. 33 and 34.

    penalty is Σ_k α_k log(||w_k||₁ + β_k); the constant −Σ_k α_k log β_k, 0 when β = 1, makes it
    independent of the scale of W and β: together they are Σ_k α_k log(1 + ||w_k||₁/β_k).
    """

    data: float
    penalty: float
    constant: float

    @property
    def total(self) -> float:
        """C_ML / N, the mean negative log-likelihood."""
        return self.data + self.penalty + self.constant


def split_marginal_cost(
    X: Any, model: GaP, *, random_state: Any = None, n_jobs: int | None = None
) -> MarginalCostSplit:
    """Split C_ML/N into its data term (Eq. 33), its penalty (Eq. 34) and the constant.

    Parameters
    ----------
    X : counts, (N, F)
    model : GaP
    random_state : None, int, Generator or RandomState
        For samples whose likelihood is estimated: see `log_marginal_likelihood`.
    n_jobs : int, optional

    Examples
    --------
    >>> from gapmf import GaP, log_marginal_likelihood, split_marginal_cost
    >>> model = GaP([[3.0, 0.5], [1.0, 2.0]])
    >>> split = split_marginal_cost([[4, 1], [0, 0]], model)
    >>> total = log_marginal_likelihood([[4, 1], [0, 0]], model).total
    >>> round(split.total, 10) == round(-total / 2, 10)
    True
    """
    ll = log_marginal_likelihood(X, model, random_state=random_state, n_jobs=n_jobs)
    data = -float(ll.per_sample.mean()) - log_normaliser(model)
    return MarginalCostSplit(data, model.penalty(), 0.0 - float(model.alpha @ np.log(model.beta)))


METHODS = (*EXACT_METHODS, *ESTIMATORS)
_IMPOSSIBLE = -1  # beside the numbers of the methods


def _check_size(n_particles: int | None, method: str, n_components: int) -> int:
    """How many particles, points or chains an estimate gets."""
    if method in EXACT_METHODS:
        return 0 if n_particles is None else check_whole(n_particles, "n_particles")
    return ESTIMATORS.get(method, ESTIMATORS["smc"]).check(n_particles, n_components)


class _Task(NamedTuple):
    """A block of samples that share their columns of W, their method and their rule."""

    method: str
    members: Index
    columns: Index


def _plan(
    rows: sp.csr_array,
    place: Index,
    model: GaP,
    method: str,
    max_cost: float,
    size: int,
) -> tuple[Index, list[_Task]]:
    """Which method each distinct sample gets, by number, and the work for the exact ones.

    place (N,) are the samples' rows in X, for the messages.
    """
    N = rows.shape[0]
    groups = list(group_by_support(rows, model.W))
    costs = Costs(np.zeros((3, N)), np.zeros(N), np.zeros((3, N)))
    rule = np.zeros(N, dtype=np.int64)
    which = np.full(N, _IMPOSSIBLE)
    total = np.asarray(rows.sum(axis=1)).astype(float)
    for members, columns in groups:
        alpha = model.alpha[columns]
        for array, values in zip(costs, predict(rows[members], alpha), strict=True):
            array[..., members] = values
        rule[members] = rule_key(alpha, total[members])
        which[members] = _choose(method, costs.operations[:, members], columns.size)
    exact = which < len(EXACT_METHODS)
    chosen = costs.operations[np.where(exact, which, 0), np.arange(N)]
    if not exact.all():
        cost = ESTIMATORS[METHODS[which[~exact][0]]].cost
        chosen[~exact] = cost(rows[~exact], model.n_components, size)
    refuse_if_too_costly(method, chosen, costs, total, place, max_cost)
    n_entries = np.diff(rows.indptr)
    return which, [
        _Task(EXACT_METHODS[m], block, columns)
        for members, columns in groups
        for m in range(len(EXACT_METHODS))
        for block in cut_blocks(members[which[members] == m], rule, n_entries, chosen)
    ]


def _choose(method: str, operations: Array, n_columns: int) -> Index:
    """The number of the method for samples of these costs (3, N), which share their columns."""
    if method == "auto":
        smc = METHODS.index("smc")
        return np.where(operations.min(axis=0) <= AUTO_COST, operations.argmin(axis=0), smc)
    if method not in EXACT_METHODS and n_columns < 2:  # one term, in closed form
        method = EXACT_METHODS[0]
    method = "smc" if method == "estimate" else method
    return np.full(operations.shape[1], METHODS.index(method))


def _exact_factors(
    rows: sp.csr_array, tasks: list[_Task], model: GaP, n_jobs: int | None
) -> tuple[Array, NDArray[np.str_]]:
    """The second factor of Eq. 31 for the samples of the tasks, and the names of the methods."""
    rate = model.column_norms + model.beta

    def work(task: _Task) -> Array:
        block = take_block(rows, task.members)
        W = model.W[np.ix_(block.features, task.columns)]
        alpha = model.alpha[task.columns]
        return exact.log_factors(task.method, block, W, rate[task.columns], alpha)

    factor = np.full(rows.shape[0], -np.inf)
    methods = np.full(rows.shape[0], "impossible")  # what no column can have produced
    for task, values in zip(tasks, for_each(work, tasks, n_jobs), strict=True):
        factor[task.members] = values
        methods[task.members] = task.method
    return factor, methods


def comparison_log_likelihood(
    X: sp.csr_array,
    model: GaP,
    seed: int,
    n_jobs: int | None,
    n_particles: int = COMPARISON_PARTICLES,
) -> LogLikelihood:
    """log p(X | W) to compare models by: exact where that is cheap for all samples."""
    method = "auto" if model.n_components <= 3 else "smc"
    return log_marginal_likelihood(
        X,
        model,
        method,
        random_state=seed,
        n_jobs=n_jobs,
        n_particles=n_particles,
        escalate=False,  # what a few samples are wrong by, they are in both models
        max_cost=np.inf,  # a fit that was made must not be lost to its likelihood's price
    )
