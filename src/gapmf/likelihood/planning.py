"""Predicted costs of the exact methods, refusals, and blocks of samples that share work.

Costs are in operations of about a nanosecond each on one core. They depend on the sample and the
model alone: no decision reads a clock or other samples. A block holds samples with the same columns
and the same quadrature rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from gapmf.counts import check_counts
from gapmf.csr import Block, sum_entries, take_block
from gapmf.distributions import log_rising
from gapmf.errors import InvalidInputError, TooCostlyError
from gapmf.likelihood.exact import (
    QuadratureRule,
    nodes_per_stick,
    rule_key,
    simplex_logs,
    simplex_rule,
)
from gapmf.types import Array, Index
from gapmf.validation import check_whole

EXACT_METHODS = ("enumerate", "polynomial", "quadrature")
MAX_COST = 1e12  # operations per call, over its distinct samples: about a quarter of an hour
AUTO_COST = 1e8  # operations per sample up to which "auto" is exact: about a tenth of a second
MAX_MEMORY = 2**31  # bytes per thread

# Limits of a block, the task of a thread, which shares tables of 256 numbers per feature. The
# result of a sample does not depend on its block.
_BLOCK_ENTRIES = 1 << 14
_BLOCK_COST = 1e8
_MAKING = 3e5  # operations to make a small rule and its block


def count_admissible(X: Any, K: int, *, log: bool = False) -> NDArray[Any]:
    """Count the admissible components of each sample, Π_f C(v_fn+K−1, K−1): Eq. 25.

    This is the number of terms of the paper's sum for the sample. The paper's #C, of a whole data
    set, is the product over samples.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Counts.
    K : int
        Number of components.
    log : bool, default=False
        Whether to return natural logarithms instead of exact integers of any size.

    Returns
    -------
    ndarray of shape (n_samples,)
        Python integers (dtype object), or float64 if `log` is True.

    See Also
    --------
    log_marginal_likelihood : Compute the sum over admissible components.

    Examples
    --------
    >>> from gapmf import count_admissible
    >>> count_admissible([[2, 1], [0, 0]], K=3)
    array([18, 1], dtype=object)
    """
    counts = check_counts(X)
    K = check_whole(K, "K")
    if log:
        return sum_entries(counts.indptr, log_compositions(counts.data, K))
    ways = {int(v): math.comb(int(v) + K - 1, K - 1) for v in np.unique(counts.data)}
    rows = np.split(counts.data, counts.indptr[1:-1])
    return np.array([math.prod(ways[int(v)] for v in row) for row in rows], dtype=object)


def log_compositions(v: NDArray[Any], K: int) -> Array:
    """Return log C(v+K−1, K−1), the log-number of ways to write v as a sum of K counts."""
    return log_rising(np.asarray(v, dtype=float) + 1.0, K - 1) - float(gammaln(K))


class Costs(NamedTuple):
    """Predicted costs of the exact methods for N samples."""

    operations: Array  # (3, N), in the order of EXACT_METHODS; inf if there is too little memory
    log_terms: Array  # (N,): log-number of terms of the paper's sum
    memory: Array  # (3, N), bytes


def predict(rows: sp.csr_array, alpha: Array) -> Costs:
    """Predict the costs of samples whose possible columns have shapes alpha (K,)."""
    K, N = alpha.size, rows.shape[0]
    total = np.asarray(rows.sum(axis=1)).astype(float)
    n_entries = np.diff(rows.indptr)
    if K < 2:  # one term, in closed form
        return Costs(np.tile(n_entries + 10.0, (3, 1)), np.zeros(N), np.zeros((3, N)))
    log_terms = sum_entries(rows.indptr, log_compositions(rows.data, K))
    with np.errstate(over="ignore"):  # inf is a valid cost
        terms = np.exp(log_terms)
        coefficients = np.exp(log_compositions(total, K))
        table = np.exp(log_compositions(total, K - 1))
        grown = np.exp(log_compositions(total, K + 1))
        enumerate_ = terms * (7.0 * K + 30.0) + K * total
        polynomial = grown * K + table * (K * K) + 100.0
        memory = np.stack(
            [8.0 * K * total, 8.0 * (coefficients + 2.0 * (K - 1) * table), 4096.0 * n_entries]
        )
    m = nodes_per_stick(alpha, total)[0]
    quadrature = quadrature_cost(m, n_entries, K)
    quadrature += np.where(m > 512, making_cost(m, K), 0.0)  # small rules are cached
    operations = np.stack([enumerate_, polynomial, quadrature])
    return Costs(np.where(memory > MAX_MEMORY, np.inf, operations), log_terms, memory)


def quadrature_cost(
    m: NDArray[np.int64], n_entries: NDArray[np.int64], K: int, *, moments: bool = False
) -> Array:
    """Predict the operations of visiting all nodes of K−1 sticks with m nodes each.

    Moments take K more divisions per entry, and all products of two components.
    """
    visit = (6.0 + 2.0 * K * moments) * n_entries + 0.5 * K**2 * moments + 8.0
    with np.errstate(over="ignore"):
        visits: Array = m.astype(float) ** max(K - 1, 0)
        cost = visits * visit + 100.0
    return np.where(visits < 2.0**62, cost, np.inf)  # node numbers have 64 bits


def making_cost(m: NDArray[np.int64], K: int) -> Array:
    """Predict the operations of making a rule of K−1 sticks with m nodes each."""
    return 50.0 * max(K - 1, 0) * m.astype(float) ** 2


def refuse_if_too_costly(
    method: str, chosen: Array, costs: Costs, total: Array, row: NDArray[np.int64], max_cost: float
) -> None:
    """Raise an error with figures and advice if the chosen methods exceed the limit.

    chosen (N,) are the operations of the chosen methods, total (N,) the sums of the samples' counts
    and row (N,) their rows in X.
    """
    needed = float(chosen.sum())
    if needed <= max_cost and math.isfinite(needed):
        return
    worst = int(np.lexsort((total, chosen))[-1])
    reason = f"{_amount(needed)}, but the limit is {max_cost:.2g} operations"
    if method == "enumerate":
        log10_terms = costs.log_terms[worst] / math.log(10)
        reason = f"10^{log10_terms:.1f} terms for its worst sample, {reason}"
    elif method in EXACT_METHODS:
        gib, most = costs.memory[EXACT_METHODS.index(method), worst] / 2**30, MAX_MEMORY / 2**30
        if gib > most:
            reason = f"{gib:.2g} GiB per thread, but the limit is {most:g} GiB"
    cheapest = float(costs.operations.min(axis=0).sum())
    if method not in EXACT_METHODS:
        advice = "use fewer components or samples, or a larger max_cost"
    elif cheapest <= max_cost:
        advice = f'use method="auto", which needs at most {_amount(cheapest)}'
    else:
        advice = 'use method="auto", which estimates where exact methods are too costly'
    raise TooCostlyError(
        f'the likelihood by "{method}" needs {reason} (worst sample: row {int(row[worst])} '
        f"of X, with {int(total[worst])} counts); {advice}"
    )


def refuse_work(what: str, operations: float, limit: float) -> None:
    """Raise an error if another computation than the likelihood exceeds the limit."""
    if operations > limit:
        raise TooCostlyError(
            f"{what} needs {_amount(operations)}, but the limit is {limit:.2g} operations: "
            "use fewer components, or samples with fewer counts"
        )


def _amount(operations: float) -> str:
    """Describe a number of operations and the time that they take."""
    if not math.isfinite(operations):
        return "more memory or operations than any computer has"
    seconds, shown = operations * 1e-9, f"{operations:.2g} operations"
    if seconds > 1e6 * _YEAR:
        return f"{shown} (more than a million years)"
    for size, unit in ((_YEAR, "years"), (86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{shown} (about {float(f'{seconds / size:.2g}'):,.0f} {unit})"
    return f"{shown} (about {seconds:.2g} seconds)"


_YEAR = 3.15e7  # seconds


def group_by_support(rows: sp.csr_array, W: Array) -> Iterator[tuple[Index, Index]]:
    """Yield the members and columns of groups of samples with the same possible columns.

    A sample with a count where every w_fk is 0 is impossible and in no group.
    """
    positive = W > 0
    meets = support(rows, positive)
    empty = np.asarray(~positive.any(axis=1))
    possible = sum_entries(rows.indptr, empty[rows.indices].astype(float)) == 0
    patterns, label = np.unique(meets, axis=0, return_inverse=True)
    order = np.argsort(label, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(label[order])) + 1):
        able = members[possible[members]]
        if able.size:
            yield able, np.flatnonzero(patterns[label[able[0]]])


def support(rows: sp.csr_array, positive: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return (N, K) which columns have a positive entry at some feature of each sample."""
    present = sp.csr_array((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape)
    return np.asarray(present @ positive.astype(float)) > 0


def cut_blocks(members: Index, rule: Index, size: Index, cost: Array) -> Iterator[Index]:
    """Cut samples into blocks with one rule each and about equal work.

    rule, size and cost (N,) are keys of rules and numbers of entries and operations.
    """
    members = members[np.argsort(rule[members], kind="stable")]
    start, entries, operations = 0, 0, 0.0
    for i, n in enumerate(members):
        entries += size[n]
        operations += cost[n]
        full = entries > _BLOCK_ENTRIES or operations > _BLOCK_COST
        if i > start and (full or rule[n] != rule[members[start]]):
            yield members[start:i]
            start, entries, operations = i, size[n], cost[n]
    if members.size:
        yield members[start:]


class QuadratureBlock(NamedTuple):
    """A block of samples and its quadrature rule."""

    members: Index  # rows of the samples
    columns: Index  # columns of W that can have produced them
    block: Block
    rule: QuadratureRule
    logs: Array  # `simplex_logs` of the nodes if requested, else empty


def plan_quadrature(
    rows: sp.csr_array,
    W: Array,
    alpha: Array,
    what: str,
    limit: float,
    *,
    extra_degree: int = 0,
    share: bool = False,
    logs: bool = False,
    own: bool = False,
) -> list[QuadratureBlock]:
    """Plan the quadrature over θ of polynomials of degree |v| + extra_degree.

    Samples without counts, and impossible samples, are in no block. With `share`, samples may get a
    larger rule than they need, if that saves a table of logarithms; without it, the rule of a
    sample does not depend on other samples. With `logs`, polynomials times log θ_k are integrated
    too. With `own`, entries have probabilities of their own (see `take_block`). If two visits to
    all nodes need more than `limit` operations, an error that names `what` is raised before any
    rule is made.
    """
    N = rows.shape[0]
    total = np.asarray(rows.sum(axis=1)).astype(np.int64)
    size = np.diff(rows.indptr)
    cost, degree, rule = np.zeros(N), np.zeros(N, dtype=np.int64), np.zeros(N, dtype=np.int64)
    groups = [group for group in group_by_support(rows, W) if group[1].size]
    making = 0.0
    for members, columns in groups:
        shapes = alpha[columns]
        degrees = total[members] + extra_degree
        if share:
            degrees = _share_rules(degrees, size[members], shapes, logs)
        m = nodes_per_stick(shapes, degrees, logs=logs)[0]
        degree[members], rule[members] = degrees, rule_key(shapes, degrees, logs=logs)
        cost[members] = quadrature_cost(m, size[members], columns.size)
        making += float(making_cost(np.unique(m), columns.size).sum())
    refuse_work(what, 2.0 * float(cost.sum()) + making, limit)
    works = []
    for members, columns in groups:
        for chosen in cut_blocks(members, rule, size, cost):
            shapes, n = alpha[columns], int(degree[chosen].max())
            block, its_rule = take_block(rows, chosen, own=own), simplex_rule(shapes, n, logs=logs)
            its_logs = simplex_logs(shapes, n) if logs else np.empty((0, 0, 0))
            works.append(QuadratureBlock(chosen, columns, block, its_rule, its_logs))
    return works


def _share_rules(degree: Index, size: Index, alpha: Array, logs: bool) -> Index:
    """Raise degrees to that of a larger sample where sharing its rule costs less.

    A group with its own rule needs the logarithms of its features at every node; one with a shared
    rule visits more nodes than it needs. With `logs`, α is being learned and every E-step makes new
    rules.
    """
    nodes = nodes_per_stick(alpha, degree, logs=logs)[0].astype(float) ** (alpha.size - 1)
    making = _MAKING if logs else 0.0
    shared = degree.copy()
    current_nodes, current_degree = 0.0, 0
    for key in np.unique(nodes)[::-1]:
        group = np.flatnonzero(nodes == key)
        visit = 0.3 * size[group].sum() + 2.0 * group.size
        logarithms = 12.0 * size[group].max()
        if current_nodes and current_nodes * visit <= key * (visit + logarithms) + making:
            shared[group] = current_degree
        else:
            current_nodes, current_degree = key, int(degree[group].max())
            shared[group] = current_degree
    return shared


def check_support(rows: sp.csr_array, W: Array) -> None:
    """Raise an error if a feature has counts but every w_fk is 0: there is no posterior."""
    empty = np.all(W == 0, axis=1)
    bad = np.asarray(empty)[rows.indices]
    if bad.any():
        place = int(bad.argmax())
        f, n = int(rows.indices[place]), int(np.searchsorted(rows.indptr, place, "right")) - 1
        raise InvalidInputError(
            f"feature {f} has counts in row {n}, but row {f} of W is all zero: the sample is "
            "impossible under the model and has no posterior; with smoothing, GammaPoissonMF mixes "
            "a background into every component, which makes all samples possible"
        )
