"""Pieces of an experiment, kept in a folder: a call that was stopped is gone on with by the next.

A piece is named by what it is and by a hash of its settings and of the version, so that none is
taken for another. The folder may be removed at any time: what is missing is made again.

Runs of the paper's protocol, each iteration written to a file as it happens.
"""

from __future__ import annotations

import csv
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO, TypeVar

import numpy as np
from numpy.typing import NDArray

import gapmf.storage as storage
from gapmf.em.history import Iteration
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.parallel import for_each
from gapmf.storage import write_atomically
from gapmf.types import Array

try:
    import fcntl
except ImportError:  # pragma: no cover (Windows has other locks)
    fcntl = None  # type: ignore[assignment]

Settings = dict[str, Any]
Made = TypeVar("Made")


class ResultCache:
    """Where an experiment works: its folder of pieces, its threads, and whom it tells.

    Parameters
    ----------
    folder : path
        Of the pieces; it is made when the first is.
    n_jobs : int
        Pieces that are made at the same time, each by one thread, so that CPU time can be told.
    tell : callable, optional
        Gets the name of a piece, how much of it is done, and of how much.
    """

    def __init__(
        self,
        folder: Path,
        n_jobs: int = 1,
        tell: Callable[[str, int, int], None] = lambda name, done, total: None,
    ) -> None:
        self._folder, self._n_jobs, self.tell = folder, n_jobs, tell
        self.cpu_seconds = 0.0
        """What all pieces took, whenever they were made."""
        self._adding = threading.Lock()
        self.stop = threading.Event()
        """When it is set, what is being made is given up, and a KeyboardInterrupt says so."""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Have the folder to oneself: two calls would write the same pieces."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w", encoding="utf-8") as file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise InvalidInputError(
                        f"another call is working in {self._folder}: wait for it, or name "
                        "another folder for the figures"
                    ) from None
            yield

    def path(self, name: str, settings: Settings, suffix: str) -> Path:
        """The file of a piece."""
        said = json.dumps([version("gapmf"), settings], sort_keys=True)
        key = hashlib.sha256(said.encode()).hexdigest()[:10]
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"{name}-{key}{suffix}"

    def cached(self, name: str, settings: Settings, make: Callable[[], Any]) -> Any:
        """What `make` gives, in the types of JSON, or gave at an earlier call."""
        path = self.path(name, settings, ".json")
        if not path.exists():
            self.check()
            begin = time.thread_time()
            made = make()
            self.check()  # a fit that was stopped returns what it has: no piece
            text = json.dumps({"cpu_seconds": time.thread_time() - begin, "made": made})
            write_atomically(
                path, lambda temporary: Path(temporary).write_text(text, encoding="utf-8")
            )
        piece = json.loads(path.read_text(encoding="utf-8"))
        self.took(piece["cpu_seconds"])
        return piece["made"]

    def took(self, seconds: float) -> None:
        """Add the CPU time of a piece, whenever that was made."""
        with self._adding:
            self.cpu_seconds += seconds

    def check(self) -> None:
        """Stop here if it is time to."""
        if self.stop.is_set():
            raise KeyboardInterrupt

    def side_by_side(self, tasks: Sequence[Callable[[], Made]]) -> list[Made]:
        """What the tasks give, made at the same time as far as there are threads."""
        return for_each(lambda task: task(), tasks, self._n_jobs)


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
        self, path: Path, cache: ResultCache, name: str, until: int, milestones: Sequence[int]
    ) -> None:
        self._path, self._cache, self._name = path, cache, name
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
            write_atomically(path, lambda temporary: np.save(temporary, record.model.W))
        elif not self._milestones:
            numbers += record.model.W.ravel().tolist()
        self._file.write(",".join(repr(x) for x in numbers) + "\n")
        self._file.flush()
        self._cache.tell(self._name, record.iteration, self._until)
        if record.iteration >= self._until or self._cache.stop.is_set():
            raise KeyboardInterrupt  # the fit ends, and its checkpoint stays
        self._begin = time.thread_time()

    def _open(self, n_before: int) -> None:
        """Keep so many rows, whatever happens meanwhile, and write behind them."""
        kept = read_rows(self._path)[:n_before]
        text = "".join(",".join(repr(x) for x in row) + "\n" for row in kept)
        write_atomically(self._path, lambda path: Path(path).write_text(text, encoding="utf-8"))
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


def trace_run(
    X: Any,
    algorithm: str,
    protocol: Protocol,
    cache: ResultCache,
    name: str,
    *,
    until: int | None = None,
    milestones: Sequence[int] = (),
) -> Trace:
    """The iterates of one algorithm, the first `until` of them; a later call goes on from there.

    Every W is kept, or where they are large those of the milestones.
    """
    settings = {"algorithm": algorithm, "name": name, **asdict(protocol)}
    path = cache.path(f"{name}-{algorithm}", settings, ".rows")
    wanted = protocol.n_iter if until is None else min(until, protocol.n_iter)
    said = f"{name} {algorithm}"
    if len(read_rows(path)) < wanted:
        _run(X, algorithm, protocol, path, _Recorder(path, cache, said, wanted, milestones))
        cache.check()
    cache.tell(said, wanted, wanted)
    rows = np.array(read_rows(path)[:wanted])
    cache.took(rows[-1, 0])
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
