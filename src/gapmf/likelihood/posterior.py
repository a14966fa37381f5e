"""Exact posterior moments of the activations and components, given the counts.

Put h_k = s θ_k / (S_k + β_k) with θ on the simplex. Given v, s and θ are independent and
s ~ Gamma(A + |v|, 1), so everything follows from posterior means of functions of θ, which are
ratios of polynomials and come exactly from the likelihood's own quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts
from gapmf.kernels import posterior as kernel
from gapmf.likelihood.cost import MAX_COST
from gapmf.likelihood.exact import scaled_probabilities
from gapmf.likelihood.plan import Work, plan_quadrature, refuse_impossible
from gapmf.model import GaP, check_model
from gapmf.parallel import check_n_jobs, for_each
from gapmf.rows import distinct_rows, sum_entries

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PosteriorMoments:
    """Exact moments of p(h_n, c_n | v_n), for every sample.

    Attributes
    ----------
    h : array, (N, K)
        E[h_kn | v_n].
    h_second : array, (N, K, K)
        E[h_kn h_ln | v_n].
    L : array, (N, K)
        E[L_kn | v_n].
    counts : csr_array of int64, (N, F)
        X in canonical form: the order of the rows of `c`.
    c : array, (counts.nnz, K)
        E[c_fkn | v_n] for every stored count v_fn.
    """

    h: Array
    h_second: Array
    L: Array
    counts: sp.csr_array
    c: Array

    @property
    def h_variance(self) -> Array:
        """Var[h_kn | v_n], (N, K)."""
        return np.asarray(np.einsum("nkk->nk", self.h_second) - self.h**2)


def posterior_moments(X: Any, model: GaP, *, n_jobs: int | None = None) -> PosteriorMoments:
    """Exact posterior moments of activations and components, for all samples at once.

    Parameters
    ----------
    X : counts, (N, F)
    model : GaP
    n_jobs : int, optional
        Threads, in scikit-learn's meaning. The result does not depend on it.

    Raises
    ------
    TooCostlyError
        When K or the counts are too large for exact moments.

    Examples
    --------
    >>> from gapmf import GaP, posterior_moments
    >>> moments = posterior_moments([[4, 1], [0, 0]], GaP([[3.0, 0.5], [1.0, 2.0]]))
    >>> moments.L.sum(axis=1).round(12)
    array([5., 0.])
    """
    check_model(model)
    counts = check_counts(X, n_features=model.n_features)
    check_n_jobs(n_jobs)
    first, inverse = distinct_rows(counts)
    rows = counts[first]
    N, K = rows.shape[0], model.n_components
    refuse_impossible(rows, model.W)
    works = plan_quadrature(
        rows, model.W, model.alpha, "exact posterior moments", MAX_COST, extra_degree=2
    )

    # A column that the sample does not meet keeps its prior, updated by having produced nothing.
    rate = model.beta + model.column_norms
    h = np.tile(model.alpha / rate, (N, 1))
    second = h[:, :, None] * h[:, None, :]
    np.einsum("nkk->nk", second)[:] += model.alpha / rate**2
    c = np.zeros((rows.nnz, K))

    def compute(work: Work) -> tuple[Array, Array, Array]:
        block, columns = work.block, work.columns
        # c needs p θ_k / (Pθ)_f only, where a row's scale cancels
        p, _ = scaled_probabilities(model.W[np.ix_(block.features, columns)], rate[columns])
        theta, theta2, ratio = kernel.moments(
            block.indptr, block.indices, block.counts, p, *work.rule
        )
        return theta, theta2, block.counts[:, None] * p[block.indices] * ratio

    for work, (theta, theta2, c_block) in zip(works, for_each(compute, works, n_jobs), strict=True):
        members, columns = work.members, work.columns
        shape = (model.alpha[columns].sum() + np.asarray(rows[members].sum(axis=1)))[:, None]
        mean = shape * theta / rate[columns]
        cross = h[members]
        cross[:, columns] = mean
        both = cross[:, :, None] * cross[:, None, :]
        np.einsum("nkk->nk", both)[:] += model.alpha / rate**2  # for the columns not met
        place = np.ix_(np.arange(members.size), columns, columns)
        scale = np.outer(rate[columns], rate[columns])
        both[place] = (shape * (shape + 1))[:, :, None] * theta2 / scale
        h[members], second[members] = cross, both
        c[np.ix_(_entries(rows, members), columns)] = c_block
    L = np.stack([sum_entries(rows.indptr, c[:, k]) for k in range(K)], axis=1)
    back = _entries(rows, inverse)
    return PosteriorMoments(h[inverse], second[inverse], L[inverse], counts, c[back])


def _entries(rows: sp.csr_array, members: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of the stored entries of the given rows, one row after the other."""
    size = np.diff(rows.indptr)[members]
    start = np.repeat(rows.indptr[members] - np.concatenate([[0], np.cumsum(size)[:-1]]), size)
    return np.asarray(start + np.arange(size.sum()), dtype=np.int64)
