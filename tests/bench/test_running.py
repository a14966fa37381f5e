"""Cells, the clock, resuming, and peers that need no further package."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from peers import cell as cells
from peers import data, plan, runner, sklearn_models
from peers import watch as clock
from peers.budget import OVERHEAD, budget
from peers.cell import Cell
from peers.protocol import Fitted, Peer
from peers.watch import Watch


@pytest.fixture
def few():
    rng = np.random.default_rng(0)
    phi = rng.dirichlet(np.full(12, 0.3), 3)
    return sp.csr_array(rng.poisson(20 * rng.dirichlet(np.full(3, 0.3), 60) @ phi))


def test_halves_add_up_and_nothing_is_seen_twice(few):
    parts = data.split(few, None)
    assert parts.train.shape[0] == 54
    assert parts.shown.shape == parts.hidden.shape == (6, 12)
    total = parts.train.sum() + parts.shown.sum() + parts.hidden.sum()
    assert total == few.sum()
    again = data.split(few, None)
    assert (again.shown != parts.shown).nnz == 0


@pytest.mark.parametrize("name", ["digits", "small counts", "large counts", "cells", "bursty"])
def test_data_sets_can_be_made(name):
    found = data.load(name, quick=True)
    assert found.train.min() >= 0
    assert found.shown.sum() > 0
    assert found.hidden.sum() > 0
    if found.truth is not None:
        np.testing.assert_allclose(found.truth.sum(axis=1), 1.0)
        assert found.truth.shape[1] == found.train.shape[1]


def test_nips_is_skipped_with_a_reason(monkeypatch):
    monkeypatch.delenv("GAPMF_NIPS_DIR", raising=False)
    result, components = cells.run(Cell("nips", 5, "gapmf, default", quick=True))
    assert result["skipped"]
    assert "GAPMF_NIPS_DIR" in result["reason"]
    assert components is None


def test_the_clock_stops_while_a_model_is_judged(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clock, "cpu_seconds", lambda: now[0])

    def judge(fitted):
        now[0] += 100.0
        return {"perplexity": 1.0}

    watch = Watch(judge, limit=1.5)
    stopped = []
    for passes in range(1, 5):
        now[0] += 0.4
        stopped.append(watch(passes, lambda: None))
    assert stopped == [False, False, False, True]
    assert watch.cpu == pytest.approx(1.6)
    assert [look["passes"] for look in watch.looks] == [1, 2, 3]  # from 0.25, 0.5 and 1 s
    assert [look["cpu"] for look in watch.looks] == pytest.approx([0.4, 0.8, 1.2])


def test_batch_lda_in_steps_is_batch_lda(few, monkeypatch):
    monkeypatch.setattr(sklearn_models, "BATCH_PASSES", 6)
    from sklearn.decomposition import LatentDirichletAllocation

    found = sklearn_models.fit_batch(few, 3, 1, 1, Watch(lambda fitted: {}, 60.0))
    whole = LatentDirichletAllocation(
        3, random_state=1, learning_method="batch", max_iter=sklearn_models.BATCH_PASSES
    ).fit(few)
    expected = whole.components_ / whole.components_.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.components, expected, rtol=1e-6)
    np.testing.assert_allclose(found.infer(few), whole.transform(few), rtol=1e-5)


def test_nmf_in_steps_is_nmf(few):
    from sklearn.decomposition import NMF

    found = sklearn_models.fit_nmf(few, 3, 1, 1, Watch(lambda fitted: {}, 60.0))
    whole = NMF(
        3, init="nndsvda", beta_loss="kullback-leibler", solver="mu", random_state=1, max_iter=1000
    ).fit(few.astype(float))
    assert found.passes == whole.n_iter_
    expected = whole.components_ / whole.components_.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.components, expected, rtol=1e-6)


def test_gapmf_as_a_peer_is_document_completion():
    """One definition for all agrees with the library's own score."""
    from gapmf import GammaPoissonMF, document_completion
    from peers.gapmf_fits import fitted
    from peers.measures import background, completion_perplexity

    split = data.load("digits", quick=True)
    est = GammaPoissonMF(4, random_state=0, tol=1e-2).fit(split.train)
    peer = fitted(est.model_, split.train, 30, 1)
    theta = peer.infer(split.shown)
    np.testing.assert_allclose(theta.sum(axis=1), 1.0)
    base = background(split.train)
    found = completion_perplexity(split.hidden, theta, peer.components, base)
    own = document_completion(split.shown, split.hidden, est, random_state=0)
    assert found == pytest.approx(own.perplexity, rel=0.005)  # chains differ


