"""Small files of counts, written by hand: what the readers are tested with."""

from __future__ import annotations

import gzip
import io

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gapmf.io import read

SMALL = np.array([[0, 2, 1], [0, 0, 0], [5, 0, 12]])

MATRICES = hnp.arrays(
    np.int64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=5),
    elements=st.integers(0, 3) | st.sampled_from([0, 0, 10, 2**45]),
)


def put(path, data, packed=False):
    """Write text or bytes, packed by gzip or not, and say where."""
    data = data.encode() if isinstance(data, str) else data
    path.write_bytes(gzip.compress(data, mtime=0) if packed else data)
    return path


def feature_names(X):
    return [f"f{f}" for f in range(X.shape[1])]


def sample_names(X):
    return [f"s{n}" for n in range(X.shape[0])]


def entries(X):
    """The counts above 0: row, column, count, from 0."""
    return [(n, f, int(X[n, f])) for n, f in zip(*np.nonzero(X), strict=True)]


def uci(X):
    lines = [f"{n + 1} {f + 1} {v}" for n, f, v in entries(X)]
    return "\n".join([*map(str, X.shape), str(len(lines)), *lines, ""])


def mtx(X, field="integer"):
    lines = [f"{n + 1} {f + 1} {v}" for n, f, v in entries(X)]
    head = f"%%MatrixMarket matrix coordinate {field} general\n% by hand\n"
    return head + "\n".join([f"{X.shape[0]} {X.shape[1]} {len(lines)}", *lines, ""])


def mtx_array(X):
    lines = [str(v) for v in X.T.reshape(-1)]
    head = f"%%MatrixMarket matrix array integer general\n{X.shape[0]} {X.shape[1]}\n"
    return head + "\n".join([*lines, ""])


def dense(X, delimiter=","):
    rows = [["", *feature_names(X)]]
    rows += [[name, *map(str, row)] for name, row in zip(sample_names(X), X, strict=True)]
    return "".join(delimiter.join(row) + "\n" for row in rows)


def triplets(X, delimiter=","):
    rows = [("sample", "feature", "count"), *((f"s{n}", f"f{f}", v) for n, f, v in entries(X))]
    return "".join(delimiter.join(map(str, row)) + "\n" for row in rows)


def npz(X, kind="csr", **options):
    file = io.BytesIO()
    sp.save_npz(file, sp.coo_array(X).asformat(kind), **options)
    return file.getvalue()


def text(X):
    return "".join(" ".join(f"word{f} " * v for f, v in enumerate(row)) + ".\n" for row in X)


def check(table, X=None):
    """What every table is, and that this one holds X."""
    counts, features, samples = table
    assert isinstance(counts, sp.csr_array)
    assert counts.dtype == np.int64
    assert counts.has_canonical_format
    assert (counts.data > 0).all()
    counts.check_format(full_check=True)
    for names, side in ((samples, 0), (features, 1)):
        if names is not None:
            assert names.dtype == object
            assert names.shape == (counts.shape[side],)
            assert all(type(name) is str for name in names)
    if X is not None:
        np.testing.assert_array_equal(counts.toarray(), X)
    return table


def names(table):
    """The names of features and of samples, as lists."""
    return [None if part is None else part.tolist() for part in table[1:]]


def gives(X, path, **options):
    """Read a file, which must hold X."""
    return check(read(path, **options), X)
