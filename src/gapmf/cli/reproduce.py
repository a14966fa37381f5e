"""`gapmf reproduce`: the figures of the paper, and more."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from gapmf.cli.options import echo
from gapmf.errors import InvalidInputError
from gapmf.parallel import check_n_jobs
from gapmf.progress import format_duration
from gapmf.reproduce import FIGURES, Options, ResultCache, reproduce
from gapmf.reproduce.nips import find_nips


class Bars:
    """One bar per name, each with the time that is left.

    Results that were finished earlier say nothing about that time: it is counted from where a bar
    was when the first result was `begun`.
    """

    def __init__(
        self, bar: Progress, begun: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bar, self._begun, self._clock = bar, begun, clock
        self._tasks: dict[str, TaskID] = {}
        self._since: dict[str, tuple[float, int]] = {}
        self._last: dict[str, int] = {}
        self._lock = threading.Lock()

    def show(self, name: str, done: int, total: int) -> None:
        """Move the bar of this name; called from any thread."""
        with self._lock:
            now = self._clock()
            if name not in self._tasks:
                self._tasks[name] = self._bar.add_task(name, total=total, left="")
            elif done < self._last[name]:  # the same again, of other data
                self._bar.reset(self._tasks[name], total=total, left="")
            if done < self._last.get(name, done + 1) or not self._begun():
                self._since[name] = now, done
            self._last[name] = done
            left = time_left(now - self._since[name][0], done - self._since[name][1], total - done)
            self._bar.update(self._tasks[name], completed=done, visible=done < total, left=left)


def time_left(seconds: float, n_done: int, n_left: int) -> str:
    """Return how long so much more work will take, in words; nothing as long as nothing is done."""
    return f"about {format_duration(seconds / n_done * n_left)} left" if n_done > 0 else ""


def _columns() -> tuple[Any, ...]:
    return (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )


def run(figure: str, folder: Path, options: Options, jobs: int, *, quick: bool) -> None:
    """Make one figure, or all of them."""
    if figure != "all" and figure not in FIGURES:
        raise InvalidInputError(
            f"there is no figure {figure!r}: choose from {', '.join(FIGURES)}, all"
        )
    names = list(FIGURES) if figure == "all" else [figure]
    if any(FIGURES[name].needs_nips for name in names):
        find_nips(options.data)  # fail now rather than after hours of other figures
    try:
        _with_bars(names, folder, options, jobs, quick=quick)
    except KeyboardInterrupt:  # said when the bars are gone
        echo("run the same command again to continue: finished results are kept")
        raise


def _with_bars(names: list[str], folder: Path, options: Options, jobs: int, *, quick: bool) -> None:
    console = Console(stderr=True)
    disable = not console.is_terminal
    with Progress(*_columns(), console=console, transient=True, disable=disable) as bar:
        cache = ResultCache(folder / "results", check_n_jobs(jobs))
        cache.progress = Bars(bar, lambda: cache.n_begun > 0).show

        def say(line: str) -> None:  # above the bars
            console.print(f"gapmf: {line}", soft_wrap=True, highlight=False, markup=False)

        def stop(*_: Any) -> None:  # in all threads, not only in the main one
            cache.stop.set()
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, stop)
        try:
            for name in names:
                reproduce(name, folder, options, quick=quick, cache=cache, report=say)
        finally:
            signal.signal(signal.SIGINT, before)
