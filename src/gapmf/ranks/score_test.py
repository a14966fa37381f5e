"""Score test for one more component, by Monte Carlo."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gapmf.engines.base import Sweeps
from gapmf.engines.local import LocalEngine
from gapmf.model import GaP
from gapmf.types import Array

PROBE = 1e-6  # share of the probing component in the expected counts: negligible
N_GROUPS = 10
SWEEPS = Sweeps(n_draws=40, n_burn_in=20, expectations=True)


def score(X: sp.csr_array, model: GaP, seed: int, n_jobs: int | None) -> tuple[Array, Array]:
    """Return r_f = mean_n v_fn E[1/[Wh_n]_f | v_n] and its standard error over samples, both (F,).

    A probing component that is almost empty and has activations of almost one receives the fraction
    PROBE · r_f of the expected counts. The standard error comes from independent groups of samples.
    """
    N = X.shape[0]
    groups = np.array_split(np.random.default_rng(seed).permutation(N), min(N_GROUPS, N))
    expected = model.expected_counts()
    first = np.cumsum([0, *(rows.size for rows in groups)])
    r = np.array(
        [
            _score_of(model, expected, LocalEngine(n_jobs).load(X[rows], seed, int(n)))
            for rows, n in zip(groups, first, strict=False)
        ]
    )
    weights = np.array([rows.size for rows in groups]) / N
    mean = weights @ r
    if len(groups) == 1:
        return mean, np.full_like(mean, np.nan)
    variance = weights @ (r - mean) ** 2 / (len(groups) - 1)
    return mean, np.sqrt(variance)


def _score_of(model: GaP, expected: Array, engine: LocalEngine) -> Array:
    """Return r_f over some samples: the factor by which EM multiplies a probing component."""
    steady = 1e6  # Gamma(α, α) with this α is 1 ± 0.001
    probe = PROBE * expected
    with_probe = GaP(
        np.column_stack([model.W, probe]),
        np.append(model.alpha, steady),
        np.append(model.beta, steady),
    )
    s = engine.advance(with_probe, SWEEPS)
    got = s.c_sum[:, -1] / s.n_draws
    return np.divide(got, probe, out=np.zeros_like(got), where=probe > 0)
