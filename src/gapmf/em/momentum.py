"""EM with momentum: a step that remembers the steps before it.

EM is slow along the directions in which the counts say little about C: it repeats nearly the same
small step. Momentum (a heavy ball) adds up what these steps have in common, while the noise of
Monte Carlo averages out. The steps are taken in log((α_k/β_k) w_fk) and in log α_k. So nothing
becomes negative, and the scale of W does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gapmf.em.alpha import LARGEST, SMALLEST
from gapmf.kernels.dictionary import LARGEST_PUSH, roll_rows
from gapmf.model import GaP, model_of_step
from gapmf.parallel import by_rows
from gapmf.types import Array

FRICTION = 0.125  # design note 5 compares others


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
    factors : tuple of arrays (F, K), in single precision, and (K,), or None
        What the last step multiplied the means and α by; None before the first step.
    """

    friction: float
    floor: float
    factors: tuple[NDArray[np.float32], Array] | None = None

    def step(
        self,
        before: GaP,
        em: GaP,
        mean_counts: Array,
        n_threads: int = 1,
        exposure: Array | None = None,
    ) -> tuple[GaP, Momentum]:
        """Return the model after `before`, from the one that EM proposes, and the new memory.

        The factors' arrays are updated in place and handed on: this object must not be used
        again. `mean_counts` (F,) keeps the model at Σ_k (α_k/β_k) w_fk = v̄_f, as every M-step
        of EM-C does; an empty array does not. With exposures, it is the sum of t_fk (α_k/β_k) w_fk,
        where t = `exposure`, (K,) or (F, K), is Σ_n m_nf s_n h_kn / Σ_n h_kn.
        """
        if self.factors is None:
            factors, alpha_factors = np.ones(em.W.shape, np.float32), np.ones_like(em.alpha)
        else:
            factors, alpha_factors = self.factors
        kept = 1.0 - self.friction
        alpha = em.alpha * np.clip(alpha_factors**kept, 1.0 / LARGEST_PUSH, LARGEST_PUSH)
        # Not beyond the bounds of a learned α; a given one may be there already.
        alpha = np.clip(alpha, np.minimum(SMALLEST, em.alpha), np.maximum(LARGEST, em.alpha))
        W = np.empty_like(em.W)
        em_W, before_W = em.W, before.W
        if exposure is not None:
            em_W, before_W = em_W * exposure, before_W * exposure
        # In α/β times W, what each component is expected to add to each feature.
        steps = em_W, em.alpha / em.beta, before_W, before.alpha / before.beta, factors
        limits = kept, self.floor, mean_counts, em.beta / alpha, W
        by_rows(lambda *rows: roll_rows(*rows, *steps, *limits), W.shape, n_threads)
        if exposure is not None:
            W /= exposure
        model = model_of_step(W, alpha, em.beta)
        return model, replace(self, factors=(factors, alpha / before.alpha))
