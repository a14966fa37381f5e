"""Draw docs/images/topics.png: components of the NIPS papers, as the README shows them.

gapmf fit docword.nips.txt.gz -k 20 -o nips.gapmf
python docs/images/topics.py nips.gapmf
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure

from gapmf import GammaPoissonMF, plot

SHOWN = (13, 9, 7, 3, 4, 12, 0, 17)  # components of the fit with seed 0


def draw(path: Path) -> Figure:
    """One panel per component: its share of the counts, and its most distinctive words."""
    figure = Figure(figsize=(9.6, 4.5), dpi=110, layout="constrained")
    figure.get_layout_engine().set(wspace=0.09, hspace=0.06, w_pad=0.12, h_pad=0.08)
    axes = figure.subplots(2, 4)
    plot.components(GammaPoissonMF.load(path), n_features=7, which=SHOWN, axes=axes)
    return figure


if __name__ == "__main__":
    draw(Path(sys.argv[1])).savefig(Path(__file__).with_suffix(".png"))
