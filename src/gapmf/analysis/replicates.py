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


class CountDraws:
    """Draws v_n ~ Poisson(W h_n). What depends on W alone is computed once, for many draws."""

    def __init__(self, W: Array) -> None:
        self.W, self.norms = W, W.sum(axis=0)
        self._cumulative = np.cumsum(np.ascontiguousarray(W.T), axis=1)  # (K, F)
        self._last = [int(np.flatnonzero(w)[-1]) if w.any() else 0 for w in W.T]

    def draw(self, rates: Array, rng: np.random.Generator) -> sp.csr_array:
        """Draw counts given h (N, K), or given h times exposures.

        If there are fewer tokens than entries, the tokens of each component are drawn, so that time
        and memory grow with the counts and not with N × F.
        """
        N, F = rates.shape[0], self.W.shape[0]
        sizes = rates * self.norms
        if sizes.sum() > 0.25 * N * F:
            return sp.csr_array(rng.poisson(rates @ self.W.T))
        L = rng.poisson(sizes)
        places = []
        for k in np.flatnonzero(L.any(axis=0)):
            features = self._features(int(k), int(L[:, k].sum()), rng)
            places.append(np.repeat(np.arange(N), L[:, k]) * F + features)
        tokens = np.sort(np.concatenate(places)) if places else np.empty(0, dtype=np.int64)
        first = np.flatnonzero(np.diff(tokens, prepend=-1))
        found, counts = tokens[first], np.diff(first, append=tokens.size)
        indptr = np.searchsorted(found, np.arange(N + 1) * F)
        return sp.csr_array((counts, found % F, indptr), shape=(N, F))

    def _features(self, k: int, n_tokens: int, rng: np.random.Generator) -> Index:
        """Draw the features of so many tokens of component k."""
        ends = self._cumulative[k]
        u = np.sort(rng.random(n_tokens)) * ends[-1]  # sorted ones are found in a fifth of the time
        places = np.searchsorted(ends, u, side="right")  # never where the weight is 0
        return rng.permutation(np.minimum(places, self._last[k]))  # rounding may lead beyond


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


def expected_feature_moments(model: GaP, W: Array, exposure: Array) -> Array:
    """Return the expectation of `feature_moments` for data of a model, (2, F).

    A count of feature f has mean s μ_f and variance s μ_f + s² σ²_f at exposure s, where
    μ_f = Σ_k w_fk α_k/β_k and σ²_f = Σ_k w_fk² α_k/β_k². W may be a part of the model's rows.
    """
    mean, spread = W @ (model.alpha / model.beta), W**2 @ (model.alpha / model.beta**2)
    first, second = float(exposure.mean()), float(np.square(exposure).mean())
    own = (1.0 - 1.0 / exposure.size) * (first * mean + second * spread)
    return np.array([first * mean, own + (second - first**2) * mean**2])


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

    def per_feature(self, counts: sp.csr_array, H: Array) -> Array:
        """Return the part of each feature, (F,), over draws of activations H (S, N, K).

        Numerator and denominator are averaged over the draws; the parts sum to the whole.
        """
        gram = np.mean([h.T @ h for h in H], axis=0)
        squares = ((self.W @ gram) * self.W).sum(axis=1)
        weights = np.mean([self._entries(counts, h) for h in H], axis=0)
        entries = np.bincount(counts.indices, weights, self.W.shape[0])
        return np.asarray(self.weights * (entries + squares) / (self.weights @ squares))

    def _entries(self, counts: sp.csr_array, h: Array) -> Array:
        """Return x² − x − 2xμ of all counts above 0; where x is 0 it is 0."""
        x = counts.data.astype(float)
        return np.asarray(x * (x - 1.0 - 2.0 * np.exp(log_entry_rates(counts, h, self.W))))
