"""How the figures look. Colours of the algorithms are the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
