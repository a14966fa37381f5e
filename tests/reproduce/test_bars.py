"""The bars of `gapmf reproduce`: how far each is, the time that is left, and what Ctrl-C says."""

import io

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console
from rich.progress import Progress

import gapmf.cli.reproduce as command
from gapmf import GaP
from gapmf.cli.reproduce import Bars
from gapmf.reproduce import Options, ResultCache, overfit
from gapmf.reproduce.fig1 import FIG1
from gapmf.reproduce.overfit import OVERFIT


def stop():
    raise KeyboardInterrupt


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def shown():
    """Move bars at a given time; the state of the bar of that name."""
    clock, begun = Clock(), []
    progress = Progress(console=Console(file=io.StringIO()), disable=True)
    bars = Bars(progress, lambda: bool(begun), clock)

    def move(seconds, name, done, total):
        clock.now += seconds
        bars.show(name, done, total)
        (task,) = (t for t in progress.tasks if t.description == name)
        assert task.completed == done
        assert task.visible == (done < total)
        return task.fields["left"]

    move.begun = begun
    return move


def test_the_time_that_is_left_is_that_of_what_is_computed_now(shown):
    """Six of ten results were finished before: they took no time, and say nothing."""
    for done in range(7):
        assert shown(0.01, "sets", done, 10) == ""
    shown.begun.append(True)
    assert shown(60, "sets", 7, 10) == "about 3 min left"
    assert shown(20, "sets", 8, 10) == "about 80 s left"
    assert shown(40, "sets", 9, 10) == "about 40 s left"
    assert shown(1, "sets", 10, 10) == "about 0 s left"


def test_a_bar_begins_again_with_other_data(shown):
    shown.begun.append(True)
    assert shown(5, "run", 1, 1000) == ""
    assert shown(10, "run", 501, 1000) == "about 10 s left"
    shown(10, "run", 1000, 1000)
    assert shown(500, "run", 1, 1000) == ""  # not by the time since the first run began
    assert shown(10, "run", 201, 1000) == "about 40 s left"
    assert shown(0, "another", 3, 4) == ""


@pytest.mark.parametrize(
    ("figure", "label", "n"), [(FIG1, "fig1, data sets", 2), (OVERFIT, "overfit", 8)]
)
def test_a_figure_of_many_results_has_a_bar_of_its_own(figure, label, n, tmp_path, monkeypatch):
    """Without computing anything: all results are missing."""
    monkeypatch.setattr("gapmf.reproduce.overfit.load", lambda *_: pytest.fail("NIPS was read"))
    seen = []
    cache = ResultCache(tmp_path, progress=lambda *moved: seen.append(moved))
    cache.finished_only = True
    config = figure.quick
    if hasattr(config, "nips"):
        config = type(config)(**{**vars(config), "nips": None})
    with pytest.raises(Exception, match="every result"):
        figure.run(config, Options(finished_only=True), cache)
    assert [moved for moved in seen if moved[0] == label] == [(label, i, n) for i in range(n + 1)]


def test_an_interruption_is_said_when_the_bars_are_gone(tmp_path, monkeypatch):
    order = []

    class Seen(Progress):
        def __exit__(self, *error):
            super().__exit__(*error)
            order.append("bars gone")

    monkeypatch.setattr(command, "Progress", Seen)
    monkeypatch.setattr(command, "reproduce", lambda *_, **__: stop())
    monkeypatch.setattr(command, "echo", order.append)
    with pytest.raises(KeyboardInterrupt):
        command.run("rates", tmp_path, Options(), 1, quick=True)
    assert order == [
        "bars gone",
        "run the same command again to continue: finished results are kept",
    ]


def test_after_an_interrupted_fit_nothing_is_scored(monkeypatch):
    """A fit returns what it has when Ctrl-C comes; its likelihood would take minutes."""
    monkeypatch.setattr(overfit, "fit_model", lambda *_, **__: GaP([[1.0]]))
    monkeypatch.setattr(overfit, "log_marginal_likelihood", lambda *_, **__: pytest.fail("scored"))
    X = sp.csr_array(np.ones((2, 1), dtype=np.int64))
    problem = overfit.Problem("toy", 1.0, 1, X, X, 0)
    with pytest.raises(KeyboardInterrupt):
        overfit.judge(problem, "mcem-c", 1, stop)
