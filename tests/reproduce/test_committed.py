"""The results in docs/figures are what their files say, and the pages say nothing else."""

import dataclasses
import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from figure_files import Made

from gapmf.reproduce import FIGURES
from gapmf.reproduce.cache import ALGORITHMS, paper_schedule

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"reproduction.md": "reproduction", "spare-column.md": "spare_column"}


@pytest.fixture(scope="module")
def made():
    return Made(DOCS / "figures")


@pytest.fixture
def pages(monkeypatch):
    """The names of docs/generate_reproduction.py."""
    monkeypatch.syspath_prepend(str(DOCS))
    return runpy.run_path(str(DOCS / "generate_reproduction.py"))


def _head(name):
    return json.loads((DOCS / "figures" / f"{name}.json").read_text(encoding="utf-8"))


def _page(name="reproduction.md"):
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("name", FIGURES)
def test_committed_results_have_the_full_settings(name):
    """Fails when a protocol is changed without making its figure anew, or a note that says so."""
    content = _head(name)
    full = json.loads(json.dumps(dataclasses.asdict(FIGURES[name].full)))
    if "note" not in content:
        assert {key: content["settings"][key] for key in full} == full
    else:
        assert " ".join(content["note"].split()) in _page()
    assert f"(figures/{name}.png)" in _page()
    assert f"gapmf reproduce {name}" in _page()


def test_protocols_are_the_papers():
    """Section 6 and the caption of Figure 1: sizes, iterations, draws, starting point."""
    one, v1, v2, nips = (FIGURES[name].full for name in ("fig1", "fig2", "fig3b", "fig4"))
    assert (one.n_samples, one.n_iter, one.n_last) == (300, 500, 80)
    assert FIGURES["fig3a"].full == v1
    assert (v1.n_samples, v1.n_components, v1.scale, v1.n_iter) == (100, 3, 1.0, 500)
    assert dataclasses.replace(v2, scale=1.0, n_iter=500, n_chains=v1.n_chains) == v1
    assert (v2.scale, v2.n_iter) == (100.0, 2000)
    for config in (one, v1):
        assert (config.n_draws, config.n_burn_in) == (150, 150)
    assert (nips.n_components, nips.n_draws, nips.n_burn_in) == (10, 125, 125)
    longest = {(run.algorithm, run.n_iter) for run in nips.runs if run.n_iter == 1000}
    assert longest == {("mcem-c", 1000), ("mcem-ch", 1000)}
    est = paper_schedule(3, 500, 150, 150, seed=0)
    assert (est.schedule, est.init, est.alpha, est.beta) == ("paper", "mean", 1.0, 1.0)


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_generated_from_the_files(page, pages):
    kept = (DOCS / page).read_text(encoding="utf-8")
    assert pages[PAGES[page]]() == kept, "run docs/generate_reproduction.py"


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
    assert (findings["documents"], findings["words"]) == (1500, 12419)  # as in the paper
    assert (round(findings["share_of_zeros"], 2), findings["largest_count"]) == (0.96, 132)
    assert (findings["words_never"], findings["words_fewer_than_ten_times"]) == (44, 752)
    assert findings["tokens_judged"] == 1_932_365  # of all documents
    for run in findings["runs"]:
        who = run["algorithm"], run["seed"]
        mine = (likelihood["algorithm"] == who[0]) & (likelihood["seed"] == who[1])
        assert set(likelihood["iteration"][mine]) <= set(FIGURES["fig4"].full.milestones)
        assert likelihood["iteration"][mine].max(initial=0) <= run["iterations"] <= planned[who]
        mine = (curves["algorithm"] == who[0]) & (curves["seed"] == who[1])
        assert curves["iteration"][mine].max() == run["iterations"]
        assert f"{run['iterations']:,} of {planned[who]:,}" in _page()
    complete = {(r["algorithm"], r["seed"]): r["iterations"] for r in findings["runs"]} == planned
    if _head("fig4")["results_missing"] == 0:
        assert complete
        n_judged = sum(
            n <= run.n_iter
            for run in FIGURES["fig4"].full.runs
            for n in FIGURES["fig4"].full.milestones
        )
        assert len(likelihood["iteration"]) == n_judged


