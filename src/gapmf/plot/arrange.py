"""What pictures show, for `gapmf.plot` and for the report: nothing is drawn here.

A picture is of an estimator, or of an AnnData with the results of `fit_anndata`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gapmf.counts import anndata_matrix, is_anndata
from gapmf.errors import InvalidInputError
from gapmf.io.matrices import category_colours
from gapmf.model import GaP
from gapmf.ranks.features import feature_weights
from gapmf.types import Array
from gapmf.validation import check_whole


@dataclass(frozen=True)
class Fit:
    """A fitted model, with the total count and the name of each feature."""

    model: GaP
    feature_counts: Array
    names: Sequence[Any]


def fit_of(source: Any, key: str = "gap") -> Fit:
    """Return the fit of an estimator, or the one that is stored in an AnnData."""
    if not is_anndata(source):
        if not hasattr(source, "get_params"):
            raise InvalidInputError(
                f"expected a fitted GammaPoissonMF, or an AnnData that gapmf.fit_anndata has "
                f"changed, but got {type(source).__name__}"
            )
        check_is_fitted(source, "model_")
        names = getattr(source, "feature_names_in_", None)
        if names is None:
            names = range(source.model_.n_features)
        return Fit(source.model_, source.feature_counts_, names)
    stored = source.uns.get(key)
    if not isinstance(stored, dict) or "alpha" not in stored:
        raise InvalidInputError(
            f"the AnnData has no fit in uns[{key!r}]: use gapmf.fit_anndata(adata, est) first, "
            "or the key_added that was given to it"
        )
    layer = stored["params"]["layer"]
    counts, names, name = anndata_matrix(source, None if layer == "X" else layer, "adata.")
    owner = source.raw if name.endswith("raw.X") else source
    model = GaP(owner.varm[f"{key}_components"], stored["alpha"], stored["beta"])
    return Fit(model, np.asarray(counts.sum(axis=0), dtype=float).reshape(-1), list(names))


def obs_groups(adata: Any, groupby: str) -> tuple[Any, dict[str, str]]:
    """Return a column of `obs`, and the colours that scanpy has given to its categories."""
    if groupby not in adata.obs:
        known = ", ".join(map(str, adata.obs.columns)) or "no columns"
        raise InvalidInputError(f"obs has no column {groupby!r}: there are {known}")
    return adata.obs[groupby], category_colours(adata, groupby)


# Neighbours differ in lightness, too. All can be seen on white and on black.
PALETTE = (
    "#3b6fb6", "#d9822b", "#2a8c82", "#c8553d", "#8a5a9e", "#8fae3c", "#d1638f", "#6fb1d6",
    "#8c6d4f", "#c9a227", "#4f5fa8", "#5fa35a", "#b0413e", "#79c2b5", "#a77bca", "#e0a36b",
    "#587287", "#d98aa8", "#6b7f2a", "#9ea7b0",
)  # fmt: skip
OTHERS = "#6e7681"


def share_order(model: GaP) -> NDArray[np.intp]:
    """Return the components, that with the largest share of the expected counts first."""
    return np.argsort(-model.shares, kind="stable")


def component_colours(model: GaP) -> list[str]:
    """Return a colour per component: one each for the largest, and grey for the others."""
    colours = [OTHERS] * model.n_components
    for place, k in enumerate(share_order(model)[: len(PALETTE)]):
        colours[k] = PALETTE[place]
    return colours


def similarity(model: GaP) -> Array:
    """Return the overlap of each pair of components, (K, K): 1 if they are equal.

    It is the Bhattacharyya coefficient Σ_f √(p_f q_f) of their distributions of features, as in
    `GammaPoissonMF.stability`. An empty component overlaps with itself only.
    """
    root = np.sqrt(feature_weights(model))
    overlap = np.clip(root.T @ root, 0.0, 1.0)
    np.fill_diagonal(overlap, 1.0)
    return np.asarray(overlap)


def hellinger(overlap: Array) -> Array:
    """Return the Hellinger distances √(1 − overlap), of the same shape."""
    return np.asarray(np.sqrt(np.maximum(1.0 - overlap, 0.0)))


def similarity_order(overlap: Array) -> NDArray[np.intp]:
    """Return an order of the components in which similar ones are neighbours.

    It is that of the leaves of an average-linkage tree of Hellinger distances.
    """
    if len(overlap) < 3:
        return np.arange(len(overlap))
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    distances = hellinger(overlap)
    np.fill_diagonal(distances, 0.0)
    condensed = squareform(distances, checks=False)
    return np.asarray(leaves_list(linkage(condensed, "average", optimal_ordering=True)), np.intp)


def place_components(overlap: Array) -> Array:
    """Place the components in a plane by classical scaling of Hellinger distances, (K, 2).

    The signs of the axes, which are arbitrary, are such that the largest coordinate is positive.
    """
    K = len(overlap)
    squared = hellinger(overlap) ** 2
    centred = -0.5 * (squared - squared.mean(0) - squared.mean(1)[:, None] + squared.mean())
    values, vectors = np.linalg.eigh(centred)
    found = np.zeros((K, 2))
    for i in range(min(2, K)):
        axis = vectors[:, -1 - i] * np.sqrt(max(values[-1 - i], 0.0))
        found[:, i] = axis * (np.sign(axis[np.abs(axis).argmax()]) or 1.0)
    return found


def structure_order(proportions: Array) -> NDArray[np.intp]:
    """Return the order of samples in a structure plot, or of those of one of its groups.

    They are ordered by their largest component, the most frequent one first, then by its share.
    """
    largest = proportions.argmax(axis=1)
    common = np.argsort(np.argsort(-proportions.mean(axis=0), kind="stable"))
    return np.lexsort([-proportions.max(axis=1), common[largest]])


def group_names(groups: Any) -> list[Any]:
    """Return the groups in their order: that of a categorical, else sorted; None is no group."""
    categories = getattr(getattr(groups, "cat", groups), "categories", None)
    present = {name for name, known in zip(groups, has_group(groups), strict=True) if known}
    if categories is not None:
        return [name for name in categories if name in present]
    return sorted(present, key=lambda name: (str(type(name)), name))


def has_group(groups: Any) -> list[bool]:
    """Return for each sample whether its group is known: not None, NaN or pandas' NA."""
    import pandas as pd

    return [not pd.isna(group) for group in groups]


def parse_image(image: Any, n_features: int) -> tuple[int, int] | None:
    """Return height and width of pictures: given as (8, 8), "8x8" or "square"; None for none."""
    if image is None:
        return None
    side = round(n_features**0.5)
    if isinstance(image, str) and image.strip().lower() == "square":
        if side * side != n_features:
            raise InvalidInputError(
                f"{n_features} features are no square image: give the shape, for example 28x28"
            )
        return side, side
    try:
        parts = image.lower().split("x") if isinstance(image, str) else image
        height, width = (int(part) for part in parts)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"an image is height × width, such as 28x28, or square, but is {image!r}"
        ) from None
    check_whole(height, "the height of an image")
    check_whole(width, "the width of an image")
    if height * width != n_features:
        raise InvalidInputError(
            f"an image of {height} × {width} has {height * width} pixels, but there are "
            f"{n_features} features"
        )
    return height, width
