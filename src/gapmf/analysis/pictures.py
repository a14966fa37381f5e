"""What the pictures of this package share: colours, new figures, plain axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gapmf.errors import InvalidInputError

INK, QUIET, COLOUR, FLAGGED = "#22262b", "#7b838c", "#3b6fb6", "#c8553d"


def check_axes(axes: Any, n: int, size: tuple[float, float]) -> list[Any]:
    """Return n Matplotlib axes: those that are given, or new ones in a row."""
    if axes is None:
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("pictures need Matplotlib: pip install 'gapmf[plot]'") from error
        axes = Figure(figsize=size, layout="constrained").subplots(1, n)
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
    ax.spines[["top", "right"]].set_visible(False)
