"""AnnData's files (.h5ad): cells × genes, read by the package anndata."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.counts import check_counts
from gapmf.errors import InvalidInputError, ReadError
from gapmf.io.source import check_expansion, check_regular
from gapmf.io.table import Table, as_names

_FEW_CELLS = 10  # whose totals may be equal by chance


def read_h5ad(path: str, *, layer: str | None = None) -> Table:
    """Read the counts of an .h5ad, with the names of cells and genes.

    Parameters
    ----------
    path : str
    layer : str, optional
        Where the raw counts are; by default in `X`.

    Examples
    --------
    >>> import anndata, numpy as np, os, tempfile
    >>> from gapmf.io.h5ad import read_h5ad
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "cells.h5ad")
    ...     anndata.AnnData(np.array([[0.0, 2.0], [1.0, 0.0]])).write_h5ad(path)
    ...     read_h5ad(path)
    Table of 2 samples × 2 features, 2 counts above 0; features have names, samples have names
    """
    try:
        anndata, h5py = import_module("anndata"), import_module("h5py")
    except ImportError as error:
        raise ImportError(
            ".h5ad files need the package anndata: pip install 'gapmf[anndata]'"
        ) from error
    size = check_regular(path)
    with open(path, "rb"):  # if it may not be read, the system's error says so
        pass
    try:
        _check_claims(h5py, path, size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old formats, of names that are not unique
            adata = anndata.read_h5ad(path)
    except ReadError:
        raise
    except Exception as error:  # HDF5 and anndata raise many kinds on a file that is damaged
        what = str(error).strip().partition("\n")[0]
        raise ReadError(
            f"{path} cannot be read as .h5ad ({type(error).__name__}: {what[:200]}): is it whole, "
            "and does anndata.read_h5ad open it?"
        ) from error
    try:
        counts = counts_of(adata, layer, f"{path}, ")
    except InvalidInputError as error:
        raise ReadError(str(error)) from None
    warn_if_normalised(counts, path)
    features, samples = (as_names(map(str, part)) for part in (adata.var_names, adata.obs_names))
    return Table(counts, features, samples)


def _check_claims(h5py: Any, path: str, size: int) -> None:
    """Refuse a file whose arrays are to have far more bytes than it has."""
    claimed = 0

    def add(_: str, item: Any) -> None:
        nonlocal claimed
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            claimed += item.size * item.dtype.itemsize

    with h5py.File(path, "r") as file:
        file.visititems(add)
    check_expansion(path, claimed, size)


def counts_of(adata: Any, layer: str | None, place: str) -> sp.csr_array:
    """The counts of an AnnData, or what is wrong with them and where others are.

    `place` goes before "X" and "layers[…]" where these are named.
    """
    if layer is not None and layer not in adata.layers:
        known = ", ".join(repr(name) for name in adata.layers) or "none"
        raise InvalidInputError(f"{place}layers has no {layer!r}: the layers are {known}")
    name = f"{place}X" if layer is None else f"{place}layers[{layer!r}]"
    values = adata.X if layer is None else adata.layers[layer]
    if values is None:
        raise InvalidInputError(f"{name} is empty: name the layer that holds the counts")
    try:
        return _counts(values, name)
    except InvalidInputError as error:
        others = (key for key in adata.layers if key != layer)
        elsewhere = [key for key in others if _are_counts(adata.layers[key])]
        advice = f"; layer={elsewhere[0]!r} holds counts" if elsewhere else ""
        raise InvalidInputError(f"{error}{advice}") from error


def _counts(values: Any, name: str) -> sp.csr_array:
    if hasattr(values, "to_memory"):
        values = values.to_memory()
    if 0 in values.shape and len(values.shape) == 2:
        return sp.csr_array(values.shape, dtype=np.int64)
    if isinstance(values, (sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array)):
        try:
            values.check_format(full_check=True)  # SciPy trusts indices, and may write anywhere
        except ValueError as error:
            raise InvalidInputError(f"{name} is damaged ({error})") from None
    return check_counts(values, name=name)


def _are_counts(values: Any) -> bool:
    try:
        _counts(values, "values")
    except InvalidInputError:
        return False
    return True


def warn_if_normalised(counts: sp.csr_array, name: str) -> None:
    """Warn if all cells have the same total: that is no property of raw counts."""
    totals = np.asarray(counts.sum(axis=1)).astype(float)
    if totals.size > _FEW_CELLS and totals.max() > 0 and np.ptp(totals) < 1e-3 * totals.max():
        warnings.warn(
            f"all {totals.size} cells of {name} have the same total, {totals.max():g}: they look "
            "normalised and rounded, but the model is of raw counts",
            UserWarning,
            stacklevel=4,
        )
