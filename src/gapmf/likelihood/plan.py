"""Which samples are worked on together: those that share their columns and their rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.likelihood.cost import quadrature_cost
from gapmf.likelihood.rule import Rule, nodes_per_stick, rule_key, simplex_rule
from gapmf.rows import Block, take_block

Array = NDArray[np.float64]
Index = NDArray[np.int64]

# A block shares tables of 256 numbers a feature (2 KiB an entry each, at most) and is the unit
# of work of a thread. Nothing that a sample gets depends on its block.
_BLOCK_ENTRIES = 1 << 14
_BLOCK_COST = 1e8


def by_columns(rows: sp.csr_array, W: Array) -> Iterator[tuple[Index, Index]]:
    """Group the samples by the columns that can have produced them: members and columns.

    A sample with a count where every w_fk is 0 is impossible and is in no group.
    """
    present = sp.csr_array((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape)
    positive = W > 0
    meets = (present @ positive.astype(float)) > 0
    possible = np.asarray(present @ (~positive.any(axis=1)).astype(float)) == 0
    patterns, label = np.unique(meets, axis=0, return_inverse=True)
    order = np.argsort(label, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(label[order])) + 1):
        able = members[possible[members]]
        if able.size:
            yield able, np.flatnonzero(patterns[label[able[0]]])


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


def plan_quadrature(
    rows: sp.csr_array, W: Array, alpha: Array, *, extra_degree: int = 0
) -> tuple[list[Work], Array]:
    """Blocks for quadrature over θ of polynomials of degree |v| + extra_degree.

    Returns them with the predicted operations of each sample, (N,). Samples without counts, and
    those that no column can have produced, are in no block.
    """
    N = rows.shape[0]
    total = np.asarray(rows.sum(axis=1)).astype(np.int64)
    size = np.diff(rows.indptr)
    cost = np.zeros(N)
    works = []
    for members, columns in by_columns(rows, W):
        if columns.size == 0:
            continue
        shapes = alpha[columns]
        degree = total[members] + extra_degree
        rule = np.zeros(N, dtype=np.int64)
        rule[members] = rule_key(shapes, degree)
        m = nodes_per_stick(shapes, degree)[0]
        cost[members] = quadrature_cost(m, size[members], columns.size)
        for chosen in cut_blocks(members, rule, size, cost):
            largest = int(total[chosen].max()) + extra_degree
            block = take_block(rows, chosen)
            works.append(Work(chosen, columns, block, simplex_rule(shapes, largest)))
    return works, cost
