"""Fits from shards and backed files: the same bits as in memory, and what they refuse."""

from __future__ import annotations

import os
import pickle
import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from gapmf import GammaPoissonMF, GaP, open_shards, write_shards
from gapmf.counts import check_counts
from gapmf.engines.base import State, Sweeps
from gapmf.engines.local import LocalEngine
from gapmf.engines.streamed import StreamedEngine
from gapmf.errors import InvalidInputError, ReadError
from gapmf.io.count_blocks import CountBlocks


def uneven_counts(N=150, F=40, seed=0):
    """Empty samples, long ones, and counts on both sides of what is drawn token by token."""
    rng = np.random.default_rng(seed)
    X = rng.negative_binomial(0.2, 0.05, (N, F)) * rng.integers(0, 2, (N, 1))
    X[3, 5], X[7, 0] = 129, 100_000
    X[:, 2] = 0
    return X


class Blocks(CountBlocks):
    """Blocks that end at given samples."""

    def __init__(self, X, cuts):
        self.X, self.shape = check_counts(X), X.shape
        self.starts = np.array([0, *cuts, X.shape[0]])

    def block(self, i):
        return self.X[self.starts[i] : self.starts[i + 1]]


def a_model(F=40, K=5, seed=1, alpha=0.3):
    return GaP(np.random.default_rng(seed).gamma(0.4, 1.0, (F, K)) + 1e-6, alpha=alpha)


@pytest.mark.parametrize("cuts", [(), (1, 4, 70), (50, 50, 100)])
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize(
    "sweeps",
    [Sweeps(1, expectations=True, sizes=True), Sweeps(3, 2, expectations=True), Sweeps(2, 1)],
)
def test_parts_in_files_have_the_bits_of_memory(cuts, n_jobs, sweeps):
    X, model = uneven_counts(), a_model()
    memory = LocalEngine().load(check_counts(X), seed=9)
    files = StreamedEngine(Blocks(X, cuts), n_jobs)
    files.start(9)
    for _ in range(2):
        a, b = memory.advance(model, sweeps), files.advance(model, sweeps)
        for name in ("c_sum", "h_sum", "sizes"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(memory.state.L, files.state.L)
    folder = files._folder.name
    assert os.listdir(folder)
    files.close()
    assert not os.path.exists(folder)


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="looks at the maps of Linux")
def test_files_are_unmapped_at_once():
    """Memory stays bounded: no part is in memory after its blocks are drawn."""
    files = StreamedEngine(Blocks(uneven_counts(), range(10, 150, 10)))
    files.start(9)
    for sweeps in (Sweeps(1, expectations=True), Sweeps(2)):
        files.advance(a_model(), sweeps)
    with open("/proc/self/maps") as maps:
        assert files._folder.name not in maps.read()
    files.close()


def test_states_go_from_engine_to_engine(tmp_path):
    X, model, one = uneven_counts(), a_model(), Sweeps(1, expectations=True)
    memory = LocalEngine().load(check_counts(X), seed=9)
    files = StreamedEngine(Blocks(X, (20, 90)), scratch=tmp_path)
    files.start(9)
    np.testing.assert_array_equal(files.state.L, np.full((150, 1), -1))
    memory.advance(model, one)
    files.state = memory.state
    kept = files.state
    later = [engine.advance(model, one) for engine in (memory, files)]
    np.testing.assert_array_equal(later[0].c_sum, later[1].c_sum)
    memory.state = kept  # what was given before has not changed
    files.state = kept
    np.testing.assert_array_equal(memory.advance(model, one).c_sum, later[0].c_sum)
    np.testing.assert_array_equal(files.advance(model, one).c_sum, later[0].c_sum)
    with pytest.raises(InvalidInputError, match="of 149 samples, but there are 150"):
        files.state = State(kept.L[1:], 1)
    with pytest.raises(InvalidInputError, match="the state of sample 100 must add up to"):
        files.state = State(kept.L + (np.arange(150) == 100)[:, None], 1)
    files.close()


