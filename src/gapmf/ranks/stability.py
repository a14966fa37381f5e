"""How surely components come back: fits compared component by component."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from gapmf.model import GaP
from gapmf.types import Array

SAME = 0.9  # the overlap from which on two components count as the same
LEVEL = (0.05, 0.95)


@dataclass(frozen=True, repr=False, eq=False)
class Stability:
    """How surely each component comes back.

    Attributes
    ----------
    overlap : array, (n_fits, K)
        The overlap of each component with its match in every other fit: Σ_f √(q_f p_f) of their
        distributions of features (Bhattacharyya's), 1 if they are the same and 0 if they share
        nothing.
    returned : array, (K,)
        The part of the fits in which it came back: with an overlap of 0.9 or more.
    interval : array, (K, 2)
        A 90 % interval for the probability that it comes back (Wilson's).
    share : array, (K,)
        Its part of the expected counts, in the fit that is asked about.
    top_features : int array, (K, n)
        Its largest features.
    weights : array, (K, n)
        Their probabilities w_fk / ||w_k||₁.
    weight_intervals : array, (K, n, 2)
        The 5 % and 95 % quantiles of these over the fits in which the component came back, and
        nan if there was none.
    matches : int array, (n_fits, K)
        Which component of each fit was matched.
    feature_names : array of str, (F,), or None
        If the fit had a frame.
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
        lines = [head + "largest features, their weight [and where 90 % of the fits have it]"]
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
    feature_names: NDArray[Any] | None = None,
) -> Stability:
    """The stability of a model's components in other fits of the same number of features."""
    p = _directions(model)
    K = model.n_components
    overlap = np.zeros((len(others), K))
    matches = np.full((len(others), K), -1, dtype=np.int64)
    top = np.argsort(-p, axis=0, kind="stable")[:n_features].T
    weights = np.full((len(others), K, top.shape[1]), np.nan)
    for i, other in enumerate(others):
        q = _directions(other)
        match = np.sqrt(p).T @ np.sqrt(q)
        rows, columns = linear_sum_assignment(-match)
        overlap[i, rows], matches[i, rows] = match[rows, columns], columns
        back = rows[match[rows, columns] >= SAME]
        for k in back:
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


def _directions(model: GaP) -> Array:
    """w_fk / ||w_k||₁, (F, K); an empty column stays empty, and overlaps with nothing."""
    norms = model.column_norms
    return np.divide(model.W, norms, out=np.zeros_like(model.W), where=norms > 0)


def _quantiles(weights: Array) -> Array:
    """(K, n, 2) from values (n_fits, K, n) of which whole rows may be missing."""
    _, K, n = weights.shape
    result = np.full((K, n, 2), np.nan)
    for k in range(K):
        there = weights[~np.isnan(weights[:, k, 0]), k] if n else weights[:0, k]
        if there.size:
            result[k] = np.quantile(there, LEVEL, axis=0).T
    return result


def _wilson(successes: NDArray[np.int64], n: int) -> Array:
    """Wilson's 90 % interval for a probability, (K, 2)."""
    z = 1.6448536269514722
    rate = successes / n
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    return np.column_stack([np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)])
