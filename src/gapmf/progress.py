"""The progress bar of a fit, for `verbose`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from gapmf.em.history import Callback, Iteration

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@contextmanager
def progress_bar(
    verbose: int, *, label: str, max_iter: int, prune_tol: float
) -> Iterator[tuple[Callback, ...]]:
    """Show a bar while a fit runs; yield the callbacks that move it, none when not verbose."""
    if not verbose:
        yield ()
        return
    with _new_bar() as bar:
        progress = FitProgress(bar, bar.add_task(label, total=max_iter, text="starting"))
        progress.max_iter, progress.prune_tol = max_iter, prune_tol
        yield (progress.show,)
        progress.end()


class FitProgress:
    """Shows where a fit is; `show` is a callback."""

    max_iter: int
    prune_tol: float

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar, self._task = bar, task
        self._value, self._text, self._n_iter = np.nan, "", 0

    def show(self, record: Iteration) -> None:
        """Show an iteration."""
        self._n_iter = record.iteration
        if np.isfinite(record.log_likelihood):
            self._value = record.log_likelihood
        rank = int((record.model.shares > self.prune_tol).sum())
        parts = [f"rank {rank} of {record.model.n_components}"]
        if record.n_sweeps:
            parts.append(f"{record.n_sweeps / max(record.seconds, 1e-9):,.1f} sweeps/s")
        if np.isfinite(self._value):
            parts.append(f"log p {self._value:,.1f}")
        self._text = " · ".join(parts)
        left = (self.max_iter - record.iteration) * record.seconds / record.iteration
        text = f"{self._text} · at most {format_duration(left)} more"
        self._bar.update(self._task, completed=record.iteration, text=text)

    def end(self) -> None:
        """Show that the fit has ended."""
        n = self._n_iter
        self._bar.update(self._task, total=n, completed=n, text=self._text)


def format_duration(seconds: float) -> str:
    """Return a duration as text, rounded to what a reader needs."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _new_bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns: tuple[Any, ...] = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), refresh_per_second=4)
