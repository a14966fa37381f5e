"""A finite answer for counts that no component has met."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapmf.model import GaP


def smooth(model: GaP, feature_counts: NDArray[np.float64], weight: float) -> GaP:
    """The model with every column mixed with a background, its norm kept.

    w_k ← (1 − ε) w_k + ε S_k q, where q are the frequencies of features in the data of the fit,
    each counted once more than it was.

    Parameters
    ----------
    model : GaP
    feature_counts : array, (F,)
        Σ_n x_nf.
    weight : float
        ε, from 0 to below 1.
    """
    if weight == 0.0:
        return model
    background = (feature_counts + 1.0) / (feature_counts + 1.0).sum()
    W = (1.0 - weight) * model.W + weight * np.outer(background, model.column_norms)
    return GaP(W, model.alpha, model.beta)
