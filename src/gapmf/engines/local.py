"""The engine of one machine: threads over blocks of samples."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.engines.accounts import add_sums, finish, units_for
from gapmf.engines.base import State, Sweeps
from gapmf.errors import InvalidInputError, TooCostlyError
from gapmf.kernels.desk import (
    AT_ONCE,
    Columns,
    Desk,
    Kept,
    Plan,
    Sums,
    Units,
    Weights,
    make_desk,
)
from gapmf.kernels.dictionary import scale_rows
from gapmf.kernels.gibbs import advance
from gapmf.kernels.lanes import lay_out
from gapmf.kernels.sums import add_by_feature
from gapmf.m_steps import Statistics
from gapmf.model import GaP
from gapmf.parallel import check_n_jobs, share_out
from gapmf.rows import sum_entries

HEAVY = 128  # counts above are drawn by conditional binomials, not token by token
BLOCK_WORK = 5e8  # tokens × components × sweeps: a fraction of a second, so Ctrl-C is answered
BLOCKS_A_THREAD = 24  # so that no thread waits long for the last one
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
    unmet = np.flatnonzero((model.W.max(axis=1) == 0.0) & (totals > 0))
    if unmet.size:
        raise InvalidInputError(
            f"feature {unmet[0]} has counts, but row {unmet[0]} of W is 0: "
            "the counts have probability 0"
        )


def weigh(model: GaP) -> Weights:
    """The model as the kernel wants it: rows scaled to a maximum of 1, padded, in float32."""
    F, K = model.W.shape
    rate = model.column_norms + model.beta
    rows = np.zeros((F, -(-K // AT_ONCE) * AT_ONCE), dtype=np.float32)
    scale_rows(model.W, rate, rows)
    log_first = np.log(model.alpha) + np.log(rate) - np.log(model.beta)
    return Weights(rows.ravel(), model.alpha, np.exp(log_first - log_first.max()))


def columns_of(X: sp.csr_array) -> Columns:
    """The entries of X by feature."""
    entries = sp.csr_array((np.arange(X.nnz), X.indices, X.indptr), shape=X.shape).tocsc()
    place = np.empty(X.nnz, dtype=np.int64)
    place[entries.data] = np.arange(X.nnz)
    return Columns(entries.indptr.astype(np.int64), entries.indices.astype(np.int32), place)


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

    def load(self, X: sp.csr_array, seed: int, first_sample: int = 0) -> LocalEngine:
        """Take counts (canonical CSR, N × F), to draw from the streams of `seed`.

        `first_sample` is the number of row 0 in the whole data, when X is a part of it.
        """
        self._seed = np.uint64(seed)
        self._first_sample = first_sample
        self._lanes = lay_out(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, HEAVY)
        self._columns = columns_of(X)
        lanes = self._lanes
        n_lanes = np.diff(lanes.start)
        n_tokens = n_lanes + 3 * lanes.fours + lanes.twos
        self._largest = int(n_lanes.max(initial=0)), int(n_tokens.max(initial=0))
        self._work = np.cumsum(n_lanes + 20.0 * np.diff(lanes.heavy_start) + 20.0)
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
    def state(self) -> State:
        """Where the chains are."""
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
        """One E-step from the present state. If it is interrupted the state is as before."""
        units = units_for(self._totals, self.n_samples, model, sweeps)
        sums, state = self._draw(model, sweeps, units)
        statistics = finish(sums, units, self._totals, self.n_samples, model, sweeps)
        self._state = state
        return statistics

    def collect(self, model: GaP, sweeps: Sweeps, units: Units) -> Sums:
        """`advance`, as a part of larger data: sums in the units of the whole, to be added."""
        sums, self._state = self._draw(model, sweeps, units)
        return sums

    def _draw(self, model: GaP, sweeps: Sweeps, units: Units) -> tuple[Sums, State]:
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
        weights = weigh(model)
        iteration = self._state.iteration
        plan = Plan(
            seed=self._seed,
            iteration=iteration,
            first_sample=self._first_sample,
            n_sweeps=sweeps.n_burn_in + sweeps.n_draws,
            n_burn_in=sweeps.n_burn_in,
            expectations=sweeps.expectations,
        )
        most = self._most_tokens(K) + 1 if sweeps.sizes else 0

        kept = self._kept(weights, sweeps)

        lanes, columns = self._lanes, self._columns

        def new_place() -> tuple[Desk, Sums]:
            sizes = np.zeros((K, most), dtype=np.int64)
            sums = Sums(np.zeros(weights.rows.size), np.zeros(2 * K), sizes)
            return make_desk(*self._largest, K, plan), sums

        def work(block: tuple[int, int], place: tuple[Desk, Sums]) -> None:
            desk, sums = place
            advance(*block, lanes, columns, weights, plan, units, L, new_L, desk, kept, sums)

        blocks = self._blocks(self._work, K * plan.n_sweeps)
        places = share_out(work, blocks, new_place, self._n_threads)
        sums = add_sums([place[1] for place in places])
        if kept.ratio.size:
            self._add_kept(kept, weights, units, sums)
        return sums, State(new_L, iteration + 1)

    def _kept(self, weights: Weights, sweeps: Sweeps) -> Kept:
        """Room for what one accumulated sweep leaves."""
        one = sweeps.expectations and sweeps.n_draws == 1
        K4 = weights.rows.size // self._totals.size
        return Kept(
            np.empty(self._columns.place.size if one else 0, dtype=np.float32),
            np.empty(self.n_samples * K4 if one else 0, dtype=np.float32),
        )

    def _add_kept(self, kept: Kept, weights: Weights, units: Units, sums: Sums) -> None:
        """Add it by feature; threads write to different rows of Σ C."""
        K4 = weights.rows.size // self._totals.size

        def work(block: tuple[int, int], _: None) -> None:
            add_by_feature(*block, self._columns, kept, weights.rows, units.c, K4, sums.c)

        blocks = self._blocks(self._columns.start[1:].astype(np.float64), K4)
        share_out(work, blocks, lambda: None, self._n_threads)

    def _most_tokens(self, K: int) -> int:
        """max_n |v_n|, if a histogram up to there fits in memory."""
        most = int(self._sample_totals.max(initial=0))
        if K * (most + 1) * self._n_threads > MAX_SIZES:
            raise TooCostlyError(
                f"a histogram of the sizes of {K} components up to {most} counts a sample, "
                f"in {self._n_threads} threads, takes more than 2 GiB: use fewer threads "
                "(n_jobs), or do not learn alpha"
            )
        return most

    def _blocks(self, work: NDArray[np.float64], factor: float) -> list[tuple[int, int]]:
        """Blocks of samples or features of about equal work, which is given as running sums."""
        N = work.size
        if self._block_size is not None:
            cuts = np.append(np.arange(0, N, self._block_size), N)
        else:
            n_blocks = math.ceil(work[-1] * factor / BLOCK_WORK)
            if self._n_threads > 1:
                n_blocks = max(n_blocks, BLOCKS_A_THREAD * self._n_threads)
            n_blocks = min(n_blocks, N)
            ends = np.searchsorted(work, work[-1] * np.arange(1, n_blocks) / n_blocks)
            cuts = np.unique(np.concatenate([[0], ends, [N]]))
        return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
