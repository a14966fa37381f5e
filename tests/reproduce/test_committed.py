"""The results in docs/figures are what their files say, and the pages say nothing else."""

import dataclasses
import itertools
import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from figure_files import Made

from gapmf.ranks.stability import SAME
from gapmf.reproduce import FIGURES
from gapmf.reproduce.cache import ALGORITHMS, paper_schedule

DOCS = Path(__file__).parents[2] / "docs"
# What a figure whose JSON file has a note may have run otherwise than its protocol says.
NOTED = {"fig3b": (), "overfit": (), "race": ("part", "n_seeds", "growth", "n_particles")}
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
    free = NOTED[name] if "note" in content else ()
    assert {key: content["settings"].get(key) for key in full if key not in free} == {
        key: value for key, value in full.items() if key not in free
    }
    if "note" in content:
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
    for excess in runs["excess_of_last_mean"][~converged]:
        assert re.search(rf"are [^:]*\b{excess:.2g}\b[^:]* nats above it after 500", _page())


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


def test_one_ratio_of_times_may_be_off_by_half(made):
    """All algorithms do the same number of sweeps."""
    sets = made.findings("fig2")["over_data_sets"]
    whole = [
        sets[a]["cpu_seconds_of_all_iterations_relative_to_mcem_c"] for a in ("mcem-h", "mcem-ch")
    ]
    assert 1.4 < max(ratios[-1] for ratios in whole) < 1.6
    assert min(ratios[0] for ratios in whole) > 0.6


def test_fig2_chains_of_one_algorithm_differ(made, pages):
    findings, text = made.findings("fig2"), pages["fig2"]()
    sets, chains = findings["over_data_sets"], findings["over_chains"]
    spans = [chains[name]["iterations_until_near"] for name in ALGORITHMS]
    factor = max(span[-1] / span[0] for span in spans)
    effect = max(sets[a]["iterations_relative_to_mcem_c"][2] for a in ("mcem-h", "mcem-ch"))
    assert ("single run cannot show" in text) == (factor > effect)
    p = min(chains[a]["p_of_no_difference"] for a in ("mcem-h", "mcem-ch"))
    assert ("Nor do 10 chains" in text) == (factor > effect and p >= 0.05)
    assert findings["cost_of_the_start"] - findings["smallest_cost"] < 3.0  # a small descent


def test_fig3a_norms_are_those_of_the_exact_minimum(made, pages):
    runs = made.table("fig3a-runs")
    _, first = np.unique(
        [f"{a} {seed}" for a, seed in zip(runs["algorithm"], runs["data_seed"], strict=True)],
        return_index=True,
    )  # one chain per data set
    found, exact = (
        np.stack([runs[f"{label}_{k}"][first] for k in (1, 2, 3)])
        for label in ("norm", "exact_norm")
    )
    off = np.abs(found - exact).max(axis=0) / exact.sum(axis=0)
    text = " ".join(pages["fig3a"]().split())
    assert ("all three algorithms find" in text) == (off.max() < 0.05)
    for label, name in (("C", "mcem-c"), ("H", "mcem-h"), ("CH", "mcem-ch")):
        shown = re.search(rf"([\d.]+) % of their sum \(MCEM-{label}\)", text)
        middle = 100 * np.median(off[runs["algorithm"][first] == name])
        assert float(shown[1]) == pytest.approx(middle, rel=0.06)
    assert f"median over {off.size // 3} data sets" in text
    assert (exact[2] / exact.sum(axis=0)).min() > 0.01  # the third column is no artefact


