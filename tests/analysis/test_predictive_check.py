"""The predictive check: its statistics, draws and p-values, and what it finds. Seeds are fixed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from matplotlib.figure import Figure
from scipy import stats

import naive
from gapmf import GammaPoissonMF, GaP
from gapmf.analysis import predictive_check as module
from gapmf.analysis.predictive_check import STATISTICS, Subset, check_model_fit
from gapmf.analysis.replicates import (
    CountDraws,
    Spread,
    draw_activations,
    expected_feature_moments,
    feature_moments,
    statistics_of,
    two_sided_p,
)
from gapmf.errors import InvalidInputError

NAMES = [f"gene {f}" for f in range(12)]
CONTINUOUS = ("mean_total", "cv_total", "dispersion", "dispersion_given_totals")


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (7, 1), (20, 9)])
@pytest.mark.parametrize("scale", [0.0, 0.05, 3.0, 1e5])
def test_statistics_beside_literal_ones(shape, scale):
    rng = np.random.default_rng(shape[1])
    X = rng.poisson(scale * rng.gamma(0.5, 1.0, shape))
    X[:, 0] = 0 if shape[1] > 1 else X[:, 0]
    counts = sp.csr_array(X)
    found = statistics_of(counts, X.sum(axis=1).astype(float))
    np.testing.assert_allclose(found, naive.count_statistics(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(feature_moments(counts), [X.mean(axis=0), X.var(axis=0)], rtol=1e-9)
    W, H = rng.gamma(0.5, 1.0, (shape[1], 3)), rng.gamma(0.5, 1.0, (shape[0], 3))
    spread = Spread(W, H)
    expected = naive.residual_spread(X, H, W, spread.weights)
    assert spread.of(counts, H) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert spread.per_feature(counts, H[None]).sum() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("scale", [0.02, 0.2, 5.0])
def test_draws_have_the_moments_of_the_model(scale):
    """By tokens, sorted or counted, and by entries; z within 5 in 3 × 20 comparisons: 4e-5."""
    rng = np.random.default_rng(1)
    W = scale * rng.gamma(0.5, 1.0, (10, 3))
    W[4], W[:, 2] = 0.0, 0.0
    model, N = GaP(W, [0.5, 2.0, 1.0], [1.0, 0.7, 1.0]), 20_000
    X = CountDraws(W).draw(draw_activations(model, N, rng), rng)
    assert X.has_canonical_format
    mean = model.expected_counts()
    variance = mean + W**2 @ (model.alpha / model.beta**2)
    found = X.toarray()
    z = (found.mean(axis=0) - mean) / np.sqrt(np.maximum(variance, 1e-300) / N)
    assert np.abs(z[mean > 0]).max() < 5
    assert not found[:, 4].any()
    squares = (found - mean) ** 2
    z = (squares.mean(axis=0) - variance) / np.maximum(squares.std(axis=0) / np.sqrt(N), 1e-300)
    assert np.abs(z[mean > 0]).max() < 5


@pytest.mark.parametrize("exposures", [False, True])
def test_expected_moments_are_those_of_draws(exposures):
    """Means of 4,000 data sets of five samples; z within 5 in 2 × 2 × 6 comparisons: 1.4e-5."""
    rng = np.random.default_rng(2)
    W = rng.gamma(0.5, 3.0, (6, 2))
    model, s = GaP(W, [0.5, 2.0], [1.0, 0.7]), np.ones(5)
    if exposures:
        s = np.array([0.1, 0.5, 1.0, 2.0, 8.0])
    draws = CountDraws(W)
    moments = np.array(
        [
            feature_moments(draws.draw(draw_activations(model, 5, rng) * s[:, None], rng))
            for _ in range(4000)
        ]
    )
    error = moments.std(axis=0) / np.sqrt(len(moments))
    z = (moments.mean(axis=0) - expected_feature_moments(model, W, s)) / error
    assert np.abs(z).max() < 5


def test_p_values_are_ranks():
    replicates = np.arange(1.0, 200.0)[:, None]  # 199
    for value, p in ((0.0, 0.01), (1.0, 0.02), (100.0, 1.0), (199.0, 0.02), (200.0, 0.01)):
        assert two_sided_p(np.array([value]), replicates)[0] == pytest.approx(p)
    assert two_sided_p(np.array([3.0]), np.full((199, 1), 3.0))[0] == 1.0


@pytest.mark.slow
def test_p_values_are_uniform_if_the_model_is_right():
    """24 data sets: each count of p-values is within its binomial 1e-5 and 1 - 1e-5 quantiles.

    30 such counts: a false alarm has probability 3e-4. Statistics with ties have fewer small
    p-values; so has the residual, whose p-value is a mean over draws.
    """
    rng = np.random.default_rng(5)
    model = GaP(rng.gamma(0.7, 6.0, (8, 1)), 1.3)  # one component: the posterior is a Gamma
    n_sets, N = 24, 30
    p_values = []
    for seed in range(n_sets):
        X = model.sample(N, random_state=rng)
        shape = model.alpha + X.sum(axis=1)[:, None]
        draws = rng.gamma(shape, 1.0 / (model.column_norms + model.beta), (99, N, 1))
        found = check_model_fit(
            sp.csr_array(X),
            model,
            Subset(np.arange(N), N),
            draws,
            n_replicates=199,
            seed=seed,
            alpha_learned=False,
        )
        p_values.append(found.p_values)
    for level in (0.2, 0.5):
        small = dict(zip(STATISTICS, (np.array(p_values) <= level).sum(axis=0), strict=True))
        low, high = stats.binom.ppf([1e-5, 1 - 1e-5], n_sets, level)
        assert max(small.values()) <= high, small
        assert min(small[name] for name in CONTINUOUS) >= low, small


@pytest.fixture(scope="module")
def cells():
    """Counts of three components, and the same components with depths over a factor of 30."""
    rng = np.random.default_rng(0)
    truth = GaP(60 * rng.dirichlet(np.full(12, 0.3), 3).T, alpha=2.0)
    H = draw_activations(truth, 150, rng)
    depth = np.exp(rng.uniform(-1.7, 1.7, (150, 1)))
    same, deep = (pd.DataFrame(rng.poisson(h @ truth.W.T), columns=NAMES) for h in (H, depth * H))
    return same, deep


def fitted(X, K=3, **parameters):
    return GammaPoissonMF(K, alpha=2.0, tol=1e-3, random_state=0, **parameters).fit(X)


@pytest.fixture(scope="module")
def est(cells):
    return fitted(cells[0])


@pytest.fixture(scope="module")
def found(est, cells):
    return est.predictive_check(cells[0])


def test_a_model_that_fits(found, cells):
    assert found.advice == ["Nothing in these statistics speaks against the model."]
    assert (found.p_values > 0.01).all()
    assert found.replicates.shape == (199, len(STATISTICS))
    assert (found.n_samples, found.n_checked, found.n_entries_checked) == (150, 150, 150)
    assert "chosen at random" not in str(found)
    assert len(str(found).splitlines()) == len(STATISTICS) + 4
    assert repr(found) == "PredictiveCheck(150 samples, differ in: -)"
    mean = cells[0].to_numpy().mean(axis=0)
    np.testing.assert_allclose(found.feature_moments[0], mean)
    np.testing.assert_allclose(found.expected_moments[0], mean, rtol=0.2)


@pytest.mark.slow
def test_depth_is_found(cells):
    X = cells[1]
    found = fitted(X).predictive_check(X)
    assert found._direction("cv_total") == 1
    assert any("samples differ in depth" in text for text in found.advice)
    assert any("learn_alpha=True" in text for text in found.advice)
    assert found.p_values[1] == 0.01
    assert "spread of totals (CV)" in str(found)
    learned = fitted(X, learn_alpha=True).predictive_check(X)
    assert not any("learn_alpha" in text for text in learned.advice)


@pytest.mark.slow
def test_exposures_describe_depth(cells):
    """With the true depths as exposures the model fits; totals as exposures are no check."""
    rng = np.random.default_rng(4)
    truth = GaP(60 * rng.dirichlet(np.full(12, 0.3), 3).T, alpha=2.0)
    depth = np.exp(rng.uniform(-1.7, 1.7, 150))
    X = rng.poisson(depth[:, None] * draw_activations(truth, 150, rng) @ truth.W.T)
    est = GammaPoissonMF(3, alpha=2.0, tol=1e-3, random_state=0).fit(X, exposure=depth)
    found = est.predictive_check(X, exposure=depth)
    assert found.exposures == "given"
    assert not any(found._direction(name) for name in ("cv_total", "zeros", "residual"))
    wrong = est.predictive_check(X, exposure=1.0)
    assert wrong._direction("cv_total") == 1
    with pytest.raises(InvalidInputError, match="these samples need theirs"):
        est.predictive_check(X)
    X = X[X.sum(axis=1) > 0]
    total = GammaPoissonMF(3, alpha=2.0, tol=1e-2, random_state=0).fit(X, exposure="total")
    found = total.predictive_check(X)
    assert found.exposures == "total"
    assert not any("learn" in text for text in found.advice if "Totals" in text)


def test_missing_components_are_found(cells):
    X = cells[0]
    found = fitted(X, 1).predictive_check(X)
    assert found._direction("residual") == 1
    said = next(text for text in found.advice if "more components" in text)
    worst = NAMES[int(np.argmax(found.residuals))]
    assert worst in said


def test_other_data_and_an_outlier(est, cells):
    more = est.predictive_check(2 * cells[0])
    assert any("more counts than those of the fit" in text for text in more.advice)
    outlier = cells[0].copy()
    outlier.iloc[77, 5] = 900
    found = est.predictive_check(outlier)
    assert found.largest_at == (77, 5)
    assert found._direction("largest") == 1


def test_totals_that_hardly_differ(est, cells):
    """Samples of a fixed total."""
    rng = np.random.default_rng(3)
    P = est.proportions(cells[0]) @ (est.components_ / est.components_.sum(axis=1, keepdims=True))
    X = pd.DataFrame(rng.multinomial(120, P / P.sum(axis=1, keepdims=True)), columns=NAMES)
    found = est.predictive_check(X)
    assert found._direction("cv_total") == -1
    assert any("vary less" in text for text in found.advice)


def test_seeds_and_threads(est, cells, found):
    est.set_params(n_jobs=2)
    second = est.predictive_check(cells[0])
    est.set_params(n_jobs=None)
    np.testing.assert_array_equal(found.replicates, second.replicates)
    other = est.predictive_check(cells[0], random_state=8)
    assert (found.replicates[:, :2] != other.replicates[:, :2]).any()


def test_a_part_of_large_data_is_checked_and_this_is_said(est, cells, monkeypatch):
    monkeypatch.setattr(module, "TOKEN_WORK", 1.0)
    monkeypatch.setattr(module, "ACTIVATION_WORK", 199 * 3 * 80.0)
    found = est.predictive_check(cells[0])
    assert (found.n_checked, found.n_entries_checked) == (80, 50)
    assert "totals are those of 80 samples" in " ".join(str(found).split())
    n, f = found.largest_at
    assert found.observed[found.statistics.index("largest")] == cells[0].iloc[n, f]


def test_unknown_features_and_no_counts(cells):
    X = cells[0].copy()
    X["gene 3"] = 0
    est = fitted(X)
    with pytest.warns(UserWarning, match="gene 3"):
        found = est.predictive_check(cells[0])
    assert np.isnan(found.feature_moments[:, 3]).all()
    nothing = est.predictive_check(X * 0)
    assert nothing.observed[0] == 0
    assert any("fewer counts" in text for text in nothing.advice)
    assert est.predictive_check(X.iloc[:1]).n_checked == 1


def test_the_picture(found):
    axes = found.plot()
    assert [ax.get_title() for ax in axes] == ["totals", "features", "all statistics"]
    drawn = axes[0].lines[1].get_xydata()
    np.testing.assert_array_equal(drawn[:, 0], found.totals)
    labels = [label.get_text() for label in axes[2].get_yticklabels()]
    assert labels == list(STATISTICS.values())
    axes[0].figure.canvas.draw()
    mine = Figure().subplots(3)
    assert found.plot(mine)[0] is mine[0]
    with pytest.raises(InvalidInputError, match="axes must be 3 Matplotlib axes"):
        found.plot(mine[:2])


def test_bad_input(est, cells):
    part = GammaPoissonMF(2, tol=1e-2, random_state=0)
    part.fit(cells[0].to_numpy()[:, :3], observed=np.arange(450).reshape(150, 3) % 7 > 0)
    with pytest.raises(InvalidInputError, match="unobserved entries, which predictive_check"):
        part.predictive_check(cells[0].to_numpy()[:, :3])
    with pytest.raises(InvalidInputError, match="n_replicates must be a whole number, 199 or more"):
        est.predictive_check(cells[0], 20)
    with pytest.raises(InvalidInputError, match="X has 11 features"):
        est.predictive_check(cells[0].to_numpy()[:, 1:])
    with pytest.raises(InvalidInputError, match="random_state must be"):
        est.predictive_check(cells[0], random_state="a")
