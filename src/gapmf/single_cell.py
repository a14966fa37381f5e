"""Fits of AnnData objects, with the results stored where scanpy looks for them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from gapmf.analysis.groups import GroupComparison, check_groups
from gapmf.counts import is_anndata, list_features
from gapmf.errors import InvalidInputError
from gapmf.io.matrices import read_anndata, warn_if_normalised
from gapmf.io.table import Table
from gapmf.io.vocabulary import align_features
from gapmf.types import Array

if TYPE_CHECKING:
    from gapmf.estimator import GammaPoissonMF


def fit_anndata(
    adata: Any,
    est: GammaPoissonMF | int,
    layer: str | None = None,
    key_added: str = "gap",
    size_factor: str | None = None,
) -> GammaPoissonMF:
    """Fit an estimator to the counts of an AnnData and store the result there.

    `adata.varm["gap_components"]` gets the components (genes × components). `adata.uns["gap"]`
    gets a summary: parameters, α and β, norms and shares, the rank, and whether the fit converged.
    Then the cells are transformed. `adata.obsm["X_gap"]` gets each cell's proportions, which are
    the expected shares of its counts by component (cells × components, rows sum to 1).
    `adata.obsm["X_gap_activations"]` gets the posterior means of the activations. Use proportions
    for neighbours, clusters and plots: activations of different components have different scales.

    After Ctrl-C during the fit, the components so far are kept. After Ctrl-C during the transform,
    the components are kept but not the proportions. A warning says what is missing, and
    `transform_anndata` computes it.

    Parameters
    ----------
    adata : AnnData of shape (n_samples, n_features)
        Cells × genes, in memory. It is changed in place.
    est : GammaPoissonMF or int
        Estimator to fit, or a number of components: 10 stands for
        ``GammaPoissonMF(n_components=10)``.
    layer : str, optional
        Layer that holds the raw counts; by default they are read from `adata.X`. If there is no
        layer called "raw", "raw" reads `adata.raw`. The components are then in `adata.raw.varm`,
        because `adata.raw` has its own genes.
    key_added : str, default="gap"
        Key that replaces "gap" in the names above.
    size_factor : str, optional
        Exposure of each cell, so that activations do not depend on sequencing depth: "total", the
        cell's total count divided by the mean, or the name of a column of `adata.obs`.

    Returns
    -------
    GammaPoissonMF
        The fitted estimator, with the names of the genes in `feature_names_in_`.

    See Also
    --------
    transform_anndata : Project other cells.
    GammaPoissonMF.fit : Fit to arrays, data frames and AnnData objects without storing.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from gapmf import GammaPoissonMF, fit_anndata
    >>> adata = anndata.AnnData(np.random.default_rng(0).poisson(2.0, (20, 5)).astype(float))
    >>> est = fit_anndata(adata, GammaPoissonMF(2, random_state=0))
    >>> adata.obsm["X_gap"].shape, adata.varm["gap_components"].shape
    ((20, 2), (5, 2))
    """
    est = _check_estimator(est)
    _check_writable(adata, "fit")
    cells = read_anndata(adata, layer, "adata.")
    exposure = _exposure(adata, size_factor)
    est.fit(_as_anndata(cells), exposure=exposure)
    from_raw = layer == "raw" and layer not in adata.layers
    (adata.raw if from_raw else adata).varm[f"{key_added}_components"] = est.components_.T.copy()
    adata.uns[key_added] = _summary(est, layer, size_factor)
    for name in _obsm_names(key_added):  # of an earlier fit
        adata.obsm.pop(name, None)
    try:
        if est.interrupted_:
            raise KeyboardInterrupt
        _store_cells(adata, est, cells, key_added, exposure)
    except KeyboardInterrupt:
        place = f"adata{'.raw' if from_raw else ''}.varm[{key_added + '_components'!r}]"
        warnings.warn(
            f"stopped: the components are in {place}, but proportions and activations of the "
            "cells were not computed: gapmf.transform_anndata(adata, est) computes them",
            UserWarning,
            stacklevel=2,
        )
    return est


def transform_anndata(
    adata: Any,
    est: GammaPoissonMF,
    layer: str | None = None,
    key_added: str = "gap",
    size_factor: str | None = None,
) -> Array:
    """Transform the cells of an AnnData with a fitted estimator; genes are matched by name.

    `adata.obsm["X_gap"]` gets each cell's proportions, the expected shares of its counts by
    component (rows sum to 1), and `adata.obsm["X_gap_activations"]` the posterior means of the
    activations. Genes may be in any order. Those that the estimator does not know are left out, and
    those that `adata` does not have count as 0; a warning names both.

    Parameters
    ----------
    adata : AnnData of shape (n_samples, n_features)
        Cells × genes, in memory. It is changed in place.
    est : GammaPoissonMF
        Estimator that was fitted with names: by `fit_anndata`, or to an AnnData or a data frame.
    layer : str, optional
        Layer that holds the raw counts. By default they are read from `adata.X`. Without a layer
        of that name, "raw" reads `adata.raw`.
    key_added : str, default="gap"
        Key that replaces "gap" in the names above.
    size_factor : str, optional
        Exposure of each cell, as in `fit_anndata`. "total" is the default if the fit had it, and
        is on the scale of the fit; a fit with a column needs a column.

    Returns
    -------
    ndarray of shape (n_samples, n_components)
        The proportions, as in `adata.obsm["X_gap"]`.

    See Also
    --------
    fit_anndata : Fit, and transform the cells of the fit.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from gapmf import GammaPoissonMF, fit_anndata, transform_anndata
    >>> adata = anndata.AnnData(np.random.default_rng(0).poisson(2.0, (20, 5)).astype(float))
    >>> est = fit_anndata(adata[:15].copy(), GammaPoissonMF(2, random_state=0))
    >>> new = adata[15:, ::-1].copy()
    >>> transform_anndata(new, est).shape
    (5, 2)
    """
    _check_writable(adata, "transform")
    cells, exposure = _aligned_cells(adata, est, layer), _exposure(adata, size_factor)
    return _store_cells(adata, est, cells, key_added, exposure)


def compare_anndata(
    adata: Any,
    est: GammaPoissonMF,
    groups: Any,
    layer: str | None = None,
    *,
    level: float = 0.95,
    size_factor: str | None = None,
) -> GroupComparison:
    """Compute how the proportions of components differ between groups of cells.

    Genes are matched by name, as in `transform_anndata`. Cells of one donor are not independent:
    with several donors per group, the intervals are too narrow, so compare sums of the counts of
    each donor.

    Parameters
    ----------
    adata : AnnData of shape (n_samples, n_features)
        Cells × genes. It is not changed.
    est : GammaPoissonMF
        Estimator that was fitted with names: by `fit_anndata`, or to an AnnData or a data frame.
    groups : str, or array-like of length n_samples
        Column of `adata.obs` with the group of each cell, such as "batch", or the groups.
    layer : str, optional
        Layer that holds the raw counts. By default they are read from `adata.X`. Without a layer
        of that name, "raw" reads `adata.raw`.
    level : float, default=0.95
        Level of the intervals.
    size_factor : str, optional
        Exposure of each cell, as in `transform_anndata`.

    Returns
    -------
    GroupComparison
        As `GammaPoissonMF.compare` returns it.

    See Also
    --------
    GammaPoissonMF.compare : The same for arrays, data frames and `adata.X`.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from gapmf import GammaPoissonMF, compare_anndata, fit_anndata
    >>> adata = anndata.AnnData(np.random.default_rng(0).poisson(2.0, (20, 5)).astype(float))
    >>> adata.obs["batch"] = ["a", "b"] * 10
    >>> est = fit_anndata(adata, GammaPoissonMF(2, random_state=0))
    >>> compare_anndata(adata, est, "batch").groups
    ('a', 'b')
    """
    if not is_anndata(adata):
        raise InvalidInputError(
            f"adata must be an AnnData, but is {type(adata).__name__}: use est.compare(X, groups) "
            "for arrays and frames"
        )
    found = check_groups(groups, adata, adata.n_obs)
    names = np.array(found.names, dtype=object)[found.codes]
    cells, exposure = _aligned_cells(adata, est, layer), _exposure(adata, size_factor)
    return est.compare(_as_anndata(cells), names, level=level, exposure=exposure)


def _aligned_cells(adata: Any, est: GammaPoissonMF, layer: str | None) -> Table:
    """Read the counts of cells, with genes in the order of the estimator's."""
    check_is_fitted(est, "model_")
    wanted = getattr(est, "feature_names_in_", None)
    if wanted is None:
        raise InvalidInputError(
            "est was fitted without names of genes, so that they cannot be matched: fit it by "
            "gapmf.fit_anndata or est.fit(adata), or set est.feature_names_in_ to the names"
        )
    cells = read_anndata(adata, layer, "adata.")
    warn_if_normalised(cells.counts)
    aligned = align_features(cells, wanted)
    _warn_of_missing(cells, est)
    return aligned


