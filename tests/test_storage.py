"""What is written comes back; what cannot be stored is refused."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gapmf
from gapmf import archive, storage
from gapmf.errors import InvalidInputError
from gapmf.storage import StorageError, read, write
from storage_files import ARRAYS, SMALL, same

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTEGERS = st.integers() | st.sampled_from([2**64, -(2**2000), 2**2000 - 1])
LEAVES = st.none() | st.booleans() | INTEGERS | st.floats() | TEXT | ARRAYS
TREES = st.recursive(
    LEAVES,
    lambda t: (
        st.lists(t, max_size=4)
        | st.dictionaries(TEXT.filter(lambda key: not key.startswith("$")), t, max_size=4)
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("storage") / "file"


@settings(max_examples=200)
@given(tree=TREES, kind=st.sampled_from(["model", "checkpoint"]))
def test_round_trip(path, tree, kind):
    with mock.patch("os.fsync"):  # which takes most of the time
        write(path, kind, tree)
        first = path.read_bytes()
        back = read(path, kind)
        assert same(back, tree)
        write(path, kind, back)
    assert path.read_bytes() == first


def test_arrays_are_free(path):
    write(path, "model", [np.arange(6.0).reshape(2, 3), np.array(["a"]), np.array(True)])
    for array in read(path, "model"):
        assert array.flags.owndata
        assert array.flags.writeable
        assert array.flags.c_contiguous


def test_orders_bytes_and_scalars_of_numpy(path):
    W = np.arange(6.0).reshape(2, 3)
    frozen = W.copy()
    frozen.flags.writeable = False
    parts = W[::-1, ::2], W[0, ::2]
    write(path, "model", [np.asfortranarray(W), W.astype(">f8"), frozen, *parts])
    assert same(read(path, "model"), [W, W, W, *(part.copy() for part in parts)])
    write(path, "model", [np.float64(0.1), np.int32(3), np.True_, np.str_("é"), np.float32(0.5)])
    assert same(read(path, "model"), [0.1, 3, True, "é", 0.5])


def test_other_programs_can_open_it(path):
    write(path, "model", SMALL)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["gapmf.json", "000.npy", "001.npy"]
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        assert {info.external_attr >> 16 for info in archive.infolist()} == {0o100644}
        head = json.loads(archive.read("gapmf.json"))
        digest = hashlib.sha256()
        for name in archive.namelist():
            for part in (name.encode(), archive.read(name)):
                digest.update(len(part).to_bytes(8, "little") + part)
        assert archive.comment.decode() == digest.hexdigest()
    assert head == {
        "format": "gapmf",
        "version": 1,
        "kind": "model",
        "gapmf": gapmf.__version__,
        "content": {
            "W": {"$array": "000.npy"},
            "names": {"$array": "001.npy"},
            "x": [None, -0.0, "é", {"$float": "nan"}],
        },
    }
    with np.load(path, allow_pickle=False) as arrays:
        assert same(arrays["000"], SMALL["W"])
        assert same(arrays["001"], SMALL["names"])


@given(array=ARRAYS)
def test_npy_headers_are_those_of_numpy(array):
    header = archive.npy_header(array.dtype.str, array.shape)
    assert same(np.load(io.BytesIO(header + array.tobytes()), allow_pickle=False), array)


def test_more_than_a_thousand_arrays(path):
    write(path, "model", [np.array(i) for i in range(1002)])
    assert [int(array) for array in read(path, "model")] == list(range(1002))


def test_integers_of_any_size(path):
    tree = [sign * 2**bits + 1 for sign in (1, -1) for bits in (1999, 2000, 10**6)]
    write(path, "model", tree)
    assert read(path, "model") == tree


def test_a_deep_tree(path):
    tree = None
    for _ in range(storage.DEEPEST):
        tree = [tree]
    write(path, "model", tree)
    assert same(read(path, "model"), tree)


# What cannot be stored.

HOLDS_ITSELF = []
HOLDS_ITSELF.append(HOLDS_ITSELF)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({"a": {"b": [1, 2, {3}]}}, r"content\.a\.b\[2\] is of type builtins\.set.*: use None"),
        ((1, 2), r"content is of type builtins\.tuple"),
        ([1j], r"content\[0\] is of type builtins\.complex"),
        ([np.longdouble(1)], r"content\[0\] is of type numpy\.longdouble"),
        ([np.ma.array([1.0])], r"content\[0\] is of type numpy\.ma.*MaskedArray"),
        ({"a": np.array([None])}, r"content\.a is an array of dtype object.*: convert it"),
        ({"a": np.zeros(2, "f4")}, r"content\.a is an array of dtype float32"),
        ({"a": np.zeros(2, "c16")}, r"content\.a is an array of dtype complex128"),
        ({"a": np.zeros(2, "f8,i8")}, r"content\.a is an array of dtype \[.*"),
        ({"a": np.array([b"x"])}, r"content\.a is an array of dtype \|?S1"),
        ({"a": np.empty(0, "U1000000")}, r"content\.a is an array of dtype <U1000000"),
        ({"a": {"$array": 1}}, r"content\.a has the key '\$array': use str"),
        ({"a": {1: 1}}, r"content\.a has the key 1: use str"),
        ({"a": ["\ud800"]}, r"content\.a\[0\] has '\\ud800', which is not Unicode"),
        ({"\udfff": 1}, r"content has '\\udfff', which is not Unicode"),
        (HOLDS_ITSELF, "nested more than 100 deep, or holds itself"),
        (["x" * storage.LARGEST_JSON], "keep long lists as arrays"),
    ],
)
def test_what_cannot_be_stored(tmp_path, content, match):
    with pytest.raises(StorageError, match=match):
        write(tmp_path / "file", "model", content)
    assert list(tmp_path.iterdir()) == []


def test_unknown_kind(tmp_path):
    with pytest.raises(StorageError, match="kind must be 'model' or 'checkpoint', but is 'fit'"):
        write(tmp_path / "file", "fit", None)
    assert issubclass(StorageError, InvalidInputError)
