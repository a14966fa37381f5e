"""The joint likelihood of counts and activations, and its split."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp, xlogy

from gapmf.counts import check_counts
from gapmf.model import GaP, check_model
from gapmf.validation import check_activations

_BLOCK_ENTRIES = 1 << 18  # entries of X whose rates are held at once


class JointCostSplit(NamedTuple):
    """C_JL = D_KL(V | WH) + R_α(H, β) + constant: Eq. 4."""

    divergence: float
    penalty: float
    constant: float

    @property
    def total(self) -> float:
        """C_JL, the negative joint log-likelihood: Eq. 3."""
        return self.divergence + self.penalty + self.constant


def log_joint_likelihood(X: Any, H: ArrayLike, model: GaP) -> float:
    """log p(V, H | W, β), that is −C_JL of Eq. 3.

    Parameters
    ----------
    X : counts, (N, F)
    H : array-like, (N, K)
        Activations, ≥ 0: a row a sample.
    model : GaP

    Returns
    -------
    float
        A log-density in H. At h_kn = 0 it is −inf for α_k > 1 and +inf for α_k < 1, unless
        something else makes V or H impossible: then −inf.

    Notes
    -----
    As a function of W, H (and β) together it need not have a maximum: with β free, or with
    α_k < 1, it is unbounded. Fit the marginal likelihood instead.

    Examples
    --------
    >>> from gapmf import GaP, log_joint_likelihood
    >>> round(log_joint_likelihood([[2, 0]], [[1.0]], GaP([[2.0], [1.0]])), 6)
    -3.306853
    """
    split = split_joint_cost(X, H, model)
    if split.divergence == np.inf:  # impossible counts, however dense the prior at H
        return -np.inf
    return -split.total


def split_joint_cost(X: Any, H: ArrayLike, model: GaP) -> JointCostSplit:
    """Split C_JL, for all samples, into KL divergence, R_α and the rest: Eqs. 4, 5 and 6.

    Parameters
    ----------
    X : counts, (N, F)
    H : array-like, (N, K)
        Activations, ≥ 0: a row a sample.
    model : GaP

    Returns
    -------
    JointCostSplit
        divergence, penalty and constant; the last depends on X and α alone. Their sum, `total`,
        is C_JL.

    Examples
    --------
    >>> from gapmf import GaP, log_joint_likelihood, split_joint_cost
    >>> model = GaP([[3.0, 0.5], [1.0, 2.0]])
    >>> split = split_joint_cost([[4, 1]], [[1.0, 0.5]], model)
    >>> round(split.total + log_joint_likelihood([[4, 1]], [[1.0, 0.5]], model), 10)
    0.0
    """
    check_model(model)
    counts = check_counts(X, n_features=model.n_features)
    H_ = check_activations(H, counts.shape[0], model.n_components)
    v = counts.data.astype(float)
    constant = float(_log_factorial_excess(v).sum())
    constant += counts.shape[0] * float(gammaln(model.alpha).sum())
    return JointCostSplit(divergence(counts, H_, model.W), activation_penalty(H_, model), constant)


def _log_factorial_excess(v: NDArray[np.float64]) -> NDArray[np.float64]:
    """log v! − v log v + v for v ≥ 1, by Stirling where the difference would cancel."""
    large = np.maximum(v, 1e4)
    series = 0.5 * np.log(2.0 * np.pi * large) + 1.0 / (12.0 * large)
    return np.asarray(np.where(v < 1e4, gammaln(v + 1) - xlogy(v, v) + v, series))


def divergence(counts: sp.csr_array, H: NDArray[np.float64], W: NDArray[np.float64]) -> float:
    """D_KL(V | WH), the generalised Kullback-Leibler divergence: Eq. 5.

    Only the rates under non-zero counts are formed; the rest enter through Σ_k S_k Σ_n h_kn.
    """
    sample = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    value = 0.0
    for start in range(0, counts.nnz, _BLOCK_ENTRIES):
        part = slice(start, start + _BLOCK_ENTRIES)
        v = counts.data[part].astype(float)
        log_rate = _log_rates(H[sample[part]], W[counts.indices[part]])
        value += float((v * (np.log(v) - log_rate) - v).sum())
    return value + float(W.sum(axis=0) @ H.sum(axis=0))


def _log_rates(H: NDArray[np.float64], W: NDArray[np.float64]) -> NDArray[np.float64]:
    """log Σ_k h_ik w_ik, (I,), through logarithms where the products underflow."""
    rate = np.einsum("ik,ik->i", H, W)
    with np.errstate(divide="ignore"):
        log_rate = np.log(rate)
        tiny = rate < 1e-290
        if tiny.any():
            log_rate[tiny] = logsumexp(np.log(H[tiny]) + np.log(W[tiny]), axis=1)
    return np.asarray(log_rate)


def activation_penalty(H: NDArray[np.float64], model: GaP) -> float:
    """R_α(H, β), the negative log-prior of H up to a constant: Eq. 6."""
    terms = xlogy(1.0 - model.alpha, H)
    if np.isposinf(terms).any():  # some h = 0 with α > 1 is impossible, whatever the others
        return np.inf
    N = H.shape[0]
    return float(terms.sum() + (H @ model.beta).sum() - N * (model.alpha @ np.log(model.beta)))
