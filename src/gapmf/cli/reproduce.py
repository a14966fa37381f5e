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
        tasks: dict[str, TaskID] = {}
        lock = threading.Lock()

        def show(name: str, done: int, total: int) -> None:  # from any thread
            with lock:
                if name not in tasks:
                    tasks[name] = bar.add_task(name, total=total)
                bar.update(tasks[name], completed=done, visible=done < total)

        cache = ResultCache(folder / "results", check_n_jobs(jobs), show)

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
