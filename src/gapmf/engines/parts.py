"""Parts of the data, in memory or in files, and one E-step over all of them.

A part is consecutive samples: their tokens as the kernels lay them out, and the state of their
chains. Threads share blocks of samples of all parts. A part in a file is mapped into memory only
while its blocks are drawn, and its state is read before and written after. The new state is put
aside until the step has ended, so that an interrupted step leaves everything as it was.
"""

from __future__ import annotations

import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.errors import InvalidInputError
from gapmf.kernels.gibbs import advance
from gapmf.kernels.gibbs_layout import (
    LARGEST,
    Blocks,
    EStepPlan,
    Lanes,
    LargeCounts,
    Own,
    Scales,
    Sums,
    Weights,
    build_lanes,
    first_lanes,
    make_beyond,
    make_deferred,
    make_workspace,
    starts,
)
from gapmf.kernels.one_sweep import add_by_feature, advance_once, tile_stride
from gapmf.parallel import BLOCK_WORK, map_reduce
from gapmf.parallel import BLOCKS_PER_THREAD as RANGES_PER_THREAD
from gapmf.types import Array

BLOCK_LANES = 1 << 20  # in a block of one sweep: their 1/[Wh] take four megabytes


class Layout(NamedTuple):
    """The samples of a part, as the kernels use them."""

    lanes: Lanes
    large: LargeCounts | None
    blocks: Blocks
    """The entries in the order in which an E-step of one sweep adds them."""
    work: Array
    """(N,): running sums of what the samples cost."""
    sample_totals: Array
    """(N,): |v_n|."""

    def counts(self, n_features: int) -> sp.csr_array:
        """Return the counts that were laid out."""
        entries = self.lanes.entry_count, self.lanes.entry_feature, self.lanes.entry_start
        return sp.csr_array(entries, shape=(self.work.size, n_features))


class Extent(NamedTuple):
    """What must be known of a part without opening it."""

    n_samples: int
    n_blocks: int
    most_lanes: int
    """In one sample."""
    most_tokens: int
    """In the lanes of one sample."""
    block_lanes: int
    """Most in one block."""
    block_samples: int
    work: float
    largest: int
    """max_n |v_n|."""


def lay_out(X: sp.csr_array, n_pieces: int, block_size: int | None = None) -> Layout:
    """Lay out counts (canonical CSR) in blocks: at least `n_pieces`, or of `block_size` samples."""
    lanes, large = build_lanes(
        X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, LARGEST
    )
    n_large = 0 if large is None else np.diff(large.start)
    work = np.cumsum(np.diff(lanes.start) + 20.0 * n_large + 20.0)
    blocks = make_blocks(lanes, X.shape[1], _cut(lanes, n_pieces, block_size))
    return Layout(lanes, large, blocks, work, X.sum(axis=1, dtype=np.float64))


