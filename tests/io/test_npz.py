"""Sparse matrices of SciPy: read in every format, never trusted."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gapmf.errors import ReadError
from gapmf.io import read
from io_files import MATRICES, SMALL, check, gives, npz, put

KINDS = ["csr", "csc", "coo", "bsr", "dia"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("npz") / "a.npz"


def members(kind="csr", X=SMALL):
    """The .npy files of an archive."""
    return unpack(npz(X, kind))


def unpack(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(contents, compression=zipfile.ZIP_DEFLATED):
    """An archive with right check sums, whatever is in it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as zipped:
        for name, data in contents.items():
            zipped.writestr(name, data)
    return file.getvalue()


def npy(array, **options):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array), **options)
    return file.getvalue()


@given(
    X=MATRICES,
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(["i8", "f8", "u8", "f4", "g"]),
    compressed=st.booleans(),
)
def test_round_trip(path, X, kind, dtype, compressed):
    matrix = X % 1000 if dtype == "f4" else X
    put(path, npz(matrix.astype(dtype), kind, compressed=compressed))
    assert gives(matrix, path)[1:] == (None, None)
    gives(matrix.T, path, transpose=True)


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "i4", "u4"])
def test_small_dtypes(path, dtype):
    X = (SMALL > 0) if dtype == "?" else SMALL
    for kind in KINDS:
        gives(X.astype(int), put(path, npz(X.astype(dtype), kind)))


@pytest.mark.parametrize("dtype", [">i8", ">f4", "<f2", ">u2"])
def test_dtypes_that_scipy_does_not_know(path, dtype):
    data = sp.csr_array(SMALL).data.astype(dtype)
    gives(SMALL, put(path, archive(members() | {"data.npy": npy(data)})))


@pytest.mark.parametrize("blocksize", [(1, 1), (1, 3), (2, 1), (2, 3)])
def test_blocks(path, blocksize):
    X = np.arange(24).reshape(4, 6) % 5
    sp.save_npz(path, sp.bsr_array(X, blocksize=blocksize))
    gives(X, path)


def test_diagonals_that_stand_out(path):
    data = np.arange(1, 13).reshape(3, 4)
    for shape in ((3, 3), (2, 5), (6, 2), (4, 4)):
        matrix = sp.dia_array((data, [-2, 0, 1]), shape=shape)
        sp.save_npz(path, matrix)
        gives(matrix.toarray(), path)


def test_duplicates_zeros_and_order(path):
    matrix = sp.coo_array(([1, 0, 2, 3], ([1, 0, 1, 0], [0, 1, 0, 0])), shape=(2, 2))
    sp.save_npz(path, matrix)
    gives([[3, 0], [3, 0]], path)
    matrix = sp.csr_array((np.array([1, 2, 0]), np.array([1, 0, 1]), np.array([0, 2, 3])))
    sp.save_npz(path, matrix)
    gives([[2, 1], [0, 0]], path)


def test_old_files_and_new_ones(path):
    """Matrices and arrays; formats in Unicode; versions 2 of .npy; Fortran order; coords."""
    sp.save_npz(path, sp.csr_matrix(SMALL))
    gives(SMALL, path)
    put(path, archive(members() | {"format.npy": npy(np.array("csr"))}))
    gives(SMALL, path)
    put(path, archive(members() | {"format.npy": npy(np.array("csr", dtype=">U3"))}))
    gives(SMALL, path)
    data = npy(sp.csr_array(SMALL).data, version=(2, 0))
    put(path, archive(members() | {"data.npy": data}, zipfile.ZIP_STORED))
    gives(SMALL, path)
    matrix = sp.bsr_array(np.arange(16).reshape(4, 4), blocksize=(2, 2))
    sp.save_npz(path, matrix)
    flipped = npy(np.asfortranarray(matrix.data))
    put(path, archive(unpack(path.read_bytes()) | {"data.npy": flipped}))
    gives(matrix.toarray(), path)
    matrix = sp.coo_array(SMALL)
    contents = members("coo")
    del contents["row.npy"], contents["col.npy"]
    put(path, archive(contents | {"coords.npy": npy(np.array(matrix.coords))}))
    gives(SMALL, path)


