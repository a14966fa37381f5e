"""Matrices: MatrixMarket (.mtx) with the name files of 10x, SciPy (.npz), AnnData (.h5ad)."""

from __future__ import annotations

import codecs
import gzip
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from types import SimpleNamespace
from typing import IO, Any, cast

import numpy as np
import scipy.sparse as sp

from gapmf.counts import LARGEST_COUNT
from gapmf.errors import ReadError
from gapmf.io.table import (
    Table,
    as_names,
    check_fits,
    find_beside,
    find_one,
    is_packed,
    read_names,
    to_counts,
    turned,
)

MATRIX = r".*\.mtx(\.gz)?"  # names of files
_FEW_CELLS = 10  # whose totals may be equal by chance


def read_market(
    path: str, *, vocab: str | None = None, transpose: bool | None = None, encoding: str = "utf-8"
) -> Table:
    """Read a MatrixMarket file, which with the name files of 10x beside it is turned."""
    path = find_one(path, MATRIX, ".mtx or .mtx.gz")
    feature_file, sample_file = _names_beside(path, transpose)
    if transpose is None:
        transpose = feature_file is not None and sample_file is not None
    shape = _check_size(path)
    N, F = shape[::-1] if transpose else shape
    features = samples = None
    if vocab is not None:
        features = read_names(vocab, F, f"features in {path}", encoding)
    elif feature_file is not None:  # its columns are identifier, symbol, …
        features = read_names(feature_file, F, f"features in {path}", encoding, column=1)
    if sample_file is not None:
        samples = read_names(sample_file, N, f"samples in {path}", encoding, column=0)
    counts = turned(Table(_read_body(path, shape), None, None), transpose).counts
    return Table(counts, features, samples)


def _names_beside(path: str, transpose: bool | None) -> tuple[str | None, str | None]:
    """Find the files with names beside ``PREFIXmatrix.mtx``; theirs begin with PREFIX, too."""
    parts = re.fullmatch(r"(.*)matrix\.mtx(\.gz)?", os.path.basename(path), re.I | re.S)
    prefix = "" if parts is None else parts[1]
    features = find_beside(path, [f"{prefix}features.tsv", f"{prefix}genes.tsv"])
    samples = find_beside(path, [f"{prefix}barcodes.tsv"])
    if transpose is None and (features is None) != (samples is None):
        raise ReadError(
            f"{features or samples} is beside {path}, but no "
            f"{'features' if features is None else 'barcodes'}.tsv: with both, the matrix is "
            "features × samples; with one, set the option `transpose`, true or false"
        )
    return features, samples


@contextmanager
def _open_market(path: str) -> Iterator[Any]:
    """Open a MatrixMarket file as SciPy needs it.

    SciPy wants its own spelling of the banner, and reads 2.5 in an "integer" file as 2: so it is
    told that the numbers are real, and those that are not whole are found afterwards. A NUL, or a
    last line without an end, may end the process (SciPy 1.17).
    """
    opened = gzip.open if is_packed(path) else open
    with cast(IO[bytes], opened(path, "rb")) as file:
        banner = file.readline(1000).removeprefix(codecs.BOM_UTF8).lower()
        banner = re.sub(rb"\b(unsigned-)?integer\b", b"real", banner)
        parts = chain(
            [banner.replace(b"%%matrixmarket", b"%%MatrixMarket", 1)],
            iter(lambda: file.read(1 << 20), b""),
            [b"\n"],
        )

        def read(_: int) -> bytes:
            part = next(parts, b"")
            if b"\0" in part:
                raise ReadError(f"{path} has bytes that are 0, which no text has: it is damaged")
            return part

        yield SimpleNamespace(read=read)


def _check_size(path: str) -> tuple[int, int]:
    """Return the shape of a matrix, if the file can hold as many entries as it announces."""
    from scipy.io import mminfo

    with _open_market(path) as file:
        n_rows, n_columns, n_entries, layout, _, symmetry = mminfo(file)
    if symmetry == "symmetric" and n_rows != n_columns:
        raise ReadError(f"{path}: a symmetric matrix is square, not {n_rows} × {n_columns}")
    if layout == "array":
        n_entries = n_rows * n_columns // (2 if symmetry == "symmetric" else 1)
    check_fits(path, n_entries)
    return n_rows, n_columns


def _read_body(path: str, shape: tuple[int, int]) -> sp.csr_array:
    from scipy.io import mmread

    if 0 in shape:  # an array without rows ends the process (SciPy 1.17)
        return sp.csr_array(shape, dtype=np.int64)
    with _open_market(path) as file:
        matrix: Any = mmread(file)
    if np.max(matrix.data, initial=0) >= LARGEST_COUNT:
        raise ReadError(f"{path} has a count of 2**53 or more, beyond what float64 holds exactly")
    return to_counts(matrix, f"{path}, X")


def read_npz(
    path: str, *, vocab: str | None = None, transpose: bool = False, encoding: str = "utf-8"
) -> Table:
    """Read what `scipy.sparse.save_npz` writes: csr, csc, coo, bsr or dia."""
    with open(path, "rb") as file:
        matrix = sp.load_npz(file)
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)  # else SciPy reads and writes wherever indices point
    table = turned(Table(to_counts(matrix, f"{path}, X"), None, None), transpose)
    if vocab is None:
        return table
    names = read_names(vocab, table.counts.shape[1], f"features in {path}", encoding)
    return table._replace(feature_names=names)


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
    return Table(counts, as_names(adata.var_names), as_names(adata.obs_names))


def counts_of(adata: Any, layer: str | None, place: str) -> sp.csr_array:
    """Return the counts of an AnnData, or say what is wrong and which layer holds counts.

    `place` stands before "X" and "layers[…]" in errors.
    """
    if layer is not None and layer not in adata.layers:
        known = ", ".join(repr(name) for name in adata.layers) or "none"
        raise ReadError(f"{place}layers has no {layer!r}: the layers are {known}")
    name = f"{place}X" if layer is None else f"{place}layers[{layer!r}]"
    values = adata.X if layer is None else adata.layers[layer]
    if values is None:
        raise ReadError(f"{name} is empty: set the `layer` that holds the counts")
    try:
        return _counts(values, name)
    except ReadError as error:
        others = (key for key in adata.layers if key != layer)
        elsewhere = [key for key in others if _are_counts(adata.layers[key])]
        advice = f"; the layer {elsewhere[0]!r} holds counts" if elsewhere else ""
        raise ReadError(f"{error}{advice}") from error


def _counts(values: Any, name: str) -> sp.csr_array:
    if hasattr(values, "to_memory"):
        values = values.to_memory()
    if hasattr(values, "check_format"):
        try:
            values.check_format(full_check=True)
        except ValueError as error:
            raise ReadError(f"{name} is damaged ({error})") from None
    return to_counts(values, name)


def _are_counts(values: Any) -> bool:
    try:
        _counts(values, "values")
    except ReadError:
        return False
    return True


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
