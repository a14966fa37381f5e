"""What is written comes back; what is not whole is refused; an earlier file is never lost."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import stat
import struct
import tracemalloc
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gapmf
from gapmf import archive, storage
from gapmf.errors import InvalidInputError
from gapmf.storage import StorageError, read, write

needs_user = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do everything"
)

SMALL = {"W": np.arange(3.0), "names": np.array(["é"]), "x": [None, -0.0, "é", float("nan")]}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("storage") / "file"


def _same(a, b):
    """Whether two trees are the same: types, bits of numbers, dtypes, order of keys."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return repr(a) == repr(b) if isinstance(a, float) else a == b


def _arrays(dtype):
    shapes = hnp.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4)
    return hnp.arrays(dtype, shapes)


ARRAYS = st.sampled_from(["<f8", "<i8", "<u8", "|b1", "<U1", "<U7"]).flatmap(_arrays)
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


def _pack(*members, names=None):
    """The bytes of an archive with its right check sums, whatever is in it."""
    names = names or [archive.member_name(i) for i in range(len(members))]
    file = io.BytesIO()
    with mock.patch.object(archive, "member_name", names.__getitem__):
        archive.pack(file, [[member] for member in members])
    return file.getvalue()


def _head(content="null", **changes):
    head = {"format": "gapmf", "version": 1, "kind": "model", "gapmf": "9.9", "content": 0}
    text = json.dumps(head | changes)
    return text.replace('"content": 0', f'"content": {content}').encode()


def _npy(header, data=b""):
    text = header.encode("latin-1")
    text += b" " * (-(11 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def _put(path, data):
    path.touch()
    with path.open("r+b") as file:  # some file systems wait for the disk when "wb" empties a file
        file.write(data)
        file.truncate()


def _refused(path, data, match=None, kind="model"):
    _put(path, data)
    with pytest.raises(StorageError, match=match) as caught:
        read(path, kind)
    assert str(path) in str(caught.value)


# What comes back.


@settings(max_examples=200)
@given(tree=TREES, kind=st.sampled_from(["model", "checkpoint"]))
def test_round_trip(path, tree, kind):
    with mock.patch("os.fsync"):  # which takes most of the time
        write(path, kind, tree)
        first = path.read_bytes()
        back = read(path, kind)
        assert _same(back, tree)
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
    assert _same(read(path, "model"), [W, W, W, *(part.copy() for part in parts)])
    write(path, "model", [np.float64(0.1), np.int32(3), np.True_, np.str_("é"), np.float32(0.5)])
    assert _same(read(path, "model"), [0.1, 3, True, "é", 0.5])


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
        assert _same(arrays["000"], SMALL["W"])
        assert _same(arrays["001"], SMALL["names"])


@given(array=ARRAYS)
def test_npy_headers_are_those_of_numpy(array):
    header = archive.npy_header(array.dtype.str, array.shape)
    assert _same(np.load(io.BytesIO(header + array.tobytes()), allow_pickle=False), array)


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
    assert _same(read(path, "model"), tree)


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


# Writing is all or nothing.


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt()])
@pytest.mark.parametrize("where", ["os.fsync", "os.replace", "os.chmod", "archive.directory"])
def test_a_write_that_fails(tmp_path, monkeypatch, where, error):
    path = tmp_path / "file"
    write(path, "model", SMALL)
    module = os if where.startswith("os") else archive
    monkeypatch.setattr(module, where.split(".")[1], mock.Mock(side_effect=error))
    with pytest.raises(type(error)):
        write(path, "model", {"other": np.zeros(9)})
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == [path]
    assert _same(read(path, "model"), SMALL)


def test_it_is_on_the_disk_before_it_is_in_place(tmp_path, monkeypatch):
    path, calls = tmp_path / "file", []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("fsync"), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("replace"), replace(a, b)))
    write(path, "model", SMALL)
    assert calls == ["fsync", "replace", "fsync"]


def test_a_directory_that_cannot_be_synchronised(tmp_path, monkeypatch):
    fsync = os.fsync

    def only_files(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError("not here")
        fsync(fd)

    monkeypatch.setattr(os, "fsync", only_files)
    write(tmp_path / "file", "model", SMALL)
    assert _same(read(tmp_path / "file", "model"), SMALL)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permissions(tmp_path, monkeypatch):
    path = tmp_path / "file"
    before = os.umask(0o027)
    try:
        write(path, "model", 1)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o606)  # more than the umask leaves, and less
        seen = []
        fsync = os.fsync
        monkeypatch.setattr(os, "fsync", lambda fd: (seen.append(os.fstat(fd).st_mode), fsync(fd)))
        write(path, "model", 2)
    finally:
        os.umask(before)
    assert stat.S_IMODE(seen[0]) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == 0o606
    assert read(path, "model") == 2


