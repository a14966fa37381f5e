"""Pictures show the numbers of the library: bars, colours, labels and intervals are compared."""

from __future__ import annotations

import anndata
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning

from gapmf import GammaPoissonMF, GaP, fit_anndata, plot
from gapmf.errors import InvalidInputError
from gapmf.plot import arrange
from gapmf.ranks.features import distinctiveness, feature_weights
from gapmf.ranks.report import RankReport
from gapmf.selection import RankSelection

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def adata():
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.5, 1.0, (40, 3)) @ rng.gamma(0.3, 20.0, (3, 9)))
    X[0] += 1
    kinds = pd.Categorical(["old", "new"] * 20, categories=["old", "new", "unused"])
    obs = pd.DataFrame({"kind": kinds}, index=[f"c{n}" for n in range(40)])
    var = pd.DataFrame(index=[f"gene {f}" if f else "$a$ <b>" for f in range(9)])
    adata = anndata.AnnData(X.astype(float), obs, var)
    adata.uns["kind_colors"] = ["#ff0000", "#00ff00", "#0000ff"]
    return adata


@pytest.fixture(scope="module")
def est(adata):
    return fit_anndata(adata, GammaPoissonMF(3, random_state=0, tol=1e-2, score_every=5))


def drawn(ax):
    """Save the figure: what cannot be drawn fails here."""
    ax.figure.canvas.draw()
    return ax


def test_convergence(est):
    values = est.history_["log_likelihood"]
    there = np.isfinite(values)
    line = drawn(plot.convergence(est)).lines[0]
    np.testing.assert_array_equal(line.get_xdata(), np.flatnonzero(there) + 1)
    np.testing.assert_array_equal(line.get_ydata(), values[there])
    norms = plot.convergence(est, show="norms")
    assert len(norms.lines) == 3
    for handle, text in zip(norms.get_legend().get_lines(), norms.get_legend().texts, strict=True):
        line = next(li for li in norms.lines if li.get_color() == handle.get_color())
        np.testing.assert_array_equal(
            line.get_ydata(), est.history_["norms"][:, int(text.get_text())]
        )
    with pytest.raises(InvalidInputError, match="show must be one of 'log_likelihood', 'norms'"):
        plot.convergence(est, show="bound")


def test_axes_go_in_and_out(est):
    ax = Figure().subplots()
    assert plot.similarity(est, ax=ax) is ax
    axes = Figure().subplots(2, 2)
    found = plot.components(est, axes=axes)
    assert list(found) == list(axes.flat)[:3]
    assert not axes.flat[3].axison
    with pytest.raises(InvalidInputError, match="axes are 2, but 3 are needed"):
        plot.components(est, axes=Figure().subplots(1, 2))


@pytest.mark.parametrize("stored", [False, True])
def test_words_of_components(est, adata, stored):
    axes = plot.components(adata if stored else est, n_features=4, which=[2, 0])
    drawn(axes[0])
    for ax, k in zip(axes, (2, 0), strict=True):
        top = est.top_features(4)[k]
        texts = [text.get_text().replace("\\$", "$") for text in ax.texts]
        assert texts[::2] == [name for name, _ in top]
        assert [bar.get_width() for bar in ax.patches] == pytest.approx([w for _, w in top])
        assert ax.get_title("left").startswith(f"{k}: {est.model_.shares[k]:.1%}")


def test_features_that_a_component_hardly_has_are_not_shown():
    W = np.array([[50.0, 1e-9], [30.0, 1e-9], [1e-9, 60.0], [0.04, 1e-9]])
    est = GammaPoissonMF(2, random_state=0, tol=1e-2).fit(
        [[9, 5, 0, 1], [0, 0, 7, 0], [8, 6, 1, 0]]
    )
    est.model_ = GaP(W)
    est.feature_names_in_ = np.array(["a" * 30 + "z", "b", "c", "d"], dtype=object)
    first, second = plot.components(est, which=[0, 1])
    assert [t.get_text() for t in first.texts[::2]] == ["aaaaaaaa…aaaaaaz", "b"]
    assert [t.get_text() for t in second.texts[::2]] == ["c"]
    rows = plot.heatmap(est).get_yticklabels()
    assert [t.get_text()[:1] for t in rows] == ["a", "b", "c"]


