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


def test_the_plan_fits_its_time(results):
    assert results.content["budget"]["minutes"] < 90


def test_losses_and_wins_are_those_of_the_rows(script, results):
    quality = script["quality"]
    lost, won = 0, 0
    for data, K, peer, gain in quality.differences(results):
        ours = mean(results.values("perplexity", data=data, K=K, peer="gapmf, for prediction"))
        theirs = mean(results.values("perplexity", data=data, K=K, peer=peer))
        assert gain == pytest.approx(theirs / ours - 1.0)
        lost += gain < 0
        won += gain >= 0
        for other in results.others:
            values = results.values("perplexity", data=data, K=K, peer=other)
            assert not values or mean(values) >= theirs
    assert f"in {won} of {won + lost} settings, and worse in {lost}." in _page()
    assert ("**Where it loses.**" in _page()) == (lost > 0)


def test_what_was_not_run_is_said(results):
    missing = len(results.content["missing"])
    said = f"**Not complete: {missing} of the {results.content['planned']} cells"
    assert (said in _page()) == (missing > 0)


def test_every_result_is_complete_or_has_a_reason(results):
    for row in results.content["rows"]:
        if "reason" in row:
            assert row["reason"]
            assert row["reason"].replace("|", "/").split("\n")[0] in _page()
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
            reached = [x["cpu"] for x in seen if x["perplexity"] <= 1.001 * race["goal"]]
            assert race["ours"] == reached[0]
