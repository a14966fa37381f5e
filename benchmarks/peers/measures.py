"""Quality by one definition for all peers.

A component is a distribution over features, a sample a distribution over components. The
probability of feature f for a hidden token is

    p(f | shown) = (1 − ε) Σ_k θ_k φ_kf + ε b_f,        b_f ∝ (count of f in training) + ½,

with the peer's own φ and the θ of its own inference. The background b with ε = 0.001 is the same
for all; without it, one word that a factorisation has never seen would make its perplexity
infinite. A sample for which a peer returns no proportions is predicted by b alone.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

EPSILON = 1e-3
EPSILONS = (1e-4, 1e-3, 1e-2)  # what other choices would give is kept as well
COMMON_ALPHA, COMMON_STEPS = 0.1, 100
N_TOP = 10  # features of a component whose coherence is measured
_ROWS = 64  # samples at a time


def background(train: sp.csr_array) -> np.ndarray:
    """Return the smoothed frequencies of features in the training counts, (F,)."""
    counts = np.asarray(train.sum(axis=0), dtype=float).ravel() + 0.5
    return counts / counts.sum()


def completion_perplexity(
    hidden: sp.csr_array,
    proportions: np.ndarray,
    components: np.ndarray,
    base: np.ndarray,
    epsilon: float = EPSILON,
) -> float:
    """Return exp(−mean log p) of the hidden tokens."""
    total = 0.0
    for start in range(0, hidden.shape[0], _ROWS):
        part = hidden[start : start + _ROWS].tocoo()
        theta = proportions[start : start + _ROWS]
        rows, features = part.coords
        own = (theta @ components)[rows, features]
        weight = np.where(theta.sum(axis=1) > 0, epsilon, 1.0)[rows]
        total += float(part.data @ np.log((1.0 - weight) * own + weight * base[features]))
    return float(np.exp(-total / hidden.sum()))


def common_proportions(
    shown: sp.csr_array, components: np.ndarray, base: np.ndarray, alpha: float = COMMON_ALPHA
) -> np.ndarray:
    """Return proportions (N × K) by one rule for all peers: what the components alone are worth.

    The mode of θ given the shown tokens under a Dirichlet(1 + α), by a hundred steps of EM,
    θ_k ∝ α + Σ_f v_f θ_k φ_kf / p_f, with the φ mixed with the background as above.
    """
    phi = (1.0 - EPSILON) * components + EPSILON * base
    theta = np.zeros((shown.shape[0], components.shape[0]))
    for n in range(shown.shape[0]):
        row = slice(shown.indptr[n], shown.indptr[n + 1])
        mine, counts = phi[:, shown.indices[row]], shown.data[row]
        own = np.full(phi.shape[0], 1.0 / phi.shape[0])
        for _ in range(COMMON_STEPS):
            own = alpha + own * (mine @ (counts / (own @ mine)))
            own /= own.sum()
        theta[n] = own
    return theta


def without_zeros(components: np.ndarray) -> np.ndarray:
    """Return the components that have any feature: a peer may switch some off."""
    return components[components.sum(axis=1) > 0]


def npmi(counts: sp.csr_array, components: np.ndarray, n_top: int = N_TOP) -> float:
    """Return the mean NPMI coherence of the components' top features.

    For two features, log(p_ij / (p_i p_j)) / −log p_ij, where p is the fraction of samples that
    have the feature, or both; −1 if no sample has both. Averaged over all pairs of the `n_top`
    largest features of a component, then over components. Components of zeros are left out.
    """
    components = without_zeros(components)
    if not components.size:
        return -1.0
    top = np.argsort(-components, axis=1, kind="stable")[:, :n_top]
    features, place = np.unique(top, return_inverse=True)
    place = place.reshape(top.shape)
    has = sp.csr_array((counts[:, features] > 0).astype(float))
    both = (has.T @ has).toarray() / counts.shape[0]
    single = np.diag(both)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(both / np.outer(single, single)) / -np.log(both)
    value[both == 0] = -1.0
    value[both == 1] = 0.0  # features that all samples have say nothing of each other
    pairs = np.triu_indices(top.shape[1], 1)
    return float(np.mean([value[np.ix_(row, row)][pairs].mean() for row in place]))


def matched_cosine(truth: np.ndarray, found: np.ndarray) -> float:
    """Return the mean cosine of true components and the found ones that match them best.

    One to one, by the assignment of largest sum; a true component without a partner counts 0.
    """
    a, b = (
        x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300) for x in (truth, found)
    )
    cosine = a @ b.T
    rows, columns = linear_sum_assignment(-cosine)
    return float(cosine[rows, columns].sum() / truth.shape[0])


def stability(fits: list[np.ndarray]) -> float | None:
    """Return the mean matched cosine over all pairs of fits from different seeds.

    Components of zeros are left out.
    """
    fits = [without_zeros(fit) for fit in fits]
    pairs = [
        matched_cosine(*((a, b) if a.shape[0] >= b.shape[0] else (b, a)))
        for i, a in enumerate(fits)
        for b in fits[i + 1 :]
    ]
    return float(np.mean(pairs)) if pairs else None