def test_a_link_stays(tmp_path):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link", tmp_path / "there" / "file"
    link.symlink_to(Path("there") / "file")
    for content in (1, 2):  # the first time the link points to nothing
        write(link, "model", content)
        assert link.is_symlink()
        assert read(target, "model") == read(link, "model") == content
    assert list((tmp_path / "there").iterdir()) == [target]


def test_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("plain", "model", 1)
    write(Path("a.b c"), "model", 2)
    assert sorted(os.listdir()) == ["a.b c", "plain"]
    assert read("plain", "model") == 1


def test_errors_of_the_system_pass(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="missing"):
        read(tmp_path / "missing", "model")
    with pytest.raises(FileNotFoundError, match="missing'"):
        write(tmp_path / "missing" / "file", "model", 1)
    for call in (lambda: read(tmp_path, "model"), lambda: write(tmp_path, "model", 1)):
        with pytest.raises(IsADirectoryError):
            call()
    write(tmp_path / "file", "model", 1)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match="file"):
        write(tmp_path / "file", "model", 2)
    assert read(tmp_path / "file", "model") == 1
    assert os.listdir(tmp_path) == ["file"]


@needs_user
def test_no_permission(tmp_path):
    path = tmp_path / "file"
    write(path, "model", 1)
    path.chmod(0)
    with pytest.raises(PermissionError):
        read(path, "model")
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        write(path, "model", 2)
    tmp_path.chmod(0o555)
    with pytest.raises(PermissionError):
        write(tmp_path / "other", "model", 2)
    tmp_path.chmod(0o755)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for call in (lambda p: read(p, "model"), lambda p: write(p, "model", 1)):
        with pytest.raises(StorageError, match=r"pipe is a device, a pipe or a socket: give a"):
            call(tmp_path / "pipe")
    assert os.listdir(tmp_path) == ["pipe"]


# What is refused.


def test_every_truncation_and_every_flip(path):
    write(path, "model", SMALL)
    whole = path.read_bytes()
    assert len(whole) < 1500
    for n in range(len(whole)):
        _refused(path, whole[:n])
    for i in range(len(whole)):
        for flip in (1 << i % 8, 255):
            _refused(path, whole[:i] + bytes([whole[i] ^ flip]) + whole[i + 1 :])
    for more in (b"\0", b"PK\3\4", whole):
        _refused(path, whole + more, "check sums")
        _refused(path, more + whole)
    path.write_bytes(whole)
    assert _same(read(path, "model"), SMALL)


def _npz():
    file = io.BytesIO()
    np.savez(file, W=np.zeros(2))
    return file.getvalue()


