"""What a component is about. Seeds are fixed."""

import numpy as np
import pytest

from gapmf import GammaPoissonMF, GaP
from gapmf.errors import InvalidInputError
from gapmf.ranks.features import (
    component_labels,
    distinctiveness,
    feature_weights,
    order_features,
    top_features,
)

K, HOUSEKEEPING, MARKERS = 5, 20, 6
MANY = np.array([1e6])  # only the total of the counts matters


def programs(rng, spread):
    """Gene programs: housekeeping genes are 60 % of each and vary; markers are 10 % of one."""
    house = rng.lognormal(0, 1, (HOUSEKEEPING, 1)) * rng.lognormal(0, spread, (HOUSEKEEPING, K))
    others = rng.lognormal(0, 2, (500, 1)) * rng.lognormal(0, 0.2, (500, K))
    markers = np.full((K * MARKERS, K), 0.002 / MARKERS)
    for k in range(K):
        markers[k * MARKERS : (k + 1) * MARKERS, k] = 0.1 / MARKERS
    parts = [0.6 * house / house.sum(axis=0), markers, 0.3 * others / others.sum(axis=0)]
    names = [f"RP{f}" for f in range(HOUSEKEEPING)]
    names += [f"M{k}.{i}" for k in range(K) for i in range(MARKERS)]
    return np.concatenate(parts), [*names, *(f"other{f}" for f in range(500))]


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.1, 0.4])
def test_markers_lead_where_housekeeping_genes_have_the_largest_weights(spread):
    """The top of a fit to cells: by weight it is housekeeping, by default the known markers."""
    rng = np.random.default_rng(1)
    W, names = programs(rng, spread)
    X = GaP(W * 8000, alpha=0.3).sample(150, random_state=2)
    est = GammaPoissonMF(K, alpha=0.3, tol=1e-3, random_state=0).fit(X)
    found = [[name for name, _ in top] for top in est.top_features(MARKERS, names=names)]
    wanted = [{f"M{k}.{i}" for i in range(MARKERS)} for k in range(K)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, wanted))
    by_weight = est.top_features(MARKERS, by="weight", names=names)
    assert all(sum(name.startswith("RP") for name, _ in top) >= 3 for top in by_weight)
    for top in by_weight:
        assert [w for _, w in top] == sorted((w for _, w in top), reverse=True)


def test_the_value_is_the_features_part_of_the_component():
    W, names = programs(np.random.default_rng(0), 0.3)
    parts = dict(zip(names, feature_weights(GaP(W)).T[2], strict=True))
    for by in ("distinctive", "weight"):
        for name, weight in top_features(GaP(W), MANY, by=by, names=names)[2]:
            assert weight == parts[name]


def test_the_literal_formula():
    rng = np.random.default_rng(0)
    model = GaP(rng.gamma(0.3, 3.0, (7, 3)), alpha=[0.5, 1.0, 2.0], beta=[1.0, 3.0, 0.2])
    counts = rng.integers(1, 50, 7).astype(float)
    expected = model.W * (model.alpha / model.beta)
    n = expected / expected.sum() * counts.sum()
    for k in range(3):
        others = np.delete(n, k, axis=1).sum(axis=1)
        e = n[:, k].sum() * others / others.sum()
        value = np.sqrt(n[:, k]) * np.log((n[:, k] + 1) / (e + 1))
        np.testing.assert_allclose(distinctiveness(model, counts)[:, k], value, rtol=1e-10)


def test_a_rare_feature_does_not_win():
    """Feature 0 occurs only here, once in ten thousand counts; feature 1 is 30 times as frequent
    as elsewhere."""
    W = np.array([[1.0, 0.0], [600.0, 20.0], [9399.0, 9980.0]])
    few, much = np.array([2e4]), np.array([2e9])
    assert order_features(GaP(W), few)[:, 0].tolist() == [1, 2, 0]  # one count shows nothing
    assert order_features(GaP(W), much)[:, 0].tolist() == [1, 0, 2]  # 100,000 do
    assert distinctiveness(GaP(W), MANY)[2, 0] < 0


def test_two_components_that_share_a_role_keep_their_features():
    """The comparison is with all others together, so that a twin takes nothing away."""
    rng = np.random.default_rng(0)
    W, names = programs(rng, 0.2)
    twin = np.column_stack([W, W[:, 0] * rng.lognormal(0, 0.05, len(W))])
    tops = top_features(GaP(twin), MANY, MARKERS, names=names)
    for k in (0, K):
        assert {name for name, _ in tops[k]} == {f"M0.{i}" for i in range(MARKERS)}


def test_one_component_equal_components_and_empty_ones_fall_back_to_weight():
    w = np.array([3.0, 9.0, 0.0, 1.0])
    by_weight = [[(1, 9 / 13), (0, 3 / 13), (3, 1 / 13)]]
    assert top_features(GaP(w[:, None]), MANY) == by_weight
    assert top_features(GaP(w[:, None]), np.zeros(4)) == by_weight
    alike = top_features(GaP(np.outer(w, [1.0, 0.3, 7.0])), MANY)
    assert [[f for f, _ in top] for top in alike] == [[1, 0, 3]] * 3
    with_empty = top_features(GaP(np.column_stack([w, 0 * w, 1e-12 * w[::-1]])), MANY)
    assert with_empty[1] == []
    assert [f for f, _ in with_empty[2]] == [2, 3, 0]  # without counts: by weight
    assert top_features(GaP(np.zeros((4, 2))), MANY) == [[], []]


def test_labels():
    W, names = programs(np.random.default_rng(0), 0.1)
    labels = component_labels(GaP(W), MANY, names, n=2)
    assert len(labels) == K
    for k, label in enumerate(labels):
        assert [name.split(".")[0] for name in label.split(", ")] == [f"M{k}"] * 2
    assert component_labels(GaP([[2.0], [1.0]]), MANY) == ["0, 1"]


def test_refusals():
    model = GaP([[2.0], [1.0]])
    with pytest.raises(
        InvalidInputError, match="by must be one of 'distinctive', 'weight', but is 'size'"
    ):
        top_features(model, MANY, by="size")
    with pytest.raises(InvalidInputError, match="names must have 2 entries"):
        top_features(model, MANY, names=["a"])
    with pytest.raises(InvalidInputError, match="n must be a whole number, 1 or more"):
        top_features(model, MANY, 0)


@pytest.mark.parametrize("by", ["distinctive", "weight"])
@pytest.mark.parametrize("levels", [1, 3, 1000])  # few different weights: many are equal
def test_the_first_features_are_the_first_of_all(by, levels):
    rng = np.random.default_rng(levels)
    W = np.round(rng.gamma(0.3, 1.0, (50, 4)) * levels) / levels
    W[0] += 0.5
    model, counts = GaP(W), rng.integers(0, 300, 50).astype(float)
    everything = order_features(model, counts, by)
    assert (np.sort(everything, axis=0) == np.arange(50)[:, None]).all()
    for n in (1, 2, 7, 49, 50, 60):
        np.testing.assert_array_equal(order_features(model, counts, by, n), everything[:n])
