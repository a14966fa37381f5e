"""EM with momentum: a step that remembers the steps before it.

EM creeps along the directions in which the counts say little about C, by the same small factor
step after step. A heavy ball adds up what is common to these steps, while the noise of Monte Carlo
averages out of it. It rolls in log((α_k/β_k) w_fk) and log α_k: nothing becomes negative, and what
is expected of a component does not depend on the scale of W.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gapmf.em.alpha import LARGEST, SMALLEST
from gapmf.kernels.dictionary import LARGEST_PUSH, roll_rows
from gapmf.model import GaP
from gapmf.types import Array


class Momentum:
    """Turns the steps of an EM into steps with momentum.

    Parameters
    ----------
    mean_counts : array, (F,), optional
        With it, models are kept at Σ_k (α_k/β_k) w_fk = v̄_f, as every M-step of EM-C does.

    Attributes
    ----------
    friction : float
        The part of its last step that a step does not take again: in the long run the steps
        are 1/friction times as long as those of EM.
    floor : float
        The least share of a feature that a component keeps. EM multiplies, so an entry that
        once was driven to next to nothing needs ages to return.
    """

    def __init__(self, mean_counts: Array | None) -> None:
        self._mean_counts = np.empty(0) if mean_counts is None else mean_counts
        self.friction = 1.0
        self.floor = 0.0
        self.rest()

    def rest(self) -> None:
        """Forget the steps so far."""
        # What the last step multiplied means (F, K) and α (K,) by.
        self._factors: tuple[Array, Array] | None = None

    def step(self, before: GaP, em: GaP) -> GaP:
        """The model after `before`, from the one that EM proposes."""
        means = _means(em)
        if self._factors is None:
            self._factors = np.ones_like(means), np.ones_like(em.alpha)
        factors, alpha_factors = self._factors
        kept = 1.0 - self.friction
        alpha = em.alpha * np.clip(alpha_factors**kept, 1.0 / LARGEST_PUSH, LARGEST_PUSH)
        # Not beyond where α is learned; what is given may be there already.
        alpha = np.clip(alpha, np.minimum(SMALLEST, em.alpha), np.maximum(LARGEST, em.alpha))
        roll_rows(means, _means(before), factors, kept, self.floor, self._mean_counts)
        self._factors = factors, alpha / before.alpha
        return GaP(means * (em.beta / alpha), alpha, em.beta)

    def pack(self) -> dict[str, Any]:
        """All that changes on the way."""
        factors = None if self._factors is None else [part.copy() for part in self._factors]
        return {"friction": self.friction, "floor": self.floor, "factors": factors}

    def unpack(self, tree: dict[str, Any]) -> None:
        """Go on from there."""
        self.friction, self.floor = tree["friction"], tree["floor"]
        factors = tree["factors"]
        self._factors = None if factors is None else (factors[0].copy(), factors[1].copy())


def _means(model: GaP) -> Array:
    """(α_k/β_k) w_fk: what component k is expected to add to feature f, (F, K)."""
    return model.W * (model.alpha / model.beta)
