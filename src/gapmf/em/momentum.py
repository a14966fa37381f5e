"""EM with momentum: a step that remembers the steps before it.

EM creeps along the directions in which the counts say little about C, by the same small factor
step after step. A heavy ball adds up what is common to these steps, while the noise of Monte Carlo
averages out of it. It rolls in log((α_k/β_k) w_fk) and log α_k: nothing becomes negative, and what
is expected of a component does not depend on the scale of W.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapmf.model import GaP

Array = NDArray[np.float64]

LARGEST_PUSH = 1.0  # in logarithms: momentum alone changes no entry by more than a factor e


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
        self._mean_counts = mean_counts
        self.friction = 1.0
        self.floor = 0.0
        self.rest()

    def rest(self) -> None:
        """Forget the steps so far."""
        self._velocity: tuple[Array, Array] | None = None

    def step(self, before: GaP, em: GaP) -> GaP:
        """The model after `before`, from the one that EM proposes."""
        means, alpha = _means(em), em.alpha
        if self._velocity is not None:
            means, alpha = (
                x * np.exp(np.clip((1.0 - self.friction) * v, -LARGEST_PUSH, LARGEST_PUSH))
                for x, v in zip((means, alpha), self._velocity, strict=True)
            )
        low = (means > 0) & (means < self.floor * means.sum(axis=1, keepdims=True))
        means = np.where(low, self.floor * means.sum(axis=1, keepdims=True), means)
        if self._mean_counts is not None:
            total = means.sum(axis=1)
            seen = total > 0
            means[seen] *= (self._mean_counts[seen] / total[seen])[:, None]
        velocity = _log_ratio(means, _means(before))
        velocity[low] = 0.0  # lifted, not moving
        self._velocity = velocity, np.log(alpha / before.alpha)
        return GaP(means * (em.beta / alpha), alpha, em.beta)

    def pack(self) -> dict[str, Any]:
        """All that changes on the way."""
        velocity = None if self._velocity is None else list(self._velocity)
        return {"friction": self.friction, "floor": self.floor, "velocity": velocity}

    def unpack(self, tree: dict[str, Any]) -> None:
        """Go on from there."""
        self.friction, self.floor = tree["friction"], tree["floor"]
        velocity = tree["velocity"]
        self._velocity = None if velocity is None else (velocity[0], velocity[1])


def _means(model: GaP) -> Array:
    """(α_k/β_k) w_fk: what component k is expected to add to feature f, (F, K)."""
    return model.W * (model.alpha / model.beta)


def _log_ratio(new: Array, old: Array) -> Array:
    """log(new/old), and 0 where either is 0: what is zero stays there."""
    ratio = np.ones_like(new)
    np.divide(new, old, out=ratio, where=(new > 0) & (old > 0))
    return np.log(ratio, out=ratio)
