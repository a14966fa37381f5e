"""What is not whole, or is not ours, is refused, and takes no memory."""

from __future__ import annotations

import io
import pickle
import struct
import tracemalloc
import zipfile
from unittest import mock

import numpy as np
import pytest

from gapmf import storage
from gapmf.storage import read, write
from storage_files import ARRAY, NAMED, SMALL, head_of, npy, pack, refused, same


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("storage") / "file"


def test_every_truncation_and_every_flip(path):
    write(path, "model", SMALL)
    whole = path.read_bytes()
    assert len(whole) < 1500
    for n in range(len(whole)):
        refused(path, whole[:n])
    for i in range(len(whole)):
        for flip in (1 << i % 8, 255):
            refused(path, whole[:i] + bytes([whole[i] ^ flip]) + whole[i + 1 :])
    for more in (b"\0", b"PK\3\4", whole):
        refused(path, whole + more, "check sums")
        refused(path, more + whole)
    path.write_bytes(whole)
    assert same(read(path, "model"), SMALL)


def _npz():
    file = io.BytesIO()
    np.savez(file, W=np.zeros(2))
    return file.getvalue()


def _zip(**options):
    """A file of gapmf that another program has packed again, by options of zipfile."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        archive.writestr("gapmf.json", head_of())
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "is not a gapmf file, it is empty: give a file that gapmf has saved"),
        (b"alpha,beta\n1,2\n", r"is not a gapmf file, it begins with b'alpha,beta\\n1'"),
        (pickle.dumps({"W": 1}), "is not a gapmf file, it looks like a pickle"),
        (_npz(), r"is not a gapmf file, it is a ZIP archive \(.npz\?\)"),
        (b"PK\5\6" + bytes(18), "is not a gapmf file, it is a ZIP archive"),
        (_zip(), "packed again by another program: gapmf.json has another header"),
        (_zip(compression=zipfile.ZIP_DEFLATED), "gapmf.json compressed or encrypted"),
        (pack(b"{}"), "is not a gapmf file: its gapmf.json does not say"),
        (pack(head_of(format="other")), "is not a gapmf file: its gapmf.json does not say"),
        (pack(head_of(version=True)), "is not a gapmf file: its gapmf.json does not say"),
        (pack(head_of(gapmf=None)), "is not a gapmf file: its gapmf.json does not say"),
        (
            pack(head_of('{"$new": 1}', version=2, kind="more", gapmf="3.1")),
            "was made by gapmf 3.1, format 2; this is format 1: upgrade gapmf",
        ),
        (pack(head_of(version=2)) + b"what format 2 has", "format 2; this is format 1: upgrade"),
        (pack(head_of(version=0)), "gapmf.json is not one of format 1: take it from a backup"),
        (pack(head_of(kind="fit")), "gapmf.json is not one of format 1"),
        (pack(head_of(kind=["model"])), "gapmf.json is not one of format 1"),
        (pack(head_of(more=1)), "gapmf.json is not one of format 1"),
        (pack(head_of(kind="checkpoint")), "holds a checkpoint, not a model: resume the fit"),
    ],
)
def test_files_of_others(path, data, match):
    refused(path, data, match)


def test_a_model_is_no_checkpoint(path):
    refused(path, pack(head_of()), "holds a model, not a checkpoint: load it", "checkpoint")


@pytest.mark.parametrize(
    ("members", "names", "match"),
    [
        ([head_of(NAMED)], None, "names '000.npy', which is missing"),
        (
            [head_of('{"$array": "001.npy"}'), ARRAY],
            None,
            "names '001.npy', which is missing or out",
        ),
        ([head_of(f"[{NAMED}, {NAMED}]"), ARRAY], None, "names '000.npy', which is missing or out"),
        ([head_of(), ARRAY], None, "it has 1 arrays, but gapmf.json names 0"),
        (
            [head_of(NAMED), ARRAY, ARRAY],
            ["gapmf.json", "000.npy", "000.npy"],
            "its member '000.npy' is where 001.npy was expected",
        ),
        (
            [head_of(NAMED), ARRAY],
            ["gapmf.json", "../0.py"],
            "its member '../0.py' is where 000.npy was expected",
        ),
        ([ARRAY, head_of(NAMED)], ["000.npy", "gapmf.json"], "does not begin with gapmf.json"),
    ],
)
def test_members_that_are_missing_or_too_many(path, members, names, match):
    refused(path, pack(*members, names=names), match)


@pytest.mark.parametrize(
    ("at", "value", "match"),
    [(6, 1, "000.npy compressed or encrypted"), (8, 8, "000.npy compressed or encrypted")],
)
def test_members_that_are_not_plain(path, at, value, match):
    data = bytearray(pack(head_of(NAMED), ARRAY))
    data[data.index(b"PK\3\4", 4) + at] = value
    refused(path, bytes(data), match)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (b"\xff{}", "not JSON .*utf-8"),
        (b"\xef\xbb\xbf{}", "not JSON .*BOM"),
        (b"", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"{" * 10, "not JSON"),
        (b'{"a": ' * 200_000, "nested too deep"),
        (head_of("[" * 200_000), "nested too deep"),
        (head_of("NaN"), r"not JSON \(NaN\)"),
        (head_of("-Infinity"), r"not JSON \(-Infinity\)"),
        (head_of("1" * 5000), "an integer of 5000 digits"),
        (head_of('{"a": 1, "a": 1}'), "has a key twice"),
        (head_of()[:-1] + b', "kind": "model"}', "has a key twice"),
        (head_of('{"$float": "1"}'), r"an unknown node, with the key '\$float'"),
        (head_of('{"$float": 1}'), r"an unknown node, with the key '\$float'"),
        (head_of('{"$int": "1"}'), r"an unknown node, with the key '\$int'"),
        (head_of('{"$array": 0}'), r"an unknown node, with the key '\$array'"),
        (head_of('{"$float": "nan", "a": 1}'), r"an unknown node, with the key '\$float'"),
        (head_of('{"$other": 1}'), r"an unknown node, with the key '\$other'"),
        (head_of('"' + "x" * storage.LARGEST_JSON + '"'), "gapmf.json has more than 4194304 bytes"),
    ],
)
def test_json_that_is_not_ours(path, text, match):
    refused(path, pack(text), match)


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (b"", "no .npy header"),
        (b"\x93NUMPY", "no .npy header"),
        (ARRAY[:40], "no .npy header"),
        (ARRAY.replace(b"\x01\x00", b"\x02\x00", 1), "no .npy header"),
        (ARRAY.replace(b"\x93", b"\x92", 1), "no .npy header"),
        (ARRAY.replace(b"<f8", b"|O8"), r"000.npy has dtype \|O8 in C order"),
        (ARRAY.replace(b"<f8", b">f8"), "has dtype >f8 in C order, which gapmf never writes"),
        (ARRAY.replace(b"<f8", b"<m8"), "has dtype <m8"),
        (ARRAY.replace(b"False", b"True "), "no .npy header"),
        (ARRAY.replace(b"False", b"True").replace(b"}", b"} "), "<f8 in Fortran order"),
        (ARRAY.replace(b"(2,)", b"(3,)"), "needs 24 bytes for its shape and has 16"),
        (ARRAY.replace(b"(2,)", b"(1,)"), "needs 8 bytes for its shape and has 16"),
        (ARRAY.replace(b"(2,)", b"(2 )"), "no .npy header"),
        (ARRAY.replace(b"(2,)", b"(-2)"), "no .npy header"),
        (ARRAY.replace(b"(2,), }  ", b"(2L,), } "), "no .npy header"),
        (ARRAY[:-1], "needs 16 bytes for its shape and has 15"),
        (ARRAY + b"\0", "needs 16 bytes for its shape and has 17"),
        (
            npy("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 9999999999999999999), }"),
            "a shape that cannot be",
        ),
        (
            npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {(1,) * 99}, }}", bytes(8)),
            "a shape that cannot be",
        ),
        (
            npy(
                "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,), }",
                bytes(16),
            ),
            "has dtype .*'a', '<f8",
        ),
        (npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }", b"\2"), r"none of \|b1"),
        (
            npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", b"\0\0\x11\0"),
            "values that are none of <U1",
        ),
        (b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535, "no .npy header"),
    ],
)
def test_arrays_that_are_not_ours(path, array, match):
    refused(path, pack(head_of(NAMED), array), match)


def test_crcs_are_right_too(path):
    """The digest suffices for us, but other programs look at the CRCs."""
    with mock.patch("zlib.crc32", return_value=7):
        data = pack(head_of(NAMED), ARRAY)
    refused(path, data, "check sums")


def test_a_pickle_inside_is_not_read(path):
    file = io.BytesIO()
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    with mock.patch("pickle.load") as load, mock.patch("pickle.loads") as loads:
        refused(path, pack(head_of(NAMED), file.getvalue()), r"has dtype \|O in C order")
    assert not load.called
    assert not loads.called


def test_claims_are_checked_before_memory_is_taken(path):
    shape = "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }"
    large = [pack(head_of(NAMED), npy(shape, bytes(64)))]
    whole = pack(head_of(NAMED), ARRAY)
    for size in (2**33, 2**50, 2**64 - 1):
        for old, name in ((ARRAY, "000.npy"), (head_of(NAMED), "gapmf.json")):
            field = struct.pack("<2HQQ", 1, 16, len(old), len(old))
            new = struct.pack("<2HQQ", 1, 16, size, size)
            assert whole.count(name.encode() + field) == 1
            large.append(whole.replace(name.encode() + field, name.encode() + new))
        field, new = struct.pack("<2HQ", 1, 24, len(ARRAY)), struct.pack("<2HQ", 1, 24, size)
        assert whole.count(field) == 1  # in the directory
        large.append(whole.replace(field, new))
    large.append(whole + bytes(20_000_000))
    tracemalloc.start()
    try:
        for data in large:
            refused(path, data, "needs|more than|check sums")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10e6


def test_memory_stays_near_the_size_of_the_file(path):
    write(path, "model", {"W": np.zeros(4_000_000), "n": 1})
    tracemalloc.start()
    try:
        read(path, "model")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * path.stat().st_size