def _broken(train, K, seed, threads, watch):
    raise RuntimeError("no convergence")


def _uniform(train, K, seed, threads, watch):
    F = train.shape[1]
    phi, theta = np.full((K, F), 1.0 / F), 1.0 / K
    return Fitted(phi, lambda shown: np.full((shown.shape[0], K), theta), 1)


def test_a_failure_is_a_result_with_a_reason(monkeypatch):
    from peers import registry

    few = {
        "bad": Peer("bad", "gapmf", "", _broken),
        "absent": Peer("absent", "no-such-package", "", _uniform),
        "flat": Peer("flat", "gapmf", "", _uniform),
    }
    monkeypatch.setattr(registry, "PEERS", few)
    bad, _ = cells.run(Cell("digits", 3, "bad", quick=True))
    assert bad["reason"] == "RuntimeError: no convergence"
    absent, _ = cells.run(Cell("digits", 3, "absent", quick=True))
    assert absent["reason"].startswith("not installed")
    flat, components = cells.run(Cell("digits", 3, "flat", quick=True))
    assert flat["perplexity"] == pytest.approx(64, rel=0.01)
    assert flat["perplexity_common"] == pytest.approx(flat["perplexity"])
    assert components.shape == (3, 64)


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    made = []

    def run_cell(cell, folder):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(cell.key)
        cells.write_atomically(folder / f"{cell.key}.json", json.dumps(asdict(cell)).encode())
        return cell.key

    monkeypatch.setattr(runner, "run_cell", run_cell)
    planned = [Cell("digits", K, "gapmf, default") for K in (2, 3, 4, 5)]
    with pytest.raises(KeyboardInterrupt):
        runner.run(planned, tmp_path, workers=1)
    first = list(made)
    assert len(first) == 2
    made.clear()
    monkeypatch.setattr(runner, "run_cell", lambda cell, folder: made.append(cell.key) or cell.key)
    runner.run(planned, tmp_path, workers=1)
    assert first + made == [cell.key for cell in planned]
    assert not list(tmp_path.glob("tmp*"))


def test_skipped_cells_are_tried_again(tmp_path):
    cell = Cell("nips", 5, "gapmf, default")
    path = tmp_path / f"{cell.key}.json"
    path.write_text(json.dumps({"reason": "no data", "skipped": True}), encoding="utf-8")
    assert not runner.is_done(cell, tmp_path)
    path.write_text(json.dumps({"reason": "crashed"}), encoding="utf-8")
    assert runner.is_done(cell, tmp_path)


def test_plans_have_each_cell_once_and_all_peers():
    from peers.registry import PEERS

    for planned in (plan.full(), plan.quick()):
        keys = [cell.key for cell in planned]
        assert len(set(keys)) == len(keys)
        assert {cell.peer for cell in planned if cell.kind == "fit"} == set(PEERS)
        assert not any(set(key) & set("/\\ :*?") for key in keys)
    ranks = {cell.K for cell in plan.full() if cell.data == "nips"}
    assert ranks == {10, 20, 50, 200}


POPEN = subprocess.Popen


def _child(monkeypatch, code):
    """Let cells be processes that run this code."""

    def popen(command, **options):
        return POPEN([sys.executable, "-c", code, *command[3:]], **options)

    monkeypatch.setattr(subprocess, "Popen", popen)


