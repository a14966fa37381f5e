"""The results in docs/comparison/results.json, and how they are looked up and averaged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from reproduction_pages.words import number

FILE = Path(__file__).parents[1] / "comparison" / "results.json"
OURS, DEFAULT = "gapmf, for prediction", "gapmf, default"
NAMES = {
    "nips": "NIPS",
    "digits": "digits",
    "small counts": "small counts",
    "large counts": "large counts",
    "cells": "cells",
    "bursty": "bursty words",
}
QUARTER = "a quarter of nips"


@dataclass(frozen=True)
class Results:
    """All rows of a summary."""

    content: dict[str, Any]

    @classmethod
    def read(cls, path: Path = FILE) -> Results:
        """Return the results of a file."""
        return cls(json.loads(path.read_text(encoding="utf-8")))

    @property
    def peers(self) -> list[str]:
        """All peers, gapmf first."""
        return list(self.content["peers"])

    @property
    def others(self) -> list[str]:
        """Peers that are not gapmf and have K components; HDP has a number of its own."""
        return [peer for peer in self.peers if not peer.startswith(("gapmf", "HDP"))]

    def rows(self, **wanted: Any) -> list[dict[str, Any]]:
        """Return the rows of one thread, or what is wanted, with whatever else is wanted."""
        wanted = {"kind": "fit", "threads": 1} | wanted
        return [r for r in self.content["rows"] if wanted.items() <= r.items()]

    def values(self, column: str, **wanted: Any) -> list[float]:
        """Return a column of the rows that have it."""
        found = (row.get(column) for row in self.rows(**wanted))
        return [x for x in found if x is not None]

    def settings(self) -> list[tuple[str, int]]:
        """Return all (data, K) with a result."""
        seen = {
            (r["data"], r["K"]): None
            for r in self.rows()
            if r["data"] in NAMES and "perplexity" in r
        }
        order = list(NAMES)
        return sorted(seen, key=lambda x: (order.index(x[0]), x[1]))

    def fair_settings(self) -> list[tuple[str, int]]:
        """Return the (data, K) that sentences compare.

        They have gapmf as it is recommended, at least two other packages, and no peer that is
        planned there but was not run: the best one may be among those.
        """
        packages = self.content["packages"]
        lacking = {
            (data, K)
            for kind, data, K, _, seed, threads in self.content["not run"]
            if (kind, seed, threads) == ("fit", 0, 1)
        }
        return [
            (data, K)
            for data, K in self.settings()
            if (data, K) not in lacking
            and self.values("perplexity", data=data, K=K, peer=OURS)
            and len(
                {
                    packages[peer]
                    for peer in self.others
                    if self.values("perplexity", data=data, K=K, peer=peer)
                }
            )
            >= 2
        ]

    def best_peer(self, data: str, K: int) -> tuple[str, float] | None:
        """Return the other package with the lowest mean perplexity, and that perplexity."""
        means = {
            peer: mean(found)
            for peer in self.others
            if (found := self.values("perplexity", data=data, K=K, peer=peer))
        }
        if not means:
            return None
        best = min(means, key=means.__getitem__)
        return best, means[best]


def several(values: list[float], digits: int = 4) -> str:
    """Return the mean, with the smallest and largest where there are several."""
    if not values:
        return "–"
    middle = number(mean(values), digits)
    if len(values) == 1:
        return middle
    return f"{middle} ({number(min(values), digits)} – {number(max(values), digits)})"


def title(data: str, K: int) -> str:
    """Return "NIPS, K = 20"."""
    return f"{NAMES[data]}, K = {K}"


def failure(rows: list[dict[str, Any]]) -> str | None:
    """Return a reason if none of the rows has a result."""
    reasons = [row["reason"] for row in rows if "reason" in row]
    return reasons[0] if reasons and len(reasons) == len(rows) else None
