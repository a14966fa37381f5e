"""Groups of samples: shares, their intervals and coverage, what is drawn and refused."""

from __future__ import annotations

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats

from gapmf import GammaPoissonMF, GaP, compare_anndata, posterior_activations
from gapmf.analysis.groups import Groups, check_groups, compare_groups
from gapmf.errors import InvalidInputError

NAMES = [f"gene {f}" for f in range(10)]
W = 20 * np.random.default_rng(7).dirichlet(np.full(10, 0.3), 3).T
ALPHA = {"control": (0.5, 0.5, 0.5), "treated": (1.5, 0.5, 0.5)}


@pytest.fixture(scope="module")
def cells():
    rng = np.random.default_rng(0)
    parts = [rng.poisson(rng.gamma(alpha, 2.0, (60, 3)) @ W.T) for alpha in ALPHA.values()]
    X = pd.DataFrame(np.concatenate(parts), columns=NAMES, index=[f"cell {n}" for n in range(120)])
    X.iloc[70] = 0
    return X


@pytest.fixture(scope="module")
def groups():
    return np.repeat(list(ALPHA), 60)


@pytest.fixture(scope="module")
def est(cells):
    return GammaPoissonMF(3, alpha=0.5, tol=1e-3, random_state=0).fit(cells)


@pytest.fixture(scope="module")
def found(est, cells, groups):
    return est.compare(cells, groups)


def test_shares_differences_and_errors_beside_scipy(est, cells, groups, found):
    kept = cells.sum(axis=1).to_numpy() > 0
    P, of = est.proportions(cells)[kept], groups[kept]
    assert found.groups == ("control", "treated")
    assert found.n_samples.tolist() == [60, 59]
    assert found.n_without_counts == 1
    for g, name in enumerate(found.groups):
        np.testing.assert_allclose(found.share[g], P[of == name].mean(axis=0))
        between = P[of == name].var(axis=0, ddof=1) / (of == name).sum()
        np.testing.assert_allclose(found.error[g] ** 2, between + found.posterior_error[g] ** 2)
    np.testing.assert_allclose(found.difference[0], -found.difference[1])
    # Without posterior variances, these are Welch's test and interval.
    codes = np.unique(of, return_inverse=True)[1]
    plain = compare_groups(P, np.zeros_like(P), Groups(found.groups, codes), level=0.9)
    welch = stats.ttest_ind(P[codes == 0], P[codes == 1], equal_var=False)
    np.testing.assert_allclose(plain.p_values[0], welch.pvalue)
    band = welch.confidence_interval(0.9)
    np.testing.assert_allclose(plain.difference_interval[0].T, [band.low, band.high])


def test_the_difference_is_found(found):
    grown = int(np.argmax(found.difference[1]))
    assert found.differs[:, grown].all()
    assert found.difference_interval[1, grown, 0] > 0.1
    said = " ".join(str(found).split())
    assert f"{found.share[1, grown]:.1%}" in said
    assert "1 more without counts left out" in said
    lines = str(found).splitlines()[1:7]
    assert sum(" *" in line for line in lines) == found.differs.sum()
    assert repr(found).startswith("GroupComparison(2 groups, 3 components")


@pytest.mark.slow
def test_intervals_cover_the_difference_of_populations():
    """60 pairs of groups from populations with other α than the model's.

    95 % intervals of each of 3 components cover in at least 50 of 60; if they do in 95 %, this
    fails with probability 2e-4 per component. Posterior uncertainty alone covers far less.
    """
    n_pairs, n, rng = 60, 25, np.random.default_rng(3)
    pieces, truth = [], []
    for alpha in ALPHA.values():
        h = rng.gamma(alpha, 2.0, (200_000, 3)) * W.sum(axis=0)
        total = h.sum(axis=1, keepdims=True)
        some = -np.expm1(-total)  # samples that have counts
        truth.append((some * h / total).sum(axis=0) / some.sum())
        pieces.append(rng.poisson(rng.gamma(alpha, 2.0, (n_pairs, n, 3)) @ W.T))
    X = np.concatenate(pieces, axis=1).reshape(n_pairs * 2 * n, -1)
    codes = np.tile(np.repeat([0, 1], n), n_pairs)
    pair = np.repeat(np.arange(n_pairs), 2 * n)
    kept = X.sum(axis=1) > 0
    X, codes, pair = X[kept], codes[kept], pair[kept]
    model = GaP(W, 0.7, 0.5)
    posterior = posterior_activations(X, model, quantiles=(), n_draws=1, random_state=0)
    variances = posterior.proportions_std**2
    covered, narrow = np.zeros(3), np.zeros(3)
    difference = truth[1] - truth[0]
    for i in range(n_pairs):
        own = pair == i
        got = compare_groups(
            posterior.proportions[own], variances[own], Groups(("a", "b"), codes[own])
        )
        low, high = got.difference_interval[1].T
        covered += (low <= difference) & (difference <= high)
        half = 1.96 * np.hypot(*got.posterior_error)
        narrow += np.abs(got.difference[1] - difference) <= half
    assert covered.min() >= 50, covered
    assert narrow.max() <= 45, narrow


def test_many_groups_and_single_samples(est, cells, found):
    rng = np.random.default_rng(1)
    several = est.compare(cells, rng.integers(8, size=120))
    assert several.groups == tuple("01234567")
    assert several.share.shape == (8, 3)
    assert several.plot().images
    few = rng.integers(30, size=120)
    long = est.compare(cells, few)
    assert "rows with a *" in str(long)
    one = np.array(["a"] * 119 + ["b"])
    single = est.compare(cells, one)
    assert np.isnan(single.interval[1]).all()
    assert np.isfinite(single.interval[0]).all()
    assert not single.differs.any()
    assert "one sample" in str(single)
    single.plot().figure.canvas.draw()


