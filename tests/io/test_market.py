"""MatrixMarket files of every kind, and the folders of 10x."""

from __future__ import annotations

import io

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gapmf.errors import ReadError
from gapmf.io import read
from io_files import MATRICES, SMALL, check, gives, mtx, mtx_array, put

HEAD = "%%MatrixMarket matrix coordinate integer general\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("market")


@given(X=MATRICES, packed=st.booleans(), form=st.sampled_from([mtx, mtx_array]))
def test_round_trip(folder, X, packed, form):
    path = put(folder / "any.mtx", form(X), packed)
    assert gives(X, path)[1:] == (None, None)
    gives(X.T, path, transpose=True)


@given(
    X=MATRICES,
    dtype=st.sampled_from([np.int64, np.float64, np.uint16]),
    sparse=st.booleans(),
    symmetric=st.booleans(),
)
def test_what_scipy_writes(folder, X, dtype, sparse, symmetric):
    X = X % 1000
    if symmetric:
        X = X[: min(X.shape), : min(X.shape)]
        X = X + X.T
    file = io.BytesIO()
    matrix = X.astype(dtype)
    scipy.io.mmwrite(file, sp.coo_array(matrix) if sparse else matrix)
    gives(X, put(folder / "scipy.mtx", file.getvalue()))


@pytest.mark.parametrize(
    ("text", "X"),
    [
        (HEAD + "2 2 2\n2 1 3\n2 1 4\n", [[0, 0], [7, 0]]),
        (HEAD + "% a\n%b\n\n2 2 1\n\n2 1 3\n\n", [[0, 0], [3, 0]]),
        (HEAD.upper().replace("\n", "\r\n") + "1 2 1\r\n1 2 3", [[0, 3]]),
        (HEAD.replace("integer", "real") + "1 2 2\n1 2 3.0\n1 1 2e1\n", [[20, 3]]),
        (HEAD.replace("integer", "pattern") + "1 2 2\n1 2\n1 2\n", [[0, 2]]),
        (HEAD.replace("integer", "unsigned-integer") + "1 1 1\n1 1 9\n", [[9]]),
        (HEAD.replace("general", "symmetric") + "2 2 2\n1 1 5\n2 1 3\n", [[5, 3], [3, 0]]),
        (
            HEAD.replace("integer general", "pattern symmetric") + "2 2 2\n1 1\n2 1\n",
            [[1, 1], [1, 0]],
        ),
        (HEAD.replace("coordinate", "array") + "2 3\n1\n2\n3\n4\n5\n6\n", [[1, 3, 5], [2, 4, 6]]),
        (
            HEAD.replace("coordinate integer", "array real") + "2 2\n1.0\n0e0\n0\n4.\n",
            [[1, 0], [0, 4]],
        ),
        (
            HEAD.replace("coordinate", "array").replace("general", "symmetric")
            + "3 3\n1\n2\n3\n4\n5\n6\n",
            [[1, 2, 3], [2, 4, 5], [3, 5, 6]],
        ),
    ],
)
def test_kinds(tmp_path, text, X):
    gives(X, put(tmp_path / "a.mtx", text))


def test_empty_matrices(tmp_path):
    path = tmp_path / "a.mtx"
    for shape in ((0, 0), (0, 2), (3, 0), (3, 2)):
        put(path, HEAD + f"{shape[0]} {shape[1]} 0\n")
        assert check(read(path)).counts.shape == shape
        if 0 in shape:
            put(path, HEAD.replace("coordinate", "array") + f"{shape[0]} {shape[1]}\n")
            assert check(read(path)).counts.shape == shape


