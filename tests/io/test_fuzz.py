"""Whatever is done to a file: it is read, or the error is ours, with the path in it."""

from __future__ import annotations

import gzip
import io
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapmf.errors import GapmfError
from gapmf.io import read
from io_files import SMALL, check, dense, mtx, mtx_array, npz, put, text, triplets, uci


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


TOKENS = [
    *[b"\n", b"\r", b"\r\n", b" ", b"\t", b",", b";", b'"', b"\0", b"%", b"\xff", b"\xff\xfe"],
    *[b"\xef\xbb\xbf", b"-1", b"0", b"1", b"0.5", b"1e308", b"1e99999", b"nan", b"inf", b"+", b"."],
    *[b"2147483647", b"2147483648", b"9007199254740993", b"9" * 19, b"9" * 5000, b"0x10", b"1_0"],
    *[b"\xc3\xa9", b"\xe2\x80\xa8", b"\x1f\x8b", b"PK\3\4", b"symmetric", b"array", b"real"],
]


@st.composite
def mutated(draw, data):
    """A file that was flipped, cut, stretched, or is something else."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.binary(max_size=200))
    data = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        to = min(len(data), at + draw(st.integers(0, 12)))
        match draw(st.sampled_from(["flip", "cut", "delete", "token", "bytes", "again", "zero"])):
            case "flip" if at < len(data):
                data[at] ^= draw(st.integers(1, 255))
            case "cut":
                del data[at:]
            case "delete":
                del data[at:to]
            case "token":
                data[at : draw(st.sampled_from([at, to]))] = draw(st.sampled_from(TOKENS))
            case "bytes":
                data[at:to] = draw(st.binary(max_size=12))
            case "again":
                data[at:at] = data[at:to]
            case "zero":
                data[at:to] = bytes(to - at)
    return bytes(data)


def attempt(path, data):
    put(path, data)
    assert str(path) in _read(path)


def _read(path):
    """The path, if it was read, or what the error says."""
    try:
        table = read(path)
    except GapmfError as error:
        return str(error)
    check(table)
    return str(path)


TEXTS = {
    "docword.a.txt": uci(SMALL),
    "any.txt": uci(SMALL),
    "a.mtx": mtx(SMALL),
    "real.mtx": mtx(SMALL, "real").replace("12", "1.2e1"),
    "array.mtx": mtx_array(SMALL),
    "half.mtx": "%%MatrixMarket matrix array integer symmetric\n2 2\n1\n2\n3\n",
    "mirror.mtx": "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n",
    "dense.csv": dense(SMALL),
    "plain.csv": "a,b\n1,2\n3,4\n",
    "quoted.csv": '"a","b ""c"""\n"x",1,2\n"y, z",3,4.0\n',
    "triplets.csv": triplets(SMALL),
    "dense.tsv": dense(SMALL, "\t"),
    "words.txt": text(SMALL),
}


@pytest.mark.parametrize("name", TEXTS)
@settings(max_examples=120)
@given(data=st.data())
def test_texts(folder, name, data):
    attempt(folder / name, data.draw(mutated(TEXTS[name].encode())))


@pytest.mark.parametrize("name", ["docword.a.txt", "a.mtx", "dense.csv", "words.txt"])
@given(data=st.data())
def test_packed_texts(folder, name, data):
    """Packed after and before it was changed."""
    packed = gzip.compress(TEXTS[name].encode(), mtime=0)
    attempt(folder / f"{name}.gz", data.draw(mutated(packed)))
    attempt(folder / f"{name}.gz", gzip.compress(data.draw(mutated(TEXTS[name].encode())), 1))


@given(data=st.data())
def test_names(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("names")
    put(folder / "matrix.mtx", mtx(SMALL))
    put(folder / "features.tsv", data.draw(mutated(b"ENSG1\tape\nENSG2\tbee\nENSG3\tcat\n")))
    put(folder / "barcodes.tsv", data.draw(mutated(b"AAA\nCCC\nGGG\n")))
    assert str(folder) in _read(folder)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
@given(data=st.data())
def test_npz(folder, kind, data):
    attempt(folder / "a.npz", data.draw(mutated(npz(SMALL, kind))))
    attempt(folder / "a.npz", data.draw(mutated(npz(SMALL, kind, compressed=False))))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
@settings(max_examples=120)
@given(data=st.data())
def test_npz_with_right_check_sums(folder, kind, data):
    with zipfile.ZipFile(io.BytesIO(npz(SMALL, kind))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(data.draw(st.integers(1, 2))):
        name = data.draw(st.sampled_from(sorted(members)))
        if data.draw(st.booleans()):
            members[name] = data.draw(mutated(members[name]))
        else:  # what is behind the header alone
            head, tail = members[name][:128], members[name][128:]
            members[name] = head + data.draw(mutated(tail))[: len(tail)].ljust(len(tail), b"\xff")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    attempt(folder / "a.npz", file.getvalue())
