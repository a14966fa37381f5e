"""The paper's experiments, and what it could not draw: `gapmf reproduce`.

Every figure is an `Experiment`: two configurations, a function that makes the numbers and one that
draws them. What takes long is kept in pieces, so that a call that was stopped is gone on with.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from gapmf.reproduce.experiment import Experiment, Order
from gapmf.reproduce.line import FIG1
from gapmf.reproduce.nips import FIG4
from gapmf.reproduce.outcome import Outcome, write_outcome
from gapmf.reproduce.pieces import Workshop
from gapmf.reproduce.race import RACE
from gapmf.reproduce.rates import RATES
from gapmf.reproduce.runs import warm_up
from gapmf.reproduce.spare import SPARE
from gapmf.reproduce.style import styled
from gapmf.reproduce.toy import FIG2, FIG3A, FIG3B

FIGURES: dict[str, Experiment] = {
    "fig1": FIG1,
    "fig2": FIG2,
    "fig3a": FIG3A,
    "fig3b": FIG3B,
    "fig4": FIG4,
    "rates": RATES,
    "race": RACE,
    "spare": SPARE,
}

__all__ = ["FIGURES", "Order", "Outcome", "Workshop", "reproduce"]


def reproduce(
    name: str,
    folder: Path,
    order: Order,
    *,
    quick: bool = False,
    shop: Workshop | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Make one figure: NAME.png, .svg, .csv and .json in `folder`."""
    figure = FIGURES[name]
    shop = Workshop(folder / "pieces") if shop is None else shop
    with styled(), warnings.catch_warnings():
        # Runs are stopped on purpose; here, once, because the filters are those of all threads.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warm_up()
        shop.cpu_seconds, begin = 0.0, time.perf_counter()
        outcome = figure.run(figure.quick if quick else figure.full, order, shop)
        drawn = figure.draw(outcome)
        form = " (quick form)" if quick else ""
        drawn.suptitle(f"{name}: {figure.title}{form}", x=0.01, ha="left", fontsize=10)
        write_outcome(outcome, drawn, name, folder, shop.cpu_seconds)
        seconds = time.perf_counter() - begin
    say(f"{name}: {figure.title}, {seconds:.0f} s; in {folder / name}.png, .svg, .csv, .json")
    return outcome
