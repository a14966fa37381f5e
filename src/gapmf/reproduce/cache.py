"""Results of experiments, kept in files, and traces of the paper's algorithms.

A result is computed once. Its file is named by the result and by a hash of its settings and of the
version of gapmf. The folder may be removed at any time: missing results are computed again.

Runs that take hours are computed in blocks of iterations. After each block the state of the run,
chains included, is written to a file, so that the next block goes on exactly as if there had been
no break.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from gapmf.counts import check_counts
from gapmf.em.fit import first_model
from gapmf.em.history import Iteration
from gapmf.em.monte_carlo import RunState, make_schedule, run
from gapmf.em.settings import check_settings
from gapmf.engines.base import State
from gapmf.engines.local import LocalEngine
from gapmf.estimator import GammaPoissonMF
from gapmf.model import GaP
from gapmf.parallel import for_each
from gapmf.storage.archive import read, write
from gapmf.storage.output import to_json, write_text
from gapmf.storage.state import from_tree, to_tree
from gapmf.types import Array

T = TypeVar("T")

ALGORITHMS = ("mcem-c", "mcem-h", "mcem-ch")
FITS = 1000  # added to the seed of the data: the seed of the fit, so that they share no draws


class NotFinishedError(Exception):
    """A result that has not been computed yet, when only finished ones are asked for."""


class ResultCache:
    """A folder of finished results, and the threads that compute new ones.

    `n_jobs` results are computed at the same time. `progress` is called with the name of a result,
    the work done and the total work. When `stop` is set, computations end with KeyboardInterrupt.
    `cpu_seconds` is the CPU time of all results asked for, whenever they were computed. With
    `finished_only` nothing is computed, and `n_missing` results were asked for in vain. `n_begun`
    results were not finished when they were asked for, and their computation began.
    """

    def __init__(
        self,
        folder: Path,
        n_jobs: int = 1,
        progress: Callable[[str, int, int], None] = lambda name, done, total: None,
    ) -> None:
        self._folder, self.n_jobs, self.progress = folder, n_jobs, progress
        self.cpu_seconds, self.n_missing, self.n_begun = 0.0, 0, 0
        self.finished_only = False
        self.stop = threading.Event()
        self._lock = threading.Lock()

    def path(self, name: str, settings: dict[str, Any]) -> Path:
        """Return the file of a result, which exists once the result is finished."""
        text = json.dumps([version("gapmf"), settings], sort_keys=True)
        key = hashlib.sha256(text.encode()).hexdigest()[:10]
        return self._folder / f"{name}-{key}.json"

    def cached(self, name: str, settings: dict[str, Any], compute: Callable[[], Any]) -> Any:
        """Return what `compute` returns, or returned earlier, in the types of JSON."""
        path = self.path(name, settings)
        if not path.exists():
            if self.finished_only:
                self.n_missing += 1
                raise NotFinishedError(name)
            self.check()
            with self._lock:
                self.n_begun += 1
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
        self.progress(name, 0, len(cases))

        def row(case: dict[str, Any]) -> dict[str, Any] | None:
            found: dict[str, Any] | None = None
            with suppress(NotFinishedError):
                found = self.cached(name, case, partial(compute, **case))
            self.progress(name, next(done), len(cases))
            return found

        rows = for_each(row, cases, self.n_jobs)
        return to_columns([found for found in rows if found is not None])

    def steps(self, name: str, items: Sequence[T]) -> Iterator[T]:
        """Yield the items one by one, and show how many of them are done."""
        for i, item in enumerate(items):
            self.progress(name, i, len(items))
            yield item
        self.progress(name, len(items), len(items))

    def check(self) -> None:
        """Raise KeyboardInterrupt if `stop` is set."""
        if self.stop.is_set():
            raise KeyboardInterrupt


def to_columns(rows: Sequence[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return a table, given as rows with the same keys, as columns."""
    if not rows:
        raise NotFinishedError("every result")
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


class Trace(NamedTuple):
    """A fit: CPU time, sweeps so far and column norms per iteration, and values at some (1 …)."""

    cpu_seconds: Array
    n_sweeps: NDArray[np.int64]
    norms: Array
    values: dict[int, Any]