def test_fig3b_claims(made, pages):
    findings, runs = made.findings("fig3b"), made.table("fig3b-runs")
    sets, text = findings["over_data_sets"], " ".join(pages["fig3b"]().split())
    of = {name: runs["algorithm"] == name for name in ALGORITHMS}
    end = {name: runs["excess_at_the_end"][mine] for name, mine in of.items()}
    off = {
        name: np.median(np.abs(runs["norm_3"] - runs["exact_norm_3"])[mine])
        for name, mine in of.items()
    }
    others = ("mcem-h", "mcem-ch")
    slow = []
    for name in others:
        ratios = sets[name]["iterations_relative_to_mcem_c"]
        slow.append(ratios[2] is None or ratios[2] > 1)
        slow[-1] &= (
            sets[name]["p_of_no_difference"] < 0.05
            if sets[name]["runs"] > 5
            else ratios[0] is None or ratios[0] > 1
        )
        never = np.isnan(runs["iterations_until_near"][of[name]]).sum()
        assert (f"{never} of {sets[name]['runs']} runs never" in text) == (never > 0)
        label = name.upper()
        cost = np.median(end[name] - end["mcem-c"])
        side = "above" if cost >= 0 else "below"
        shown = re.search(rf"{label} ends ([\d.,]+) nats {side} MCEM-C", text)
        assert float(shown[1].replace(",", "")) == pytest.approx(abs(cost), rel=0.06)
        shown = re.search(rf"([\d.,]+) \({label}\)", text)
        assert float(shown[1].replace(",", "")) == pytest.approx(off[name], rel=0.06)
    assert ("the paper is right about speed" in text) == all(slow)
    hidden = _between(text, "Medians hide where it ends farthest off: ")
    for name in ALGORITHMS:  # the largest difference, and what it costs
        worst = np.argmax(np.where(of[name], np.abs(runs["norm_3"] - runs["exact_norm_3"]), -1))
        norm, cost = runs["norm_3"][worst], runs["excess_at_the_end"][worst]
        assert f"{name.upper()} at {norm:.2g} ({cost:.2g} nats above the minimum)" in hidden
        assert f"where the exact norm is {runs['exact_norm_3'][worst]:.2g}" in hidden
    far = all(off[name] > 2 * off["mcem-c"] for name in others)
    assert ("The norms look as described" in text) == far
    little = all(np.median(end[name] - end["mcem-c"]) < 0.5 for name in others)
    assert ("norms exaggerate" in text) == (far and little)


def _last(found):
    """The last value of each seed, of values by seed and iteration."""
    return [found[seed, max(n for s, n in found if s == seed)] for seed in {s for s, _ in found}]


