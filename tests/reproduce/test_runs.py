"""Runs that are stopped and gone on with, and commands that cannot be done."""

import numpy as np
import pytest
import scipy.sparse as sp
from figure_files import gapmf

from gapmf.datasets import paper_synthetic
from gapmf.reproduce import Options, ResultCache, race
from gapmf.reproduce.cache import Protocol, read_rows, trace_run
from gapmf.reproduce.race import Contender
from gapmf.reproduce.results import styled

PROTOCOL = Protocol(n_components=3, n_iter=12, n_draws=4, n_burn_in=2, seed=0)

pytestmark = pytest.mark.filterwarnings("ignore:.*(was interrupted|before it converged).*")


@pytest.fixture(scope="module")
def X():
    return paper_synthetic(10.0, 30, random_state=0)[0]


@pytest.mark.parametrize("algorithm", ["mcem-c", "mcem-h"])
def test_a_run_in_parts_is_the_run(X, algorithm, tmp_path):
    whole = trace_run(X, algorithm, PROTOCOL, ResultCache(tmp_path / "a"), "toy")
    parts = [
        trace_run(X, algorithm, PROTOCOL, ResultCache(tmp_path / "b"), "toy", until=n)
        for n in (5, 5, 9, 20)
    ]
    assert [len(part) for part in parts] == [5, 5, 9, 12]
    assert len(whole) == 12
    for i in range(1, 13):
        np.testing.assert_array_equal(parts[-1].W[i], whole.W[i])
    assert (np.diff(parts[-1].cpu_seconds) > 0).all()
    np.testing.assert_allclose(whole.norms, [whole.W[i].sum(axis=0) for i in range(1, 13)])


def test_milestones_are_kept_in_files_of_their_own(X, tmp_path):
    cache = ResultCache(tmp_path)
    trace = trace_run(X, "mcem-c", PROTOCOL, cache, "toy", until=6, milestones=(2, 5, 10))
    assert list(trace.W) == [2, 5]
    trace = trace_run(X, "mcem-c", PROTOCOL, cache, "toy", milestones=(2, 5, 10))
    assert list(trace.W) == [2, 5, 10]
    np.testing.assert_allclose(trace.W[10].sum(axis=0), trace.norms[9])


def test_stopping_keeps_what_there_is(X, tmp_path):
    """As Ctrl-C does; also when the file ends in the middle of a line."""
    cache = ResultCache(tmp_path)

    def tell(name, done, total):
        if done == 4:
            cache.stop.set()

    cache.tell = tell
    with pytest.raises(KeyboardInterrupt):
        trace_run(X, "mcem-ch", PROTOCOL, cache, "toy")
    (path,) = tmp_path.glob("*.rows")
    assert len(read_rows(path)) == 4
    with path.open("a") as file:
        file.write("1.5,0.3")
    assert len(read_rows(path)) == 4
    trace = trace_run(X, "mcem-ch", PROTOCOL, ResultCache(tmp_path), "toy")
    again = trace_run(X, "mcem-ch", PROTOCOL, ResultCache(tmp_path / "new"), "toy")
    np.testing.assert_array_equal(trace.norms, again.norms)


def test_a_piece_is_made_once_and_for_its_settings(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"x": [1.5, None]}

    seconds = []
    for settings in ({"a": 1}, {"a": 1}, {"a": 2}):
        cache = ResultCache(tmp_path)
        assert cache.cached("piece", settings, make) == {"x": [1.5, None]}
        seconds.append(cache.cpu_seconds)
    assert len(made) == 2
    assert seconds[0] == seconds[1] > 0.0


def test_a_contender_more_is_one_line(X, tmp_path, monkeypatch):
    more = Contender("rough", "#123456", {"tol": 1e-2})
    monkeypatch.setattr(race, "CONTENDERS", (*race.CONTENDERS, more))
    monkeypatch.setattr(race, "load", lambda folder, part: sp.csr_array(X))
    config = race.Config(n_components=2, max_iter=5, max_sweeps=300)
    outcome = race.run(config, Options(), ResultCache(tmp_path))
    assert "rough" in outcome.findings["alpha learned"]
    assert len(set(outcome.curves["contender"])) == 4
    with styled():
        panel = race.draw(outcome).axes[0]
    assert panel.lines[-1].get_color() == "#123456"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("reproduce", "fig5", "-o", "{}"), "there is no figure 'fig5': choose from fig1, fig2"),
        (("reproduce", "fig4", "--quick", "-o", "{}"), "needs the NIPS counts: --data DIR"),
        (("reproduce", "fig4", "--quick", "--data", "{}", "-o", "{}"), "has neither docword"),
        (("reproduce", "fig2", "--quick"), "Missing option"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments, said, tmp_path):
    done = gapmf(*(a.format(tmp_path) for a in arguments))
    assert done.returncode in (1, 2)
    (line,) = done.stderr.splitlines()
    assert line.startswith("gapmf: ")
    assert said in line
    assert not list(tmp_path.glob("*.*"))
