"""Pictures of fits, with Matplotlib, which the extra "plot" installs.

Each function takes axes, or makes a figure of its own, and returns the axes that it has drawn on.
"""

from gapmf.plot.component_plots import components, heatmap, similarity, volcano
from gapmf.plot.fit_plots import convergence, rank_report, rank_selection
from gapmf.plot.sample_plots import activations, structure

__all__ = [
    "activations",
    "components",
    "convergence",
    "heatmap",
    "rank_report",
    "rank_selection",
    "similarity",
    "structure",
    "volcano",
]
