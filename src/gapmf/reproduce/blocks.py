"""Long runs of Monte Carlo EM in blocks of iterations that survive an interruption.

After each block the state of the run, chains included, is written to a file, so that the next block
goes on exactly as if there had been no break.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.counts import check_counts
from gapmf.em.fit import first_model
from gapmf.em.monte_carlo import RunState, make_schedule, run
from gapmf.em.settings import check_settings
from gapmf.engines.base import State
from gapmf.engines.local import LocalEngine
from gapmf.estimator import GammaPoissonMF
from gapmf.model import GaP
from gapmf.reproduce.cache import ResultCache, parameters_of
from gapmf.storage.archive import read, write
from gapmf.storage.state import from_tree, to_tree
from gapmf.types import Array


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
