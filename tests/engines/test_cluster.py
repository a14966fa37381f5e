"""Fits on a Dask cluster of two worker processes: the bits of this machine, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings

import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from gapmf import GammaPoissonMF, GaP, open_shards, write_shards
from gapmf.counts import check_counts
from gapmf.engines.base import Sweeps
from gapmf.engines.cluster import DaskEngine
from gapmf.engines.local import LocalEngine
from gapmf.errors import InvalidInputError, ReadError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:mcem-c stopped"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed"),
]

N, F, K = 90, 12, 3
PARAMETERS = {"n_components": K, "random_state": 0, "max_iter": 8, "learn_alpha": True, "tol": 0.0}
ONE = Sweeps(1, expectations=True)


def test_without_a_cluster():
    """The first test of this file: no client has been made."""
    with pytest.raises(ValueError, match="found no cluster: make a client first"):
        GammaPoissonMF(1, engine="dask").fit(da.ones((2, 2), dtype=int))


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dask")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            local_directory=str(folder),
            memory_limit=0,
        ) as cluster,
        distributed.Client(cluster, set_as_default=True) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(3)
    X = rng.poisson(rng.gamma(0.3, 3.0, (N, K)) @ rng.gamma(0.3, 1.0, (K, F)))
    X[[0, 44]] = 0
    X[:, 4] = 0
    X[7, 1] = 5000
    return X


@pytest.fixture(scope="module")
def local(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GammaPoissonMF(**PARAMETERS).fit(X)


def dask_array(X, rows, sparse=False):
    array = da.from_array(X, chunks=(rows, 5))
    return array.rechunk({1: -1}).map_blocks(sp.csr_array) if sparse else array


def shards_of(X, folder, tokens):
    return open_shards(write_shards(X, folder, shard_tokens=tokens))


@pytest.mark.parametrize("parts", [0, 1, 2])
@pytest.mark.parametrize("kind", ["dense", "sparse", "frame", "shards"])
def test_w_has_the_bits_of_this_machine(client, X, local, kind, parts, tmp_path):
    """For three partitionings."""
    if kind == "shards":
        data = shards_of(X, tmp_path / "shards", (10**6, 6000, 700)[parts])
    elif kind == "frame":
        names = [f"f{f}" for f in range(F)]
        data = dd.from_pandas(pd.DataFrame(X, columns=names), npartitions=(1, 3, 7)[parts])
    else:
        data = dask_array(X, (N, 40, (1, 43, 46))[parts], kind == "sparse")
    est = GammaPoissonMF(**PARAMETERS, engine="dask").fit(data)
    np.testing.assert_array_equal(est.components_, local.components_)
    np.testing.assert_array_equal(est.alpha_, local.alpha_)
    np.testing.assert_array_equal(est.history_["norms"], local.history_["norms"])
    if kind == "frame":
        assert est.feature_names_in_.tolist() == [f"f{f}" for f in range(F)]


def test_answers_are_lazy_and_the_same(client, X, local):
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    for data in (dask_array(X, 40), dask_array(X, 40, sparse=True), frame):
        H, P, values = local.transform(data), local.proportions(data), local.score_samples(data)
        assert all(isinstance(found, da.Array) for found in (H, P, values))
        np.testing.assert_array_equal(H.compute(), local.transform(X))
        np.testing.assert_array_equal(P.compute(), local.proportions(X))
        np.testing.assert_array_equal(values.compute(), local.score_samples(X))
        assert local.score(data) == pytest.approx(local.score(X), rel=1e-3)
    assert local.transform(dask_array(X, 40)).chunks == ((40, 40, 10), (K,))


def _folders(client):
    """What the workers have on disk of all fits."""
    found = client.run(
        lambda dask_worker: [
            name for name in os.listdir(dask_worker.local_directory) if name.startswith("gapmf-")
        ]
    )
    return [name for names in found.values() for name in names]


def test_states_move_and_everything_is_freed(client, X):
    model = GaP(np.random.default_rng(1).gamma(0.4, 1.0, (F, K)) + 1e-6, alpha=0.3)
    memory = LocalEngine().load(check_counts(X), seed=9)
    engine = DaskEngine(dask_array(X, 20), client)
    engine.start(9)
    np.testing.assert_array_equal(engine.state.L, np.full((N, 1), -1))
    for sweeps in (ONE, Sweeps(2, 1), Sweeps(1, expectations=True, sizes=True)):
        a, b = memory.advance(model, sweeps), engine.advance(model, sweeps)
        np.testing.assert_array_equal(a.c_sum, b.c_sum)
        np.testing.assert_array_equal(a.h_sum, b.h_sum)
    np.testing.assert_array_equal(a.sizes, b.sizes)
    np.testing.assert_array_equal(engine.state.L, memory.state.L)
    memory.advance(model, ONE)
    engine.state = memory.state
    assert (
        engine.map_counts(np.sum) == [X[n : n + 20].sum() for n in range(0, N, 20)]
        or sum(engine.map_counts(np.sum)) == X.sum()
    )
    np.testing.assert_array_equal(
        memory.advance(model, ONE).c_sum, engine.advance(model, ONE).c_sum
    )
    assert _folders(client)
    engine.close()
    for _ in range(100):
        if not _folders(client):
            break
    assert not _folders(client)


def _kill_one(client):
    """End a worker process by SIGKILL."""
    pids = client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)


def test_a_worker_that_is_killed(client, X, tmp_path):
    """Its chains start from W: the fit completes, and no count is lost or counted twice.

    With shards; the next test is with an array. A new worker takes seconds to begin.
    """
    client.wait_for_workers(2, timeout=30)
    data = shards_of(X, tmp_path / "shards", 700)
    killed = []

    def kill(record):
        if record.iteration == 3:
            _kill_one(client)
            killed.append(record)
        # Σ_k (α_k/β_k) w_fk is the mean count of each feature after every M-step of MCEM-C.
        W = record.model.W * (record.model.alpha / record.model.beta)
        np.testing.assert_allclose(W.sum(axis=1), X.mean(axis=0), rtol=1e-12)

    parameters = PARAMETERS | {"schedule": "saem"}
    est = GammaPoissonMF(**parameters, engine=client, callbacks=[kill]).fit(data)
    assert killed
    assert est.n_iter_ == 8


def test_exact_sums_after_a_loss(client, X):
    """Chains that were not lost go on as if nothing had happened, and the rows add up exactly."""
    client.wait_for_workers(2, timeout=30)
    model = GaP(np.random.default_rng(1).gamma(0.4, 1.0, (F, K)) + 1e-6, alpha=0.3)
    engine = DaskEngine(dask_array(X, 15), client)
    engine.start(9)
    memory = LocalEngine().load(check_counts(X), seed=9)
    for _ in range(2):
        engine.advance(model, ONE)
        memory.advance(model, ONE)
    _kill_one(client)
    s = engine.advance(model, ONE)
    np.testing.assert_array_equal(s.c_sum.sum(axis=1), X.sum(axis=0))
    memory.advance(model, ONE)
    same = (engine.state.L == memory.state.L).all(axis=1)
    np.testing.assert_array_equal(engine.state.L.sum(axis=1), X.sum(axis=1))
    assert 15 <= same.sum() < N
    engine.close()


def test_a_checkpoint_is_resumed_to_the_same_bits(client, X, local, tmp_path, monkeypatch):
    monkeypatch.setattr("gapmf.storage.checkpoint.EVERY_SECONDS", 0.0)
    monkeypatch.setattr("gapmf.storage.checkpoint._SHARE", 0.0)
    client.wait_for_workers(2, timeout=30)
    path = tmp_path / "fit"

    def stop(record):
        if record.iteration == 5:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        GammaPoissonMF(**PARAMETERS, engine=client, checkpoint=path, callbacks=[stop]).fit(
            dask_array(X, 40)
        )
    kept = path.read_bytes()
    again = GammaPoissonMF.resume(path, dask_array(X, 25))  # the current client, other blocks
    np.testing.assert_array_equal(again.components_, local.components_)
    path.write_bytes(kept)
    here = GammaPoissonMF.resume(path, X, engine="local")
    np.testing.assert_array_equal(here.components_, local.components_)


def test_what_cannot_be_read_stops_the_fit_by_name(client, X, tmp_path):
    path = write_shards(X, tmp_path / "shards", shard_tokens=700)
    content = (path / "00001.parquet").read_bytes()
    (path / "00001.parquet").write_bytes(content[:-1] + b"x")
    with pytest.raises(ReadError, match=r"00001\.parquet does not match its checksum"):
        GammaPoissonMF(2, engine="dask").fit(open_shards(path))
    (path / "00001.parquet").unlink()
    with pytest.raises(ReadError, match=r"00001\.parquet cannot be read"):
        GammaPoissonMF(2, engine="dask").fit(open_shards(path))
    bad = X.astype(float)
    bad[50, 3] = 0.5
    with pytest.raises(InvalidInputError, match=r"block 1 of X\[10, 3\] is 0.5"):
        GammaPoissonMF(2, engine="dask").fit(dask_array(bad, 40))


def test_what_is_refused(client, X):
    with pytest.raises(InvalidInputError, match="use engine='dask'"):
        GammaPoissonMF(2).fit(dask_array(X, 40))
    with pytest.raises(InvalidInputError, match=r"but X is ndarray: use dask\.array.from_array"):
        GammaPoissonMF(2, engine="dask").fit(X)
    with pytest.raises(InvalidInputError, match="1 dimension"):
        GammaPoissonMF(2, engine="dask").fit(da.zeros((3, 2))[:, 0].reshape(3, 1).sum(axis=1))


def test_an_estimator_with_a_client_is_cloned_and_saved(client, local, X, tmp_path):
    est = GammaPoissonMF(**PARAMETERS, engine=client)
    assert clone(est).engine is client
    est.fit(dask_array(X, 40)).save(tmp_path / "model")
    assert GammaPoissonMF.load(tmp_path / "model").engine == "dask"


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


def test_without_dask_the_extra_is_named(tmp_path):
    path = write_shards([[1, 2], [3, 4]], tmp_path / "shards")
    code = (
        "import sys; sys.modules['dask'] = sys.modules['distributed'] = None\n"
        "import gapmf\n"
        f"shards = gapmf.open_shards({str(path)!r})\n"
        "est = gapmf.GammaPoissonMF(1, random_state=0).fit(shards)\n"
        "print(est.transform(shards).shape)\n"
        "try: gapmf.GammaPoissonMF(1, engine='dask').fit(shards)\n"
        "except ImportError as error: print(error)\n"
    )
    done = run(code)
    assert done.stdout.startswith("(2, 1)\n"), done.stderr
    assert "pip install 'gapmf[dask]'" in done.stdout
