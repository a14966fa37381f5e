"""What the pictures show of the committed results."""

from pathlib import Path

import numpy as np
import pytest
from figure_files import Made

from gapmf.reproduce import FIGURES, Outcome

made = Made(Path(__file__).parents[2] / "docs" / "figures")


def drawn(name, *more):
    curves = made.table(name)
    if "alpha_learned" in curves:
        curves["alpha_learned"] = curves["alpha_learned"] == "True"
    tables = {part: made.table(f"{name}-{part}") for part in more}
    return FIGURES[name].draw(Outcome({}, curves, made.findings(name), tables))


def _labels(figure):
    return {text.get_text() for legend in figure.legends for text in legend.get_texts()}


def test_fig4_shows_the_last_point_of_the_best_run():
    _, right = drawn("fig4", "likelihood").axes
    shown = np.concatenate([line.get_ydata() for line in right.lines])
    assert len(shown) == len(made.table("fig4-likelihood")["iteration"])
    assert shown.min() > 0.005 * np.ptp(shown)
    low, high = right.get_ylim()
    assert low < shown.min() < shown.max() < high
    markers = {line.get_color(): line.get_markerfacecolor() for line in right.lines}
    assert list(markers.values()).count("none") == 1  # MCEM-CH, around MCEM-C


def test_race_has_a_close_up_of_the_ends():
    figure = drawn("race")
    above, learned_above, below, learned_below = figure.axes
    for a, b in ((above, learned_above), (below, learned_below)):
        assert a.get_ylim() == b.get_ylim()
        assert a.get_xlim() == b.get_xlim()
    low, high = below.get_ylim()
    assert high - low < 0.06
    for run in made.findings("race")["runs"]:
        assert low < run["log_likelihood"] < high
        assert below.get_xlim()[0] < run["cpu_seconds"] < below.get_xlim()[1]


@pytest.mark.parametrize(
    ("name", "more", "labels"),
    [
        ("overfit", ("shares",), {"all columns alike", "band: smallest to largest value"}),
        ("spare", (), {"one data set", "their median", "BIC's price"}),
    ],
)
def test_legends_name_what_is_drawn(name, more, labels):
    assert labels <= _labels(drawn(name, *more))
