"""The averages of on-line EM: what a run or a stream keeps, and the model that follows from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapmf.model import GaP, model_of_step
from gapmf.types import Array


@dataclass(frozen=True)
class Averages:
    """Averaged statistics, and the model that follows from them.

    A step takes over the arrays: go on from the latest averages only.

    Attributes
    ----------
    alpha, beta : array, (K,)
        Of the present model.
    shares : array, (F, K)
        u_fk; rows sum to 1.
    weights : array, (F,)
        Σ_k s_fk as it was at the last visit of the feature; 0 before the first.
    clocks : array, (F,)
        `log_decay` at that visit.
    feature_totals : array, (F,)
        Σ_n v_fn over the samples that count in v̄_f.
    n_samples : int
        The number of these samples.
    component_totals : array, (K,)
        Σ_f u_fk Σ_n v_fn.
    log_decay : float
        Σ_t log(1 − γ_t).
    t : int
        Mini-batches so far.
    sizes : array, (K, M + 1), or None
        If α is learned: the averaged frequencies of L_kn = 0, 1, 2, …
    n_visits : int
        Visits of features since the component totals were added up.
    """

    alpha: Array
    beta: Array
    shares: Array
    weights: Array
    clocks: Array
    feature_totals: Array
    n_samples: int
    component_totals: Array
    log_decay: float = 0.0
    t: int = 0
    sizes: Array | None = None
    n_visits: int = 0

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise unless the arrays are those of a model with W of this shape."""
        F, K = shape
        rows = self.weights, self.clocks, self.feature_totals
        columns = self.alpha, self.beta, self.component_totals
        for arrays, wanted in (([self.shares], (F, K)), (rows, (F,)), (columns, (K,))):
            for array in arrays:
                if array.shape != wanted or not np.isfinite(array).all():
                    raise TypeError(f"an array of shape {array.shape} should have shape {wanted}")

    @property
    def scale(self) -> Array:
        """(K,): w_fk = scale_k T_f u_fk, where T_f are the feature totals."""
        return self.beta / (self.alpha * max(self.n_samples, 1))

    def model(self) -> GaP:
        """Return the present model."""
        W = self.shares * self.feature_totals[:, None]
        W *= self.scale
        return model_of_step(W, self.alpha, self.beta)


@dataclass(frozen=True)
class Stream:
    """All that the next block of a stream needs; its size does not depend on the samples so far."""

    averages: Averages
    """At whose model the next mini-batch is drawn."""
    slow: Averages
    """The same statistics with a longer memory and less noise: what the stream has found."""
    seed: int
    """Of the chains."""


def averages_at(
    model: GaP, feature_totals: Array, n_samples: int, *, n_before: int = 0
) -> Averages:
    """Return averages with the shares of a model, for samples with these totals of features.

    If the model stands for `n_before` mini-batches, the averages are theirs; otherwise nothing has
    been averaged yet. A feature that the model does not have is shared out equally.
    """
    F, K = model.W.shape
    shares = model.W * (model.alpha / model.beta)
    total = shares.sum(axis=1, keepdims=True)
    shares = np.where(total > 0.0, shares / np.where(total > 0.0, total, 1.0), 1.0 / K)
    return Averages(
        alpha=model.alpha,
        beta=model.beta,
        shares=shares,
        weights=feature_totals / max(n_samples, 1) * (n_before > 0),
        clocks=np.zeros(F),
        feature_totals=feature_totals.astype(np.float64),
        n_samples=n_samples,
        component_totals=feature_totals @ shares,
        t=n_before,
    )
