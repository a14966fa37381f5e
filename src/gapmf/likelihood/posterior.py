"""The posterior of the activations given the counts: means, deviations, quantiles and draws.

Means are exact where quadrature is cheap. Otherwise, Gibbs chains give E[L_k | v], and
E[h_k | v] = (α_k + E[L_k | v]) / (S_k + β_k). Draws of L give
Var[h_k | v] = (E[α_k + L_k | v] + Var[L_k | v]) / (S_k + β_k)².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import check_counts
from gapmf.csr import distinct_rows
from gapmf.errors import InvalidInputError
from gapmf.likelihood.exact import nodes_per_stick
from gapmf.likelihood.guide import N_CHAINS, N_PASSES, draw_passes, guide, may_miss_a_mode
from gapmf.likelihood.moments import moments_of
from gapmf.likelihood.planning import check_support, group_by_support, quadrature_cost, support
from gapmf.likelihood.result import MIN_FIRST_TOKENS, expected_first_tokens
from gapmf.likelihood.sample import (
    ACTIVATIONS,
    Sample,
    log_gamma,
    max_particles,
    sample_of_row,
    stream_keys,
)
from gapmf.likelihood.short_chains import activation_units, sample_sizes
from gapmf.model import GaP, check_model
from gapmf.observation import Observation, check_observation, rates_of
from gapmf.parallel import Progress, check_n_jobs, for_each, part_of
from gapmf.types import Array, Index
from gapmf.validation import LARGEST_ALPHA, check_number, check_random_state, check_whole

EXACT_COST = 2e6  # operations per sample up to which moments are exact: two milliseconds
MAX_MOMENTS = 1 << 22  # second moments that are held at once, K² per sample
MAX_DRAWS = 1024  # per sample, that can be asked for
QUANTILE_DRAWS = 512  # that quantiles and deviations come from, if no more are asked for
# Sweeps of a chain, at most: so many over the square of the precision, within limits.
SWEEPS_AT_ONE, MAX_SWEEPS = 1.0, (64, 4096)
FAR_OFF = 0.3  # of the exact means: draws whose means are further off are not reliable
_MAX_HELD = 1 << 25  # numbers of draws that are held at once

# The careful way: numbers of chains to try while their means disagree. Longer chains would stay in
# the mode in which they start.
CHAINS = (N_CHAINS, 4 * N_CHAINS, 16 * N_CHAINS, 64 * N_CHAINS)
CAREFUL_ERROR = 0.005  # relative error of a sample's means at which chains suffice
LARGEST_RELIABLE = 0.02  # largest reliable relative error


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Posterior of the activations h_n given the counts v_n of each sample.

    Attributes
    ----------
    mean : ndarray of shape (n_samples, n_components)
        Posterior means.
    std : ndarray of shape (n_samples, n_components)
        Posterior standard deviations: exact where `mean` is, else from draws; nan if neither
        quantiles nor draws were requested.
    quantiles : ndarray of shape (n_quantiles, n_samples, n_components)
        Posterior quantiles, in the requested order; always computed from draws.
    draws : ndarray of shape (n_draws, n_samples, n_components) or None
        Posterior draws, if requested.
    proportions : ndarray of shape (n_samples, n_components)
        Expected shares of the components in the counts of each sample; rows sum to 1. A sample
        without counts has the components' shares of all expected counts.
    proportions_std : ndarray of shape (n_samples, n_components)
        Posterior standard deviations of these shares: how uncertain it is which component the
        counts of the sample came from. nan where `std` is, and for a sample without counts.
    exact : ndarray of bool of shape (n_samples,)
        Where `mean` is exact.
    error : ndarray of shape (n_samples,)
        Monte Carlo error of a sample's means, relative to the Euclidean norm of these means, as
        measured from its chains: 2.2 standard errors, or one if `careful`; 0 where exact. Each
        activation is measured in units of max(α_k, 1)/β_k, so that a large α hides no errors.
    reliable : ndarray of bool of shape (n_samples,)
        False where the chains still disagree by more than `precision` after all sweeps (2 % if
        `careful`), where a very small α may have kept all of them in one mode, and where the
        draws of an exact sample miss its mean.
    """

    mean: Array
    std: Array
    quantiles: Array
    draws: Array | None
    proportions: Array
    proportions_std: Array
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
    precision: float = 0.05,
    quantiles: Any = (0.05, 0.95),
    n_draws: int = 0,
    careful: bool = False,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    exposure: Any = None,
    observed: Any = None,
) -> Posterior:
    """Compute posterior means, standard deviations and quantiles of the activations.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Counts.
    model : GaP
        The model.
    precision : float, default=0.05
        Target for the Monte Carlo error of a sample's means (2.2 standard errors), relative to the
        Euclidean norm of these means. The chains of a sample stop when the error is below it. Each
        chain makes at most 1/precision² sweeps (this limit is at least 64 and at most 4096), so
        the target may be missed: `reliable` of the result is then False.
    quantiles : sequence of float, default=(0.05, 0.95)
        Levels of the quantiles, between 0 and 1.
    n_draws : int, default=0
        Number of posterior draws to return, at most 1024.
    careful : bool, default=False
        Whether to use many short chains, started from guided passes over the tokens, until the
        error is 0.5 %. `precision` is then ignored. This takes about a hundred times as long. It
        is for a very small α, where a few long chains may not move between modes.
    random_state : int, Generator, RandomState or None, default=None
        Source of randomness. The result of a sample depends on it and on the counts of this
        sample alone.
    n_jobs : int or None, default=None
        Number of threads, with scikit-learn's meaning. The result does not depend on it.
    progress : callable, default=None
        Called now and then with the part of the work that is done, from 0 to 1.
    exposure : float or array-like of shape (n_samples,), default=None
        Exposure of each sample, as in `log_marginal_likelihood`.
    observed : array-like or sparse matrix of bool of shape (n_samples, n_features), default=None
        True where an entry was observed; None for everywhere.

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
    Moments are exact where quadrature takes less than two milliseconds per sample. Otherwise they
    are means over four chains of the Gibbs sampler of [1]_ that start apart.

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
    counts, observation = check_observation(
        check_counts(X, n_features=model.n_features), exposure, observed
    )
    return posterior_of(
        counts,
        model,
        precision=precision,
        quantiles=quantiles,
        n_draws=n_draws,
        careful=careful,
        random_state=random_state,
        n_jobs=n_jobs,
        progress=progress,
        observation=observation,
    )


def posterior_of(
    counts: sp.csr_array,
    model: GaP,
    *,
    precision: float = 0.05,
    quantiles: Any = (0.05, 0.95),
    n_draws: int = 0,
    careful: bool = False,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    observation: Observation | None = None,
) -> Posterior:
    """Compute `posterior_activations` of canonical counts of observed entries."""
    check_n_jobs(n_jobs)
    precision = check_number(precision, "precision", above=0.0)
    levels = _check_quantiles(quantiles)
    n_draws = check_whole(n_draws, "n_draws", 0)
    if n_draws > MAX_DRAWS:
        raise InvalidInputError(f"n_draws is {n_draws}, but must be at most {MAX_DRAWS}")
    seed = check_random_state(random_state).integers(2**64, dtype=np.uint64)
    check_support(counts, model.W)
    first, inverse = distinct_rows(counts, None if observation is None else observation.keys())
    rows = counts[first]
    N, K = rows.shape[0], model.n_components
    own = None if observation is None else observation.take(first)
    rates = None if own is None else own.unit_rates(model)
    rate = np.broadcast_to(rates_of(model, own), (N, K))
    exact = _is_cheap(rows, model)
    sizes, error, reliable = np.zeros((N, K)), np.zeros(N), np.ones(N, dtype=bool)
    std = np.full((N, K), np.nan)
    sizes_std = np.full((N, K), np.nan)
    for some in _pieces(np.flatnonzero(exact), K * K, MAX_MOMENTS):
        its_own = None if own is None else own.take(some)
        moments = moments_of(rows[some], model, n_jobs, its_own)
        sizes[some], std[some] = moments.L, np.sqrt(moments.h_variance)
        sizes_std[some] = _sizes_std(moments.h_variance, moments.L, model.alpha, rate[some])
    wanted = max(n_draws, QUANTILE_DRAWS) if levels.size or n_draws else 0
    quantile_values = np.empty((levels.size, N, K))
    draws = np.empty((n_draws, N, K)) if n_draws else None
    left = np.arange(N) if wanted else np.flatnonzero(~exact)
    done = 0
    for some in _pieces(left, K * max(wanted, 1), _MAX_HELD):
        part = part_of(progress, done / left.size, (done + some.size) / left.size)
        done += some.size
        draw = _draw_carefully if careful else _draw
        own_rates = None if rates is None else rates[some]
        found = draw(rows[some], model, own_rates, seed, precision, wanted, n_jobs, part)
        estimated = some[~exact[some]]
        inexact = ~exact[some]
        sizes[estimated], error[estimated] = found.mean[inexact], found.error[inexact]
        reliable[estimated] = found.reliable[inexact]
        if wanted:
            h, variance = _draw_activations(rows, some, model, rate[some], seed, found.draws)
            std[estimated] = np.sqrt(variance[inexact])
            sizes_std[estimated] = found.draws[inexact].std(axis=1)
            # Draws of exact samples are judged by their means.
            means = (model.alpha + sizes[some]) / rate[some]
            units = activation_units(model)
            off = np.linalg.norm((h.mean(axis=0) - means) / units, axis=1)
            length = np.linalg.norm(means / units, axis=1)
            reliable[some] &= (off <= FAR_OFF * length) | inexact
            quantile_values[:, some] = np.quantile(h, levels, axis=0)
            if draws is not None:
                draws[:, some] = h[np.linspace(0, len(h) - 1, n_draws).astype(int)]
    return Posterior(
        mean=((model.alpha + sizes) / rate)[inverse],
        std=std[inverse],
        quantiles=quantile_values[:, inverse],
        draws=None if draws is None else draws[:, inverse],
        proportions=_proportions(sizes, model)[inverse],
        proportions_std=_shares_std(sizes_std, sizes)[inverse],
        exact=exact[inverse],
        error=error[inverse],
        reliable=reliable[inverse],
    )


def _proportions(sizes: Array, model: GaP) -> Array:
    """Return the shares (N, K) of expected sizes in each sample."""
    total = sizes.sum(axis=1, keepdims=True)
    shares = np.broadcast_to(model.shares, sizes.shape).copy()
    return np.asarray(np.divide(sizes, total, out=shares, where=total > 0))


def _sizes_std(h_variance: Array, sizes: Array, alpha: Array, rate: Array) -> Array:
    """Return the deviations of L from the variances of h, by the formula above."""
    variance = h_variance * rate**2 - (alpha + sizes)
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


def _shares_std(sizes_std: Array, sizes: Array) -> Array:
    """Return the deviations (N, K) of the shares in each sample."""
    total = sizes.sum(axis=1, keepdims=True)
    shares_std = np.full_like(sizes, np.nan)
    return np.asarray(np.divide(sizes_std, total, out=shares_std, where=total > 0))


class _Drawn(NamedTuple):
    """Component sizes of N samples, from chains."""

    mean: Array  # (N, K): E[L | v]
    error: Array  # (N,)
    reliable: NDArray[np.bool_]  # (N,)
    draws: NDArray[Any]  # (N, S, K): draws of L


def _draw(
    rows: sp.csr_array,
    model: GaP,
    rates: Array | None,
    seed: np.uint64,
    precision: float,
    n_draws: int,
    n_jobs: int | None,
    progress: Progress | None,
) -> _Drawn:
    """Draw from a few chains per sample."""
    found = sample_sizes(
        rows,
        model,
        seed,
        ACTIVATIONS,
        precision=precision,
        max_sweeps=int(np.clip(SWEEPS_AT_ONE / precision**2, *MAX_SWEEPS)),
        n_jobs=n_jobs,
        n_draws=-(-n_draws // 4),
        progress=progress,
        rates=rates,
    )
    # With a small α, all chains may be in one mode, and agree: they must have had the chance to
    # give a first token to every component that the sample can have.
    possible = support(rows, model.W > 0)
    rarest = np.where(possible, model.alpha, LARGEST_ALPHA).min(axis=1)
    total = np.asarray(rows.sum(axis=1)).astype(float)
    tried = 4.0 * found.n_sweeps * expected_first_tokens(rarest, possible @ model.alpha, total)
    missed = (possible.sum(axis=1) > 1) & (tried < MIN_FIRST_TOKENS)
    return _Drawn(found.mean, found.error, (found.error <= precision) & ~missed, found.draws)


def _draw_activations(
    rows: sp.csr_array, some: Index, model: GaP, rate: Array, seed: np.uint64, sizes: NDArray[Any]
) -> tuple[Array, Array]:
    """Draw activations (S, N, K) given draws of L (N, S, K); also return their variances (N, K)."""
    shapes = model.alpha + sizes
    h = np.empty((sizes.shape[1], *rate.shape))
    for i, n in enumerate(some):
        key = [int(seed), *stream_keys(rows, n, ACTIVATIONS + 1, 1)]
        rng = np.random.Generator(np.random.Philox(key=np.array(key, dtype=np.uint64)))
        h[:, i] = np.exp(log_gamma(shapes[i], rng)) / rate[i]
    return h, (shapes.mean(axis=1) + shapes.var(axis=1)) / rate**2


def _pieces(some: Index, each: int, most: int) -> list[Index]:
    """Cut samples into pieces of which all together hold at most so many numbers."""
    at_once = max(most // each, 1)
    return [part for part in np.split(some, np.arange(at_once, some.size, at_once)) if part.size]


def _check_quantiles(quantiles: Any) -> Array:
    levels = np.asarray(quantiles, dtype=float).reshape(-1)
    if not ((levels >= 0.0) & (levels <= 1.0)).all():
        raise InvalidInputError(f"quantiles must lie between 0 and 1, but are {quantiles!r}")
    return levels


def _is_cheap(rows: sp.csr_array, model: GaP) -> NDArray[np.bool_]:
    """Return for which samples the quadrature of second moments, of degree |v| + 2, is cheap."""
    cheap = np.ones(rows.shape[0], dtype=bool)
    for members, columns in group_by_support(rows, model.W):
        if columns.size > 1:
            total = np.asarray(rows[members].sum(axis=1)).astype(float)
            m = nodes_per_stick(model.alpha[columns], total + 2)[0]
            n_entries = np.diff(rows.indptr)[members]
            cost = quadrature_cost(m, n_entries, columns.size, moments=True)
            cheap[members] = cost <= EXACT_COST
    return cheap


def _draw_carefully(
    rows: sp.csr_array,
    model: GaP,
    rates: Array | None,
    seed: np.uint64,
    precision: float,
    n_draws: int,
    n_jobs: int | None,
    progress: Progress | None,
) -> _Drawn:
    """Draw from many short chains per sample, started from guided passes over the tokens."""
    N, K = rows.shape[0], model.n_components
    n_draws = max(n_draws, 1)
    found = _Drawn(np.zeros((N, K)), np.zeros(N), np.ones(N, bool), np.zeros((N, n_draws, K)))

    def work(n: int) -> None:
        if rows.indptr[n + 1] == rows.indptr[n]:
            return
        sample = sample_of_row(rows, n, model, rates)
        columns = sample.columns
        if columns.size == 1:  # it has all tokens
            found.mean[n, columns] = found.draws[n][:, columns] = sample.counts.sum()
            return
        rate = model.column_norms + model.beta if rates is None else rates[n]
        rate = rate * activation_units(model)
        found_n = _careful_sizes(rows, n, sample, rate[columns], seed)
        sizes, found.error[n], found.reliable[n] = found_n
        found.mean[n, columns] = sizes.mean(axis=0)
        some = np.linspace(0, len(sizes) - 1, n_draws).astype(int)
        found.draws[n][:, columns] = sizes[some]

    for_each(work, range(N), n_jobs, progress)
    return found


def _careful_sizes(
    rows: sp.csr_array, n: int, sample: Sample, rate: Array, seed: np.uint64
) -> tuple[Array, float, bool]:
    """Draw L for one sample: draws (S, K), the error of their means, and whether to trust it."""
    keys = stream_keys(rows, n, ACTIVATIONS, N_PASSES)
    for n_chains in CHAINS:
        if n_chains > max(N_CHAINS, N_PASSES * max_particles(rate.size)):
            break
        n_sweeps = 16 if n_chains <= CHAINS[1] else 8
        expected = guide(rows, n, sample, seed, n_chains)
        drawn = draw_passes(sample, expected, seed, keys, n_sweeps, n_chains)
        error, missed = _error(drawn / rate), may_miss_a_mode(sample, expected, n_chains)
        if error <= CAREFUL_ERROR and not missed:
            break
    sizes = drawn.reshape(-1, rate.size) - sample.alpha
    return sizes, error, error <= LARGEST_RELIABLE and not missed


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
