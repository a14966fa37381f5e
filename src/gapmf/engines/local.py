"""The engine of one machine: threads over blocks of samples."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.engines.base import State, Sweeps
from gapmf.errors import InvalidInputError
from gapmf.kernels.desk import AT_ONCE, Plan, Sums, Weights
from gapmf.kernels.gibbs import advance
from gapmf.kernels.lanes import lay_out
from gapmf.m_steps import Statistics
from gapmf.model import GaP
from gapmf.parallel import check_n_jobs, share_out

HEAVY = 128  # counts above are drawn by conditional binomials, not token by token
BLOCK_WORK = 5e8  # tokens × components × sweeps: a fraction of a second, so Ctrl-C is answered
BLOCKS_A_THREAD = 8  # so that no thread waits long for the last one
EXACT_BITS = 51  # sums of whole numbers below 2^51 are exact, see kernels.sums
LEAST_SHARE = 2.0**-33  # of a feature's counts, that an expectation is never rounded below
MAX_COMPONENTS = 1 << 20  # the address of a draw has 20 bits for its component


def check_reachable(W: NDArray[np.float64], totals: NDArray[np.float64]) -> None:
    """Refuse a dictionary that cannot have made the counts."""
    unmet = np.flatnonzero((W.max(axis=1) == 0.0) & (totals > 0))
    if unmet.size:
        raise InvalidInputError(
            f"feature {unmet[0]} has counts, but row {unmet[0]} of W is 0: "
            "the counts have probability 0"
        )


def weigh(model: GaP) -> Weights:
    """W as the kernel wants it: rows scaled to a maximum of 1, padded, in single precision."""
    F, K = model.W.shape
    rows = np.zeros((F, -(-K // AT_ONCE) * AT_ONCE), dtype=np.float32)
    top = model.W.max(axis=1, keepdims=True)
    np.divide(model.W, top, out=rows[:, :K], where=top > 0, casting="same_kind")
    return Weights(
        rows.ravel(), model.alpha, model.column_norms + model.beta, model.alpha / model.beta
    )


def unit_for(largest: float) -> float:
    """The finest power of two for which sums up to `largest` stay exact."""
    return 2.0 ** (EXACT_BITS - math.ceil(math.log2(max(largest, 1.0))))


def settle(c: NDArray[np.float64], W: NDArray[np.float64], expected: NDArray[np.float64]) -> None:
    """Undo the rounding of expectations: entries stay positive, rows sum to `expected` exactly.

    An entry of W that becomes 0 never returns, and during a fit many want to: on documents
    that costs more likelihood than Monte Carlo noise does. Where w_fk > 0 its expected share
    therefore stays above LEAST_SHARE. What a row is then off by goes to its largest entry.
    """
    floor = np.ceil(expected * LEAST_SHARE)[:, None]
    np.maximum(c, floor, out=c, where=W > 0)
    rows = np.arange(c.shape[0])
    c[rows, c.argmax(axis=1)] += expected - c.sum(axis=1)


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
        self._sample_totals = np.asarray(X.sum(axis=1), dtype=np.float64)
        self._totals = np.asarray(X.sum(axis=0), dtype=np.float64)
        self._L = np.full((X.shape[0], 1), -1, dtype=np.int64)
        self._iteration = 0
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
        return State(self._L.copy(), self._iteration)

    @state.setter
    def state(self, state: State) -> None:
        self._L, self._iteration = state.L.copy(), state.iteration

    def advance(self, model: GaP, sweeps: Sweeps) -> Statistics:
        """One E-step from the present state. If it is interrupted the state is as before."""
        K = model.n_components
        if K >= MAX_COMPONENTS:
            raise InvalidInputError(
                f"there can be at most {MAX_COMPONENTS - 1} components, not {K}"
            )
        check_reachable(model.W, self._totals)
        L = self._L if self._L.shape[1] == K else np.full((self.n_samples, K), -1, np.int64)
        new_L = np.empty_like(L)
        weights = weigh(model)
        plan = self._plan(model, sweeps)
        most = int(self._sample_totals.max(initial=0)) + 1 if sweeps.sizes else 0

        def new_sums() -> Sums:
            c = np.zeros(weights.rows.size)
            return Sums(c, np.zeros(K), np.zeros((K, most), dtype=np.int64))

        def work(block: tuple[int, int], sums: Sums) -> None:
            advance(*block, self._lanes, weights, plan, L, new_L, sums)

        parts = share_out(work, self._blocks(K * plan.n_sweeps), new_sums, self._n_threads)
        for part in parts[1:]:
            for total, share in zip(parts[0], part, strict=True):
                np.add(total, share, out=total)
        self._L, self._iteration = new_L, self._iteration + 1
        return self._statistics(parts[0], model.W, weights, plan, sweeps)

    def _plan(self, model: GaP, sweeps: Sweeps) -> Plan:
        J = sweeps.n_draws
        most_c = J * self._totals.max(initial=0.0)
        most_g = J * (self._totals.sum() + self.n_samples * (model.alpha.max() + 10.0))
        return Plan(
            seed=self._seed,
            iteration=self._iteration,
            first_sample=self._first_sample,
            n_sweeps=sweeps.n_burn_in + J,
            n_burn_in=sweeps.n_burn_in,
            expectations=sweeps.expectations,
            c_unit=unit_for(most_c) if sweeps.expectations else 1.0,
            g_unit=unit_for(4.0 * most_g),
        )

    def _blocks(self, work_a_token: int) -> list[tuple[int, int]]:
        """Blocks of samples of about equal work."""
        N = self.n_samples
        if self._block_size is not None:
            cuts = np.append(np.arange(0, N, self._block_size), N)
        else:
            lanes = self._lanes
            work = np.cumsum(np.diff(lanes.start) + 20 * np.diff(lanes.heavy_start) + 20)
            n_blocks = math.ceil(work[-1] * work_a_token / BLOCK_WORK)
            if self._n_threads > 1:
                n_blocks = max(n_blocks, BLOCKS_A_THREAD * self._n_threads)
            ends = np.searchsorted(work, work[-1] * np.arange(1, n_blocks) / n_blocks)
            cuts = np.unique(np.concatenate([[0], ends, [N]]))
        return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))

    def _statistics(
        self,
        sums: Sums,
        W: NDArray[np.float64],
        weights: Weights,
        plan: Plan,
        sweeps: Sweeps,
    ) -> Statistics:
        K = weights.alpha.size
        c = sums.c.reshape(self._totals.size, -1)[:, :K]
        if sweeps.expectations:
            settle(c, W, self._totals * (sweeps.n_draws * plan.c_unit))
        return Statistics(
            c_sum=c / plan.c_unit,
            h_sum=sums.g / (plan.g_unit * weights.rate),
            n_draws=float(sweeps.n_draws * self.n_samples),
            sizes=sums.sizes if sweeps.sizes else None,
        )
