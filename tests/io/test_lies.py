"""Files that promise, or unpack to, more than there is: an error, not all the memory."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from gapmf.errors import ReadError
from gapmf.io import read
from io_files import check, put

MARKET = "%%MatrixMarket matrix {} integer {}\n"
BOUND = 400  # MB above what Python and its libraries take

SCRIPT = """
import resource, sys
from gapmf.errors import ReadError
from gapmf.io import read
import sklearn.feature_extraction.text

with open("/proc/self/statm") as file:
    taken = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + {bound} * 2**20,) * 2)
for path in sys.argv[1:]:
    try:
        read(path)
    except ReadError as error:
        print(str(error).removeprefix(path))
    else:
        print("was read")
"""


def _huge_npz(shape, kind="coo"):
    file = io.BytesIO()
    sp.save_npz(file, sp.coo_array(([1], ([0], [0])), shape=shape).asformat(kind))
    return file.getvalue()


def _lying_npz():
    """A directory and a header that agree on a terabyte."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        with zipfile.ZipFile(io.BytesIO(_huge_npz((2, 2)))) as good:
            for name in good.namelist():
                archive.writestr(name, good.read(name))
        size = archive.infolist()[-1].file_size
    data, old = file.getvalue(), np.uint32(size).tobytes()
    at = data.rindex(b"PK\1\2") + 24
    assert data[at : at + 4] == old
    return data[:at] + np.uint32(2**32 - 2).tobytes() + data[at + 4 :]


def _zeros_npz():
    """Real zeros, and many of them, in a small file."""
    header = {"descr": "<i8", "fortran_order": False, "shape": (1 << 25,)}
    file, start = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(start, header)
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("data.npy", "w") as member,
    ):
        member.write(start.getvalue())
        for _ in range(256):
            member.write(bytes(1 << 20))
    return file.getvalue()


def _bomb(head, piece, n_pieces=40):
    """Eight megabytes again and again: gzip files may follow one another."""
    repeated = gzip.compress(piece * ((8 << 20) // len(piece)))
    return gzip.compress(head) + repeated * n_pieces


def lies():
    """Files by name, and what is said of them."""
    return {
        "docword.rows.txt": (f"{10**12}\n5\n1\n1 1 1\n", "N is 1000000000000, and 2147483647"),
        "docword.words.txt": (f"5\n{10**18}\n1\n1 1 1\n", "line 2: expected F"),
        "docword.few.txt": (f"{2**31 - 1}\n5\n1\n1 1 1\n", "has only 1 counts above 0: its header"),
        "docword.wide.txt": (
            f"5\n{2**31 - 1}\n1\n1 1 1\n",
            "is to have 2147483647 features, but has",
        ),
        "docword.entries.txt": (
            f"5\n5\n{10**15}\n1 1 1\n",
            "with 1 of the 1000000000000000 entries",
        ),
        "array.mtx": (
            MARKET.format("array", "general") + "1000000 1000000\n1\n",
            "1 of the 1000000000",
        ),
        "half.mtx": (
            MARKET.format("array", "symmetric") + "1000000 1000000\n1\n",
            "1 of the 50000050",
        ),
        "tall.mtx": (
            MARKET.format("coordinate", "general") + f"{2**31 - 1} {2**31 - 1} 1\n1 1 1\n",
            "is to have 2147483647 samples",
        ),
        "entries.mtx": (
            MARKET.format("coordinate", "symmetric") + f"3 3 {10**17}\n1 1 1\n",
            "with 1 of the 100000000000000000 entries",
        ),
        "shape.npz": (_huge_npz((2**31 - 1, 3)), "is to have 2147483647 samples"),
        "wide.npz": (_huge_npz((3, 2**31 - 1), "csr"), "is to have 2147483647 features"),
        "directory.npz": (_lying_npz(), "unpacks to more than 500 times"),
        "zeros.npz": (_zeros_npz(), "unpacks to more than 500 times"),
        "blank.csv.gz": (_bomb(b"a,b\n1,2\n", b"\n"), "2097152 bytes are blank lines"),
        "docword.blank.txt.gz": (_bomb(b"1\n1\n0\n", b"\n"), "2097152 bytes are blank lines"),
        "blank.txt.gz": (_bomb(b"one\n", b"\r\n"), "2097152 bytes are blank lines"),
        "blank.mtx.gz": (
            _bomb(MARKET.format("array", "general").encode(), b"%\n"),
            "is still a comment: where is the size",
        ),
        "line.csv.gz": (_bomb(b"", b"1"), "line 1: is longer than 33554432 bytes"),
        "line.txt.gz": (_bomb(b"1\n2\n", b" "), "line 3: is longer than 33554432 bytes"),
        "docword.line.txt.gz": (_bomb(b"1\n1\n1\n", b"1"), "line 4: is longer than 33554432 bytes"),
        "docword.ones.txt.gz": (
            _bomb(b"1\n1\n5\n", b"1 1 1\n"),
            "line 9: is entry 6, but the header",
        ),
    }


def test_lies_take_no_memory(tmp_path):
    if not sys.platform.startswith("linux"):
        pytest.skip("limits of memory are those of Linux")
    cases = lies()
    paths = [put(tmp_path / name, data) for name, (data, _) in cases.items()]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(bound=BOUND), *map(str, paths)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(said) == len(paths)
    for line, (name, (_, expected)) in zip(said, cases.items(), strict=True):
        assert expected in line, name


def test_what_is_large_but_true_is_read(tmp_path):
    """Many samples without counts, and much that packs well."""
    path = put(tmp_path / "docword.a.txt", "3000000\n9000000\n1\n2999999 9000000 1\n")
    assert check(read(path)).counts.shape == (3_000_000, 9_000_000)
    rows = b"0,0,0,0,0,0,0,1\n" * 20_000
    path = put(tmp_path / "a.csv", b"a,b,c,d,e,f,g,h\n" + rows, packed=True)
    assert check(read(path)).counts.sum() == 20_000


def test_ones_without_end(tmp_path, monkeypatch):
    """The header agrees with them, and yet they are too many for so small a file."""
    monkeypatch.setattr("gapmf.io.source.FREE", 1 << 20)
    data = _bomb(b"1\n1\n" + b"9" * 12 + b"\n", b"1 1 1\n", 1)
    with pytest.raises(ReadError, match="unpacks to more than 500 times as many"):
        read(put(tmp_path / "docword.a.txt", data))
