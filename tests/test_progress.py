"""Bars: every call that may take long shows how far it is, and how long it will take."""

from __future__ import annotations

import copy
from unittest.mock import MagicMock

import numpy as np
import pytest
import rich.console

from gapmf import GammaPoissonMF, GaP
from gapmf import progress as bars
from gapmf.em.history import Iteration
from gapmf.likelihood import posterior
from gapmf.progress import format_duration, progress_bar


@pytest.fixture
def terminal(monkeypatch):
    """Standard error as a terminal of 100 columns, whatever pytest makes of it."""
    made = rich.console.Console

    def console(**options):
        return made(**options, force_terminal=True, width=100)

    monkeypatch.setattr(rich.console, "Console", console)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = GaP(rng.gamma(0.3, 8.0, (12, 3)), alpha=0.5).sample(40, random_state=0)
    return X, GammaPoissonMF(3, tol=1e-2, random_state=0).fit(X)


CALLS = {
    "transform": lambda est, X: est.transform(X),
    "proportions": lambda est, X: est.proportions(X),
    "posterior": lambda est, X: est.posterior(X).quantiles,
    "score": lambda est, X: est.log_likelihood(X).per_sample,
    "rank report": lambda est, X: est.rank_report(X).cost,
}


@pytest.mark.parametrize("label", CALLS)
@pytest.mark.usefixtures("terminal")
def test_calls_show_a_bar(label, fitted, capfd):
    """Only with verbose, on standard error; the result is the same."""
    X, est = fitted
    quiet = CALLS[label](est, X)
    assert capfd.readouterr() == ("", "")
    shown = CALLS[label](copy.copy(est).set_params(verbose=1), X)
    out, err = capfd.readouterr()
    assert out == ""
    assert label in err
    assert "100%" in err
    np.testing.assert_array_equal(shown, quiet)


def test_progress_of_activations_goes_from_zero_to_one(fitted, monkeypatch):
    """In several blocks, and in two threads, too."""
    X, est = fitted
    monkeypatch.setattr(posterior, "EXACT_COST", 0.0)
    monkeypatch.setattr(posterior, "_MAX_HELD", 3 * 512 * 10)
    monkeypatch.setattr("gapmf.likelihood.short_chains._TASK_WORK", 1e4)
    for n_jobs in (1, 2):
        told = []
        posterior.posterior_activations(X, est.model_, n_jobs=n_jobs, progress=told.append)
        assert told == sorted(told)
        assert 0.0 <= told[0] < 0.5
        assert told[-1] == pytest.approx(1.0)
        assert len(told) > 3


def test_nothing_is_shown_unless_asked(capfd):
    with progress_bar(0, "work") as move:
        assert move is None
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("terminal")
def test_long_waits_are_announced_once(monkeypatch, capfd):
    """Ten seconds for a tenth: 90 more, and how to make it shorter."""
    now = [0.0]
    monkeypatch.setattr(bars.time, "perf_counter", lambda: now[0])
    with progress_bar(1, "transform", shorter="a larger precision") as move:
        move(0.0)
        for step in range(1, 4):
            now[0] = 10.0 * step
            move(0.1 * step)
    err = capfd.readouterr().err
    assert err.count("transform: about 2 min more; a larger precision makes it shorter") == 1
    with progress_bar(1, "score") as move:  # short: nothing to say
        for step in range(1, 9):
            now[0] += 1.0
            move(step / 9)
    assert "about" not in capfd.readouterr().err


@pytest.mark.usefixtures("terminal")
def test_the_bar_of_a_fit_tells_the_gain_until_it_ends(monkeypatch):
    """What a bar tells last is not the gain of the last window but one."""
    bar, model = MagicMock(), GaP([[1.0]])
    bar.__enter__.return_value = bar
    monkeypatch.setattr(bars, "_new_bar", lambda columns: bar)
    record = Iteration(3, 6.0, 3, np.nan, model, gain=2e-3)
    with bars.fit_bar(1, label="x", max_iter=10, prune_tol=1e-3, tol=1e-3) as (show,):
        show(record)
        during = bar.update.call_args.kwargs["text"]
    assert during == "rank 1 of 1 · gain 2.0e-03 (stops at 1e-03) · at most 14 s more"
    assert bar.update.call_args.kwargs["text"] == "rank 1 of 1"


def test_a_bar_ends_with_an_interruption(capfd):
    def interrupted():
        with progress_bar(1, "transform") as move:
            move(0.5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "50%" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (89, "89 s"),
        (90, "2 min"),
        (5399, "90 min"),
        (5400, "1.5 h"),
        (36000, "10.0 h"),
    ],
)
def test_durations(seconds, text):
    assert format_duration(seconds) == text
