"""Draw docs/images/topics.png: components of the NIPS papers, as the README shows them.

gapmf fit docword.nips.txt.gz -k 20 -o nips.gapmf
python docs/images/topics.py nips.gapmf
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gapmf import GammaPoissonMF

SHOWN = (13, 9, 7, 3, 4, 12, 0, 17)  # components of the fit with seed 0
N_WORDS = 7
COLOURS = ("#3b6fb6", "#c8553d", "#2a8c82", "#8a5a9e", "#d18f1f", "#54763a", "#a83f6f", "#5b6770")
INK, QUIET = "#22262b", "#7b838c"


def draw(path: Path) -> Figure:
    """One panel per component: its share of the counts, and its most distinctive words."""
    est = GammaPoissonMF.load(path)
    tops, shares = est.top_features(N_WORDS), est.model_.shares
    figure = Figure(figsize=(9.6, 4.5), dpi=110, layout="constrained")
    axes = figure.subplots(2, 4)
    widest = max(weight for k in SHOWN for _, weight in tops[k])
    for ax, k, colour in zip(axes.flat, SHOWN, COLOURS, strict=True):
        words, weights = zip(*tops[k], strict=True)
        places = np.arange(N_WORDS)
        ax.barh(places, weights, height=0.16, color=colour, align="edge")
        for y, word, weight in zip(places, words, weights, strict=True):
            ax.text(0.0, y - 0.1, word, va="bottom", fontsize=9.5, color=INK)
            ax.text(
                widest, y - 0.1, f"{weight:.1%}", va="bottom", ha="right", fontsize=8, color=QUIET
            )
        ax.set_title(f"{shares[k]:.1%} of all words", fontsize=9.5, color=colour, loc="left")
        ax.set_xlim(0.0, widest)
        ax.set_ylim(N_WORDS - 0.7, -0.85)
        ax.set_axis_off()
    figure.get_layout_engine().set(wspace=0.09, hspace=0.06, w_pad=0.12, h_pad=0.08)
    return figure


if __name__ == "__main__":
    draw(Path(sys.argv[1])).savefig(Path(__file__).with_suffix(".png"))
