"""A fit that survives being killed: what there is to go on from, written every so often.

When it is written is a matter of the clock; what a fit comes to is not.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import gapmf.storage as storage
from gapmf.errors import InvalidInputError
from gapmf.types import Tree

EVERY_SECONDS = 15.0
_SHARE = 20.0  # of the time, writing takes at most one part in so many


class Checkpoint:
    """A file that a fit writes as it goes.

    Parameters
    ----------
    path : str or path
    head : dict
        What stays the same during the fit.
    resumed : bool
        Whether the fit goes on from an earlier one.
    """

    def __init__(self, path: Any, head: Tree, *, resumed: bool = False) -> None:
        self._path, self._head = Path(path), head
        self._next = 0.0
        self._worth_keeping = resumed

    def write_if_due(self, make: Callable[[], Tree]) -> None:
        """Write what `make` packs, if it is time to."""
        begin = time.monotonic()
        if begin < self._next:
            return
        self.write(make())
        self._worth_keeping = True
        end = time.monotonic()
        self._next = end + max(EVERY_SECONDS, _SHARE * (end - begin))

    def write(self, state: Tree | None, *, finished: bool = False) -> None:
        """Write now; without a state, that the fit is to begin anew."""
        content = self._head | {"state": state, "finished": finished}
        storage.write(self._path, "checkpoint", content)

    def discard(self) -> None:
        """Remove the file if there is nothing in it to go on from."""
        if not self._worth_keeping:
            self._path.unlink(missing_ok=True)


def check_no_unfinished_fit(path: Any) -> None:
    """Say so when a fit that was killed has left its checkpoint there."""
    if not Path(path).exists():
        return
    found = storage.read(path, "checkpoint")
    if not found.get("finished"):
        raise InvalidInputError(
            f"{path} is the checkpoint of a fit that did not end: go on from it with "
            "GammaPoissonMF.resume(path, X), or remove it to begin anew"
        )


def fingerprint(counts: sp.csr_array, weights: Any = None) -> str:
    """A hash of the data of a fit."""
    hasher = hashlib.sha256(repr(counts.shape).encode())
    for array in (counts.indptr, counts.indices, counts.data):
        hasher.update(array.astype("<i8").tobytes())
    if weights is not None:
        hasher.update(np.asarray(weights, dtype="<f8").tobytes())
    return hasher.hexdigest()