def parameters_of(est: GammaPoissonMF) -> dict[str, Any]:
    """Return an estimator's parameters, without those that came later and change nothing.

    So results that are older than a parameter stay valid.
    """
    given: dict[str, Any] = est.get_params()
    if given["pseudo_count"] == 0:
        del given["pseudo_count"]
    return given


def trace_fit(
    est: GammaPoissonMF,
    X: Any,
    cache: ResultCache,
    data: dict[str, Any],
    keep: Callable[[Iteration], bool],
    evaluate: Callable[[GaP], Any],
    max_sweeps: int = 10**9,
) -> Trace:
    """Fit, and evaluate the models that `keep` chooses, and the last, outside the clock. Cached.

    `data` is what X, `keep` and `evaluate` were made from: "name" and settings.
    """
    settings = {**data, **parameters_of(est), "max_sweeps": max_sweeps}
    name, n_iter = data["name"], settings["max_iter"]

    def compute() -> dict[str, Any]:
        models: dict[int, GaP] = {}
        seconds, begin = [0.0], time.thread_time()

        def record(state: Iteration) -> bool:
            nonlocal begin
            seconds.append(time.thread_time() - begin + seconds[-1])
            if keep(state):
                models[state.iteration] = state.model
            done = max(state.iteration / n_iter, state.n_sweeps / max_sweeps)
            cache.progress(name, int(1000 * done), 1000)
            begin = time.thread_time()
            return cache.stop.is_set() or state.n_sweeps >= max_sweeps

        est.set_params(callbacks=[record]).fit(X)
        models[est.n_iter_] = est.model_
        cache.progress(name, 1000, 1000)
        values = {}
        for i, model in models.items():
            cache.check()
            values[i] = evaluate(model)
            cache.progress(f"{name}, values", len(values), len(models))
        columns = {key: est.history_[key] for key in ("n_sweeps", "norms")}
        return {"cpu_seconds": seconds[1:], **columns, "values": values}

    found = cache.cached(name.split()[0], settings, compute)
    values = {int(i): value for i, value in found.pop("values").items()}
    return Trace(**{name: np.array(column) for name, column in found.items()}, values=values)


def paper_schedule(
    n_components: int, n_iter: int, n_draws: int, n_burn_in: int, seed: int
) -> GammaPoissonMF:
    """Return the paper's: each iteration has n_burn_in + n_draws sweeps, from the last state."""
    return GammaPoissonMF(
        n_components,
        schedule="paper",
        max_iter=n_iter,
        n_draws=n_draws,
        n_burn_in=n_burn_in,
        random_state=seed,
    )


def trace_runs(
    est: GammaPoissonMF,
    X: Any,
    cache: ResultCache,
    data: dict[str, Any],
    at: Sequence[int],
    evaluate: Callable[[GaP], Any],
) -> dict[str, Trace]:
    """Fit by each of the paper's algorithms, and evaluate the models of the iterations `at`."""

    def trace(algorithm: str) -> Trace:
        one = clone(est).set_params(algorithm=algorithm)
        named = {**data, "name": f"{data['name']}-{algorithm}", "at": list(at)}
        return trace_fit(one, X, cache, named, lambda state: state.iteration in at, evaluate)

    return dict(zip(ALGORITHMS, for_each(trace, ALGORITHMS, cache.n_jobs), strict=True))


def warm_up() -> None:
    """Compile all kernels, so that no clock includes it.

    Without large counts, kernels are compiled without the code for these, apart from the others.
    """
    for largest in (150, 15):
        X = np.array([[3, 1], [0, 2], [largest, 4]])
        for algorithm in ALGORITHMS:
            paper_schedule(2, 2, 2, 1, 0).set_params(algorithm=algorithm).fit(X)
        GammaPoissonMF(2, learn_alpha=True, max_iter=2, schedule="adaptive", random_state=0).fit(X)


