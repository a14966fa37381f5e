"""The engine of one machine: threads over blocks of samples, and exact sums over them.

The kernels add whole multiples of fixed scales, which depend on the whole data. So the sums of
parts of the data add up to the same bits, wherever the parts were drawn. Rounding is balanced once,
when everything has been added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.csr import sum_entries
from gapmf.engines.base import State, Statistics, Sweeps
from gapmf.errors import InvalidInputError, TooCostlyError
from gapmf.kernels.dictionary import balance_rows, make_weights
from gapmf.kernels.gibbs import advance
from gapmf.kernels.gibbs_layout import (
    LARGEST,
    Blocks,
    Deferred,
    EStepPlan,
    Lanes,
    Own,
    Scales,
    Sums,
    Weights,
    Workspace,
    build_lanes,
    first_lanes,
    make_beyond,
    make_deferred,
    make_workspace,
    starts,
)
from gapmf.kernels.one_sweep import add_by_feature, advance_once, tile_stride
from gapmf.model import GaP
from gapmf.observation import Observation
from gapmf.parallel import by_rows, check_n_jobs, even_blocks, map_reduce
from gapmf.types import Array

EXACT_BITS = 51  # whole numbers up to 2^51 are rounded and added exactly, see kernels.gibbs_loops
# The share of a feature's counts that an expectation is never rounded below. An entry of W that
# becomes 0 never returns, and during a fit many want to: on documents that costs more likelihood
# than Monte Carlo noise does.
LEAST_SHARE = 2.0**-33


def scale_for(largest: Array) -> Array:
    """Return the finest powers of two for which sums up to `largest` stay exact."""
    bits = EXACT_BITS - np.ceil(np.log2(np.maximum(largest, 1.0)))
    return np.asarray(2.0**bits)


def check_totals(totals: Array, n_draws: int) -> None:
    """Refuse counts whose sums a double cannot hold exactly."""
    if n_draws * totals.max(initial=0.0) > 2.0**53:
        f = int(totals.argmax())
        raise InvalidInputError(
            f"the counts of feature {f} add up to {totals[f]:.3g}, which with {n_draws} draws is "
            "more than 2**53, so that sums are not exact: divide the counts by a common factor"
        )


def scales_for(totals: Array, n_samples: int, model: GaP, sweeps: Sweeps) -> Scales:
    """Return the scales of an E-step, for these totals of features and this many samples."""
    J = sweeps.n_draws
    check_totals(totals, J)
    c = scale_for(J * totals) if sweeps.expectations else np.ones_like(totals)
    # Σ g of component k is Gamma with a shape of at most this; four times that, and some more
    # for small shapes, it does not exceed.
    shapes = J * (totals.sum() + n_samples * (model.alpha + 10.0))
    return Scales(c, scale_for(4.0 * shapes), float(scale_for(np.array(J * n_samples))))


def add_sums(parts: Sequence[Sums]) -> Sums:
    """Add the sums of parts of the data, in the same scales, to the first of them."""
    for part in parts[1:]:
        for total, share in zip(parts[0], part, strict=True):
            np.add(total, share, out=total)
    return parts[0]


def to_statistics(
    sums: Sums,
    scales: Scales,
    totals: Array,
    n_samples: int,
    model: GaP,
    sweeps: Sweeps,
    n_threads: int = 1,
) -> Statistics:
    """Return the statistics of all samples from their sums."""
    K = model.n_components
    c = sums.c.reshape(totals.size, -1)[:, :K]
    c_sum = np.empty(c.shape)
    if sweeps.expectations:
        rows = c, model.W, totals * sweeps.n_draws * scales.c, LEAST_SHARE, scales.c, c_sum
        by_rows(lambda *block: balance_rows(*block, *rows), c.shape, n_threads)
    else:
        c_sum[...] = c
    g = (sums.g[:K] + sums.g[K:] / scales.g_low) / scales.g
    return Statistics(
        c_sum=c_sum,
        h_sum=g / (model.column_norms + model.beta),
        n_draws=float(sweeps.n_draws * n_samples),
        sizes=sums.sizes if sweeps.sizes else None,
    )


BLOCK_LANES = 1 << 20  # in a block of one sweep: their 1/[Wh] take four megabytes
BLOCKS_PER_THREAD = 4  # at least
MAX_COMPONENTS = 1 << 20  # the address of a draw has 20 bits for its component
MAX_SIZES = 1 << 28  # entries of a histogram of L: 2 GiB


def check_model(model: GaP, totals: NDArray[np.float64]) -> None:
    """Refuse a model of other data, and one that cannot have made these."""
    if model.n_features != totals.size:
        raise InvalidInputError(
            f"the model has {model.n_features} features, but the counts have {totals.size}"
        )
    if model.n_components >= MAX_COMPONENTS:
        raise InvalidInputError(
            f"there can be at most {MAX_COMPONENTS - 1} components, not {model.n_components}"
        )
    unmet = np.flatnonzero((model.W[:, 0] == 0.0) & (totals > 0))
    unmet = unmet[(model.W[unmet] == 0.0).all(axis=1)]
    if unmet.size:
        raise InvalidInputError(
            f"feature {unmet[0]} has counts, but row {unmet[0]} of W is 0, so that they have "
            "probability 0: use a W with a positive entry in this row"
        )


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


def _widths(weights: Weights, n_features: int) -> tuple[int, int]:
    """Return K, and K rounded up."""
    return weights.alpha.size, weights.rows.size // n_features


class LocalEngine:
    """Chains on this machine.

    Parameters
    ----------
    n_jobs : int, optional
        Threads, in scikit-learn's meaning.
    block_size : int, optional
        Samples that a thread takes at once; by default as many as make even work. Neither
        changes a bit of any result.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from gapmf import GaP
    >>> from gapmf.engines.base import Sweeps
    >>> from gapmf.engines.local import LocalEngine
    >>> engine = LocalEngine().load(sp.csr_array(np.array([[3, 1], [0, 2]])), seed=0)
    >>> statistics = engine.advance(GaP(np.ones((2, 2))), Sweeps(n_draws=10))
    >>> statistics.c_sum.sum(axis=1) / 10
    array([3., 3.])
    """

    def __init__(self, n_jobs: int | None = None, block_size: int | None = None) -> None:
        self._n_threads = check_n_jobs(n_jobs)
        self._block_size = block_size

    def load(
        self,
        X: sp.csr_array,
        seed: int,
        first_sample: int = 0,
        observation: Observation | None = None,
    ) -> LocalEngine:
        """Take counts (canonical CSR, N × F), to draw from the streams of `seed`.

        `first_sample` is the number of row 0 in the whole data, when X is a part of it.
        """
        self._observation = observation
        self._seed = np.uint64(seed)
        self._first_sample = first_sample
        lanes, large = build_lanes(
            X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, LARGEST
        )
        self._lanes, self._large = lanes, large
        n_lanes = np.diff(lanes.start)
        n_large = 0 if large is None else np.diff(large.start)
        n_tokens = n_lanes + 3 * lanes.fours + lanes.twos
        self._largest = int(n_lanes.max(initial=0)), int(n_tokens.max(initial=0))
        self._work = np.cumsum(n_lanes + 20.0 * n_large + 20.0)
        self._one_sweep = make_blocks(lanes, X.shape[1], self._small_blocks())
        self._sample_totals = sum_entries(X.indptr, X.data)
        totals = np.bincount(X.indices, weights=X.data, minlength=X.shape[1])
        self._totals = np.asarray(totals, dtype=np.float64)
        self._state = State(np.full((X.shape[0], 1), -1, dtype=np.int64), 0)
        return self

    @property
    def n_samples(self) -> int:
        """N."""
        return int(self._sample_totals.size)

    @property
    def totals(self) -> NDArray[np.float64]:
        """(F,): Σ_n v_fn."""
        return self._totals

    @property
    def mean_counts(self) -> NDArray[np.float64]:
        """(F,): Σ_n v_fn / Σ_n m_nf s_n."""
        if self._observation is None:
            return self._totals / self.n_samples
        return self._totals / self._observation.totals(self._totals.size)

    @property
    def observation(self) -> Observation | None:
        """How the samples were observed, if not all alike."""
        return self._observation

    @property
    def state(self) -> State:
        """The state of the chains."""
        return State(self._state.L.copy(), self._state.iteration)

    @state.setter
    def state(self, state: State) -> None:
        L = np.array(state.L, dtype=np.int64, ndmin=2)
        if L.ndim != 2 or L.shape[0] != self.n_samples:
            raise InvalidInputError(
                f"the state is of {L.shape[0]} samples, but there are {self.n_samples}"
            )
        begun = (L >= 0).all(axis=1) & (L.sum(axis=1) == self._sample_totals)
        fresh = (L == -1).all(axis=1)
        if not (begun | fresh).all():
            n = int(np.flatnonzero(~(begun | fresh))[0])
            raise InvalidInputError(
                f"the state of sample {n} must add up to its {self._sample_totals[n]:.0f} counts"
            )
        self._state = State(L, state.iteration)

    def advance(self, model: GaP, sweeps: Sweeps) -> Statistics:
        """One E-step from the present state: the Monte Carlo expectations of Eqs. 35 to 37.

        If it is interrupted the state is as before.
        """
        scales = scales_for(self._totals, self.n_samples, model, sweeps)
        own = None
        if self._observation is not None:
            rates = self._observation.rates(model)
            factors = (model.column_norms + model.beta) / rates
            own = Own(factors, np.zeros(rates.shape, dtype=np.int64))
        sums, state = self._draw(model, sweeps, scales, own)
        statistics = to_statistics(
            sums, scales, self._totals, self.n_samples, model, sweeps, self._n_threads
        )
        if self._observation is not None and own is not None:
            L_sum = own.sizes.astype(np.float64)
            h = (sweeps.n_draws * model.alpha + L_sum) / rates
            statistics = replace(
                statistics,
                h_sum=h.sum(axis=0),
                exposed_sum=self._observation.exposed_sums(h),
                L_sum=L_sum,
            )
        self._state = state
        return statistics

    def collect(self, model: GaP, sweeps: Sweeps, scales: Scales) -> Sums:
        """`advance`, as a part of larger data: sums in the units of the whole, to be added."""
        assert self._observation is None
        sums, self._state = self._draw(model, sweeps, scales)
        return sums

    def _draw(
        self, model: GaP, sweeps: Sweeps, scales: Scales, own: Own | None = None
    ) -> tuple[Sums, State]:
        check_model(model, self._totals)
        K = model.n_components
        L = self._state.L
        if (L[:, 0] < 0).all():
            L = np.full((self.n_samples, K), -1, dtype=np.int64)
        elif L.shape[1] != K:
            raise InvalidInputError(
                f"the chains have {L.shape[1]} components, but the model has {K}"
            )
        new_L = np.empty_like(L)
        weights = make_weights(model.W, model.column_norms, model.alpha, model.beta)
        iteration = self._state.iteration
        plan = EStepPlan(
            seed=self._seed,
            iteration=iteration,
            first_sample=self._first_sample,
            n_sweeps=sweeps.n_burn_in + sweeps.n_draws,
            n_burn_in=sweeps.n_burn_in,
            expectations=sweeps.expectations,
        )
        most = self._most_tokens(K) + 1 if sweeps.sizes else 0
        data = self._lanes, self._large, weights, plan, scales, L, new_L, own

        def make_sums() -> Sums:
            sizes = np.zeros((K, most), dtype=np.int64)
            return Sums(np.zeros(weights.rows.size), np.zeros(2 * K), sizes)

        once = sweeps.expectations and plan.n_sweeps == 1
        threads = self._draw_once(data, make_sums) if once else self._draw_many(data, make_sums)
        return add_sums(threads), State(new_L, iteration + 1)

    def _draw_once(self, data: tuple[Any, ...], make_sums: Callable[[], Sums]) -> list[Sums]:
        """Make one accumulated sweep, block by block."""
        blocks, weights = self._one_sweep, data[2]
        K, K4 = _widths(weights, self._totals.size)
        n_lanes = int(np.diff(self._lanes.start[blocks.first]).max())
        n_samples = int(np.diff(blocks.first).max())

        def make_arrays() -> tuple[Workspace, Deferred, Sums]:
            workspace = make_workspace(*self._largest, K, data[3], K4 * tile_stride(K4))
            return workspace, make_deferred(n_lanes, n_samples, K), make_sums()

        def work(b: int, arrays: tuple[Workspace, Deferred, Sums]) -> None:
            _, deferred, sums = arrays
            advance_once(b, blocks, *data, *arrays)
            add_by_feature(b, blocks, weights, data[4], K4, deferred, sums.c)

        tasks = range(blocks.first.size - 1)
        return [sums for _, _, sums in map_reduce(work, tasks, make_arrays, self._n_threads)]

    def _draw_many(self, data: tuple[Any, ...], make_sums: Callable[[], Sums]) -> list[Sums]:
        """Make all sweeps of a sample, then those of the next."""
        (K, _), plan = _widths(data[2], self._totals.size), data[3]
        n_lanes, n_tokens = self._largest

        def make_arrays() -> tuple[Workspace, NDArray[np.uint32] | None, Sums]:
            workspace = make_workspace(n_lanes, n_tokens, K, plan)
            return workspace, make_beyond(n_lanes, K, plan), make_sums()

        def work(
            block: tuple[int, int], arrays: tuple[Workspace, NDArray[np.uint32] | None, Sums]
        ) -> None:
            advance(*block, *data, *arrays)

        blocks = self._blocks(self._work, K * plan.n_sweeps)
        return [sums for _, _, sums in map_reduce(work, blocks, make_arrays, self._n_threads)]

    def _small_blocks(self) -> NDArray[np.int64]:
        """Return the first samples of blocks for one sweep, and N."""
        N = self._lanes.fours.size
        if self._block_size is not None:
            return np.append(np.arange(0, N, self._block_size), N)
        n_lanes = int(self._lanes.start[-1])
        most = min(BLOCK_LANES, n_lanes // (BLOCKS_PER_THREAD * self._n_threads) + 1)
        cuts = np.searchsorted(self._lanes.start, np.arange(most, n_lanes, most))
        return np.unique(np.concatenate([[0], cuts, [N]]))

    def _most_tokens(self, K: int) -> int:
        """max_n |v_n|, if a histogram up to there fits in memory."""
        most = int(self._sample_totals.max(initial=0))
        if K * (most + 1) * self._n_threads > MAX_SIZES:
            raise TooCostlyError(
                f"to learn alpha, each of {self._n_threads} threads counts how often each of {K} "
                f"components has 0 to {most} counts of a sample, which takes more than 2 GiB in "
                "all: use fewer threads (n_jobs), or learn_alpha=False"
            )
        return most

    def _blocks(self, work: NDArray[np.float64], factor: float) -> list[tuple[int, int]]:
        """Blocks of samples or features of about equal work, which is given as running sums."""
        if self._block_size is not None:
            firsts = range(0, work.size, self._block_size)
            return [(n, min(n + self._block_size, work.size)) for n in firsts]
        return even_blocks(work, factor, self._n_threads)
