"""The progress bar of a fit, for `verbose`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from gapmf.em.history import Callback, Iteration

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress_bar(
    verbose: int, *, label: str, max_iter: int, prune_tol: float
) -> Iterator[tuple[Callback, ...]]:
    """Show a bar while a fit runs; yield the callbacks that move it, none when not verbose."""
    if not verbose:
        yield ()
        return
    shown: dict[str, Any] = {"text": "", "n": 0, "value": np.nan}
    with _new_bar() as bar:
        task = bar.add_task(label, total=max_iter, text="starting")

        def show(record: Iteration) -> None:
            rank = int((record.model.shares > prune_tol).sum())
            parts = [f"rank {rank} of {record.model.n_components}"]
            if record.n_sweeps:
                parts.append(f"{record.n_sweeps / max(record.seconds, 1e-9):,.1f} sweeps/s")
            if np.isfinite(record.log_likelihood):
                shown["value"] = record.log_likelihood
            if np.isfinite(shown["value"]):
                parts.append(f"log p {shown['value']:,.1f}")
            shown["text"], shown["n"] = " · ".join(parts), record.iteration
            left = (max_iter - record.iteration) * record.seconds / record.iteration
            text = f"{shown['text']} · at most {format_duration(left)} more"
            bar.update(task, completed=record.iteration, text=text)

        yield (show,)
        n = shown["n"]
        bar.update(task, total=n, completed=n, text=shown["text"])


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