def test_empty_matrices(path):
    for shape in ((0, 3), (2, 0), (0, 0), (2, 3)):
        for kind in ("csr", "csc", "coo"):
            sp.save_npz(path, sp.coo_array(shape, dtype=np.int64).asformat(kind))
            assert check(read(path)).counts.shape == shape


def test_names(tmp_path):
    path = put(tmp_path / "a.npz", npz(SMALL[:2]))
    words = put(tmp_path / "words", "a\nb\nc")
    assert gives(SMALL[:2], path, vocab=words).feature_names.tolist() == ["a", "b", "c"]
    with pytest.raises(ReadError, match="words has 3 names, but there are 2 features"):
        read(path, vocab=words, transpose=True)


class _Evil:
    def __reduce__(self):
        return (pytest.fail, ("it was unpickled",))


@pytest.mark.parametrize(
    ("kind", "changes", "match"),
    [
        ("csr", {"format": None}, "has no array 'format', but 'indices', 'indptr', 'shape', 'data"),
        ("csr", {"data": None}, "has no array 'data'"),
        ("coo", {"row": None}, "has no array 'row'"),
        (
            "csr",
            {"format": np.array(b"lil")},
            "has the sparse format 'lil': known are csr, csc, co",
        ),
        ("csr", {"format": np.array([b"csr"])}, "'format' has dtype .* and 1 dimensions"),
        (
            "csr",
            {"shape": np.array([3])},
            r"has the shape \(3,\): expected two numbers, samples an",
        ),
        ("csr", {"shape": np.array([-3, 3])}, r"has the shape \(-3, 3\)"),
        ("csr", {"shape": np.array([3, 2**31])}, r"has the shape \(3, 2147483648\)"),
        ("csr", {"shape": np.array([3.0, 3.0])}, "'shape' has dtype float64"),
        ("csr", {"shape": np.array([4, 3])}, "'indptr' must have 5 numbers that rise from 0 to 4"),
        ("csr", {"shape": np.array([3, 2])}, r"'indices'\[1\] is 2, outside 0 to 1"),
        ("csr", {"indptr": np.array([0, 2, 1, 4])}, "'indptr' must have 4 numbers that rise"),
        ("csr", {"indptr": np.array([1, 2, 2, 4])}, "'indptr' must have 4 numbers that rise"),
        ("csr", {"indptr": np.array([0, 2, 2, 5])}, "'indptr' must have 4 numbers that rise"),
        (
            "csr",
            {"indptr": np.array([0, 2**62, -(2**62), 4])},
            "'indptr' must have 4 numbers that rise",
        ),
        ("csr", {"indices": np.array([1, -2, 0, 2])}, r"'indices'\[1\] is -2, outside 0 to 2"),
        ("csr", {"indices": np.array([1, 2**40, 0, 2])}, r"'indices'\[1\] is 1099511627776"),
        ("csr", {"indices": np.array([1, 2, 0], dtype="u8")}, "'indptr' must have 4 numbers"),
        ("csr", {"data": np.array([2, 1, 5])}, "'data' has 3 entries, and 4 were expected"),
        (
            "csr",
            {"data": np.array([2, 1.5, 5, 1])},
            r"row 0 and column 2 \(from 0\) is 1.5: expect",
        ),
        (
            "csc",
            {"data": np.array([2, -1, 5, 1])},
            r"row 0 and column 1 \(from 0\) is -1: expected",
        ),
        ("csr", {"data": np.array([2, np.nan, 5, 1])}, r"row 0 and column 2 \(from 0\) is nan"),
        ("csr", {"data": np.array([2, 2**53 + 1, 5, 1])}, "is 9007199254740993: expected a whole"),
        ("csr", {"data": np.array([2, 1j, 5, 1])}, "'data' has dtype '<c16', which is not plain"),
        ("csr", {"data": np.array(["1", "2", "3", "4"])}, "'data' has dtype <U1 and 1 dimensions"),
        ("csr", {"data": np.ones((2, 2))}, "'data' has dtype float64 and 2 dimensions"),
        ("coo", {"row": np.array([0, 0, 2, 3])}, r"'row'\[3\] is 3, outside 0 to 2"),
        ("coo", {"row": np.array([0, 0, 2])}, "'row' has 3 entries, and 4 were expected"),
        ("coo", {"col": np.array([0, 0, -1, 2])}, r"'col'\[2\] is -1"),
        ("coo", {"coords": np.zeros((3, 4), int)}, "'coords' has 3 entries, and 2 were expected"),
        ("bsr", {"data": np.ones((1, 2, 2))}, "blocks of 2 × 2 do not fill a matrix of 3 × 3"),
        ("bsr", {"data": np.ones((4, 0, 1))}, "blocks of 0 × 1 do not fill"),
        ("bsr", {"data": np.ones((7, 3, 3))}, "'indptr' must have 2 numbers"),
        ("dia", {"offsets": np.array([0])}, "'offsets' has 1 entries, and 4 were expected"),
        ("dia", {"offsets": np.array([1, 1, 2, 3])}, "'offsets' has a diagonal twice"),
        ("dia", {"offsets": np.array([-(2**63), 1, 2, 3])}, "a diagonal twice or far outside"),
        (
            "csr",
            {"data": np.array([_Evil()])},
            "has dtype '|O', which is not plain; gapmf never un",
        ),
    ],
)
def test_content_that_cannot_be(path, kind, changes, match):
    contents = members(kind)
    for name, array in changes.items():
        if array is None:
            del contents[f"{name}.npy"]
        else:
            contents[f"{name}.npy"] = npy(array, allow_pickle=True)
    put(path, archive(contents))
    with pytest.raises(ReadError, match=match) as caught:
        read(path)
    assert str(path) in str(caught.value)


