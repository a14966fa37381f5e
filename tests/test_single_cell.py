"""AnnData: what is read, what is written, and what looks wrong."""

from __future__ import annotations

import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from gapmf import GammaPoissonMF, GaP, fit_anndata, read, select_rank, transform_anndata
from gapmf.errors import InvalidInputError

F = 12
GENES = [f"gene {f}" for f in range(F)]


def cells(layer=None, N=30, seed=0):
    rng = np.random.default_rng(0)
    X = GaP(rng.gamma(0.3, 8.0, (F, 3)), alpha=0.5).sample(N, random_state=seed)
    counts = sp.csr_matrix(X.astype(np.float32))
    logs = sp.csr_matrix(np.log1p(X))
    adata = anndata.AnnData(counts if layer is None else logs, var=pd.DataFrame(index=GENES))
    if layer is not None:
        adata.layers[layer] = counts
    return adata, X


def an_estimator(**parameters):
    return GammaPoissonMF(3, tol=1e-3, random_state=0, **parameters)


@pytest.fixture(scope="module")
def fitted():
    adata, _ = cells()
    return fit_anndata(adata, an_estimator())


@pytest.mark.parametrize("layer", [None, "counts"])
def test_a_fit_is_written_where_scanpy_looks(layer, tmp_path):
    adata, X = cells(layer)
    est = an_estimator()
    assert fit_anndata(adata, est, layer=layer) is est
    alone = an_estimator().fit(X)
    np.testing.assert_array_equal(est.components_, alone.components_)
    np.testing.assert_array_equal(adata.obsm["X_gap_activations"], alone.transform(X))
    np.testing.assert_allclose(adata.obsm["X_gap"].sum(axis=1), 1.0)
    np.testing.assert_array_equal(adata.obsm["X_gap"], alone.proportions(X))
    np.testing.assert_array_equal(adata.varm["gap_components"], alone.components_.T)
    assert adata.uns["gap"]["rank"] == alone.rank_
    assert adata.uns["gap"]["params"]["n_components"] == 3
    np.testing.assert_array_equal(adata.uns["gap"]["shares"], alone.model_.shares)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    np.testing.assert_array_equal(again.obsm["X_gap"], adata.obsm["X_gap"])
    assert again.uns["gap"]["params"]["layer"] == (layer or "X")


def test_names_of_genes_travel(fitted, tmp_path):
    assert list(fitted.feature_names_in_) == GENES
    assert fitted.top_features(1)[0][0][0].startswith("gene ")
    fitted.save(tmp_path / "m.gapmf")
    assert list(GammaPoissonMF.load(tmp_path / "m.gapmf").feature_names_in_) == GENES


def test_another_key():
    adata, _ = cells()
    fit_anndata(adata, an_estimator(), key_added="topics")
    assert {"X_topics", "X_topics_activations"} == set(adata.obsm)
    assert {"topics_components"} == set(adata.varm)
    assert {"topics"} == set(adata.uns)


@pytest.mark.parametrize("number", [2, np.int64(2)])
def test_a_number_of_components_makes_an_estimator(number):
    adata, _ = cells()
    est = fit_anndata(adata, number)
    assert est.get_params() == GammaPoissonMF(n_components=2).get_params()
    assert adata.obsm["X_gap"].shape == (30, 2)


@pytest.mark.parametrize("est", ["10", 2.5, True, None, GammaPoissonMF])
def test_what_is_no_estimator(est):
    adata, _ = cells()
    with pytest.raises(InvalidInputError, match=r"GammaPoissonMF\(n_components=10\), or a number"):
        fit_anndata(adata, est)


# Counts that are elsewhere, or that are none.


def test_normalised_counts_are_refused_and_the_right_layer_named():
    adata, _ = cells("raw counts")
    match = r"adata.X\[0, \d+\] \(column 'gene \d+'\) is .*not whole.*there are 'raw counts'"
    with pytest.raises(InvalidInputError, match=match):
        fit_anndata(adata, an_estimator())
    assert not adata.obsm
    assert not adata.uns
    with pytest.raises(
        InvalidInputError, match=r"'gene \d+'.*fit_anndata also reads layers: there are 'raw co"
    ):
        an_estimator().fit(adata)
    del adata.layers["raw counts"]
    with pytest.raises(InvalidInputError, match="pass raw counts, not normalised"):
        fit_anndata(adata, an_estimator())
    with pytest.raises(InvalidInputError, match="layers has no 'raw': there are none"):
        fit_anndata(adata, an_estimator(), layer="raw")


