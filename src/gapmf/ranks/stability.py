"""Stability of components: comparison of repeated fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapmf.model import GaP
from gapmf.ranks.features import feature_weights, match_components, order_features
from gapmf.types import Array

SAME = 0.9  # smallest overlap of two components that count as the same
LEVEL = (0.05, 0.95)


@dataclass(frozen=True, repr=False, eq=False)
class Stability:
    """Stability of the components of a fit in repeated fits.

    Attributes
    ----------
    overlap : ndarray of shape (n_fits, n_components)
        Overlap of each component with its match in every repeated fit: the Bhattacharyya
        coefficient Σ_f √(q_f p_f) of their distributions of features, 1 if they are equal and 0
        if they have no feature in common.
    returned : ndarray of shape (n_components,)
        Fraction of the fits that found the component again, with an overlap of 0.9 or more.
    interval : ndarray of shape (n_components, 2)
        Wilson's 90 % interval of the probability that a fit finds the component again.
    share : ndarray of shape (n_components,)
        Share of the expected total count in the original fit.
    top_features : ndarray of int of shape (n_components, n_top)
        Most distinctive features, as `GammaPoissonMF.top_features` orders them.
    weights : ndarray of shape (n_components, n_top)
        Weights w_fk / ||w_k||₁ of these features.
    weight_intervals : ndarray of shape (n_components, n_top, 2)
        The 5 % and 95 % quantiles of the weights over the fits that found the component again;
        nan if there is none.
    matches : ndarray of int of shape (n_fits, n_components)
        Number of the matched component in each fit.
    feature_names : ndarray of str of shape (n_features,) or None
        Names of the features, if the estimator was fitted to a data frame.
    """

    overlap: Array
    returned: Array
    interval: Array
    share: Array
    top_features: NDArray[np.int64]
    weights: Array
    weight_intervals: Array
    matches: NDArray[np.int64]
    feature_names: NDArray[np.object_] | None = None

    def __repr__(self) -> str:
        n, K = self.overlap.shape
        return f"Stability({K} components in {n} fits, mean returned {self.returned.mean():.2f})"

    def _name(self, f: int) -> str:
        return f"feature {f}" if self.feature_names is None else str(self.feature_names[f])

    def __str__(self) -> str:
        n = self.overlap.shape[0]
        head = f"{'component':>9} {'share':>7} {'returned':>9} {'90 % interval':>14}  "
        lines = [head + "distinctive features: weight [90 % interval over the fits]"]
        for k in np.argsort(-self.share, kind="stable"):
            low, high = self.interval[k]
            parts = [
                f"{self._name(f)}: {w:.3f} [{a:.3f}, {b:.3f}]"
                for f, w, (a, b) in zip(
                    self.top_features[k][:3],
                    self.weights[k],
                    self.weight_intervals[k],
                    strict=False,
                )
            ]
            came = f"{round(self.returned[k] * n)} of {n}"
            lines.append(
                f"{k:>9} {self.share[k]:>7.2%} {came:>9} {low:>6.2f} to {high:.2f}   "
                + "; ".join(parts)
            )
        return "\n".join(lines)


def compare(
    model: GaP,
    others: Sequence[GaP],
    n_features: int,
    feature_counts: Array,
    feature_names: NDArray[Any] | None = None,
) -> Stability:
    """Compare a model with repeated fits of the same features."""
    p = feature_weights(model)
    K = model.n_components
    overlap = np.zeros((len(others), K))
    matches = np.full((len(others), K), -1, dtype=np.int64)
    top = order_features(model, feature_counts, n=n_features).T
    weights = np.full((len(others), K, top.shape[1]), np.nan)
    for i, other in enumerate(others):
        q = feature_weights(other)  # an empty column is zero: it has no overlap
        matches[i], overlap[i] = match_components(model, other)
        for k in np.flatnonzero(overlap[i] >= SAME):
            weights[i, k] = q[top[k], matches[i, k]]
    came_back = overlap >= SAME
    return Stability(
        overlap=overlap,
        returned=came_back.mean(axis=0),
        interval=_wilson(came_back.sum(axis=0), len(others)),
        share=model.shares,
        top_features=top,
        weights=np.take_along_axis(p.T, top, axis=1),
        weight_intervals=_quantiles(weights),
        matches=matches,
        feature_names=feature_names,
    )


def _quantiles(weights: Array) -> Array:
    """Return quantiles (K, n, 2) over fits of weights (n_fits, K, n); rows may be nan."""
    _, K, n = weights.shape
    result = np.full((K, n, 2), np.nan)
    for k in range(K):
        there = weights[~np.isnan(weights[:, k, 0]), k] if n else weights[:0, k]
        if there.size:
            result[k] = np.quantile(there, LEVEL, axis=0).T
    return result


def _wilson(successes: NDArray[np.int64], n: int) -> Array:
    """Return Wilson's 90 % interval of a probability, (K, 2)."""
    z = 1.6448536269514722
    rate = successes / n
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    return np.column_stack([np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)])
