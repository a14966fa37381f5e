"""Which cells are run.

The limits say how many CPU seconds a fit may use before it is told to stop. The runner runs two
one-thread cells side by side; those with two threads come last, alone. docs/comparison.md says what
the plan is estimated to cost.
"""

from __future__ import annotations

from peers.cell import Cell
from peers.ranks import RECIPES
from peers.registry import PEERS

NIPS_LIMIT = {10: 40.0, 20: 60.0, 50: 100.0, 200: 150.0}  # CPU seconds of a fit
OTHER_LIMIT = 20.0
GRID = {
    "digits": (10,),
    "small counts": (10,),
    "large counts": (10,),
    "cells": (10,),
    "bursty": (10,),
}
FIRST, PAPER, HDP, CNMF = (
    "gapmf, for prediction", "gapmf, paper's protocol", "HDP, tomotopy", "cNMF"
)  # fmt: skip
# Three seeds at most; the others are slower, or far from the best, and have one.
# KL-NMF begins with NNDSVDa, which leaves next to nothing to the seed.
THREE_SEEDS = ("gapmf, for prediction", "gapmf, default", "LDA, tomotopy η = 0.1")
CLOSEST = ("gapmf, for prediction", "LDA, tomotopy η = 0.1")  # three seeds also at K = 50
TWICE = ("LDA, tomotopy", "Poisson MF, poismf")  # the same code with another prior
AT_50 = (
    *THREE_SEEDS,
    "KL-NMF, scikit-learn",
    "LDA, scikit-learn batch",
    "LDA, gensim",
    "HPF, hpfrec",
)
AT_200 = (*THREE_SEEDS, "KL-NMF, scikit-learn", "LDA, scikit-learn batch", "LDA, gensim")
QUICK_PEERS = ("gapmf, for prediction", "KL-NMF, scikit-learn")
SLOW_RECIPES = ("LDA scikit-learn, perplexity", "LDA gensim, coherence")
RANK_SEEDS = 5
RANK_CASES = (("usual", 5), ("usual", 10), ("overlapping", 5), ("few counts", 5))


def n_seeds(peer: str, data: str, K: int) -> int:
    """Return how many seeds a peer gets, 0 if it is left out."""
    if peer == CNMF:  # it cannot be stopped, and is made for cells
        return int(data == "cells")
    if data != "nips":
        return 3 if peer in THREE_SEEDS else int(peer != PAPER)
    if peer == PAPER:
        return int(K == 10)  # the limit would leave it a few iterations above
    if peer == HDP:
        return int(K == 20)  # it has a K of its own
    if K == 200:
        return int(peer in AT_200)
    if K == 50:
        return 3 if peer in CLOSEST else int(peer in AT_50)
    return 3 if peer in THREE_SEEDS else 1


def fit_cells() -> list[Cell]:
    """All data sets, with one thread."""
    settings = [("nips", K, limit) for K, limit in NIPS_LIMIT.items()]
    settings += [(data, K, OTHER_LIMIT) for data, ranks in GRID.items() for K in ranks]
    return [
        Cell(data, K, peer, seed, limit=limit)
        for data, K, limit in settings
        for peer in PEERS
        for seed in range(n_seeds(peer, data, K))
    ]


def rank_cells() -> list[Cell]:
    """Each recipe on some data sets per case; slow ones on three of the first case."""
    return [
        Cell(case, K, recipe, seed, kind="rank", limit=120.0)
        for case, K in RANK_CASES
        for recipe in RECIPES
        for seed in range(RANK_SEEDS)
        if recipe not in SLOW_RECIPES or ((case, K) == RANK_CASES[0] and seed < 3)
    ]


def thread_cells() -> list[Cell]:
    """NIPS with two threads, K = 20, for all that have threads."""
    return [
        Cell("nips", 20, peer.name, 0, threads=2, limit=NIPS_LIMIT[20])
        for peer in PEERS.values()
        if peer.has_threads and peer.name not in (PAPER, HDP, *TWICE)
    ]


def growth_cells() -> list[Cell]:
    """Growth with N: a quarter of the NIPS papers, K = 20."""
    return [Cell("a quarter of nips", 20, peer, 0, limit=OTHER_LIMIT) for peer in AT_200]


def full() -> list[Cell]:
    """The plan of `make bench`, one-thread cells first, seed 0 first."""
    one = [*fit_cells(), *rank_cells(), *growth_cells()]
    one.sort(key=lambda cell: cell.seed)  # stable: an interrupted run has all of seed 0 first
    return one + thread_cells()


def quick() -> list[Cell]:
    """Everything once, in small form: all peers on NIPS, the other data with two, all recipes."""
    cells = [
        Cell(data, 5, peer, 0, limit=1.0, quick=True)
        for data in ("nips", *GRID)
        for peer in PEERS
        if peer != CNMF and (data == "nips" or peer in QUICK_PEERS)
    ]
    cells += [Cell("cells", 5, CNMF, 0, limit=1.0, quick=True)]
    cells += [Cell("usual", 5, recipe, 0, kind="rank", quick=True, limit=5.0) for recipe in RECIPES]
    return [*cells, Cell("nips", 5, FIRST, 0, threads=2, limit=1.0, quick=True)]