@pytest.mark.slow
def test_exposures(cells, groups):
    """Shares of counts are those of the estimator; equal exposures change nothing."""
    X = cells.drop(index="cell 70")
    of = np.delete(groups, 70)
    est = GammaPoissonMF(3, alpha=0.5, tol=1e-3, random_state=0).fit(X, exposure="total")
    got = est.compare(X, of)
    P = est.proportions(X)
    np.testing.assert_allclose(got.share[0], P[of == "control"].mean(axis=0))
    assert got.differs.any()
    ones = GammaPoissonMF(3, alpha=0.5, tol=1e-3, random_state=0).fit(X)
    np.testing.assert_array_equal(
        ones.compare(X, of, exposure=np.ones(119)).interval, ones.compare(X, of).interval
    )


def test_unobserved_entries(cells, groups):
    """Shares are those of the estimator with the mask; a mask of ones changes nothing."""
    X, groups = cells.to_numpy()[::2], groups[::2]
    seen = np.random.default_rng(3).random(X.shape) < 0.7
    est = GammaPoissonMF(3, alpha=0.5, tol=1e-3, random_state=0).fit(X, observed=seen)
    got = est.compare(X, groups, observed=seen)
    P = est.proportions(X, observed=seen)
    used = (X * seen).sum(axis=1) > 0
    np.testing.assert_allclose(got.share[0], P[(groups == "control") & used].mean(axis=0))
    ones = est.compare(X, groups, observed=np.ones_like(seen))
    np.testing.assert_array_equal(ones.interval, est.compare(X, groups).interval)
    assert (ones.interval != got.interval).any()


def test_one_component_has_share_one(cells, groups):
    est = GammaPoissonMF(1, tol=1e-2, random_state=0).fit(cells)
    got = est.compare(cells, groups)
    np.testing.assert_allclose(got.share, 1.0)
    assert not got.differs.any()
    assert "GroupComparison(2 groups, 1 components" in repr(got)


def test_holm_is_stricter_than_each_and_milder_than_bonferroni():
    from gapmf.analysis.groups import _holm

    p = np.array([[0.001, 0.011, 0.03], [0.5, 0.012, 0.6], [0.7, 0.9, 0.04]])
    assert _holm(p, 0.05).sum() == 1
    p = np.array([[0.001, 0.02, 0.04]] * 2)
    assert _holm(p, 0.05).tolist() == [[True, True, True]] * 2  # 3 comparisons, not 6
    p[:, 1] = 0.03
    assert _holm(p, 0.05).tolist() == [[True, False, False]] * 2


def test_groups_of_every_kind(cells, groups):
    series = pd.Series(groups, index=cells.index)
    for given in (groups, list(groups), series, series.astype("category"), series.to_numpy(object)):
        names, codes = check_groups(given, cells, 120)
        assert names == ("control", "treated")
        assert codes.tolist() == [0] * 60 + [1] * 60
    ordered = pd.Categorical(groups, ["treated", "control", "unused"])
    assert check_groups(ordered, cells, 120).names == ("treated", "control")
    assert check_groups(np.arange(120) % 12, cells, 120).names[:3] == ("0", "1", "2")


def test_an_obs_column(est, cells, groups, found):
    adata = anndata.AnnData(sp.csr_matrix(cells.to_numpy(float)), var=pd.DataFrame(index=NAMES))
    adata.obs["batch"], adata.obs["one"] = groups, 1.0
    turned = adata[:, ::-1].copy()
    adata.layers["counts"], adata.X = adata.X, adata.X * 0
    for got in (
        compare_anndata(adata, est, "batch", layer="counts"),
        compare_anndata(turned, est, groups),
        compare_anndata(turned, est, "batch", size_factor="one"),
        est.compare(turned[:, NAMES].copy(), "batch"),
    ):
        np.testing.assert_allclose(got.share, found.share, atol=1e-12)
        np.testing.assert_allclose(got.interval, found.interval, atol=1e-12)
    with pytest.raises(
        InvalidInputError, match=r"no column 'donor': its columns are 'batch', 'one'"
    ):
        compare_anndata(adata, est, "donor", layer="counts")
    with pytest.raises(InvalidInputError, match="adata must be an AnnData"):
        compare_anndata(cells, est, groups)


def test_the_picture(found):
    ax = found.plot()
    assert ax.get_xlabel() == "mean share of counts, with 95% intervals"
    drawn = {line.get_label(): line.get_xdata() for line in ax.lines}
    np.testing.assert_allclose(drawn["treated (59)"], found.share[1, found.order()])
    assert sum(text.get_text() == "*" for text in ax.texts) == found.differs.sum()
    ax.figure.canvas.draw()
    with pytest.raises(InvalidInputError, match="axes must be 1 Matplotlib axes"):
        found.plot("here")


def test_bad_input(est, cells, groups):
    for given, match in (
        (groups[:-1], "one entry per sample, 120, but has shape"),
        (np.stack([groups] * 2), "one entry per sample"),
        ("batch", "X is no AnnData"),
        (["a"] * 120, "all samples are in the group 'a'"),
        (np.arange(120), "120 different values for 120 samples"),
        ([None, *groups[1:]], "1 samples have no group, the first is sample 0"),
        (pd.Series(groups), "another index than X"),
        (["b" if n == 70 else "a" for n in range(120)], "group 'b' has no sample with counts"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            est.compare(cells, given)
    for level in (0, 1, "high"):
        with pytest.raises(InvalidInputError, match="level must be"):
            est.compare(cells, groups, level=level)
    with pytest.raises(InvalidInputError, match="X has 9 features"):
        est.compare(cells.to_numpy()[:, 1:], groups)
