"""The arrays of the Gibbs kernels: tokens in lanes, the model, sums, and a workspace.

A lane is a feature of a sample with 4, 2 or 1 of its tokens: a count of 7 takes a lane of each
kind. The lanes of a sample are contiguous, those with four tokens first. Every loop of a sweep
then runs along contiguous memory, however uneven the counts are; a feature with a moderate count
is repeated a few times. A large count takes no lanes: it is drawn by itself.

Expectations are added entry by entry, since all lanes of an entry have the same [Wh]. `next_lane`
goes from an entry to the next and knows where the lanes of each begin.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapmf.kernels.jit import inner
from gapmf.kernels.vectors import LANES as SWEEPS

MOST_TOKENS = 512  # a count above takes longer token by token than by binomials
TOKENS_IN_WORDS = 1024  # whose first bits are made at once
LARGEST = 128  # counts above have no lanes, see `large_counts`
FEW_ENTRIES = 16  # in a sample with so many
LARGEST_OF_FEW = 16  # counts above have none, since its lanes are too few for vectors
FEW_LANES, FEW_TOKENS = 16, 48  # a sample with so many is drawn without vectors


class Lanes(NamedTuple):
    """The tokens of all samples. Lanes of sample n are start[n] to start[n + 1]."""

    largest: NDArray[np.int64]
    """(N,): counts above have no lanes."""
    start: NDArray[np.int64]
    fours: NDArray[np.int64]
    """(N,): how many of the sample's lanes have four tokens."""
    twos: NDArray[np.int64]
    feature: NDArray[np.int32]
    entry_start: NDArray[np.int64]
    """(N + 1,): entries of sample n, large ones included, are entry_start[n] to the next."""
    entry_feature: NDArray[np.int32]
    entry_count: NDArray[np.int64]


class LargeCounts(NamedTuple):
    """The entries that have no lanes. Those of sample n are start[n] to start[n + 1]."""

    start: NDArray[np.int64]
    feature: NDArray[np.int32]
    count: NDArray[np.int64]


@inner()
def next_lane(v, largest, four, two, one):
    """Give the first lane of an entry with count v, or -1, and four, two and one after it.

    four, two and one are the next lanes of each kind.
    """
    if v > largest:
        return -1, four, two, one
    lane = four if v >= 4 else (two if v >= 2 else one)
    return lane, four + (v >> 2), two + ((v >> 1) & 1), one + (v & 1)


def _sum_rows(indptr: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.int64]:
    """Sum the values of the entries of each sample."""
    running = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    return np.diff(running[indptr])


def starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give where each of consecutive parts begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def build_lanes(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], counts: NDArray[np.int64], largest: int
) -> tuple[Lanes, LargeCounts | None]:
    """Lay the rows of a CSR array out in lanes; give what has none, if there is any."""
    n_entries = np.diff(indptr)
    most = np.where(n_entries <= FEW_ENTRIES, min(largest, LARGEST_OF_FEW), largest)
    is_large = counts > np.repeat(most, n_entries)
    small = np.where(is_large, 0, counts)
    kinds = small >> 2, (small >> 1) & 1, small & 1  # lanes of each entry with 4, 2, 1 tokens
    sizes = [_sum_rows(indptr, kind) for kind in kinds]
    start = starts(sizes[0] + sizes[1] + sizes[2])
    feature = np.empty(start[-1], np.int32)
    first = start[:-1]  # of each sample's lanes of a kind
    for kind, size in zip(kinds, sizes, strict=True):
        ahead = first - starts(size)[:-1]  # of where it would be if there were no other kinds
        feature[np.arange(size.sum()) + np.repeat(ahead, size)] = np.repeat(indices, kind)
        first = first + size
    lanes = Lanes(most, start, sizes[0], sizes[1], feature, indptr, indices, counts)
    if not is_large.any():
        return lanes, None
    large_start = starts(_sum_rows(indptr, is_large))
    return lanes, LargeCounts(large_start, indices[is_large], counts[is_large])


TERMS = 256  # of a component's sum over samples that are prepared at once
AT_ONCE = 4  # components in a register block, and accumulated sweeps in a batch