def with_raw():
    """As scanpy's users keep them: all genes in `raw`, and logarithms of some in `X`."""
    adata, X = cells()
    adata.raw = adata.copy()
    adata.X = np.log1p(X)
    return adata[:, :5].copy(), X


def test_raw(tmp_path, fitted):
    adata, X = with_raw()
    est = fit_anndata(adata, an_estimator(), layer="raw")
    np.testing.assert_array_equal(est.components_, an_estimator().fit(X).components_)
    np.testing.assert_array_equal(adata.raw.varm["gap_components"], est.components_.T)
    assert not adata.varm
    assert list(est.feature_names_in_) == GENES
    transform_anndata(adata, fitted, layer="raw", key_added="other")
    np.testing.assert_array_equal(adata.obsm["X_other"], adata.obsm["X_gap"])
    adata.write_h5ad(tmp_path / "a.h5ad")
    table = read(tmp_path / "a.h5ad", layer="raw")
    np.testing.assert_array_equal(table.counts.toarray(), X)
    assert list(table.feature_names) == GENES
    adata.layers["raw"] = np.full((30, 5), 3)  # a layer of that name comes first
    assert set(read_layer(adata, "raw")) == {3}


def read_layer(adata, layer):
    from gapmf.io.matrices import read_anndata

    return read_anndata(adata, layer, "adata.").counts.data


def scaled(depth, target, logs, N=400):
    """Raw counts of cells of unequal depth; the same, scaled to one total and rounded."""
    rng = np.random.default_rng(0)
    W = rng.gamma(0.3, 1.0, (3, 400))[rng.integers(3, size=N)]
    X = rng.poisson(depth * rng.lognormal(0, 0.4, (N, 1)) * W / W.sum(axis=1, keepdims=True))
    rounded = np.rint(target * X / X.sum(axis=1, keepdims=True))
    return X, np.rint(np.log1p(rounded)) if logs else rounded


@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "target", "logs", "reason"),
    [
        (1000, 1e4, False, "half of the totals of cells lie between 9,9.. and 10,0.."),
        (3000, 3e3, False, "half of the totals of cells lie between 2,9.. and 3,0.."),
        (1000, 1e4, True, r"\d+% of the cells have no count of 1"),
    ],
)
def test_counts_that_were_normalised_and_rounded(depth, target, logs, reason):
    raw, rounded = scaled(depth, target, logs)
    rough = GammaPoissonMF(1, tol=0.1, random_state=0)
    for fit in (rough.fit, lambda adata: fit_anndata(adata, rough)):
        with pytest.warns(UserWarning, match=f"look normalised and rounded: {reason}.* The model"):
            fit(anndata.AnnData(rounded))
    with pytest.warns(UserWarning, match="look normalised and rounded"):
        transform_anndata(anndata.AnnData(rounded), rough)
    rough.fit(anndata.AnnData(raw.astype(float)))  # without a warning


def test_equal_totals_look_normalised():
    rng = np.random.default_rng(0)
    adata = anndata.AnnData(rng.multinomial(1000, np.full(5, 0.2), 20).astype(float))
    with pytest.warns(UserWarning, match=r"rounded: all 20 cells have the same total, 1000"):
        fit_anndata(adata, an_estimator())


def test_equal_depths_do_not_look_normalised():
    """Totals that vary as Poisson counts do: the error rate of the rule is below 1e-4."""
    rng = np.random.default_rng(0)
    for N in (20, 300):
        GammaPoissonMF(1, tol=0.1).fit(anndata.AnnData(rng.poisson(40.0, (N, 30)).astype(float)))


def test_what_is_no_anndata():
    with pytest.raises(InvalidInputError, match=r"must be an AnnData, but is ndarray: use est.fit"):
        fit_anndata(np.ones((2, 2)), an_estimator())
    with pytest.raises(InvalidInputError, match=r"but is ndarray: use est.transform"):
        transform_anndata(np.ones((2, 2)), an_estimator())
    for fit in (an_estimator().fit, lambda adata: fit_anndata(adata, 2)):
        with pytest.raises(InvalidInputError, match=r"adata.X is empty: set the `layer`"):
            fit(anndata.AnnData(shape=(3, 2)))


