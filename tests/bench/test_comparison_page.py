"""The page of the comparison says what the committed results say, and nothing else."""

import runpy
from pathlib import Path
from statistics import mean

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def script(monkeypatch):
    """The names of docs/generate_comparison.py."""
    monkeypatch.syspath_prepend(str(DOCS))
    return runpy.run_path(str(DOCS / "generate_comparison.py"))


@pytest.fixture
def results(script):
    return script["Results"].read()


def _page():
    return " ".join((DOCS / "comparison.md").read_text(encoding="utf-8").split())


def test_the_page_is_generated_from_the_results(script, results):
    kept = (DOCS / "comparison.md").read_text(encoding="utf-8")
    assert script["page"](results) == kept, "run docs/generate_comparison.py"
    assert (DOCS / "comparison" / "curves.png").exists()


def test_the_plan_is_the_present_one(results):
    """Fails when the plan changes and the page is not made anew."""
    from peers import plan
    from peers.cell import Cell

    planned = {cell.key for cell in plan.full()}
    names = ("data", "K", "peer", "seed", "threads", "kind")
    run = {Cell(**{name: row[name] for name in names}).key for row in results.content["rows"]}
    assert results.content["planned"] == len(planned)
    assert run | set(results.content["missing"]) == planned
    assert not run & set(results.content["missing"])


def test_what_the_plan_takes_is_said(results):
    budget = results.content["budget"]
    if results.content["missing"]:
        assert f"are estimated to take {budget['minutes']:.0f} minutes" in _page()
    else:
        assert f"took {budget['took']:.0f} minutes on two cores" in _page()


def test_losses_and_wins_are_those_of_the_rows(script, results):
    quality = script["quality"]
    count = {"worse": 0, "better": 0, "tie": 0}
    for data, K, peer, gain in quality.differences(results):
        ours = mean(results.values("perplexity", data=data, K=K, peer="gapmf, for prediction"))
        theirs = mean(results.values("perplexity", data=data, K=K, peer=peer))
        assert gain == pytest.approx(theirs / ours - 1.0)
        count["tie" if abs(gain) < 0.005 else "better" if gain > 0 else "worse"] += 1
        for other in results.others:
            values = results.values("perplexity", data=data, K=K, peer=other)
            assert not values or mean(values) >= theirs
    said = f"in {count['better']} of {sum(count.values())} cases, worse in {count['worse']}, and"
    assert f"{said} a tie in {count['tie']}. A tie is" in _page()
    assert ("**Worse**" in _page()) == (count["worse"] > 0)
    for _, K, peer, gain in quality.differences(results):
        if abs(gain) < 0.005:
            side = "ahead of" if gain > 0 else "behind"
            assert f"K = {K}: {quality.percent(abs(gain))} ({side} {peer})" in _page()


def test_the_readme_has_the_short_form(script, results):
    readme = " ".join((DOCS.parent / "README.md").read_text(encoding="utf-8").split())
    quality = script["quality"]
    assert " ".join(quality.short_form(results).split()) in readme
    verdicts = [quality.verdict(gain) for *_, gain in quality.differences(results)]
    assert [verdicts.count(x) for x in ("better", "tie", "worse")] == [5, 4, 0]
    assert (
        "better than the best other package in five of these nine cases. The other four" in readme
    )
    default = quality.differences(results, "gapmf, default")
    assert [quality.verdict(gain) for *_, gain in default].count("worse") == 6
    right = {
        recipe: sum(rank == K for (_, K), named in cases.items() for rank in named)
        for recipe, cases in quality.rank_counts(results).items()
    }
    ours = right["gapmf, rank_report"], right["gapmf, select_rank"]
    assert (*ours, right["cNMF, stability"], right["KL-NMF, perplexity"]) == (20, 20, 19, 18)


