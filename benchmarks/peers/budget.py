"""What a plan costs: measured CPU seconds where there are results, estimates where not.

A cell that was not run is taken to cost what the same peer took with the same data and K and
another seed or number of threads; else what it took with another K, in proportion to K, up to its
limit; else its limit. Start, compilation and judging are in the measured values, and `OVERHEAD`
stands for them in the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean
from typing import Any

from peers.cell import Cell

OVERHEAD = 10.0
WORKERS = 2


def estimate(cell: Cell, measured: dict[Cell, float]) -> float:
    """Return the CPU seconds that a cell takes."""
    if cell in measured:
        return measured[cell]
    alike = [(c, s) for c, s in measured.items() if (c.kind, c.peer) == (cell.kind, cell.peer)]
    same = [s for c, s in alike if (c.data, c.K) == (cell.data, cell.K)]
    if same:
        return mean(same)
    most = cell.limit + OVERHEAD
    near = [min(s * cell.K / c.K, most) for c, s in alike if c.data == cell.data]
    if not near and cell.kind == "rank":
        near = [s * cell.K / c.K for c, s in alike]
    return mean(near) if near else most


def budget(cells: Iterable[Cell], rows: Iterable[dict[str, Any] | None]) -> dict[str, float]:
    """Return measured and estimated CPU seconds, and the minutes on two idle cores."""
    pairs = list(zip(cells, rows, strict=True))
    measured = {
        c: r.get("process_cpu", r["cpu"] + OVERHEAD)
        for c, r in pairs
        if r is not None and "cpu" in r
    }
    costs = {cell: estimate(cell, measured) for cell, _ in pairs}
    side_by_side = sum(s for cell, s in costs.items() if cell.threads == 1) / WORKERS
    alone = sum(s for cell, s in costs.items() if cell.threads > 1)
    return {
        "measured": sum(measured.values()),
        "estimated": sum(s for cell, s in costs.items() if cell not in measured),
        "minutes": (side_by_side + alone) / 60,
    }
