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


def some_problem(rng):
    """A model with K = 2 … 4 and a sample of up to 5,000 counts: overlap, zeros, α from 0.05."""
    K, F, kind = rng.integers(2, 5), rng.integers(1, 9), rng.integers(3)
    W = rng.gamma(0.5 if kind else 3.0, 1.0, (F, K))
    if kind == 2:
        W[rng.random((F, K)) < 0.4] = 0.0
    W *= 10 ** rng.uniform(-1, 2.5 if K < 4 else 1.5)
    model = GaP(W, 10 ** rng.uniform(np.log10(0.05), np.log10(5), K), 10 ** rng.uniform(-0.5, 0.5))
    x = model.sample(1, random_state=rng)
    if rng.random() < 0.3:  # not what the model expects
        x = rng.poisson(10 ** rng.uniform(0, 2.5 if K < 4 else 1.5, (1, F))) * (W.sum(axis=1) > 0)
    return model, x if x.sum() <= 5000 else x * 5000 // x.sum()
