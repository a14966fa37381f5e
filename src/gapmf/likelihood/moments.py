"""Exact posterior moments of activations and components given the counts.

Let h_k = s θ_k / (S_k + β_k) with θ on the simplex. Given v, s and θ are independent and
s ~ Gamma(A + |v|, 1). So all moments follow from posterior means of functions of θ. These are
ratios of integrals of polynomials, which the quadrature of the likelihood computes exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts
from gapmf.csr import distinct_rows, sum_entries
from gapmf.kernels import quadrature_sums as kernel
from gapmf.likelihood import planning
from gapmf.likelihood.exact import block_probabilities
from gapmf.likelihood.planning import QuadratureBlock, check_support, plan_quadrature
from gapmf.model import GaP, check_model
from gapmf.observation import Observation, check_observation, rates_of
from gapmf.parallel import check_n_jobs, for_each
from gapmf.types import Array


@dataclass(frozen=True)
class PosteriorMoments:
    """Exact moments of the posterior p(h_n, c_n | v_n) of each sample.

    Attributes
    ----------
    h : ndarray of shape (n_samples, n_components)
        Mean activations E[h_kn | v_n].
    h_second : ndarray of shape (n_samples, n_components, n_components)
        Second moments E[h_kn h_ln | v_n].
    L : ndarray of shape (n_samples, n_components)
        Mean component sizes E[L_kn | v_n].
    counts : csr_array of int64 of shape (n_samples, n_features)
        The counts in canonical form. Their stored entries are the rows of `c`.
    c : ndarray of shape (counts.nnz, n_components)
        Mean components E[c_fkn | v_n] for every stored count v_fn.
    """

    h: Array
    h_second: Array
    L: Array
    counts: sp.csr_array
    c: Array

    @property
    def h_variance(self) -> Array:
        """Variances Var[h_kn | v_n], of shape (n_samples, n_components)."""
        return np.asarray(np.einsum("nkk->nk", self.h_second) - self.h**2)


def posterior_moments(
    X: Any, model: GaP, *, n_jobs: int | None = None, exposure: Any = None, observed: Any = None
) -> PosteriorMoments:
    """Compute exact posterior moments of activations and components.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Counts.
    model : GaP
        The model.
    n_jobs : int or None, default=None
        Number of threads, with scikit-learn's meaning. The result does not depend on it.
    exposure : float or array-like of shape (n_samples,), default=None
        Exposure of each sample, as in `log_marginal_likelihood`.
    observed : array-like or sparse matrix of bool of shape (n_samples, n_features), default=None
        True where an entry was observed; None for everywhere.

    Returns
    -------
    PosteriorMoments
        Moments of each sample.

    Raises
    ------
    TooCostlyError
        If the number of components or the counts are too large for exact moments.

    See Also
    --------
    posterior_activations : Compute means, deviations and quantiles for models of any size.

    Examples
    --------
    >>> from gapmf import GaP, posterior_moments
    >>> moments = posterior_moments([[4, 1], [0, 0]], GaP([[3.0, 0.5], [1.0, 2.0]]))
    >>> moments.L.sum(axis=1).round(12)
    array([5., 0.])
    """
    check_model(model)
    counts, observation = check_observation(
        check_counts(X, n_features=model.n_features), exposure, observed
    )
    return moments_of(counts, model, n_jobs, observation)


def moments_of(
    counts: sp.csr_array, model: GaP, n_jobs: int | None, observation: Observation | None = None
) -> PosteriorMoments:
    """Compute `posterior_moments` of canonical counts of observed entries."""
    check_n_jobs(n_jobs)
    first, inverse = distinct_rows(counts, None if observation is None else observation.keys())
    rows = counts[first]
    own = None if observation is None else observation.take(first)
    rates = None if own is None else own.unit_rates(model)
    N, K = rows.shape[0], model.n_components
    check_support(rows, model.W)
    works = plan_quadrature(
        rows, model.W, model.alpha, "exact posterior moments", planning.MAX_COST, extra_degree=2,
        own=rates is not None,
    )  # fmt: skip

    # Impossible columns of a sample keep their prior, updated by a count of zero.
    rate = np.broadcast_to(rates_of(model, own), (N, K))
    h = model.alpha / rate
    second = h[:, :, None] * h[:, None, :]
    np.einsum("nkk->nk", second)[:] += model.alpha / rate**2
    c = np.zeros((rows.nnz, K))

    def compute(work: QuadratureBlock) -> tuple[Array, Array, Array]:
        block, columns = work.block, work.columns
        # c depends on p θ_k / (Pθ)_f only, where the scale of a row cancels
        p, _ = block_probabilities(model, rates, block, work.members, columns)
        theta, theta2, ratio = kernel.moments(
            block.indptr, block.indices, block.counts, p, *work.rule
        )
        return theta, theta2, block.counts[:, None] * p[block.indices] * ratio

    for work, (theta, theta2, c_block) in zip(works, for_each(compute, works, n_jobs), strict=True):
        members, columns = work.members, work.columns
        shape = (model.alpha[columns].sum() + np.asarray(rows[members].sum(axis=1)))[:, None]
        own_rate = rate[np.ix_(members, columns)]
        mean = shape * theta / own_rate
        cross = h[members]
        cross[:, columns] = mean
        both = cross[:, :, None] * cross[:, None, :]
        np.einsum("nkk->nk", both)[:] += model.alpha / rate[members] ** 2  # impossible columns
        place = np.ix_(np.arange(members.size), columns, columns)
        scale = own_rate[:, :, None] * own_rate[:, None, :]
        both[place] = (shape * (shape + 1))[:, :, None] * theta2 / scale
        h[members], second[members] = cross, both
        c[np.ix_(_entries(rows, members), columns)] = c_block
    L = np.stack([sum_entries(rows.indptr, c[:, k]) for k in range(K)], axis=1)
    back = _entries(rows, inverse)
    return PosteriorMoments(h[inverse], second[inverse], L[inverse], counts, c[back])


def _entries(rows: sp.csr_array, members: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of the stored entries of the given rows, row by row."""
    size = np.diff(rows.indptr)[members]
    start = np.repeat(rows.indptr[members] - np.concatenate([[0], np.cumsum(size)[:-1]]), size)
    return np.asarray(start + np.arange(size.sum()), dtype=np.int64)
