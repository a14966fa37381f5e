"""An experiment, its results in files, and the style of figures.

Results are numbers as CSV, settings and findings as JSON, and pictures. The colours of the
algorithms are those of the paper.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from gapmf.reproduce.cache import ResultCache
from gapmf.storage import write_atomically
from gapmf.storage.output import Columns, to_csv, to_json, write_text

COLOURS = {"mcem-c": "#d62728", "mcem-h": "#2a9d3a", "mcem-ch": "#1f5fbf"}
LABELS = {"mcem-c": "MCEM-C", "mcem-h": "MCEM-H", "mcem-ch": "MCEM-CH"}
INK = "#222222"
DASHED: dict[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": (0, (4, 3))}

_RC: dict[Any, Any] = {
    "font.size": 10.0,
    "axes.labelsize": 10.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "legend.frameon": True,
    "legend.framealpha": 0.85,
    "legend.edgecolor": "none",
    "legend.fontsize": 9.0,
    "lines.linewidth": 1.3,
    "svg.fonttype": "none",
    "svg.hashsalt": "gapmf",
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw and save figures inside this context."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'gapmf[plot]'") from error
    with matplotlib.rc_context(_RC):
        yield


def new_figure(n_panels: int, width: float = 9.2, height: float = 3.7) -> tuple[Any, Any]:
    """Return a figure (sizes in inches), and axes side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, n_panels, squeeze=False)[0]


def plot_runs(ax: Any, algorithm: Any, x: Any, y: Any, **style: Any) -> None:
    """Draw y against x, in the colour of each algorithm; `algorithm` has that of each row."""
    for name in [a for a in ("mcem-h", "mcem-ch", "mcem-c") if a in algorithm]:
        mine = algorithm == name
        lines = ax.plot(x[mine], y[mine], color=COLOURS[name], **style)
        lines[0].set_label(LABELS[name])


def plot_bands(ax: Any, bands: Any, column: str) -> None:
    """Draw the median of a column against iterations, in a band from quartile to quartile."""
    for name in [a for a in ("mcem-h", "mcem-ch", "mcem-c") if a in bands["algorithm"]]:
        mine = bands["algorithm"] == name
        x, low, middle, high = (
            bands[key][mine]
            for key in ("iteration", *(f"{column}_{part}" for part in ("low", "median", "high")))
        )
        ax.fill_between(x, low, high, color=COLOURS[name], alpha=0.18, linewidth=0)
        ax.plot(x, middle, color=COLOURS[name])


def with_legend(figure: Any) -> Any:
    """Put one legend, of what all panels show, below them: it covers no curve."""
    handles: dict[str, Any] = {}
    for ax in figure.axes:
        handles |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=max(len(handles), 1),
    )
    return figure


def quantiles(values: Any) -> list[float | None]:
    """Return minimum, quartiles and maximum; None for infinite ones.

    A quantile is one of the values, or the mean of two neighbours where it lies between them, as
    the median of ten. (NumPy would subtract infinite values, of runs that never came near.)
    """
    x = np.sort(np.asarray(values, dtype=float))
    places = np.arange(5) * x.size / 4
    low = x[np.maximum(np.ceil(places).astype(int) - 1, 0)]
    high = x[np.minimum(np.floor(places).astype(int), x.size - 1)]
    return [float(q) if np.isfinite(q) else None for q in 0.5 * (low + high)]


@dataclass(frozen=True)
class Options:
    """Options of the user.

    `data` has the NIPS counts, and `max_iter` is for fig1 to fig4. With `finished_only`, a figure
    is made from the results that have been computed already.
    """

    seed: int = 0
    data: Path | None = None
    max_iter: int | None = None
    finished_only: bool = False

    def n_iter(self, full: int) -> int:
        """Return the number of iterations of a run that has `full` by its protocol."""
        return full if self.max_iter is None else min(full, self.max_iter)


@dataclass(frozen=True)
class Experiment:
    """A figure: how its numbers are computed, in full and in a few seconds, and drawn."""

    title: str
    full: Any
    quick: Any
    run: Callable[[Any, Options, ResultCache], Outcome]
    draw: Callable[[Outcome], Any]
    needs_nips: bool = False


@dataclass(frozen=True)
class Outcome:
    """The numbers of an experiment.

    `curves` is what is drawn, one row per point; `findings` is what is compared with the paper;
    `more` has other tables, by name.
    """

    settings: dict[str, Any]
    curves: dict[str, Any]
    findings: dict[str, Any]
    more: dict[str, dict[str, Any]] = field(default_factory=dict)


def write_outcome(
    outcome: Outcome, figure: Any, name: str, folder: Path, cache: ResultCache
) -> None:
    """Write NAME.csv, NAME.json, NAME.png and NAME.svg to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {name: outcome.curves} | {f"{name}-{k}": v for k, v in outcome.more.items()}
    for stem, columns in tables.items():
        write_text(to_csv(_rounded(columns)), folder / f"{stem}.csv")
    packages = {package: version(package) for package in ("gapmf", "numpy", "scipy", "numba")}
    content = {
        "figure": name,
        "settings": outcome.settings,
        "findings": outcome.findings,
        "cpu_seconds": round(cache.cpu_seconds, 1),
        "results_missing": cache.n_missing,
        "versions": {"python": platform.python_version(), **packages},
        "made": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    write_text(to_json(content), folder / f"{name}.json")
    for suffix in (".png", ".svg"):
        write_atomically(folder / f"{name}{suffix}", lambda path: figure.savefig(path, dpi=150))


def _rounded(columns: Columns) -> Columns:
    """Format numbers with seven digits, and NaN as an empty cell."""

    def cell(value: Any) -> Any:
        if isinstance(value, (float, np.floating)):
            return "" if np.isnan(value) else f"{value:.7g}"
        return value

    return {name: [cell(value) for value in values] for name, values in columns.items()}
