"""Whatever is done to a file: it is read, or the error is ours, with the path in it."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapmf.errors import GapmfError
from gapmf.io import read
from io_files import SMALL, check, dense, mtx, mtx_array, npz, put, text, triplets, uci

TOKENS = [
    *[b"\n", b"\r", b"\r\n", b" ", b"\t", b",", b";", b'"', b"\0", b"%", b"\xff", b"\xff\xfe"],
    *[b"\xef\xbb\xbf", b"-1", b"0", b"1", b"0.5", b"1e308", b"1e99999", b"nan", b"inf", b"+", b"."],
    *[b"\xc3\xa9", b"\xe2\x80\xa8", b"\x1f\x8b", b"PK\3\4", b"symmetric", b"array", b"real"],
]
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def mutated(rng, data):
    """A file that was flipped, cut, stretched, or is something else."""
    if rng.randrange(20) == 0:
        return rng.randbytes(rng.randrange(200))
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(data))
        to = min(len(data), at + rng.randint(0, 12))
        match rng.randrange(8):
            case 0 | 1 if at < len(data):
                data[at] ^= rng.randint(1, 255)
            case 2:
                del data[at:]
            case 3:
                del data[at:to]
            case 4:
                data[at : rng.choice([at, to])] = rng.choice(TOKENS)
            case 5:
                data[at:to] = rng.randbytes(12)
            case 6:
                data[at:at] = data[at:to]
            case 7:
                data[at:to] = bytes([rng.choice([0, 255])]) * (to - at)
    return bytes(data)


def attempt(path, data=None):
    if data is not None:
        put(path, data)
    try:
        said = check(read(path)) and str(path)
    except GapmfError as error:
        said = str(error)
    assert str(path) in said


@pytest.mark.parametrize("name", TEXTS)
@settings(max_examples=8)
@given(rng=st.randoms(use_true_random=False))
def test_texts(folder, name, rng):
    data = TEXTS[name].encode()
    attempt(folder / name, mutated(rng, data))
    attempt(folder / name, gzip.compress(mutated(rng, data), 1))
    attempt(folder / name, mutated(rng, gzip.compress(data, mtime=0)))


@settings(max_examples=30)
@given(rng=st.randoms(use_true_random=False), kind=st.sampled_from(["csr", "coo", "dia"]))
def test_npz(folder, rng, kind):
    attempt(folder / "a.npz", mutated(rng, npz(SMALL, kind)))