def test_fig4_claims(made, pages):
    table, findings = made.table("fig4-likelihood"), made.findings("fig4")
    text = " ".join(pages["fig4"]().split())
    runs = {(run["algorithm"], run["seed"]): run for run in findings["runs"]}
    longest = max(run["planned"] for run in runs.values())
    pairs = [
        (run["norms_settle_after"], runs["mcem-ch", seed]["norms_settle_after"])
        for (algorithm, seed), run in runs.items()
        if algorithm == "mcem-c" and run["iterations"] == longest
        if runs.get(("mcem-ch", seed), {"iterations": 0})["iterations"] == longest
    ]
    assert pairs
    assert ("settle far earlier" in text) == all(ch > 2 * c for c, ch in pairs)
    keys = zip(table["algorithm"], table["seed"], table["iteration"], strict=True)
    value = dict(zip(keys, table["log_likelihood"] / findings["tokens_judged"], strict=True))
    gap = {
        other: {
            (seed, n): x - value[other, seed, n]
            for (algorithm, seed, n), x in value.items()
            if algorithm == "mcem-c" and n >= 10 and (other, seed, n) in value
        }
        for other in ("mcem-h", "mcem-ch")
    }
    of_ch = gap["mcem-ch"].values()
    assert of_ch
    sentence = _between(text, "on, MCEM-C is ", ". ")
    assert (" above" in sentence) == (max(of_ch) > 0)
    assert ("below" in sentence) == (min(of_ch) < 0)
    tokens = findings["tokens_judged"]
    assert ("half a nat decides" in text) == (max(abs(x) for x in of_ch) < 1e-3)
    errors = dict(
        zip(
            zip(table["algorithm"], table["seed"], table["iteration"], strict=True),
            table["std_error"],
            strict=True,
        )
    )
    ahead = []
    for seed in sorted({seed for seed, _ in gap["mcem-ch"]}):
        late = {n: x * tokens for (s, n), x in gap["mcem-ch"].items() if s == seed and n >= 20}
        error = {n: np.hypot(*(errors[a, seed, n] for a in ("mcem-c", "mcem-ch"))) for n in late}
        sentence = re.search(rf"with seed {seed:.0f} it is (.*?)[;.] ?(with|So)", text)[1]
        if all(x > 2 * error[n] for n, x in late.items()):
            ahead.append(seed)
            low, high = min(late.values()), max(late.values())
            assert f"ahead at all looks, by {low:,.0f} to {high:,.0f} nats" in sentence
        else:
            assert "ahead at all looks" not in sentence
    seeds = {seed for seed, _ in gap["mcem-ch"]}
    shown = f"{len(ahead) or 'none'} of {len(seeds)}"
    assert f"is seen with {shown} seeds" in text or len(ahead) == len(seeds)
    if gap["mcem-h"]:  # signs, and sizes beside MCEM-CH
        ends = _last(gap["mcem-h"])
        assert ("is above MCEM-C by" in text) == (max(ends) < 0)
        assert ("is below MCEM-C by" in text) == (min(ends) > 0)
        both = {key: x for key, x in gap["mcem-h"].items() if key in gap["mcem-ch"]}
        keys = [key for key, x in both.items() if x in ends]
        of_h = [(gap["mcem-ch"][key] - both[key]) * tokens for key in keys]
        of_c = max(abs(gap["mcem-ch"][key]) for key in keys) * tokens
        assert ("In likelihood it is not" in text) == (min(np.abs(of_h)) > 2 * of_c)
        if min(of_h) > 0:
            assert f"it is {min(of_h):,.0f} to {max(of_h):,.0f} nats above MCEM-CH" in text
            assert f"MCEM-C is within {of_c:,.0f} nats of MCEM-CH" in text
    late = table["iteration"] >= 10
    assert (table["std_error"][late] < 1e-5 * findings["tokens_judged"]).all()
    assert (table["std_error"] < 1e-4 * findings["tokens_judged"]).all()


def test_fig4_norms_of_the_shorter_runs(made, pages):
    runs, text = made.findings("fig4")["runs"], " ".join(pages["fig4"]().split())
    by = {(run["algorithm"], run["seed"]): run for run in runs}
    short = [seed for (a, seed), run in by.items() if a == "mcem-c" and run["planned"] == 200]
    assert short
    settled = {
        a: [by[a, seed]["norms_settle_after"] for seed in short] for a in ("mcem-h", "mcem-ch")
    }
    for seed in short:
        assert f"{by['mcem-c', seed]['norms_settle_after']} (seed {seed})" in text
        moved = by["mcem-ch", seed]["largest_change_in_the_last_tenth"]
        assert f"{100 * moved:.1f} % (seed {seed})" in text
    alike = all(
        max(pair) < 1.25 * min(pair) for pair in zip(*settled.values(), strict=True)
    )  # in norms
    assert ("MCEM-H is similar to MCEM-CH" in text) == alike
    cost = {key: run["cpu_seconds"] / run["iterations"] for key, run in by.items()}
    ratios = [x / cost["mcem-c", seed] for (a, seed), x in cost.items() if a == "mcem-h"]
    assert f"takes {min(ratios):.2g} to {max(ratios):.2g} times the CPU time" in text


def _ends_of_fig4(made, algorithm):
    table, tokens = made.table("fig4-likelihood"), made.findings("fig4")["tokens_judged"]
    rows = sorted(_rows(table), key=lambda row: row["iteration"])
    return {
        row["seed"]: row["log_likelihood"] / tokens for row in rows if row["algorithm"] == algorithm
    }


