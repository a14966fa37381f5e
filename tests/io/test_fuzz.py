"""Whatever is done to a file: it is read, or the error is ours, with the path in it."""

from __future__ import annotations

import gzip
import io
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import anndata
import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gapmf.errors import GapmfError
from gapmf.io import read
from io_files import SMALL, check, dense, mtx, mtx_array, npz, put, text, triplets, uci

N_FILES = 100  # of Parquet and of HDF5
MOST_CRASHES = 3
BOUND = 600  # MB of memory, above what Python and its libraries take

TOKENS = [
    *[b"\n", b"\r", b"\r\n", b" ", b"\t", b",", b";", b'"', b"\0", b"%", b"\xff", b"\xff\xfe"],
    *[b"\xef\xbb\xbf", b"-1", b"0", b"1", b"0.5", b"1e308", b"1e99999", b"nan", b"inf", b"+", b"."],
    *[b"2147483647", b"2147483648", b"9007199254740993", b"9" * 19, b"9" * 5000, b"0x10", b"1_0"],
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


RNG = st.randoms(use_true_random=False)


def attempt(path, data=None):
    if data is not None:
        put(path, data)
    try:
        said = check(read(path)) and str(path)
    except GapmfError as error:
        said = str(error)
    assert str(path) in said


@pytest.mark.parametrize("name", TEXTS)
@settings(max_examples=25)
@given(rng=RNG)
def test_texts(folder, name, rng):
    data = TEXTS[name].encode()
    attempt(folder / name, mutated(rng, data))
    attempt(folder / name, gzip.compress(mutated(rng, data), 1))
    attempt(folder / name, mutated(rng, gzip.compress(data, mtime=0)))


@given(rng=RNG)
def test_names(tmp_path_factory, rng):
    folder = tmp_path_factory.mktemp("names")
    put(folder / "matrix.mtx", mtx(SMALL))
    put(folder / "features.tsv", mutated(rng, b"ENSG1\tape\nENSG2\tbee\nENSG3\tcat\n"))
    put(folder / "barcodes.tsv", mutated(rng, b"AAA\nCCC\nGGG\n"))
    attempt(folder)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
@settings(max_examples=40)
@given(rng=RNG)
def test_npz(folder, kind, rng):
    """Damaged archives, and whole ones with damaged arrays."""
    attempt(folder / "a.npz", mutated(rng, npz(SMALL, kind, compressed=rng.random() < 0.5)))
    with zipfile.ZipFile(io.BytesIO(npz(SMALL, kind))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    head, tail = members[name][:128], members[name][128:]
    damaged = mutated(rng, tail)[: len(tail)].ljust(len(tail), b"\xff")
    members[name] = rng.choice([head + damaged, mutated(rng, members[name])])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    attempt(folder / "a.npz", file.getvalue())


SCRIPT = """
import resource, signal, sys, warnings
sys.path.insert(0, {here!r})
import anndata, pandas, pyarrow.parquet
from gapmf.errors import GapmfError
from gapmf.io import read
from io_files import check

warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
if sys.platform == "linux":
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + {bound} * 2**20,) * 2)
for path in sys.argv[1:]:
    print(path, flush=True)
    signal.alarm(5)
    try:
        check(read(path))
    except GapmfError as error:
        assert path in str(error), error
"""


def read_in_children(paths):
    """Read files in a child, which is started again when a library ended it; count these ends."""
    n_crashes = 0
    script = SCRIPT.format(here=str(Path(__file__).parents[1]), bound=BOUND)
    while paths:
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, paths)],
            capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
        assert done.returncode <= 0, done.stderr
        paths = paths[len(done.stdout.splitlines()) :]
        n_crashes += done.returncode != 0
        assert n_crashes <= MOST_CRASHES
    return n_crashes


def parquet(path):
    columns = {f"f{f}": SMALL[:, f] for f in range(3)}
    pl.DataFrame({"who": ["x", "y", "z"]} | columns).write_parquet(path)


def h5ad(path):
    anndata.AnnData(sp.csr_matrix(SMALL.astype(np.float32))).write_h5ad(path)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("write", [parquet, h5ad])
def test_parquet_and_hdf5(tmp_path, write):
    """Their libraries may end the process on a damaged file, or never come back."""
    rng = random.Random(0)
    write(tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    read_in_children(
        [
            put(tmp_path / f"{i}.{write.__name__}", mutated(rng, good) if i else good)
            for i in range(N_FILES)
        ]
    )


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_sizes_in_headers_take_no_memory(tmp_path):
    market = "%%MatrixMarket matrix {} integer {}\n"
    huge = io.BytesIO()
    sp.save_npz(huge, sp.coo_array(([1], ([0], [0])), shape=(2**31 - 1, 3)))
    files = {
        "docword.rows.txt": f"{2**31 - 1}\n5\n1\n1 1 1\n",
        "docword.entries.txt": f"5\n5\n{10**10}\n1 1 1\n",
        "docword.packed.txt": gzip.compress(f"5\n5\n{10**10}\n1 1 1\n".encode()),
        "array.mtx": market.format("array", "general") + "1000000 1000000\n1\n",
        "half.mtx": market.format("array", "symmetric") + "100000 100000\n1\n",
        "tall.mtx": market.format("coordinate", "general") + f"{2**31 - 1} 5 1\n1 1 1\n",
        "entries.mtx": market.format("coordinate", "symmetric") + f"3 3 {10**10}\n1 1 1\n",
        "shape.npz": huge.getvalue(),
    }
    assert read_in_children([put(tmp_path / name, data) for name, data in files.items()]) == 0
