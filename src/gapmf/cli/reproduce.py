"""`gapmf reproduce`: the figures of the paper, and more."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from gapmf.cli.options import echo
from gapmf.errors import InvalidInputError
from gapmf.parallel import check_n_jobs
from gapmf.reproduce import FIGURES, Options, ResultCache, reproduce
from gapmf.reproduce.nips import find_nips


def run(figure: str, folder: Path, options: Options, jobs: int, *, quick: bool) -> None:
    """Make one figure, or all of them."""
    if figure != "all" and figure not in FIGURES:
        raise InvalidInputError(
            f"there is no figure {figure!r}: choose from {', '.join(FIGURES)}, all"
        )
    names = list(FIGURES) if figure == "all" else [figure]
    if any(FIGURES[name].needs_nips for name in names):
        find_nips(options.data)  # fail now rather than after hours of other figures
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
    )
    disable = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=disable) as bar:
        cache = ResultCache(folder / "results", check_n_jobs(jobs), _Progress(bar))

        def stop(*_: Any) -> None:  # in all threads, not only in the main one
            cache.stop.set()
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, stop)
        try:
            for name in names:
                reproduce(name, folder, options, quick=quick, cache=cache, report=echo)
        except KeyboardInterrupt:
            echo("run the same command again to continue: finished results are kept")
            raise
        finally:
            signal.signal(signal.SIGINT, before)


class _Progress:
    """Shows one bar per result that is being computed, from any thread."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()

    def __call__(self, name: str, done: int, total: int) -> None:
        with self._lock:
            if name not in self._tasks:
                self._tasks[name] = self._bar.add_task(name, total=total)
            self._bar.update(self._tasks[name], completed=done, visible=done < total)