def test_most_of_what_faster_schedules_have_is_averaging_over_c(made, pages):
    """MCEM-H of fig4 averages over C in the paper's schedule."""
    runs = [run for run in made.findings("race")["runs"] if not run["alpha_learned"]]
    assert made.findings("race")["tokens_judged"] == made.findings("fig4")["tokens_judged"]
    of_c, of_h = (_ends_of_fig4(made, a) for a in ("mcem-c", "mcem-h"))
    papers = {r["seed"]: r["log_likelihood"] for r in runs if r["contender"] == "the paper's"}

    def shares(base, contender):
        mine = [run for run in runs if contender in run["contender"]]
        return [
            100 * (of_h[r["seed"]] - base[r["seed"]]) / (r["log_likelihood"] - base[r["seed"]])
            for r in mine
        ]

    default, saem = shares(of_c, "default"), shares(papers, "SAEM")
    fig4, race = (" ".join(pages[name]().split()) for name in ("fig4", "race"))
    assert f"has {min(default):.0f} to {max(default):.0f} % of this difference" in fig4
    assert ("what the default schedule saves is time" in fig4) == (min(default) > 50)
    assert ("What the default saves is time" in race) == (min(default) > 50)
    assert (f"MCEM-H has {min(saem):.0f} to {max(saem):.0f} % of what" in race) == (min(saem) > 50)
    for name in ("SAEM, γ restarted", "SAEM, textbook"):
        gaps = [r["log_likelihood"] - of_h[r["seed"]] for r in runs if r["contender"] == name]
        assert min(gaps) < 0 < max(gaps)
        assert f"from {-min(gaps):.2g} nats per token below it to {max(gaps):.2g} above it" in race


def test_fig4_solutions(made, pages):
    text = " ".join(pages["fig4"]().split())
    found, K = made.findings("fig4")["solutions"], _head("fig4")["settings"]["n_components"]
    same, chance = (
        [row["components_in_common"] for row in found if row["algorithms"] == pair]
        for pair in (["mcem-ch", "mcem-c"], ["mcem-c", "mcem-c"])
    )
    assert ("with the same seed have the same components" in text) == (min(same) == K)
    assert ("depends on chance" in text) == (min(chance) < K)
    overlaps = [row["overlap"] for row in found if row["algorithms"] == ["mcem-c", "mcem-c"]]
    near = any(abs(overlap[2] - SAME) < 0.02 for overlap in overlaps)
    assert (f"depends on the limit of {SAME:g}" in text) == near
    assert ("do not depend on it" in text) == (
        near and max(overlap[0] for overlap in overlaps) < SAME - 0.2
    )
    assert f"count as the same from {SAME:g} on" in text


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
    most = max(
        np.median(ratio[(table["alpha"] == alpha) & (table["scale"] == scale)])
        for alpha, scale in medians
        if alpha >= 3.0
    )
    assert f"the median ratio of a cell is at most {most:.2g} (this is not" in _page()
    assert len(ratio) == 150
    off = {}
    for name in ("em_c", "em_ch"):
        seen, rate = 1.0 - table[f"{name}_seen"], 1.0 - table[name]
        positive = (seen > 0) & (rate > 0)
        with np.errstate(divide="ignore"):
            off[name] = np.where(positive, np.maximum(seen / rate, rate / seen), np.inf)
    few = table["alpha"] < 3.0
    worst = max(x[few].max() for x in off.values())
    assert worst < 2.0
    assert f"For α = 0.1, 0.3 and 1 its measured value is within a factor of {worst:.2g}" in _page()
    c, ch = ((x[~few] > 2.0).sum() for x in off.values())
    assert f"in {c} (EM-C) and {ch} (EM-CH) of {(~few).sum()} data sets" in _page()