def test_files_on_disk_are_refused_before_the_fit(tmp_path, monkeypatch, fitted):
    adata, _ = cells()
    adata.write_h5ad(tmp_path / "a.h5ad")
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    np.testing.assert_array_equal(fitted.transform(backed), fitted.transform(adata))
    monkeypatch.setattr(GammaPoissonMF, "fit", None)
    monkeypatch.setattr(GammaPoissonMF, "posterior", None)
    for there in (backed, backed[:20]):
        for call in (fit_anndata, transform_anndata):
            with pytest.raises(InvalidInputError, match=r"a.h5ad, .*use adata = adata.to_memory"):
                call(there, fitted)
    backed.file.close()


def test_a_view_in_memory_becomes_a_copy():
    adata, _ = cells()
    view = adata[:20]
    with pytest.warns(anndata.ImplicitModificationWarning):
        fit_anndata(view, an_estimator())
    assert view.obsm["X_gap"].shape == (20, 3)
    assert not adata.obsm


# X of the estimator.


def test_an_anndata_is_an_x(fitted):
    adata, X = cells()
    est = an_estimator().fit(adata)
    np.testing.assert_array_equal(est.components_, fitted.components_)
    assert list(est.feature_names_in_) == GENES
    few = adata[:4].copy()
    plain = an_estimator().fit(X)
    for method in ("transform", "score_samples", "score"):
        expected = getattr(plain, method)(X[:4])
        np.testing.assert_array_equal(getattr(est, method)(few), expected)
    np.testing.assert_array_equal(est.posterior(few).mean, plain.posterior(X[:4]).mean)
    np.testing.assert_array_equal(an_estimator().fit_transform(adata), plain.transform(X))
    dense = anndata.AnnData(X[:4].astype(float), var=few.var)
    np.testing.assert_array_equal(est.transform(dense), plain.transform(X[:4]))
    frame = pd.DataFrame(X[:4], columns=GENES)
    np.testing.assert_array_equal(est.transform(frame), plain.transform(X[:4]))


def test_an_anndata_is_an_x_of_other_calls():
    X = np.random.default_rng(0).poisson([[4.0, 1.0], [0.5, 3.0]] * 6)
    adata = anndata.AnnData(X.astype(float))
    est = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(adata)
    assert str(est.rank_report(adata)) == str(est.rank_report(X))
    assert est.prune(adata).n_features_in_ == 2
    assert select_rank(adata, [1, 2], estimator=est).ranks.tolist() == [1, 2]


def test_genes_are_compared_with_those_of_the_fit(fitted):
    adata, _ = cells()
    by_name = r"gapmf.transform_anndata\(adata, est\) matches genes by name"
    with pytest.raises(InvalidInputError, match=f"same order.*\n{by_name}"):
        fitted.transform(adata[:, ::-1].copy())
    with pytest.raises(InvalidInputError, match=f"has 5 features, but .* expecting 12 .*{by_name}"):
        fitted.transform(adata[:, :5].copy())
    with pytest.raises(InvalidInputError, match="feature names should match") as caught:
        fitted.transform(pd.DataFrame(np.ones((2, F)), columns=list("abcdefghijkl")))
    assert "anndata" not in str(caught.value)


def test_duplicated_names_are_said_before_the_fit(monkeypatch):
    adata, _ = cells()
    adata.var_names = ["MT", "MT", "x", "x", "x", *GENES[5:]]
    said = r"some features have the same name: 'MT' \(2 times\), 'x' \(3 times\). They are numbered"
    est = an_estimator(callbacks=[lambda record: pytest.fail("the fit has begun")])
    for fit in (est.fit, lambda adata: fit_anndata(adata, est)):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="some features")
            with pytest.raises(UserWarning, match=said):
                fit(adata)
    est = an_estimator()
    with pytest.warns(UserWarning, match=said):
        fit_anndata(adata, est)
    assert list(est.feature_names_in_[:6]) == ["MT", "MT-1", "x", "x-1", "x-2", "gene 5"]
    np.testing.assert_array_equal(est.transform(adata), adata.obsm["X_gap_activations"])


def test_names_that_cannot_be_are_said_before_the_fit():
    est = an_estimator(callbacks=[lambda record: pytest.fail("the fit has begun")])
    with pytest.raises(TypeError, match="string names"):
        est.fit(pd.DataFrame(np.ones((5, 2), dtype=int), columns=["a", 1]))


# Other cells.


def test_other_cells_are_matched_by_name(fitted):
    new, _ = cells(N=6, seed=1)
    new = new[:, ::-1].copy()
    found = transform_anndata(new, fitted)
    in_order, _ = cells(N=6, seed=1)
    np.testing.assert_array_equal(new.obsm["X_gap_activations"], fitted.transform(in_order))
    np.testing.assert_array_equal(new.obsm["X_gap"], fitted.proportions(in_order))
    np.testing.assert_array_equal(found, new.obsm["X_gap"])


