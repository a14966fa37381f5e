"""Standard errors of W: the observed information, by Louis' identity.

The complete data are the components C, with activations integrated out. In x = log W their
log-likelihood is Σ c_fk x_fk − Σ_k (α_k + L_k) log(S_k + β_k), so with p_fk = w_fk/(S_k + β_k)

    complete score        c_fk − p_fk (α_k + L_k)
    complete information  (α_k + L_k) (diag(p_k) − p_k p_kᵀ), one block per component,

and the observed information is the posterior mean of the second minus the posterior covariance of
the first. So only E[c_n | v_n] and Cov[c_n | v_n] are needed. Given θ (that is, given the ratios of
the activations), the tokens of a feature are multinomial with probabilities y_fk ∝ p_fk θ_k, hence

    Cov[c] = E[v_f (diag(y_f) − y_f y_fᵀ)] (within a feature)  +  Cov[v_f y_fk].

All of this is a polynomial of degree |v| in θ under the posterior, which quadrature integrates
exactly. Where that is too costly, draws of θ from Gibbs chains take the place of the nodes.

Second derivatives in W are those in log W plus the gradient (divided by w_fk w_gl), which matters
where a fit by Monte Carlo is not quite at its maximum, most of all for small entries.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import ndtri
from threadpoolctl import threadpool_limits

from gapmf.csr import distinct_rows, take_block
from gapmf.errors import TooCostlyError
from gapmf.likelihood.exact import scaled_probabilities
from gapmf.likelihood.planning import check_support, plan_quadrature
from gapmf.likelihood.sample import stream_keys
from gapmf.likelihood.short_chains import sample_sizes
from gapmf.model import GaP
from gapmf.parallel import Progress, for_each
from gapmf.types import Array, Index
from gapmf.validation import check_number

LEAST_COUNT = 1.0  # expected counts that an entry of W needs: with fewer it counts as zero
MAX_ENTRIES = 3000  # of W, for the whole matrix: beyond, only its block of each feature
MAX_WORK = 3e11  # operations of the exact moments; beyond, draws
MAX_NODES = 3e7  # features × components × nodes of one sample, in memory
PRECISION, MAX_SWEEPS = 0.05, 1024  # of the chains, before they are used for draws
_PURPOSE = 77  # of random streams


@dataclass(frozen=True, repr=False, eq=False)
class StandardErrors:
    """Standard errors of the components, given α.

    Attributes
    ----------
    components : ndarray of shape (n_components, n_features)
        Standard errors of the entries of `components_`. NaN where an entry is zero, or explains
        less than one expected count: at the boundary there is no normal approximation.
    norms : ndarray of shape (n_components,)
        Standard errors of the norms Σ_f w_fk of the components; NaN for an empty component.
    estimates : ndarray of shape (n_components, n_features)
        The components themselves.
    method : {"exact", "sampled"}
        Where the posterior moments came from.
    complete : bool
        Whether the whole information matrix was inverted. If not (more than 3,000 entries), only
        its block of each feature was, as if the other features' entries were known: the errors
        are then too small.
    """

    components: Array
    norms: Array
    estimates: Array
    method: str
    complete: bool

    def __repr__(self) -> str:
        K, F = self.components.shape
        return f"StandardErrors(n_components={K}, n_features={F}, method={self.method!r})"

    def intervals(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the lower and upper ends of confidence intervals of the components.

        Intervals are symmetric in log w, so that they contain positive numbers only.

        Parameters
        ----------
        level : float, default=0.95
            Coverage, between 0 and 1.

        Returns
        -------
        lower : ndarray of shape (n_components, n_features)
            Lower ends; NaN where the standard error is NaN.
        upper : ndarray of shape (n_components, n_features)
            Upper ends.

        Examples
        --------
        >>> from gapmf import GammaPoissonMF
        >>> X = [[4, 1], [1, 2], [3, 1]]
        >>> est = GammaPoissonMF(1, algorithm="exact", random_state=0).fit(X)
        >>> lower, upper = est.standard_errors(X).intervals()
        >>> bool((lower < est.components_).all() and (est.components_ < upper).all())
        True
        """
        check_number(level, "level", above=0.0)
        check_number(1.0 - level, "1 − level", above=0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            width = np.exp(ndtri(0.5 + 0.5 * level) * self.components / self.estimates)
        return self.estimates / width, self.estimates * width


class Weighted(NamedTuple):
    """Values of θ for one sample: nodes, or draws of several chains of equal length, in turn."""

    theta: Array  # (K, m), up to a factor for each node
    weights: Array  # (m,), summing to one
    n_chains: int = 0


@dataclass
class Moments:
    """Sums over samples of the posterior mean and covariance of C."""

    mean: Array  # (F, K): Σ_n E[c]
    blocks: Array  # (F, K, K): Σ_n Cov[c_fk, c_fl]
    with_sizes: Array  # (F, K, K): Σ_n Cov[c_fk, L_l]
    sizes: Array  # (K, K): Σ_n Cov[L_k, L_l]
    whole: Array | None  # (F, K, F, K): Σ_n Cov[c_fk, c_gl], if asked for

    @classmethod
    def zeros(cls, F: int, K: int, *, whole: bool) -> Moments:
        """Return sums over no samples."""
        all_pairs = np.zeros((F, K, F, K)) if whole else None
        return cls(
            np.zeros((F, K)), np.zeros((F, K, K)), np.zeros((F, K, K)), np.zeros((K, K)), all_pairs
        )

    def add_sample(self, features: Index, v: Array, p: Array, at: Weighted, times: float) -> None:
        """Add a sample: counts v (J,) of its features, rows p (J, K), θ and how often it occurs."""
        J, K = p.shape
        y = p[:, :, None] * at.theta
        y /= y.sum(axis=1, keepdims=True)
        mean = y @ at.weights
        y -= mean[:, :, None]
        if at.n_chains:
            # Draws vary about their own mean less than about the true one, by the variance of
            # their mean, which the means of the chains tell.
            C = at.n_chains
            chains = y.reshape(J, K, C, -1).mean(axis=3) / np.sqrt(C * (C - 1))
        y *= np.sqrt(at.weights)
        # E[v (diag(y) − y yᵀ)], where E[y yᵀ] is that about the draws' own mean.
        second = y @ y.transpose(0, 2, 1) + mean[:, :, None] * mean[:, None, :]
        within = v[:, None, None] * (mean[:, :, None] * np.eye(K) - second)
        if at.n_chains:
            y = np.concatenate([y, chains], axis=2)
        y *= v[:, None, None]
        m = y.shape[2]
        if self.whole is not None:
            pairs = (y.reshape(J * K, m) @ y.reshape(J * K, m).T).reshape(J, K, J, K)
            j = np.arange(J)
            pairs[j, :, j, :] += within
            blocks, with_sizes = pairs[j, :, j, :], pairs.sum(axis=2)
            self.whole[features[:, None], :, features[None, :], :] += times * pairs.transpose(
                0, 2, 1, 3
            )
        else:
            blocks = y @ y.transpose(0, 2, 1) + within
            with_sizes = y @ y.sum(axis=0).T + within
        self.mean[features] += (times * v)[:, None] * mean
        self.blocks[features] += times * blocks
        self.with_sizes[features] += times * with_sizes
        self.sizes += times * with_sizes.sum(axis=0)

    def add(self, other: Moments, features: Index) -> None:
        """Add sums over other samples, whose features are only these."""
        self.mean[features] += other.mean
        self.blocks[features] += other.blocks
        self.with_sizes[features] += other.with_sizes
        self.sizes += other.sizes
        if self.whole is not None and other.whole is not None:
            place = features[:, None], slice(None), features[None, :], slice(None)
            self.whole[place] += other.whole.transpose(0, 2, 1, 3)


def standard_errors(
    counts: sp.csr_array,
    model: GaP,
    *,
    method: str,
    n_draws: int,
    seed: int,
    n_jobs: int | None,
    progress: Progress | None = None,
) -> StandardErrors:
    """Compute standard errors of W from canonical counts; `GammaPoissonMF` has the meanings."""
    check_support(counts, model.W)
    first, inverse = distinct_rows(counts)
    rows, times = counts[first], np.bincount(inverse).astype(np.float64)
    seen = np.asarray(counts.sum(axis=0)) > 0
    whole = int((model.W[seen] > 0).sum()) <= MAX_ENTRIES
    moments, how = None, "exact"
    # The products are small: threads of BLAS would wait for each other most of the time.
    with threadpool_limits(1, "blas"):
        if method != "sampled":
            try:
                moments = _exact_moments(rows, times, model, whole, n_jobs, progress)
            except TooCostlyError:
                if method == "exact":
                    raise
        if moments is None:
            how = "sampled"
            moments = _sampled_moments(rows, times, model, whole, n_draws, seed, n_jobs, progress)
    return _invert(moments, model, counts.shape[0], how)


def _exact_moments(
    rows: sp.csr_array,
    times: Array,
    model: GaP,
    whole: bool,
    n_jobs: int | None,
    progress: Progress | None,
) -> Moments:
    """Sum moments over samples by quadrature; refuse if that takes too long."""
    works = plan_quadrature(rows, model.W, model.alpha, "exact standard errors", MAX_WORK)
    size = np.diff(rows.indptr).astype(np.float64)
    work_size = 0.0
    for work in works:
        width = size[work.members] * work.columns.size
        n_nodes = float(work.rule.nodes.shape[1]) ** (work.columns.size - 1)
        work_size += float((n_nodes * (width**2 if whole else width * work.columns.size)).sum())
        if n_nodes * width.max(initial=0.0) > MAX_NODES or work_size > MAX_WORK:
            raise TooCostlyError(
                f"exact standard errors need the moments of samples with up to {int(size.max())} "
                f'features at {n_nodes:.2g} nodes, which is too much: use method="sampled"'
            )

    def compute(work_at: int) -> Moments:
        work = works[work_at]
        block = work.block
        rate = (model.column_norms + model.beta)[work.columns]
        p, _ = scaled_probabilities(model.W[np.ix_(block.features, work.columns)], rate)
        theta, log_weights = _nodes(*work.rule)
        log_rates = np.log(p @ theta)
        found = Moments.zeros(block.features.size, model.n_components, whole=whole)
        own = Moments.zeros(block.features.size, work.columns.size, whole=whole)
        for s, n in enumerate(work.members):
            lo, hi = block.indptr[s], block.indptr[s + 1]
            features, v = block.indices[lo:hi], block.counts[lo:hi].astype(np.float64)
            exponent = log_weights + v @ log_rates[features]
            weights = np.exp(exponent - exponent.max())
            kept = weights > 1e-18
            at = Weighted(theta[:, kept], weights[kept] / weights[kept].sum())
            own.add_sample(features, v, p[features], at, float(times[n]))
        _place(own, work.columns, found)
        return found

    total = Moments.zeros(model.n_features, model.n_components, whole=whole)
    for work, part in zip(
        works, for_each(compute, range(len(works)), n_jobs, progress), strict=True
    ):
        total.add(part, work.block.features)
    return total


def _place(own: Moments, columns: Index, found: Moments) -> None:
    """Write sums over some columns into sums over all."""
    found.mean[:, columns] = own.mean
    for name in ("blocks", "with_sizes"):
        getattr(found, name)[:, columns[:, None], columns] = getattr(own, name)
    found.sizes[columns[:, None], columns] = own.sizes
    if found.whole is not None and own.whole is not None:
        F = found.mean.shape[0]
        found.whole[np.ix_(np.arange(F), columns, np.arange(F), columns)] = own.whole


def _nodes(nodes: Array, complements: Array, log_weights: Array) -> tuple[Array, Array]:
    """Return all nodes θ (K, m^(K−1)) of a product rule, and their log-weights."""
    rest, log_w, theta = np.ones(1), np.zeros(1), np.empty((0, 1))
    for u, other, log_u in zip(nodes, complements, log_weights, strict=True):
        theta = np.vstack([np.repeat(theta, u.size, axis=1), np.outer(rest, u).ravel()])
        rest, log_w = np.outer(rest, other).ravel(), np.add.outer(log_w, log_u).ravel()
    return np.vstack([theta, rest]), log_w


def _sampled_moments(
    rows: sp.csr_array,
    times: Array,
    model: GaP,
    whole: bool,
    n_draws: int,
    seed: int,
    n_jobs: int | None,
    progress: Progress | None,
) -> Moments:
    """Sum moments over samples, from draws of θ by Gibbs chains."""
    total = Moments.zeros(model.n_features, model.n_components, whole=whole)
    rate = model.column_norms + model.beta
    key = np.uint64(seed)
    for lo, hi in _pieces(rows, n_draws, model.n_components):
        part = rows[lo:hi]
        found = sample_sizes(
            part, model, key, _PURPOSE,
            precision=PRECISION, max_sweeps=MAX_SWEEPS, n_jobs=n_jobs, n_draws=n_draws,
        )  # fmt: skip
        for n in range(hi - lo):
            block = take_block(part, np.array([n]))
            if block.features.size == 0:
                continue
            stream = np.uint64(stream_keys(part, n, _PURPOSE + 1, 1)[0]) ^ key
            rng = np.random.Generator(np.random.Philox(key=int(stream)))
            h = rng.standard_gamma(model.alpha + found.draws[n]).T / rate[:, None]
            at = Weighted(h, np.full(h.shape[1], 1.0 / h.shape[1]), h.shape[1] // n_draws)
            v = block.counts.astype(np.float64)
            total.add_sample(block.features, v, model.W[block.features], at, float(times[lo + n]))
        if progress is not None:
            progress(hi / rows.shape[0])
    return total


def _pieces(rows: sp.csr_array, n_draws: int, K: int) -> Iterator[tuple[int, int]]:
    """Cut rows so that the draws of a piece are of moderate size."""
    step = max(1, int(1e7 / (4 * n_draws * K)))
    for lo in range(0, rows.shape[0], step):
        yield lo, min(lo + step, rows.shape[0])


def _invert(moments: Moments, model: GaP, N: int, method: str) -> StandardErrors:
    """Turn moments into standard errors."""
    F, K = model.W.shape
    p = model.W / (model.column_norms + model.beta)
    complete = N * model.alpha + moments.mean.sum(axis=0)  # Σ_n (α_k + E[L_kn])
    gradient = moments.mean - p * complete  # in log W
    active = (model.W > 0) & (moments.mean >= LEAST_COUNT)
    error, norms = np.full((F, K), np.nan), np.full(K, np.nan)
    if moments.whole is not None:
        variance, of_norms = _whole_matrix(moments.whole, p, complete, gradient, active, model.W)
    else:
        variance, of_norms = _feature_blocks(moments, p, complete, gradient, active, model)
    bad = not np.isfinite(variance[active]).all()
    if bad and active.any():
        warnings.warn(
            "the observed information is not positive definite, so some standard errors are NaN: "
            "W is not at a maximum, components cannot be told apart, or there are too few draws; "
            "fit longer, or use fewer components or more draws (n_draws)",
            UserWarning,
            stacklevel=4,
        )
    error[active] = model.W[active] * np.sqrt(variance[active])
    used = active.any(axis=0)
    norms[used] = np.sqrt(of_norms[used])
    return StandardErrors(
        error.T.copy(), norms, model.W.T.copy(), method, moments.whole is not None
    )


def _whole_matrix(
    covariance: Array,
    p: Array,
    complete: Array,
    gradient: Array,
    active: NDArray[np.bool_],
    W: Array,
) -> tuple[Array, Array]:
    """Return variances of w/ŵ (F, K) and of the norms (K,) from the inverse of all of it."""
    F, K = p.shape
    score = covariance - p[:, :, None, None] * covariance.sum(axis=0)
    score -= score.sum(axis=2)[:, :, None, :] * p
    information = -score
    f = np.arange(F)
    for k in range(K):
        information[:, k, :, k] -= complete[k] * np.outer(p[:, k], p[:, k])
        information[f, k, f, k] += complete[k] * p[:, k] + gradient[:, k]
    chosen = np.flatnonzero(active)
    variance, of_norms = np.full((F, K), np.nan), np.full(K, np.nan)
    inverse = _inverse(information.reshape(F * K, F * K)[np.ix_(chosen, chosen)])
    if inverse is not None:
        variance.ravel()[chosen] = np.diag(inverse)
        w = W.ravel()[chosen]
        for k in range(K):
            own = np.where(chosen % K == k, w, 0.0)
            of_norms[k] = own @ inverse @ own
    return variance, of_norms


def _feature_blocks(
    moments: Moments,
    p: Array,
    complete: Array,
    gradient: Array,
    active: NDArray[np.bool_],
    model: GaP,
) -> tuple[Array, Array]:
    """Return the same from the block of each feature; norms with the directions held fixed."""
    F, K = p.shape
    cross = moments.with_sizes * p[:, None, :]  # p_fl Cov[c_fk, L_l]
    score = moments.blocks - cross - cross.transpose(0, 2, 1)
    score += p[:, :, None] * p[:, None, :] * moments.sizes
    information = (complete * (p - p**2) + gradient)[:, :, None] * np.eye(K) - score
    variance = np.full((F, K), np.nan)
    for f in np.flatnonzero(active.any(axis=1)):
        chosen = np.flatnonzero(active[f])
        inverse = _inverse(information[f][np.ix_(chosen, chosen)])
        if inverse is not None:
            variance[f, chosen] = np.diag(inverse)
    of_norms = np.full(K, np.nan)
    used = np.flatnonzero(active.any(axis=0))
    rho = p.sum(axis=0)
    scale = (
        np.diag(complete * rho * (1 - rho) + gradient.sum(axis=0))
        - np.outer(1 - rho, 1 - rho) * moments.sizes
    )
    inverse = _inverse(scale[np.ix_(used, used)])
    if inverse is not None:
        of_norms[used] = np.diag(inverse) * model.column_norms[used] ** 2
    return variance, of_norms


def _inverse(matrix: Array) -> Array | None:
    """Return the inverse of a symmetric matrix, or None if it is not positive definite."""
    if matrix.size == 0:
        return matrix
    scale = np.sqrt(np.abs(np.diag(matrix)))
    if not (np.isfinite(scale).all() and (np.diag(matrix) > 0).all()):
        return None
    try:  # with a diagonal of ones: entries of W are of very different sizes
        factor = cho_factor(matrix / np.outer(scale, scale))
    except LinAlgError:
        return None
    inverse: Array = cho_solve(factor, np.eye(scale.size)) / np.outer(scale, scale)
    return inverse
