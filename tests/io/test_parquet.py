"""Parquet files, by polars and by pyarrow."""

from __future__ import annotations

import importlib.util

import numpy as np
import polars as pl
import pytest
from hypothesis import given

from gapmf.errors import InvalidInputError, ReadError
from gapmf.io import frames, read
from io_files import MATRICES, SMALL, check, entries, feature_names, gives, put, sample_names

needs_arrow = pytest.mark.skipif(
    importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed"
)
LIBRARIES = ["polars", pytest.param("pyarrow", marks=needs_arrow)]


@pytest.fixture(scope="module", params=LIBRARIES)
def path(request, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "find_spec", lambda name: True if name == request.param else None)
        yield tmp_path_factory.mktemp("parquet") / "a[1]*.parquet"  # no pattern


def frame(X):
    columns = {name: X[:, f] for f, name in enumerate(feature_names(X))}
    return pl.DataFrame({"who": sample_names(X)} | columns)


def names(table):
    return [None if part is None else part.tolist() for part in table[1:]]


@given(X=MATRICES)
def test_round_trip(path, X):
    frame(X).write_parquet(path)
    assert names(gives(X, path)) == [feature_names(X), sample_names(X)]
    assert names(gives(X.T, path, transpose=True)) == [sample_names(X), feature_names(X)]
    frame(X).drop("who").write_parquet(path)
    assert names(gives(X, path)) == [feature_names(X), None]


@given(X=MATRICES)
def test_round_trip_of_triplets(path, X):
    rows = [(f"s{n}", f"f{f}", v) for n, f, v in entries(X)]
    schema = {"word": pl.String, "count": pl.Int64, "doc": pl.String}
    pl.DataFrame([(f, v, n) for n, f, v in rows], schema=schema, orient="row").write_parquet(path)
    counts, features, samples = check(read(path))
    found = np.zeros_like(X)
    places = np.ix_([int(name[1:]) for name in samples], [int(name[1:]) for name in features])
    found[places] = counts.toarray()
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt16, pl.Int64, pl.UInt64, pl.Float32, pl.Float64])
def test_dtypes(path, dtype):
    frame(SMALL).with_columns(pl.col("f0", "f1", "f2").cast(dtype)).write_parquet(path)
    gives(SMALL, path)


def test_other_columns(path):
    bools = frame(SMALL > 0).with_columns(pl.col("who").cast(pl.Categorical))
    bools.write_parquet(path)
    assert names(gives(SMALL > 0, path))[1] == sample_names(SMALL)
    frame(SMALL).rename({"f1": "__index_level_0__"}).drop("who").write_parquet(path)
    table = gives(SMALL[:, [0, 2]], path)
    assert names(table) == [["f0", "f2"], ["2", "0", "0"]]


def test_names_with_dots(path):
    """Which could also be names of what is nested."""
    pl.DataFrame({"a": [1], "a.b": [2], "a.b.c": [3], "b": [4]}).write_parquet(path)
    assert names(gives([[1, 2, 3, 4]], path)) == [["a", "a.b", "a.b.c", "b"], None]


def test_in_several_loads(path, monkeypatch):
    monkeypatch.setattr("gapmf.io.parquet._BATCH_CELLS", 4)
    frame(SMALL).write_parquet(path)
    gives(SMALL, path)


def test_empty_tables(path):
    frame(SMALL).clear().write_parquet(path)
    assert check(read(path)).counts.shape == (0, 3)
    schema = {"sample": pl.Int64, "feature": pl.Int64, "count": pl.Int64}
    pl.DataFrame(schema=schema).write_parquet(path)
    assert check(read(path)).counts.shape == (0, 0)
    assert check(read(path, layout="dense")).counts.shape == (0, 3)


def test_triplets_by_number_or_by_order(path):
    pl.DataFrame({"row": [7, 7, 9], "col": [1, 2, 1], "n": [3.0, 1.0, 2.0]}).write_parquet(path)
    assert names(gives([[3, 1], [2, 0]], path)) == [["1", "2"], ["7", "9"]]
    pl.DataFrame({"u": ["x"], "v": ["a"], "w": [3]}).write_parquet(path)
    assert names(gives([[3]], path, layout="triplets")) == [["a"], ["x"]]


@pytest.mark.parametrize(
    ("columns", "options", "match"),
    [
        ({"a": [1, 2], "b": [1.0, 0.5]}, {}, r"column 'b' has 0.5 in row 1 \(from 0\): expected a"),
        ({"a": [1, -2]}, {}, "column 'a' has -2 in row 1"),
        ({"a": [1, None]}, {}, r"column 'a' has no value in row 1 \(from 0\): fill or drop"),
        ({"a": [1.0, float("nan")]}, {}, "column 'a' has nan in row 1"),
        ({"a": [1, 2**53 + 1]}, {}, "column 'a' has 9007199254740993 in row 1"),
        ({"a": [[1], [2]]}, {}, "column 'a' is of type .*: expected whole numbers; convert or dro"),
        ({"a": ["x"], "b": ["y"], "c": [1]}, {}, "has 2 columns of names, .*'a', 'b'.*: leave one"),
        ({"a": ["x"]}, {}, "has no column of counts"),
        ({"a": ["x", None], "b": [1, 2]}, {}, "column 'a' has no value in row 1"),
        ({"doc": ["x"], "word": [None], "n": [1]}, {}, "column 'word' has no value in row 0"),
        ({"doc": ["x"], "word": ["y"], "n": ["1"]}, {}, "column 'n' is of type"),
        ({"doc": ["x"], "word": ["y"], "n": [-1]}, {}, "column 'n' has -1 in row 0"),
        ({"a": [1]}, {"layout": "triplets"}, "has 1 columns: triplets have three"),
    ],
)
def test_what_is_wrong_and_where(path, columns, options, match):
    pl.DataFrame(columns, strict=False).write_parquet(path)
    with pytest.raises(ReadError, match=match) as caught:
        read(path, **options)
    assert str(path) in str(caught.value)


def test_triplets_have_their_own_orientation(path):
    pl.DataFrame({"doc": ["x"], "word": ["y"], "n": [1]}).write_parquet(path)
    with pytest.raises(InvalidInputError, match="transpose is for dense tables"):
        read(path, transpose=True)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(40), b"1,2\n"])
def test_what_is_no_parquet(path, data):
    with pytest.raises(ReadError, match=r"cannot be read as Parquet .*: is it whole"):
        read(put(path, data))


def test_a_flood_of_equal_counts(path, monkeypatch):
    """Ones without end take next to no room in a file: they are refused before they take ours."""
    monkeypatch.setattr("gapmf.io.source.FREE", 1 << 20)
    pl.DataFrame({"a": np.ones(500_000, dtype=np.int8)}).write_parquet(path)
    with pytest.raises(ReadError, match="unpacks to more than 500 times as many, at least 4000000"):
        read(path)
    pl.DataFrame({f"f{f}": np.ones(90_000, dtype=np.int8) for f in range(9)}).write_parquet(path)
    with pytest.raises(
        ReadError, match="unpacks to more than 500 times as many, at least 12960000"
    ):
        read(path)


def test_without_a_library(path, monkeypatch):
    frame(SMALL).write_parquet(path)
    monkeypatch.setattr(frames, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match="need the package pyarrow or polars: pip install pya"):
        read(path)
