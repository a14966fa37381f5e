"""The figures of the paper, and some that it could not draw: `gapmf reproduce`.

A figure is an `Experiment`: two configurations, a function that computes the numbers and one that
draws them. Finished results are cached, so that an interrupted command can be run again.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from gapmf.errors import InvalidInputError
from gapmf.reproduce.cache import NotFinishedError, ResultCache, warm_up
from gapmf.reproduce.fig1 import FIG1
from gapmf.reproduce.fig4 import FIG4
from gapmf.reproduce.overfit import OVERFIT
from gapmf.reproduce.race import RACE
from gapmf.reproduce.rates import RATES
from gapmf.reproduce.results import Experiment, Options, Outcome, styled, write_outcome
from gapmf.reproduce.spare import SPARE
from gapmf.reproduce.synthetic import FIG2, FIG3A, FIG3B

FIGURES: dict[str, Experiment] = {
    "fig1": FIG1,
    "fig2": FIG2,
    "fig3a": FIG3A,
    "fig3b": FIG3B,
    "fig4": FIG4,
    "rates": RATES,
    "race": RACE,
    "spare": SPARE,
    "overfit": OVERFIT,
}

__all__ = ["FIGURES", "Options", "Outcome", "ResultCache", "reproduce"]


def reproduce(
    name: str,
    folder: Path,
    options: Options,
    *,
    quick: bool = False,
    cache: ResultCache | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Make one figure: NAME.png, .svg, .csv and .json in `folder`."""
    figure = FIGURES[name]
    cache = ResultCache(folder / "results") if cache is None else cache
    with styled(), warnings.catch_warnings():
        # Short runs do not converge. Set here, once: filters are shared by all threads.
        warnings.simplefilter("ignore", ConvergenceWarning)
        if not options.finished_only:
            warm_up()
        cache.cpu_seconds, cache.n_missing, cache.n_begun = 0.0, 0, 0
        begin = time.perf_counter()
        cache.finished_only = options.finished_only
        try:
            outcome = figure.run(figure.quick if quick else figure.full, options, cache)
        except NotFinishedError as error:
            raise InvalidInputError(
                f"{name} cannot be made from finished results only, because {error} is missing: "
                "leave out --finished-only"
            ) from error
        drawn = figure.draw(outcome)
        form = " (quick form)" if quick else ""
        drawn.suptitle(f"{name}: {figure.title}{form}", x=0.01, ha="left", fontsize=10)
        write_outcome(outcome, drawn, name, folder, cache)
        seconds = time.perf_counter() - begin
    report(f"{name}: {figure.title}, {seconds:.0f} s; in {folder / name}.png, .svg, .csv, .json")
    return outcome
