"""AnnData: what is read, what is written, and what looks wrong."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
import scipy.sparse as sp

from gapmf import GammaPoissonMF, GaP, fit_anndata
from gapmf.errors import InvalidInputError

anndata = pytest.importorskip("anndata")


def cells(layer=None):
    rng = np.random.default_rng(0)
    X = GaP(rng.gamma(0.3, 8.0, (12, 3)), alpha=0.5).sample(30, random_state=0)
    counts = sp.csr_matrix(X.astype(np.float32))
    logs = sp.csr_matrix(np.log1p(X))
    adata = anndata.AnnData(counts if layer is None else logs)
    adata.var_names = [f"gene {f}" for f in range(12)]
    if layer is not None:
        adata.layers[layer] = counts
    return adata, X


def an_estimator():
    return GammaPoissonMF(3, tol=1e-3, random_state=0)


@pytest.mark.parametrize("layer", [None, "counts"])
def test_a_fit_is_written_where_scanpy_looks(layer, tmp_path):
    adata, X = cells(layer)
    est = an_estimator()
    assert fit_anndata(adata, est, layer=layer) is est
    alone = an_estimator().fit(X)
    np.testing.assert_array_equal(est.components_, alone.components_)
    np.testing.assert_array_equal(adata.obsm["X_gap"], alone.transform(X))
    np.testing.assert_array_equal(adata.varm["gap_components"], alone.components_.T)
    assert adata.uns["gap"]["rank"] == alone.rank_
    assert adata.uns["gap"]["params"]["n_components"] == 3
    np.testing.assert_array_equal(adata.uns["gap"]["shares"], alone.model_.shares)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    np.testing.assert_array_equal(again.obsm["X_gap"], adata.obsm["X_gap"])
    assert again.uns["gap"]["params"]["layer"] == (layer or "X")
    names = est.top_features(1, names=adata.var_names)
    assert names[0][0][0].startswith("gene ")


def test_another_key():
    adata, _ = cells()
    fit_anndata(adata, an_estimator(), key_added="topics")
    assert {"X_topics"} == set(adata.obsm)
    assert {"topics_components"} == set(adata.varm)
    assert {"topics"} == set(adata.uns)


def test_normalised_counts_are_refused_and_the_right_layer_named():
    adata, _ = cells("raw counts")
    with pytest.raises(InvalidInputError, match=r"adata.X\[.*not whole.*there are 'raw counts'"):
        fit_anndata(adata, an_estimator())
    assert not adata.obsm
    assert not adata.uns
    del adata.layers["raw counts"]
    with pytest.raises(InvalidInputError, match="pass raw counts, not normalised"):
        fit_anndata(adata, an_estimator())
    with pytest.raises(InvalidInputError, match="layers has no 'raw': the layers are none"):
        fit_anndata(adata, an_estimator(), layer="raw")


def test_equal_totals_look_normalised():
    rng = np.random.default_rng(0)
    adata = anndata.AnnData(rng.multinomial(1000, np.full(5, 0.2), 20).astype(float))
    with pytest.warns(UserWarning, match=r"all 20 cells of adata.X have the same total, 1000"):
        fit_anndata(adata, an_estimator())


def test_what_is_no_anndata():
    with pytest.raises(InvalidInputError, match=r"must be an AnnData, but is ndarray: use est.fit"):
        fit_anndata(np.ones((2, 2)), an_estimator())
    with pytest.raises(InvalidInputError, match=r"adata.X is empty"):
        fit_anndata(anndata.AnnData(shape=(3, 2)), an_estimator())


def test_without_anndata_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "anndata":
            raise ImportError(name)
        return real(name, *rest)

    adata, _ = cells()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'gapmf\[anndata\]'"):
        fit_anndata(adata, an_estimator())
