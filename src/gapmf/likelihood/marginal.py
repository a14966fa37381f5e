"""The marginal likelihood: the door, and the way from samples to methods."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts
from gapmf.distributions import log_one_plus
from gapmf.likelihood import exact
from gapmf.likelihood.cost import (
    EXACT_METHODS,
    MAX_COST,
    Costs,
    predict,
    refuse_if_too_costly,
)
from gapmf.likelihood.plan import by_columns, cut_blocks
from gapmf.likelihood.result import LogLikelihood
from gapmf.likelihood.rule import rule_key
from gapmf.model import GaP, check_model
from gapmf.parallel import check_n_jobs, for_each
from gapmf.rows import distinct_rows, take_block
from gapmf.validation import check_number, check_option

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def log_marginal_likelihood(
    X: Any,
    model: GaP,
    method: str = "auto",
    *,
    n_jobs: int | None = None,
    max_cost: float = MAX_COST,
) -> LogLikelihood:
    """log p(V | W, β) with the activations integrated out: −C_ML of Eqs. 7, 8, 26, 27 and 31.

    Parameters
    ----------
    X : counts, (N, F)
        NumPy array, SciPy sparse, pandas or polars frame. X is Vᵀ.
    model : GaP
    method : {"auto", "enumerate", "polynomial", "quadrature"}
        "enumerate" is the paper's sum over admissible components; "polynomial" gathers its
        terms by L; "quadrature" integrates over the simplex. All are exact to rounding.
        "auto" takes the cheapest for each sample.
    n_jobs : int, optional
        Threads, in scikit-learn's meaning. The result does not depend on it.
    max_cost : float
        The number of operations (about a nanosecond each) above which to refuse, over all
        distinct samples.

    Returns
    -------
    LogLikelihood
        Samples that the model cannot produce have −inf, and the method "impossible".

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
    method = check_option(method, ("auto", *EXACT_METHODS), "method")
    check_n_jobs(n_jobs)
    max_cost = check_number(max_cost, "max_cost", above=0.0)
    first, inverse = distinct_rows(counts)
    rows = counts[first]
    factor, methods = _log_factors(rows, first, model, method, n_jobs, max_cost)
    per_sample = factor - log_normaliser(model)
    return LogLikelihood.from_exact(per_sample[inverse], methods[inverse], method)


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


def split_marginal_cost(X: Any, model: GaP, *, n_jobs: int | None = None) -> MarginalCostSplit:
    """Split C_ML/N into its data term (Eq. 33), its penalty (Eq. 34) and the constant.

    Parameters
    ----------
    X : counts, (N, F)
    model : GaP
    n_jobs : int, optional
    """
    ll = log_marginal_likelihood(X, model, n_jobs=n_jobs)
    data = -float(ll.per_sample.mean()) - log_normaliser(model)
    return MarginalCostSplit(data, model.penalty(), 0.0 - float(model.alpha @ np.log(model.beta)))


class _Task(NamedTuple):
    """A block of samples that share their columns of W, their method and their rule."""

    method: str
    members: Index
    columns: Index


def _log_factors(
    rows: sp.csr_array,
    place: Index,
    model: GaP,
    method: str,
    n_jobs: int | None,
    max_cost: float,
) -> tuple[Array, NDArray[np.str_]]:
    """The second factor of Eq. 31 for each distinct sample, and the method used for it.

    place (N,) are the samples' rows in X, for the messages.
    """
    N = rows.shape[0]
    groups = list(by_columns(rows, model.W))
    costs = Costs(np.zeros((3, N)), np.zeros(N), np.zeros((3, N)))
    rule = np.zeros(N, dtype=np.int64)
    total = np.asarray(rows.sum(axis=1)).astype(float)
    for members, columns in groups:
        alpha = model.alpha[columns]
        for array, values in zip(costs, predict(rows[members], alpha), strict=True):
            array[..., members] = values
        rule[members] = rule_key(alpha, total[members])
    if method == "auto":
        which = costs.operations.argmin(axis=0)
    else:
        which = np.full(N, EXACT_METHODS.index(method))
    chosen = costs.operations[which, np.arange(N)]
    refuse_if_too_costly(method, chosen, costs, total, place, max_cost)

    size = np.diff(rows.indptr)
    tasks = [
        _Task(EXACT_METHODS[m], block, columns)
        for members, columns in groups
        for m in range(len(EXACT_METHODS))
        for block in cut_blocks(members[which[members] == m], rule, size, chosen)
    ]

    rate = model.column_norms + model.beta

    def work(task: _Task) -> Array:
        block = take_block(rows, task.members)
        W = model.W[np.ix_(block.features, task.columns)]
        alpha = model.alpha[task.columns]
        return exact.log_factors(task.method, block, W, rate[task.columns], alpha)

    factor = np.full(N, -np.inf)
    methods = np.full(N, "impossible")  # what no column can have produced
    for task, values in zip(tasks, for_each(work, tasks, n_jobs), strict=True):
        factor[task.members] = values
        methods[task.members] = task.method
    return factor, methods
