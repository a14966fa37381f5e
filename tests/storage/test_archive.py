"""Trees in files: what is written comes back, and whatever else is in a file is refused."""

from __future__ import annotations

import io
import json
import os
import stat
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gapmf.errors import InvalidInputError, StorageError
from gapmf.storage import archive, check_parent_folder, read, read_header

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
    LEAVES, lambda t: st.lists(t, max_size=4) | st.dictionaries(KEYS, t, max_size=4), max_leaves=8
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("archive") / "file"


@settings(max_examples=40)
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
    write(path, [np.float64(0.1), np.int32(3), np.True_, np.str_("é"), 2**128])
    assert same(read(path, "model"), [0.1, 3, True, "é", 2**128])
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
        ({"a": np.array([None])}, r"content\.a is an array of object"),
        ({"a": np.zeros(2, "f2")}, r"content\.a is an array of float16"),
        ({"a": {"$array": 1}}, r"content\.a is {'\$array': 1}"),
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


def gapmf_file(content, *arrays, **changes):
    """The bytes of an archive with the right CRCs, whatever is in it."""
    head = {"format": "gapmf", "version": 1, "kind": "model", "gapmf": "9.9"} | changes
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr("gapmf.json", json.dumps(head)[:-1] + f', "content": {content}}}')
        for i, array in enumerate(arrays):
            with opened.open(f"{i:03d}.npy", "w") as member:
                np.save(member, array, allow_pickle=True)
    return file.getvalue()


ARRAY = '{"$array": "000.npy"}'


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "is not a gapmf file, or is damaged .*: give one that gapmf saved"),
        (b"alpha,beta\n1,2\n", "is not a gapmf file"),
        (gapmf_file("}"), "damaged .*: .*restore it from a backup, or fit again"),
        (gapmf_file("1", format="other"), "damaged .*'format': 'other'"),
        (gapmf_file('{"$new": 1}', version=2, kind="fit"), "9.9 in format 2, .*: upgrade"),
        (gapmf_file("1", kind="checkpoint"), "is a checkpoint, not a model: resume the fit"),
        (gapmf_file("[" * 200_000), "damaged .*recursion"),
        (gapmf_file('{"$float": "x"}'), "damaged .*could not convert"),
        (gapmf_file(ARRAY), "damaged .*no item named '000.npy'"),
        (gapmf_file(ARRAY, np.array([{}], dtype=object)), "damaged .*Object arrays cannot"),
    ],
)
def test_foreign_files(path, data, match):
    put(path, data)
    with mock.patch("pickle.load") as load, pytest.raises(StorageError, match=match) as caught:
        read(path, "model")
    assert not load.called
    assert str(path) in str(caught.value)


def is_refused(path, data, content):
    """Whether a damaged file is refused; else its content must be right."""
    put(path, data)
    try:
        found = read(path, "model")
    except StorageError:
        return True
    assert same(found, content)
    return False


def test_cuts_and_changed_bytes(path):
    write(path, SMALL)
    whole = path.read_bytes()
    assert all(is_refused(path, whole[:n], SMALL) for n in range(0, len(whole), 3))
    for i in range(len(whole)):
        flipped = bytes([whole[i] ^ (1 << i % 8)])
        is_refused(path, whole[:i] + flipped + whole[i + 1 :], SMALL)
    for more in (b"\0", whole):
        is_refused(path, more + whole, SMALL)


# Writing is all or nothing.


@pytest.mark.parametrize("where", ["os.fsync", "os.replace"])
def test_a_write_that_fails_changes_nothing(tmp_path, where):
    path = tmp_path / "file"
    write(path, SMALL)
    with mock.patch(where, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        write(path, {"other": np.zeros(9)})
    assert list(tmp_path.iterdir()) == [path]
    assert same(read(path, "model"), SMALL)


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
    with pytest.raises(
        StorageError, match="is a folder, a device or a pipe: name an ordinary file"
    ):
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
def test_pipes_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(
        StorageError, match="pipe is a folder, a device or a pipe: name an ordinary file"
    ):
        write(tmp_path / "pipe", 1)
    assert os.listdir(tmp_path) == ["pipe"]


def test_the_folder_of_a_file_must_exist(tmp_path):
    check_parent_folder(tmp_path / "file")
    with pytest.raises(
        InvalidInputError, match=r"cannot be written: the folder .*missing does not exist"
    ):
        check_parent_folder(tmp_path / "missing" / "file")
    with pytest.raises(InvalidInputError, match="is a folder: name a file"):
        check_parent_folder(tmp_path)
