"""Which samples are worked on together: those that share their columns and their rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.errors import InvalidInputError
from gapmf.likelihood.cost import making_cost, quadrature_cost, refuse_work
from gapmf.likelihood.rule import Rule, nodes_per_stick, rule_key, simplex_logs, simplex_rule
from gapmf.rows import Block, sum_entries, take_block

Array = NDArray[np.float64]
Index = NDArray[np.int64]

# A block shares tables of 256 numbers a feature (2 KiB an entry each, at most) and is the unit
# of work of a thread. Nothing that a sample gets depends on its block.
_BLOCK_ENTRIES = 1 << 14
_BLOCK_COST = 1e8
_MAKING = 3e5  # operations to make a small rule and its block


def by_columns(rows: sp.csr_array, W: Array) -> Iterator[tuple[Index, Index]]:
    """Group the samples by the columns that can have produced them: members and columns.

    A sample with a count where every w_fk is 0 is impossible and is in no group.
    """
    positive = W > 0
    meets = columns_met(rows, positive)
    empty = np.asarray(~positive.any(axis=1))
    possible = sum_entries(rows.indptr, empty[rows.indices].astype(float)) == 0
    patterns, label = np.unique(meets, axis=0, return_inverse=True)
    order = np.argsort(label, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(label[order])) + 1):
        able = members[possible[members]]
        if able.size:
            yield able, np.flatnonzero(patterns[label[able[0]]])


def columns_met(rows: sp.csr_array, positive: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which columns have a positive entry at some feature of a sample, (N, K)."""
    present = sp.csr_array((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape)
    return np.asarray(present @ positive.astype(float)) > 0


def cut_blocks(members: Index, rule: Index, size: Index, cost: Array) -> Iterator[Index]:
    """Cut samples into blocks with one rule each and about equal work.

    rule, size and cost are (N,): the key of the rule, the number of entries, of operations.
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


class Work(NamedTuple):
    """A block of samples with what its quadrature needs."""

    members: Index
    """The samples, by their row."""
    columns: Index
    """The columns of W that can have produced them."""
    block: Block
    rule: Rule
    logs: Array
    """Of the nodes, where they are wanted: `simplex_logs`; else without entries."""


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
) -> list[Work]:
    """Blocks for quadrature over θ of polynomials of degree |v| + extra_degree.

    Samples without counts, and those that no column can have produced, are in no block. With
    `share`, samples get a larger rule than they need where that saves a table of logarithms;
    without it, nothing that a sample gets depends on its company. With `logs`, the polynomials
    may be multiplied by log θ_k. When `what` is to be done
    would take two visits to every node of more than `limit` operations, it is refused before
    any rule is made.
    """
    N = rows.shape[0]
    total = np.asarray(rows.sum(axis=1)).astype(np.int64)
    size = np.diff(rows.indptr)
    cost, degree, rule = np.zeros(N), np.zeros(N, dtype=np.int64), np.zeros(N, dtype=np.int64)
    groups = [group for group in by_columns(rows, W) if group[1].size]
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
            its_logs = simplex_logs(shapes, n) if logs else np.empty((0, 0, 0))
            its_rule = simplex_rule(shapes, n, logs=logs)
            works.append(Work(chosen, columns, take_block(rows, chosen), its_rule, its_logs))
    return works


def _share_rules(degree: Index, size: Index, alpha: Array, logs: bool) -> Index:
    """Raise degrees to that of a larger sample where sharing its rule costs less.

    From the largest down: a rule of its own costs a group the logarithms of its features at
    every node; a shared one costs visits to the nodes that it would not need. With `logs` α is
    being learned: every E-step has another and makes its rules anew.
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


def refuse_impossible(rows: sp.csr_array, W: Array) -> None:
    """Raise when a count stands where every w_fk is 0: such a sample has no posterior."""
    empty = np.all(W == 0, axis=1)
    bad = np.asarray(empty)[rows.indices]
    if bad.any():
        place = int(bad.argmax())
        f, n = int(rows.indices[place]), int(np.searchsorted(rows.indptr, place, "right")) - 1
        raise InvalidInputError(
            f"feature {f} has counts in row {n}, but row {f} of W is all zero: the sample is "
            "impossible under the model and has no posterior; GammaPoissonMF's smoothing, a "
            "background in every component, gives it one"
        )
