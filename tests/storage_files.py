"""Files of gapmf, made by hand: what reading and writing are tested with."""

from __future__ import annotations

import io
import json
import struct
from unittest import mock

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gapmf import archive
from gapmf.storage import StorageError, read

SMALL = {"W": np.arange(3.0), "names": np.array(["é"]), "x": [None, -0.0, "é", float("nan")]}


def same(a, b):
    """Whether two trees are the same: types, bits of numbers, dtypes, order of keys."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return repr(a) == repr(b) if isinstance(a, float) else a == b


def _arrays(dtype):
    shapes = hnp.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4)
    return hnp.arrays(dtype, shapes)


ARRAYS = st.sampled_from(["<f8", "<i8", "<u8", "|b1", "<U1", "<U7"]).flatmap(_arrays)


def pack(*members, names=None):
    """The bytes of an archive with its right check sums, whatever is in it."""
    names = names or [archive.member_name(i) for i in range(len(members))]
    file = io.BytesIO()
    with mock.patch.object(archive, "member_name", names.__getitem__):
        archive.pack(file, [[member] for member in members])
    return file.getvalue()


def head_of(content="null", **changes):
    head = {"format": "gapmf", "version": 1, "kind": "model", "gapmf": "9.9", "content": 0}
    text = json.dumps(head | changes)
    return text.replace('"content": 0', f'"content": {content}').encode()


def npy(header, data=b""):
    text = header.encode("latin-1")
    text += b" " * (-(11 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def put(path, data):
    path.touch()
    with path.open("r+b") as file:  # some file systems wait for the disk when "wb" empties a file
        file.write(data)
        file.truncate()


def refused(path, data, match=None, kind="model"):
    put(path, data)
    with pytest.raises(StorageError, match=match) as caught:
        read(path, kind)
    assert str(path) in str(caught.value)


ARRAY = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", bytes(16))
NAMED = '{"$array": "000.npy"}'
