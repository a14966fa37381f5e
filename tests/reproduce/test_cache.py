"""The cache of results, traces of runs, and commands that are refused."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import gapmf.cli
from gapmf import GammaPoissonMF
from gapmf.datasets import paper_synthetic
from gapmf.engines import parts
from gapmf.errors import InvalidInputError
from gapmf.reproduce import Options, ResultCache, race, reproduce
from gapmf.reproduce.cache import NotFinishedError, paper_schedule, trace_fit, warm_up
from gapmf.reproduce.race import Contender
from gapmf.reproduce.results import styled

DATA = {"name": "toy"}

pytestmark = pytest.mark.filterwarnings("ignore:.*(was interrupted|before it converged).*")


@pytest.fixture(scope="module")
def X():
    return paper_synthetic(10.0, 30, random_state=0)[0]


def _trace(X, cache, algorithm="mcem-ch"):
    est = paper_schedule(3, 12, n_draws=4, n_burn_in=2, seed=0).set_params(algorithm=algorithm)
    return trace_fit(est, X, cache, DATA, lambda state: state.iteration == 5, lambda m: m.W)


@pytest.mark.parametrize("algorithm", ["mcem-c", "mcem-h"])
def test_a_trace_is_the_fit(X, algorithm, tmp_path):
    trace = _trace(X, ResultCache(tmp_path), algorithm)
    est = GammaPoissonMF(
        3, algorithm=algorithm, schedule="paper", max_iter=12, n_draws=4, n_burn_in=2,
        random_state=0,
    ).fit(X)  # fmt: skip
    assert list(trace.values) == [5, 12]
    np.testing.assert_array_equal(trace.norms, est.history_["norms"])
    np.testing.assert_array_equal(trace.values[12], est.components_.T)
    np.testing.assert_array_equal(trace.n_sweeps, 6 * np.arange(1, 13))
    assert (np.diff(trace.cpu_seconds) > 0).all()


def test_kernels_are_compiled_with_and_without_large_counts(monkeypatch):
    """Else the first run on V₁, which has none, would have the time of compiling on its clock."""
    seen = set()

    def build_lanes(*args):
        lanes, large = build(*args)
        seen.add(large is None)
        return lanes, large

    build = parts.build_lanes
    monkeypatch.setattr(parts, "build_lanes", build_lanes)
    warm_up()
    assert seen == {True, False}


def test_a_stopped_run_leaves_no_result(X, tmp_path):
    cache = ResultCache(tmp_path)

    def stop_in_the_middle(name, done, total):
        if done > total / 3:
            cache.stop.set()

    cache.progress = stop_in_the_middle
    with pytest.raises(KeyboardInterrupt):
        _trace(X, cache)
    assert list(tmp_path.iterdir()) == []
    assert len(_trace(X, ResultCache(tmp_path)).norms) == 12


def test_a_result_is_computed_once_per_settings(tmp_path):
    computed = []

    def compute():
        computed.append(1)
        return {"x": [1.5, None], "array": np.arange(2)}

    seconds = []
    for settings in ({"a": 1}, {"a": 1}, {"a": 2}):
        cache = ResultCache(tmp_path)
        assert cache.cached("toy", settings, compute) == {"x": [1.5, None], "array": [0, 1]}
        seconds.append(cache.cpu_seconds)
    assert len(computed) == 2
    assert seconds[0] == seconds[1] > 0.0


def test_only_finished_results_when_asked(tmp_path):
    cases = [{"x": 1}, {"x": 2}, {"x": 3}]

    def square(x):
        return {"x": x, "square": x * x}

    ResultCache(tmp_path).table("toy", cases[:2], square)
    cache = ResultCache(tmp_path)
    cache.finished_only = True
    assert cache.table("toy", cases, square)["square"].tolist() == [1, 4]
    assert cache.n_missing == 1
    with pytest.raises(NotFinishedError, match="other"):
        cache.cached("other", {}, lambda: 1)
    with pytest.raises(InvalidInputError, match="cannot be made from finished results only"):
        reproduce("rates", tmp_path / "none", Options(finished_only=True), quick=True)


def test_iterations_are_limited_by_the_user():
    assert Options().n_iter(500) == 500
    assert Options(max_iter=300).n_iter(500) == 300
    assert Options(max_iter=300).n_iter(100) == 100


def test_a_contender_is_added_by_one_line(X, tmp_path, monkeypatch):
    more = Contender("rough", "#123456", {"tol": 1e-2})
    monkeypatch.setattr(race, "CONTENDERS", (*race.CONTENDERS, more))
    monkeypatch.setattr(race, "load", lambda folder, part: sp.csr_array(X))
    config = race.Config(n_components=2, n_seeds=2, max_iter=5, max_sweeps=300)
    outcome = race.run(config, Options(), ResultCache(tmp_path))
    runs = outcome.findings["runs"]
    assert [(run["seed"], run["alpha_learned"]) for run in runs if run["contender"] == "rough"] == [
        (0, False), (0, True), (1, False), (1, True)
    ]  # fmt: skip
    assert len(runs) == 2 * 2 * 5
    with styled():
        panel = race.draw(outcome).axes[0]
    assert panel.lines[-1].get_color() == "#123456"
    finished = ResultCache(tmp_path)
    finished.finished_only = True
    found = race.run(replace(config, n_seeds=3), Options(), finished)
    assert (len(found.findings["runs"]), finished.n_missing) == (20, 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reproduce", "fig5", "-o", "{}"), "there is no figure 'fig5': choose from fig1, fig2"),
        (("reproduce", "fig4", "--quick", "-o", "{}"), "needs the NIPS counts: add --data DIR"),
        (("reproduce", "fig4", "--quick", "--data", "{}", "-o", "{}"), "has neither docword"),
        (("reproduce", "fig2", "--quick"), "Missing option"),
    ],
)
def test_refusals_are_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gapmf", *(a.format(tmp_path) for a in arguments)])
    with pytest.raises(SystemExit) as ended:
        gapmf.cli.run()
    assert ended.value.code in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("gapmf: ")
    assert message in line
    assert not list(tmp_path.glob("*.*"))
