"""Small grey pictures: as blocks of text, and as one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapmf.errors import InvalidInputError
from gapmf.files import check_folder, replace_file

SUFFIXES = (".png", ".pdf", ".svg")
SHADES = " ░▒▓█"
_GAP = 3


def blocks(pictures: NDArray[np.float64], titles: Sequence[str], width: int) -> str:
    """Pictures (M, height, width) side by side, two characters a pixel, with their titles."""
    across = 2 * pictures.shape[2]
    per_row = max((width + _GAP) // (across + _GAP), 1)
    lines = []
    for first in range(0, len(pictures), per_row):
        some = range(first, min(first + per_row, len(pictures)))
        gap = " " * _GAP
        lines.append(gap.join(titles[m].center(across)[:across] for m in some).rstrip())
        rows = [_shaded(pictures[m]) for m in some]
        lines += [gap.join(row).rstrip() for row in zip(*rows, strict=True)]
        lines.append("")
    return "\n".join(lines)


def _shaded(picture: NDArray[np.float64]) -> list[str]:
    top = picture.max() or 1.0
    level = np.minimum((picture / top * len(SHADES)).astype(int), len(SHADES) - 1)
    return ["".join(SHADES[value] * 2 for value in row) for row in level]


def check_picture(path: Path) -> None:
    """Refuse a file that cannot be drawn to, before the work is done."""
    if path.suffix not in SUFFIXES:
        raise InvalidInputError(f"{path}: the picture must end in {', '.join(SUFFIXES)}")
    check_folder(path)


def draw(pictures: NDArray[np.float64], titles: Sequence[str], path: Path) -> bool:
    """The same to a file, by its suffix; False if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    per_row = min(6, len(pictures))
    n_rows = -(-len(pictures) // per_row)
    figure = Figure(figsize=(1.25 * per_row, 1.5 * n_rows), layout="constrained")
    axes: Any = figure.subplots(n_rows, per_row, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for picture, title, ax in zip(pictures, titles, axes.flat, strict=False):
        ax.imshow(picture, cmap="magma", interpolation="nearest")
        ax.set_title(title, fontsize=9)
    replace_file(path, lambda temporary: figure.savefig(temporary, dpi=150))
    return True
