"""`gapmf reproduce`: the figures of the paper, and more."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from gapmf.cli.files import echo
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
        find_nips(options.data)  # rather than after hours of other figures
    with _bar() as bar:
        cache = ResultCache(folder / "pieces", check_n_jobs(jobs), _PieceProgress(bar))
        with cache.lock(), _stopping(cache, folder):
            for name in names:
                reproduce(name, folder, options, quick=quick, cache=cache, report=echo)


class _PieceProgress:
    """A line of the progress display for each piece that is being made."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}
        self._done: dict[str, int] = {}
        self._lock = threading.Lock()

    def __call__(self, name: str, done: int, total: int) -> None:
        with self._lock:
            if name not in self._tasks:
                self._tasks[name] = self._bar.add_task(name, total=total)
            done = self._done[name] = max(done, self._done.get(name, 0))  # threads overtake others
        self._bar.update(self._tasks[name], completed=done, visible=done < total)


@contextmanager
def _stopping(cache: ResultCache, folder: Path) -> Iterator[None]:
    """Ctrl-C reaches the threads that work, too; what they made so far stays."""

    def stop(number: int, frame: FrameType | None) -> None:
        cache.stop.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except KeyboardInterrupt:
        echo(f"what was made so far is in {folder / 'pieces'}: the same command goes on from there")
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _bar() -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
        console=console,
        refresh_per_second=2,
        transient=True,
        disable=not console.is_terminal,
    )
