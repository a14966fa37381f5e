"""The clock of a fit: CPU and wall seconds, peak memory, and looks at the model on the way."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peers.protocol import Fitted

FIRST_LOOK, GROWTH = 0.25, 2.0  # CPU seconds; each look at twice the time of the last one
OVERTIME = 1.2  # a fit that cannot be stopped may take this much longer than its limit


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of the children that it has waited for."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        total += used.ru_utime + used.ru_stime
    return total


def reset_peak() -> bool:
    """Forget the peak memory of this process so far; False where the system cannot (Linux can)."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def peak_mib() -> float:
    """Return the peak memory of this process since `reset_peak`, in MiB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


class Watch:
    """Counts time while a peer works, and not while the model is judged.

    `judge(fitted)` returns the measures of a model. They are taken at 0.25, 0.5, 1, 2, … CPU
    seconds, so that all peers are compared at equal time. The clock stops meanwhile. A fit that
    has used `limit` CPU seconds is told to stop.
    """

    def __init__(self, judge: Callable[[Fitted], dict[str, Any]], limit: float):
        self.judge, self.limit = judge, limit
        self.looks: list[dict[str, Any]] = []
        self.cpu = self.wall = 0.0
        self.next_look = FIRST_LOOK
        self.was_stopped = False
        self.peak = 0.0
        self.knows_peak = reset_peak()
        self.base = peak_mib() if self.knows_peak else 0.0
        self._start()

    def _start(self) -> None:
        self.knows_peak = self.knows_peak and reset_peak()
        self._cpu, self._wall = cpu_seconds(), time.perf_counter()

    def pause(self) -> None:
        """Stop the clock."""
        self.cpu += cpu_seconds() - self._cpu
        self.wall += time.perf_counter() - self._wall
        if self.knows_peak:
            self.peak = max(self.peak, peak_mib())

    def restart(self) -> None:
        """Set the clock to zero: a peer that cannot be looked at fits again, for longer."""
        self.cpu = self.wall = 0.0
        self._start()

    def begin(self) -> None:
        """Start anew: the package is imported and the data have the form that it reads."""
        self.peak = 0.0
        self.knows_peak = self.knows_peak and reset_peak()
        self.base = peak_mib() if self.knows_peak else 0.0
        self.restart()

    def __call__(self, passes: float, make: Callable[[], Fitted]) -> bool:
        """Look at the model if it is time; return whether to stop."""
        self.pause()
        if self.cpu >= self.next_look:
            while self.cpu >= self.next_look:
                self.next_look *= GROWTH
            seen = {"cpu": self.cpu, "wall": self.wall, "passes": passes}
            self.looks.append(seen | self.judge(make()))
        self.was_stopped = self.cpu >= self.limit
        self._start()
        return self.was_stopped

    def complete(self) -> None:
        """Say that a fit ended by its own rule, even if it took longer than the limit."""
        self.was_stopped = False

    def allows(self, factor: float) -> bool:
        """Return whether a fit that takes so many times as long would be within the limit."""
        allowed = factor * self.cpu <= OVERTIME * self.limit
        self.was_stopped = not allowed
        return allowed

    @property
    def memory_mib(self) -> float | None:
        """Peak memory of the fit above that of the process with its data, or None."""
        return max(self.peak - self.base, 0.0) if self.knows_peak else None