def test_images_of_components(est):
    axes = plot.components(est, image="square")
    for ax, k in zip(axes, np.argsort(-est.model_.shares), strict=True):
        np.testing.assert_allclose(
            ax.images[0].get_array().ravel(), feature_weights(est.model_)[:, k]
        )
    with pytest.raises(InvalidInputError, match="from 0 to 2"):
        plot.components(est, which=[3])


def test_heatmap_and_volcano(est):
    ax = drawn(plot.heatmap(est, n_features=2, which=[1, 0, 2]))
    values = ax.images[0].get_array()
    names = [label.get_text().replace("\\$", "$") for label in ax.get_yticklabels()]
    tops = est.top_features(2)
    assert names == list(dict.fromkeys(name for k in (1, 0, 2) for name, _ in tops[k]))
    model, total = est.model_, est.feature_counts_.sum()
    expected = model.W * (model.alpha / model.beta)
    n = expected / expected.sum() * total
    for i, name in enumerate(names):
        f = list(est.feature_names_in_).index(name)
        for j, k in enumerate((1, 0, 2)):
            others = np.delete(n, k, axis=1).sum(axis=1)
            e = n[:, k].sum() * others[f] / others.sum()
            assert values[i, j] == pytest.approx(np.log2((n[f, k] + 1) / (e + 1)))
    ax = drawn(plot.volcano(est, 1, n_labels=1))
    points = np.concatenate([c.get_offsets() for c in ax.collections])
    here = model.W[:, 1] > 0
    z = np.abs(distinctiveness(model, est.feature_counts_)[here, 1])
    np.testing.assert_allclose(np.sort(points[:, 1]), np.sort(z))
    assert [text.get_text().replace("\\$", "$") for text in ax.texts] == [
        est.top_features(1)[1][0][0]
    ]
    with pytest.raises(InvalidInputError, match="from 0 to 2"):
        plot.volcano(est, 7)


def test_similarity(est):
    overlap = drawn(plot.similarity(est)).images[0].get_array()
    order = [int(t.get_text()) for t in plot.similarity(est).get_xticklabels()]
    p = est.components_ / est.components_.sum(axis=1, keepdims=True)
    for i, k in enumerate(order):
        for j, m in enumerate(order):
            assert overlap[i, j] == pytest.approx(np.sqrt(p[k] * p[m]).sum())


def test_structure_of_cells(adata, est):
    ax = drawn(plot.structure(adata, groupby="kind"))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["old", "new"]
    assert [to_hex(line.get_color()) for line in ax.lines] == ["#ff0000", "#00ff00"]
    P = adata.obsm["X_gap"]
    stairs = [patch for patch in ax.patches if patch.get_data().values.size == 20]
    assert len(stairs) == 2 * 3
    largest = P.mean(axis=0).argmax()
    for patches, rows in ((stairs[:3], slice(0, None, 2)), (stairs[3:], slice(1, None, 2))):
        np.testing.assert_allclose(np.sort(patches[0].get_data().values), np.sort(P[rows, largest]))
        np.testing.assert_allclose(patches[-1].get_data().values, 1.0)
    with pytest.raises(InvalidInputError, match="no column 'size'"):
        plot.structure(adata, groupby="size")
    with pytest.raises(InvalidInputError, match=r"no proportions in obsm\['X_other'\]"):
        plot.structure(adata, key="other")


