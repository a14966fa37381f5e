"""How the figures look. Colours of the algorithms are the paper's.

What an experiment is.

What an experiment leaves: numbers as CSV, settings and findings as JSON, pictures.
"""

from __future__ import annotations

import csv
import io
import json
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

COLOURS = {"mcem-c": "#d62728", "mcem-h": "#2a9d3a", "mcem-ch": "#1f5fbf"}
LABELS = {"mcem-c": "MCEM-C", "mcem-h": "MCEM-H", "mcem-ch": "MCEM-CH"}
INK, QUIET = "#222222", "#8a8a8a"

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
    """Draw and save within."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'gapmf[plot]'") from error
    with matplotlib.rc_context(_RC):
        yield


def new_figure(width: float, height: float, n_rows: int = 1, n_columns: int = 1) -> tuple[Any, Any]:
    """A figure, in inches, and its axes: an array of them, (n_rows, n_columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False)


@dataclass(frozen=True)
class Options:
    """What a user asks for besides the name of a figure."""

    seed: int = 0
    data: Path | None = None
    """A folder with the NIPS counts."""
    until: int | None = None
    """Iterations at most."""


@dataclass(frozen=True)
class Experiment:
    """A figure.

    Attributes
    ----------
    title : str
    full, quick
        Two configurations: the whole protocol, and one of some seconds.
    run : callable
        From a configuration, options and a cache to the numbers.
    draw : callable
        From the numbers to a figure.
    needs_nips : bool
        Whether `Options.data` must have the NIPS counts.
    """

    title: str
    full: Any
    quick: Any
    run: Callable[[Any, Options, ResultCache], Outcome]
    draw: Callable[[Outcome], Any]
    needs_nips: bool = False


Columns = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """The numbers of an experiment."""

    settings: dict[str, Any]
    curves: Columns
    """What is drawn, a row a point; all columns of one length."""
    findings: dict[str, Any]
    """What there is to compare with the paper."""
    more: dict[str, Columns] = field(default_factory=dict)
    """Other tables, by their names."""


def write_outcome(
    outcome: Outcome, figure: Any, name: str, folder: Path, cpu_seconds: float
) -> None:
    """NAME.csv, NAME.json, NAME.png and NAME.svg in `folder`, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {name: outcome.curves} | {f"{name}-{k}": v for k, v in outcome.more.items()}
    for stem, columns in tables.items():
        _write_text(folder / f"{stem}.csv", _as_csv(columns))
    head = {
        "figure": name,
        "settings": outcome.settings,
        "findings": outcome.findings,
        "cpu_seconds": round(cpu_seconds, 1),
        "versions": versions(),
        "made": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    text = json.dumps(head, indent=1, default=_plain, allow_nan=False)
    _write_text(folder / f"{name}.json", text + "\n")
    for suffix in (".png", ".svg"):
        write_atomically(folder / f"{name}{suffix}", lambda path: figure.savefig(path, dpi=150))


def versions() -> dict[str, str]:
    """Of what the numbers depend on."""
    packages = {name: version(name) for name in ("gapmf", "numpy", "scipy", "numba")}
    return {"python": platform.python_version(), **packages}


def _write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


def _as_csv(columns: Columns) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([_short(value) for value in row])
    return out.getvalue()


def _short(value: Any) -> Any:
    """Numbers to seven digits, nothing for nan."""
    if isinstance(value, (float, np.floating)):
        return "" if np.isnan(value) else f"{value:.7g}"
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} in the findings of an experiment")