def test_race_claims(made, pages):
    runs = made.findings("race")["runs"]
    by = {(r["contender"], r["alpha_learned"], r["seed"]): r for r in runs}
    text = " ".join(pages["race"]().split())

    def against(form, other, learned):
        """Differences of likelihoods and of times at the end, for all seeds."""
        seeds = [k[2] for k in by if k[:2] == (form, learned) and (other, learned, k[2]) in by]
        return [
            [by[form, learned, i][key] - by[other, learned, i][key] for i in seeds]
            for key in ("log_likelihood", "cpu_seconds")
        ]

    names = {"SAEM, γ restarted": "SAEM with restarts", "SAEM, textbook": "the textbook's SAEM"}
    forms = [form for form in names if (form, False) in {key[:2] for key in by}]
    assert forms
    for form in forms:
        sentences = re.findall(rf"{names[form]} ends (.*?)\. ", text, flags=re.IGNORECASE)
        papers = next(x for x in sentences if "the schedule of the paper" in x)
        default = [x for x in sentences if "the default" in x]
        cases = [("the paper's", False, papers)]
        cases += [("adaptive (default)", i == 1, words) for i, words in enumerate(default)]
        assert len(cases) == 3
        for other, learned, sentence in cases:
            gaps, seconds = against(form, other, learned)
            improved = min(gaps) > 0 and max(seconds) < 0
            if other != "the paper's":
                assert ("an improvement" in sentence) == improved
            assert (" above " in sentence) == (max(gaps) > 0)
            assert (" below " in sentence) == (min(gaps) < 0)
            assert ("in less CPU time" in sentence) == (min(seconds) < 0)
    limit = _head("race")["settings"]["max_iter"]
    for form in forms:  # one sweep per iteration, and a few more
        mine = [run["sweeps"] for run in runs if run["contender"] == form]
        capped = sum(limit <= n < 1.05 * limit for n in mine)
        shown = f"all {len(mine)}" if capped == len(mine) else f"{capped} of {len(mine)}"
        assert (f"{shown} runs of {names[form]}" in text) == (capped > 0)
    for contender, learned, seed in by:
        looks = [
            row
            for row in _rows(made.table("race"))
            if (row["contender"], row["alpha_learned"], row["seed"])
            == (contender, str(learned), seed)
        ]
        assert looks[0]["sweeps"] == (250 if contender == "the paper's" else 1)  # to begin with
        growth = _head("race")["settings"]["growth"]
        for a, b in itertools.pairwise(looks[:-1]):
            assert b["sweeps"] >= growth * a["sweeps"]
    if _head("race")["results_missing"] == 0:
        assert len(runs) == 4 * 2 * _head("race")["settings"]["n_seeds"]


def test_the_design_note_on_saem_has_the_numbers_of_race(made):
    text = _page("design/0013-saem.md")
    runs = [run for run in made.findings("race")["runs"] if not run["alpha_learned"]]
    ends = {(run["contender"], run["seed"]): run["log_likelihood"] for run in runs}
    of_h = _ends_of_fig4(made, "mcem-h")
    for form, name in (("SAEM, γ restarted", "saem"), ("SAEM, textbook", "saem-textbook")):
        gaps = [ends[form, seed] - ends["the paper's", seed] for seed in of_h]
        assert f'"{name}" by {min(gaps):.3f} to {max(gaps):.3f}' in text
        assert max(abs(ends[form, seed] - of_h[seed]) for seed in of_h) < 0.004


