"""Which cells are run, in less than 90 minutes on two idle cores.

The limits say how many CPU seconds a fit may use before it is told to stop. The runner runs two
one-thread cells side by side; those with two threads come last, alone. docs/comparison.md says what
the plan costs, as measured.
"""

from __future__ import annotations

from peers.cell import Cell
from peers.ranks import RECIPES
from peers.registry import PEERS

NIPS_LIMIT = {10: 60.0, 20: 90.0, 50: 180.0, 200: 240.0}  # CPU seconds of a fit
OTHER_LIMIT = 60.0
GRID = {
    "digits": (10, 20),
    "small counts": (10, 20),
    "large counts": (10,),
    "cells": (10,),
    "bursty": (10,),
}
FIRST, PAPER, HDP, CNMF = (
    "gapmf, for prediction", "gapmf, paper's protocol", "HDP, tomotopy", "cNMF"
)  # fmt: skip
ALL_SEEDS = ("gapmf, for prediction", "gapmf, default", "LDA, tomotopy η = 0.1")
TWICE = ("LDA, tomotopy", "Poisson MF, poismf")  # the same code is timed with another prior
QUICK_PEERS = ("gapmf, for prediction", "KL-NMF, scikit-learn")
RANK_SEEDS = 5
RANK_CASES = (("usual", 5), ("usual", 10), ("overlapping", 5), ("50 counts", 5))


def nips_cells() -> list[Cell]:
    """NIPS: three seeds at K = 10 and 20; one above, but for the peers that come closest."""
    cells = []
    for K, limit in NIPS_LIMIT.items():
        for peer in PEERS:
            if peer in (PAPER, HDP) and K not in (10, 20):
                continue  # the limit would leave the first a few iterations; HDP has its own K
            if peer == CNMF and K != 20:
                continue
            if peer in (PAPER, CNMF, HDP):
                seeds = 1
            elif K in (10, 20) or (K == 50 and peer in ALL_SEEDS):
                seeds = 3
            else:
                seeds = 1
            cells += [Cell("nips", K, peer, seed, limit=limit) for seed in range(seeds)]
    return cells


def other_cells() -> list[Cell]:
    """All other data sets: three seeds."""
    return [
        Cell(data, K, peer, seed, limit=OTHER_LIMIT)
        for data, ranks in GRID.items()
        for K in ranks
        for peer in PEERS
        for seed in range(1 if peer in (PAPER, CNMF) else 3)
    ]


def rank_cells() -> list[Cell]:
    """Each recipe on some data sets per case."""
    return [
        Cell(case, K, recipe, seed, kind="rank", limit=120.0)
        for case, K in RANK_CASES
        for recipe in RECIPES
        for seed in range(RANK_SEEDS)
    ]


def thread_cells() -> list[Cell]:
    """NIPS with two threads, K = 20, for all that have threads."""
    return [
        Cell("nips", 20, peer.name, 0, threads=2, limit=NIPS_LIMIT[20])
        for peer in PEERS.values()
        if peer.has_threads and peer.name not in (PAPER, HDP, *TWICE)
    ]


def growth_cells() -> list[Cell]:
    """Growth with N: a quarter and half of the NIPS papers, K = 20."""
    return [
        Cell(data, 20, peer, 0, limit=OTHER_LIMIT)
        for data in ("a quarter of nips", "half of nips")
        for peer in PEERS
        if peer not in (PAPER, HDP, CNMF)
    ]


def full() -> list[Cell]:
    """The plan of `make bench`, one-thread cells first, seed 0 first."""
    one = [*nips_cells(), *other_cells(), *rank_cells(), *growth_cells()]
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
