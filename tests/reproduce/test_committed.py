"""The results in docs/figures are what their files say, and the pages say nothing else."""

import dataclasses
import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from figure_files import Made

from gapmf.reproduce import FIGURES
from gapmf.reproduce.cache import ALGORITHMS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"reproduction.md": "reproduction", "spare-column.md": "spare_column"}


@pytest.fixture(scope="module")
def made():
    return Made(DOCS / "figures")


def _head(name):
    return json.loads((DOCS / "figures" / f"{name}.json").read_text(encoding="utf-8"))


def _page(name="reproduction.md"):
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("name", FIGURES)
def test_committed_results_have_the_full_settings(name):
    """Fails when a protocol is changed without making its figure anew."""
    content = _head(name)
    full = json.loads(json.dumps(dataclasses.asdict(FIGURES[name].full)))
    assert {key: content["settings"][key] for key in full} == full
    assert f"(figures/{name}.png)" in _page()
    assert f"gapmf reproduce {name}" in _page()


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_generated_from_the_files(page):
    generated = runpy.run_path(str(DOCS / "generate_reproduction.py"))[PAGES[page]]()
    kept = (DOCS / page).read_text(encoding="utf-8")
    assert generated == kept, "run docs/generate_reproduction.py"


@pytest.mark.parametrize("name", FIGURES)
def test_the_page_says_what_is_missing(name):
    missing = _head(name).get("results_missing", 0)
    section = _page().split(f"## {name}: ")[1].split(" ## ")[0]
    assert (f"*Not complete: {missing} or more results" in section) == (missing > 0)


def test_fig4_ran_what_it_says(made):
    curves, likelihood, findings = (
        made.table("fig4"), made.table("fig4-likelihood"), made.findings("fig4")
    )  # fmt: skip
    planned = {(r.algorithm, r.seed): r.n_iter for r in FIGURES["fig4"].full.runs}
    assert (findings["documents"], findings["words"]) == (1500, 12419)
    assert (findings["words_never"], findings["words_fewer_than_ten_times"]) == (44, 752)
    assert findings["tokens_judged"] == 1_932_365  # of all documents
    for run in findings["runs"]:
        who = run["algorithm"], run["seed"]
        for table in (curves, likelihood):
            mine = (table["algorithm"] == who[0]) & (table["seed"] == who[1])
            assert table["iteration"][mine].max() <= run["iterations"] <= planned[who]
        mine = (curves["algorithm"] == who[0]) & (curves["seed"] == who[1])
        assert curves["iteration"][mine].max() == run["iterations"]
        assert f"{run['iterations']:,} of {planned[who]:,}" in _page()
    complete = {(r["algorithm"], r["seed"]): r["iterations"] for r in findings["runs"]} == planned
    assert complete == (_head("fig4")["results_missing"] == 0)


@pytest.mark.parametrize("name", ["fig1", "fig2", "fig3a", "fig3b"])
def test_seeds_are_those_of_the_protocol(name, made):
    runs, head = made.table(f"{name}-runs"), _head(name)
    pairs = set(zip(runs["data_seed"], runs["chain_seed"], strict=True))
    assert len(runs["algorithm"]) == 3 * len(pairs)
    apart = {pair for pair in pairs if pair[0] != pair[1]}
    assert apart == pairs or "note" in head  # seeds of data and of chains
    if head["results_missing"] == 0:
        n_chains = head["settings"].get("n_chains", 1)
        assert len(pairs) == head["settings"]["n_sets"] + n_chains - 1


def test_fig1_claims(made):
    runs = made.table("fig1-runs")
    on_the_line = runs["distance_from_the_line"] < 1e-12
    np.testing.assert_array_equal(on_the_line, runs["algorithm"] == "mcem-c")
    assert (runs["excess_of_last_mean"] < 0.05).all()


def test_fig2_claims(made):
    sets = made.findings("fig2")["over_data_sets"]
    assert sets["mcem-c"]["runs"] == 10
    for name in ("mcem-h", "mcem-ch"):
        assert 1.0 < sets[name]["iterations_relative_to_mcem_c"][2] < 2.0  # marginally faster
        assert sets[name]["p_of_no_difference"] < 0.05
    assert all(sets[name]["excess_at_the_end"][-1] < 0.2 for name in ALGORITHMS)