def some_iterations(n: int, most: int = 160) -> list[int]:
    """Choose at most `most` of the iterations 1 … n, denser at first."""
    evenly, first = np.linspace(1, n, most // 2), np.geomspace(1, n, most // 2)
    return [int(i) for i in np.unique(np.concatenate([evenly, first]).round().astype(int))]


def as_columns(traces: dict[str, Trace], at: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Return CPU time and norms at these iterations, one run below the other."""
    return to_columns(
        [
            {"algorithm": algorithm, "iteration": i, "cpu_seconds": trace.cpu_seconds[i - 1]}
            | {f"norm_{k}": norm for k, norm in enumerate(trace.norms[i - 1], start=1)}
            for algorithm, trace in traces.items()
            for i in at
        ]
    )


@dataclass(frozen=True)
class BlockState:
    """All that the next block needs."""

    seed: int
    """Of the chains."""
    chains: State
    run: RunState


class LongRun:
    """A fit with an int `random_state`, in blocks that end after the iterations `ends`.

    `name` and `data` tell this run and its data from others in the cache.
    """

    def __init__(
        self,
        est: GammaPoissonMF,
        X: sp.csr_array,
        cache: ResultCache,
        name: str,
        data: dict[str, Any],
        ends: tuple[int, ...],
    ) -> None:
        self._est, self._counts, self._cache = est, check_counts(X), cache
        self.name, self.ends = name, ends
        given = {name: value for name, value in parameters_of(est).items() if name != "max_iter"}
        self._settings = {**data, **given}

    def settings(self, i: int) -> dict[str, Any]:
        """Return the settings of blocks 0 … i, which are those of all longer runs too."""
        return self._settings | {"ends": list(self.ends[: i + 1])}

    def _block(self, i: int) -> tuple[str, dict[str, Any]]:
        return f"{self.name}-to{self.ends[i]}", self.settings(i)

    def _state_file(self, i: int) -> Path:
        return self._cache.path(*self._block(i)).with_suffix(".state")

    def is_finished(self, i: int) -> bool:
        """Return whether block i has been computed."""
        return self._cache.path(*self._block(i)).exists() and self._state_file(i).exists()

    def block(self, i: int) -> dict[str, Any]:
        """Return CPU seconds and norms of the iterations of block i, computed if need be."""
        if not self.is_finished(i):
            self._cache.path(*self._block(i)).unlink(missing_ok=True)
            if i > 0:
                self.block(i - 1)
        found: dict[str, Any] = self._cache.cached(*self._block(i), lambda: self._compute(i))
        return found

    def model(self, i: int) -> GaP:
        """Return the model after block i."""
        return self._read(i).run.model

    def _read(self, i: int) -> BlockState:
        return from_tree(BlockState, read(self._state_file(i), "checkpoint"))

    def _begin(self) -> tuple[LocalEngine, BlockState, Any]:
        """Return what `fit` would begin with."""
        settings = check_settings(self._est.get_params(), self._counts)
        rng = np.random.default_rng(self._est.random_state)
        seed = int(rng.integers(2**64, dtype=np.uint64))
        engine = LocalEngine(self._est.n_jobs)
        engine.load(self._counts, seed)
        schedule = make_schedule(settings, engine)
        first = RunState(first_model(settings, engine, rng), schedule.start())
        return engine, BlockState(seed, engine.state, first), schedule

    def _compute(self, i: int) -> dict[str, Any]:
        engine, state, schedule = self._begin()
        if i > 0:
            state = self._read(i - 1)
            engine.state = state.chains
        seconds, norms = [], []
        begin = time.thread_time()
        for last in run(engine, schedule, state.run, max_iter=self.ends[i]):
            seconds.append(time.thread_time() - begin)
            norms.append(last.model.column_norms)
            self._cache.check()
            self._cache.progress(self.name, last.n_iter, self.ends[-1])
            begin = time.thread_time()
        file = self._state_file(i)
        file.parent.mkdir(parents=True, exist_ok=True)
        content = to_tree(BlockState(state.seed, engine.state, last))
        write(file, "checkpoint", content, version=version("gapmf"))
        return {"cpu_seconds": seconds, "norms": norms}


def joined(blocks: list[dict[str, Any]]) -> tuple[Array, Array]:
    """Return cumulative CPU seconds (n,) and norms (n, K) of all iterations of these blocks."""
    seconds = np.cumsum(np.concatenate([block["cpu_seconds"] for block in blocks]))
    return seconds, np.concatenate([block["norms"] for block in blocks])
