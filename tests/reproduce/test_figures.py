"""The numbers of every figure against what the paper says, at small sizes. Seeds are fixed."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from figure_files import NEED_DATA

from gapmf import GaP, log_marginal_likelihood
from gapmf.datasets import paper_model, paper_synthetic
from gapmf.reproduce import FIGURES, fig1
from gapmf.reproduce.cache import ALGORITHMS


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_leaves_its_four_files(quick, name):
    if name in NEED_DATA and not (quick.folder / f"{name}.json").exists():
        pytest.skip("needs the NIPS counts: set GAPMF_NIPS_DIR")
    head = json.loads((quick.folder / f"{name}.json").read_text())
    assert head["settings"]["seed"] == 0
    assert head["results_missing"] == 0
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
    runs = quick.table("fig1-runs")
    line = runs["distance_from_the_line"]
    assert (line[runs["algorithm"] == "mcem-c"] < 1e-12).all()
    assert (line[runs["algorithm"] != "mcem-c"] > 0.02).all()
    assert len(set(runs["data_seed"])) == len(set(runs["chain_seed"])) == 2
    assert not set(runs["data_seed"]) & set(runs["chain_seed"])


@pytest.mark.parametrize(
    "name", ["fig1-runs", "fig2-runs", "fig3b-runs", "rates", "spare", "overfit"]
)
def test_data_and_fits_have_different_seeds(quick, name):
    """With one seed for both, the start of a fit comes from the draws that made the data."""
    if not (quick.folder / f"{name}.csv").exists():
        pytest.skip("needs the NIPS counts: set GAPMF_NIPS_DIR")
    table = quick.table(name)
    other = "chain_seed" if name.endswith("-runs") else "fit_seed"
    assert not set(table["data_seed"]) & set(table[other])


@pytest.mark.parametrize("w", [(8.2, 1.04), (3.0, 3.0), (0.0, 9.0), (5.0, 1e-3)])
def test_fig1_contours_are_the_exact_cost(w):
    X = fig1.counts((8.0, 1.0), 300, 0)
    exact = -log_marginal_likelihood(X, GaP([w])).total
    assert fig1.costs(X, *w) == pytest.approx(exact, rel=1e-12)
    assert fig1.costs(X, *(np.full((2, 3), x) for x in w)) == pytest.approx(exact, rel=1e-12)


def test_fig2_the_three_algorithms_meet(quick):
    findings, table, runs = (quick.findings("fig2"), quick.table("fig2"), quick.table("fig2-runs"))
    for name in ALGORITHMS:
        mine = table["cost"][table["algorithm"] == name]
        assert mine[0] - findings["smallest_cost"] > 0.9
        ends = runs["excess_at_the_end"][runs["algorithm"] == name]
        assert len(ends) == 3  # two data sets, and one more chain on the first
        assert (ends > -1e-6).all()
        assert (ends < 0.8).all()
    for seeds in ("over_data_sets", "over_chains"):
        assert {findings[seeds][name]["runs"] for name in ALGORITHMS} == {2}


def test_fig2_and_fig3a_are_the_same_runs(quick):
    assert (quick.folder / "fig2.csv").read_text() == (quick.folder / "fig3a.csv").read_text()
    table = quick.table("fig3a")
    total = paper_synthetic(1.0, random_state=0)[0].mean(axis=0).sum()
    mine = table["algorithm"] == "mcem-c"
    norms = sum(table[f"norm_{k}"][mine] for k in (1, 2, 3))
    np.testing.assert_allclose(norms, total, rtol=1e-6)


def test_fig3b_mcem_c_is_far_ahead_on_v2(quick):
    runs = quick.table("fig3b-runs")
    of = {name: runs["algorithm"] == name for name in ALGORITHMS}
    excess = {name: runs["excess_at_the_end"][mine] for name, mine in of.items()}
    assert (excess["mcem-c"] > -1e-6).all()
    assert (excess["mcem-c"] < 1.0).all()
    smallest = {name: runs["norm_3"][mine] for name, mine in of.items()}
    for name in ("mcem-h", "mcem-ch"):
        assert (excess[name] > 5 * excess["mcem-c"]).all()
        assert (smallest["mcem-c"] < 0.3 * smallest[name]).all()
        assert np.isnan(runs["iterations_until_near"][of[name]]).all()
    bands = quick.table("fig3b-bands")
    assert (bands["excess_low"] <= bands["excess_high"]).all()


def test_fig4_mcem_c_is_ahead_on_nips(with_nips):
    table, findings = with_nips.table("fig4-likelihood"), with_nips.findings("fig4")
    last = (table["seed"] == 0) & (table["iteration"] == 25)
    values = dict(zip(table["algorithm"][last], table["log_likelihood"][last], strict=True))
    assert values["mcem-c"] > values["mcem-ch"] + 20.0
    assert [run["iterations"] for run in findings["runs"]] == [25, 25, 5, 5, 5, 5]
    assert [run["seed"] for run in findings["runs"]] == [0, 0, 0, 1, 1, 1]
    assert findings["documents"] == 100
    assert findings["words_never"] == 0


def test_rates_em_ch_is_held_back_by_over_dispersion_and_em_c_is_not(quick):
    table = quick.table("rates")
    assert (table["em_ch"] >= table["rho"] - 1e-4).all()
    assert (table["em_c"] <= table["em_ch"] + 1e-4).all()
    ratio = table["em_ch_per_digit"] / table["em_c_per_digit"]
    large = table["scale"] == 1e3
    over_dispersed = large & (table["alpha"] <= 1.0)
    assert (ratio[over_dispersed] > 5).all()
    assert (ratio[~large] < 1.5).all()
    assert (ratio[large & (table["alpha"] == 10.0)] < 2).all()  # the same expected counts
    for name in ("em_c", "em_ch"):  # 300 iterations do not quite leave the slowest direction
        np.testing.assert_allclose(table[name], table[f"{name}_seen"], atol=0.015)


def test_the_sizes_of_a_component_have_the_fano_factor_of_rho():
    """Var[L]/E[L] = 1/(1 − ρ), from draws of the model: ρ is over-dispersion."""
    for alpha, scale in ((0.3, 20.0), (3.0, 2.0)):
        model = GaP(paper_model(scale).W, alpha)
        _, latent = model.sample(200_000, random_state=0, return_latent=True)
        L = latent.L
        rho = model.column_norms / (model.column_norms + model.beta)
        np.testing.assert_allclose(1.0 - L.mean(axis=0) / L.var(axis=0), rho, atol=0.02)


def test_race_our_schedules_are_ahead_of_the_papers(with_nips):
    runs = with_nips.findings("race")["runs"]
    assert len(runs) == 2 * 4
    for learned in (False, True):
        by = {run["contender"]: run for run in runs if run["alpha_learned"] == learned}
        theirs = by["the paper's"]
        for ours in ("adaptive (default)", "SAEM, γ restarted"):
            assert by[ours]["log_likelihood"] > theirs["log_likelihood"] + 0.01
            assert by[ours]["sweeps"] < theirs["sweeps"]


def test_spare_columns_are_small_and_worth_nothing(quick):
    table, findings = quick.table("spare"), quick.findings("spare")
    assert (table["gain"] > -1e-6).all()
    assert (table["converged"] == "True").all()
    one = table["n_spare"] == 1
    above = table["max_r"] > 1.0
    assert (table["exactly_zero"][one & ~above] == 1).all()
    assert above.any()
    for cell in findings["cells"]:
        assert cell["gain"][-1] < cell["bic_price"]
        assert cell["data_sets"] == 2
    small, large, two = findings["cells"]
    assert large["share"][2] < small["share"][2] < two["share"][2]
    assert two["bic_price"] == 2 * small["bic_price"]


def test_overfit_joint_likelihood_uses_all_columns_and_predicts_worse(with_nips):
    table = with_nips.table("overfit")
    mine = (table["data"] == "simulated") & (table["factor"] == 2)
    of = {name: mine & (table["method"] == name) for name in ("mcem-c", "vbem", "mjle", "kl-nmf")}
    for joint in ("mjle", "kl-nmf"):
        for marginal in ("mcem-c", "vbem"):
            for score in ("held_out", "completion"):
                assert table[score][of[joint]] < table[score][of[marginal]] - 0.005
            fewer = table["effective_columns"][of[marginal]]
            assert fewer + 1.0 < table["effective_columns"][of[joint]]
    shares = with_nips.table("overfit-shares")
    total = sum(shares["share"][(shares["method"] == "mjle") & (shares["data"] == "NIPS")])
    assert total == pytest.approx(2.0)  # one for each number of components


def test_pictures_are_not_blank(quick):
    """Something of every algorithm's colour is there."""
    from matplotlib.colors import to_rgb
    from matplotlib.image import imread

    from gapmf.reproduce.results import COLOURS

    picture = imread(quick.folder / "fig3b.png")[:, :, :3]
    for colour in COLOURS.values():
        near = np.abs(picture - np.array(to_rgb(colour))).max(axis=2) < 0.05
        assert near.sum() > 100
