"""The exact law of the component sizes L = (L_1 … L_K) of one sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts
from gapmf.errors import InvalidInputError
from gapmf.kernels import polynomial
from gapmf.likelihood.exact import scaled_probabilities
from gapmf.likelihood.planning import MAX_COST, MAX_MEMORY, check_support, predict, refuse_work
from gapmf.model import GaP
from gapmf.types import Array


def law_of_sizes(x: Any, model: GaP) -> tuple[NDArray[np.int64], Array]:
    """The exact law of L = (L_1 … L_K) given one sample: values (M, K) and probabilities (M,).

    All ways to share |v| counts among the components that can have produced them.
    """
    counts = check_counts(
        np.atleast_2d(x) if not sp.issparse(x) else x, n_features=model.n_features
    )
    if counts.shape[0] != 1:
        raise InvalidInputError(f"one sample is expected, but {counts.shape[0]} came")
    check_support(counts, model.W)
    v, features = counts.data, counts.indices
    columns = np.flatnonzero((model.W[features] > 0).any(axis=0))
    n, K = int(v.sum()), columns.size
    if K <= 1:
        sizes = np.zeros((1, model.n_components), dtype=np.int64)
        sizes[0, columns] = n
        return sizes, np.ones(1)
    costs = predict(counts, model.alpha[columns])
    refuse_work("the law of L", float(costs.operations[1, 0]), MAX_COST)
    if costs.memory[1, 0] * (model.n_components + 1) > MAX_MEMORY:
        refuse_work("the law of L", np.inf, MAX_COST)
    rate = (model.column_norms + model.beta)[columns]
    p, _ = scaled_probabilities(model.W[np.ix_(features, columns)], rate)
    rows = polynomial.rows_of_simplex(n, K)
    tuples, _, start, _ = rows
    law = np.zeros(start[-1])
    order, _ = polynomial.interleave(np.array([0, v.size]), v)
    polynomial.grow(law, order, p, model.alpha[columns], n, *rows)
    length = np.diff(start)
    sizes = np.zeros((law.size, model.n_components), dtype=np.int64)
    for d in range(K - 2):
        sizes[:, columns[d]] = np.repeat(tuples[:, d], length)
    sizes[:, columns[K - 2]] = np.arange(law.size) - np.repeat(start[:-1], length)
    sizes[:, columns[K - 1]] = n - sizes.sum(axis=1)
    return sizes, law / law.sum()
