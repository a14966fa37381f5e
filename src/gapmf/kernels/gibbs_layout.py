"""The tokens of samples laid out in lanes, for kernels that run along contiguous memory.

A lane is a feature of a sample with 4, 2 or 1 of its tokens: a count of 7 takes a lane of each
kind. The lanes of a sample stand together, those with four tokens first. Every loop of a sweep
is then a straight line over lanes, however uneven the counts are, and a feature with a moderate
count is repeated a few times. A count above `heavy` takes no lanes: it is drawn as a whole.

What is added up is added entry by entry: all lanes of an entry have the same total. `next_lane`
goes from an entry to the next, and knows where the lanes of each begin.

What the Gibbs kernels read, write and work on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gapmf.kernels.jit import kernel


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
def next_lane(v, heavy, four, two, one):
    """The first lane of an entry with count v, -1 if it has none, and the places of the next.

    four, two and one are the places of the next lane of each kind.
    """
    if v > heavy:
        return -1, four, two, one
    lane = four if v >= 4 else (two if v >= 2 else one)
    return lane, four + (v >> 2), two + ((v >> 1) & 1), one + (v & 1)


def build_lanes(
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
    """One unit of g, in those of what is left of it."""


class EStepPlan(NamedTuple):
    """What one E-step does, the same for every sample."""

    seed: np.uint64
    iteration: int
    first_sample: int
    """The number of row 0 in the whole data: part of its draws' address."""
    n_sweeps: int
    n_burn_in: int
    expectations: bool
    """Sum E[C | h] rather than the draws of C."""


class Sums(NamedTuple):
    """What accumulated sweeps add up to, in whole numbers: the order of adding does not matter."""

    c: NDArray[np.float64]
    """(F × K4), flat: Σ c_fkn."""
    g: NDArray[np.float64]
    """(2 × K), flat: Σ (S_k + β_k) h_kn, and what its units leave of it."""
    sizes: NDArray[np.int64]
    """(K, most + 1): how often L_kn was 0, 1, …; or (K, 0) when that is not asked."""


class Deferred(NamedTuple):
    """What one accumulated sweep leaves to be added by feature; empty when not needed."""

    ratio: NDArray[np.float32]
    """(nnz,): v_fn / [Wh_n]_f, in the order of features."""
    h: NDArray[np.float32]
    """(N × K4), flat."""


class ByFeature(NamedTuple):
    """The entries by feature: those of f are start[f] to start[f + 1]."""

    start: NDArray[np.int64]
    sample: NDArray[np.int32]
    place: NDArray[np.int64]
    """(nnz,): where the entries, in the order of samples, stand in the order of features."""


class Workspace(NamedTuple):
    """Room to work on one sample. Matrices over lanes are flat, a row every stride_of(lanes)."""

    tile: NDArray[np.float32]
    """(K4, lanes): the sample's rows of W, transposed."""
    total: NDArray[np.float32]
    cum: NDArray[np.float32]
    token: NDArray[np.float32]
    words: NDArray[np.uint32]
    own_words: NDArray[np.uint32]
    inverse: NDArray[np.float32]
    """(AT_ONCE, lanes): 1/[Wh] of the accumulated sweeps of this batch."""
    batch: NDArray[np.float32]
    """(AT_ONCE × K4): their h."""
    ratios: NDArray[np.float32]
    """(K4, lanes): Σ_j h_k / [Wh], when expectations of several sweeps are summed."""
    kept: NDArray[np.uint32]
    """(K4, lanes): how many tokens fell beyond component k, when draws are summed."""
    g: NDArray[np.float64]
    log_g: NDArray[np.float64]
    """(K,): log g where it was drawn as such, else nan."""
    h: NDArray[np.float32]
    """(K4,): h scaled to a maximum of 1, then zeros."""
    reach: NDArray[np.int64]
    p: NDArray[np.float64]
    rest: NDArray[np.float64]


@kernel()
def stride_of(n_lanes):
    """Numbers from one row of a tile to the next: no power of two, they crowd the cache."""
    stride = (n_lanes + 15) // 16 * 16
    return stride + 16 if stride % 256 == 0 else stride


def make_workspace(n_lanes: int, n_tokens: int, K: int, plan: EStepPlan) -> Workspace:
    """Room for samples of at most so many lanes and tokens."""
    K4 = -(-K // AT_ONCE) * AT_ONCE
    stride = stride_of(n_lanes)
    several = plan.expectations and plan.n_sweeps > plan.n_burn_in + 1
    f4, u4 = np.float32, np.uint32
    return Workspace(
        tile=np.empty(K4 * stride, f4),
        total=np.empty(stride, f4),
        cum=np.empty(stride, f4),
        token=np.empty(n_tokens, f4),
        words=np.empty(n_tokens + 4, u4),
        own_words=np.empty(4 * K, u4),
        inverse=np.zeros(AT_ONCE * stride, f4),
        batch=np.zeros(AT_ONCE * K4, f4),
        ratios=np.empty(K4 * stride if several else 0, f4),
        kept=np.empty(0 if plan.expectations else K4 * stride, u4),
        g=np.empty(K),
        log_g=np.empty(K),
        h=np.zeros(K4, f4),
        reach=np.empty(K4, np.int64),
        p=np.empty(K),
        rest=np.empty(K),
    )
