"""Parquet and HDF5 are parsed by libraries: whatever these raise on a damaged file becomes ours.

A library may also end the process, or never come back; Python cannot prevent that. So damaged
files are read in a child, which is started again when it was ended by a signal.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import anndata
import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from io_files import SMALL

N_FILES = 150
MOST_CRASHES = 3

SCRIPT = """
import resource, signal, sys, warnings
sys.path.insert(0, {here!r})
from gapmf.errors import GapmfError
from gapmf.io import read
from io_files import check

warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for path in sys.argv[1:]:
    print(path, flush=True)
    signal.alarm(5)
    try:
        check(read(path))
    except GapmfError as error:
        assert path in str(error), error
"""


def mutated(rng, data):
    """A file that was flipped, cut, stretched or overwritten."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(data))
        to = min(len(data), at + rng.randint(0, 12))
        match rng.randrange(7):
            case 0 | 1 | 2 if at < len(data):
                data[at] ^= rng.randint(1, 255)
            case 3:
                del data[at:to]
            case 4:
                data[at:to] = rng.randbytes(to - at)
            case 5:
                data[at:to] = bytes([rng.choice([0, 255])]) * (to - at)
            case 6:
                del data[rng.choice([at, len(data) - 1, len(data)]) :]
    return bytes(data)


def parquet(path):
    columns = {f"f{f}": SMALL[:, f] for f in range(3)}
    pl.DataFrame({"who": ["x", "y", "z"]} | columns).write_parquet(path)


def h5ad(path):
    anndata.AnnData(sp.csr_matrix(SMALL.astype(np.float32))).write_h5ad(path)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("write", [parquet, h5ad])
def test_damaged_files(tmp_path, write):
    rng = random.Random(0)
    write(tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    paths = []
    for i in range(N_FILES):
        paths.append(str(tmp_path / f"{i}.{write.__name__}"))
        Path(paths[-1]).write_bytes(mutated(rng, good) if i else good)
    n_crashes = 0
    while paths:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(here=str(Path(__file__).parents[1])), *paths],
            capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
        assert done.returncode <= 0, done.stderr
        paths = paths[len(done.stdout.splitlines()) :]
        n_crashes += done.returncode != 0
        assert n_crashes <= MOST_CRASHES
