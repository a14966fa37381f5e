"""Anything at all in a file: an error of ours, or a tree."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapmf import archive
from gapmf.storage import StorageError, read
from storage_files import ARRAY, NAMED, head_of, npy, pack, put


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("storage") / "file"


def _is_tree(node):
    if type(node) is dict:
        return all(type(k) is str and k[:1] != "$" and _is_tree(node[k]) for k in node)
    if type(node) is list:
        return all(map(_is_tree, node))
    if type(node) is np.ndarray:
        node.tolist()  # letters and bools that are none would fail here
        return archive.DTYPES.fullmatch(node.dtype.str)
    return node is None or type(node) in (bool, int, float, str)


def _try(path, data):
    """1 if the file is read, 0 if it is refused; anything else is an error."""
    put(path, data)
    try:
        tree = read(path, "model")
    except StorageError:
        return 0
    assert _is_tree(tree)
    return 1


@given(data=st.binary(max_size=400), keep=st.integers(0, 10_000))
def test_random_bytes(path, data, keep):
    assert not _try(path, data)
    assert not _try(path, b"PK" + data)
    whole = pack(head_of(NAMED), ARRAY)
    keep %= len(whole)
    if not whole.startswith(data, keep):
        assert not _try(path, whole[:keep] + data)
        assert not _try(path, whole[:keep] + data + whole[keep + len(data) :])


def _spliced(whole):
    """Bytes with a piece replaced."""
    pieces = st.binary(max_size=6) | st.sampled_from(
        [bytes([sign]) for sign in b"{}[](),0\"'\\"]
        + [b"9" * 25, b"1e999", b"null", b'"$array"', b'{"$float": "inf"}', b"\\ud800"]
        + [b"<U3", b"|b1", b"|O", b"True"]
    )
    ends = st.tuples(st.integers(0, len(whole)), st.integers(0, 12))
    return st.builds(lambda at, piece: whole[: at[0]] + piece + whole[sum(at) :], ends, pieces)


TWO = head_of(f'[{NAMED}, {{"$array": "001.npy"}}, 1.5, "é", {{"a": [true]}}]')
LETTERS = npy("{'descr': '<U3', 'fortran_order': False, 'shape': (2, 1), }", b"a\0\0\0" * 6)


@settings(max_examples=400)
@given(head=_spliced(TWO), first=_spliced(ARRAY), second=_spliced(LETTERS))
def test_changed_members_with_the_right_digest(path, head, first, second):
    assert _try(path, pack(TWO, ARRAY, LETTERS))
    _try(path, pack(head, ARRAY, LETTERS))
    _try(path, pack(TWO, first, LETTERS))
    _try(path, pack(TWO, ARRAY, second))
    _try(path, pack(head, first, second))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda t: (
        st.lists(t, max_size=3)
        | st.dictionaries(
            st.sampled_from(["$array", "$float", "$int", "$", "a", "000.npy"]), t, max_size=2
        )
        | st.sampled_from([{"$array": "000.npy"}, {"$float": "nan"}, {"$int": "-0x1f"}])
    ),
)


@settings(max_examples=300)
@given(content=JSON)
def test_any_json_with_the_right_digest(path, content):
    _try(path, pack(head_of(json.dumps(content)), ARRAY))
    _try(path, pack(json.dumps(content).encode(), ARRAY))
