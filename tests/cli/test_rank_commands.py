"""`gapmf rank` and `gapmf select`: what they print, write, draw and refuse."""

from __future__ import annotations

import csv
import json
import os
import signal

import numpy as np
import pytest
from commands import gapmf

from gapmf import GammaPoissonMF, GaP, read, select_rank, selection
from gapmf.analysis.pictures import new_figure
from gapmf.cli import rank_commands, run
from gapmf.estimator import fit_copy
from gapmf.plot import rank_selection

FAST = ("--tol", 1e-3, "--jobs", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Counts of two components with named features, held-out counts in another order, a model."""
    folder = tmp_path_factory.mktemp("ranks")
    rng = np.random.default_rng(0)
    truth = GaP(60 * rng.dirichlet(np.full(12, 0.2), 2).T, alpha=0.7)
    names = [f"gene{f}" for f in range(12)]
    for file, n, order in (("train.csv", 60, range(12)), ("test.csv", 40, range(11, -1, -1))):
        X = truth.sample(n, random_state=n)[:, list(order)]
        rows = [",".join(names[f] for f in order), *(",".join(map(str, row)) for row in X)]
        (folder / file).write_text("\n".join(rows) + "\n")
    gapmf("fit", folder / "train.csv", "-k", 3, "-o", folder / "m.gapmf", "-q", *FAST)
    return folder


@pytest.fixture
def here(folder, monkeypatch):
    """The same, as the current folder."""
    monkeypatch.chdir(folder)
    return folder


def counts(name):
    """Counts with the features in the order of the model."""
    table = read(name)
    return table.counts[:, np.argsort([int(name[4:]) for name in table.feature_names])]


def test_rank_prints_the_report_of_the_estimator(here):
    report = GammaPoissonMF.load("m.gapmf").rank_report(counts("train.csv"))
    assert gapmf("rank", "m.gapmf", "train.csv").stdout == f"{report}\n"
    found = json.loads(gapmf("rank", "m.gapmf", "train.csv", "--json", "-o", "r.csv").stdout)
    assert found["rank"] == report.rank
    shares = [row["share"] for row in found["components"]]
    assert shares == sorted(shares, reverse=True)
    for row in found["components"]:
        k = row["component"]
        assert (row["cost"], row["keep"]) == (report.cost[k], bool(report.keep[k]))
        assert row["features"].startswith("gene")
    with open("r.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["component"]) for row in rows] == [r["component"] for r in found["components"]]


@pytest.mark.parametrize("criterion", ["held-out samples", "BIC"])
def test_rank_by_other_criteria(here, criterion):
    """Features of held-out samples are found by name."""
    est = GammaPoissonMF.load("m.gapmf")
    if criterion == "BIC":
        report = est.rank_report(counts("train.csv"), criterion="bic")
        options = ("--criterion", "bic")
    else:
        report = est.rank_report(counts("train.csv"), counts("test.csv"))
        options = ("--test", "test.csv")
    done = json.loads(gapmf("rank", "m.gapmf", "train.csv", *options, "--json").stdout)
    assert (done["criterion"], done["rank"]) == (criterion, report.rank)
    assert done["price"] == report.price
    found = {row["component"]: row["cost"] for row in done["components"]}
    assert [found[k] for k in range(3)] == pytest.approx(report.cost.tolist(), rel=1e-12)


def test_select_prints_the_comparison(here):
    est = GammaPoissonMF(tol=1e-3, random_state=0)
    expected = select_rank(counts("train.csv"), [1, 2, 3], estimator=est)
    done = gapmf("select", "train.csv", "-k", "3,1,2", *FAST)
    assert done.stdout == f"{expected}\n"
    assert done.stderr == ""


def test_select_by_held_out_samples_draws_and_writes_the_chosen_model(here):
    arguments = ("select", "train.csv", "-k", "1,2,3", "--test", "test.csv", *FAST)
    done = gapmf(*arguments, "--json", "-o", "s.png", "--model-out", "best.gapmf")
    found = json.loads(done.stdout)
    assert found["n_components"] == 2
    assert not found["interrupted"]
    assert [row["rank"] for row in found["ranks"]] == [1, 2, 3]
    assert [row["rank"] for row in found["ranks"] if row["chosen"]] == [2]
    assert (here / "s.png").read_bytes().startswith(b"\x89PNG")
    assert "2 components of 12 features" in gapmf("topics", "best.gapmf").stdout
    assert "gene" in gapmf("topics", "best.gapmf").stdout
    gapmf(*arguments, "-o", "s.csv")
    with open("s.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert found["criterion"] == "held-out samples"
    for name in ("score", "error"):
        assert [float(row[name]) for row in rows] == [row[name] for row in found["ranks"]]


def test_the_picture_shows_differences_errors_and_the_choice(here):
    est = GammaPoissonMF(tol=1e-3, random_state=0)
    X, test = counts("train.csv"), counts("test.csv")
    for options in ({}, {"criterion": "bic"}, {"X_test": test}):
        found = select_rank(X, [1, 2, 3], **options, estimator=est)
        ax = rank_selection(found, ax=new_figure(6.4, 4.0).subplots())
        values = found.score
        assert found.criterion in ax.get_ylabel()
        drawn = ax.containers[0].lines[0].get_xydata()
        np.testing.assert_allclose(drawn, np.column_stack([[1, 2, 3], values - values.max()]))
        texts = [text.get_text() for text in ax.texts]
        assert "chosen: 2" in texts
        assert "best" in texts
        assert sum("±" in text for text in texts) == (found.error > 0).sum()
        assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "3"]


def test_ctrl_c_shows_the_ranks_that_are_finished(here, capsys, monkeypatch):
    made = []

    def interrupt_the_third(*args, **changes):
        made.append(changes["n_components"])
        if len(made) == 3:
            raise KeyboardInterrupt
        return fit_copy(*args, **changes)

    monkeypatch.setattr(selection, "fit_copy", interrupt_the_third)
    files = rank_commands.Files(here / "train.csv", None, here / "i.csv", None)
    parameters = {"tol": 1e-3, "random_state": 0}
    with pytest.raises(SystemExit, match="130"):
        rank_commands.select(files, "1,2,3", parameters, {}, {}, criterion="prediction", json=False)
    out, err = capsys.readouterr()
    assert err == "gapmf: note: stopped: 2 of 3 numbers of components are compared\n"
    shown = out.splitlines()
    assert [line.split()[0] for line in shown[1:3]] == ["1", "2"]
    assert len((here / "i.csv").read_text().splitlines()) == 3


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_ends_with_one_line(here, capsys, monkeypatch):
    """A signal while the second rank is fitted."""

    def interrupted(*args, **given):
        if given["n_components"] == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return fit_copy(*args, **given)

    monkeypatch.setattr("gapmf.selection.fit_copy", interrupted)
    monkeypatch.setattr("sys.argv", ["gapmf", "select", "train.csv", "-k", "1,2", "--tol", "1e-3"])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # however tests are run
    try:
        with pytest.raises(SystemExit, match="130"):
            run()
    finally:
        signal.signal(signal.SIGINT, before)
    said = capsys.readouterr().err
    assert said.startswith("gapmf: note: stopped: 1 of 2")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "match"),
    [
        (["select", "train.csv", "-k", "5,x"], "-k must be whole numbers, 1 or more"),
        (["select", "train.csv", "-k", "0,2"], "but is '0,2'"),
        (["select", "train.csv", "-k", "2,"], "such as 5,10,20"),
        (["select", "nowhere.csv", "-k", "2"], "No such file"),
        (["select", "train.csv", "-k", "2", "-o", "x.xls"], "must end in .png"),
        (["select", "train.csv", "-k", "2", "-o", "train.csv"], "is the data"),
        (["select", "train.csv", "-k", "2", "--model-out", "train.csv"], "is the data"),
        (["select", "train.csv", "-k", "2", "--model-out", "test.csv"], "is not a model"),
        (["select", "train.csv", "-k", "2", "--test", "test.csv", "-o", "test.csv"], "is the test"),
        (["select", "train.csv", "-k", "2", "--algorithm", "no"], "algorithm must be one of"),
        (["rank", "m.gapmf", "nowhere.csv"], "No such file"),
        (["rank", "train.csv", "train.csv"], "not a gapmf file"),
        (["rank", "m.gapmf", "train.csv", "-o", "x.png"], "must end in .csv, .tsv, .json"),
        (["rank", "m.gapmf", "train.csv", "-o", "m.csv", "--test", "no.csv"], "No such file"),
        (["rank", "m.gapmf", "train.csv", "--test", "test.csv", "-o", "test.csv"], "is the test"),
    ],
)
def test_refusals(here, args, match):
    before = {path: path.read_bytes() for path in here.iterdir()}
    assert match in gapmf(*args, code=1).stderr
    assert {path: path.read_bytes() for path in here.iterdir()} == before


def test_wrong_calls(here):
    assert "Missing option" in gapmf("select", "train.csv", code=2).stderr
    assert "Missing argument 'DATA'" in gapmf("rank", "m.gapmf", code=2).stderr
