"""`gapmf check` and `gapmf compare`: what they print, write, draw and refuse."""

from __future__ import annotations

import csv
import json

import anndata
import numpy as np
import pytest
from commands import gapmf

from gapmf import GammaPoissonMF, GaP, read

COMPARE = ("compare", "m.gapmf", "x.csv", "--groups")
NAMES = [f"gene{f}" for f in range(10)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Counts with named features and samples, and a model."""
    folder = tmp_path_factory.mktemp("checks")
    rng = np.random.default_rng(0)
    truth = GaP(40 * rng.dirichlet(np.full(10, 0.3), 2).T)
    X = truth.sample(30, random_state=1)
    rows = [",".join(["sample", *NAMES])]
    rows += [",".join([f"cell{n}", *map(str, row)]) for n, row in enumerate(X)]
    (folder / "x.csv").write_text("\n".join(rows) + "\n")
    groups = ["a", "b", "b"] * 10
    (folder / "lines.txt").write_text("\n".join(groups) + "\n")
    named = [f"cell{n},{group}" for n, group in enumerate(groups)]
    (folder / "named.csv").write_text("\n".join(["cell,batch", *named[::-1]]) + "\n")
    (folder / "some.csv").write_text("\n".join(["cell,batch", *named[:5]]) + "\n")
    (folder / "twice.csv").write_text("\n".join(["cell,batch", *named, named[3]]) + "\n")
    (folder / "wide.csv").write_text("a,b,c\n1,2,3\n")
    (folder / "bare.csv").write_text(
        "\n".join([",".join(NAMES), *(",".join(map(str, r)) for r in X)])
    )
    adata = anndata.AnnData(X.astype(np.float32))
    adata.obs_names, adata.var_names = [f"cell{n}" for n in range(30)], NAMES
    adata.obs["batch"] = groups
    adata.write_h5ad(folder / "x.h5ad")
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


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_compare(here):
    counts = read("x.csv").counts
    found = GammaPoissonMF.load("m.gapmf").compare(counts, ["a", "b", "b"] * 10)
    for data, groups in (("x.csv", "lines.txt"), ("x.csv", "named.csv"), ("x.h5ad", "batch")):
        done = gapmf("compare", "m.gapmf", data, "--groups", groups)
        assert done.stdout == f"{found}\n"
        assert done.stderr == ""
    given = ("compare", "m.gapmf", "x.csv", "--groups", "lines.txt", "--level", 0.9, "--json")
    shown = json.loads(gapmf(*given, "-o", "g.svg").stdout)
    assert "<svg" in (here / "g.svg").read_text(encoding="utf-8")
    assert shown["level"] == 0.9
    assert len(shown["comparisons"]) == 4
    for row in shown["comparisons"]:
        g, k = found.groups.index(row["group"]), row["component"]
        assert row["share"] == found.share[g, k]
        assert row["share_low"] > found.interval[g, k, 0]
        assert row["features"].startswith("gene")
    gapmf(*given[:-1], "-o", "g.tsv")
    assert len((here / "g.tsv").read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("args", "match"),
    [
        (["check", "m.gapmf", "nowhere.csv"], "No such file"),
        (["check", "m.gapmf", "x.csv", "-o", "c.xls"], "must end in .png"),
        (["check", "m.gapmf", "x.csv", "-o", "x.csv"], "is the data"),
        (["check", "x.csv", "x.csv"], "not a gapmf file"),
        ([*COMPARE, "batch"], "there is no such file, and only an .h5ad has columns"),
        (["compare", "m.gapmf", "x.h5ad", "--groups", "donor"], "its columns are 'batch'"),
        ([*COMPARE, "some.csv"], "no group for the sample 'cell5'"),
        ([*COMPARE, "twice.csv"], "has the sample 'cell3' twice"),
        ([*COMPARE, "wide.csv"], "has 3 columns, but needs two"),
        (["compare", "m.gapmf", "bare.csv", "--groups", "named.csv"], "has no names of samples"),
        ([*COMPARE, "m.gapmf"], "not utf-8"),
        ([*COMPARE, "lines.txt", "-o", "lines.csv", "--level", "2"], "level must be below 1"),
        ([*COMPARE, "named.csv", "-o", "named.csv"], "is the groups"),
    ],
)
def test_refusals(here, args, match):
    before = {path: path.read_bytes() for path in here.iterdir()}
    assert match in gapmf(*args, code=1).stderr
    assert {path: path.read_bytes() for path in here.iterdir()} == before