def _check_estimator(est: Any) -> GammaPoissonMF:
    from gapmf.estimator import GammaPoissonMF

    if isinstance(est, (int, np.integer)) and not isinstance(est, bool):
        return GammaPoissonMF(n_components=int(est))
    if not isinstance(est, GammaPoissonMF):
        raise InvalidInputError(
            f"est must be a GammaPoissonMF, for example GammaPoissonMF(n_components=10), or a "
            f"number of components, but is {est!r}"
        )
    return est


def _check_writable(adata: Any, verb: str) -> None:
    """Refuse what results cannot be written to, before any work is done."""
    if not is_anndata(adata):
        raise InvalidInputError(
            f"adata must be an AnnData, but is {type(adata).__name__}: use est.{verb}(X) for "
            "arrays and frames"
        )
    if adata.isbacked:
        raise InvalidInputError(
            f"adata is backed by the file {adata.filename}, which results are not written to: "
            "use adata = adata.to_memory() first"
        )


def _as_anndata(cells: Table) -> Any:
    """Return counts and names of genes as an AnnData, from which an estimator takes both."""
    import anndata
    import pandas as pd

    names = pd.DataFrame(index=pd.Index(cells.feature_names))
    return anndata.AnnData(sp.csr_matrix(cells.counts), var=names)


