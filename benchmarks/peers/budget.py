"""What a plan costs: measured CPU seconds where there are results, estimates where not.

A cell that was not run is taken to cost what the same peer took with the same data and K and
another seed or number of threads; else what its fit took with another K, in proportion to K, up to
its limit; else its limit. Start, compilation, judging and repeated fits come on top: what they took
for the same peer, in proportion to K, and `OVERHEAD` at least.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean
from typing import Any

from peers.cell import Cell

OVERHEAD = 10.0
WORKERS = 2

Measured = dict[Cell, tuple[float, float]]  # CPU seconds of the process, and of its fit


def overhead(cell: Cell, measured: Measured) -> float:
    """Return the CPU seconds of a cell beside its fit."""
    alike = [(c, x) for c, x in measured.items() if (c.kind, c.peer) == (cell.kind, cell.peer)]
    near = [(c, x) for c, x in alike if c.data == cell.data] or alike
    beside = [(process - fit) * max(cell.K / c.K, 1.0) for c, (process, fit) in near]
    return max(mean(beside), OVERHEAD) if beside else OVERHEAD * max(cell.K / 20, 1.0)


def estimate(cell: Cell, measured: Measured) -> float:
    """Return the CPU seconds that a cell takes."""
    if cell in measured:
        return measured[cell][0]
    alike = [(c, x) for c, x in measured.items() if (c.kind, c.peer) == (cell.kind, cell.peer)]
    same = [process for c, (process, _) in alike if (c.data, c.K) == (cell.data, cell.K)]
    if same:
        return mean(same)
    near = [min(fit * cell.K / c.K, cell.limit) for c, (_, fit) in alike if c.data == cell.data]
    if not near and cell.kind == "rank":
        near = [fit * cell.K / c.K for c, (_, fit) in alike]
    return (mean(near) if near else cell.limit) + overhead(cell, measured)


def budget(cells: Iterable[Cell], rows: Iterable[dict[str, Any] | None]) -> dict[str, float]:
    """Return measured and estimated CPU seconds, and the minutes on two idle cores.

    `took` are the minutes of the clock that the runs took so far, side by side.
    """
    pairs = list(zip(cells, rows, strict=True))
    measured = {
        c: (r.get("process_cpu", r["cpu"] + OVERHEAD), r["cpu"])
        for c, r in pairs
        if r is not None and "cpu" in r
    }
    costs = {cell: estimate(cell, measured) for cell, _ in pairs}
    side_by_side = sum(s for cell, s in costs.items() if cell.threads == 1) / WORKERS
    alone = sum(s for cell, s in costs.items() if cell.threads > 1)
    return {
        "measured": sum(process for process, _ in measured.values()),
        "estimated": sum(s for cell, s in costs.items() if cell not in measured),
        "minutes": (side_by_side + alone) / 60,
        "took": sum(
            r.get("process_wall", 0.0) / (WORKERS if c.threads == 1 else 1)
            for c, r in pairs
            if r is not None
        )
        / 60,
    }