class Weights(NamedTuple):
    """The model, as the sampler uses it. K4 is K, rounded up to a multiple of four."""

    rows: NDArray[np.float32]
    """(F × K4), flat: p_fk / max_k p_fk with p_fk = w_fk / (S_k + β_k), then zeros."""
    alpha: NDArray[np.float64]
    first: NDArray[np.float64]
    """(K,): the prior mean of g_k = (S_k + β_k) h_k, to a factor: where chains begin."""


class Scales(NamedTuple):
    """One, in the units of `Sums`: powers of two."""

    c: NDArray[np.float64]
    """(F,): 1 for draws."""
    g: NDArray[np.float64]
    """(K,)."""
    g_low: float
    """One unit of g, in units of its remainder."""


class EStepPlan(NamedTuple):
    """The settings of one E-step, the same for every sample."""

    seed: np.uint64
    iteration: int
    first_sample: int
    """The number of row 0 in the whole data: part of its draws' address."""
    n_sweeps: int
    n_burn_in: int
    expectations: bool
    """Sum E[C | h] rather than the draws of C."""


class Sums(NamedTuple):
    """The sums over accumulated sweeps, in whole numbers: their order does not matter."""

    c: NDArray[np.float64]
    """(F × K4), flat: Σ c_fkn."""
    g: NDArray[np.float64]
    """(2 × K), flat: Σ (S_k + β_k) h_kn, and the remainders of its units."""
    sizes: NDArray[np.int64]
    """(K, most + 1): how often L_kn was 0, 1, …; or (K, 0) when that is not asked."""


class Own(NamedTuple):
    """What samples with exposures have of their own."""

    factors: NDArray[np.float64]
    """(N, K): (S_k + β_k) / R_kn, where R_kn is the rate of h_kn given C."""
    sizes: NDArray[np.int64]
    """(N, K): Σ L_kn over accumulated sweeps, to be added to."""


class Deferred(NamedTuple):
    """The factors of the expectations of one sweep of a block, which are added by feature."""

    inverse: NDArray[np.float32]
    """(lanes + 1,): 1/[Wh] of each lane; then 0, for entries without a lane."""
    h: NDArray[np.float32]
    """(samples × K4), flat."""
    factors: NDArray[np.float64]
    """(TERMS,): of one component's sum over samples."""
    at: NDArray[np.int64]
    """(TERMS,): where their h begin."""


class Blocks(NamedTuple):
    """The entries by blocks of samples, and within a block by feature.

    Entries of a feature in a block are a run. A block is large, so that runs are not short, but not
    so large that what is kept of its lanes for `one_sweep.add_by_feature` leaves the cache.
    """

    first: NDArray[np.int64]
    """(blocks + 1,): block b has the samples first[b] to first[b + 1]."""
    runs: NDArray[np.int64]
    """(blocks + 1,): and the runs runs[b] to runs[b + 1]."""
    feature: NDArray[np.int32]
    """(runs,)."""
    start: NDArray[np.int64]
    """(runs + 1,): entries of each run."""
    sample: NDArray[np.int32]
    """(nnz,): the entry's sample, within the block."""
    lane: NDArray[np.int32]
    """(nnz,): its first lane within the block; without one, the number of the block's lanes."""
    count: NDArray[np.float32]


def first_lanes(lanes: Lanes) -> NDArray[np.int64]:
    """Return the first lane of each entry, or the number of all lanes if it has none."""
    n_entries = np.diff(lanes.entry_start)
    v = np.where(lanes.entry_count > np.repeat(lanes.largest, n_entries), 0, lanes.entry_count)
    first = np.full(v.size, lanes.start[-1])
    begin = lanes.start[:-1]
    for kind, chosen, size in (
        (v >> 2, v >= 4, lanes.fours),
        ((v >> 1) & 1, (v == 2) | (v == 3), lanes.twos),
        (v & 1, v == 1, None),
    ):
        ahead = begin - starts(_sum_rows(lanes.entry_start, kind))[:-1]
        here = np.cumsum(kind) - kind + np.repeat(ahead, n_entries)
        first[chosen] = here[chosen]
        begin = begin if size is None else begin + size
    return first


