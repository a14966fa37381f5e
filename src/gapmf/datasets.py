"""Data sets: the paper's synthetic experiment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapmf.model import GaP

# W₁* of the paper's section 6 (Eq. 50); its columns sum to one, up to rounding.
_W1 = (
    (0.638, 0.075),
    (0.009, 0.568),
    (0.044, 0.126),
    (0.309, 0.231),
)


def paper_model(scale: float = 1.0) -> GaP:
    """The truth of the paper's synthetic experiment, W* = scale · W₁* (Eq. 50).

    The paper's first data set has scale 1, its second scale 100; α = β = 1 in both.
    """
    return GaP(scale * np.array(_W1))


def paper_synthetic(
    scale: float = 1.0, n_samples: int = 100, random_state: Any = None
) -> tuple[NDArray[np.int64], GaP]:
    """Counts drawn as in the paper's synthetic experiment, and the model behind them.

    Parameters
    ----------
    scale : float
        1 for the paper's V₁, 100 for its V₂.
    n_samples : int
        N; the paper has 100.
    random_state : None, int, Generator or RandomState
        The paper's own draws are not published: ours differ with the seed.

    Returns
    -------
    X : int64 array, (n_samples, 4)
    model : GaP

    Examples
    --------
    >>> from gapmf.datasets import paper_synthetic
    >>> X, truth = paper_synthetic(scale=100, random_state=0)
    >>> X.shape, truth.n_components
    ((100, 4), 2)
    """
    model = paper_model(scale)
    return model.sample(n_samples, random_state=random_state), model
