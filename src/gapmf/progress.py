"""Progress bars, for `verbose`: of a fit, and of other calls that may take long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from gapmf.em.history import Callback, Iteration
from gapmf.parallel import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

LONG = 60.0  # seconds of waiting that are announced, with the option that makes them fewer
_FIRST_LOOK = 3.0  # seconds after which the time that is left can be predicted


@contextmanager
def progress_bar(verbose: int, label: str, *, shorter: str = "") -> Iterator[Progress | None]:
    """Show a bar while a call runs; yield what moves it, or None when not verbose.

    When the call turns out to be long, one line says how long, and how to make it `shorter`.
    """
    if not verbose:
        yield None
        return
    start = time.perf_counter()
    announced = False
    with _new_bar(_percent_columns()) as bar:
        task = bar.add_task(label, total=1.0)

        def move(done: float) -> None:
            nonlocal announced
            bar.update(task, completed=done)
            passed = time.perf_counter() - start
            if announced or passed < _FIRST_LOOK or done <= 0.0:
                return
            announced = True
            left = passed * (1.0 - done) / done
            if left > LONG:
                advice = f"; {shorter} makes it shorter" if shorter else ""
                bar.console.print(
                    f"{label}: about {format_duration(left)} more{advice}", highlight=False
                )

        yield move
        bar.update(task, completed=1.0)


@contextmanager
def fit_bar(
    verbose: int, *, label: str, max_iter: int, prune_tol: float, tol: float
) -> Iterator[tuple[Callback, ...]]:
    """Show a bar while a fit runs; yield the callbacks that move it, none when not verbose."""
    if not verbose:
        yield ()
        return
    shown: dict[str, Any] = {"text": "", "n": 0, "value": np.nan}
    with _new_bar(_fit_columns()) as bar:
        task = bar.add_task(label, total=max_iter, text="starting")

        def show(record: Iteration) -> None:
            rank = int((record.model.shares > prune_tol).sum())
            parts = [f"rank {rank} of {record.model.n_components}"]
            if np.isfinite(record.objective):
                parts.append(f"objective {record.objective:,.1f}")
            if np.isfinite(record.log_likelihood):
                shown["value"] = record.log_likelihood
            if np.isfinite(shown["value"]):
                parts.append(f"log p {shown['value']:,.1f}")
            shown["text"], shown["n"] = " · ".join(parts), record.iteration
            if np.isfinite(record.gain):  # of the window before: not what ended the fit
                parts.insert(1, f"gain {record.gain:.1e} (stops at {tol:.0e})")
            left = (max_iter - record.iteration) * record.seconds / record.iteration
            text = " · ".join([*parts, f"at most {format_duration(left)} more"])
            bar.update(task, completed=record.iteration, text=text)

        yield (show,)
        n = shown["n"]
        bar.update(task, total=n, completed=n, text=shown["text"])


def format_duration(seconds: float) -> str:
    """Return a duration as text, rounded to what a reader needs."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _fit_columns() -> tuple[Any, ...]:
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    return (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )


def _percent_columns() -> tuple[Any, ...]:
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    return (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )


def _new_bar(columns: tuple[Any, ...]) -> Bar:
    from rich.console import Console
    from rich.progress import Progress as Bar

    return Bar(*columns, console=Console(stderr=True), refresh_per_second=4)