def _header(text, data=b"", version=b"\x01\x00"):
    text = text.encode("latin-1") + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "'data' has no .npy header"),
        (b"\x93NUMPX" + bytes(20), "'data' has no .npy header"),
        (
            _header("{'descr': '<i8', 'fortran_order': False, 'shape': (1e9,), }"),
            "has the .npy header",
        ),
        (_header("__import__('os').abort()"), "has the .npy header"),
        (
            _header("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }"),
            "'data' needs 8000000000000 bytes for its shape, has 0",
        ),
        (
            _header("{'descr': '<i3', 'fortran_order': False, 'shape': (), }", b"123"),
            "unknown dtyp",
        ),
        (
            _header("{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }", bytes(31)),
            "needs 32 bytes for its shape, has 31",
        ),
        (
            _header("{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (4,), }"),
            "has dtype .*'a'.*which is not plain",
        ),
    ],
)
def test_arrays_that_cannot_be(path, data, match):
    put(path, archive(members() | {"data.npy": data}))
    with pytest.raises(ReadError, match=match):
        read(path)


def test_letters_that_are_not_unicode(path):
    header = "{'descr': '<U3', 'fortran_order': False, 'shape': (), }"
    put(path, archive(members() | {"format.npy": _header(header, b"\xff" * 12)}))
    with pytest.raises(ReadError, match="'format' has letters that are not Unicode"):
        read(path)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "is not a whole .npz archive"),
        (b"1,2\n", "is not a whole .npz archive"),
        (pickle.dumps(_Evil()), "is not a whole .npz archive"),
        (archive({}), "has no array 'format', but nothing"),
        (archive({"a.npy": npy([1])}), "has no array 'format', but 'a': give a file that scipy"),
        (archive(members(), zipfile.ZIP_BZIP2), "packed in a way that NumPy never does"),
        (archive(members(), zipfile.ZIP_LZMA), "packed in a way that NumPy never does"),
        (npz(SMALL)[:-30], "is not a whole .npz archive"),
    ],
)
def test_archives_that_are_none(path, data, match):
    put(path, data)
    with pytest.raises(ReadError, match=match):
        read(path)


def test_a_flipped_bit_is_found_by_the_check_sum(path):
    data = bytearray(npz(SMALL, compressed=False))
    data[data.index(np.int64(12).tobytes())] ^= 1
    put(path, bytes(data))
    with pytest.raises(ReadError, match=r"is not a whole .npz archive .*Bad CRC-32"):
        read(path)
