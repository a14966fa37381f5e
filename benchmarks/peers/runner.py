"""Runs a plan of cells, each in a process of its own, and goes on where it stopped.

    python -m peers.runner RESULTS [--quick] [--only TEXT] [--seed SEED] [--list]

A cell whose result is in the folder is not run again; remove its file to run it anew. A cell that
takes too long, crashes or cannot be installed gets a result with the reason. An interrupt (Ctrl-C,
or a request to end) ends the cells that are running, and they get no result.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from peers.cell import Cell, write_atomically

GRACE = 240.0  # wall seconds for start, judging and what a peer does between looks
SLOWDOWN = 3.0  # of wall beside CPU time, on a machine that is not idle
RUNNING: set[subprocess.Popen[str]] = set()
STOPPING = threading.Event()


def is_done(cell: Cell, folder: Path) -> bool:
    """Return whether there is a result; one that was skipped for lack of data is tried again."""
    path = folder / f"{cell.key}.json"
    if not path.exists():
        return False
    return not json.loads(path.read_text(encoding="utf-8")).get("skipped", False)


def environment(threads: int) -> dict[str, str]:
    """Return the environment of a cell: as many threads as it says, whatever library has them."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    here = str(Path(__file__).parents[1])
    return (
        os.environ | dict.fromkeys(names, str(threads)) | {"PYTHONPATH": here, "MPLBACKEND": "Agg"}
    )


def end(child: subprocess.Popen[str]) -> None:
    """End a cell, and whatever it has started: it has a session of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def end_all() -> None:
    """End all cells, and start no others."""
    STOPPING.set()
    for child in list(RUNNING):
        end(child)


def run_cell(cell: Cell, folder: Path) -> str:
    """Run a cell in a process of its own; return what to print."""
    path = folder / f"{cell.key}.json"
    command = [sys.executable, "-m", "peers.cell", json.dumps(asdict(cell)), str(folder)]
    seconds = GRACE + SLOWDOWN * cell.limit
    reason = ""
    start = time.perf_counter()
    child = subprocess.Popen(
        command,
        env=environment(cell.threads),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    RUNNING.add(child)
    if STOPPING.is_set():  # between the last look at it and now
        end(child)
    try:
        _, said = child.communicate(timeout=seconds)
        if not path.exists() or child.returncode:
            last = (said.strip().splitlines() or ["no message"])[-1]
            reason = f"the process ended with code {child.returncode}: {last}"[:500]
    except subprocess.TimeoutExpired:
        end(child)
        child.communicate()
        reason = f"not finished after {seconds:.0f} s, with a limit of {cell.limit:g} CPU s"
    finally:
        RUNNING.discard(child)
    if STOPPING.is_set() and reason:
        return f"{cell.key}: interrupted"
    wall = time.perf_counter() - start
    if reason:
        result = {"cell": asdict(cell), "key": cell.key, "reason": reason}
    else:
        result = json.loads(path.read_text(encoding="utf-8"))
    result["process_wall"] = wall
    write_atomically(path, (json.dumps(result, indent=1) + "\n").encode())
    if "reason" in result:
        said = result["reason"]
    elif "rank" in result:
        said = f"rank {result['rank']}, {result['cpu']:.1f} CPU s"
    else:
        said = f"perplexity {result['perplexity']:.1f}, {result['cpu']:.1f} CPU s"
    return f"{cell.key}: {said}"


def run(cells: list[Cell], folder: Path, workers: int) -> None:
    """Run what is missing: one-thread cells side by side, then those with two threads alone."""
    folder.mkdir(parents=True, exist_ok=True)
    STOPPING.clear()
    missing = [cell for cell in cells if not is_done(cell, folder)]
    print(f"{len(cells)} cells, {len(cells) - len(missing)} finished before", flush=True)
    for threads in sorted({cell.threads for cell in missing}):
        some = [cell for cell in missing if cell.threads == threads]
        with ThreadPoolExecutor(max(workers // threads, 1)) as pool:
            try:
                for line in pool.map(lambda cell: unless_stopping(cell, folder), some):
                    print(line, flush=True)
            except BaseException:
                end_all()
                pool.shutdown(cancel_futures=True)
                raise


def unless_stopping(cell: Cell, folder: Path) -> str:
    """Run a cell, or not if an interrupt came while it waited."""
    return f"{cell.key}: not run" if STOPPING.is_set() else run_cell(cell, folder)


def interrupt(*_: Any) -> None:
    """Treat a request to end as Ctrl-C."""
    raise KeyboardInterrupt


def main() -> None:
    """Run the plan."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--seed", type=int, help="cells of this seed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="say what would be run")
    args = parser.parse_args()
    from peers import plan

    cells = [c for c in (plan.quick() if args.quick else plan.full()) if args.only in c.key]
    if args.seed is not None:
        cells = [cell for cell in cells if cell.seed == args.seed]
    if args.list:
        for cell in cells:
            print("done   " if is_done(cell, args.folder) else "missing", cell.key)
        return
    signal.signal(signal.SIGTERM, interrupt)
    run(cells, args.folder, args.workers)


if __name__ == "__main__":
    main()
