"""What a Dask worker does for `DaskEngine`: it holds parts of the data, and advances their chains.

Parts are in files of the worker's own folder, mapped while they are drawn. They are found by the
name of the fit, in this process only: when the process is lost, so are they.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import scipy.sparse as sp
from distributed import get_worker
from numpy.typing import NDArray

from gapmf.engines.parts import EStepInputs, FilePart, draw, lay_out
from gapmf.engines.streamed import set_states
from gapmf.io.count_blocks import Summary, counts_of_block, summarise
from gapmf.io.shards import Shards
from gapmf.kernels.gibbs_layout import Sums

BURN_IN = 16  # sweeps of chains that start when others are under way
AFTERWARDS = 1 << 31  # added to the number of an iteration, for their streams


class ChainsLostError(Exception):
    """A worker does not hold the parts that it is asked for; the argument is its address."""


@dataclass
class Held:
    """The parts of one fit that this process holds."""

    folder: Path
    n_features: int
    shards: Shards | None = None
    parts: dict[int, FilePart] = field(default_factory=dict)
    aside: dict[int, int] = field(default_factory=dict)
    """The iteration that follows the state which a part has put aside."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def take(self, numbers: list[int]) -> list[FilePart]:
        """Return parts by their numbers."""
        if not self.parts.keys() >= set(numbers):
            raise ChainsLostError(str(get_worker().address))
        return [self.parts[i] for i in numbers]

    def settle(self, numbers: list[int], iteration: int) -> None:
        """Make the states those from which this iteration begins."""
        for i in numbers:
            if self.aside.get(i) == iteration:
                self.parts[i].commit()
            self.aside.pop(i, None)


_HELD: dict[tuple[str, str], Held] = {}
_LOCK = threading.Lock()


class Lease:
    """Frees what a worker holds of a fit when nobody asks for it any more.

    The client has a future of it. When the client is gone, Dask forgets the future's value.
    """

    def __init__(self, key: tuple[str, str]) -> None:
        self._key = key

    def __del__(self) -> None:
        held = _HELD.pop(self._key, None)
        if held is not None:
            shutil.rmtree(held.folder, ignore_errors=True)


def _key(fit: str) -> tuple[str, str]:
    return str(get_worker().address), fit  # several workers may be in one process


def _held(fit: str) -> Held:
    held = _HELD.get(_key(fit))
    if held is None:
        raise ChainsLostError(str(get_worker().address))
    return held


def lease(fit: str, n_features: int, shards: str | None) -> Lease:
    """Prepare this worker for a fit."""
    key, worker = _key(fit), get_worker()
    with _LOCK:
        if key not in _HELD:
            folder = Path(worker.local_directory) / f"gapmf-{fit}-{worker.id}"
            folder.mkdir()
            _HELD[key] = Held(folder, n_features, None if shards is None else Shards(shards))
    return Lease(key)


class Receipt(NamedTuple):
    """Which worker holds a part, and how many samples it has."""

    worker: str
    number: int
    n_samples: int


def hold_block(fit: str, i: int, block: Any) -> Receipt:
    """Take a computed block of a Dask collection as part i."""
    held = _held(fit)
    return _hold(held, i, counts_of_block(block, held.n_features, i))


def hold_shard(fit: str, i: int) -> Receipt:
    """Read shard i as part i."""
    held = _held(fit)
    assert held.shards is not None
    return _hold(held, i, held.shards.block(i))


def _hold(held: Held, i: int, counts: sp.csr_array) -> Receipt:
    worker = get_worker()
    if counts.shape[0]:
        layout = lay_out(counts, worker.state.nthreads)
        part = FilePart(layout, held.folder, i)
        with held.lock:
            held.parts[i] = part
            held.aside.pop(i, None)
    return Receipt(worker.address, i, counts.shape[0])


def number_samples(fit: str, first: dict[int, int]) -> Summary:
    """Tell the parts which samples of all data they are; return a summary of them."""
    held = _held(fit)
    summaries = []
    for i, start in first.items():
        [part] = held.take([i])
        part.first_sample = start
        summaries.append(summarise(part.layout().counts(held.n_features), start))
    return sum(summaries[1:], start=summaries[0])


def restart(fit: str, numbers: list[int]) -> None:
    """Begin the chains of parts anew."""
    held = _held(fit)
    with held.lock:
        for part in held.take(numbers):
            part.restart()
        held.aside.clear()


@dataclass(frozen=True)
class Parcel:
    """What an E-step is told, in a class that Dask does not look into."""

    inputs: EStepInputs


def receive(parcel: Parcel) -> Parcel:
    """Take a parcel, so that it is in the memory of a worker."""
    return parcel


def advance(fit: str, numbers: list[int], parcel: Parcel) -> Sums:
    """Advance the chains of parts, and return their sums.

    The same iteration may be asked for twice: then it begins twice from the same state.
    """
    held, n_threads, inputs = _held(fit), get_worker().state.nthreads, parcel.inputs
    iteration = inputs.plan.iteration
    with held.lock:
        parts = held.take(numbers)
        held.settle(numbers, iteration)
        if iteration > 0 and (new := [part for part in parts if part.state() is None]):
            _burn_in(new, inputs, n_threads)
        sums = draw(parts, inputs, n_threads)
        held.aside |= dict.fromkeys(numbers, iteration + 1)
    return sums


def _burn_in(parts: list[FilePart], inputs: EStepInputs, n_threads: int) -> None:
    """Start chains at the present W, to replace those that were lost."""
    plan = inputs.plan._replace(
        iteration=AFTERWARDS + inputs.plan.iteration,
        n_sweeps=BURN_IN,
        n_burn_in=BURN_IN - 1,
        expectations=False,
    )
    draw(parts, inputs._replace(plan=plan), n_threads)
    for part in parts:
        part.commit()


def add_pair(a: Sums, b: Sums) -> Sums:
    """Add the sums of two workers. Neither changes: Dask may need them again."""
    return Sums(a.c + b.c, a.g + b.g, a.sizes + b.sizes)


def get_states(
    fit: str, numbers: list[int], iteration: int
) -> list[tuple[int, NDArray[Any] | None]]:
    """Return the states of parts before an iteration, with the numbers of their first samples."""
    held = _held(fit)
    with held.lock:
        parts = held.take(numbers)
        held.settle(numbers, iteration)
        return [(part.first_sample, part.state()) for part in parts]


def put_states(fit: str, states: dict[int, NDArray[Any]]) -> None:
    """Set the states of parts."""
    held = _held(fit)
    with held.lock:
        for part, L in zip(held.take(list(states)), states.values(), strict=True):
            set_states([part], L, part.first_sample)
        for i in states:
            held.aside.pop(i, None)


def map_counts(fit: str, numbers: list[int], function: Callable[[sp.csr_array], Any]) -> list[Any]:
    """Apply a function to the counts of parts."""
    held = _held(fit)
    return [function(part.layout().counts(held.n_features)) for part in held.take(numbers)]
