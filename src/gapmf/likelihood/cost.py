"""What the exact methods cost, sample by sample; which is cheapest; when to refuse.

Costs are in operations of about a nanosecond each on one core of a common machine. They are
functions of the sample and the model alone: no decision reads a clock, or other samples.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from gapmf.errors import TooCostlyError
from gapmf.likelihood.rule import nodes_per_stick
from gapmf.rows import sum_entries
from gapmf.validation import check_counts, check_whole

EXACT_METHODS = ("enumerate", "polynomial", "quadrature")
MAX_COST = 1e12  # operations a call, over its distinct samples: a quarter of an hour or so
MAX_MEMORY = 2**31  # bytes a thread

Array = NDArray[np.float64]


def count_admissible(X: Any, K: int, *, log: bool = False) -> NDArray[Any]:
    """The number of admissible components of each sample, Π_f C(v_fn+K−1, K−1) (Eq. 25).

    That many terms has the paper's sum for one sample. The paper's #C, for a whole data set,
    is the product over samples.

    Parameters
    ----------
    X : counts, (N, F)
    K : int
        The number of components.
    log : bool
        Return natural logarithms (float64) instead of exact whole numbers of any size.

    Returns
    -------
    array, (N,)
        Python integers (dtype object), or float64 when `log`.

    Examples
    --------
    >>> from gapmf import count_admissible
    >>> count_admissible([[2, 1], [0, 0]], K=3)
    array([18, 1], dtype=object)
    """
    counts = check_counts(X)
    K = check_whole(K, "K")
    if log:
        return sum_entries(counts, log_compositions(counts.data, K))
    ways = {int(v): math.comb(int(v) + K - 1, K - 1) for v in np.unique(counts.data)}
    rows = np.split(counts.data, counts.indptr[1:-1])
    return np.array([math.prod(ways[int(v)] for v in row) for row in rows], dtype=object)


def log_compositions(v: NDArray[Any], K: int) -> Array:
    """log C(v+K−1, K−1): the ways to write v as a sum of K counts."""
    v = np.asarray(v, dtype=float)
    return np.asarray(gammaln(v + K) - gammaln(v + 1) - gammaln(K))


class Costs(NamedTuple):
    """What the exact methods cost, for each of N samples."""

    operations: Array
    """(3, N), in the order of EXACT_METHODS; inf where the memory would not suffice."""
    log_terms: Array
    """log of the number of terms of the paper's sum, (N,)."""
    memory: Array
    """Bytes for the coefficients of "polynomial", (N,)."""


def predict(rows: sp.csr_array, alpha: Array) -> Costs:
    """The costs for samples that all have len(alpha) columns to come from."""
    K = alpha.size
    total = np.asarray(rows.sum(axis=1)).astype(float)
    n_entries = np.diff(rows.indptr)
    log_terms = sum_entries(rows, log_compositions(rows.data, max(K, 1)))
    with np.errstate(over="ignore"):  # inf is a fine cost
        memory = 8.0 * np.exp(log_compositions(total, max(K, 1)))
        grown = np.exp(log_compositions(total, K + 1))
        quadrature = quadrature_cost(nodes_per_stick(alpha, total)[0], n_entries, K)
        enumerate_ = np.exp(log_terms) * (7.0 * K + 30.0)
        polynomial = grown * K + 100.0
    polynomial = np.where(memory > MAX_MEMORY, np.inf, polynomial)
    return Costs(np.stack([enumerate_, polynomial, quadrature]), log_terms, memory)


def quadrature_cost(nodes: NDArray[np.int64], n_entries: NDArray[np.int64], K: int) -> Array:
    """Operations to visit every node of K−1 sticks, with so many entries a sample."""
    with np.errstate(over="ignore"):
        visits: Array = nodes.astype(float) ** max(K - 1, 0)
        return visits * (6.0 * n_entries + 8.0) + 100.0


def refuse_if_too_costly(
    method: str, chosen: Array, costs: Costs, total: Array, K: NDArray[np.int64], max_cost: float
) -> None:
    """Raise, with the figures and a way out, when the chosen methods exceed the limit.

    chosen (N,) are the operations of the chosen methods, total (N,) the counts of the samples
    and K (N,) the columns that they have to come from.
    """
    needed = chosen.sum()
    if needed <= max_cost:
        return
    worst = int(chosen.argmax())
    reason = f"{_power(needed)} operations, over the limit of {_power(max_cost)}"
    if method == "enumerate":
        log10_terms = costs.log_terms[worst] / math.log(10)
        reason = f"10^{log10_terms:.1f} terms for its worst sample, {reason}"
    elif method == "polynomial" and costs.memory.max() > MAX_MEMORY:
        gib, most = costs.memory[worst] / 2**30, MAX_MEMORY / 2**30
        reason = f"{_power(gib)} GiB a thread, over the limit of {most:g} GiB"
    cheapest = costs.operations.min(axis=0).sum()
    if method != "auto" and cheapest <= max_cost:
        advice = f'use method="auto", which needs {_power(cheapest)} operations'
    elif math.isfinite(needed):
        advice = (
            "use fewer components or samples, or a larger max_cost "
            "(an operation takes about a nanosecond)"
        )
    else:
        advice = "use fewer components"
    raise TooCostlyError(
        f'the exact likelihood by "{method}" needs {reason} '
        f"(worst sample: {int(total[worst])} counts, {int(K[worst])} components); {advice}"
    )


def refuse_work(what: str, operations: float, limit: float) -> None:
    """Raise when something other than the likelihood would take more than the limit."""
    if operations > limit:
        raise TooCostlyError(
            f"{what} would take {_power(operations)} operations (about a nanosecond each), over "
            f"the limit of {_power(limit)}: use fewer components, or samples with fewer counts"
        )


def _power(number: float) -> str:
    return f"{number:.2g}" if math.isfinite(number) else "more than 1e300"
