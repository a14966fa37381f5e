"""Checkpoints: the state of a fit, written from time to time, so that a killed fit can resume.

The clock decides when a checkpoint is written, but never what a fit computes.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gapmf.errors import InvalidInputError, StorageError
from gapmf.storage.archive import FilePath, check_parent_folder, read, read_header, write
from gapmf.storage.state import to_tree
from gapmf.types import Tree

if TYPE_CHECKING:  # SciPy takes long, and printing a saved model does not need it
    from gapmf.csr import Digest

EVERY_SECONDS = 15.0
_SHARE = 20.0  # at most one part in so many of the time is spent on writing


class Checkpoint:
    """The checkpoint file of a running fit.

    `head` is what stays the same during the fit, and `version` that of gapmf. If the fit was
    `resumed`, the file has progress in it already.
    """

    def __init__(self, path: FilePath, head: Tree, *, version: str, resumed: bool = False) -> None:
        self._path, self._head, self._version = Path(path), head, version
        self._next = 0.0
        self._has_progress, self._written = resumed, False

    def is_due(self) -> bool:
        """Return whether the last state that was written is old enough to write another."""
        return time.monotonic() >= self._next

    def write_progress(self, state: Any) -> None:
        """Write where the fit is."""
        begin = time.monotonic()
        self.write(state)
        self._has_progress = True
        end = time.monotonic()
        self._next = end + max(EVERY_SECONDS, _SHARE * (end - begin))

    def write(self, state: Any, *, finished: bool = False) -> None:
        """Write a state that `to_tree` can convert."""
        self._written = True
        content = self._head | {"state": to_tree(state), "finished": finished}
        write(self._path, "checkpoint", content, version=self._version)

    def discard(self) -> None:
        """Remove what this fit wrote, unless it holds progress that could be resumed."""
        if self._written and not self._has_progress:
            self._path.unlink(missing_ok=True)


def read_checkpoint(path: FilePath, *, version: str) -> Tree:
    """Read a checkpoint's head, "state" and "finished". Another version's is refused."""
    header = read_header(path)
    if header["kind"] == "checkpoint" and header["gapmf"] != version:
        raise StorageError(
            f"{path} is a checkpoint of gapmf {header['gapmf']}, and this is {version}: resume it "
            "with that version, or remove the file and fit again"
        )
    content: Tree = read(path, "checkpoint")
    return content


def check_no_unfinished_fit(path: FilePath, *, version: str) -> None:
    """Raise if the file cannot be written, or is not the checkpoint of a finished fit."""
    check_parent_folder(Path(path))
    if not Path(path).exists() or read(path, "checkpoint").get("finished"):
        return
    read_checkpoint(path, version=version)  # raises for another version
    raise InvalidInputError(
        f"{path} is the checkpoint of a fit that has not finished: resume it (in Python by "
        "resume, on the command line by --resume), or remove the file to start again"
    )


def fingerprint(
    shape: tuple[int, int], digest: Digest, weights: Any = None, observed: Any = ()
) -> str:
    """Return a hash of the data of a fit: counts by their digest, and the samples' weights.

    `observed` are bytes that tell how each sample was observed, if not all were alike.
    """
    hasher = hashlib.sha256(repr((*map(int, shape), *digest)).encode())
    if weights is not None:
        hasher.update(np.asarray(weights, dtype="<f8").tobytes())
    for key in observed:
        hasher.update(len(key).to_bytes(8, "little") + key)
    return hasher.hexdigest()
