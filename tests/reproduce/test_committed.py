"""The results in docs/figures: of the full protocol, and what docs/reproduction.md says of them."""

import csv
import dataclasses
import json
from pathlib import Path

import pytest

from gapmf.reproduce import FIGURES
from gapmf.reproduce.cache import ALGORITHMS

FOLDER = Path(__file__).parents[2] / "docs" / "figures"


def head(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FIGURES)
def test_they_are_of_the_full_protocol(name):
    settings = head(name)["settings"]
    full = json.loads(json.dumps(dataclasses.asdict(FIGURES[name].full)))
    assert {key: settings[key] for key in full} == full
    assert (FOLDER / f"{name}.png").stat().st_size < 300_000
    assert (FOLDER / f"{name}.csv").stat().st_size < 300_000


@pytest.mark.parametrize("name", FIGURES)
def test_the_page_shows_each(name):
    page = (FOLDER.parent / "reproduction.md").read_text(encoding="utf-8")
    assert f"(figures/{name}.png)" in page
    assert f"gapmf reproduce {name}" in page


def test_what_the_paper_says_holds_in_full():
    fig1, fig2, fig3b, fig4 = (head(n)["findings"] for n in ("fig1", "fig2", "fig3b", "fig4"))
    assert fig1["distance_from_the_line"]["mcem-c"] < 1e-12
    assert min(fig1["distance_from_the_line"][a] for a in ("mcem-h", "mcem-ch")) > 0.01
    assert max(fig1["cost_of_last_mean"].values()) < fig1["smallest_cost"] + 0.01
    assert max(fig2[a]["excess_at_the_end"] for a in ALGORITHMS) < 0.1
    others = ("mcem-h", "mcem-ch")
    assert fig3b["mcem-c"]["excess_at_the_end"] < 0.2
    assert min(fig3b[a]["excess_at_the_end"] for a in others) > fig3b["mcem-c"]["excess_at_the_end"]
    assert fig4["mcem-c"]["largest_change_in_the_last_tenth"] < 0.01
    assert head("fig4")["settings"]["iterations_run"] >= 200


def test_what_is_new_holds_in_full():
    rates, race, spare = (head(n)["findings"] for n in ("rates", "race", "spare"))
    assert rates["em_ch_below_rho"] == 0
    for alpha in ("alpha = 1", "alpha learned"):
        ours = race[alpha]["adaptive (default)"]
        assert ours["log_likelihood"] > race[alpha]["the paper's"]["log_likelihood"] - 0.002
        assert ours["cpu_seconds"] < race[alpha]["the paper's"]["cpu_seconds"]
    for scale in ("1", "10", "100", "1000"):
        assert spare[scale]["not_converged"] == spare[scale]["worth_bic"] == 0


def test_tables_have_rows():
    for path in FOLDER.glob("*.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        assert len(rows) > 10
        assert len({len(row) for row in rows}) == 1
