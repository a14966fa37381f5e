"""Folders of shards: what is written is read back, by gapmf and by others, or refused by name."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise

import anndata
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import io_files
from gapmf import open_shards, read, write_shards
from gapmf.csr import content_digest
from gapmf.errors import InvalidInputError, ReadError
from gapmf.io import shards as shard_files
from gapmf.io import streams
from gapmf.io.count_blocks import BackedCounts, summarise
from gapmf.io.shards import ShardWriter
from io_files import put


def counts(N=60, F=7, seed=0):
    """Empty rows at the start, in the middle and at the end; an empty column; a large count."""
    X = np.random.default_rng(seed).poisson(0.7, (N, F))
    X[[0, 1, N // 2, N - 1]] = 0
    X[:, 3] = 0
    X[5, 2] = 2**40
    return X


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    X = counts()
    frame = pd.DataFrame(X, [f"s{n}" for n in range(60)], [f"f{f}" for f in range(7)])
    frame.index.name = "sample"
    path = tmp_path_factory.mktemp("shards")
    frame.to_csv(path / "counts.csv")
    return write_shards(path / "counts.csv", path / "out", shard_tokens=40)


def test_shards_hold_what_was_written(folder):
    found, X = open_shards(folder), counts()
    assert found.shape == X.shape
    assert found.n_blocks > 2
    blocks = list(found)
    np.testing.assert_array_equal(sp.vstack(blocks).toarray(), X)
    assert all(block.dtype == np.int64 and block.has_canonical_format for block in blocks)
    assert found.starts.tolist() == np.cumsum([0, *(b.shape[0] for b in blocks)]).tolist()
    table = read(folder)
    np.testing.assert_array_equal(table.counts.toarray(), X)
    assert table.feature_names.tolist() == [f"f{f}" for f in range(7)]
    assert table.sample_names.tolist() == [f"s{n}" for n in range(60)]
    whole = summarise(sp.csr_array(X))
    assert found.summary.digest == whole.digest
    assert found.summary.largest == X.sum(axis=1).max()
    np.testing.assert_array_equal(found.summary.totals, X.sum(axis=0))


def test_other_tools_read_them(folder):
    """One row per sample: its name, its features, their counts."""
    frame = pl.read_parquet(folder / "*.parquet")
    assert frame.columns == ["sample", "features", "counts"]
    long = frame.explode("features", "counts").drop_nulls()
    n = long["sample"].str.slice(1).cast(pl.Int64).to_numpy()
    again = np.zeros((60, 7), dtype=np.int64)
    again[n, long["features"].to_numpy()] = long["counts"].to_numpy()
    np.testing.assert_array_equal(again, counts())


@given(
    cuts=st.lists(st.integers(0, 60), max_size=5),
    shard_tokens=st.integers(1, 400),
    rows=st.integers(1, 70),
)
@settings(max_examples=15, deadline=None)
def test_where_shards_end_does_not_depend_on_portions(tmp_path_factory, cuts, shard_tokens, rows):
    X = sp.csr_array(np.minimum(counts(), 9))
    path = tmp_path_factory.mktemp("portions")
    ends = [0, *sorted(cuts), 60]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_files, "MAX_ROWS", rows)
        for name, portions in (("a", [0, 60]), ("b", ends)):
            with ShardWriter(path / name, 7, shard_tokens=shard_tokens) as writer:
                for first, last in pairwise(portions):
                    writer.add(X[first:last])
    a, b = (json.loads((path / name / "manifest.json").read_text()) for name in "ab")
    assert a == b
    sizes = [part["n_samples"] for part in a["shards"]]
    assert max(sizes) <= rows
    starts = np.cumsum([0, *sizes])
    tokens = np.asarray(X.sum(axis=1))
    for first, last in pairwise(starts):
        assert tokens[first : last - 1].sum() < shard_tokens  # without its last sample
    shutil.rmtree(path)


@given(cut=st.integers(0, 12), change=st.tuples(st.integers(0, 11), st.integers(0, 3)))
@settings(max_examples=30, deadline=None)
def test_the_digest_adds_up_and_sees_every_change(cut, change):
    X = np.random.default_rng(0).poisson(0.5, (12, 4))
    whole = content_digest(sp.csr_array(X))
    parts = [content_digest(sp.csr_array(X[:cut]), 0), content_digest(sp.csr_array(X[cut:]), cut)]
    assert parts[0] + parts[1] == parts[1] + parts[0] == whole
    X[change] += 1
    assert content_digest(sp.csr_array(X)) != whole
    X[change] -= 1
    assert content_digest(sp.csr_array(np.roll(X, 1, axis=0))) != whole


def _files(path, X):
    """The same counts in files of every format that is streamed."""
    put(path / "docword.a.txt.gz", io_files.uci(X), packed=True)
    put(path / "vocab.a.txt", "\n".join(io_files.feature_names(X)))
    put(path / "a.mtx", io_files.mtx(X, "real"))
    scipy.io.mmwrite(path / "turned.mtx", sp.coo_array(sp.csc_array(X.T)))
    frame = pd.DataFrame(X, io_files.sample_names(X), io_files.feature_names(X))
    frame.to_csv(path / "named.csv")
    frame.to_csv(path / "plain.tsv", sep="\t", index=False)
    anndata.AnnData(sp.csr_matrix(X.astype(float)), frame.iloc[:, :0]).write_h5ad(path / "a.h5ad")
    anndata.AnnData(X.astype(float), frame.iloc[:, :0]).write_h5ad(path / "dense.h5ad")


@pytest.fixture(scope="module")
def small_files(tmp_path_factory):
    path = tmp_path_factory.mktemp("streamed")
    _files(path, np.minimum(counts(), 1000))
    return path


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("docword.a.txt.gz", {}),
        ("a.mtx", {}),
        ("turned.mtx", {"transpose": True}),
        ("named.csv", {}),
        ("plain.tsv", {}),
        ("a.h5ad", {}),
        ("dense.h5ad", {}),
    ],
)
def test_files_are_streamed(small_files, name, options, tmp_path, monkeypatch):
    """In small chunks, and never read as a whole: `read` is not called."""
    monkeypatch.setattr(streams, "CHUNK_LINES", 7)
    monkeypatch.setattr("gapmf.io.dataframes._CHUNK_CELLS", 30)
    monkeypatch.setattr("gapmf.io.count_blocks.BLOCK_ENTRIES", 20)
    monkeypatch.setattr(streams, "read", None)
    write_shards(small_files / name, tmp_path / "out", shard_tokens=50, **options)
    found, expected = read(tmp_path / "out"), read(small_files / name, **options)
    np.testing.assert_array_equal(found.counts.toarray(), expected.counts.toarray())
    for a, b in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "a.mtx",
            "%%MatrixMarket matrix coordinate integer general\n2 2 2\n2 1 1\n1 1 1\n",
            "sort",
        ),
        ("docword.a.txt", "2\n2\n2\n2 1 1\n1 1 1\n", "not sorted by sample"),
        ("a.csv", "doc,word,count\n2,a,1\n1,b,1\n", "triplets may be in any order"),
        ("a.txt", "ape bee\nape ape\n", "'text' with these options has no streaming reader"),
    ],
)
def test_what_cannot_be_streamed_is_read_and_said(tmp_path, name, content, said):
    path = put(tmp_path / name, content)
    with pytest.warns(UserWarning, match=f"read into memory as a whole, because .*{said}"):
        write_shards(path, tmp_path / "out")
    np.testing.assert_array_equal(
        read(tmp_path / "out").counts.toarray(), read(path).counts.toarray()
    )


@pytest.mark.filterwarnings("ignore:.* is read into memory as a whole")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("2\n2\n2\n1 1 1\n1 x 1\n", "line 5"),
        ("2\n2\n2\n1 1 1\n1 3 1\n", "line 5"),
        ("2\n2\n2\n1 1 1\n1 2 0.5\n", r"X\[0, 1\] is 0.5"),
        ("2\n2\n3\n1 1 1\n1 2 1\n", "has 2 entries"),
        ("2\n2\n2\n1 1 1 7\n1 2 1\n", "line 4"),
    ],
)
def test_errors_in_streamed_files_name_the_place(tmp_path, content, said):
    path = put(tmp_path / "docword.a.txt", content)
    with pytest.raises(ReadError, match=said):
        write_shards(path, tmp_path / "out")
    assert [file.name for file in tmp_path.iterdir()] == ["docword.a.txt"]  # nothing half-written


def test_the_folder_must_be_new(tmp_path, folder):
    for path in (folder, folder / "manifest.json"):
        with pytest.raises(InvalidInputError, match="exists: remove it"):
            write_shards([[1]], path)
    with pytest.raises(InvalidInputError, match="there is no folder"):
        write_shards([[1]], tmp_path / "a" / "b")
    (tmp_path / "empty").mkdir()
    assert read(write_shards([[1]], tmp_path / "empty")).counts.toarray().tolist() == [[1]]


def _copy(folder, tmp_path, **changes):
    path = tmp_path / "copy"
    shutil.copytree(folder, path)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | changes))
    return path


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "other"}, "its format is 'other'"),
        ({"version": 2}, "upgrade gapmf"),
        ({"n_samples": 61}, "add up to"),
        ({"shards": []}, "add up to"),
        ({"feature_names": ["a"]}, "1 names of 7 features"),
        ({"digest": None}, "is wrong"),
        ({"feature_totals": "many"}, "is wrong"),
    ],
)
def test_a_manifest_that_is_wrong(folder, tmp_path, changes, said):
    with pytest.raises(ReadError, match=rf"manifest\.json .*{said}"):
        open_shards(_copy(folder, tmp_path, **changes))


def test_a_manifest_that_names_files_elsewhere(folder, tmp_path):
    parts = json.loads((folder / "manifest.json").read_text())["shards"]
    parts[0]["file"] = "../00000.parquet"
    with pytest.raises(ReadError, match="not the name of a shard"):
        open_shards(_copy(folder, tmp_path, shards=parts))
    with pytest.raises(ReadError, match="has no manifest"):
        open_shards(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_shards(tmp_path / "missing")


def test_shards_that_are_damaged_are_named(folder, tmp_path):
    path = _copy(folder, tmp_path)
    found = open_shards(path)
    content = (path / "00001.parquet").read_bytes()
    (path / "00001.parquet").write_bytes(content[:-1] + b"x")
    with pytest.raises(ReadError, match=r"00001\.parquet does not match its checksum"):
        list(found)
    (path / "00001.parquet").unlink()
    with pytest.raises(ReadError, match=r"00001\.parquet cannot be read .*shard 1 of"):
        list(found)


@pytest.mark.parametrize(
    ("features", "values"),
    [([[9]], [[1]]), ([[1, 0]], [[1, 1]]), ([[0]], [[0]]), ([[0], []], [[1], []])],
)
def test_shards_that_are_no_counts_are_refused(tmp_path, features, values):
    """The kernels trust their places: what has the right checksum may still be wrong."""
    import hashlib

    import pyarrow as pa
    import pyarrow.parquet as pq

    path = write_shards([[1, 0]], tmp_path / "out")
    pq.write_table(
        pa.table({
            "features": pa.array(features, pa.list_(pa.int32())),
            "counts": pa.array(values, pa.list_(pa.int32())),
        }),
        path / "00000.parquet",
    )  # fmt: skip
    manifest = json.loads((path / "manifest.json").read_text())
    content = (path / "00000.parquet").read_bytes()
    manifest["shards"][0]["sha256"] = hashlib.sha256(content).hexdigest()
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ReadError, match=r"00000\.parquet is not a shard of 1 samples"):
        open_shards(path).block(0)


def test_backed_anndata_in_blocks(small_files, monkeypatch):
    monkeypatch.setattr("gapmf.io.count_blocks.BLOCK_ENTRIES", 20)
    for name in ("a.h5ad", "dense.h5ad"):
        found = BackedCounts(anndata.read_h5ad(small_files / name, backed="r"))
        assert found.n_blocks > 2
        expected = read(small_files / name).counts.toarray()
        np.testing.assert_array_equal(sp.vstack(list(found)).toarray(), expected)
        assert found.summary.digest == summarise(sp.csr_array(expected)).digest
