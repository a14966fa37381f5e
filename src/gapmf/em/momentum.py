"""EM with momentum: a step that remembers the steps before it.

EM is slow along the directions in which the counts say little about C: it repeats nearly the same
small step. Momentum (a heavy ball) adds up what these steps have in common, while the noise of
Monte Carlo averages out. The steps are taken in log((α_k/β_k) w_fk) and in log α_k. So nothing
becomes negative, and the scale of W does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gapmf.em.alpha import LARGEST, SMALLEST
from gapmf.kernels.dictionary import LARGEST_PUSH, roll_rows
from gapmf.model import GaP
from gapmf.types import Array


@dataclass(frozen=True)
class Momentum:
    """The memory of a run's steps.

    Attributes
    ----------
    friction : float
        The part of its last step that a step does not repeat. In the long run, steps become
        1/friction times as long as those of EM.
    floor : float
        The smallest share of a feature that a component keeps. EM multiplies, so an entry that
        has become tiny needs very many iterations to return.
    factors : tuple of arrays (F, K) and (K,), or None
        What the last step multiplied the means and α by; None before the first step.
    """

    friction: float
    floor: float
    factors: tuple[Array, Array] | None = None

    def step(self, before: GaP, em: GaP, mean_counts: Array) -> tuple[GaP, Momentum]:
        """Return the model after `before`, from the one that EM proposes, and the new memory.

        The factors' arrays are updated in place and handed on: this object must not be used
        again. `mean_counts` (F,) keeps the model at Σ_k (α_k/β_k) w_fk = v̄_f, as every M-step
        of EM-C does; an empty array does not.
        """
        means = _means(em)
        factors, alpha_factors = (
            (np.ones_like(means), np.ones_like(em.alpha)) if self.factors is None else self.factors
        )
        kept = 1.0 - self.friction
        alpha = em.alpha * np.clip(alpha_factors**kept, 1.0 / LARGEST_PUSH, LARGEST_PUSH)
        # Not beyond the bounds of a learned α; a given one may be there already.
        alpha = np.clip(alpha, np.minimum(SMALLEST, em.alpha), np.maximum(LARGEST, em.alpha))
        roll_rows(means, _means(before), factors, kept, self.floor, mean_counts)
        model = GaP(means * (em.beta / alpha), alpha, em.beta)
        return model, replace(self, factors=(factors, alpha / before.alpha))


def _means(model: GaP) -> Array:
    """(α_k/β_k) w_fk: what component k is expected to add to feature f, (F, K)."""
    return model.W * (model.alpha / model.beta)
