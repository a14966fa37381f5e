"""What is drawn: an estimator, or an AnnData with the results of `fit_anndata`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gapmf.counts import anndata_matrix, is_anndata
from gapmf.errors import InvalidInputError
from gapmf.io.matrices import category_colours
from gapmf.model import GaP
from gapmf.types import Array


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