def test_saem_and_the_default_at_equal_time(made, pages):
    """Interpolated as NumPy does it; what the forms have in common counts once."""
    rows, text = _rows(made.table("race")), " ".join(pages["race"]().split())
    found = {}
    for learned, seed in itertools.product(("False", "True"), (0, 1, 2)):
        mine = [r for r in rows if (r["alpha_learned"], r["seed"]) == (learned, seed)]
        default = [r for r in mine if r["contender"] == "adaptive (default)"]
        time, value = (
            np.array([r[key] for r in default]) for key in ("cpu_seconds", "log_likelihood")
        )
        for r in mine:
            if r["contender"].startswith("SAEM") and time[0] <= r["cpu_seconds"] <= time[-1]:
                there = np.interp(np.log(r["cpu_seconds"]), np.log(time), value)
                key = learned, seed, r["sweeps"], r["log_likelihood"]
                found.setdefault(key, []).append((r["cpu_seconds"], r["log_likelihood"] - there))
    late = [gaps for gaps in found.values() if max(t for t, _ in gaps) > 1.0]
    low, high = ([f(gap for _, gap in gaps) for gaps in late] for f in (min, max))
    small = 1e-4  # more than two standard errors
    ours = [row for row in rows if row["contender"] != "the paper's" and row["cpu_seconds"] > 0.4]
    assert all(2 * 2**0.5 * row["std_error"] < small for row in ours)
    assert min(map(abs, low + high)) > small
    ahead, behind = sum(x > 0 for x in low), sum(x < 0 for x in high)
    assert f"at {ahead} of {len(late)} looks and behind at {behind}:" in text
    assert text.count("| ahead |") == ahead
    assert text.count("| behind |") == behind
    both = all(len(gaps) == 2 for gaps in late)
    assert ("The default has ended before the two forms differ" in text) == both


def _between(text, begin, end=". "):
    return text.split(begin)[1].split(end)[0]


def _rows(table):
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


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
    single = 100 * table["share"][one].max()  # one column, not the sum of several
    assert f"A threshold on shares would have to be above {single:.0f} %" in _page(
        "spare-column.md"
    )
    together = [100 * c["share"][2] for c in cells]
    assert f"have {min(together):.2g} % to {max(together):.2g} % of the expected counts" in _page()
    assert agree.mean() > 0.98


def test_medians_of_overfit_are_those_of_its_file(made, pages):
    rows, head = _rows(made.table("overfit")), _head("overfit")
    assert {(r["data"], r["alpha"], r["n_samples"], r["method"], r["factor"]) for r in rows} == {
        (c["data"], c["alpha"], c["n_samples"], c["method"], c["factor"])
        for c in head["findings"]["cells"]
    }
    text = pages["overfit"]()
    for cell in head["findings"]["cells"]:
        keys = ("data", "alpha", "n_samples", "method", "factor")
        mine = [row for row in rows if all(row[key] == cell[key] for key in keys)]
        middle = {
            key: np.median([row[key] for row in mine])
            for key in ("effective_columns", "completion")
        }
        shown = f"{middle['effective_columns']:.1f}; {middle['completion']:.3f}"
        assert shown.replace("-", "−") in text
        if "note" not in head:
            for key, value in middle.items():
                assert cell[key][2] == pytest.approx(value, rel=1e-5)