class Workspace(NamedTuple):
    """The arrays for one sample. Matrices over lanes are flat, with rows stride_of(lanes) apart."""

    tile: NDArray[np.float32]
    """(K4, lanes): the sample's rows of W, transposed."""
    total: NDArray[np.float32]
    cum: NDArray[np.float32]
    token: NDArray[np.float32]
    words: NDArray[np.uint32]
    own_words: NDArray[np.uint32]
    few_words: NDArray[np.uint32]
    """Those of the tokens of few lanes, for several sweeps."""
    large_words: NDArray[np.uint32]
    """Those of the tokens of large counts, and room to read beyond them."""
    inverse: NDArray[np.float32]
    """(AT_ONCE, lanes): 1/[Wh] of the accumulated sweeps of this batch."""
    batch: NDArray[np.float32]
    """(AT_ONCE × K4): their h."""
    ratios: NDArray[np.float32]
    """(K4, lanes): Σ_j h_k / [Wh], when expectations of several sweeps are summed."""
    component: NDArray[np.uint32]
    """Those of some tokens, when draws of one sweep are summed."""
    g: NDArray[np.float64]
    log_g: NDArray[np.float64]
    """(K,): log g where it was drawn as such, else nan."""
    h: NDArray[np.float32]
    """(K4,): h scaled to a maximum of 1, then zeros."""
    reach: NDArray[np.int64]
    p: NDArray[np.float64]
    rest: NDArray[np.float64]


@inner()
def stride_of(n_lanes):
    """Give the distance between rows of a tile: no power of two, which would crowd the cache."""
    stride = (n_lanes + 15) // 16 * 16
    return stride + 16 if stride % 256 == 0 else stride


LINE = 64  # bytes of a cache line, and of the widest vectors


def aligned(size: int, dtype: Any) -> NDArray[Any]:
    """Make an array that begins with a cache line, so that no vector of a tile crosses one."""
    n_bytes = size * np.dtype(dtype).itemsize
    room = np.empty(n_bytes + LINE, np.uint8)
    first = -room.ctypes.data % LINE
    return room[first : first + n_bytes].view(dtype)


def aligned_zeros(size: int, dtype: Any) -> NDArray[Any]:
    """Make zeros that begin with a cache line."""
    found = aligned(size, dtype)
    found[:] = 0
    return found


def make_workspace(
    n_lanes: int, n_tokens: int, K: int, plan: EStepPlan, n_tile: int | None = None
) -> Workspace:
    """Make arrays for samples of at most so many lanes and tokens.

    n_tile is the size of the tile if it does not hold all lanes of a sample. Then only what one
    sweep needs is made.
    """
    K4 = -(-K // AT_ONCE) * AT_ONCE
    stride = stride_of(n_lanes)
    whole = stride if n_tile is None else 0
    f4, u4 = np.float32, np.uint32
    return Workspace(
        tile=aligned(K4 * stride if n_tile is None else n_tile, f4),
        total=aligned(stride, f4),
        cum=aligned(whole, f4),
        token=aligned(n_tokens, f4),
        words=aligned(n_tokens + 4, u4),
        own_words=aligned(4 * K * SWEEPS, u4),
        few_words=aligned((FEW_TOKENS + 4) * SWEEPS, u4),
        large_words=aligned(TOKENS_IN_WORDS // 2 + 32, u4),
        inverse=aligned_zeros(AT_ONCE * whole, f4),
        batch=aligned_zeros(AT_ONCE * K4, f4),
        ratios=aligned(K4 * whole if plan.expectations else 0, f4),
        component=aligned(0 if n_tile is None else n_tile // K4, u4),
        g=aligned(K, np.float64),
        log_g=aligned(K, np.float64),
        h=aligned_zeros(K4, f4),
        reach=aligned(K4, np.int64),
        p=aligned(K, np.float64),
        rest=aligned(K, np.float64),
    )


def make_deferred(n_lanes: int, n_samples: int, K: int) -> Deferred:
    """Make arrays for blocks of at most so many lanes and samples."""
    K4 = -(-K // AT_ONCE) * AT_ONCE
    return Deferred(
        inverse=aligned(n_lanes + 1, np.float32),
        h=aligned_zeros(n_samples * K4, np.float32),
        factors=aligned(TERMS, np.float64),
        at=aligned(TERMS, np.int64),
    )


def make_beyond(n_lanes: int, K: int, plan: EStepPlan) -> NDArray[np.uint32] | None:
    """Make (K4, lanes), flat, for the number of tokens beyond each component; None if not asked."""
    if plan.expectations:
        return None
    return aligned(-(-K // AT_ONCE) * AT_ONCE * stride_of(n_lanes), np.uint32)
