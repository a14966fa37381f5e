"""Replicates of data, drawn from a model, and the statistics that compare data with them.

Draws are as sparse as data are.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gapmf.likelihood.predictive import log_entry_rates
from gapmf.model import GaP
from gapmf.types import Array, Index


def draw_activations(model: GaP, n_samples: int, rng: np.random.Generator) -> Array:
    """Draw h_n ~ Gamma(α, β), of shape (N, K); with exposures, multiply the rows by them."""
    return rng.gamma(model.alpha, 1.0 / model.beta, (n_samples, model.n_components))


def draw_counts(rates: Array, W: Array, rng: np.random.Generator) -> sp.csr_array:
    """Draw v_n ~ Poisson(W h_n) given h (N, K), or given h times exposures.

    If there are fewer tokens than entries, the tokens of each component are drawn, so that time
    and memory grow with the counts and not with N × F.
    """
    N, F = rates.shape[0], W.shape[0]
    sizes = rates * W.sum(axis=0)
    if sizes.sum() > 0.25 * N * F:
        return sp.csr_array(rng.poisson(rates @ W.T))
    L = rng.poisson(sizes)
    places = []
    for k in np.flatnonzero(L.any(axis=0)):
        features = _draw_features(W[:, k], int(L[:, k].sum()), rng)
        places.append(np.repeat(np.arange(N), L[:, k]) * F + features)
    tokens = np.sort(np.concatenate(places)) if places else np.empty(0, dtype=np.int64)
    first = np.flatnonzero(np.diff(tokens, prepend=-1))
    found, counts = tokens[first], np.diff(first, append=tokens.size)
    indptr = np.searchsorted(found, np.arange(N + 1) * F)
    return sp.csr_array((counts, found % F, indptr), shape=(N, F))


def _draw_features(weights: Array, n_tokens: int, rng: np.random.Generator) -> Index:
    """Draw so many independent features, in proportion to their weights."""
    some = np.flatnonzero(weights)
    ends = np.cumsum(weights[some])
    u = np.sort(rng.random(n_tokens)) * ends[-1]  # sorted ones are found in a fifth of the time
    place = np.searchsorted(ends, u, side="right")
    features: Index = some[np.minimum(place, some.size - 1)]  # rounding may lead beyond
    return rng.permutation(features)


def statistics_of(counts: sp.csr_array, totals: Array) -> Array:
    """Return all statistics but the last, in the order of `predictive_check.STATISTICS`.

    With A = Σ_f Σ_n (x² − x) / Σ_n x and mean total M, over-dispersion is A/M − 1: the mean over
    features of (variance − mean) / mean², weighted by their counts. Given totals T it is
    A ΣT / ΣT² − 1, because E[x² − x] = T² q² (1 + φ) if x given T has mean T q.
    """
    N, F = counts.shape
    own = np.asarray(counts.sum(axis=1), dtype=float)
    mean = float(totals.mean())
    spread = float(totals.std()) / mean if mean > 0 else 0.0
    x = counts.data.astype(float)
    per_feature = np.bincount(counts.indices, x, F)
    pairs = np.bincount(counts.indices, x * (x - 1.0), F)
    per_token = np.divide(pairs, per_feature, out=np.zeros(F), where=per_feature > 0).sum()
    total = float(own.sum())
    dispersion = per_token * N / total - 1.0 if total else 0.0
    within = per_token * total / float(own @ own) - 1.0 if total else 0.0
    most = np.zeros(N)
    filled = np.diff(counts.indptr) > 0
    if filled.any():
        most[filled] = np.maximum.reduceat(x, counts.indptr[:-1][filled])
    quantiles = np.quantile(totals, [0.05, 0.5, 0.95])
    zeros = 1.0 - counts.nnz / (N * F)
    return np.array(
        [mean, spread, *quantiles, zeros, dispersion, within, float(most.max()), float(most.mean())]
    )


def feature_moments(counts: sp.csr_array) -> Array:
    """Return mean and variance of each feature, (2, F)."""
    N, F = counts.shape
    x = counts.data.astype(float)
    mean = np.bincount(counts.indices, x, F) / N
    return np.array([mean, np.bincount(counts.indices, x * x, F) / N - mean**2])


def two_sided_p(observed: Array, replicates: Array) -> Array:
    """Return twice the smaller tail, (1 + #) / (1 + R), at most 1, for each statistic."""
    R = replicates.shape[0]
    low = (replicates <= observed).sum(axis=0)
    high = (replicates >= observed).sum(axis=0)
    return np.asarray(np.minimum(2.0 * (1.0 + np.minimum(low, high)) / (1.0 + R), 1.0))


class Spread:
    """Variance of counts around W h beyond Poisson: Σ_f u_f Σ_n [(x − μ)² − x] / Σ_f u_f Σ_n μ².

    For Poisson counts the numerator has mean 0. The weights u_f make features count by their
    tokens, as in the over-dispersion; they are 1 / (expected counts of the feature + 1).
    """

    def __init__(self, W: Array, h_mean: Array) -> None:
        self.W = W
        self.weights = 1.0 / (W @ h_mean.sum(axis=0) + 1.0)
        self.gram = (W.T * self.weights) @ W

    def of(self, counts: sp.csr_array, h: Array) -> float:
        """Return it for counts (N, F) and activations (N, K)."""
        squares = float(np.sum((h.T @ h) * self.gram))
        entries = self._entries(counts, h) * self.weights[counts.indices]
        return 1.0 + float(entries.sum()) / squares if squares > 0.0 else 0.0

    def per_feature(self, counts: sp.csr_array, h: Array) -> Array:
        """Return the part of each feature, (F,); they sum to the whole."""
        squares = ((self.W @ (h.T @ h)) * self.W).sum(axis=1)
        entries = np.bincount(counts.indices, self._entries(counts, h), self.W.shape[0])
        return np.asarray(self.weights * (entries + squares) / (self.weights @ squares))

    def _entries(self, counts: sp.csr_array, h: Array) -> Array:
        """Return x² − x − 2xμ of all counts above 0; where x is 0 it is 0."""
        x = counts.data.astype(float)
        return np.asarray(x * (x - 1.0 - 2.0 * np.exp(log_entry_rates(counts, h, self.W))))
