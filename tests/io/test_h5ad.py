"""AnnData's files: counts, names, layers; and what is wrong with them."""

from __future__ import annotations

import sys
import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gapmf.errors import ReadError
from gapmf.io import read
from io_files import MATRICES, SMALL, check, feature_names, gives, put, sample_names


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("h5ad") / "a.h5ad"


def write(path, X, layers=None, shape=None):
    shape = shape or X.shape
    like = np.empty(shape)
    obs = pd.DataFrame(index=pd.Index(sample_names(like), dtype=object))
    var = pd.DataFrame(index=pd.Index(feature_names(like), dtype=object))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        anndata.AnnData(X, obs=obs, var=var, layers=layers).write_h5ad(path)
    return path


@settings(max_examples=25)
@given(X=MATRICES, form=st.sampled_from([np.asarray, sp.csr_matrix, sp.csc_matrix, sp.csr_array]))
def test_round_trip(path, X, form):
    write(path, form(X.astype(float)))
    table = gives(X, path)
    assert table.feature_names.tolist() == feature_names(X)
    assert table.sample_names.tolist() == sample_names(X)


def test_layers(path):
    write(path, np.log1p(SMALL), {"raw": sp.csr_matrix(SMALL), "half": SMALL / 2})
    gives(SMALL, path, layer="raw")
    with pytest.raises(
        ReadError, match=r"a.h5ad, X\[0, 1\] is .*not whole.*; layer='raw' holds co"
    ):
        read(path)
    with pytest.raises(ReadError, match=r"layers\['half'\]\[0, 2\] is 0.5 .*; layer='raw' holds"):
        read(path, layer="half")
    with pytest.raises(ReadError, match="layers has no 'counts': the layers are 'half', 'raw'"):
        read(path, layer="counts")


def test_no_counts_at_all(path):
    write(path, None, shape=(2, 3))
    with pytest.raises(ReadError, match="X is empty: name the layer that holds the counts"):
        read(path)
    write(path, np.zeros((0, 3)))
    assert check(read(path)).counts.shape == (0, 3)


def test_names_that_are_not_unique_are_legal(path):
    adata = anndata.AnnData(np.eye(2), var=pd.DataFrame(index=["a", "b"]))
    adata.var_names = pd.Index(["a", "a"])
    adata.write_h5ad(path)
    assert gives(np.eye(2), path).feature_names.tolist() == ["a", "a"]


def test_counts_that_look_normalised(path):
    write(path, np.tile([5.0, 5.0], (20, 1)))
    with pytest.warns(UserWarning, match=r"all 20 cells of .*a.h5ad have the same total, 10: they"):
        read(path)


@pytest.mark.parametrize("data", [b"", b"1,2\n", b"\x89HDF\r\n\x1a\n" + bytes(100)])
def test_what_is_no_h5ad(path, data):
    with pytest.raises(ReadError, match=r"cannot be read as .h5ad \(.*\): is it whole, and does"):
        read(put(path, data))


def test_other_files_of_hdf5(path):
    with h5py.File(path, "w") as file:
        file["counts"] = SMALL
    with pytest.raises(ReadError):
        read(path)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("indices", [1, 99, 0, 2]),
        ("indices", [1, -1, 0, 2]),
        ("indptr", [0, 2, 99, 4]),
        ("indptr", [0, 2, -5, 4]),
        ("indptr", [0, 2, 2, 99]),
    ],
)
def test_indices_out_of_range(path, name, values):
    """SciPy does not look at them, and reads or writes wherever they point."""
    write(path, sp.csr_matrix(SMALL.astype(float)))
    with h5py.File(path, "r+") as file:
        file["X"][name][:] = values
    with pytest.raises(ReadError, match=r"a\.h5ad"):
        read(path)


def test_arrays_that_are_to_fill_the_memory(path):
    write(path, SMALL.astype(float))
    with h5py.File(path, "r+") as file:
        del file["X"]
        big = file.create_dataset("X", (1 << 16, 1 << 16), "f8", chunks=(1 << 10, 1 << 10))
        big.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    with pytest.raises(ReadError, match="unpacks to more than 500 times as many"):
        read(path)


def test_without_anndata(path, monkeypatch):
    write(path, SMALL.astype(float))
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(
        ImportError, match=r"need the package anndata: pip install 'gapmf\[anndata\]"
    ):
        read(path)