def test_fig3b_claims(made):
    sets = made.findings("fig3b")["over_data_sets"]
    for name in ("mcem-h", "mcem-ch"):
        ratio = sets[name]["iterations_relative_to_mcem_c"]
        assert ratio[0] > 5
        assert sets[name]["excess_at_the_end"][2] - sets["mcem-c"]["excess_at_the_end"][2] < 0.5


def test_fig4_claims(made):
    table, findings = made.table("fig4-likelihood"), made.findings("fig4")
    moved = {
        run["algorithm"]: run["largest_change_in_the_last_tenth"]
        for run in findings["runs"]
        if run["seed"] == 0
    }
    assert moved["mcem-c"] < 0.5 * moved["mcem-ch"]
    for n in set(table["iteration"][table["iteration"] >= 10]):
        at = (table["iteration"] == n) & (table["seed"] == 0)
        value = dict(zip(table["algorithm"][at], table["log_likelihood"][at], strict=True))
        if {"mcem-c", "mcem-ch"} <= set(value):
            gap = (value["mcem-c"] - value["mcem-ch"]) / findings["tokens_judged"]
            assert 0.0 < gap < 0.001


def test_rates_claims(made):
    table, findings = made.table("rates"), made.findings("rates")
    assert findings["em_ch_below_rho"] == findings["em_c_above_em_ch"] == 0
    medians = {(m["alpha"], m["scale"]): m for m in findings["medians"]}
    for scale in (10.0, 100.0, 1000.0):  # at the same expected counts the gap closes as α grows
        ratios = [medians[alpha, scale]["ratio"][2] for alpha in (0.1, 0.3, 1.0, 3.0)]
        assert (np.diff(ratios) < 0).all()
    assert all(m["ratio"][2] < 1.3 for key, m in medians.items() if key[0] >= 3.0)
    ratio = table["em_ch_per_digit"] / table["em_c_per_digit"]
    fano = 1.0 / (1.0 - table["rho"])
    assert (fano[ratio > 2.0] > 4.0).all()
    assert len(ratio) == 150


def test_spare_claims(made):
    cells = made.findings("spare")["cells"]
    at = {tuple(c[key] for key in ("scale", "n_samples", "alpha", "n_spare")): c for c in cells}
    median = {key: c["share"][2] for key, c in at.items()}
    assert median[1, 100, 1, 1] > median[10, 100, 1, 1] > median[100, 100, 1, 1]
    for alpha in (0.3, 1, 3):
        assert median[1, 1000, alpha, 1] < median[1, 100, alpha, 1]
    for n in (100, 1000):
        assert median[1, n, 0.3, 1] < median[1, n, 1, 1] < median[1, n, 3, 1]
    assert median[1, 100, 1, 1] < median[1, 100, 1, 2] < 1.3 * median[1, 100, 1, 1]
    assert sum(c["worth_bic"] + c["not_converged"] for c in cells) == 0
    table = made.table("spare")
    one = table["n_spare"] == 1
    np.testing.assert_array_equal(table["exactly_zero"][one] == 1, table["max_r"][one] <= 1.0)


def test_overfit_claims(made):
    cells = [c for c in made.findings("overfit")["cells"] if c["data"] == "simulated"]
    by = {(c["method"], c["alpha"], c["n_samples"], c["factor"]): c for c in cells}
    for (method, alpha, n, factor), here in by.items():
        if factor == 1:
            continue
        loss = by[method, alpha, n, 1]["completion"][2] - here["completion"][2]
        if method in ("kl-nmf", "mjle"):
            fewer = by[method, alpha, n, factor // 2]
            assert here["completion"][2] < fewer["completion"][2]
        else:
            assert loss < 0.01
        if factor == 4:
            columns = here["effective_columns"][2]
            if method in ("kl-nmf", "mjle"):
                assert columns > 11.0
            else:
                assert columns < 8.0
            if method == "vbem":
                assert (columns < 4.2) == (alpha >= 1.0)
    for alpha in (0.3, 1.0, 3.0):  # the fewer the more samples there are
        few, many = (by["mcem-c", alpha, n, 4]["effective_columns"][2] for n in (100, 1000))
        assert many < few


def test_the_page_has_no_claim_that_was_refuted():
    for page in DOCS.rglob("*.md"):
        assert "not dispersion as such" not in page.read_text(encoding="utf-8")
