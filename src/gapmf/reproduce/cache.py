"""Results of experiments, kept in files, and traces of the paper's algorithms.

A result is computed once. Its file is named by the result and by a hash of its settings and of the
version of gapmf. The folder may be removed at any time: missing results are computed again.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gapmf.em.history import Iteration
from gapmf.estimator import GammaPoissonMF
from gapmf.output import to_json, write_text
from gapmf.parallel import for_each
from gapmf.types import Array

ALGORITHMS = ("mcem-c", "mcem-h", "mcem-ch")
Result = TypeVar("Result")


class ResultCache:
    """A folder of finished results, and the threads that compute new ones.

    Parameters
    ----------
    folder : Path
        Folder of the results.
    n_jobs : int, default=1
        Number of results that are computed at the same time, each by one thread.
    progress : callable, optional
        Called with the name of a result, the work done and the total work.

    Attributes
    ----------
    cpu_seconds : float
        CPU time of all results that were asked for, whenever they were computed.
    stop : threading.Event
        When it is set, computations end with KeyboardInterrupt.
    """

    def __init__(
        self,
        folder: Path,
        n_jobs: int = 1,
        progress: Callable[[str, int, int], None] = lambda name, done, total: None,
    ) -> None:
        self._folder, self._n_jobs, self.progress = folder, n_jobs, progress
        self.cpu_seconds = 0.0
        self.stop = threading.Event()
        self._lock = threading.Lock()

    def cached(self, name: str, settings: dict[str, Any], compute: Callable[[], Any]) -> Any:
        """Return what `compute` returns, or returned earlier, in the types of JSON."""
        text = json.dumps([version("gapmf"), settings], sort_keys=True)
        key = hashlib.sha256(text.encode()).hexdigest()[:10]
        path = self._folder / f"{name}-{key}.json"
        if not path.exists():
            self.check()
            begin = time.thread_time()
            result = compute()
            self.check()  # a fit that was stopped returns an unfinished model
            self._folder.mkdir(parents=True, exist_ok=True)
            seconds = time.thread_time() - begin
            write_text(to_json({"cpu_seconds": seconds, "result": result}), path)
        content = json.loads(path.read_text(encoding="utf-8"))
        with self._lock:
            self.cpu_seconds += content["cpu_seconds"]
        return content["result"]

    def table(
        self, name: str, cases: Sequence[dict[str, Any]], compute: Callable[..., dict[str, Any]]
    ) -> dict[str, NDArray[Any]]:
        """Return `compute(**case)` of all cases, each cached, as columns of a table."""
        done = iter(range(1, len(cases) + 1))

        def row(case: dict[str, Any]) -> dict[str, Any]:
            found: dict[str, Any] = self.cached(name, case, partial(compute, **case))
            self.progress(name, next(done), len(cases))
            return found

        rows = self.parallel([partial(row, case) for case in cases])
        return {key: np.array([row[key] for row in rows]) for key in rows[0]}

    def check(self) -> None:
        """Raise KeyboardInterrupt if `stop` is set."""
        if self.stop.is_set():
            raise KeyboardInterrupt

    def parallel(self, tasks: Sequence[Callable[[], Result]]) -> list[Result]:
        """Call all tasks, in threads, and return their results in order."""
        return for_each(lambda task: task(), tasks, self._n_jobs)


@dataclass(frozen=True)
class Protocol:
    """The paper's schedule: each iteration has n_burn_in + n_draws sweeps, from the last state."""

    n_components: int
    n_iter: int
    n_draws: int
    n_burn_in: int
    seed: int


@dataclass(frozen=True)
class Trace:
    """A run of one algorithm.

    Attributes
    ----------
    cpu_seconds : array of shape (n_iter,)
        CPU time of the fit since its start.
    norms : array of shape (n_iter, K)
        Column norms of W.
    values : dict
        What was evaluated, by iteration; the first iteration is 1.
    """

    cpu_seconds: Array
    norms: Array
    values: dict[int, Any]

    def __len__(self) -> int:
        return len(self.cpu_seconds)


def trace_run(
    X: Any,
    algorithm: str,
    protocol: Protocol,
    cache: ResultCache,
    data: dict[str, Any],
    at: Sequence[int],
    evaluate: Callable[[Array], Any],
) -> Trace:
    """Run an algorithm, and evaluate W at some iterations. The result is cached.

    Parameters
    ----------
    X : counts
    algorithm : str
    protocol : Protocol
    cache : ResultCache
    data : dict
        What X and `evaluate` were made from: "name" and settings.
    at : sequence of int
        Iterations to evaluate.
    evaluate : callable
        From W (F, K) to what JSON can hold. Called after the fit, outside its clock.
    """
    settings = {**data, "algorithm": algorithm, "at": list(at), **asdict(protocol)}
    compute = partial(_compute_trace, X, algorithm, protocol, cache, data["name"], at, evaluate)
    found = cache.cached(f"{data['name']}-{algorithm}", settings, compute)
    values = {int(i): value for i, value in found["values"].items()}
    return Trace(np.array(found["cpu_seconds"]), np.array(found["norms"]), values)


def _compute_trace(
    X: Any,
    algorithm: str,
    protocol: Protocol,
    cache: ResultCache,
    name: str,
    at: Sequence[int],
    evaluate: Callable[[Array], Any],
) -> dict[str, Any]:
    seconds: list[float] = []
    norms: list[Array] = []
    kept: dict[int, Array] = {}
    begin = time.thread_time()

    def record(state: Iteration) -> bool:
        nonlocal begin
        seconds.append(time.thread_time() - begin + (seconds[-1] if seconds else 0.0))
        norms.append(state.model.column_norms)
        if state.iteration in at:
            kept[state.iteration] = state.model.W
        cache.progress(f"{name} {algorithm}", state.iteration, protocol.n_iter)
        begin = time.thread_time()
        return cache.stop.is_set()

    GammaPoissonMF(
        protocol.n_components,
        algorithm=algorithm,
        schedule="paper",
        max_iter=protocol.n_iter,
        n_draws=protocol.n_draws,
        n_burn_in=protocol.n_burn_in,
        random_state=protocol.seed,
        callbacks=[record],
    ).fit(X)
    values = {}
    for done, (i, W) in enumerate(kept.items(), start=1):
        cache.check()
        values[i] = evaluate(W)
        cache.progress(f"{name} {algorithm}, values", done, len(kept))
    return {"cpu_seconds": seconds, "norms": norms, "values": values}


def warm_up() -> None:
    """Compile all kernels, so that no clock includes it."""
    X = np.array([[3, 1], [0, 2], [150, 4]])
    for algorithm in ALGORITHMS:
        GammaPoissonMF(
            2, algorithm=algorithm, schedule="paper", max_iter=2, n_draws=2, n_burn_in=1
        ).fit(X)
    GammaPoissonMF(2, learn_alpha=True, max_iter=2, schedule="adaptive").fit(X)


def some_iterations(n: int, most: int = 160) -> list[int]:
    """Choose at most `most` of the iterations 1 … n, denser at first."""
    evenly, first = np.linspace(1, n, most // 2), np.geomspace(1, n, most // 2)
    return [int(i) for i in np.unique(np.concatenate([evenly, first]).round().astype(int))]


def as_columns(traces: dict[str, Trace], at: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Return CPU time and norms at these iterations, one run below the other."""
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
