"""MatrixMarket files and the folders of 10x; SciPy's .npz; AnnData's .h5ad."""

from __future__ import annotations

import io
import sys
import warnings
import zipfile

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gapmf.errors import ReadError
from gapmf.io import read
from io_files import (
    MATRICES,
    SMALL,
    check,
    feature_names,
    gives,
    mtx,
    mtx_array,
    names,
    npz,
    put,
    sample_names,
)

HEAD = "%%MatrixMarket matrix coordinate integer general\n"
ARRAY = HEAD.replace("coordinate", "array")
GENES = "ENSG1\tApe\tGene Expression\nENSG2\tBee\tGene Expression\nENSG3\tBee\tGene Expression\n"
KINDS = ["csr", "csc", "coo", "bsr", "dia"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("matrices")


@settings(max_examples=30)
@given(X=MATRICES, packed=st.booleans(), form=st.sampled_from([mtx, mtx_array]))
def test_market_round_trip(folder, X, packed, form):
    path = put(folder / "any.mtx", form(X), packed)
    assert gives(X, path)[1:] == (None, None)
    gives(X.T, path, transpose=True)


@settings(max_examples=40)
@given(X=MATRICES, dtype=st.sampled_from([np.int64, np.float64, np.uint16]), mirror=st.booleans())
def test_what_scipy_writes(folder, X, dtype, mirror):
    X = X % 1000
    if mirror:
        X = X[: min(X.shape), : min(X.shape)]
        X = X + X.T
    for matrix in (sp.coo_array(X.astype(dtype)), X.astype(dtype)):
        file = io.BytesIO()
        scipy.io.mmwrite(file, matrix)
        gives(X, put(folder / "scipy.mtx", file.getvalue()))


@pytest.mark.parametrize(
    ("text", "X"),
    [
        (HEAD + "2 2 2\n2 1 3\n2 1 4\n", [[0, 0], [7, 0]]),
        (HEAD + "% a\n%b\n\n2 2 1\n\n2 1 3\n\n", [[0, 0], [3, 0]]),
        ("\ufeff" + HEAD.upper().replace("\n", "\r\n") + "1 2 1\r\n1 2 3", [[0, 3]]),
        (HEAD.replace("integer", "real") + "1 2 2\n1 2 3.0\n1 1 2e1\n", [[20, 3]]),
        (HEAD.replace("integer", "pattern") + "1 2 2\n1 2\n1 2\n", [[0, 2]]),
        (HEAD.replace("integer", "unsigned-integer") + "1 1 1\n1 1 9\n", [[9]]),
        (HEAD.replace("general", "symmetric") + "2 2 2\n1 1 5\n2 1 3\n", [[5, 3], [3, 0]]),
        (ARRAY + "2 3\n1\n2\n3\n4\n5\n6\n", [[1, 3, 5], [2, 4, 6]]),
        (ARRAY.replace("general", "symmetric") + "2 2\n1\n2\n3\n", [[1, 2], [2, 3]]),
        (HEAD + "0 2 0\n", np.zeros((0, 2))),
        (HEAD + "3 2 0\n", np.zeros((3, 2))),
        (ARRAY + "0 2\n", np.zeros((0, 2))),
    ],
)
def test_kinds_of_market_files(tmp_path, text, X):
    gives(X, put(tmp_path / "a.mtx", text))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "line 1: expected '%%MatrixMarket matrix coordinate integer general'.*found ''"),
        (HEAD.replace("integer", "complex") + "1 1 1\n1 1 1 0\n", "line 1: expected .*complex"),
        (HEAD, "line 2: expected the numbers of rows and columns"),
        (HEAD + "%\n2 -2 1\n", "line 3: expected the numbers of rows and .*found '2 -2 1'"),
        (HEAD + "2 2 1\n3 1 1\n", "line 3: '3 1 1' is not in a matrix of .2, 2."),
        (HEAD + "2 2 1\n1 1 1\n1 2 1\n", "has 2 entries, but its header announces 1"),
        (HEAD + "2 2 3\n1 1 1\n1 2 1\n", "has 2 entries, but its header announces 3"),
        (HEAD + "2 2 1\n1 1 2,5\n", "line 3: expected numbers, 3 per line, but found '1 1 2,5'"),
        (HEAD + "2 2 1\n1 1 2 7\n", "line 3: expected numbers, 3 per line"),
        (HEAD + "2 2 1\n1 1 2\0\n", "line 3: expected numbers"),
        (HEAD + "2 2 1\n1 1 2.5\n", r"a.mtx, X\[0, 0\] is 2.5 \(not whole\): counts must be whole"),
        (HEAD + f"2 2 1\n1 1 {2**53 + 1}\n", r"X\[0, 0\] is 9007199254740993 \(too large"),
        (ARRAY + "1 2\n1\n-2\n", r"X\[0, 1\] is -2 \(negative\)"),
        (ARRAY + "1 2\n1\n2\n3\n", "has 3 entries, but its header announces 2"),
        (HEAD.replace("general", "symmetric") + "2 3 0\n", "a symmetric matrix is square, not 2"),
    ],
)
def test_what_is_wrong_in_market_files(tmp_path, text, match):
    path = put(tmp_path / "a.mtx", text)
    with pytest.raises(ReadError, match=match) as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("features", ["features.tsv", "genes.tsv"])
