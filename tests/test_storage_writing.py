"""Writing is all or nothing: an earlier file is never lost."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from gapmf import archive
from gapmf.storage import StorageError, read, write
from storage_files import SMALL, same

needs_user = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do everything"
)


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
    assert same(read(path, "model"), SMALL)


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
    assert same(read(tmp_path / "file", "model"), SMALL)


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
