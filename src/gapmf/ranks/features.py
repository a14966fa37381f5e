"""What a component is about: its features in order, the most distinctive or the largest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gapmf.errors import InvalidInputError
from gapmf.model import GaP
from gapmf.types import Array, Index
from gapmf.validation import check_option, check_whole

if TYPE_CHECKING:  # `gapmf topics` starts without joblib
    from gapmf.parallel import Progress

ORDERS = ("distinctive", "weight")
ALL = slice(None)
NEGLIGIBLE = 1e-3  # of the largest weight of a component


def feature_weights(model: GaP, features: Index | slice = ALL) -> Array:
    """Return w_fk / ||w_k||₁, of shape (F, K), for all or some features; 0 if w_k is empty."""
    norms = model.column_norms
    return np.asarray(model.W[features] / np.where(norms > 0, norms, 1.0))


def visible_features(weights: Array) -> NDArray[np.bool_]:
    """Return which features a picture or table of a component can show, given their weights.

    A fit leaves most weights slightly above 0, so a component with few features would be filled up
    with features that it hardly has: those below a thousandth of its largest weight are left out.
    """
    return np.asarray(weights > NEGLIGIBLE * weights.max(axis=0, initial=0.0))


def match_components(model: GaP, other: GaP) -> tuple[NDArray[np.int64], Array]:
    """Match the components of two models with as many features, one to one.

    Returns for each component of `model` the number of its match, or -1, and their overlap, the
    Bhattacharyya coefficient Σ_f √(q_f p_f) of their distributions of features.
    """
    from scipy.optimize import linear_sum_assignment

    overlap = np.sqrt(feature_weights(model)).T @ np.sqrt(feature_weights(other))
    rows, columns = linear_sum_assignment(-overlap)
    matches = np.full(model.n_components, -1, dtype=np.int64)
    found = np.zeros(model.n_components)
    matches[rows], found[rows] = columns, overlap[rows, columns]
    return matches, found


def distinctiveness(model: GaP, feature_counts: Array, features: Index | slice = ALL) -> Array:
    """Return how clearly each feature is more frequent in a component than in the others.

    It is √n log((n + 1) / (e + 1)). Here n is the number of counts of feature f that come from
    component k, and e is what n would be if f were as frequent in k as it is in the other
    components together. A logarithm of n counts has a standard error of about 1/√n, so the value is
    about the number of standard errors by which the feature is more frequent here. Without
    another component e is 0, and the order is that of the weights.

    Parameters
    ----------
    model : GaP
        The model.
    feature_counts : ndarray of shape (n_features,)
        Total count of each feature in the data of the fit.
    features : ndarray of int, optional
        The features to compute it for; by default all.

    Returns
    -------
    ndarray of shape (n_features, n_components)
        Negative where the feature is less frequent than in the other components.
    """
    n, expected = _counts_here(model, feature_counts, features)
    return np.asarray(np.sqrt(n) * np.log((n + 1.0) / (expected + 1.0)))


def frequency_ratios(model: GaP, feature_counts: Array, features: Index | slice = ALL) -> Array:
    """Return how many times as frequent features are in a component as in the others, (F, K).

    The ratio is (n + 1) / (e + 1), with n and e as in `distinctiveness`.
    """
    n, expected = _counts_here(model, feature_counts, features)
    return np.asarray((n + 1.0) / (expected + 1.0))


def _counts_here(model: GaP, feature_counts: Array, features: Index | slice) -> tuple[Array, Array]:
    """Return n and e of `distinctiveness`, both (F, K)."""
    weights = feature_weights(model, features)
    others = np.where(np.eye(model.n_components, dtype=bool), 0.0, model.shares[:, None])
    others /= np.maximum(others.sum(axis=0), np.finfo(float).tiny)
    totals = model.shares * float(np.sum(feature_counts))
    return weights * totals, (weights @ others) * totals


def order_features(
    model: GaP,
    feature_counts: Array,
    by: str = "distinctive",
    n: int | None = None,
    progress: Progress | None = None,
) -> NDArray[np.int64]:
    """Return the first n features of each component in order, or all: an array (n, K).

    What is not more frequent than elsewhere, by one standard error, follows by weight.
    """
    check_option(by, ORDERS, "by")
    weights = feature_weights(model)
    n = model.n_features if n is None else min(n, model.n_features)
    order = np.empty((n, model.n_components), dtype=np.int64)
    if by == "weight":
        value = weights
    else:
        value = distinctiveness(model, feature_counts)
        value[value < 1.0] = 0.0
    for k in range(model.n_components):
        order[:, k] = _largest(value[:, k], weights[:, k], n)
        if progress is not None:
            progress(0.5 + 0.5 * (k + 1) / model.n_components)
    return order


def _largest(value: Array, weight: Array, n: int) -> NDArray[np.intp]:
    """Return the places of the n largest values, by weight and then by place where they are equal.

    Only those that may be among them are sorted: that is fast for many features.
    """
    if n == value.size:
        return np.lexsort((-weight, -value))
    least = np.partition(value, -n)[-n]
    sure, equal = np.flatnonzero(value > least), np.flatnonzero(value == least)
    n_left = n - sure.size
    equal = equal[weight[equal] >= np.partition(weight[equal], -n_left)[-n_left]]
    some = np.concatenate([sure, equal])
    return some[np.lexsort((some, -weight[some], -value[some]))][:n]


def top_features(
    model: GaP,
    feature_counts: Array,
    n: int = 10,
    *,
    by: str = "distinctive",
    names: Sequence[Any] | None = None,
) -> list[list[tuple[Any, float]]]:
    """Return the first n features of each component and their weights.

    Features that a component does not have are left out. Without `names`, they are numbers.
    """
    n = check_whole(n, "n")
    names = list(range(model.n_features) if names is None else names)
    if len(names) != model.n_features:
        raise InvalidInputError(
            f"names must have {model.n_features} entries, one per feature, but has {len(names)}"
        )
    order, weights = order_features(model, feature_counts, by, n), feature_weights(model)
    has = np.take_along_axis(weights, order, axis=0) > 0
    return [
        [(names[f], float(weights[f, k])) for f in order[has[:, k], k][:n]]
        for k in range(model.n_components)
    ]


def component_labels(
    model: GaP, feature_counts: Array, names: Sequence[Any] | None = None, n: int = 3
) -> list[str]:
    """Return a label for each component: its most distinctive features, by name.

    >>> component_labels(GaP([[9.0, 0.0], [5.0, 5.0], [0.0, 9.0]]), np.full(3, 50), "abc", 2)
    ['a, b', 'c, b']
    """
    tops = top_features(model, feature_counts, n, names=names)
    return [", ".join(str(name) for name, _ in top) for top in tops]
