"""Matrices: MatrixMarket (.mtx) with the name files of 10x, SciPy (.npz), AnnData (.h5ad)."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.errors import ReadError
from gapmf.io import table
from gapmf.io.table import Table, to_counts
from gapmf.validation import shorten

MATRIX = r".*\.mtx(\.gz)?"  # names of files
_BANNER = re.compile(
    r"%%matrixmarket matrix (array|coordinate) (unsigned-integer|integer|real|double|pattern) "
    "(general|symmetric)"
)
_FEW_CELLS = 10  # whose totals may be equal by chance


def read_market(
    path: str, *, vocab: str | None = None, transpose: bool | None = None, encoding: str = "utf-8"
) -> Table:
    """Read a MatrixMarket file, which with the name files of 10x beside it is turned."""
    path = table.find_one(path, MATRIX, ".mtx or .mtx.gz")
    parts = re.fullmatch(r"(.*)matrix\.mtx(\.gz)?", os.path.basename(path), re.I | re.S)
    prefix = "" if parts is None else parts[1]  # of all three files
    feature_file = table.find_beside(path, [f"{prefix}features.tsv", f"{prefix}genes.tsv"])
    sample_file = table.find_beside(path, [f"{prefix}barcodes.tsv"])
    if transpose is None:
        transpose = feature_file is not None or sample_file is not None
    counts = to_counts(_read_matrix(path), f"{path}, X")
    counts = sp.csr_array(counts.T) if transpose else counts
    N, F = counts.shape
    column = 1 if vocab is None else None  # the columns are identifier, symbol, …
    features = table.read_names(vocab or feature_file, F, f"features in {path}", encoding, column)
    samples = table.read_names(sample_file, N, f"samples in {path}", encoding, column=0)
    return Table(counts, features, samples)


def _read_matrix(path: str) -> Any:
    """Read a matrix; strictly, unlike SciPy (1.17), which reads "2,5" as 2."""
    lines = table.read_lines(path, errors="replace")
    banner = next(lines, "")
    kind = _BANNER.fullmatch(" ".join(banner.lower().split()))
    if kind is None:
        raise ReadError(
            f"{path}, line 1: expected '%%MatrixMarket matrix coordinate integer general', or "
            f"array, real, pattern or symmetric instead, but found {shorten(banner)}"
        )
    below = ((n, line) for n, line in enumerate(lines, 2) if line.strip() and line[0] != "%")
    n_above, line = next(below, (2, ""))
    layout, field, symmetry = kind.groups()
    if (
        re.fullmatch(r"\d+ \d+" + " \\d+" * (layout == "coordinate"), " ".join(line.split()))
        is None
    ):
        raise ReadError(
            f"{path}, line {n_above}: expected the numbers of rows and columns (and, if it is not "
            f"an array, of entries), but found {shorten(line)}"
        )
    N, F, *n_entries = map(int, line.split())
    mirrored = symmetry == "symmetric"
    if mirrored and N != F:
        raise ReadError(f"{path}: a symmetric matrix is square, not {N} × {F}")
    if n_entries:
        width = 2 if field == "pattern" else 3
        matrix = table.read_entries(path, n_above, (N, F), n_entries[0], width)
        return matrix + sp.triu(matrix.T, 1) + sp.tril(matrix.T, -1) if mirrored else matrix
    if not mirrored:  # by columns
        return table.read_numbers(path, n_above, N * F, 1).reshape(F, N).T
    across, down = np.triu_indices(N)
    values = table.read_numbers(path, n_above, down.size, 1)[:, 0]
    array = np.empty((N, N), values.dtype)
    array[down, across] = array[across, down] = values
    return array


def read_npz(
    path: str, *, vocab: str | None = None, transpose: bool = False, encoding: str = "utf-8"
) -> Table:
    """Read what `scipy.sparse.save_npz` writes: csr, csc, coo, bsr or dia."""
    with open(path, "rb") as file:
        matrix = sp.load_npz(file)
    found = table.turned(Table(to_counts(matrix, f"{path}, X"), None, None), transpose)
    names = table.read_names(vocab, found.counts.shape[1], f"features in {path}", encoding)
    return found._replace(feature_names=names)


def read_h5ad(path: str, *, layer: str | None = None) -> Table:
    """Read the counts of an .h5ad, in `X` or in a layer, with the names of cells and genes."""
    try:
        import anndata
    except ImportError as error:
        raise ImportError(
            ".h5ad files need the package anndata: pip install 'gapmf[anndata]'"
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about old formats and names that are not unique
        adata = anndata.read_h5ad(path)
    counts = counts_of(adata, layer, f"{path}, ")
    warn_if_normalised(counts, path)
    return Table(counts, table.as_names(adata.var_names), table.as_names(adata.obs_names))


def counts_of(adata: Any, layer: str | None, place: str) -> sp.csr_array:
    """Return the counts of an AnnData; `place` stands before "X" and "layers[…]" in errors."""
    known = ", ".join(map(repr, adata.layers)) or "none"
    if layer is not None and layer not in adata.layers:
        raise ReadError(f"{place}layers has no {layer!r}: the layers are {known}")
    name = f"{place}X" if layer is None else f"{place}layers[{layer!r}]"
    values = adata.X if layer is None else adata.layers[layer]
    if values is None:
        raise ReadError(f"{name} is empty: set the `layer` that holds the counts")
    try:
        return to_counts(values.to_memory() if hasattr(values, "to_memory") else values, name)
    except ReadError as error:
        raise ReadError(
            f"{error}; if a `layer` holds raw counts, set it: there are {known}"
        ) from None


def warn_if_normalised(counts: sp.csr_array, name: str) -> None:
    """Warn if all cells have the same total, which raw counts do not have."""
    totals = np.asarray(counts.sum(axis=1)).astype(float)
    if totals.size > _FEW_CELLS and totals.max() > 0 and np.ptp(totals) < 1e-3 * totals.max():
        warnings.warn(
            f"all {totals.size} cells of {name} have the same total, {totals.max():g}: they look "
            "normalised and rounded, but the model is of raw counts",
            UserWarning,
            stacklevel=4,
        )
