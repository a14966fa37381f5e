"""Counts drawn from a model, as sparse as data are: for comparisons with observed counts."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gapmf.model import GaP
from gapmf.types import Array


def draw_activations(model: GaP, n_samples: int, rng: np.random.Generator) -> Array:
    """Draw h_n ~ Gamma(α, β), of shape (N, K); with exposures, multiply the rows by them."""
    return rng.gamma(model.alpha, 1.0 / model.beta, (n_samples, model.n_components))


def draw_counts(rates: Array, W: Array, rng: np.random.Generator) -> sp.csr_array:
    """Draw v_n ~ Poisson(W h_n) given h (N, K), or given h times exposures.

    If there are fewer tokens than entries, the tokens of each component are drawn one by one,
    so that time and memory grow with the counts and not with N × F.
    """
    N, F = rates.shape[0], W.shape[0]
    sizes = rates * W.sum(axis=0)
    if sizes.sum() > 0.25 * N * F:
        return sp.csr_array(rng.poisson(rates @ W.T))
    L = rng.poisson(sizes)
    places = []
    for k in np.flatnonzero(L.any(axis=0)):
        ends = np.cumsum(W[:, k])
        last = int(np.flatnonzero(W[:, k])[-1])  # where rounding may lead beyond
        u = rng.random(int(L[:, k].sum())) * ends[-1]
        features = np.minimum(np.searchsorted(ends, u, side="right"), last)
        places.append(np.repeat(np.arange(N), L[:, k]) * F + features)
    tokens = np.concatenate(places) if places else np.empty(0, dtype=np.int64)
    if tokens.size > 0.02 * N * F:  # counting takes less time than sorting
        counts = np.bincount(tokens, minlength=N * F)
        found = np.flatnonzero(counts)
        counts = counts[found]
    else:
        found, counts = np.unique(tokens, return_counts=True)
    indptr = np.searchsorted(found, np.arange(N + 1) * F)
    return sp.csr_array((counts.astype(np.int64), found % F, indptr), shape=(N, F))