@pytest.mark.parametrize("prefix", ["", "GSM7_"])
def test_a_folder_of_10x(tmp_path, packed, features, prefix):
    end = ".gz" if packed else ""
    path = put(tmp_path / f"{prefix}matrix.mtx{end}", mtx(SMALL[:2].T), packed)
    put(tmp_path / f"{prefix}{features}{end}", GENES, packed)
    put(tmp_path / f"{prefix}barcodes.tsv{end}", "AAA-1\nCCC-1\n", packed)
    for where in (tmp_path, path):
        assert names(gives(SMALL[:2], where)) == [["Ape", "Bee", "Bee"], ["AAA-1", "CCC-1"]]
    with pytest.raises(ReadError, match="has 3 names, but there are 2 features in"):
        read(path, transpose=False)


def test_other_names_beside_a_matrix(tmp_path):
    """One column of features; a matrix of another name; a vocabulary instead."""
    put(tmp_path / "counts.mtx", mtx(SMALL[:2].T))
    put(tmp_path / "features.tsv", "a\nb\nc\n")
    put(tmp_path / "barcodes.tsv", "x\ny\n")
    assert names(gives(SMALL[:2], tmp_path)) == [["a", "b", "c"], ["x", "y"]]
    words = put(tmp_path / "words", "k\tl\nm\nn\n")
    assert names(gives(SMALL[:2], tmp_path, vocab=words)) == [["k\tl", "m", "n"], ["x", "y"]]
    put(tmp_path / "other.mtx.gz", mtx(SMALL))
    with pytest.raises(ReadError, match=r"one .mtx or .mtx.gz, but has counts.mtx, other"):
        read(tmp_path)
    with pytest.raises(ReadError, match=r"barcodes.tsv has 2 names, but there are 3 samples"):
        read(tmp_path / "other.mtx.gz")


def test_names_of_one_side_alone(tmp_path):
    path = put(tmp_path / "counts.mtx", mtx(SMALL[:2].T))
    put(tmp_path / "features.tsv", "a\nb\nc\n")
    assert names(gives(SMALL[:2], path)) == [["a", "b", "c"], None]
    (tmp_path / "features.tsv").rename(tmp_path / "barcodes.tsv")
    with pytest.raises(ReadError, match=r"barcodes.tsv has 3 names, but there are 2 samples"):
        read(path)
    assert names(gives(SMALL[:2].T, path, transpose=False)) == [None, ["a", "b", "c"]]
    (tmp_path / "counts.mtx").unlink()
    with pytest.raises(ReadError, match=r"must have one .mtx or .mtx.gz, but has none"):
        read(tmp_path, format="mtx")


@given(
    X=MATRICES,
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(["i8", "f8", "u8", "f4", "g", "?", "u1"]),
    compressed=st.booleans(),
)
def test_npz_round_trip(folder, X, kind, dtype, compressed):
    X = X % (100 if dtype in ("f4", "u1") else 2 if dtype == "?" else 2**46)
    path = put(folder / "a.npz", npz(X.astype(dtype), kind, compressed=compressed))
    assert gives(X, path)[1:] == (None, None)
    gives(X.T, path, transpose=True)


def test_duplicates_and_names_of_npz(tmp_path):
    path = tmp_path / "a.npz"
    sp.save_npz(path, sp.coo_array(([1, 0, 2, 3], ([1, 0, 1, 0], [0, 1, 0, 0])), shape=(2, 2)))
    gives([[3, 0], [3, 0]], path)
    words = put(tmp_path / "words", "a\nb\nc")
    put(path, npz(SMALL[:2]))
    assert names(gives(SMALL[:2], path, vocab=words)) == [["a", "b", "c"], None]
    with pytest.raises(ReadError, match="words has 3 names, but there are 2 features"):
        read(path, vocab=words, transpose=True)


