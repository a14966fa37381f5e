"""Lines come whole and with their numbers, packed or not; what never ends is refused."""

from __future__ import annotations

import gzip
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapmf.errors import InvalidInputError, ReadError
from gapmf.io import source as module
from gapmf.io.source import Source, check_encoding, check_regular
from io_files import put


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("source") / "file"


TEXTS = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\r", b" ", b"\n\n"])).map(b"".join)


@pytest.mark.parametrize("block", [1, 2, 3, 1 << 20])
@given(data=TEXTS, n_first=st.integers(0, 3), packed=st.booleans())
def test_lines_are_those_of_the_file(path, block, data, n_first, packed):
    put(path, data, packed)
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    expected = [line.removesuffix(b"\r") for line in expected]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        with Source(str(path)) as source:
            head = [source.next_line() for _ in range(n_first)]
            assert head == [*expected, None, None, None][:n_first]
            assert source.line == min(n_first, len(expected))
            rest = list(source.lines())
            assert [line for _, line in rest] == expected[n_first:]
            assert [number for number, _ in rest] == list(range(n_first + 1, len(expected) + 1))
            assert source.line == len(expected)
            assert source.next_line() is None


def test_a_byte_order_mark_is_dropped(path):
    put(path, b"\xef\xbb\xbf1\n")
    with Source(str(path)) as source:
        assert source.next_line() == b"1"
    put(path, "1\n".encode("utf-16"))
    with (
        Source(str(path)) as source,
        pytest.raises(ReadError, match="is UTF-16, by its first bytes: save"),
    ):
        source.next_line()


def test_gzip_is_known_by_its_content(tmp_path):
    for name, packed in (("plain.gz", False), ("packed", True)):
        put(tmp_path / name, b"1\n2\n", packed)
        with Source(str(tmp_path / name)) as source:
            assert list(source.lines()) == [(1, b"1"), (2, b"2")]


@pytest.mark.parametrize("change", ["cut", "flip", "more"])
def test_gzip_that_is_damaged(path, change):
    data = bytearray(gzip.compress(b"one line\n" * 1000))
    if change == "cut":
        del data[-9:]
    elif change == "flip":
        data[-8] ^= 1  # of the check sum
    else:
        data += b"more"
    put(path, bytes(data))
    match = "is a gzip file that is damaged or cut short, after line .*: download or copy"
    with Source(str(path)) as source, pytest.raises(ReadError, match=match):
        list(source.lines())


def test_a_line_without_end(path, monkeypatch):
    monkeypatch.setattr(module, "LONGEST_LINE", 1 << 20)
    put(path, b"1\n" + b"7" * (3 << 20))
    match = "line 2: is longer than 1048576 bytes"
    with Source(str(path)) as source, pytest.raises(ReadError, match=match):
        list(source.blocks())
    with Source(str(path)) as source:
        assert source.next_line() == b"1"
        with pytest.raises(ReadError, match=match):
            source.next_line()
    with Source(str(path)) as source:
        assert source.next_line() == b"1"
        with pytest.raises(ReadError, match=match):
            list(source.blocks())


def test_a_flood_of_blank_lines(path, monkeypatch):
    monkeypatch.setattr(module, "MOST_BLANK", 1 << 20)
    put(path, b"1\n" + b"\n" * (5 << 20))
    with Source(str(path)) as source, pytest.raises(ReadError, match="1048576 bytes are blank"):
        list(source.blocks())


def test_what_unpacks_to_far_too_much(path, monkeypatch):
    monkeypatch.setattr(module, "FREE", 1 << 20)
    put(path, b"1 1 1\n" * (1 << 20), packed=True)
    match = "unpacks to more than 500 times as many.*without compression"
    with Source(str(path)) as source, pytest.raises(ReadError, match=match):
        list(source.blocks())
    monkeypatch.setattr(module, "EXPANSION", 2000)
    with Source(str(path)) as source:
        assert sum(map(len, source.blocks())) == 6 << 20


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "hex", "nonsense", "", 8, "a\0b"])
def test_encodings_that_cannot_be(encoding):
    with pytest.raises(InvalidInputError, match="cannot be used: give the name of one that extend"):
        check_encoding(encoding)


def test_encodings():
    assert check_encoding(None) == "utf-8"
    assert check_encoding("Latin-1") == "iso8859-1"
    assert check_encoding("UTF8") == "utf-8"
    assert check_encoding("utf-8-sig") == "utf-8-sig"


def test_text_that_is_not_in_its_encoding(path):
    put(path, "a\nbé\n".encode("latin-1"))
    with Source(str(path)) as source, pytest.raises(ReadError, match="line 2: byte 2 of the line"):
        list(source.texts("utf-8"))
    with Source(str(path)) as source:
        assert list(source.texts("latin-1")) == [(1, "a"), (2, "bé")]


def test_what_is_not_a_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        check_regular(str(tmp_path / "missing"))
    with pytest.raises(ReadError, match="is a folder, and a file was expected"):
        check_regular(str(tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ReadError, match="pipe is a device, a pipe or a socket: give a file"):
        Source(str(tmp_path / "pipe"))