def test_overfit_claims(made, pages):
    rows = [row for row in _rows(made.table("overfit")) if row["data"] == "simulated"]
    text = " ".join(pages["overfit"]().split())
    keys = ("method", "alpha", "n_samples", "data_seed", "factor")
    by = {tuple(row[key] for key in keys): row for row in rows}
    shares = {}
    for row in _rows(made.table("overfit-shares")):
        shares.setdefault(tuple(row[key] for key in keys), []).append(row["share"])
    fits = {}
    for (method, *case, factor), row in by.items():
        if factor == 4:
            loss = by[(method, *case, 1)]["completion"] - row["completion"]
            large = sum(x > 0.01 for x in shares[method, *case, 4])
            assert row["columns_used"] == sum(x > 0.001 for x in shares[method, *case, 4])
            fits.setdefault(method, []).append((case[0], row, loss, large))
    assert ("it overfits, as reported" in text) == (min(x[2] for x in fits["mjle"]) > 0)
    for method in ("mjle", "kl-nmf"):
        found = re.search(
            rf"{method.upper()} \(α = [^)]*\) uses ([\d to]+) columns and loses ([\d. to]+\d)[.:]",
            text,
        )
        numbers = [float(x) for x in re.findall(r"\d+\.\d+", found[2])]
        losses = [x[2] for x in fits[method]]
        assert numbers == pytest.approx([min(losses), max(losses)], rel=0.06)
        columns = [int(x) for x in re.findall(r"\d+", found[1])]
        used = [x[1]["columns_used"] for x in fits[method]]
        assert (columns[0], columns[-1]) == (min(used), max(used))
    for method, name in (("mcem-c", "MCEM-C"), ("vbem", "VBEM")):
        for alpha in (0.3, 1.0, 3.0):
            mine = [fit for fit in fits[method] if fit[0] == alpha]
            cells = text.split(f"| {name} | {alpha:g} | ")[1].split(" | ")
            values = [
                [row["columns_used"] for _, row, *_ in mine],
                [large for *_, large in mine],
                [row["effective_columns"] for _, row, *_ in mine],
            ]
            for cell, x in zip(cells, values, strict=False):
                low, _, high = cell.partition(" to ")
                assert [float(low), float(high or low)] == pytest.approx([min(x), max(x)], rel=0.06)
            for cell, x in ((cells[3], values[0]), (cells[4], [n + 1 for n in values[1]])):
                n = sum(n <= 4 for n in x)
                assert cell.startswith("all" if n == len(x) else f"{n or 'none'} of {len(x)}")
        empty = sum(row["columns_used"] <= 4 for _, row, *_ in fits[method])
        assert f"{name} in {empty or 'none'} of {len(fits[method])} fits" in text
        few = [fit for fit in fits[method] if fit[3] < 4]
        assert (f"With {name} this is so in none of" in text) == (not few)
        if few:
            losses = [loss for _, _, loss, _ in few]
            assert f"These fits lose {min(losses):.2g} to {max(losses):.2g}." in text


def test_overfit_says_what_its_fits_are(made, pages):
    from gapmf.reproduce import overfit

    text = " ".join(pages["overfit"]().split())
    assert f"above {100 * overfit.USED:g} %." in text
    assert f"{overfit.SMOOTHING:g} of each component is taken" in text
    rows = [row for row in _rows(made.table("overfit")) if row["data"] == "simulated"]
    sets, dictionaries = (
        len({tuple(row[key] for key in keys) for row in rows})
        for keys in (("alpha", "n_samples", "data_seed"), ("n_samples", "data_seed"))
    )
    assert f"The {sets} data sets of known truth have {dictionaries} dictionaries" in text
    config = FIGURES["overfit"].full
    problems = overfit.simulated(dataclasses.replace(config, n_sets=1, n_fresh=2), 0)
    means = [x.train.mean(axis=0) for x in problems if x.train.shape[0] == 1000]
    assert [x.sum() for x in means] == pytest.approx([config.n_tokens] * len(means), rel=0.1)
    assert np.corrcoef(means).min() > 0.95  # one dictionary for all α
    assert f"{config.n_tokens} expected tokens each" in text


def test_on_nips_no_number_of_components_overfits(made, pages):
    rows = [row for row in _rows(made.table("overfit")) if row["data"] == "NIPS"]
    text = " ".join(pages["overfit"]().split())
    by = {(row["method"], row["n_components"]): row for row in rows}
    K = sorted({k for _, k in by})
    methods = {method for method, _ in by}
    rise = all(
        by[m, b]["completion"] > by[m, a]["completion"]
        for m in methods
        for a, b in itertools.pairwise(K)
    )
    full = all(by[m, K[-1]]["effective_columns"] >= 0.9 * K[-1] for m in methods)
    assert (f"no method overfits up to {K[-1]:.0f} components, and none prunes" in text) == (
        rise and full
    )
    same, other = (
        max(abs(by[a, k]["completion"] - by[b, k]["completion"]) for k in K)
        for a, b in (("mjle", "kl-nmf"), ("mcem-c", "vbem"))
    )
    assert f"differ by up to {same:.2g} nats per token at the same K" in text
    assert f"MCEM-C and VBEM differ by up to {other:.2g}." in text
    assert ("cannot be ranked" in text) == (other <= same)
