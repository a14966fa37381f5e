"""AnnData: counts from cells × genes, and the fit written back where scanpy looks for it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from gapmf.counts import check_counts
from gapmf.errors import InvalidInputError

if TYPE_CHECKING:
    from gapmf.estimator import GammaPoissonMF

_FEW_CELLS = 10  # whose totals may be equal by chance


def fit_anndata(
    adata: Any, est: GammaPoissonMF, layer: str | None = None, key_added: str = "gap"
) -> GammaPoissonMF:
    """Fit to the counts of an AnnData, and write there what comes of it.

    `obsm["X_gap"]` gets the activations (cells × components, their posterior means),
    `varm["gap_components"]` the components (genes × components), `uns["gap"]` the parameters,
    α and β, norms and shares, the rank, and whether the fit converged.

    Parameters
    ----------
    adata : AnnData
    est : GammaPoissonMF
        It is fitted.
    layer : str, optional
        Where the raw counts are; by default in `X`.
    key_added : str
        Stands for "gap" in the names above.

    Returns
    -------
    GammaPoissonMF
        `est`.

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
    counts = _counts(adata, layer)
    est.fit(counts)
    activations = np.asarray(est.transform(counts))
    adata.obsm[f"X_{key_added}"] = activations
    adata.varm[f"{key_added}_components"] = est.components_.T.copy()
    adata.uns[key_added] = _summary(est, layer)
    return est


def _counts(adata: Any, layer: str | None) -> sp.csr_array:
    """The counts, or what is wrong with them and where others are."""
    if layer is not None and layer not in adata.layers:
        known = ", ".join(repr(name) for name in adata.layers) or "none"
        raise InvalidInputError(f"there is no layer {layer!r}: the layers are {known}")
    name = "adata.X" if layer is None else f"adata.layers[{layer!r}]"
    values = adata.X if layer is None else adata.layers[layer]
    if values is None:
        raise InvalidInputError(f"{name} is empty: name the layer that holds the counts")
    try:
        counts = check_counts(_in_memory(values), name=name)
    except InvalidInputError as error:
        elsewhere = [repr(k) for k in adata.layers if k != layer and _are_counts(adata.layers[k])]
        advice = f"; layer={elsewhere[0]} holds counts" if elsewhere else ""
        raise InvalidInputError(f"{error}{advice}") from error
    totals = np.asarray(counts.sum(axis=1)).astype(float)
    if totals.size > _FEW_CELLS and totals.max() > 0 and np.ptp(totals) < 1e-3 * totals.max():
        warnings.warn(
            f"all {totals.size} cells of {name} have the same total, {totals.max():g}: they look "
            "normalised and rounded, but the model is of raw counts",
            UserWarning,
            stacklevel=3,
        )
    return counts


def _in_memory(values: Any) -> Any:
    """A matrix that may be on disk, in memory."""
    return values.to_memory() if hasattr(values, "to_memory") else values


def _are_counts(values: Any) -> bool:
    try:
        check_counts(_in_memory(values))
    except InvalidInputError:
        return False
    return True


def _summary(est: GammaPoissonMF, layer: str | None) -> dict[str, Any]:
    """What `uns` gets: numbers, text and arrays alone, so that it can be written to a file."""
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