def _cut(lanes: Lanes, n_pieces: int, block_size: int | None) -> NDArray[np.int64]:
    """Return the first samples of blocks for one sweep, and N."""
    N = lanes.fours.size
    if block_size is not None:
        return np.append(np.arange(0, N, block_size), N)
    n_lanes = int(lanes.start[-1])
    most = min(BLOCK_LANES, n_lanes // n_pieces + 1)
    cuts = np.searchsorted(lanes.start, np.arange(most, n_lanes, most))
    return np.unique(np.concatenate([[0], cuts, [N]]))


def make_blocks(lanes: Lanes, n_features: int, first: NDArray[np.int64]) -> Blocks:
    """Sort the entries by blocks, whose first samples are given, and by feature."""
    lane = first_lanes(lanes)
    sample = np.repeat(np.arange(lanes.fours.size), np.diff(lanes.entry_start))
    parts = []
    for a, b in pairwise(first):
        entries = slice(lanes.entry_start[a], lanes.entry_start[b])
        features = lanes.entry_feature[entries]
        order = sp.coo_array(
            (np.arange(features.size), (features, sample[entries] - a)), (n_features, b - a)
        ).tocsr()
        sizes = np.diff(order.indptr)
        here = np.minimum(lane[entries], lanes.start[b]) - lanes.start[a]
        parts.append(
            (np.flatnonzero(sizes), sizes[sizes > 0], order.indices, here[order.data],
             lanes.entry_count[entries][order.data])
        )  # fmt: skip
    features, sizes, samples, here, counts = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    return Blocks(
        first=first,
        runs=starts(np.array([part[0].size for part in parts])),
        feature=features.astype(np.int32),
        start=starts(sizes),
        sample=samples.astype(np.int32),
        lane=here.astype(np.int32),
        count=counts.astype(np.float32),
    )


def extent_of(layout: Layout) -> Extent:
    """Return what must be known of a layout while it is in a file."""
    lanes, first = layout.lanes, layout.blocks.first
    n_lanes = np.diff(lanes.start)
    n_tokens = n_lanes + 3 * lanes.fours + lanes.twos
    return Extent(
        n_samples=layout.work.size,
        n_blocks=first.size - 1,
        most_lanes=int(n_lanes.max(initial=0)),
        most_tokens=int(n_tokens.max(initial=0)),
        block_lanes=int(np.diff(lanes.start[first]).max()),
        block_samples=int(np.diff(first).max()),
        work=float(layout.work[-1]),
        largest=int(layout.sample_totals.max(initial=0)),
    )


class Part(ABC):
    """Consecutive samples and their chains; `first_sample` is the number of the first in all."""

    first_sample: int
    extent: Extent

    @abstractmethod
    def layout(self) -> Layout:
        """Return the samples; from a file, they are in memory as long as this is used."""

    @abstractmethod
    def state(self) -> NDArray[np.integer[Any]] | None:
        """Return L (n, K), or None before the first sweep."""

    @abstractmethod
    def put_aside(self, L: NDArray[np.int64]) -> None:
        """Keep a new state aside, until `commit` makes it the state."""

    @abstractmethod
    def commit(self) -> None:
        """Make what was put aside the state."""

    @abstractmethod
    def restart(self) -> None:
        """Return to before the first sweep."""


class MemoryPart(Part):
    """A part in memory."""

    def __init__(self, layout: Layout, first_sample: int = 0) -> None:
        self._layout, self.first_sample = layout, first_sample
        self.extent = extent_of(layout)
        self._L: NDArray[np.int64] | None = None
        self._aside: NDArray[np.int64] | None = None

    def layout(self) -> Layout:
        """Return the samples."""
        return self._layout

    def state(self) -> NDArray[np.int64] | None:
        """Return L (n, K), or None before the first sweep."""
        return self._L

    def put_aside(self, L: NDArray[np.int64]) -> None:
        """Keep a new state aside."""
        self._aside = L

    def commit(self) -> None:
        """Make what was put aside the state."""
        self._L, self._aside = self._aside, None

    def restart(self) -> None:
        """Return to before the first sweep."""
        self._L = self._aside = None


class FilePart(Part):
    """A part in files of a folder: one of the layout, and two of the state, old and new."""

    def __init__(self, layout: Layout, folder: Path, number: int, first_sample: int = 0) -> None:
        self.first_sample = first_sample
        self.extent = extent_of(layout)
        self._path = folder / f"{number}.layout"
        self._states = [folder / f"{number}.{i}.state" for i in range(2)]
        self._dtype = np.dtype(np.int32 if self.extent.largest < 2**31 else np.int64)
        self._present, self._begun = 0, False
        self._places = _write_arrays(layout, self._path)

    def layout(self) -> Layout:
        """Map the samples into memory."""
        layout: Layout = _map_arrays(self._places, self._path)
        return layout

    def state(self) -> NDArray[np.integer[Any]] | None:
        """Read L (n, K); None before the first sweep."""
        if not self._begun:
            return None
        L = np.fromfile(self._states[self._present], dtype=self._dtype)
        return L.reshape(self.extent.n_samples, -1)

    def put_aside(self, L: NDArray[np.int64]) -> None:
        """Write a new state beside the present one."""
        L.astype(self._dtype).tofile(self._states[1 - self._present])

    def commit(self) -> None:
        """Make what was put aside the state."""
        self._present, self._begun = 1 - self._present, True

    def restart(self) -> None:
        """Return to before the first sweep."""
        self._begun = False


class _Place(NamedTuple):
    """Where an array is in a file."""

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


_ALIGNMENT = 64


def _write_arrays(node: Any, path: Path) -> Any:
    """Write the arrays of nested named tuples; return the same with their places instead."""
    with open(path, "wb") as file:
        return _write_node(node, file)


def _write_node(node: Any, file: Any) -> Any:
    if isinstance(node, np.ndarray):
        file.write(b"\0" * (-file.tell() % _ALIGNMENT))
        place = _Place(file.tell(), node.dtype, node.shape)
        np.ascontiguousarray(node).tofile(file)
        return place
    if isinstance(node, tuple):
        return type(node)(*(_write_node(part, file) for part in node))
    return node


def _map_arrays(places: Any, path: Path) -> Any:
    """Map the arrays of a file. They can be written to, since kernels ask for it, but are not."""
    size = os.path.getsize(path)
    content = np.asarray(np.memmap(path, np.uint8, "c")) if size else np.empty(0, np.uint8)
    return _view_node(places, content)


def _view_node(node: Any, content: NDArray[np.uint8]) -> Any:
    # Not a closure that calls itself: that cycle would keep the file mapped for a while.
    if isinstance(node, _Place):
        n_bytes = math.prod(node.shape) * node.dtype.itemsize
        return content[node.offset : node.offset + n_bytes].view(node.dtype).reshape(node.shape)
    if isinstance(node, tuple):
        return type(node)(*(_view_node(part, content) for part in node))
    return node


class EStepInputs(NamedTuple):
    """All that an E-step is told: it goes from a client to its workers."""

    weights: Weights
    plan: EStepPlan
    """`first_sample` is that of each part."""
    scales: Scales
    n_sizes: int
    """The length of the histograms of L, or 0 if they are not asked for."""


Opened = tuple[Layout, NDArray[np.int64], NDArray[np.int64]]  # with L before and after


class _OpenParts:
    """The parts that threads are working on: opened by the first, closed by the last."""

    def __init__(self, parts: Sequence[Part], n_tasks: Sequence[int], n_components: int) -> None:
        self._parts, self._left = parts, list(n_tasks)
        self._n_components = n_components
        self._open: dict[int, Opened] = {}
        self._lock = threading.Lock()

    @contextmanager
    def use(self, p: int) -> Iterator[Opened]:
        with self._lock:
            if p not in self._open:
                L = _begin(self._parts[p], self._n_components)
                self._open[p] = self._parts[p].layout(), L, np.empty_like(L)
            opened = self._open[p]
        yield opened
        with self._lock:
            self._left[p] -= 1
            done = self._left[p] == 0
            if done:
                del self._open[p]
        if done:
            self._parts[p].put_aside(opened[2])


def _begin(part: Part, n_components: int) -> NDArray[np.int64]:
    """Return the state of a part, -1 before the first sweep."""
    L = part.state()
    if L is None:
        return np.full((part.extent.n_samples, n_components), -1, dtype=np.int64)
    if L.shape[1] != n_components:
        raise InvalidInputError(
            f"the chains have {L.shape[1]} components, but the model has {n_components}"
        )
    return L.astype(np.int64, copy=False)


def draw(
    parts: Sequence[Part],
    inputs: EStepInputs,
    n_threads: int,
    own: Own | None = None,
    block_size: int | None = None,
) -> Sums:
    """Advance the chains of all parts; new states are put aside. Return the sums, all added.

    `own` is for a single part.
    """
    K = inputs.weights.alpha.size
    once = inputs.plan.n_sweeps == 1
    if once:
        n_tasks = [part.extent.n_blocks for part in parts]
    else:
        factor = K * inputs.plan.n_sweeps
        n_tasks = [_n_ranges(part.extent, factor, n_threads, block_size) for part in parts]
    opened = _OpenParts(parts, n_tasks, K)
    tasks = [(p, i) for p, n in enumerate(n_tasks) for i in range(n)]
    make, work = _one_sweep(parts, inputs, own) if once else _many_sweeps(parts, inputs, own)

    def run(task: tuple[int, int], local: Any) -> None:
        p, i = task
        with opened.use(p) as (layout, *states):
            plan = inputs.plan._replace(first_sample=parts[p].first_sample)
            data = inputs.weights, plan, inputs.scales, *states, own
            if once:
                work(layout, i, data, local)
            else:
                work(layout, _range(layout.work, i, n_tasks[p], block_size), data, local)

    return add_sums([local[-1] for local in map_reduce(run, tasks, make, n_threads)])


def add_sums(parts: Sequence[Sums]) -> Sums:
    """Add the sums of parts of the data, in the same scales, to the first of them."""
    for part in parts[1:]:
        for total, share in zip(parts[0], part, strict=True):
            np.add(total, share, out=total)
    return parts[0]


def _make_sums(inputs: EStepInputs) -> Sums:
    K = inputs.weights.alpha.size
    sizes = np.zeros((K, inputs.n_sizes), dtype=np.int64)
    return Sums(np.zeros(inputs.weights.rows.size), np.zeros(2 * K), sizes)


Work = tuple[Callable[[], Any], Callable[[Layout, Any, tuple[Any, ...], Any], None]]


def _one_sweep(parts: Sequence[Part], inputs: EStepInputs, own: Own | None) -> Work:
    """Make one accumulated sweep, block by block."""
    K, K4 = inputs.weights.alpha.size, inputs.weights.rows.size // inputs.scales.c.size
    most = Extent(*map(max, zip(*(part.extent for part in parts), strict=True)))

    def make_arrays() -> tuple[Any, ...]:
        n_tile = K4 * tile_stride(K4)
        workspace = make_workspace(most.most_lanes, most.most_tokens, K, inputs.plan, n_tile)
        deferred = make_deferred(most.block_lanes, most.block_samples, K)
        return workspace, deferred, _make_sums(inputs)

    def work(layout: Layout, b: int, data: tuple[Any, ...], arrays: tuple[Any, ...]) -> None:
        _, deferred, sums = arrays
        advance_once(b, layout.blocks, layout.lanes, layout.large, *data, *arrays)
        if inputs.plan.expectations:
            add_by_feature(b, layout.blocks, data[0], data[2], K4, deferred, sums.c)

    return make_arrays, work


def _many_sweeps(parts: Sequence[Part], inputs: EStepInputs, own: Own | None) -> Work:
    """Make all sweeps of a sample, then those of the next."""
    K = inputs.weights.alpha.size
    n_lanes = max(part.extent.most_lanes for part in parts)
    n_tokens = max(part.extent.most_tokens for part in parts)

    def make_arrays() -> tuple[Any, ...]:
        workspace = make_workspace(n_lanes, n_tokens, K, inputs.plan)
        return workspace, make_beyond(n_lanes, K, inputs.plan), _make_sums(inputs)

    def work(
        layout: Layout, rows: tuple[int, int], data: tuple[Any, ...], arrays: tuple[Any, ...]
    ) -> None:
        advance(*rows, layout.lanes, layout.large, *data, *arrays)

    return make_arrays, work


def _n_ranges(extent: Extent, factor: float, n_threads: int, block_size: int | None) -> int:
    """Return into how many ranges of samples a part is cut for many sweeps."""
    if block_size is not None:
        return -(-extent.n_samples // block_size)
    n = math.ceil(extent.work * factor / BLOCK_WORK)
    if n_threads > 1:
        n = max(n, RANGES_PER_THREAD * n_threads)
    return max(1, min(n, extent.n_samples))


def _range(work: Array, i: int, n: int, block_size: int | None) -> tuple[int, int]:
    """Return the samples of the i-th of n ranges: of equal work, or of `block_size` samples."""
    if block_size is not None:
        return i * block_size, min((i + 1) * block_size, work.size)
    first, last = np.searchsorted(work, work[-1] * np.array([i, i + 1]) / n).tolist()
    return first if i else 0, last if i + 1 < n else work.size
