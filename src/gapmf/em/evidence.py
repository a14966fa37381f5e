"""The choice of the pseudo-count η from the data: by the evidence of a draw, or by prediction.

The counts of a feature in one sample are not independent: a document that has a rare word often
has it again. This makes components look sparser than they are, and the evidence's η too small to
predict new samples. What the components of one half of the samples say of the other half has no
such bias, but needs draws of both halves.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, minimize_scalar
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


def predictive_pseudo_count(halves: tuple[Array, Array]) -> float:
    """Return the η with which draws of C from each half of the samples best predict the other.

    The sum of Σ_fk b_fk log((a_fk + η) / (Σ_f a_fk + F η)) for the two orders of the halves a and
    b, each (F, K), is maximised. Where a half has no counts, the evidence of both decides.
    """
    F = int(halves[0].shape[0])
    if F == 1 or not (halves[0].any() and halves[1].any()):
        return best_pseudo_count(halves[0] + halves[1])
    pairs = []
    for a, b in (halves, halves[::-1]):
        seen = b > 0
        pairs.append((a[seen], b[seen], a.sum(axis=0), b.sum(axis=0)))

    def loss(log_eta: float) -> float:
        eta = float(np.exp(log_eta))
        return -sum(
            float(b @ np.log(a + eta) - b_totals @ np.log(a_totals + F * eta))
            for a, b, a_totals, b_totals in pairs
        )

    bounds = float(np.log(SMALLEST)), float(np.log(LARGEST))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-4})
    return float(np.exp(found.x))