def _warn_of_missing(cells: Table, est: GammaPoissonMF) -> None:
    """Say which genes of the model the cells do not have."""
    assert cells.feature_names is not None
    there = {name.strip() for name in cells.feature_names}
    names = [str(name) for name in est.feature_names_in_]
    missing = [f for f, name in enumerate(names) if name.strip() not in there]
    if missing:
        totals = est.feature_counts_[missing]
        share = float(totals.sum()) / max(float(est.feature_counts_.sum()), 1.0)
        warnings.warn(
            f"genes that adata does not have count as 0: {len(missing):,} of the model's "
            f"{len(names):,}, with {share:.2%} of the counts of the fit: "
            f"{list_features(totals, [names[f] for f in missing])}",
            UserWarning,
            stacklevel=3,
        )


def _exposure(adata: Any, size_factor: str | None) -> Any:
    """Return "total", or the column of `obs` that holds the exposures of cells."""
    if size_factor is None or size_factor == "total":
        return size_factor
    if size_factor not in adata.obs:
        known = ", ".join(map(repr, adata.obs.columns)) or "none"
        raise InvalidInputError(
            f'size_factor must be "total" or a column of adata.obs, but is {size_factor!r}: there '
            f"are {known}"
        )
    return adata.obs[size_factor].to_numpy()


def _store_cells(
    adata: Any, est: GammaPoissonMF, cells: Table, key_added: str, exposure: Any
) -> Array:
    """Transform cells, store proportions and activations, and return the proportions."""
    found = est.posterior(_as_anndata(cells), quantiles=(), exposure=exposure)
    for name, values in zip(_obsm_names(key_added), (found.proportions, found.mean), strict=True):
        adata.obsm[name] = values
    return found.proportions


def _obsm_names(key_added: str) -> tuple[str, str]:
    return f"X_{key_added}", f"X_{key_added}_activations"


def _summary(est: GammaPoissonMF, layer: str | None, size_factor: str | None) -> dict[str, Any]:
    """Return the entry of `uns`: only numbers, text and arrays, which AnnData can save."""
    parameters = {
        name: value
        for name, value in est.get_params(deep=False).items()
        if isinstance(value, (bool, int, float, str))
    }
    model = est.model_
    return {
        "params": parameters | {"layer": layer or "X", "size_factor": size_factor or "none"},
        "alpha": model.alpha.copy(),
        "beta": model.beta.copy(),
        "norms": model.column_norms.copy(),
        "shares": model.shares.copy(),
        "rank": est.rank_,
        "converged": est.converged_,
        "n_iter": est.n_iter_,
    }