def test_structure_of_other_sources(est, adata):
    X = pd.DataFrame(adata.X.astype(int), columns=adata.var_names)
    P = est.proportions(X)
    for source, given in ((P, None), (est, X), (est.posterior(X), None)):
        ax = drawn(plot.structure(source, given, max_samples=10, legend=False))
        assert ax.patches[0].get_data().values.size == 10
        assert ax.get_legend() is None
    for source, options, match in (
        (est, {}, "X is missing"),
        (2 * P, {}, "rows sum to 1"),
        (P, {"groupby": "kind"}, "there is no AnnData"),
        (P, {"groupby": [1]}, "1 entries, but there are 40"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            plot.structure(source, **options)


def test_activations(est, adata):
    ax = drawn(plot.activations(est, adata, 3, name="$5"))
    found = est.posterior(adata)
    norms = est.model_.column_norms
    _, _, (bars,) = ax.containers[0]
    points = ax.collections[-1]
    np.testing.assert_allclose(points.get_offsets()[:, 1], found.mean[3] * norms)
    assert [to_hex(c) for c in points.get_facecolors()] == arrange.component_colours(est.model_)
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, (found.quantiles[:, 3] * norms).T)
    with pytest.raises(InvalidInputError, match="sample is 40, but X has 40 rows"):
        plot.activations(est, adata, 40)


def test_activations_with_exposures():
    """Expected counts of a sample: activation × norm × exposure."""
    X, s = np.array([[9, 1], [1, 8], [7, 1]]), np.array([1.0, 0.5, 2.0])
    est = GammaPoissonMF(2, max_iter=5, random_state=0)
    with pytest.warns(ConvergenceWarning):
        est.fit(X, exposure=s)
    points = drawn(plot.activations(est, X, 2, exposure=s)).collections[-1]
    mean = est.posterior(X, exposure=s).mean[2]
    np.testing.assert_allclose(points.get_offsets()[:, 1], 2.0 * mean * est.model_.column_norms)


def test_ranks():
    model = GaP(np.ones((2, 3)))
    report = RankReport(
        rank=2, keep=np.array([True, False, True]), model=model, models=(), norm=np.ones(3),
        share=np.array([0.2, 0.3, 0.5]), cost=np.array([9.0, 0.4, 5e3]),
        cost_error=np.array([1.0, 0.5, 60.0]), bound=np.array([False, False, True]),
        criterion="held-out counts", price=None, removed=(1,), r=np.ones(2), r_error=np.ones(2),
        labels=("a", "b", "c"),
    )  # fmt: skip
    ax = drawn(plot.rank_report(report))
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "2: c",
        "1: b (not kept)",
        "0: a",
    ]
    assert [bar.get_width() for bar in ax.patches] == [5e3, 0.4, 9.0]
    assert [text.get_text() for text in ax.texts] == ["at most"]
    selection = RankSelection(
        n_components=4, estimator=None, ranks=np.array([2, 4, 40]),
        score=np.array([-900.0, -501.0, -500.0]), error=np.array([20.0, 3.0, 0.0]),
        criterion="held-out counts", estimators=(),
    )  # fmt: skip
    ax = drawn(plot.rank_selection(selection))
    assert {text.get_text() for text in ax.texts} == {
        "−400 ± 20", "−1 ± 3", "best", "chosen: 4"
    }  # fmt: skip
    assert ax.get_xscale() == "log"


def test_places_keep_distances():
    """Three points fit a plane: classical scaling gives their distances back."""
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]).T
    overlap = arrange.similarity(GaP(p))
    places = arrange.place_components(overlap)
    for i in range(3):
        for j in range(3):
            expected = np.sqrt(0.5 * ((np.sqrt(p[:, i]) - np.sqrt(p[:, j])) ** 2).sum())
            assert np.linalg.norm(places[i] - places[j]) == pytest.approx(expected, abs=1e-7)
    order = arrange.similarity_order(arrange.similarity(GaP(p[:, [0, 1, 0, 2]] + 1e-9)))
    assert abs(list(order).index(0) - list(order).index(2)) == 1  # twins are neighbours


def test_orders_and_groups():
    P = np.array([[0.2, 0.8], [0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.45, 0.55]])
    assert arrange.structure_order(P).tolist() == [1, 3, 0, 2, 4]
    assert arrange.group_names(pd.Categorical(["x", "b"], ["x", "y", "b"])) == ["x", "b"]
    assert arrange.group_names([3, 1, 2, 1]) == [1, 2, 3]
    model = GaP(np.eye(25))
    colours = arrange.component_colours(model)
    assert len(set(colours)) == 21
    assert colours.count(arrange.OTHERS) == 5


def test_what_is_no_fit():
    for source in (3, anndata.AnnData(np.ones((2, 2)))):
        with pytest.raises(InvalidInputError, match=r"fit_anndata"):
            plot.similarity(source)


def test_without_matplotlib(est, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'gapmf\[plot\]'"):
        plot.similarity(est)
