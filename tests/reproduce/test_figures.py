"""The numbers of every figure against what the paper says, at small sizes. Seeds are fixed."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from figure_files import NEED_DATA
from scipy import stats

from gapmf import GaP
from gapmf.datasets import paper_synthetic
from gapmf.reproduce import FIGURES
from gapmf.reproduce.cache import ALGORITHMS


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_leaves_its_four_files(quick, name):
    if name in NEED_DATA and not (quick.folder / f"{name}.json").exists():
        pytest.skip("needs the NIPS counts: set GAPMF_NIPS_DIR")
    head = json.loads((quick.folder / f"{name}.json").read_text())
    assert head["settings"]["seed"] == 0
    assert {"gapmf", "python", "numpy", "scipy", "numba"} == set(head["versions"])
    assert head["cpu_seconds"] > 0.05
    picture = (quick.folder / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000
    root = ElementTree.parse(quick.folder / f"{name}.svg").getroot()
    assert root.tag.endswith("svg")
    assert len({len(column) for column in quick.table(name).values()}) == 1


def test_fig1_only_mcem_c_stays_on_the_line(quick):
    table, findings = quick.table("fig1"), quick.findings("fig1")
    off = np.abs(table["w1"] + table["w2"] - findings["mean_count"])
    assert off[table["algorithm"] == "mcem-c"].max() < 1e-5  # of the digits in the file
    assert findings["distance_from_the_line"]["mcem-c"] < 1e-12
    for name in ("mcem-h", "mcem-ch"):
        assert off[table["algorithm"] == name].max() > 0.02


def test_fig1_contours_are_the_exact_cost(quick):
    """With α = β = 1 a component is geometric: the law of a sample is a convolution of two."""
    settings = json.loads((quick.folder / "fig1.json").read_text())["settings"]
    X = GaP([settings["truth"]]).sample(settings["n_samples"], random_state=0).ravel()
    table = quick.table("fig1-contours")
    for i in (0, 17, 40, 72):
        laws = [stats.nbinom(1, 1 / (1 + table[w][i])).pmf(np.arange(400)) for w in ("w1", "w2")]
        cost = -np.log(np.convolve(*laws)[X]).sum()
        assert table["cost"][i] == pytest.approx(cost, rel=1e-6)
    assert table["cost"].min() > quick.findings("fig1")["smallest_cost"] - 1e-3


def test_fig2_the_three_algorithms_meet(quick):
    findings = quick.findings("fig2")
    table = quick.table("fig2")
    for name in ALGORITHMS:
        mine = table["cost"][table["algorithm"] == name]
        assert mine[0] - findings["smallest_cost"] > 0.9
        assert -1e-6 < findings[name]["excess_at_the_end"] < 0.45


def test_fig2_and_fig3a_are_the_same_runs(quick):
    assert (quick.folder / "fig2.csv").read_text() == (quick.folder / "fig3a.csv").read_text()
    table = quick.table("fig3a")
    total = paper_synthetic(1.0, random_state=0)[0].mean(axis=0).sum()
    mine = table["algorithm"] == "mcem-c"
    norms = sum(table[f"norm_{k}"][mine] for k in (1, 2, 3))
    np.testing.assert_allclose(norms, total, rtol=1e-6)


def test_fig3b_mcem_c_is_far_ahead_on_v2(quick):
    findings = quick.findings("fig3b")
    excess = {name: findings[name]["excess_at_the_end"] for name in ALGORITHMS}
    assert -1e-6 < excess["mcem-c"] < 1.0
    assert min(excess["mcem-h"], excess["mcem-ch"]) > 5 * excess["mcem-c"]
    smallest = {name: findings[name]["norms_at_the_end"][-1] for name in ALGORITHMS}
    assert smallest["mcem-c"] < 0.3 * min(smallest["mcem-h"], smallest["mcem-ch"])
    assert findings["mcem-c"]["iterations_until_near"] is not None
    assert findings["mcem-ch"]["iterations_until_near"] is None


def test_fig4_mcem_c_is_ahead_on_nips(with_nips):
    findings = with_nips.findings("fig4")
    c, ch = (findings[name] for name in ("mcem-c", "mcem-ch"))
    last = max(c["log_likelihood"], key=int)
    assert c["log_likelihood"][last] > ch["log_likelihood"][last] + 20.0

    def spread(norms):
        return max(norms) / min(norms)

    assert spread(c["norms_at_the_end"]) > 1.3 * spread(ch["norms_at_the_end"])


def test_rates_em_ch_is_held_back_by_rho_and_em_c_is_not(quick):
    table = quick.table("rates")
    assert (table["em_ch"] >= table["rho"] - 1e-4).all()
    assert (table["em_c"] < table["em_ch"]).all()
    left = 1.0 - np.stack([table["em_c"], table["em_ch"], table["rho"]])[:, table["scale"] == 1e3]
    assert left[0] > 5 * max(left[1], left[2])  # so many times fewer iterations
    for name in ("em_c", "em_ch"):  # sixty iterations do not quite leave the slowest direction
        np.testing.assert_allclose(table[name], table[f"{name}_seen"], atol=0.015)


def test_race_our_schedules_are_ahead_of_the_papers(with_nips):
    findings = with_nips.findings("race")
    for alpha in ("alpha = 1", "alpha learned"):
        theirs = findings[alpha]["the paper's"]
        for ours in ("adaptive (default)", "SAEM"):
            assert findings[alpha][ours]["log_likelihood"] > theirs["log_likelihood"] + 0.01
            assert findings[alpha][ours]["sweeps"] < theirs["sweeps"]


def test_spare_column_is_small_and_worth_nothing(quick):
    table, findings = quick.table("spare"), quick.findings("spare")
    assert (table["gain"] > -1e-6).all()
    assert (table["gain"] < findings["bic_price"]).all()
    assert (table["converged"] == "True").all()
    above = table["max_r"] > 1.0
    assert (table["share"][~above] < 1e-8).all()
    assert above.any()
    large = table["scale"] == 30.0
    assert np.median(table["share"][large]) < np.median(table["share"][~large])


def test_pictures_are_not_blank(quick):
    """Something of every algorithm's colour is there."""
    from matplotlib.colors import to_rgb
    from matplotlib.image import imread

    from gapmf.reproduce.results import COLOURS

    picture = imread(quick.folder / "fig3b.png")[:, :, :3]
    for colour in COLOURS.values():
        near = np.abs(picture - np.array(to_rgb(colour))).max(axis=2) < 0.05
        assert near.sum() > 100
