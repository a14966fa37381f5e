"""Runs of the paper's protocol, each iteration written to a file as it happens."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

import gapmf.storage as storage
from gapmf.em.record import Iteration
from gapmf.estimator import GammaPoissonMF
from gapmf.files import replace_file
from gapmf.reproduce.pieces import Workshop

Array = NDArray[np.float64]

ALGORITHMS = ("mcem-c", "mcem-h", "mcem-ch")


@dataclass(frozen=True)
class Protocol:
    """So many iterations, each of n_draws sweeps after n_burn_in others, from the last draw."""

    n_components: int
    n_iter: int
    n_draws: int
    n_burn_in: int
    seed: int


@dataclass(frozen=True)
class Trace:
    """The iterates of a run."""

    cpu_seconds: Array
    """(n_iter,): of the one thread that it took, since it began."""
    norms: Array
    """(n_iter, K)."""
    W: dict[int, Array]
    """By iteration, from 1: the dictionaries that were kept, (F, K)."""

    def __len__(self) -> int:
        return len(self.cpu_seconds)


class _Recorder:
    """A callback that writes iterations to a file, and stops the fit after so many.

    Rows that an earlier process wrote after its last checkpoint are made again, to the same bits:
    what is there of them is cut off.
    """

    def __init__(
        self, path: Path, shop: Workshop, name: str, until: int, milestones: Sequence[int]
    ) -> None:
        self._path, self._shop, self._name = path, shop, name
        self._until, self._milestones = until, milestones
        self._file: TextIO | None = None
        self._used = 0.0
        self._begin = time.thread_time()

    def __call__(self, record: Iteration) -> None:
        now = time.thread_time()
        if self._file is None:
            self._open(record.iteration - 1)
        assert self._file is not None
        self._used += now - self._begin
        numbers = [self._used, *record.model.column_norms.tolist()]
        if record.iteration in self._milestones:
            path = _milestone(self._path, record.iteration)
            replace_file(path, lambda temporary: np.save(temporary, record.model.W))
        elif not self._milestones:
            numbers += record.model.W.ravel().tolist()
        self._file.write(",".join(repr(x) for x in numbers) + "\n")
        self._file.flush()
        self._shop.tell(self._name, record.iteration, self._until)
        if record.iteration >= self._until or self._shop.stop.is_set():
            raise KeyboardInterrupt  # the fit ends, and its checkpoint stays
        self._begin = time.thread_time()

    def _open(self, n_before: int) -> None:
        """Keep so many rows, whatever happens meanwhile, and write behind them."""
        kept = read_rows(self._path)[:n_before]
        text = "".join(",".join(repr(x) for x in row) + "\n" for row in kept)
        replace_file(self._path, lambda path: Path(path).write_text(text, encoding="utf-8"))
        self._used = kept[-1][0] if kept else 0.0
        self._file = self._path.open("a", encoding="utf-8")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def warm_up() -> None:
    """Have every kernel ready that fits use, so that no clock counts how long that takes."""
    X = np.array([[3, 1], [0, 2], [150, 4]])
    for algorithm in ALGORITHMS:
        GammaPoissonMF(
            2, algorithm=algorithm, schedule="paper", max_iter=2, n_draws=2, n_burn_in=1
        ).fit(X)
    GammaPoissonMF(2, learn_alpha=True, max_iter=2, schedule="adaptive").fit(X)


def read_rows(path: Path) -> list[list[float]]:
    """Whole rows of a file that may end in the middle of one."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    lines = text[: text.rfind("\n") + 1].splitlines()
    return [[float(x) for x in row] for row in csv.reader(lines)]


def _milestone(path: Path, iteration: int) -> Path:
    return path.with_suffix(f".{iteration}.npy")


def follow(
    X: Any,
    algorithm: str,
    protocol: Protocol,
    shop: Workshop,
    name: str,
    *,
    until: int | None = None,
    milestones: Sequence[int] = (),
) -> Trace:
    """The iterates of one algorithm, the first `until` of them; a later call goes on from there.

    Every W is kept, or where they are large those of the milestones.
    """
    settings = {"algorithm": algorithm, "name": name, **asdict(protocol)}
    path = shop.path(f"{name}-{algorithm}", settings, ".rows")
    wanted = protocol.n_iter if until is None else min(until, protocol.n_iter)
    said = f"{name} {algorithm}"
    if len(read_rows(path)) < wanted:
        _run(X, algorithm, protocol, path, _Recorder(path, shop, said, wanted, milestones))
        shop.check()
    shop.tell(said, wanted, wanted)
    rows = np.array(read_rows(path)[:wanted])
    shop.took(rows[-1, 0])
    K = protocol.n_components
    if milestones:
        W = {i: np.load(_milestone(path, i)) for i in milestones if i <= wanted}
    else:
        W = {i: row.reshape(-1, K) for i, row in enumerate(rows[:, 1 + K :], start=1)}
    return Trace(rows[:, 0], rows[:, 1 : 1 + K], W)


def _iterations_in(checkpoint: Path) -> int:
    """How many iterations a checkpoint goes on from."""
    state = storage.read(checkpoint, "checkpoint")["state"]
    return len(state["history"]["seconds"]) if isinstance(state, dict) else 0


def _run(X: Any, algorithm: str, protocol: Protocol, path: Path, recorder: _Recorder) -> None:
    checkpoint = path.with_suffix(".checkpoint")
    if checkpoint.exists() and len(read_rows(path)) < _iterations_in(checkpoint):
        checkpoint.unlink()  # its rows are lost: begin anew
    try:
        if checkpoint.exists():
            GammaPoissonMF.resume(checkpoint, X, callbacks=[recorder])
            return
        GammaPoissonMF(
            protocol.n_components,
            algorithm=algorithm,
            schedule="paper",
            max_iter=protocol.n_iter,
            n_draws=protocol.n_draws,
            n_burn_in=protocol.n_burn_in,
            random_state=protocol.seed,
            checkpoint=checkpoint,
            callbacks=[recorder],
        ).fit(X)
    finally:
        recorder.close()


def some_iterations(n: int, most: int = 160) -> list[int]:
    """At most so many of 1 … n, denser at first."""
    evenly, first = np.linspace(1, n, most // 2), np.geomspace(1, n, most // 2)
    return [int(i) for i in np.unique(np.concatenate([evenly, first]).round().astype(int))]


def as_columns(traces: dict[str, Trace], at: Sequence[int]) -> dict[str, NDArray[Any]]:
    """CPU time and norms of these iterations, one run below the other."""
    i = np.array(at) - 1
    n_norms = next(iter(traces.values())).norms.shape[1]
    columns: dict[str, NDArray[Any]] = {
        "algorithm": np.repeat(list(traces), i.size),
        "iteration": np.tile(i + 1, len(traces)),
        "cpu_seconds": np.concatenate([trace.cpu_seconds[i] for trace in traces.values()]),
    }
    for k in range(n_norms):
        norms = [trace.norms[i, k] for trace in traces.values()]
        columns[f"norm_{k + 1}"] = np.concatenate(norms)
    return columns