def test_an_interrupted_step_leaves_the_state(monkeypatch):
    X, model, one = uneven_counts(), a_model(), Sweeps(1, expectations=True)
    files = StreamedEngine(Blocks(X, (20, 90)))
    files.start(1)
    files.advance(model, one)
    before = files.state.L.copy()
    reads = files._parts[2].layout
    monkeypatch.setattr(files._parts[2], "layout", lambda: (_ for _ in ()).throw(OSError("gone")))
    with pytest.raises(OSError, match="gone"):
        files.advance(model, one)
    np.testing.assert_array_equal(files.state.L, before)
    monkeypatch.setattr(files._parts[2], "layout", reads)
    memory = LocalEngine().load(check_counts(X), seed=1)
    memory.advance(model, one)
    np.testing.assert_array_equal(files.advance(model, one).c_sum, memory.advance(model, one).c_sum)
    files.close()


PARAMETERS = {"n_components": 3, "random_state": 0, "max_iter": 70, "learn_alpha": True, "tol": 0.0}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Counts in memory, as a frame, in shards and in a file of AnnData."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(3)
    X = rng.poisson(rng.gamma(0.3, 3.0, (80, 3)) @ rng.gamma(0.3, 1.0, (3, 12)))
    frame = pd.DataFrame(X, columns=[f"f{f}" for f in range(12)])
    shards = open_shards(write_shards(frame, folder / "shards", shard_tokens=150))
    obs = pd.DataFrame(index=[f"s{n}" for n in range(80)])
    var = pd.DataFrame(index=frame.columns)
    anndata.AnnData(sp.csr_matrix(X.astype(float)), obs, var).write_h5ad(folder / "a.h5ad")
    return X, frame, shards, folder / "a.h5ad"


