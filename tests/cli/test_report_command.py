"""`gapmf report`: its files, its options, and what it refuses before anything is written."""

from __future__ import annotations

import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
from commands import gapmf

from io_files import feature_names, sample_names


def page(path):
    return path.read_text(encoding="utf-8")


def test_a_model_alone(model, tmp_path):
    done = gapmf("report", model, "-o", tmp_path / "r.html")
    assert done.stdout.startswith(f"{tmp_path / 'r.html'}: ")
    assert "2 components of counts" in page(tmp_path / "r.html")
    assert "gapmf report model.gapmf --data DATA -o report.html" in page(tmp_path / "r.html")


def test_with_data_groups_and_ranks(model, files, X, tmp_path):
    groups = tmp_path / "groups.csv"
    rows = [f"{name},group {n % 2}" for n, name in enumerate(sample_names(X))]
    groups.write_text("\n".join(["sample,group", *rows]))
    options = ("--data", files / "zoo.csv", "--groups", groups, "--rank", "--title", "A <zoo>")
    gapmf("report", model, *options, "-o", tmp_path / "r.html")
    text = page(tmp_path / "r.html")
    for words in ("A &lt;zoo&gt;", "group 1", "worth keeping", sample_names(X)[3], "those of the"):
        assert words in text
    assert "gapmf rank model.gapmf zoo.csv" in text


def test_cells(X, tmp_path, model):
    """A column of obs, with scanpy's colours."""
    kinds = pd.Categorical(["T", "B"] * (len(X) // 2))
    obs = pd.DataFrame({"kind": kinds}, index=sample_names(X))
    adata = anndata.AnnData(X.astype(float), obs, pd.DataFrame(index=feature_names(X)))
    adata.uns["kind_colors"] = np.array(["#123456", "#654321"], dtype=object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas' new strings
        adata.write_h5ad(tmp_path / "cells.h5ad")
    data = ("--data", tmp_path / "cells.h5ad")
    gapmf("report", model, *data, "--groups", "kind", "-o", tmp_path / "r.html")
    assert "--c:#123456" in page(tmp_path / "r.html")
    bad = ("--groups", "size", "-o", tmp_path / "no.html")
    assert "no column 'size'" in gapmf("report", model, *data, *bad, code=1).stderr
    assert not (tmp_path / "no.html").exists()


@pytest.mark.parametrize(
    ("options", "match", "code"),
    [
        ([], "Missing option", 2),
        (["-o", "r.txt"], "the name must end in .html", 1),
        (["-o", "no/r.html"], "does not exist", 1),
        (["-o", "r.html", "--rank"], "--rank is about data", 1),
        (["-o", "r.html", "--groups", "x"], "--groups is about data", 1),
        (["-o", "r.html", "--delimiter", ";"], "--delimiter is about data", 1),
        (["-o", "r.html", "--image", "3x3"], "9 pixels, but there are 5 features", 1),
        (["-o", "r.html", "--data", "no.csv"], "no.csv: No such file", 1),
    ],
)
def test_refusals(options, match, code, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert match in gapmf("report", model, *options, code=code).stderr
    assert list(tmp_path.iterdir()) == []
