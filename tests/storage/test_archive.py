"""Trees in files: what is written comes back, and whatever else is in a file is refused."""

from __future__ import annotations

import io
import json
import os
import stat
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gapmf.errors import InvalidInputError, StorageError
from gapmf.storage import archive, check_parent_folder, read, read_header, write_atomically

OLD_FILES = sorted((Path(__file__).parents[1] / "data" / "0.1.0").iterdir())
SMALL = {"W": np.arange(3.0), "names": np.array(["é"]), "x": [None, -0.0, "é", float("nan")]}


def write(path, content, kind="model"):
    archive.write(path, kind, content, version="9.9")


def same(a, b):
    """Whether two trees are equal: types, bits of numbers, dtypes, order of keys."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return repr(a) == repr(b)


# What is written comes back.

ARRAYS = st.sampled_from(["f8", "i8", "u8", "?", "U1", "U7"]).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | ARRAYS
KEYS = st.text(max_size=8).filter(lambda key: not key.startswith("$"))
TREES = st.recursive(
    LEAVES,
    lambda t: st.lists(t, max_size=4) | st.dictionaries(KEYS, t, max_size=4),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("archive") / "file"


@settings(max_examples=100)
@given(tree=TREES, kind=st.sampled_from(["model", "checkpoint"]))
def test_round_trip(path, tree, kind):
    with mock.patch("os.fsync"):  # which takes most of the time
        write(path, tree, kind)
        first = path.read_bytes()
        back = read(path, kind)
        assert same(back, tree)
        write(path, back, kind)
    assert path.read_bytes() == first
    assert read_header(path) == {"format": "gapmf", "version": 1, "kind": kind, "gapmf": "9.9"}


def test_layouts_byte_orders_and_scalars_of_numpy(path):
    W = np.arange(6.0).reshape(2, 3)
    write(path, [np.asfortranarray(W), W.astype(">f8"), W[::-1, ::2]])
    found = read(path, "model")
    assert same(found, [W, W, W[::-1, ::2].copy()])
    assert all(array.flags.writeable and array.flags.c_contiguous for array in found)
    write(path, [np.float64(0.1), np.int32(3), np.True_, np.str_("é"), 2**128, 2**1999])
    assert same(read(path, "model"), [0.1, 3, True, "é", 2**128, 2**1999])
    write(path, [np.array(i) for i in range(1002)])
    assert [int(array) for array in read(path, "model")] == list(range(1002))


def test_large_members_use_zip64(path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10_000)
    write(path, [np.arange(2000.0), 1])
    with zipfile.ZipFile(path) as opened:
        assert opened.getinfo("000.npy").extract_version == 45
    monkeypatch.undo()
    assert same(read(path, "model"), [np.arange(2000.0), 1])


def test_other_programs_can_open_it(path):
    write(path, SMALL)
    with zipfile.ZipFile(path) as opened:
        assert opened.testzip() is None
        assert opened.namelist() == ["gapmf.json", "000.npy", "001.npy"]
        head = json.loads(opened.read("gapmf.json"))
    assert head == {
        "format": "gapmf",
        "version": 1,
        "kind": "model",
        "gapmf": "9.9",
        "content": {
            "W": {"$array": "000.npy"},
            "names": {"$array": "001.npy"},
            "x": [None, -0.0, "é", {"$float": "nan"}],
        },
    }
    with np.load(path, allow_pickle=False) as arrays:
        assert same(arrays["000"], SMALL["W"])


@pytest.mark.parametrize("old", OLD_FILES, ids=lambda old: old.name)
def test_files_of_the_first_version_are_read(old, path):
    kind = "checkpoint" if old.suffix == ".checkpoint" else "model"
    assert read_header(old) == {"format": "gapmf", "version": 1, "kind": kind, "gapmf": "0.1.0"}
    content = read(old, kind)
    fitted = content.get("fitted") or content["state"].get("fitted") or content["state"]["walk"]
    model = fitted.get("model_") or fitted["model"]
    assert model["W"].shape == (4, content["parameters"]["n_components"])
    archive.write(path, kind, content, version="0.1.0")
    assert same(read(path, kind), content)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({"a": {"b": [1, 2, {3}]}}, r"content\.a\.b\[2\] is \{3\}, which .* cannot hold: use None"),
        ((1, 2), r"content is \(1, 2\)"),
        ([np.ma.array([1.0])], r"content\[0\] is masked_array"),
        ({"a": np.array([None])}, r"content\.a is an array of object"),
        ({"a": np.zeros(2, "f4")}, r"content\.a is an array of float32"),
        ({"a": {"$array": 1}}, r"content\.a is {'\$array': 1}"),
        ({"a": {1: 1}}, r"content\.a is {1: 1}"),
        ([1 << 20_000], r"content\[0\] is a number of thousands of digits"),
        (["x" * archive.MAX_JSON], "store long lists as arrays"),
    ],
)
def test_what_cannot_be_stored(tmp_path, content, match):
    with pytest.raises(StorageError, match=match):
        write(tmp_path / "file", content)
    assert list(tmp_path.iterdir()) == []


# Whatever else is in a file is refused.


def put(path, data):
    path.touch()
    with path.open("r+b") as file:  # some file systems wait for the disk when "wb" empties a file
        file.write(data)
        file.truncate()


def npy(array=None, header=None, data=b""):
    file = io.BytesIO()
    if header is None:
        np.save(file, np.zeros(2) if array is None else array, allow_pickle=True)
    else:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little"))
        file.write(header.encode() + data)
    return file.getvalue()


def head(content='{"$array": "000.npy"}', **changes):
    parts = {"format": "gapmf", "version": 1, "kind": "model", "gapmf": "9.9"} | changes
    return json.dumps(parts)[:-1] + f', "content": {content}}}'


def pack(*members, compression=zipfile.ZIP_STORED):
    """The bytes of an archive with the right CRCs, whatever is in it."""
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", compression) as opened:
        warnings.simplefilter("ignore")  # of duplicate names
        for name, content in members:
            opened.writestr(name, content)
    return file.getvalue()


def gapmf_file(text, *arrays):
    return pack(("gapmf.json", text), *((f"{i:03d}.npy", a) for i, a in enumerate(arrays)))


F8 = "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }\n"


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "is not a gapmf file, but empty: give one that gapmf saved"),
        (b"alpha,beta\n1,2\n", "is not a gapmf file, but begins with b'alpha,be'"),
        (pack(("W.npy", npy())), "is not a gapmf file"),
        (gapmf_file("{}"), "is damaged or cut short .*: restore it from a backup, or fit again"),
        (gapmf_file(head("1", format="other")), "damaged .*'format': 'other'"),
        (gapmf_file(head("1", kind=["model"])), "damaged"),
        (gapmf_file(head('{"$new": 1}', version=2, kind="fit")), "9.9 in format 2, .*: upgrade"),
        (gapmf_file(head("1", kind="checkpoint")), "is a checkpoint, not a model: resume the fit"),
        (gapmf_file("[" * 200_000), "damaged .*recursion"),
        (gapmf_file(head("1" * 5000)), "damaged"),
        (gapmf_file("\ud800".encode("utf-8", "surrogatepass")), "damaged"),
        (gapmf_file(head('{"$float": "1"}')), r"unexpected node {'\$float': '1'}"),
        (gapmf_file(head('"' + "x" * archive.MAX_JSON + '"')), "has more than 4194304 bytes"),
        (gapmf_file(head()), "unexpected node.*'000.npy'"),
        (gapmf_file(head('[{"$array": "000.npy"}, {"$array": "000.npy"}]'), npy()), "unexpected"),
        (gapmf_file(head('{"$array": ["000.npy"]}'), npy()), "damaged"),
        (gapmf_file(head(), b""), "damaged"),
        (gapmf_file(head(), npy(np.array([{}], dtype=object))), "000.npy has .* of object"),
        (gapmf_file(head(), npy(np.zeros(2, "f8,i8"))), "000.npy has 32 bytes"),
        (gapmf_file(head(), npy() + b"\0"), r"000.npy has 17 bytes for shape \(2,\) of float64"),
        (gapmf_file(head(), npy(header=F8 % "(1099511627776,)", data=bytes(64))), "64 bytes for"),
        (gapmf_file(head(), npy(header=F8 % "(0, 9999999999999999999)")), "damaged"),
        (gapmf_file(head(), npy(header=F8 % str((1,) * 99), data=bytes(8))), "damaged"),
        (gapmf_file(head(), npy(header=F8 % "(-1, -1)", data=bytes(8))), "damaged"),
        (gapmf_file(head(), npy(header="(" * 9000)), "damaged"),
        (pack(("gapmf.json", head()), *[("000.npy", npy())] * 2), "not as gapmf writes them"),
        (pack(("gapmf.json", head("1")), compression=zipfile.ZIP_DEFLATED), "not as gapmf writes"),
    ],
)
def test_foreign_and_forged_files(path, data, match):
    put(path, data)
    with mock.patch("pickle.load") as load, pytest.raises(StorageError, match=match) as caught:
        read(path, "model")
    assert not load.called
    assert str(caught.value).startswith(f"{path} is ") or "upgrade" in match


def is_refused(path, data, content):
    """Whether a damaged file is refused; else its content must be right."""
    put(path, data)
    try:
        found = read(path, "model")
    except StorageError:
        return True
    assert same(found, content)
    return False


def test_every_cut_and_every_changed_byte(path):
    write(path, SMALL)
    whole = path.read_bytes()
    assert all(is_refused(path, whole[:n], SMALL) for n in range(len(whole)))
    flips = [1 << i % 8 for i in range(len(whole))], [255] * len(whole)
    for i, flip in ((i, flip) for changes in flips for i, flip in enumerate(changes)):
        is_refused(path, whole[:i] + bytes([whole[i] ^ flip]) + whole[i + 1 :], SMALL)
    for more in (b"\0", whole):
        is_refused(path, more + whole, SMALL)


PIECES = st.binary(max_size=6) | st.sampled_from(
    [bytes([sign]) for sign in b"{}[](),0\"'\\"]
    + [b"9" * 25, b"1e999", b"null", b'"$array"', b'{"$float": "inf"}', b"\\ud800"]
    + [b"<U3", b"<U0", b"|b1", b"|O", b"True", b"\xff" * 8]
)


def spliced(whole):
    """Bytes with a piece replaced."""
    return st.builds(
        lambda at, length, piece: whole[:at] + piece + whole[at + length :],
        st.integers(0, len(whole)), st.integers(0, 12), PIECES,
    )  # fmt: skip


TEXT = head('[{"$array": "000.npy"}, {"$array": "001.npy"}, 1.5, "é", {"a": [true]}]').encode()
MEMBERS = [TEXT, npy(), npy(np.array([["a"], ["bcd"]]))]


@settings(max_examples=400)
@given(data=st.one_of(
    st.tuples(*map(spliced, MEMBERS)).map(lambda members: gapmf_file(*members)),
    spliced(gapmf_file(*MEMBERS)),
    st.binary(max_size=200).map(lambda tail: gapmf_file(*MEMBERS)[:60] + tail),
))  # fmt: skip
def test_anything_in_a_file_gives_our_error_or_a_tree_and_takes_no_memory(path, data):
    put(path, data)
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of odd headers
            read(path, "model")
    except StorageError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 2e6


def test_memory_stays_near_the_size_of_the_file(path):
    write(path, {"W": np.zeros(1_000_000), "n": 1})
    tracemalloc.start()
    read(path, "model")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * path.stat().st_size


# Writing is all or nothing.


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt()])
@pytest.mark.parametrize("where", ["os.fsync", "os.replace", "os.chmod", "zipfile.ZipFile.close"])
def test_a_write_that_fails_changes_nothing(tmp_path, where, error):
    path = tmp_path / "file"
    write(path, SMALL)
    with mock.patch(where, side_effect=error), pytest.raises(type(error)):
        write(path, {"other": np.zeros(9)})
    assert list(tmp_path.iterdir()) == [path]
    assert same(read(path, "model"), SMALL)


def test_libraries_get_a_path_with_the_suffix(tmp_path):
    write_atomically(tmp_path / "a.npy", lambda name: np.save(name, np.arange(3)))
    assert os.listdir(tmp_path) == ["a.npy"]
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.arange(3))


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permissions(tmp_path, monkeypatch):
    path, modes, fsync = tmp_path / "file", [], os.fsync
    before = os.umask(0o027)
    try:
        write(path, 1)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o606)  # more than the umask leaves, and less
        monkeypatch.setattr(os, "fsync", lambda fd: (modes.append(os.fstat(fd).st_mode), fsync(fd)))
        write(path, 2)
    finally:
        os.umask(before)
    assert stat.S_IMODE(modes[0]) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == 0o606
    assert read(path, "model") == 2


def test_a_link_stays(tmp_path):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link", tmp_path / "there" / "file"
    link.symlink_to(Path("there") / "file")
    for content in (1, 2):  # the first time the link points to nothing
        write(link, content)
        assert link.is_symlink()
        assert read(target, "model") == read(link, "model") == content
    assert list((tmp_path / "there").iterdir()) == [target]


def test_errors_of_the_file_system_stay_os_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        read(tmp_path / "missing", "model")
    with pytest.raises(FileNotFoundError, match="missing'"):  # the folder
        write(tmp_path / "missing" / "file", 1)
    with pytest.raises(IsADirectoryError):
        read(tmp_path, "model")
    with pytest.raises(IsADirectoryError):
        write(tmp_path, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do all")
def test_protected_files(tmp_path):
    path = tmp_path / "file"
    write(path, 1)
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="file"):
        write(path, 2)
    path.chmod(0)
    with pytest.raises(PermissionError):
        read(path, "model")
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_pipes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for call in (lambda p: read(p, "model"), lambda p: write(p, 1)):
        with pytest.raises(StorageError, match="pipe is a device, a pipe or a socket: give a file"):
            call(tmp_path / "pipe")
    assert os.listdir(tmp_path) == ["pipe"]


def test_the_folder_of_a_file_must_exist(tmp_path):
    check_parent_folder(tmp_path / "file")
    with pytest.raises(InvalidInputError, match=r"there is no folder .*missing"):
        check_parent_folder(tmp_path / "missing" / "file")
    with pytest.raises(InvalidInputError, match="is a folder: name a file"):
        check_parent_folder(tmp_path)