@pytest.mark.parametrize("name", ["fig1", "fig2", "fig3a", "fig3b"])
def test_seeds_are_those_of_the_protocol(name, made):
    runs, head = made.table(f"{name}-runs"), _head(name)
    pairs = set(zip(runs["data_seed"], runs["chain_seed"], strict=True))
    assert len(runs["algorithm"]) == 3 * len(pairs)
    apart = not set(runs["data_seed"]) & set(runs["chain_seed"])
    assert apart or "note" in head  # seeds of data and of chains
    if head["results_missing"] == 0:
        n_chains = head["settings"].get("n_chains", 1)
        assert len(pairs) == head["settings"]["n_sets"] + n_chains - 1


@pytest.mark.parametrize("name", ["rates", "spare", "overfit"])
def test_fits_have_seeds_of_their_own(name, made):
    if "note" not in _head(name):
        table = made.table(name)
        assert not set(table["data_seed"]) & set(table["fit_seed"])


def test_fig1_claims(made):
    runs = made.table("fig1-runs")
    on_the_line = runs["distance_from_the_line"] < 1e-12
    np.testing.assert_array_equal(on_the_line, runs["algorithm"] == "mcem-c")
    converged = runs["excess_of_last_mean"] < 0.1
    assert converged[runs["algorithm"] == "mcem-c"].all()
    assert f"{converged.sum()} of {converged.size} runs have converged" in _page()


def test_fig2_claims(made, pages):
    sets = made.findings("fig2")["over_data_sets"]
    text = pages["fig2"]()
    whole = "cpu_seconds_of_all_iterations_relative_to_mcem_c"
    for name in ("mcem-h", "mcem-ch"):
        assert 0.8 < sets[name][whole][2] < 1.3  # almost identical computation times
        assert sets[name]["iterations_relative_to_mcem_c"][2] < 2.0  # marginally, if at all
    assert all(sets[name]["excess_at_the_end"][-1] < 0.2 for name in ALGORITHMS)  # one cost
    if "marginally faster indeed" in text:
        for name in ("mcem-h", "mcem-ch"):
            assert sets[name]["iterations_relative_to_mcem_c"][2] > 1.0
            assert sets[name]["p_of_no_difference"] < 0.05
    end = {name: sets[name]["excess_at_the_end"][2] for name in ALGORITHMS}
    assert ("MCEM-H has least of it" in text) == (end["mcem-h"] <= 0.7 * sorted(end.values())[1])


def test_fig2_chains_of_one_algorithm_differ(made):
    chains = made.findings("fig2")["over_chains"]
    if chains["mcem-c"]["runs"] > 1:
        spans = [chains[name]["iterations_until_near"] for name in ALGORITHMS]
        assert any(span[-1] is None or span[-1] > 1.5 * span[0] for span in spans)
    findings = made.findings("fig2")
    assert findings["cost_of_the_start"] - findings["smallest_cost"] < 3.0  # a small descent


def test_fig3a_norms_are_those_of_the_exact_minimum(made):
    runs = made.table("fig3a-runs")
    found, exact = (
        np.stack([runs[f"{label}_{k}"] for k in (1, 2, 3)]) for label in ("norm", "exact_norm")
    )
    off = np.abs(found - exact).max(axis=0) / exact.sum(axis=0)
    for name in ALGORITHMS:
        assert np.median(off[runs["algorithm"] == name]) < 0.05


def test_fig3b_claims(made):
    sets, runs = made.findings("fig3b")["over_data_sets"], made.table("fig3b-runs")
    of = {name: runs["algorithm"] == name for name in ALGORITHMS}
    end = {name: runs["excess_at_the_end"][mine] for name, mine in of.items()}
    smallest = {name: np.median(runs["norm_3"][mine]) for name, mine in of.items()}
    for name in ("mcem-h", "mcem-ch"):
        ratio = sets[name]["iterations_relative_to_mcem_c"]
        assert ratio[2] is None or ratio[2] > 5  # the paper is right about speed
        assert ratio[0] > 1  # in every data set
        assert np.median(end[name] - end["mcem-c"]) < 1.0  # but norms exaggerate
        assert smallest[name] > 2 * smallest["mcem-c"]
        if sets[name]["runs"] > 5:
            assert sets[name]["p_of_no_difference"] < 0.05


