"""`gapmf check`: what it prints, writes, draws and refuses."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from commands import gapmf

from gapmf import GammaPoissonMF, GaP, read

NAMES = [f"gene{f}" for f in range(10)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Counts with named features and samples, and a model."""
    folder = tmp_path_factory.mktemp("checks")
    rng = np.random.default_rng(0)
    truth = GaP(40 * rng.dirichlet(np.full(10, 0.3), 2).T)
    X = truth.sample(60, random_state=1)
    rows = [",".join(["sample", *NAMES])]
    rows += [",".join([f"cell{n}", *map(str, row)]) for n, row in enumerate(X)]
    (folder / "x.csv").write_text("\n".join(rows) + "\n")
    gapmf("fit", folder / "x.csv", "-k", 2, "-o", folder / "m.gapmf", "-q", "--tol", 1e-3)
    return folder


@pytest.fixture
def here(folder, monkeypatch):
    """The same, as the current folder."""
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_check(here):
    found = GammaPoissonMF.load("m.gapmf").predictive_check(read("x.csv").counts)
    done = gapmf("check", "m.gapmf", "x.csv", "-o", "c.png")
    assert done.stdout == f"{found}\n"
    assert done.stderr == ""
    assert (here / "c.png").read_bytes().startswith(b"\x89PNG")
    shown = json.loads(gapmf("check", "m.gapmf", "x.csv", "--json", "-o", "c.csv").stdout)
    assert shown["advice"] == found.advice
    assert [row["p_value"] for row in shown["statistics"]] == found.p_values.tolist()
    with open("c.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["statistic"] for row in rows] == list(found.statistics)


@pytest.mark.parametrize(
    ("args", "match"),
    [
        (["check", "m.gapmf", "nowhere.csv"], "No such file"),
        (["check", "m.gapmf", "x.csv", "-o", "c.xls"], "must end in .png"),
        (["check", "m.gapmf", "x.csv", "-o", "x.csv"], "is the data"),
        (["check", "x.csv", "x.csv"], "not a gapmf file"),
    ],
)
def test_refusals(here, args, match):
    before = {path: path.read_bytes() for path in here.iterdir()}
    assert match in gapmf(*args, code=1).stderr
    assert {path: path.read_bytes() for path in here.iterdir()} == before
