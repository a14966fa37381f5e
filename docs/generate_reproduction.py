"""Generate docs/reproduction.md and docs/spare-column.md from the results in docs/figures.

    python docs/generate_reproduction.py

Every number on these pages that belongs to one of our experiments comes from a file. A test fails
when pages and files differ; others compare what is claimed with the files.
"""

from __future__ import annotations

from pathlib import Path

from reproduction_pages.beyond import rates, spare, spare_column
from reproduction_pages.fig4 import fig4
from reproduction_pages.overfit import overfit
from reproduction_pages.race import race
from reproduction_pages.synthetic import fig1, fig2, fig3a, fig3b
from reproduction_pages.words import wrapped

INTRODUCTION = (
    "# The paper's figures, and ours beside them",
    "Filstroff, Lumbreras and Févotte, ICML 2018. One command makes one figure, from a seed. `--quick` makes a short version in a "
    "few seconds; the tests run it. The results on this page are those of the full protocol, and where something was not run in "
    "full, the page says what was. PNG, CSV and JSON are in `docs/figures/`, with settings, seeds, versions and CPU times. Finished "
    "results are kept in `DIR/results`: run the same command again to continue after an interruption, or with `--finished-only` to "
    "see what there is. Times are CPU seconds of one thread of a slow two-core machine. Their ratios mean more, but a single one may be off by half. Kernels are "
    "compiled before the clock starts, and likelihoods are computed outside it.",
    "The paper's synthetic data sets are not published, so ours are drawn from its parameters: the first data set is shown as the paper "
    "shows its only one, and others, with chains of their own, tell what is true in general. Data and fits have different seeds. A "
    "median of an even number of values is the mean of the two in the middle; quartiles are values, or means of two. What the paper "
    "says is quoted, or told in its words; everything under **Here** is ours.",
    "This page is generated from the files by `docs/generate_reproduction.py`: do not edit it.",
)


def reproduction() -> str:
    """Return the page of all figures."""
    sections = (fig1, fig2, fig3a, fig3b, fig4, rates, race, spare, overfit)
    parts = [*(wrapped(part) for part in INTRODUCTION), *(make() for make in sections)]
    return "\n\n".join(parts) + "\n"


PAGES = {"reproduction.md": reproduction, "spare-column.md": spare_column}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (Path(__file__).parent / page).write_text(make(), encoding="utf-8")