def test_fig4_claims(made):
    table, findings = made.table("fig4-likelihood"), made.findings("fig4")
    runs = {(run["algorithm"], run["seed"]): run for run in findings["runs"]}
    for (algorithm, seed), run in runs.items():
        other = runs.get(("mcem-ch", seed))
        if algorithm == "mcem-c" and other is not None:  # norms converge much faster
            complete = run["iterations"] == other["iterations"] == run["planned"]
            assert not complete or 2 * run["norms_settle_after"] < other["norms_settle_after"]
    keys = zip(table["algorithm"], table["seed"], table["iteration"], strict=True)
    value = dict(zip(keys, table["log_likelihood"], strict=True))
    gaps = [
        (x - value["mcem-ch", seed, n]) / findings["tokens_judged"]
        for (algorithm, seed, n), x in value.items()
        if algorithm == "mcem-c" and n >= 10 and ("mcem-ch", seed, n) in value
    ]
    assert gaps
    assert max(np.abs(gaps)) < 0.01  # small
    assert (table["std_error"] < 1e-5 * findings["tokens_judged"]).all()


def test_rates_claims(made):
    table, findings = made.table("rates"), made.findings("rates")
    assert findings["em_ch_below_rho"] == findings["em_c_above_em_ch"] == 0
    medians = {(m["alpha"], m["scale"]): m for m in findings["medians"]}
    for scale in (10.0, 100.0, 1000.0):  # at the same expected counts the gap closes as α grows
        ratios = [medians[alpha, scale]["ratio"][2] for alpha in (0.1, 0.3, 1.0, 3.0)]
        assert (np.diff(ratios) < 0).all()
    assert all(m["ratio"][2] < 1.5 for key, m in medians.items() if key[0] >= 3.0)
    ratio = table["em_ch_per_digit"] / table["em_c_per_digit"]
    fano = 1.0 / (1.0 - table["rho"])
    assert (fano[ratio > 2.0] > 4.0).all()
    assert len(ratio) == 150


def test_race_claims(made, pages):
    runs = made.findings("race")["runs"]
    by = {(r["contender"], r["seed"], r["alpha_learned"]): r for r in runs}
    text = pages["race"]()
    for (contender, seed, learned), run in by.items():
        papers = by.get(("the paper's", seed, learned))
        if contender == "the paper's" or papers is None:
            continue
        assert run["sweeps"] < papers["sweeps"]
        if not learned:  # SAEM is an improvement on the paper's schedule, and in less time
            assert run["log_likelihood"] > papers["log_likelihood"]
            assert run["cpu_seconds"] < papers["cpu_seconds"]
    assert "that is an improvement" in text
    for (contender, seed, learned), run in by.items():
        if contender.startswith("SAEM") and not learned:  # but not on the default one
            default = by["adaptive (default)", seed, False]
            assert run["log_likelihood"] < default["log_likelihood"] + 0.005
    if _head("race")["results_missing"] == 0:
        assert len(runs) == 4 * 2 * _head("race")["settings"]["n_seeds"]


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
    n_sets = sum(c["data_sets"] for c in cells)
    assert sum(c["worth_bic"] for c in cells) <= 0.01 * n_sets  # worth little
    assert all(c["gain"][2] < 0.5 * c["bic_price"] for c in cells)
    assert all(c["held_out_gain"][2] > -0.03 for c in cells)  # cost next to nothing
    table = made.table("spare")
    one = table["n_spare"] == 1
    agree = (table["exactly_zero"][one] == 1) == (table["max_r"][one] <= 1.0)
    assert ("and only those, in which" in _page("spare-column.md")) == agree.all()
    assert agree.mean() > 0.98


def test_overfit_claims(made):
    cells = [c for c in made.findings("overfit")["cells"] if c["data"] == "simulated"]
    by = {(c["method"], c["alpha"], c["n_samples"], c["factor"]): c for c in cells}
    for (method, alpha, n, factor), here in by.items():
        if factor != 4:
            continue
        loss = by[method, alpha, n, 1]["completion"][2] - here["completion"][2]
        columns = here["effective_columns"][2]
        if method in ("kl-nmf", "mjle"):
            assert columns > 11.0
            assert loss > 0.005
        else:
            assert columns < 9.0
            assert loss < 0.01
    for alpha in (0.3, 1.0, 3.0):  # the fewer the more samples there are
        few, many = (by["mcem-c", alpha, n, 4]["effective_columns"][2] for n in (100, 1000))
        assert many < few


def test_the_page_has_no_claim_that_was_refuted():
    for page in DOCS.rglob("*.md"):
        assert "not dispersion as such" not in page.read_text(encoding="utf-8")
