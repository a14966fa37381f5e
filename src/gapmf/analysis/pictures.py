"""The look of pictures, and axes to draw on."""

from __future__ import annotations

from typing import Any

import numpy as np

from gapmf.errors import InvalidInputError

INK, QUIET, COLOUR, FLAGGED = "#22262b", "#7b838c", "#3b6fb6", "#c8553d"
MINUS = "\N{MINUS SIGN}"


def check_axes(axes: Any, n: int, size: tuple[float, float]) -> list[Any]:
    """Return n Matplotlib axes: those that are given, or new ones in a row."""
    if axes is None:
        axes = new_figure(*size).subplots(1, n)
    found = list(np.ravel(axes))
    if len(found) != n or not all(hasattr(ax, "plot") for ax in found):
        raise InvalidInputError(
            f"axes must be {n} Matplotlib axes, or None for a new figure, but is {axes!r}"
        )
    return found


def tidy(ax: Any, x: str, y: str, title: str) -> None:
    """Name the axes, and leave out the frame."""
    ax.set_xlabel(x, color=INK)
    ax.set_ylabel(y, color=INK)
    ax.set_title(title, color=INK, fontsize=10)
    bare(ax)


def new_figure(width: float, height: float) -> Any:
    """Return a figure that no window shows, for files; sizes in inches."""
    return _matplotlib("figure").Figure(figsize=(width, height), layout="constrained")


def get_axes(ax: Any, width: float = 6.4, height: float = 4.0) -> Any:
    """Return the axes that were given, or those of a new figure of pyplot."""
    if ax is not None:
        return ax
    plt = _matplotlib("pyplot")
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def get_panels(axes: Any, n: int, n_columns: int, width: float, height: float) -> list[Any]:
    """Return n axes: those that were given, or panels of a new figure, each so large."""
    if axes is None:
        plt = _matplotlib("pyplot")
        n_columns = min(n, n_columns)
        n_rows = -(-n // n_columns)
        size = (width * n_columns, height * n_rows)
        figure = plt.figure(figsize=size, layout="constrained")
        figure.get_layout_engine().set(wspace=0.08)
        axes = figure.subplots(n_rows, n_columns, squeeze=False)
    flat = list(axes.flat) if hasattr(axes, "flat") else list(axes)
    if len(flat) < n:
        raise InvalidInputError(f"axes are {len(flat)}, but {n} are needed, one per component")
    for spare in flat[n:]:
        spare.set_axis_off()
    return flat[:n]


def bare(ax: Any) -> None:
    """Leave out the frame above and to the right."""
    ax.spines[["top", "right"]].set_visible(False)


def write_number(value: float) -> str:
    """Write a whole number with commas and a minus sign.

    >>> write_number(-1234.0)
    '−1,234'
    """
    return f"{value:,.0f}".replace("-", MINUS)


def beside(ax: Any, text: str, point: Any, place: tuple[int, int], colour: str) -> None:
    """Write beside a point, at so many typographic points from it."""
    ax.annotate(
        text,
        point,
        place,
        textcoords="offset points",
        ha="left" if place[0] > 0 else "right" if place[0] < 0 else "center",
        va="center" if place[1] == 0 else "bottom" if place[1] > 0 else "top",
        color=colour,
        fontsize=9,
    )


def _matplotlib(module: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise ImportError(
            "a picture needs Matplotlib: pip install 'gapmf[plot]', or write a table instead"
        ) from error