def test_genes_that_one_side_does_not_have(fitted):
    new, X = cells(N=6, seed=1)
    new.var_names = ["new gene", *GENES[1:]]
    n_new, n_missing = int(X[:, 0].sum()), int(fitted.feature_counts_[0])
    with pytest.warns(UserWarning, match="left out|count as 0") as caught:
        transform_anndata(new, fitted, key_added="k")
    said = "\n".join(str(warning.message) for warning in caught)
    assert (
        f"left out: 1 of 12, with {n_new / X.sum():.2%} of the counts: 'new gene' ({n_new})" in said
    )
    assert "genes that adata does not have count as 0: 1 of the model's 12" in said
    assert f"'gene 0' ({n_missing})" in said
    X[:, 0] = 0
    expected = fitted.transform(anndata.AnnData(X.astype(float), var=pd.DataFrame(index=GENES)))
    np.testing.assert_array_equal(new.obsm["X_k_activations"], expected)
    new.var_names = [f"ENSG{f}" for f in range(F)]
    with pytest.raises(InvalidInputError, match=r"none of the 12 features .*'ENSG0' .*'gene 0'"):
        transform_anndata(new, fitted)


def test_an_estimator_without_names():
    adata, X = cells()
    with pytest.raises(InvalidInputError, match=r"fitted without names of genes.*fit_anndata"):
        transform_anndata(adata, an_estimator().fit(X))
    with pytest.raises(ValueError, match="not fitted yet"):
        transform_anndata(adata, an_estimator())


# Ctrl-C.


def interrupt(*args, **options):
    raise KeyboardInterrupt


def test_ctrl_c_in_the_transform_keeps_the_components(monkeypatch):
    adata, _ = cells()
    adata.obsm["X_gap"] = np.ones((30, 2))  # of an earlier fit
    with monkeypatch.context() as patch:
        patch.setattr(GammaPoissonMF, "posterior", interrupt)
        match = r"stopped: the components are in adata.varm\['gap_components'\].*transform_anndata"
        with pytest.warns(UserWarning, match=match):
            est = fit_anndata(adata, an_estimator())
    np.testing.assert_array_equal(adata.varm["gap_components"], est.components_.T)
    assert adata.uns["gap"]["n_iter"] == est.n_iter_
    assert not adata.obsm
    transform_anndata(adata, est)
    np.testing.assert_array_equal(adata.obsm["X_gap_activations"], est.transform(adata))


def test_ctrl_c_in_the_fit_keeps_the_components_so_far():
    adata, _ = cells()
    with (
        pytest.warns(ConvergenceWarning, match="the model so far"),
        pytest.warns(UserWarning, match="stopped: the components are in"),
    ):
        est = fit_anndata(adata, an_estimator(callbacks=[interrupt]))
    assert est.interrupted_
    assert est.n_iter_ == 1
    np.testing.assert_array_equal(adata.varm["gap_components"], est.components_.T)
    assert not adata.obsm


def test_size_factors_are_exposures():
    adata, X = cells()
    X, adata = X[X.sum(axis=1) > 0], adata[X.sum(axis=1) > 0].copy()
    adata.obs["size"] = np.linspace(0.3, 4.0, len(X))
    est = fit_anndata(adata, an_estimator(), size_factor="size")
    size = adata.obs["size"].to_numpy()
    alone = an_estimator().fit(X, exposure=size)
    np.testing.assert_array_equal(est.components_, alone.components_)
    np.testing.assert_array_equal(
        adata.obsm["X_gap_activations"], alone.transform(X, exposure=size)
    )
    assert adata.uns["gap"]["params"]["size_factor"] == "size"
    again = transform_anndata(adata, est, size_factor="size")
    np.testing.assert_array_equal(again, alone.proportions(X, exposure=size))
    with pytest.raises(InvalidInputError, match="pass exposure"):
        transform_anndata(adata, est)
    with pytest.raises(InvalidInputError, match="there are 'size'"):
        fit_anndata(adata, an_estimator(), size_factor="depth")
    totals = fit_anndata(adata, an_estimator(), size_factor="total")
    np.testing.assert_array_equal(transform_anndata(adata, totals), totals.proportions(adata))
    assert totals.mean_total_ == X.sum() / len(X)
