"""The engine of data that are not in memory: parts in files, drawn by the threads of one machine.

What `PartedEngine` does is the same wherever the parts are: `advance` tells them W, and adds what
comes back. Sums are in units of the whole data, and a sample's draws are addressed by its number in
the whole, so that W has the same bits as from `LocalEngine`.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.engines.base import State, Statistics, Sweeps
from gapmf.engines.local import check_chains, inputs_for, n_sizes_for, to_statistics
from gapmf.engines.parts import EStepInputs, FilePart, Part, draw, lay_out
from gapmf.errors import InvalidInputError, ReadError
from gapmf.io.count_blocks import CountBlocks, Summary, summarise
from gapmf.kernels.gibbs_layout import Sums
from gapmf.model import GaP
from gapmf.parallel import check_n_jobs
from gapmf.types import Array

T = TypeVar("T")


class PartedEngine(ABC):
    """An engine of data in parts. `start` gives it a seed, and begins its chains anew."""

    observation: None = None
    summary: Summary
    _n_threads: int
    """Of one process."""

    def __init__(self) -> None:
        self._seed, self._iteration = 0, 0

    @property
    def n_samples(self) -> int:
        """N."""
        return self.summary.n_samples

    @property
    def totals(self) -> Array:
        """(F,): Σ_n v_fn."""
        return self.summary.totals.astype(np.float64)

    @property
    def mean_counts(self) -> Array:
        """(F,): Σ_n v_fn / N."""
        return self.totals / self.n_samples

    def start(self, seed: int) -> None:
        """Begin all chains anew, to draw from the streams of `seed`."""
        self._seed, self._iteration = seed, 0
        self._restart()

    def advance(self, model: GaP, sweeps: Sweeps) -> Statistics:
        """One E-step from the present state. If it is interrupted the state is as before."""
        totals, n = self.totals, self.n_samples
        step = {"seed": self._seed, "iteration": self._iteration}
        inputs = inputs_for(model, sweeps, totals, n, **step)
        n_sizes = n_sizes_for(sweeps, self.summary.largest, model.n_components, self._n_threads)
        sums = self._collect(inputs._replace(n_sizes=n_sizes))
        self._iteration += 1
        return to_statistics(sums, inputs.scales, totals, n, model, sweeps, self._n_threads)

    @abstractmethod
    def _restart(self) -> None:
        """Return all chains to before their first sweep."""

    @abstractmethod
    def _collect(self, inputs: EStepInputs) -> Sums:
        """Advance all chains, and return the sums over all samples."""

    @property
    @abstractmethod
    def state(self) -> State:
        """The state of the chains."""

    @state.setter
    @abstractmethod
    def state(self, state: State) -> None: ...

    @abstractmethod
    def map_counts(self, function: Callable[[sp.csr_array], T]) -> list[T]:
        """Apply a function to the counts of every part."""

    @abstractmethod
    def close(self) -> None:
        """Free what the engine holds: files, or memory of workers."""


class StreamedEngine(PartedEngine):
    """Chains of counts in blocks, on this machine.

    Parameters
    ----------
    blocks : CountBlocks
        The counts. They are read once, and laid out in files of a temporary folder: about 28 bytes
        per count above 0, and twice 4 bytes per sample and component.
    n_jobs : int, optional
        Threads, in scikit-learn's meaning. Each has a part in memory at a time.
    scratch : path, optional
        Where the temporary folder is made; by default where `tempfile` makes it.
    """

    def __init__(self, blocks: CountBlocks, n_jobs: int | None = None, scratch: Any = None) -> None:
        super().__init__()
        self._n_threads = check_n_jobs(n_jobs)
        self._folder = tempfile.TemporaryDirectory(prefix="gapmf-", dir=scratch)
        self._parts: list[FilePart] = []
        try:
            self.summary = self._lay_out(blocks)
        except BaseException:
            self.close()
            raise

    def _lay_out(self, blocks: CountBlocks) -> Summary:
        """Read the blocks, and write the parts."""
        folder, found = Path(self._folder.name), None
        for i in range(blocks.n_blocks):
            counts, first = blocks.block(i), int(blocks.starts[i])
            if counts.shape[0]:
                layout = lay_out(counts, self._n_threads)
                self._parts.append(FilePart(layout, folder, i, first))
                here = summarise(counts, first)
                found = here if found is None else found + here
        return check_summary(found, blocks)

    def _restart(self) -> None:
        for part in self._parts:
            part.restart()

    def _collect(self, inputs: EStepInputs) -> Sums:
        sums = draw(self._parts, inputs, self._n_threads)
        for part in self._parts:
            part.commit()
        return sums

    @property
    def state(self) -> State:
        """The state of the chains; L is in a file that is mapped, until it is asked for again."""
        if self._iteration == 0:
            return State(np.full((self.n_samples, 1), -1, dtype=np.int64), 0)
        path, L = Path(self._folder.name) / "state", None
        path.unlink(missing_ok=True)  # one that was given before stays what it is
        for part in self._parts:
            own = part.state()
            assert own is not None
            if L is None:
                L = np.memmap(path, own.dtype, "w+", shape=(self.n_samples, own.shape[1]))
            L[part.first_sample : part.first_sample + part.extent.n_samples] = own
        return State(np.asarray(L), self._iteration)

    @state.setter
    def state(self, state: State) -> None:
        check_state_rows(state.L, self.n_samples)
        set_states(self._parts, state.L)
        self._iteration = state.iteration

    def map_counts(self, function: Callable[[sp.csr_array], T]) -> list[T]:
        """Apply a function to the counts of every part."""
        n_features = self.summary.totals.size
        return [function(part.layout().counts(n_features)) for part in self._parts]

    def close(self) -> None:
        """Remove the temporary folder."""
        self._parts = []
        self._folder.cleanup()


def check_summary(found: Summary | None, blocks: CountBlocks) -> Summary:
    """Raise unless the counts that were read are those that a manifest describes."""
    if found is None:
        raise InvalidInputError("X has no samples")
    said = blocks.__dict__.get("summary")
    if said is not None and said.digest != found.digest:
        raise ReadError(
            f"the counts of {blocks!r} are not those that its manifest describes: write the shards "
            "again"
        )
    return found


def check_state_rows(L: NDArray[Any], n_samples: int) -> None:
    """Refuse a state of another number of samples."""
    if L.ndim != 2 or L.shape[0] != n_samples:
        raise InvalidInputError(f"the state is of {L.shape[0]} samples, but there are {n_samples}")


def set_states(parts: Sequence[Part], L: NDArray[Any], first: int = 0) -> None:
    """Set the states of parts from that of all samples from `first` on."""
    for part in parts:
        begin = part.first_sample - first
        own = np.asarray(L[begin : begin + part.extent.n_samples])
        part.restart()
        if check_chains(own, part.layout().sample_totals, part.first_sample):
            part.put_aside(own.astype(np.int64))
            part.commit()
