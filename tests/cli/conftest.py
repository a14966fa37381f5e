"""A small model, and the same counts in a file of every format."""

from __future__ import annotations

import warnings

import anndata
import numpy as np
import pandas as pd
import polars as pl
import pytest
from commands import FIT, gapmf

from gapmf import write_shards
from io_files import dense, entries, feature_names, mtx, npz, put, sample_names, triplets, uci


@pytest.fixture(scope="session")
def X():
    """Counts; the first sample has all features, so that these first appear in their order."""
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.5, 4.0, (10, 2)) @ rng.gamma(0.5, 2.0, (2, 5)))
    X[0] += 1
    X[:, 0] += 1
    return X


@pytest.fixture(scope="session")
def files(tmp_path_factory, X):
    """A folder with X in every format."""
    folder = tmp_path_factory.mktemp("formats")
    features, samples = feature_names(X), sample_names(X)
    lines = "".join(f"{name}\n" for name in features)
    put(folder / "docword.zoo.txt", uci(X))
    put(folder / "docword.packed.txt.gz", uci(X), packed=True)
    for name in ("vocab.zoo.txt", "vocab.packed.txt"):
        put(folder / name, lines)
    put(folder / "zoo.mtx", mtx(X))
    put(folder / "zoo.mtx.gz", mtx(X), packed=True)
    put(folder / "zoo.npz", npz(X))
    put(folder / "zoo.csv", dense(X))
    put(folder / "packed.csv.gz", dense(X), packed=True)
    put(folder / "triplets.csv", triplets(X))
    put(folder / "zoo.tsv", dense(X, "\t"))
    put(folder / "triplets.tsv", triplets(X, "\t"))
    put(folder / "other.tsv", _turned(X))
    put(folder / "counts", dense(X))
    columns = {"name": samples} | dict(zip(features, X.T, strict=True))
    pl.DataFrame(columns).write_parquet(folder / "zoo.parquet")
    rows = [(samples[n], features[f], v) for n, f, v in entries(X)]
    pl.DataFrame(rows, ["sample", "feature", "count"], orient="row").write_parquet(
        folder / "triplets.parquet"
    )
    _write_h5ad(folder / "zoo.h5ad", X)
    put(folder / "zoo.txt", "".join(f"{_document(row)}.\n" for row in X))
    for name in ("texts", "10x"):
        (folder / name).mkdir()
    for sample, row in zip(samples, X, strict=True):
        put(folder / "texts" / f"{sample}.txt", _document(row))
    put(folder / "10x" / "matrix.mtx.gz", mtx(X.T), packed=True)
    put(folder / "10x" / "features.tsv", "".join(f"id\t{name}\n" for name in features))
    write_shards(folder / "zoo.csv", folder / "shards", shard_tokens=50)
    put(folder / "10x" / "barcodes.tsv", "".join(f"{name}\n" for name in samples))
    return folder


def _turned(X):
    """Features × samples, with their names."""
    rows = [["", *sample_names(X)]]
    rows += [[name, *map(str, row)] for name, row in zip(feature_names(X), X.T, strict=True)]
    return "".join("\t".join(row) + "\n" for row in rows)


def _document(row):
    return " ".join(" ".join([f"f{f}"] * v) for f, v in enumerate(row))


def _write_h5ad(path, X):
    """Counts in a layer, and in X something that a user may take for them."""
    obs, var = (pd.DataFrame(index=names) for names in (sample_names(X), feature_names(X)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas' new strings
        anndata.AnnData(np.log1p(X), obs, var, layers={"raw": X}).write_h5ad(path)


@pytest.fixture(scope="session")
def model(files):
    """A fit to X, with the names of its features."""
    gapmf("fit", files / "zoo.csv", *FIT, "-o", files / "model.gapmf")
    return files / "model.gapmf"