def changed(kind, changes):
    """An archive with right check sums and other arrays."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(npz(SMALL, kind))) as good, zipfile.ZipFile(file, "w") as bad:
        for name in good.namelist():
            array = changes.get(name.removesuffix(".npy"), np.load(good.open(name)))
            member = io.BytesIO()
            np.save(member, array, allow_pickle=True)
            bad.writestr(name, member.getvalue())
    return file.getvalue()


@pytest.mark.parametrize(
    ("kind", "changes", "match"),
    [
        ("csr", {"shape": np.array([3, 2])}, "indices must be < 2"),
        ("csr", {"indptr": np.array([0, 2, 1, 4])}, "indptr must be a non-decreasing sequence"),
        ("csr", {"indices": np.array([1, -2, 0, 2])}, "indices must be >= 0"),
        ("coo", {"row": np.array([0, 0, 2, 3])}, "index 3 exceeds matrix dimension 3"),
        ("csr", {"data": np.array([2, 1.5, 5, 1])}, r"a.npz, X\[0, 2\] is 1.5 \(not whole\)"),
        ("csr", {"data": np.array([2, 2**53 + 1, 5, 1])}, r"is 9007199254740993 \(too large\)"),
        ("csr", {"data": np.array([print] * 4)}, "Object arrays cannot be loaded"),
    ],
)
def test_npz_that_cannot_be(tmp_path, kind, changes, match):
    path = put(tmp_path / "a.npz", changed(kind, changes))
    with pytest.raises(ReadError, match=match) as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"1,2\n", npz(SMALL)[:-30]])
def test_what_is_no_npz(tmp_path, data):
    with pytest.raises(ReadError, match=r"a.npz cannot be read \(.*is it complete, and of"):
        read(put(tmp_path / "a.npz", data))


def write_h5ad(path, X, layers=None, shape=None):
    like = np.empty(shape or X.shape)
    obs = pd.DataFrame(index=pd.Index(sample_names(like), dtype=object))
    var = pd.DataFrame(index=pd.Index(feature_names(like), dtype=object))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        anndata.AnnData(X, obs=obs, var=var, layers=layers).write_h5ad(path)
    return path


@settings(max_examples=8)
@given(X=MATRICES, form=st.sampled_from([np.asarray, sp.csr_matrix, sp.csc_matrix, sp.csr_array]))
def test_h5ad_round_trip(folder, X, form):
    path = write_h5ad(folder / "a.h5ad", form(X.astype(float)))
    assert names(gives(X, path)) == [feature_names(X), sample_names(X)]


def test_layers(tmp_path):
    layers = {"raw": sp.csr_matrix(SMALL), "half": SMALL / 2}
    path = write_h5ad(tmp_path / "a.h5ad", np.log1p(SMALL), layers)
    gives(SMALL, path, layer="raw")
    with pytest.raises(
        ReadError, match=r"a.h5ad, X\[0, 1\] .* is .*whole.*set it: there are .*'raw'"
    ):
        read(path)
    with pytest.raises(ReadError, match=r"layers\['half'\]\[0, 2\] .* is 0.5 .*there are .*'raw'"):
        read(path, layer="half")
    with pytest.raises(ReadError, match="layers has no 'counts': there are 'half', 'raw'"):
        read(path, layer="counts")


def test_other_h5ad(tmp_path):
    path = write_h5ad(tmp_path / "a.h5ad", None, shape=(2, 3))
    with pytest.raises(ReadError, match="X is empty: set the `layer` that holds the counts"):
        read(path)
    write_h5ad(path, np.zeros((0, 3)))
    assert check(read(path)).counts.shape == (0, 3)
    write_h5ad(path, np.tile([5.0, 5.0], (20, 1)))
    with pytest.warns(UserWarning, match=r"counts of .*a.h5ad look normalised.*all 20 cells"):
        read(path)
    with h5py.File(path, "w") as file:
        file["counts"] = SMALL
    with pytest.raises(ReadError, match=r"a\.h5ad"):
        read(path)


@pytest.mark.parametrize("data", [b"", b"1,2\n", b"\x89HDF\r\n\x1a\n" + bytes(100)])
def test_what_is_no_h5ad(tmp_path, data):
    with pytest.raises(ReadError, match=r"a.h5ad cannot be read \(OSError: .*is it compl"):
        read(put(tmp_path / "a.h5ad", data))


@pytest.mark.parametrize(
    ("name", "values"), [("indices", [1, 99, 0, 2]), ("indptr", [0, 2, 99, 4])]
)
def test_indices_of_h5ad_out_of_range(tmp_path, name, values):
    """SciPy does not look at them, and reads or writes wherever they point."""
    path = write_h5ad(tmp_path / "a.h5ad", sp.csr_matrix(SMALL.astype(float)))
    with h5py.File(path, "r+") as file:
        file["X"][name][:] = values
    with pytest.raises(ReadError, match=r"a\.h5ad"):
        read(path)


def test_without_anndata(tmp_path, monkeypatch):
    path = put(tmp_path / "a.h5ad", b"")
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(ImportError, match=r"need .* anndata: pip install 'gapmf\[anndata\]"):
        read(path)
