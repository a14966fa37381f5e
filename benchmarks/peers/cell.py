"""One cell of the comparison: fit one peer to one data set, in this process, and judge it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from peers import measures
from peers.data import MissingDataError, Split, load
from peers.protocol import Fitted, Infer, Peer
from peers.watch import Watch, cpu_seconds

FEW, TINY = 40, 0.5  # samples and CPU seconds of the fit before the clock starts


@dataclass(frozen=True)
class Cell:
    """What is run: `limit` is the CPU time after which a fit is told to stop."""

    data: str
    K: int
    peer: str
    seed: int = 0
    threads: int = 1
    limit: float = 120.0
    quick: bool = False
    kind: str = "fit"

    @property
    def key(self) -> str:
        """A name that is a file name, and does not depend on the limit."""
        name = f"{self.kind}-{self.data}-K{self.K}-{self.peer}-s{self.seed}-t{self.threads}"
        for old, new in ((" = ", ""), ("η", "eta"), (",", ""), ("'", ""), (" ", "_")):
            name = name.replace(old, new)
        return ("quick-" if self.quick else "") + name


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that is there completely or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 0o644)  # temporary files are private
    os.replace(file.name, path)


def judged(
    split: Split, fitted: Fitted, base: np.ndarray, infer: Infer | None = None
) -> dict[str, Any]:
    """Return the perplexity of the hidden halves, also with other ε, and the cost of inference."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    theta = (infer or fitted.infer)(split.shown)
    cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
    values = {
        str(e): measures.completion_perplexity(split.hidden, theta, fitted.components, base, e)
        for e in measures.EPSILONS
    }
    return {
        "perplexity": values[str(measures.EPSILON)],
        "by_epsilon": values,
        "infer_cpu": cpu,
        "infer_wall": wall,
    }


def warm_up(peer: Peer, train: sp.csr_array, K: int, threads: int) -> str:
    """Import, compile and start threads: a tiny fit and its inference, before the clock starts.

    A failure is kept in the result and does not end the cell: some packages do not take so little.
    """
    few = sp.csr_array(train[:FEW])
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            if peer.warm_up is not None:
                peer.warm_up(few, min(K, 4), threads)
            else:
                watch = Watch(lambda fitted: {}, limit=TINY)
                watch.next_look = float("inf")
                peer.fit(few, min(K, 4), 0, threads, watch).infer(few[:5])
    except Exception as reason:
        return f"{type(reason).__name__}: {reason}"[:200]
    return "done"


def run(cell: Cell) -> tuple[dict[str, Any], np.ndarray | None]:
    """Return the result of a cell, and its components; a failure is a result with a reason."""
    result: dict[str, Any] = {"cell": asdict(cell), "key": cell.key}
    try:
        from peers.registry import PEERS  # a broken package is a reason, too

        peer = PEERS[cell.peer]
        result["version"] = version(peer.package)
        split = load(cell.data, cell.quick)
        result["warm_up"] = warm_up(peer, split.train, cell.K, cell.threads)
        base = measures.background(split.train)
        watch = Watch(lambda fitted: judged(split, fitted, base), cell.limit)
        fitted = peer.fit(split.train, cell.K, cell.seed, cell.threads, watch)
        watch.pause()
        result |= finished(cell, split, watch, fitted, base)
    except MissingDataError as reason:
        return result | {"reason": str(reason), "skipped": True}, None
    except PackageNotFoundError as reason:
        return result | {"reason": f"not installed: {reason}"}, None
    except Exception as reason:  # recorded, and shown in the table
        return result | {"reason": f"{type(reason).__name__}: {reason}"[:500]}, None
    return result, fitted.components


def finished(
    cell: Cell, split: Split, watch: Watch, fitted: Fitted, base: np.ndarray
) -> dict[str, Any]:
    """Return all measures of a finished fit."""
    everything = sp.csr_array(sp.vstack([split.train, split.shown + split.hidden]))
    truth = split.truth
    return {
        "N": split.train.shape[0],
        "F": split.train.shape[1],
        "tokens": int(split.train.sum()),
        "n_test": split.shown.shape[0],
        "cpu": watch.cpu,
        "wall": watch.wall,
        "memory_mib": watch.memory_mib,
        "passes": fitted.passes,
        "stopped_by_limit": watch.was_stopped,
        "looks": watch.looks,
        "n_components": fitted.components.shape[0],
        "npmi": measures.npmi(everything, fitted.components),
        "cosine": None if truth is None else measures.matched_cosine(truth, fitted.components),
        "notes": fitted.notes,
        "perplexity_common": measures.completion_perplexity(
            split.hidden,
            measures.common_proportions(split.shown, fitted.components, base),
            fitted.components,
            base,
        ),
        **judged(split, fitted, base),
        "faster": {
            settings: {name: found[name] for name in ("perplexity", "infer_cpu")}
            for settings, infer in fitted.faster.items()
            if (found := judged(split, fitted, base, infer))
        },
    }


def main(argument: str, folder: str) -> None:
    """Run the cell that is given as JSON, and write its result into a folder."""
    given = json.loads(argument)
    cell = Cell(**given)
    if cell.kind == "rank":
        from peers.ranks import run_rank

        result, components = run_rank(cell), None
    else:
        result, components = run(cell)
    result["process_cpu"] = cpu_seconds()  # of everything, for the budget of the plan
    path = Path(folder) / f"{cell.key}.json"
    if components is not None:
        with tempfile.TemporaryFile() as file:
            np.savez_compressed(file, components=components.astype(np.float32))
            file.seek(0)
            write_atomically(path.with_suffix(".npz"), file.read())
    write_atomically(path, (json.dumps(result, indent=1) + "\n").encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