def test_the_cheapest_inference_that_is_as_good(script, results):
    """Of the settings at least as good as tomotopy's better form, the fastest is chosen."""
    found = script["cost"].equal_quality(results)
    assert len(found) == 9
    for x in found:
        rows = results.rows(data=x["data"], K=x["K"], peer="gapmf, for prediction")
        forms = {"the default": [(r["perplexity"], r["infer_cpu"]) for r in rows]}
        for name in rows[0]["faster"]:
            forms[name] = [
                (r["faster"][name]["perplexity"], r["faster"][name]["infer_cpu"]) for r in rows
            ]
        seconds = {
            name: mean(cpu for _, cpu in some)
            for name, some in forms.items()
            if mean(value for value, _ in some) <= x["goal"]
        }
        assert x["chosen"] == min(seconds, key=seconds.__getitem__)
        assert x["ours"][1] < x["theirs"]  # said in the README


def test_what_was_not_run_is_said(results):
    missing = len(results.content["missing"])
    said = f"**Not complete: {missing} of the {results.content['planned']} runs"
    assert (said in _page()) == (missing > 0)


def test_every_result_is_complete_or_has_a_reason(results):
    for row in results.content["rows"]:
        if "reason" in row:
            assert row["reason"]
            assert " ".join(row["reason"].replace("|", "/").split()) in _page()
        elif row["kind"] == "rank":
            assert row["rank"] > 0
        else:
            assert row["perplexity"] > 1
            assert row["cpu"] > 0
            assert set(row["by_epsilon"]) == {"0.0001", "0.001", "0.01"}
            assert row["by_epsilon"]["0.001"] == row["perplexity"]


def test_races_are_those_of_the_looks(script, results):
    quality = script["quality"]
    for race in quality.races(results):
        first = {r["peer"]: r for r in results.rows(data=race["data"], K=race["K"], seed=0)}
        best = first[race["best"]]
        assert race["goal"] == best["perplexity"]
        assert race["seconds"] <= best["cpu"]
        if race["ours"] is not None:
            seen = [
                *first["gapmf, for prediction"].get("looks", []),
                first["gapmf, for prediction"],
            ]
            reached = [x["cpu"] for x in seen if x["perplexity"] <= 1.005 * race["goal"]]
            assert race["ours"] == reached[0]


def _results(script, *rows, **more):
    """Results of seed 0 and one thread, for small counts with K = 10 unless they say otherwise."""
    usual = {
        "kind": "fit", "data": "small counts", "K": 10, "seed": 0, "threads": 1, "cpu": 4.0,
        "infer_cpu": 1.0, "passes": 10, "memory_mib": 1.0, "n_test": 5, "limit": 30.0,
        "n_components": 10,
    }  # fmt: skip
    packages = {
        "gapmf, for prediction": "gapmf", "gapmf, default": "gapmf", "LDA, tomotopy": "tomotopy",
        "LDA, tomotopy η = 0.1": "tomotopy", "LDA, gensim": "gensim",
    }  # fmt: skip
    made = []
    for row in rows:
        x = row.get("perplexity", 1.0)
        made.append(
            usual | {"perplexity_common": x, "by_epsilon": dict.fromkeys(EPSILONS, x)} | row
        )
    content = {
        "versions": {"gapmf": "1"}, "peers": dict.fromkeys(packages, ""), "packages": packages,
        "budget": {"minutes": 1.0, "measured": 1.0, "estimated": 1.0}, "note": "", "planned": 1,
        "missing": [], "not run": [], "rows": made, "stability": [],
    }  # fmt: skip
    return script["Results"](content | more)


EPSILONS = ("0.0001", "0.001", "0.01")


def test_perplexity_between_looks_is_interpolated_in_log_time(script):
    at_time = script["quality"].at_time
    looks = [{"cpu": 1.0, "perplexity": 100.0}, {"cpu": 4.0, "perplexity": 80.0}]
    row = {"cpu": 16.0, "perplexity": 70.0, "looks": looks}
    assert at_time(row, 0.99) is None
    assert at_time(row, 1.0) == 100.0
    assert at_time(row, 2.0) == pytest.approx(90.0)
    assert at_time(row, 4.0) == pytest.approx(80.0)
    assert at_time(row, 8.0) == pytest.approx(75.0)
    assert at_time(row, 64.0) == 70.0
    assert at_time({"cpu": 16.0, "perplexity": 70.0}, 4.0) is None


