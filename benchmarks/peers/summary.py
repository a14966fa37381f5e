"""Gathers the results of all cells into the one file that the page is made from.

python -m peers.summary RESULTS FILE [--quick]
"""

from __future__ import annotations

import argparse
import json
import platform
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from peers import plan
from peers.budget import budget
from peers.cell import Cell, write_atomically
from peers.measures import stability
from peers.registry import PEERS

KEPT = (
    "N", "F", "tokens", "n_test", "cpu", "wall", "memory_mib", "passes", "stopped_by_limit",
    "n_components", "npmi", "cosine", "perplexity", "perplexity_common", "by_epsilon",
    "infer_cpu", "infer_wall", "faster", "reason", "rank", "notes", "process_wall",
    "process_cpu", "version", "warm_up",
)  # fmt: skip
LOOKS = ("cpu", "wall", "passes", "perplexity")
DIGITS = 6


def rounded(value: Any) -> Any:
    """Return numbers with six digits, within whatever holds them."""
    if isinstance(value, dict):
        return {key: rounded(x) for key, x in value.items()}
    if isinstance(value, list):
        return [rounded(x) for x in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def row(cell: Cell, folder: Path) -> dict[str, Any] | None:
    """Return what the page needs of a cell, or None if it was not run, or had no data."""
    path = folder / f"{cell.key}.json"
    if not path.exists():
        return None
    result = json.loads(path.read_text(encoding="utf-8"))
    if result.get("skipped"):
        return None
    kept = {name: result[name] for name in KEPT if name in result}
    looks = [{name: look[name] for name in LOOKS} for look in result.get("looks", [])]
    who = {name: getattr(cell, name) for name in ("kind", "data", "K", "peer", "seed", "threads")}
    who["limit"] = result["cell"]["limit"]  # as it was run
    return rounded(who | kept | ({"looks": looks} if looks else {}))


def stabilities(cells: list[Cell], folder: Path) -> list[dict[str, Any]]:
    """Return how well the fits of different seeds agree, where there are several."""
    fits: dict[tuple[str, int, str], list[np.ndarray]] = defaultdict(list)
    for cell in cells:
        path = folder / f"{cell.key}.npz"
        whole = (row(cell, folder) or {"reason": "not run"}).get("reason") is None
        if cell.kind == "fit" and cell.threads == 1 and whole and path.exists():
            with np.load(path) as file:
                fits[cell.data, cell.K, cell.peer].append(file["components"].astype(float))
    return [
        {
            "data": data,
            "K": K,
            "peer": peer,
            "seeds": len(some),
            "stability": rounded(stability(some)),
        }
        for (data, K, peer), some in fits.items()
        if len(some) > 1
    ]


def versions(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the version of each package: as it was run, else as it is here."""
    used = defaultdict(set)
    for found_row in rows:
        if "version" in found_row:
            used[PEERS[found_row["peer"]].package].add(found_row["version"])
    found = {}
    for package in sorted({peer.package for peer in PEERS.values()} | {"numpy", "scipy", "numba"}):
        try:
            found[package] = " and ".join(sorted(used[package])) or version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found | {"Python": platform.python_version()}


def as_lines(content: dict[str, Any]) -> str:
    """Return JSON with one line per row, so that changes can be read."""
    parts = []
    for name, value in content.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list) and value:
            rows = ",\n".join(json.dumps(x, ensure_ascii=False) for x in value)
            text = f"[\n{rows}\n]"
        parts.append(f"{json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Write the summary of all results there are, and the names of those that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--note", default="", help="what readers of these results should know")
    args = parser.parse_args()
    cells = plan.quick() if args.quick else plan.full()
    rows = [(cell, row(cell, args.folder)) for cell in cells]
    kept = [found for _, found in rows if found is not None]
    who = ("kind", "data", "K", "peer", "seed", "threads")
    content = {
        "versions": versions(kept),
        "peers": {peer.name: peer.settings for peer in PEERS.values()},
        "packages": {peer.name: peer.package for peer in PEERS.values()},
        "budget": rounded(budget(cells, [found for _, found in rows])),
        "note": args.note,
        "planned": len(cells),
        "missing": [cell.key for cell, found in rows if found is None],
        "not run": [[getattr(cell, x) for x in who] for cell, found in rows if found is None],
        "rows": kept,
        "stability": stabilities(cells, args.folder),
    }
    args.file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(args.file, as_lines(content).encode())
    print(f"{len(content['rows'])} of {len(cells)} cells in {args.file}")


if __name__ == "__main__":
    main()