def test_an_array_over_several_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("gapmf.io.source.BLOCK", 7)
    X = np.arange(35).reshape(5, 7)
    gives(X, put(tmp_path / "a.mtx", mtx_array(X)))
    X = X[:, :5] + X[:, :5].T
    lines = [str(X[i, j]) for j in range(5) for i in range(j, 5)]
    head = "%%MatrixMarket matrix array integer symmetric\n5 5\n"
    gives(X, put(tmp_path / "a.mtx", head + "\n".join(lines)))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "is empty: a MatrixMarket file begins with '%%MatrixMarket matrix coord"),
        ("1 1 1\n1 1 1\n", "line 1: expected a line like '%%MatrixMarket .*found b'1 1 1'"),
        (HEAD.replace("matrix c", "vector c"), "line 1: expected a line like"),
        (HEAD.replace("integer", "complex"), "line 1: expected one of integer, .* found 'complex'"),
        (HEAD.replace("general", "skew-symmetric"), "line 1: expected one of general, symmetric"),
        (HEAD.replace("coordinate", "dense"), "line 1: expected one of coordinate, array in a"),
        (HEAD.replace("coordinate integer", "array pattern"), "line 1: a pattern lists places"),
        (HEAD, "line 2: expected the size, 'rows columns entries', 3 whole numbers, but the file"),
        (HEAD + "%\n2 2\n", "line 3: expected the size, .*, but found b'2 2'"),
        (HEAD + "2 -2 1\n", "line 2: expected the size"),
        (HEAD.replace("coordinate", "array") + "2 2 4\n", "line 2: expected the size, 'rows col"),
        (HEAD + f"{10**12} 2 1\n", f"line 2: the number of rows is {10**12}, and 2147483647 is"),
        (HEAD + f"2 {2**31} 1\n", "line 2: the number of columns is 2147483648"),
        (HEAD.replace("general", "symmetric") + "2 3 0\n", "line 2: a symmetric matrix is square"),
        (HEAD + "2 2 1\n3 1 1\n", "line 3: row is 3, but the header says that it goes from 1 to 2"),
        (HEAD + "2 2 1\n1 0 1\n", "line 3: column is 0, but the header says"),
        (HEAD + "2 2 1\n1 1 1\n1 2 1\n", "line 4: is entry 2, but the header promised 1"),
        (HEAD + "2 2 3\n1 1 1\n1 2 1\n", "ends after line 4 with 2 of the 3 entries"),
        (HEAD + "2 2 1\n% late\n1 1 1\n", "line 3: expected 'row column count'"),
        (HEAD + "2 2 1\n1 1\n", "line 3: expected 'row column count', 3 whole .*found b'1 1'"),
        (HEAD + "2 2 1\n1 1 2.5\n", "line 3: expected a whole number .*'2.5': pass raw counts"),
        (HEAD.replace("integer", "pattern") + "2 2 1\n1 1 1\n", "line 3: expected 'row column',"),
        (
            HEAD.replace("general", "symmetric") + "2 2 1\n1 2 1\n",
            "line 3: row 1 and column 2 are above the diagonal",
        ),
        (
            HEAD.replace("coordinate", "array") + "1 2\n1\n",
            "ends after line 3 with 1 of the 2 values",
        ),
        (
            HEAD.replace("coordinate", "array") + "1 2\n1\n2\n3\n",
            "line 5: is value 3, but a matrix of 1 × 2 has 2",
        ),
        (HEAD.replace("coordinate", "array") + "1 2\n1 2\n", "line 3: expected a count, alone on"),
        (
            HEAD.replace("coordinate", "array") + f"1 2\n1\n{2**53 + 1}\n",
            "line 4: count is 9007199254740993",
        ),
    ],
)
def test_what_is_wrong_and_where(tmp_path, text, match):
    path = put(tmp_path / "a.mtx", text)
    with pytest.raises(ReadError, match=match) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_comments_have_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr("gapmf.io.market._MOST_COMMENTS", 10)
    path = put(tmp_path / "a.mtx", HEAD + "%\n" * 20)
    with pytest.raises(ReadError, match="line 11: is still a comment: where is the size"):
        read(path)


# 10x.

GENES = "ENSG1\tApe\tGene Expression\nENSG2\tBee\tGene Expression\nENSG3\tBee\tGene Expression\n"


def _folder(folder, packed, prefix="", features="features.tsv"):
    end = ".gz" if packed else ""
    put(folder / f"{prefix}matrix.mtx{end}", mtx(SMALL[:2].T), packed)
    put(folder / f"{prefix}{features}{end}", GENES, packed)
    put(folder / f"{prefix}barcodes.tsv{end}", "AAA-1\nCCC-1\n", packed)
    return folder / f"{prefix}matrix.mtx{end}"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("features", ["features.tsv", "genes.tsv"])
@pytest.mark.parametrize("prefix", ["", "GSM7_"])
def test_a_folder_of_10x(tmp_path, packed, features, prefix):
    path = _folder(tmp_path, packed, prefix, features)
    for where in (tmp_path, path):
        table = gives(SMALL[:2], where)
        assert table.feature_names.tolist() == ["Ape", "Bee", "Bee"]
        assert table.sample_names.tolist() == ["AAA-1", "CCC-1"]
    with pytest.raises(ReadError, match="has 3 names, but there are 2 features in"):
        read(path, transpose=False)


def test_other_names_beside_a_matrix(tmp_path):
    """One column of features; a matrix of another name; a vocabulary instead."""
    put(tmp_path / "counts.mtx", mtx(SMALL[:2].T))
    put(tmp_path / "features.tsv", "a\nb\nc\n")
    put(tmp_path / "barcodes.tsv", "x\ny\n")
    assert gives(SMALL[:2], tmp_path).feature_names.tolist() == ["a", "b", "c"]
    words = put(tmp_path / "words", "k\tl\nm\nn\n")
    table = gives(SMALL[:2], tmp_path, vocab=words)
    assert table.feature_names.tolist() == ["k\tl", "m", "n"]
    assert table.sample_names.tolist() == ["x", "y"]
    put(tmp_path / "other.mtx.gz", mtx(SMALL))
    with pytest.raises(ReadError, match=r"exactly one .mtx or .mtx.gz, but has counts.mtx, other"):
        read(tmp_path)
    with pytest.raises(ReadError, match=r"barcodes.tsv has 2 names, but there are 3 samples"):
        read(tmp_path / "other.mtx.gz")


def test_names_of_one_side_alone(tmp_path):
    path = put(tmp_path / "counts.mtx", mtx(SMALL[:2].T))
    put(tmp_path / "features.tsv", "a\nb\nc\n")
    with pytest.raises(ReadError, match=r"features.tsv is beside .*, but no barcodes.tsv: with bo"):
        read(path)
    table = gives(SMALL[:2], path, transpose=True)
    assert table.feature_names.tolist() == ["a", "b", "c"]
    assert table.sample_names is None
    (tmp_path / "features.tsv").rename(tmp_path / "barcodes.tsv")
    with pytest.raises(ReadError, match=r"barcodes.tsv is beside .*, but no features.tsv"):
        read(path)
    assert gives(SMALL[:2].T, path, transpose=False).sample_names.tolist() == ["a", "b", "c"]


def test_a_folder_without_a_matrix(tmp_path):
    with pytest.raises(ReadError, match=r"must have exactly one .mtx or .mtx.gz, but has none"):
        read(tmp_path, format="mtx")
