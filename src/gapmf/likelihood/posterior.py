"""The posterior of activations and components given the counts.

Exact moments: let h_k = s θ_k / (S_k + β_k) with θ on the simplex. Given v, s and θ are independent
and s ~ Gamma(A + |v|, 1). So all moments follow from posterior means of functions of θ. These are
ratios of integrals of polynomials, which the quadrature of the likelihood computes exactly.

Otherwise, draws of L from Gibbs chains give E[h_k | v] = E[α_k + L_k | v] / (S_k + β_k) and
Var[h_k | v] = (E[α_k + L_k | v] + Var[L_k | v]) / (S_k + β_k)².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts
from gapmf.csr import distinct_rows, sum_entries
from gapmf.errors import InvalidInputError
from gapmf.kernels import quadrature_sums as kernel
from gapmf.likelihood import planning
from gapmf.likelihood.exact import scaled_probabilities
from gapmf.likelihood.guide import N_CHAINS, N_PASSES, draw_passes, guide, may_miss_a_mode
from gapmf.likelihood.planning import QuadratureBlock, check_support, plan_quadrature
from gapmf.likelihood.sample import (
    ACTIVATIONS,
    log_gamma,
    max_particles,
    sample_of_row,
    stream_keys,
)
from gapmf.model import GaP, check_model
from gapmf.parallel import check_n_jobs, for_each
from gapmf.types import Array
from gapmf.validation import check_random_state, check_whole

EXACT_COST = 1e6  # operations per sample up to which moments are exact: a millisecond
MAX_MOMENTS = 1 << 22  # second moments that are held at once, K² per sample

# Numbers of chains to try while their means disagree. Longer chains would stay in the mode in
# which they start.
CHAINS = (N_CHAINS, 4 * N_CHAINS, 16 * N_CHAINS, 64 * N_CHAINS)
N_DRAWS = 16 * N_CHAINS  # minimum; with more chains, each gives fewer draws
TARGET_ERROR = 0.005  # relative error of a sample's means at which chains suffice
LARGEST_RELIABLE = 0.02  # largest reliable relative error


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


def posterior_moments(X: Any, model: GaP, *, n_jobs: int | None = None) -> PosteriorMoments:
    """Compute exact posterior moments of activations and components.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Counts.
    model : GaP
        The model.
    n_jobs : int or None, default=None
        Number of threads, with scikit-learn's meaning. The result does not depend on it.

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
    counts = check_counts(X, n_features=model.n_features)
    check_n_jobs(n_jobs)
    first, inverse = distinct_rows(counts)
    rows = counts[first]
    N, K = rows.shape[0], model.n_components
    check_support(rows, model.W)
    works = plan_quadrature(
        rows, model.W, model.alpha, "exact posterior moments", planning.MAX_COST, extra_degree=2
    )

    # Impossible columns of a sample keep their prior, updated by a count of zero.
    rate = model.beta + model.column_norms
    h = np.tile(model.alpha / rate, (N, 1))
    second = h[:, :, None] * h[:, None, :]
    np.einsum("nkk->nk", second)[:] += model.alpha / rate**2
    c = np.zeros((rows.nnz, K))

    def compute(work: QuadratureBlock) -> tuple[Array, Array, Array]:
        block, columns = work.block, work.columns
        # c depends on p θ_k / (Pθ)_f only, where the scale of a row cancels
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
        np.einsum("nkk->nk", both)[:] += model.alpha / rate**2  # for impossible columns
        place = np.ix_(np.arange(members.size), columns, columns)
        scale = np.outer(rate[columns], rate[columns])
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


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Posterior of the activations h_n given the counts v_n of each sample.

    Attributes
    ----------
    mean : ndarray of shape (n_samples, n_components)
        Posterior means.
    std : ndarray of shape (n_samples, n_components)
        Posterior standard deviations.
    quantiles : ndarray of shape (n_quantiles, n_samples, n_components)
        Posterior quantiles, in the requested order; always computed from draws.
    draws : ndarray of shape (n_draws, n_samples, n_components) or None
        Posterior draws, if requested.
    exact : ndarray of bool of shape (n_samples,)
        Where `mean` and `std` are exact. Elsewhere they are means over Gibbs chains; samples
        whose chains disagree by more than 0.5 % get up to 64 times as many chains.
    error : ndarray of shape (n_samples,)
        Standard error of the vector of a sample's means relative to its length; 0 where exact.
    reliable : ndarray of bool of shape (n_samples,)
        False where the error exceeds 2 %, or where all chains may have missed a component with
        a very small α.
    """

    mean: Array
    std: Array
    quantiles: Array
    draws: Array | None
    exact: NDArray[np.bool_]
    error: Array
    reliable: NDArray[np.bool_]

    def __repr__(self) -> str:
        N, K = self.mean.shape
        return f"Posterior({N} samples × {K} components, exact for {int(self.exact.sum())})"


def posterior_activations(
    X: Any,
    model: GaP,
    *,
    quantiles: Any = (0.05, 0.95),
    n_draws: int = 0,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Posterior:
    """Compute posterior means, standard deviations and quantiles of the activations.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Counts.
    model : GaP
        The model.
    quantiles : sequence of float, default=(0.05, 0.95)
        Levels of the quantiles, between 0 and 1.
    n_draws : int, default=0
        Number of posterior draws to return, at most 1024.
    random_state : int, Generator, RandomState or None, default=None
        Source of randomness. The result of a sample depends on it and on the counts of this
        sample alone.
    n_jobs : int or None, default=None
        Number of threads, with scikit-learn's meaning. The result does not depend on it.

    Returns
    -------
    Posterior
        Means, deviations, quantiles and draws, and their accuracy.

    See Also
    --------
    posterior_moments : Compute exact moments.
    GammaPoissonMF.transform : Compute the means for a fitted estimator.

    Notes
    -----
    Moments are exact where quadrature takes less than a millisecond per sample. Otherwise they
    are means over the Gibbs sampler of [1]_, started from guided passes over the tokens.

    References
    ----------
    .. [1] L. Filstroff, A. Lumbreras and C. Févotte, "Closed-form Marginal Likelihood in
       Gamma-Poisson Matrix Factorization", ICML, 2018.

    Examples
    --------
    >>> from gapmf import GaP, posterior_activations
    >>> found = posterior_activations([[4, 1], [0, 0]], GaP([[3.0, 0.5], [1.0, 2.0]]))
    >>> found.mean.round(3)
    array([[1.032, 0.525],
           [0.2  , 0.286]])
    """
    check_model(model)
    counts = check_counts(X, n_features=model.n_features)
    check_n_jobs(n_jobs)
    levels = _check_quantiles(quantiles)
    n_draws = check_whole(n_draws, "n_draws", 0)
    if n_draws > N_DRAWS:
        raise InvalidInputError(f"n_draws is {n_draws}, but must be at most {N_DRAWS}")
    seed = check_random_state(random_state).integers(2**64, dtype=np.uint64)
    check_support(counts, model.W)
    first, inverse = distinct_rows(counts)
    rows = counts[first]
    N, K = rows.shape[0], model.n_components
    exact = _is_cheap(rows, model)
    mean, variance = np.empty((2, N, K))
    cheap = np.flatnonzero(exact)
    at_once = max(MAX_MOMENTS // K**2, 1)
    for some in np.split(cheap, np.arange(at_once, cheap.size, at_once)):
        if some.size:
            moments = posterior_moments(rows[some], model, n_jobs=n_jobs)
            mean[some], variance[some] = moments.h, moments.h_variance
    drawn = np.arange(N) if levels.size or n_draws else np.flatnonzero(~exact)
    quantile_values = np.empty((levels.size, N, K))
    draws = np.empty((n_draws, N, K)) if n_draws else None
    rate = model.column_norms + model.beta
    error, reliable = np.zeros(N), np.ones(N, dtype=bool)

    def work(n: int) -> None:
        shapes, found_error, sure, rng = _shapes(rows, n, model, seed)
        if not exact[n]:
            error[n], reliable[n] = found_error, sure
            mean[n] = shapes.mean(axis=0) / rate
            variance[n] = (shapes.mean(axis=0) + shapes.var(axis=0)) / rate**2
        if levels.size or draws is not None:
            h = np.exp(log_gamma(shapes, rng)) / rate
            quantile_values[:, n] = np.quantile(h, levels, axis=0)
            if draws is not None:
                draws[:, n] = h[np.linspace(0, len(h) - 1, n_draws).astype(int)]

    for_each(work, drawn.tolist(), n_jobs)
    return Posterior(
        mean=mean[inverse],
        std=np.sqrt(variance[inverse]),
        quantiles=quantile_values[:, inverse],
        draws=None if draws is None else draws[:, inverse],
        exact=exact[inverse],
        error=error[inverse],
        reliable=reliable[inverse],
    )


def _check_quantiles(quantiles: Any) -> Array:
    levels = np.asarray(quantiles, dtype=float).reshape(-1)
    if not ((levels >= 0.0) & (levels <= 1.0)).all():
        raise InvalidInputError(f"quantiles must lie between 0 and 1, but are {quantiles!r}")
    return levels


def _is_cheap(rows: sp.csr_array, model: GaP) -> NDArray[np.bool_]:
    """Return for which samples quadrature is cheap."""
    cheap = np.ones(rows.shape[0], dtype=bool)
    for members, columns in planning.group_by_support(rows, model.W):
        if columns.size > 1:
            operations = planning.predict(rows[members], model.alpha[columns]).operations[2]
            cheap[members] = operations <= EXACT_COST
    return cheap


def _shapes(
    rows: sp.csr_array, n: int, model: GaP, seed: np.uint64
) -> tuple[Array, float, bool, np.random.Generator]:
    """Draw α + L for one sample.

    Returns the draws (S, K), the relative error of their means, whether they are reliable, and a
    generator for activations given these draws.
    """
    *keys, own = stream_keys(rows, n, ACTIVATIONS, N_PASSES + 1)
    rng = np.random.Generator(np.random.Philox(key=np.array([int(seed), own], dtype=np.uint64)))
    shapes = np.tile(model.alpha, (N_DRAWS, 1))
    if rows.indptr[n + 1] == rows.indptr[n]:
        return shapes, 0.0, True, rng
    sample = sample_of_row(rows, n, model)
    columns = sample.columns
    if columns.size == 1:  # it has all tokens
        shapes[:, columns] += sample.counts.sum()
        return shapes, 0.0, True, rng
    rate = (model.column_norms + model.beta)[columns]
    for n_chains in CHAINS:
        if n_chains > max(N_CHAINS, N_PASSES * max_particles(columns.size)):
            break
        n_sweeps = 16 if n_chains <= CHAINS[1] else 8
        expected = guide(rows, n, sample, seed, n_chains)
        drawn = draw_passes(sample, expected, seed, keys, n_sweeps, n_chains)
        error, missed = _error(drawn / rate), may_miss_a_mode(sample, expected, n_chains)
        if error <= TARGET_ERROR and not missed:
            break
    drawn = drawn.reshape(-1, columns.size)
    shapes = np.tile(model.alpha, (len(drawn), 1))
    shapes[:, columns] = drawn
    return shapes, error, error <= LARGEST_RELIABLE and not missed, rng


def _error(draws: Array) -> float:
    """Return the standard error of the vector of means relative to its length.

    It is the larger one of two: between chains, and between the passes from which they start.
    """
    chains = draws.mean(axis=1)
    passes = chains.mean(axis=1)
    n_passes, each = chains.shape[:2]
    flat = chains.reshape(n_passes * each, -1)
    variance = max(
        flat.var(axis=0, ddof=1).sum() / len(flat), passes.var(axis=0, ddof=1).sum() / n_passes
    )
    return float(np.sqrt(variance) / np.linalg.norm(passes.mean(axis=0)))
