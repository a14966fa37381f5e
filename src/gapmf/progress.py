"""What a fit shows while it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from gapmf.em.history import Iteration
from gapmf.em.settings import Settings

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@contextmanager
def progress_bar(verbose: int, settings: Settings) -> Iterator[Settings]:
    """The settings of a fit whose progress is shown, if it is to be."""
    if not verbose:
        yield settings
        return
    with _new_bar() as bar:
        task = bar.add_task(settings.algorithm, total=settings.max_iter, said="starting")
        teller = ProgressCallback(bar, task, settings)
        yield dataclasses.replace(settings, callbacks=(teller, *settings.callbacks))
        teller.end()


class ProgressCallback:
    """A callback that says where a fit is."""

    def __init__(self, bar: Progress, task: TaskID, settings: Settings) -> None:
        self._bar, self._task = bar, task
        self._prune_tol, self._most = settings.prune_tol, settings.max_iter
        self._value = np.nan
        self._said = ""
        self.last = 0

    def __call__(self, record: Iteration) -> None:
        """Show an iteration."""
        self.last = record.iteration
        if np.isfinite(record.log_likelihood):
            self._value = record.log_likelihood
        rank = int((record.model.shares > self._prune_tol).sum())
        said = [f"rank {rank} of {record.model.n_components}"]
        if record.n_sweeps:
            said.append(f"{record.n_sweeps / max(record.seconds, 1e-9):,.1f} sweeps/s")
        if np.isfinite(self._value):
            said.append(f"log p {self._value:,.1f}")
        self._said = " · ".join(said)
        left = (self._most - record.iteration) * record.seconds / record.iteration
        shown = f"{self._said} · at most {_duration(left)} more"
        self._bar.update(self._task, completed=record.iteration, said=shown)

    def end(self) -> None:
        """Show that it is over."""
        self._bar.update(self._task, total=self.last, completed=self.last, said=self._said)


def _duration(seconds: float) -> str:
    """A length of time, roughly."""
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
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), refresh_per_second=4)
