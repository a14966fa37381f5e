"""The tokens of samples laid out in lanes, for kernels that run along contiguous memory.

A lane is a feature of a sample with 4, 2 or 1 of its tokens: a count of 7 takes a lane of each
kind. The lanes of a sample stand together, those with four tokens first. Every loop of a sweep
is then a straight line over lanes, however uneven the counts are, and a feature with a moderate
count is repeated a few times. A count above `heavy` takes no lanes: it is drawn as a whole.

What is added up is added entry by entry: all lanes of an entry have the same total. `walk` goes
from an entry to the next, and knows where the lanes of each begin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gapmf.kernels.compiled import kernel


class Lanes(NamedTuple):
    """The samples' tokens. Lanes of sample n are start[n] to start[n + 1]."""

    heavy: int
    """Counts above have no lanes."""
    start: NDArray[np.int64]
    fours: NDArray[np.int64]
    """(N,): how many of the sample's lanes have four tokens."""
    twos: NDArray[np.int64]
    feature: NDArray[np.int32]
    entry_start: NDArray[np.int64]
    """(N + 1,): entries of sample n, heavy ones included, are entry_start[n] to the next."""
    entry_feature: NDArray[np.int32]
    entry_count: NDArray[np.int64]
    heavy_start: NDArray[np.int64]
    heavy_feature: NDArray[np.int32]
    heavy_count: NDArray[np.int64]


@njit(cache=True, nogil=True)
def count_lanes(indptr, counts, heavy):
    """The number of lanes with 4, 2 and 1 tokens and of heavy entries of each sample, (N, 4)."""
    N = indptr.size - 1
    sizes = np.zeros((N, 4), np.int64)
    for n in range(N):
        for i in range(indptr[n], indptr[n + 1]):
            v = counts[i]
            if v > heavy:
                sizes[n, 3] += 1
            else:
                sizes[n, 0] += v >> 2
                sizes[n, 1] += (v >> 1) & 1
                sizes[n, 2] += v & 1
    return sizes


@njit(cache=True, nogil=True)
def fill_lanes(lanes):
    """Fill `feature`, `heavy_feature` and `heavy_count`; the rest of `lanes` is given."""
    for n in range(lanes.start.size - 1):
        four = lanes.start[n]
        two = four + lanes.fours[n]
        one = two + lanes.twos[n]
        whole = lanes.heavy_start[n]
        for i in range(lanes.entry_start[n], lanes.entry_start[n + 1]):
            v, f = lanes.entry_count[i], lanes.entry_feature[i]
            if v > lanes.heavy:
                lanes.heavy_feature[whole] = f
                lanes.heavy_count[whole] = v
                whole += 1
                continue
            for _ in range(v >> 2):
                lanes.feature[four] = f
                four += 1
            if v & 2:
                lanes.feature[two] = f
                two += 1
            if v & 1:
                lanes.feature[one] = f
                one += 1


@kernel()
def walk(v, heavy, four, two, one):
    """The first lane of an entry with count v, -1 if it has none, and the places of the next.

    four, two and one are the places of the next lane of each kind.
    """
    if v > heavy:
        return -1, four, two, one
    lane = four if v >= 4 else (two if v >= 2 else one)
    return lane, four + (v >> 2), two + ((v >> 1) & 1), one + (v & 1)


def lay_out(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    counts: NDArray[np.int64],
    heavy: int,
) -> Lanes:
    """Lanes of the rows of a CSR array."""
    sizes = count_lanes(indptr, counts, heavy)
    N = sizes.shape[0]
    start, heavy_start = np.zeros(N + 1, np.int64), np.zeros(N + 1, np.int64)
    np.cumsum(sizes[:, :3].sum(axis=1), out=start[1:])
    np.cumsum(sizes[:, 3], out=heavy_start[1:])
    lanes = Lanes(
        heavy,
        start,
        sizes[:, 0].copy(),
        sizes[:, 1].copy(),
        np.empty(start[-1], np.int32),
        indptr,
        indices,
        counts,
        heavy_start,
        np.empty(heavy_start[-1], np.int32),
        np.empty(heavy_start[-1], np.int64),
    )
    fill_lanes(lanes)
    return lanes
