"""How often each component size L_kn has each value, expected exactly over a data set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapmf.em.expectation import MAX_ITERATION_COST, ExactExpectation
from gapmf.kernels import polynomial
from gapmf.likelihood.cost import predict, refuse_work
from gapmf.likelihood.exact import scaled_probabilities
from gapmf.likelihood.plan import by_columns, cut_blocks
from gapmf.model import GaP
from gapmf.parallel import for_each
from gapmf.rows import take_block

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def expected_sizes(expect: ExactExpectation, model: GaP) -> Array:
    """Σ_n P(L_kn = l | v_n) for l = 0 … max_n |v_n|: (K, max_n |v_n| + 1).

    From the law of L itself, grown a token at a time: C(|v|+K, K) steps a sample. A component
    that alone can have produced a sample has L = |v|, and one that cannot have, L = 0.
    """
    total = expect.totals
    sizes = np.zeros((model.n_components, int(total.max(initial=0)) + 1))
    tasks = plan_sizes(expect, model)
    for members, columns in by_columns(expect.rows, model.W):
        others = np.setdiff1d(np.arange(model.n_components), columns)
        sizes[others, 0] += expect.times[members].sum()
        if columns.size == 1:
            np.add.at(sizes[columns[0]], total[members], expect.times[members])

    def compute(task: tuple[Index, Index]) -> Array:
        members, columns = task
        block = take_block(expect.rows, members)
        rate = (model.column_norms + model.beta)[columns]
        p, _ = scaled_probabilities(model.W[np.ix_(block.features, columns)], rate)
        part = np.zeros((columns.size, int(total[members].max()) + 1))
        times, alpha = expect.times[members], model.alpha[columns]
        polynomial.add_sizes(block.indptr, block.indices, block.counts, times, p, alpha, part)
        return part

    for (_, columns), part in zip(tasks, for_each(compute, tasks, expect.n_jobs), strict=True):
        sizes[columns, : part.shape[1]] += part
    return sizes


def plan_sizes(expect: ExactExpectation, model: GaP) -> list[tuple[Index, Index]]:
    """Blocks of samples that several columns can have produced, with those columns.

    Refused before anything is computed when an E-step would take too long.
    """
    N, size = expect.rows.shape[0], np.diff(expect.rows.indptr)
    cost = np.zeros(N)
    groups = [group for group in by_columns(expect.rows, model.W) if group[1].size > 1]
    for members, columns in groups:
        costs = predict(expect.rows[members], model.alpha[columns])
        cost[members] = costs.operations[1]
    what = f"an E-step with the law of L, to learn alpha, at {model.n_components} components"
    refuse_work(what, float(cost.sum()), MAX_ITERATION_COST)
    # A block has one array for all its samples, made for the largest: so they are of a size.
    scale = np.ceil(4.0 * np.log2(np.maximum(expect.totals, 1))).astype(np.int64)
    return [
        (chosen, columns)
        for members, columns in groups
        for chosen in cut_blocks(members, scale, size, cost)
    ]
