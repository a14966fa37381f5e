"""What the Gibbs kernels read, write and work on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapmf.kernels.compiled import kernel

AT_ONCE = 4  # components in a register block, and accumulated sweeps in a batch


class Weights(NamedTuple):
    """The model, as the sampler uses it. K4 is K, rounded up to a multiple of four."""

    rows: NDArray[np.float32]
    """(F × K4), flat: p_fk / max_k p_fk with p_fk = w_fk / (S_k + β_k), then zeros."""
    alpha: NDArray[np.float64]
    first: NDArray[np.float64]
    """(K,): the prior mean of g_k = (S_k + β_k) h_k, to a factor: where chains begin."""


class Units(NamedTuple):
    """One, in the units of `Sums`: powers of two."""

    c: NDArray[np.float64]
    """(F,): 1 for draws."""
    g: NDArray[np.float64]
    """(K,)."""
    g_low: float
    """One unit of g, in those of what is left of it."""


class Plan(NamedTuple):
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


class Kept(NamedTuple):
    """What one accumulated sweep leaves to be added by feature; empty when not needed."""

    ratio: NDArray[np.float32]
    """(nnz,): v_fn / [Wh_n]_f, in the order of features."""
    h: NDArray[np.float32]
    """(N × K4), flat."""


class Columns(NamedTuple):
    """The entries by feature: those of f are start[f] to start[f + 1]."""

    start: NDArray[np.int64]
    sample: NDArray[np.int32]
    place: NDArray[np.int64]
    """(nnz,): where the entries, in the order of samples, stand in the order of features."""


class Desk(NamedTuple):
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


def make_desk(n_lanes: int, n_tokens: int, K: int, plan: Plan) -> Desk:
    """Room for samples of at most so many lanes and tokens."""
    K4 = -(-K // AT_ONCE) * AT_ONCE
    stride = stride_of(n_lanes)
    several = plan.expectations and plan.n_sweeps > plan.n_burn_in + 1
    f4, u4 = np.float32, np.uint32
    return Desk(
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
