"""Counts drawn from a model, as sparse as data are: for comparisons with observed counts."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

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