@pytest.fixture(scope="module")
def in_memory(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GammaPoissonMF(**PARAMETERS).fit(data[1])


@pytest.mark.filterwarnings("ignore:mcem-c stopped")
def test_fits_have_the_bits_of_memory(data, in_memory, monkeypatch):
    monkeypatch.setattr("gapmf.io.count_blocks.BLOCK_ENTRIES", 100)
    _, _, shards, h5ad = data
    assert shards.n_blocks > 3
    for X in (shards, anndata.read_h5ad(h5ad, backed="r")):
        est = GammaPoissonMF(**PARAMETERS).fit(X)
        np.testing.assert_array_equal(est.components_, in_memory.components_)
        np.testing.assert_array_equal(est.alpha_, in_memory.alpha_)
        np.testing.assert_array_equal(est.feature_counts_, in_memory.feature_counts_)
        assert est.feature_names_in_.tolist() == in_memory.feature_names_in_.tolist()
        np.testing.assert_array_equal(est.transform(X), in_memory.transform(data[1]))
        np.testing.assert_array_equal(est.proportions(X), in_memory.proportions(data[1]))
        np.testing.assert_array_equal(est.score_samples(X), in_memory.score_samples(data[1]))
        found, whole = est.log_likelihood(X), in_memory.log_likelihood(data[1])
        assert abs(found.total - whole.total) <= 5 * (found.std_error + whole.std_error) + 1e-9
        assert est.score(X) == pytest.approx(in_memory.score(data[1]), abs=0.05)


@pytest.mark.filterwarnings("ignore:mcem-c stopped")
def test_starts_are_compared(data):
    """With several starts, the likelihood is computed part by part: the same start is chosen."""
    parameters = PARAMETERS | {"n_init": 2, "max_iter": 5, "init": "random", "score_every": 5}
    a, b = (GammaPoissonMF(**parameters).fit(X) for X in (data[1], data[2]))
    np.testing.assert_array_equal(a.components_, b.components_)
    values = [est.history_["log_likelihood"][4] for est in (a, b)]
    assert values[0] == pytest.approx(values[1], rel=1e-3)


@pytest.mark.filterwarnings("ignore:mcem-c stopped")
def test_a_killed_fit_goes_on_from_anywhere(data, in_memory, tmp_path, monkeypatch):
    """A checkpoint of a fit from shards is resumed from shards or from memory, to the same bits."""
    monkeypatch.setattr("gapmf.storage.checkpoint.EVERY_SECONDS", 0.0)
    monkeypatch.setattr("gapmf.storage.checkpoint._SHARE", 0.0)
    path = tmp_path / "fit"

    def kill(record):
        if record.iteration == 40:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        GammaPoissonMF(**PARAMETERS, checkpoint=path, callbacks=[kill]).fit(data[2])
    kept = path.read_bytes()
    for X in data[1:3]:
        path.write_bytes(kept)
        est = GammaPoissonMF.resume(path, X)
        np.testing.assert_array_equal(est.components_, in_memory.components_)
    path.write_bytes(kept)
    other = open_shards(write_shards(data[0] + 1, tmp_path / "other"))
    with pytest.raises(InvalidInputError, match=r"is not what the fit in .* was started with"):
        GammaPoissonMF.resume(path, other)


def test_what_needs_memory_is_refused(data):
    shards = data[2]
    for algorithm in ("exact", "vbem"):
        with pytest.raises(InvalidInputError, match=r"needs all counts in memory.*'mcem-c'"):
            GammaPoissonMF(2, algorithm=algorithm).fit(shards)
    for name, value in (("sample_weight", np.ones(80)), ("exposure", "total"), ("observed", "nan")):
        with pytest.raises(InvalidInputError, match=f"{name} is for counts in memory"):
            GammaPoissonMF(2).fit(shards, **{name: value})
    with pytest.raises(InvalidInputError, match="feature 0 has counts, but every component"):
        GammaPoissonMF(2, init=np.eye(2, 12, 5)).fit(shards)
    with pytest.raises(InvalidInputError, match="engine must be 'local', 'dask' or a distributed"):
        GammaPoissonMF(2, engine="spark").fit(shards)
    with pytest.raises(InvalidInputError, match="engine must be"):
        GammaPoissonMF(2, engine="spark").fit([[1]])


def test_shards_are_the_blocks_of_partial_fit(data):
    shards = data[2]
    by_hand = GammaPoissonMF(2, random_state=0)
    for block in shards:
        by_hand.partial_fit(block)
    est = GammaPoissonMF(2, random_state=0).partial_fit(shards)
    np.testing.assert_array_equal(est.components_, by_hand.components_)
    with pytest.raises(InvalidInputError, match="schedule='online' needs all counts in memory"):
        GammaPoissonMF(2, schedule="online").fit(shards)


def test_features_are_compared(data, in_memory, tmp_path):
    named = pd.DataFrame([[1] * 12], columns=[f"g{f}" for f in range(12)])
    other = open_shards(write_shards(named, tmp_path / "other"))
    with pytest.raises(InvalidInputError, match="feature names should match"):
        in_memory.transform(other)


def test_a_shard_that_is_lost_stops_the_fit(data, tmp_path):
    path = write_shards(data[0], tmp_path / "shards", shard_tokens=150)
    (path / "00002.parquet").unlink()
    with pytest.raises(ReadError, match=r"00002\.parquet cannot be read"):
        GammaPoissonMF(2).fit(open_shards(path))


def test_a_manifest_of_other_shards_is_found_out(data, tmp_path):
    path = write_shards(data[0], tmp_path / "shards", shard_tokens=150)
    text = (path / "manifest.json").read_text()
    place = text.index('"digest": "') + len('"digest": "')
    (path / "manifest.json").write_text(text[:place] + "0" * 32 + text[place + 32 :])
    with pytest.raises(ReadError, match="not those that its manifest describes"):
        GammaPoissonMF(2).fit(open_shards(path))


def test_shards_can_be_pickled(data):
    again = pickle.loads(pickle.dumps(data[2]))
    np.testing.assert_array_equal(again.block(1).toarray(), data[2].block(1).toarray())
