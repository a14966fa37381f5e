"""Estimators in files: the same answers, and nothing but the project's errors for other files."""

from __future__ import annotations

import contextlib
import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapmf import GammaPoissonMF, GaP, storage
from gapmf.errors import GapmfError, StorageError


def counts(N=25):
    rng = np.random.default_rng(0)
    return GaP(rng.gamma(0.3, 10.0, (8, 3)), alpha=0.5).sample(N, random_state=0)


FITS = {
    "mcem-c": {
        "n_components": 5,
        "alpha": np.array([0.5, 1, 1, 2, 0.3]),
        "tol": 1e-3,
        "smoothing": 0.1,
    },
    "learned": {"n_components": 3, "learn_alpha": "shared", "tol": 1e-3, "score_every": 3},
    "exact": {"n_components": 2, "algorithm": "exact", "beta": 2.0},
    "init": {"n_components": 2, "init": np.ones((2, 8)), "algorithm": "em-ch", "tol": 1e-3},
    "vbem": {"n_components": 3, "algorithm": "vbem", "learn_alpha": "shared", "tol": 1e-3},
    "mjle": {"n_components": 3, "algorithm": "mjle", "alpha": 1.5, "tol": 1e-3},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:the learned α is at its bound")
@pytest.mark.filterwarnings("ignore:the chains of . of 25 samples disagree")
@pytest.mark.parametrize("name", FITS)
def test_a_file_gives_the_same_answers(name, tmp_path):
    X = counts()
    table = pd.DataFrame(X, columns=[f"f{f}" for f in range(8)])
    est = GammaPoissonMF(**FITS[name], random_state=3).fit(table)
    path = tmp_path / "a model"
    est.save(path)
    assert list(tmp_path.iterdir()) == [path]
    found = GammaPoissonMF.load(path)
    assert str(found.get_params()) == str(est.get_params())
    for attribute in sorted(set(vars(est)) | set(vars(found))):
        if attribute.endswith("_") and attribute not in ("model_", "certificate_", "history_"):
            np.testing.assert_array_equal(getattr(found, attribute), getattr(est, attribute))
    assert found.model_ == est.model_
    assert set(found.history_) == set(est.history_)
    for part, values in est.history_.items():
        np.testing.assert_array_equal(found.history_[part], values)
    assert hasattr(found, "certificate_") == (name in ("exact", "init"))
    np.testing.assert_array_equal(found.transform(table), est.transform(table))
    np.testing.assert_array_equal(found.score_samples(table), est.score_samples(table))
    found.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_what_a_file_cannot_hold_is_left_out(tmp_path):
    seen = []
    est = GammaPoissonMF(
        1, random_state=np.random.default_rng(0), callbacks=[seen.append], checkpoint=None
    ).fit(counts())
    est.save(tmp_path / "model")
    found = GammaPoissonMF.load(tmp_path / "model")
    assert found.callbacks is None
    assert found.random_state is None
    np.testing.assert_array_equal(found.transform(counts()), est.transform(counts()))


def test_an_estimator_that_is_not_fitted_is_not_saved(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        GammaPoissonMF().save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_other_files_are_refused_and_nothing_runs(tmp_path):
    class Trap:
        def __reduce__(self):
            return (tmp_path.joinpath("sprung").write_text, ("!",))

    path = tmp_path / "file"
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(StorageError, match="is not a gapmf file"):
        GammaPoissonMF.load(path)
    assert not (tmp_path / "sprung").exists()
    np.savez(tmp_path / "other.npz", W=np.ones(3))
    with pytest.raises(StorageError, match="is not a gapmf file"):
        GammaPoissonMF.load(tmp_path / "other.npz")
    storage.write(path, "model", {"parameters": {}, "fitted": {}}, version="1")
    with pytest.raises(StorageError, match="cannot be loaded"):
        GammaPoissonMF.load(path)
    with pytest.raises(FileNotFoundError):
        GammaPoissonMF.load(tmp_path / "nowhere")


def nodes(tree, place=()):
    """Where the nodes of a tree are."""
    yield place
    if isinstance(tree, dict):
        for key in tree:
            yield from nodes(tree[key], (*place, key))
    elif isinstance(tree, list):
        for i in range(len(tree)):
            yield from nodes(tree[i], (*place, i))


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text("ab", max_size=2), st.none(), max_size=2),
    st.sampled_from(
        [np.ones(0), np.ones((2, 3)), np.full((8, 2), np.nan), np.array("x"), np.array([-1, 2])]
    ),
)


@pytest.fixture(scope="module")
def a_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "model"
    GammaPoissonMF(2, tol=1e-3, random_state=0).fit(counts()).save(path)
    return path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_files_with_anything_in_them(a_file, data):
    """Right check sums, and one node replaced or gone: an estimator, or the project's error."""
    content = storage.read(a_file, "model")
    changed = copy.deepcopy(content)
    place = data.draw(st.sampled_from(list(nodes(content))[1:]))
    parent = changed
    for step in place[:-1]:
        parent = parent[step]
    if data.draw(st.booleans()) or isinstance(parent, list):
        parent[place[-1]] = data.draw(LEAVES)
    else:
        del parent[place[-1]]
    path = a_file.with_name("changed")
    storage.write(path, "model", changed, version="1")
    with contextlib.suppress(GapmfError):
        GammaPoissonMF.load(path).transform(counts())