def test_less_than_half_a_per_cent_is_a_tie(script):
    quality = script["quality"]

    def said(best):
        results = _results(
            script,
            {"peer": "gapmf, for prediction", "perplexity": 1000.0},
            {"peer": "LDA, tomotopy", "perplexity": best},
            {"peer": "LDA, gensim", "perplexity": 2000.0},
        )
        ((*_, gain),) = quality.differences(results)
        return quality.verdict(gain)

    assert [said(x) for x in (994, 996, 1004, 1006)] == ["worse", "tie", "tie", "better"]


def test_a_setting_needs_two_other_packages(script):
    results = _results(
        script,
        {"peer": "gapmf, for prediction", "perplexity": 1000.0},
        {"peer": "LDA, tomotopy", "perplexity": 1100.0},
        {"peer": "LDA, tomotopy η = 0.1", "perplexity": 1100.0},
    )
    assert results.fair_settings() == []
    rows = [*results.content["rows"], results.content["rows"][1] | {"peer": "LDA, gensim"}]
    assert _results(script, *rows).fair_settings() == [("small counts", 10)]
    late = ["fit", "small counts", 10, "HPF, hpfrec", 0, 1]  # it may be the best
    assert _results(script, *rows, **{"not run": [late]}).fair_settings() == []
    late[4] = 1
    assert _results(script, *rows, **{"not run": [late]}).fair_settings() == [("small counts", 10)]
    assert "No case has both" in script["quality"].reading(results)[0]
    assert script["quality"].races(results) == []


def test_the_best_form_is_printed_and_equal_digits_are_a_tie(script):
    def said(first, default, other):
        results = _results(
            script,
            {"peer": "gapmf, for prediction", "perplexity": 10.0, "npmi": first},
            {"peer": "gapmf, default", "perplexity": 11.0, "npmi": default},
            {"peer": "LDA, tomotopy", "perplexity": 10.0, "npmi": other},
            {"peer": "LDA, gensim", "perplexity": 12.0, "npmi": 0.01},
        )
        (text,) = script["readings"].higher(results)
        return text

    lost = said(0.1, 0.2, 0.3)
    assert "alone in 0 of 1" in lost
    assert "(LDA, tomotopy, 0.3 against 0.2 of gapmf, default)" in lost
    tied = said(0.1, 0.99512, 0.99524)
    assert "alone in 0 of 1" in tied
    assert "Ties at three digits: small counts, K = 10 (LDA, tomotopy, 0.995)" in tied
    assert "alone in 1 of 1 cases." in said(0.4, 0.2, 0.3)


def test_cells_without_data_are_not_run_on_the_page(script, tmp_path):
    import json
    from dataclasses import asdict

    from peers import summary
    from peers.cell import Cell

    cell = Cell("nips", 20, "LDA, gensim")
    path = tmp_path / f"{cell.key}.json"
    skipped = {"cell": asdict(cell), "reason": "no data", "skipped": True}
    path.write_text(json.dumps(skipped), encoding="utf-8")
    assert summary.row(cell, tmp_path) is None
    who = ["fit", "nips", 20, "LDA, gensim", 0, 1]
    results = _results(
        script,
        {"peer": "gapmf, for prediction", "perplexity": 1000.0},
        {"peer": "LDA, tomotopy", "reason": "bad\n  news | here"},
        missing=[cell.key],
        **{"not run": [who]},
    )
    page = " ".join(script["page"](results).split())
    assert "**Not complete: 1 of the 1 runs" in page
    assert "| NIPS, K = 20 | 1 | all |" in page
    assert "no data" not in page
    assert "bad news / here" in page
