"""Fits of AnnData objects, with the results stored where scanpy looks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gapmf.errors import InvalidInputError
from gapmf.io.matrices import counts_of, warn_if_normalised

if TYPE_CHECKING:
    from gapmf.estimator import GammaPoissonMF


def fit_anndata(
    adata: Any, est: GammaPoissonMF, layer: str | None = None, key_added: str = "gap"
) -> GammaPoissonMF:
    """Fit an estimator to the counts of an AnnData and store the result there.

    `adata.obsm["X_gap"]` gets the posterior means of the activations (cells × components),
    `adata.varm["gap_components"]` the components (genes × components) and `adata.uns["gap"]` a
    summary: parameters, α and β, norms and shares, the rank, and whether the fit converged.

    Parameters
    ----------
    adata : AnnData of shape (n_samples, n_features)
        Cells × genes. It is changed in place.
    est : GammaPoissonMF
        Estimator to fit.
    layer : str, optional
        Layer that holds the raw counts. By default they are read from `adata.X`.
    key_added : str, default="gap"
        Key that replaces "gap" in the names above.

    Returns
    -------
    GammaPoissonMF
        The fitted `est`.

    See Also
    --------
    GammaPoissonMF.fit : Fit to arrays and data frames.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from gapmf import GammaPoissonMF, fit_anndata
    >>> adata = anndata.AnnData(np.random.default_rng(0).poisson(2.0, (20, 5)).astype(float))
    >>> est = fit_anndata(adata, GammaPoissonMF(2, random_state=0))
    >>> adata.obsm["X_gap"].shape, adata.varm["gap_components"].shape
    ((20, 2), (5, 2))
    """
    try:
        import anndata
    except ImportError as error:
        raise ImportError(
            "fit_anndata needs the package anndata: pip install 'gapmf[anndata]'"
        ) from error
    if not isinstance(adata, anndata.AnnData):
        raise InvalidInputError(
            f"adata must be an AnnData, but is {type(adata).__name__}: use est.fit(X) for arrays "
            "and frames"
        )
    counts = counts_of(adata, layer, "adata.")
    warn_if_normalised(counts, "adata.X" if layer is None else f"adata.layers[{layer!r}]")
    est.fit(counts)
    activations = np.asarray(est.transform(counts))
    adata.obsm[f"X_{key_added}"] = activations
    adata.varm[f"{key_added}_components"] = est.components_.T.copy()
    adata.uns[key_added] = _summary(est, layer)
    return est


def _summary(est: GammaPoissonMF, layer: str | None) -> dict[str, Any]:
    """Return the entry of `uns`: only numbers, text and arrays, which AnnData can save."""
    parameters = {
        name: value
        for name, value in est.get_params(deep=False).items()
        if isinstance(value, (bool, int, float, str))
    }
    model = est.model_
    return {
        "params": parameters | {"layer": layer or "X"},
        "alpha": model.alpha.copy(),
        "beta": model.beta.copy(),
        "norms": model.column_norms.copy(),
        "shares": model.shares.copy(),
        "rank": est.rank_,
        "converged": est.converged_,
        "n_iter": est.n_iter_,
    }
