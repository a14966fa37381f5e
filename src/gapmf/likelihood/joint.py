"""The joint likelihood of counts and activations, and its terms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp, xlogy

from gapmf.counts import check_counts
from gapmf.model import GaP, check_model
from gapmf.validation import check_activations

_BLOCK_ENTRIES = 1 << 18  # number of entries of X whose rates are held at once


class JointCostSplit(NamedTuple):
    """Joint cost C_JL as the sum of divergence, penalty and constant: Eq. 4.

    Attributes
    ----------
    divergence : float
        Generalised Kullback-Leibler divergence D_KL(V | WH), Eq. 5 of the paper.
    penalty : float
        Penalty R_α(H, β) of the activations, Eq. 6.
    constant : float
        The rest, which depends on X and α alone.
    """

    divergence: float
    penalty: float
    constant: float

    @property
    def total(self) -> float:
        """Negative joint log-likelihood C_JL: Eq. 3."""
        return self.divergence + self.penalty + self.constant


def log_joint_likelihood(X: Any, H: ArrayLike, model: GaP) -> float:
    """Compute the joint log-likelihood log p(V, H | W, β), that is −C_JL of Eq. 3.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Counts. In the paper, X is Vᵀ.
    H : array-like of shape (n_samples, n_components)
        Activations, ≥ 0. In the paper, this is the transpose of H.
    model : GaP
        The model.

    Returns
    -------
    float
        The value, a log-density in H. It is −inf if V or H is impossible, for example if
        h_kn = 0 and α_k > 1. Otherwise it is +inf if some h_kn = 0 and α_k < 1.

    See Also
    --------
    split_joint_cost : Split the value into divergence, penalty and constant.
    log_marginal_likelihood : Integrate the activations out.

    Notes
    -----
    As a function of W, H and possibly β, the joint likelihood [1]_ need not have a maximum: it is
    unbounded if β is free or if some α_k < 1. Fit the marginal likelihood instead.

    References
    ----------
    .. [1] L. Filstroff, A. Lumbreras and C. Févotte, "Closed-form Marginal Likelihood in
       Gamma-Poisson Matrix Factorization", ICML, 2018.

    Examples
    --------
    >>> from gapmf import GaP, log_joint_likelihood
    >>> round(log_joint_likelihood([[2, 0]], [[1.0]], GaP([[2.0], [1.0]])), 6)
    -3.306853
    """
    split = split_joint_cost(X, H, model)
    if split.divergence == np.inf:  # impossible counts, even if the prior density is infinite
        return -np.inf
    return -split.total


def split_joint_cost(X: Any, H: ArrayLike, model: GaP) -> JointCostSplit:
    """Split the joint cost C_JL of all samples into three terms: Eqs. 4, 5 and 6.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Counts.
    H : array-like of shape (n_samples, n_components)
        Activations, ≥ 0.
    model : GaP
        The model.

    Returns
    -------
    JointCostSplit
        Divergence, penalty and constant, and their `total`, C_JL.

    See Also
    --------
    log_joint_likelihood : Compute the total.
    split_marginal_cost : Split the marginal cost.

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
    """Return log v! − v log v + v for v ≥ 1, by Stirling's series where terms would cancel."""
    large = np.maximum(v, 1e4)
    series = 0.5 * np.log(2.0 * np.pi * large) + 1.0 / (12.0 * large)
    return np.asarray(np.where(v < 1e4, gammaln(v + 1) - xlogy(v, v) + v, series))


def divergence(counts: sp.csr_array, H: NDArray[np.float64], W: NDArray[np.float64]) -> float:
    """Compute D_KL(V | WH), the generalised Kullback-Leibler divergence: Eq. 5.

    Only rates of positive counts are computed; the others contribute Σ_k S_k Σ_n h_kn.
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
    """Return log Σ_k h_ik w_ik, (I,), by logarithms where the products underflow."""
    rate = np.einsum("ik,ik->i", H, W)
    with np.errstate(divide="ignore"):
        log_rate = np.log(rate)
        tiny = rate < 1e-290
        if tiny.any():
            log_rate[tiny] = logsumexp(np.log(H[tiny]) + np.log(W[tiny]), axis=1)
    return np.asarray(log_rate)


def activation_penalty(H: NDArray[np.float64], model: GaP) -> float:
    """Compute R_α(H, β), the negative log-prior of H up to a constant: Eq. 6."""
    terms = xlogy(1.0 - model.alpha, H)
    if np.isposinf(terms).any():  # some h = 0 with α > 1 is impossible
        return np.inf
    N = H.shape[0]
    return float(terms.sum() + (H @ model.beta).sum() - N * (model.alpha @ np.log(model.beta)))