def test_a_cell_that_takes_too_long_or_crashes_has_a_reason(tmp_path, monkeypatch):
    cell = Cell("digits", 3, "gapmf, default", limit=0.1)
    path = tmp_path / f"{cell.key}.json"
    monkeypatch.setattr(runner, "GRACE", 0.2)
    _child(monkeypatch, "import time; time.sleep(60)")
    assert "not finished after" in runner.run_cell(cell, tmp_path)
    assert json.loads(path.read_text(encoding="utf-8"))["reason"].startswith("not finished")
    path.unlink()
    monkeypatch.setattr(runner, "GRACE", 30)
    _child(monkeypatch, "raise MemoryError")
    runner.run_cell(cell, tmp_path)
    reason = json.loads(path.read_text(encoding="utf-8"))["reason"]
    assert reason == "the process ended with code 1: MemoryError"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_ends_cells_and_leaves_no_result(tmp_path, name):
    """A real runner with a real cell, which has a child of its own."""
    marker = tmp_path / "pids"
    cell = (
        "import os, subprocess, sys, time; "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        f"open({str(marker)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}\\n'); time.sleep(60)"
    )
    code = f"""
import signal, subprocess, sys
from pathlib import Path
from peers import runner
from peers.cell import Cell
real = subprocess.Popen
subprocess.Popen = lambda command, **options: real([sys.executable, "-c", {cell!r}], **options)
signal.signal(signal.SIGTERM, runner.interrupt)
signal.signal(signal.SIGINT, signal.default_int_handler)
runner.run([Cell("digits", K, "gapmf, default") for K in (2, 3)], Path({str(tmp_path)!r}), 1)
"""
    running = subprocess.Popen(
        [sys.executable, "-c", code],
        env=runner.environment(1),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + 60
        while not (marker.exists() and marker.read_text().endswith("\n")):
            assert time.monotonic() < end
            time.sleep(0.05)
        pids = [int(pid) for pid in marker.read_text().split()]
        running.send_signal(getattr(signal, name))
        assert running.wait(timeout=30) != 0
    finally:
        running.kill()
    assert not list(tmp_path.glob("*.json"))
    end = time.monotonic() + 10
    while any(_lives(pid) for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.05)


def _lives(pid):
    """Return whether a process runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_rows_keep_the_limit_and_version_they_were_run_with(tmp_path):
    from peers import summary

    cell = Cell("digits", 3, "gapmf, default", limit=30.0)
    path = tmp_path / f"{cell.key}.json"
    run = {"cell": asdict(cell) | {"limit": 7.0}, "version": "0.1.9", "perplexity": 3.0}
    path.write_text(json.dumps(run), encoding="utf-8")
    row = summary.row(cell, tmp_path)
    assert (row["limit"], row["version"]) == (7.0, "0.1.9")
    assert summary.versions([row])["gapmf"] == "0.1.9"
    path.write_text(json.dumps(run | {"reason": "no data", "skipped": True}), encoding="utf-8")
    assert summary.row(cell, tmp_path) is None


def test_stability_is_of_finished_fits_only(tmp_path):
    from peers import summary

    planned = [Cell("digits", 2, "gapmf, default", seed) for seed in range(3)]
    for cell in planned:
        np.savez(tmp_path / f"{cell.key}.npz", components=np.eye(2))
    for cell, more in zip(planned, ({}, {}, {"reason": "failed later"}), strict=True):
        result = {"cell": asdict(cell)} | more
        (tmp_path / f"{cell.key}.json").write_text(json.dumps(result), encoding="utf-8")
    (found,) = summary.stabilities(planned, tmp_path)
    assert found["seeds"] == 2
    (tmp_path / f"{planned[0].key}.json").unlink()
    assert not summary.stabilities(planned, tmp_path)


def test_the_clock_starts_when_the_data_are_ready(few, monkeypatch):
    """Every peer says when its data have the form that it reads, and is warmed up before."""
    now = [0.0]
    monkeypatch.setattr(clock, "cpu_seconds", lambda: now[0])
    watch = Watch(lambda fitted: {}, 60.0)
    now[0] = 5.0
    watch.begin()
    now[0] = 6.0
    watch.pause()
    assert watch.cpu == 1.0
    began = []
    monkeypatch.setattr(Watch, "begin", lambda self: began.append(1))
    for fit in (sklearn_models.fit_batch, sklearn_models.fit_nmf):
        fit(few, 2, 0, 1, Watch(lambda fitted: {}, 0.0))
    assert len(began) == 2


def test_warm_up_failures_are_told(few):
    assert cells.warm_up(Peer("flat", "gapmf", "", _uniform), few, 3, 1) == "done"
    bad = cells.warm_up(Peer("bad", "gapmf", "", _broken), few, 3, 1)
    assert bad == "RuntimeError: no convergence"


def test_the_budget_takes_the_nearest_measurement():
    peer = "gapmf, default"
    cells_ = [Cell("digits", K, peer, seed, limit=50.0) for K in (10, 20) for seed in (0, 1)]
    cells_ += [Cell("digits", 10, "cNMF", limit=50.0), Cell("digits", 10, peer, threads=2)]
    rows = [{"cpu": 8.0, "process_cpu": 12.0}, *[None] * 5]
    found = budget(cells_, rows)
    alone = 12.0 / 60  # two threads, as the same cell with one
    twice = 16.0 + OVERHEAD  # the fit in proportion to K
    one = 12.0 + 12.0 + 2 * twice + (50.0 + OVERHEAD)  # another seed; twice K; its limit
    assert found["measured"] == 12.0
    assert found["minutes"] == pytest.approx(one / 2 / 60 + alone)
