"""The choice of the pseudo-count η from the data, by the evidence of a draw: empirical Bayes."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import psi

from gapmf.types import Array

SMALLEST, LARGEST = 1e-6, 1e3


def best_pseudo_count(C: Array) -> float:
    """Return the η that maximises the evidence of a draw of C, summed over samples: (F, K).

    Each component's counts are Dirichlet-multinomial with parameter η for every feature:
    log Γ(Fη) − log Γ(Fη + L_k) + Σ_f log Γ(η + c_fk) − log Γ(η), summed over k. The M-step's
    direction is the posterior mean with this η. C must be a draw, not an expectation: there all
    entries are positive, which says that the components are less sparse than they are.
    """
    F = int(C.shape[0])
    totals = C.sum(axis=0)
    totals = totals[totals > 0]
    if totals.size == 0 or F == 1:
        return SMALLEST  # directions are known, or nothing is known of them
    values, times = np.unique(C[C > 0], return_counts=True)

    def slope(log_eta: float) -> float:
        eta = float(np.exp(log_eta))
        rise = float(times @ (psi(eta + values) - psi(eta)))
        return rise - F * float((psi(F * eta + totals) - psi(F * eta)).sum())

    low, high = np.log(SMALLEST), np.log(LARGEST)
    if slope(low) <= 0.0:
        return SMALLEST
    if slope(high) >= 0.0:
        return LARGEST
    return float(np.exp(brentq(slope, low, high, xtol=1e-6)))
