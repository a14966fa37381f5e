"""Independent tasks in one thread or several."""

from __future__ import annotations

import math
import numbers
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import joblib
import numpy as np
from numpy.typing import NDArray

from gapmf.errors import InvalidInputError

Task = TypeVar("Task")
Result = TypeVar("Result")
Local = TypeVar("Local")

BLOCK_WORK = 5e8  # a fraction of a second, so Ctrl-C is answered
BLOCKS_PER_THREAD = 24  # so that no thread waits long for the last one

Progress = Callable[[float], None]
"""Called now and then, in the main thread, with the part of the work that is done: 0 to 1."""


def part_of(progress: Progress | None, start: float, end: float) -> Progress | None:
    """Return the progress of a step that takes a call from `start` to `end`."""
    if progress is None:
        return None
    return lambda done: progress(start + (end - start) * done)


def check_n_jobs(n_jobs: Any) -> int:
    """Return the number of threads for `n_jobs`, which has scikit-learn's meaning."""
    whole = isinstance(n_jobs, numbers.Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not whole:
        raise InvalidInputError(f"n_jobs must be None or an integer, but is {n_jobs!r}")
    if n_jobs == 0:
        raise InvalidInputError("n_jobs is 0: use None or 1 for one thread, -1 for all cores")
    return int(joblib.effective_n_jobs(None if n_jobs is None else int(n_jobs)))


def even_blocks(work: NDArray[np.float64], factor: float, n_threads: int) -> list[tuple[int, int]]:
    """Cut rows into blocks (first, last) of about equal work.

    `work` has running sums over the rows; times `factor`, they are multiplications or so.
    """
    N = work.size
    n_blocks = math.ceil(work[-1] * factor / BLOCK_WORK)
    if n_threads > 1:
        n_blocks = max(n_blocks, BLOCKS_PER_THREAD * n_threads)
    n_blocks = max(1, min(n_blocks, N))
    ends = np.searchsorted(work, work[-1] * np.arange(1, n_blocks) / n_blocks)
    cuts = np.unique(np.concatenate([[0], ends, [N]]))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def map_reduce(
    work: Callable[[Task, Local], None],
    tasks: Sequence[Task],
    new_local: Callable[[], Local],
    n_jobs: int | None,
    progress: Progress | None = None,
) -> list[Local]:
    """Run all tasks in threads and return one accumulator per thread.

    Each thread calls `work(task, local)` with its own accumulator `local = new_local()`. After
    an error or Ctrl-C no further task starts; the call returns when running tasks have ended.
    """
    waiting = deque(tasks)
    done: deque[None] = deque()  # one entry per finished task: appending is safe in threads

    def tell() -> None:
        if progress is not None:
            progress(len(done) / max(len(tasks), 1))

    def worker(alone: bool = False) -> Local:
        local = new_local()
        try:
            while True:
                try:
                    task = waiting.popleft()
                except IndexError:
                    return local
                work(task, local)
                done.append(None)
                if alone:
                    tell()
        finally:
            waiting.clear()

    n_threads = max(1, min(check_n_jobs(n_jobs), len(tasks)))
    if n_threads == 1:
        with _unwrap_keyboard_interrupt():
            return [worker(alone=True)]
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            futures = [pool.submit(worker) for _ in range(n_threads)]
            # Wake up regularly: only the main thread handles signals.
            while wait(futures, timeout=0.1).not_done:
                tell()
            tell()
            return [future.result() for future in futures]
        finally:
            waiting.clear()


@contextmanager
def _unwrap_keyboard_interrupt() -> Iterator[None]:
    """Raise the KeyboardInterrupt that Numba's dispatcher wraps in a SystemError."""
    try:
        yield
    except SystemError as error:
        if is_interruption(error):
            raise KeyboardInterrupt from error
        raise


def is_interruption(error: BaseException | None) -> bool:
    """Return whether an error is a KeyboardInterrupt, or was made of one by Numba's dispatcher."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def for_each(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    n_jobs: int | None,
    progress: Progress | None = None,
) -> list[Result]:
    """Return [work(task) for task in tasks], computed in threads; kernels release the GIL."""
    results: dict[int, Result] = {}

    def keep(i: int, _: None) -> None:
        results[i] = work(tasks[i])

    map_reduce(keep, range(len(tasks)), lambda: None, n_jobs, progress)
    return [results[i] for i in range(len(tasks))]


ROWS_WORK = 1 << 18  # entries of a matrix below which a second thread costs more than it saves


def by_rows(work: Callable[[int, int], None], shape: tuple[int, ...], n_threads: int) -> None:
    """Call work(first, last) for blocks of the rows of a matrix of this shape, in threads."""
    n = max(1, min(n_threads, shape[0] * shape[1] // ROWS_WORK))
    if n == 1:
        return work(0, shape[0])
    cuts = [shape[0] * i // n for i in range(n + 1)]
    map_reduce(lambda block, _: work(*block), list(pairwise(cuts)), lambda: None, n)
    return None
