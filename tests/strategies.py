"""Random problems for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from gapmf import GaP


@st.composite
def models(draw, max_features=4, max_components=4, zeros=True):
    """A GaP with α from 0.05 to 20, unequal β, and at times zeros in W."""
    F = draw(st.integers(1, max_features))
    K = draw(st.integers(1, max_components))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    W = rng.gamma(0.7, 1.0, (F, K)) * 10 ** rng.uniform(-1, 1, K)
    if zeros and draw(st.booleans()):
        W[rng.random((F, K)) < 0.3] = 0.0
    alpha = 10 ** rng.uniform(np.log10(0.05), np.log10(20.0), K)
    beta = 10 ** rng.uniform(-1, 1, K)
    return GaP(W, alpha, beta)


@st.composite
def problems(draw, max_count=4, max_samples=3, **kwargs):
    """A model and small counts (N, F) for it."""
    model = draw(models(**kwargs))
    N = draw(st.integers(1, max_samples))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return model, rng.integers(0, max_count + 1, (N, model.n_features))
