"""Print the modules of gapmf that one `fit` crosses, and the cycles among them at run time.

    python docs/trace_fit.py                    # the default fit
    python docs/trace_fit.py --algorithm exact
    python docs/trace_fit.py --checkpoint       # a fit that saves its progress
    python docs/trace_fit.py --json

A profiler records every Python call while a small fit runs. A call from a function of one module
to a function of another is an edge. A first fit imports and compiles; only the second is recorded,
so that import time does not count. A compiled kernel that Python calls counts as a module, but has
no edges: calls inside compiled code are invisible.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import warnings
from collections import Counter, defaultdict
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = "gapmf"


class Recorder:
    """A profile function that counts calls between the modules of a package."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root}/"
        self._names: dict[str, str] = {}
        self.calls: Counter[str] = Counter()
        self.edges: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Count a call."""
        if event != "call":
            return
        called = self._module(frame)
        if not called or frame.f_code.co_name == "<module>":
            return
        self.calls[called] += 1
        caller = self._nearest(frame.f_back)
        if caller and caller != called:
            self.edges.add((caller, called))

    def _nearest(self, frame: FrameType | None) -> str:
        """The module of the innermost frame of the package, through other libraries."""
        while frame is not None:
            name = self._module(frame)
            if name:
                return name
            frame = frame.f_back
        return ""

    def _module(self, frame: FrameType) -> str:
        path = frame.f_code.co_filename
        if path not in self._names:
            ours = path.replace("\\", "/").startswith(self._root.replace("\\", "/"))
            parts = Path(path[len(self._root) :]).with_suffix("").parts if ours else ()
            self._names[path] = ".".join(p for p in parts if p != "__init__") or (
                PACKAGE if ours else ""
            )
        return self._names[path]


def cycles(edges: set[tuple[str, str]]) -> list[list[str]]:
    """Strongly connected components with more than one module, by Tarjan's algorithm."""
    after: dict[str, set[str]] = defaultdict(set)
    for a, b in edges:
        after[a].add(b)
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(after[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            place = stack.index(node)
            found.append(sorted(stack[place:]))
            del stack[place:]

    for node in sorted({name for edge in edges for name in edge}):
        if node not in index:
            visit(node)
    return sorted(part for part in found if len(part) > 1)


def record_fit(parameters: dict[str, Any], *, checkpoint: bool) -> Recorder:
    """Fit twice, and record the second fit."""
    import numpy as np

    from gapmf import GammaPoissonMF

    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{PACKAGE} is not installed")
    recorder = Recorder(Path(spec.origin).parent)
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.5, 4.0, (30, 2)) @ rng.gamma(0.5, 2.0, (2, 6)))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short fit does not converge
        for number in (1, 2):
            given = (
                dict(parameters, checkpoint=Path(folder, f"{number}.part"))
                if checkpoint
                else (parameters)
            )
            est = GammaPoissonMF(2, random_state=0, max_iter=60, **given)
            if number == 2:
                threading.setprofile(recorder)
                sys.setprofile(recorder)
            try:
                est.fit(X)
            finally:
                sys.setprofile(None)
                threading.setprofile(None)  # type: ignore[arg-type]
    return recorder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--algorithm", default="mcem-c", help="Algorithm of the fit.")
    parser.add_argument("--checkpoint", action="store_true", help="Save the progress of the fit.")
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    asked = parser.parse_args()
    recorder = record_fit({"algorithm": asked.algorithm}, checkpoint=asked.checkpoint)
    modules, loops = sorted(recorder.calls), cycles(recorder.edges)
    if asked.json:
        edges = sorted(map(list, recorder.edges))
        print(json.dumps({"modules": modules, "edges": edges, "cycles": loops}, indent=1))
        return
    for name in modules:
        into = sorted(b for a, b in recorder.edges if a == name)
        print(f"{name:28} {recorder.calls[name]:>7} calls  -> {', '.join(into)}")
    print(f"\n{len(modules)} modules, {len(recorder.edges)} edges")
    for loop in loops:
        print(f"cycle of {len(loop)}: {', '.join(loop)}")
    if not loops:
        print("no cycles")


if __name__ == "__main__":
    main()
