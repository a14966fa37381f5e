"""Matrices: MatrixMarket (.mtx) with the name files of 10x, SciPy (.npz), AnnData (.h5ad)."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from gapmf.counts import anndata_matrix, list_layers, warn_of_duplicate_genes
from gapmf.errors import InvalidInputError, ReadError
from gapmf.io import table
from gapmf.io.table import Table, to_counts
from gapmf.validation import shorten

MATRIX = r".*\.mtx(\.gz)?"  # names of files
_BANNER = re.compile(
    r"%%matrixmarket matrix (array|coordinate) (unsigned-integer|integer|real|double|pattern) "
    "(general|symmetric)"
)
_FEW_CELLS = 10  # whose totals may be equal by chance
_MANY_GENES = 20
_TARGETS = (1e4, 1e5, 1e6)  # to which cells are scaled


def read_market(
    path: str, *, vocab: str | None = None, transpose: bool | None = None, encoding: str = "utf-8"
) -> Table:
    """Read a MatrixMarket file, which with the name files of 10x beside it is turned."""
    path = table.find_one(path, MATRIX, ".mtx or .mtx.gz")
    feature_file, sample_file = find_name_files(path)
    if transpose is None:
        transpose = feature_file is not None or sample_file is not None
    counts = to_counts(_read_matrix(path), f"{path}, X")
    counts = sp.csr_array(counts.T) if transpose else counts
    return Table(counts, *read_market_names(path, counts.shape, vocab, encoding))


def find_name_files(path: str) -> tuple[str | None, str | None]:
    """Return the files of features and of samples that 10x writes beside a matrix."""
    parts = re.fullmatch(r"(.*)matrix\.mtx(\.gz)?", os.path.basename(path), re.I | re.S)
    prefix = "" if parts is None else parts[1]  # of all three files
    feature_file = table.find_beside(path, [f"{prefix}features.tsv", f"{prefix}genes.tsv"])
    return feature_file, table.find_beside(path, [f"{prefix}barcodes.tsv"])


def read_market_names(
    path: str, shape: tuple[int, int], vocab: str | None, encoding: str
) -> tuple[table.Names | None, table.Names | None]:
    """Read the names of the features and of the samples of a matrix of this shape."""
    feature_file, sample_file = find_name_files(path)
    column = 1 if vocab is None else None  # the columns are identifier, symbol, …
    where = f"features in {path}"
    features = table.read_names(vocab or feature_file, shape[1], where, encoding, column)
    samples = table.read_names(sample_file, shape[0], f"samples in {path}", encoding, column=0)
    return features, samples


class MarketHead(NamedTuple):
    """What a MatrixMarket file says of itself."""

    layout: str
    field: str
    symmetry: str
    sizes: list[int]
    """The numbers of rows and columns and, unless it is an array, of entries."""
    n_above: int
    """The number of lines down to the sizes."""


def read_market_head(path: str) -> MarketHead:
    """Read the lines above the entries; strictly, unlike SciPy (1.17), which reads "2,5" as 2."""
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
    return MarketHead(layout, field, symmetry, list(map(int, line.split())), n_above)


def _read_matrix(path: str) -> Any:
    _, field, symmetry, (N, F, *n_entries), n_above = read_market_head(path)
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
    found = read_anndata(open_h5ad(path), layer, f"{path}, ")
    warn_if_normalised(found.counts, f" of {path}")
    return found


def read_obs(path: str, column: str) -> Any:
    """Return a column of the obs of an .h5ad: one value per cell."""
    obs = open_h5ad(path, backed="r").obs
    if column not in obs:
        listed = ", ".join(map(repr, obs.columns)) or "none"
        raise ReadError(f"{path}: obs has no column {column!r}: its columns are {listed}")
    return obs[column].reset_index(drop=True)


def read_colours(path: str, column: str) -> dict[str, str]:
    """Return the colours that scanpy has given to the categories of a column of obs, if any."""
    adata = open_h5ad(path, backed="r")
    return {} if column not in adata.obs else category_colours(adata, column)


def category_colours(adata: Any, column: str) -> dict[str, str]:
    """Return the colours of the categories of a column of obs, as scanpy stores them in uns."""
    categories = getattr(getattr(adata.obs[column], "cat", None), "categories", [])
    colours = adata.uns.get(f"{column}_colors", [])
    if len(colours) < len(categories):  # of an earlier clustering
        return {}
    return {str(c): str(colour) for c, colour in zip(categories, colours, strict=False)}


def open_h5ad(path: str, **options: Any) -> Any:
    """Open an .h5ad by anndata, without its warnings."""
    try:
        import anndata
    except ImportError as error:
        raise ImportError(
            ".h5ad files need the package anndata: pip install 'gapmf[anndata]'"
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about old formats and names that are not unique
        return anndata.read_h5ad(path, **options)


def read_anndata(adata: Any, layer: str | None, place: str) -> Table:
    """Return counts and names of an AnnData; see `anndata_matrix` for `layer` and `place`."""
    try:
        values, genes, name = anndata_matrix(adata, layer, place)
    except InvalidInputError as error:
        raise ReadError(str(error)) from None
    warn_of_duplicate_genes(adata.raw if name.endswith("raw.X") else adata)
    try:
        counts = to_counts(values, name, genes)
    except ReadError as error:
        raise ReadError(
            f"{error}; if a `layer` holds raw counts, set it: there are {list_layers(adata)}"
        ) from None
    return Table(counts, table.as_names(genes), table.as_names(adata.obs_names))


def warn_if_normalised(counts: sp.csr_array, of: str = "") -> None:
    """Warn about whole numbers that do not look like raw counts of cells."""
    if (reason := _find_scaling(counts)) is not None:
        warnings.warn(
            f"the counts{of} look normalised and rounded: {reason}. The model is of raw counts: "
            "use the `layer` that holds them; `raw` reads adata.raw",
            UserWarning,
            stacklevel=4,
        )


def _find_scaling(counts: sp.csr_array) -> str | None:
    """Return what shows that cells were scaled to a common total, if something does."""
    totals = np.asarray(counts.sum(axis=1)).reshape(-1).astype(float)
    sizes = np.diff(counts.indptr)
    if totals.size <= _FEW_CELLS or totals.max() == 0:
        return None
    if np.ptp(totals) < 1e-3 * totals.max():
        return f"all {totals.size:,} cells have the same total, {totals.max():g}"
    low, middle, high = np.quantile(totals, [0.25, 0.5, 0.75])
    # Raw totals vary at least as Poisson counts do; this is four standard errors below.
    variance, least = ((high - low) / 1.35) ** 2, middle * (1 - 10 / np.sqrt(totals.size))
    near = [target for target in _TARGETS if max(target - low, high - target) < target / 10]
    if variance < least or near:
        return (
            f"half of the totals of cells lie between {low:,.0f} and {high:,.0f}, nearer to each "
            "other than raw ones"
        )
    sparse = (sizes >= _MANY_GENES) & (2 * sizes <= counts.shape[1])  # raw ones have counts of 1
    if sparse.sum() > _FEW_CELLS:
        smallest = np.minimum.reduceat(counts.data, counts.indptr[:-1][sizes > 0])
        share = float((smallest[sparse[sizes > 0]] > 1).mean())
        if share > 0.5:
            return f"{share:.0%} of the cells have no count of 1"
    return None
