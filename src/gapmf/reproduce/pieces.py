"""Pieces of an experiment, kept in a folder: a call that was stopped is gone on with by the next.

A piece is named by what it is and by a hash of its settings and of the version, so that none is
taken for another. The folder may be removed at any time: what is missing is made again.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from gapmf.errors import InvalidInputError
from gapmf.files import replace_file
from gapmf.parallel import for_each

try:
    import fcntl
except ImportError:  # pragma: no cover (Windows has other locks)
    fcntl = None  # type: ignore[assignment]

Settings = dict[str, Any]
Made = TypeVar("Made")


class Workshop:
    """Where an experiment works: its folder of pieces, its threads, and whom it tells.

    Parameters
    ----------
    folder : path
        Of the pieces; it is made when the first is.
    n_jobs : int
        Pieces that are made at the same time, each by one thread, so that CPU time can be told.
    tell : callable, optional
        Gets the name of a piece, how much of it is done, and of how much.
    """

    def __init__(
        self,
        folder: Path,
        n_jobs: int = 1,
        tell: Callable[[str, int, int], None] = lambda name, done, total: None,
    ) -> None:
        self._folder, self._n_jobs, self.tell = folder, n_jobs, tell
        self.cpu_seconds = 0.0
        """What all pieces took, whenever they were made."""
        self._adding = threading.Lock()
        self.stop = threading.Event()
        """When it is set, what is being made is given up, and a KeyboardInterrupt says so."""

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have the folder to oneself: two calls would write the same pieces."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w", encoding="utf-8") as file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise InvalidInputError(
                        f"another call is working in {self._folder}: wait for it, or name "
                        "another folder for the figures"
                    ) from None
            yield

    def path(self, name: str, settings: Settings, suffix: str) -> Path:
        """The file of a piece."""
        said = json.dumps([version("gapmf"), settings], sort_keys=True)
        key = hashlib.sha256(said.encode()).hexdigest()[:10]
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"{name}-{key}{suffix}"

    def take(self, name: str, settings: Settings, make: Callable[[], Any]) -> Any:
        """What `make` gives, in the types of JSON, or gave at an earlier call."""
        path = self.path(name, settings, ".json")
        if not path.exists():
            self.check()
            begin = time.thread_time()
            made = make()
            self.check()  # a fit that was stopped returns what it has: no piece
            text = json.dumps({"cpu_seconds": time.thread_time() - begin, "made": made})
            replace_file(path, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))
        piece = json.loads(path.read_text(encoding="utf-8"))
        self.took(piece["cpu_seconds"])
        return piece["made"]

    def took(self, seconds: float) -> None:
        """Add the CPU time of a piece, whenever that was made."""
        with self._adding:
            self.cpu_seconds += seconds

    def check(self) -> None:
        """Stop here if it is time to."""
        if self.stop.is_set():
            raise KeyboardInterrupt

    def side_by_side(self, tasks: Sequence[Callable[[], Made]]) -> list[Made]:
        """What the tasks give, made at the same time as far as there are threads."""
        return for_each(lambda task: task(), tasks, self._n_jobs)