def _zip(**options):
    """A file of gapmf that another program has packed again, by options of zipfile."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        archive.writestr("gapmf.json", _head())
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
        (_pack(b"{}"), "is not a gapmf file: its gapmf.json does not say"),
        (_pack(_head(format="other")), "is not a gapmf file: its gapmf.json does not say"),
        (_pack(_head(version=True)), "is not a gapmf file: its gapmf.json does not say"),
        (_pack(_head(gapmf=None)), "is not a gapmf file: its gapmf.json does not say"),
        (
            _pack(_head('{"$new": 1}', version=2, kind="more", gapmf="3.1")),
            "was made by gapmf 3.1, format 2; this is format 1: upgrade gapmf",
        ),
        (_pack(_head(version=2)) + b"what format 2 has", "format 2; this is format 1: upgrade"),
        (_pack(_head(version=0)), "gapmf.json is not one of format 1: take it from a backup"),
        (_pack(_head(kind="fit")), "gapmf.json is not one of format 1"),
        (_pack(_head(kind=["model"])), "gapmf.json is not one of format 1"),
        (_pack(_head(more=1)), "gapmf.json is not one of format 1"),
        (_pack(_head(kind="checkpoint")), "holds a checkpoint, not a model: resume the fit"),
    ],
)
def test_files_of_others(path, data, match):
    _refused(path, data, match)


def test_a_model_is_no_checkpoint(path):
    _refused(path, _pack(_head()), "holds a model, not a checkpoint: load it", "checkpoint")


ARRAY = _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", bytes(16))
NAMED = '{"$array": "000.npy"}'


@pytest.mark.parametrize(
    ("members", "names", "match"),
    [
        ([_head(NAMED)], None, "names '000.npy', which is missing"),
        ([_head('{"$array": "001.npy"}'), ARRAY], None, "names '001.npy', which is missing or out"),
        ([_head(f"[{NAMED}, {NAMED}]"), ARRAY], None, "names '000.npy', which is missing or out"),
        ([_head(), ARRAY], None, "it has 1 arrays, but gapmf.json names 0"),
        (
            [_head(NAMED), ARRAY, ARRAY],
            ["gapmf.json", "000.npy", "000.npy"],
            "its member '000.npy' is where 001.npy was expected",
        ),
        (
            [_head(NAMED), ARRAY],
            ["gapmf.json", "../0.py"],
            "its member '../0.py' is where 000.npy was expected",
        ),
        ([ARRAY, _head(NAMED)], ["000.npy", "gapmf.json"], "does not begin with gapmf.json"),
    ],
)
def test_members_that_are_missing_or_too_many(path, members, names, match):
    _refused(path, _pack(*members, names=names), match)


@pytest.mark.parametrize(
    ("at", "value", "match"),
    [(6, 1, "000.npy compressed or encrypted"), (8, 8, "000.npy compressed or encrypted")],
)
def test_members_that_are_not_plain(path, at, value, match):
    data = bytearray(_pack(_head(NAMED), ARRAY))
    data[data.index(b"PK\3\4", 4) + at] = value
    _refused(path, bytes(data), match)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (b"\xff{}", "not JSON .*utf-8"),
        (b"\xef\xbb\xbf{}", "not JSON .*BOM"),
        (b"", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"{" * 10, "not JSON"),
        (b'{"a": ' * 200_000, "nested too deep"),
        (_head("[" * 200_000), "nested too deep"),
        (_head("NaN"), r"not JSON \(NaN\)"),
        (_head("-Infinity"), r"not JSON \(-Infinity\)"),
        (_head("1" * 5000), "an integer of 5000 digits"),
        (_head('{"a": 1, "a": 1}'), "has a key twice"),
        (_head()[:-1] + b', "kind": "model"}', "has a key twice"),
        (_head('{"$float": "1"}'), r"an unknown node, with the key '\$float'"),
        (_head('{"$float": 1}'), r"an unknown node, with the key '\$float'"),
        (_head('{"$int": "1"}'), r"an unknown node, with the key '\$int'"),
        (_head('{"$array": 0}'), r"an unknown node, with the key '\$array'"),
        (_head('{"$float": "nan", "a": 1}'), r"an unknown node, with the key '\$float'"),
        (_head('{"$other": 1}'), r"an unknown node, with the key '\$other'"),
        (_head('"' + "x" * storage.LARGEST_JSON + '"'), "gapmf.json has more than 4194304 bytes"),
    ],
)
def test_json_that_is_not_ours(path, text, match):
    _refused(path, _pack(text), match)


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
            _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 9999999999999999999), }"),
            "a shape that cannot be",
        ),
        (
            _npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {(1,) * 99}, }}", bytes(8)),
            "a shape that cannot be",
        ),
        (
            _npy(
                "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,), }",
                bytes(16),
            ),
            "has dtype .*'a', '<f8",
        ),
        (_npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }", b"\2"), r"none of \|b1"),
        (
            _npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", b"\0\0\x11\0"),
            "values that are none of <U1",
        ),
        (b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535, "no .npy header"),
    ],
)
def test_arrays_that_are_not_ours(path, array, match):
    _refused(path, _pack(_head(NAMED), array), match)


def test_crcs_are_right_too(path):
    """The digest suffices for us, but other programs look at the CRCs."""
    with mock.patch("zlib.crc32", return_value=7):
        data = _pack(_head(NAMED), ARRAY)
    _refused(path, data, "check sums")


def test_a_pickle_inside_is_not_read(path):
    file = io.BytesIO()
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    with mock.patch("pickle.load") as load, mock.patch("pickle.loads") as loads:
        _refused(path, _pack(_head(NAMED), file.getvalue()), r"has dtype \|O in C order")
    assert not load.called
    assert not loads.called


def test_claims_are_checked_before_memory_is_taken(path):
    shape = "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }"
    large = [_pack(_head(NAMED), _npy(shape, bytes(64)))]
    whole = _pack(_head(NAMED), ARRAY)
    for size in (2**33, 2**50, 2**64 - 1):
        for old, name in ((ARRAY, "000.npy"), (_head(NAMED), "gapmf.json")):
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
            _refused(path, data, "needs|more than|check sums")
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


# Anything at all: an error of ours, or a tree.


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
    _put(path, data)
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
    whole = _pack(_head(NAMED), ARRAY)
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


TWO = _head(f'[{NAMED}, {{"$array": "001.npy"}}, 1.5, "é", {{"a": [true]}}]')
LETTERS = _npy("{'descr': '<U3', 'fortran_order': False, 'shape': (2, 1), }", b"a\0\0\0" * 6)


@settings(max_examples=400)
@given(head=_spliced(TWO), first=_spliced(ARRAY), second=_spliced(LETTERS))
def test_changed_members_with_the_right_digest(path, head, first, second):
    assert _try(path, _pack(TWO, ARRAY, LETTERS))
    _try(path, _pack(head, ARRAY, LETTERS))
    _try(path, _pack(TWO, first, LETTERS))
    _try(path, _pack(TWO, ARRAY, second))
    _try(path, _pack(head, first, second))


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
    _try(path, _pack(_head(json.dumps(content)), ARRAY))
    _try(path, _pack(json.dumps(content).encode(), ARRAY))
