"""The engine of one machine: threads over blocks of samples, and exact sums over them.

The kernels add whole multiples of fixed scales, which depend on the whole data. So the sums of
parts of the data add up to the same bits, wherever the parts were drawn. Rounding is balanced once,
when everything has been added.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.engines.base import State, Statistics, Sweeps
from gapmf.engines.parts import EStepInputs, MemoryPart, draw, lay_out
from gapmf.errors import InvalidInputError, TooCostlyError
from gapmf.kernels.dictionary import balance_rows, make_weights
from gapmf.kernels.gibbs_layout import EStepPlan, Own, Scales, Sums
from gapmf.model import GaP
from gapmf.observation import Observation
from gapmf.parallel import by_rows, check_n_jobs
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


def inputs_for(
    model: GaP, sweeps: Sweeps, totals: Array, n_samples: int, *, seed: int, iteration: int
) -> EStepInputs:
    """Return what an E-step is told; the length of histograms of L is to be added."""
    check_model(model, totals)
    plan = EStepPlan(
        seed=np.uint64(seed),
        iteration=iteration,
        first_sample=0,
        n_sweeps=sweeps.n_burn_in + sweeps.n_draws,
        n_burn_in=sweeps.n_burn_in,
        expectations=sweeps.expectations,
    )
    weights = make_weights(model.W, model.column_norms, model.alpha, model.beta)
    return EStepInputs(weights, plan, scales_for(totals, n_samples, model, sweeps), 0)


def n_sizes_for(sweeps: Sweeps, largest: int, n_components: int, n_threads: int) -> int:
    """Return max_n |v_n| + 1 if histograms are asked for and fit in memory, or 0."""
    if not sweeps.sizes:
        return 0
    if n_components * (largest + 1) * n_threads > MAX_SIZES:
        raise TooCostlyError(
            f"to learn alpha, each of {n_threads} threads counts how often each of {n_components} "
            f"components has 0 to {largest} counts of a sample, which takes more than 2 GiB in "
            "all: use fewer threads (n_jobs), or learn_alpha=False"
        )
    return largest + 1


def check_chains(L: NDArray[np.integer[Any]], sample_totals: Array, first_sample: int = 0) -> bool:
    """Refuse a state that cannot be one of these samples. Return whether the chains have begun."""
    begun = (L >= 0).all(axis=1) & (L.sum(axis=1, dtype=np.int64) == sample_totals)
    fresh = (L == -1).all(axis=1)
    if not (begun | fresh).all():
        n = int(np.flatnonzero(~(begun | fresh))[0])
        raise InvalidInputError(
            f"the state of sample {first_sample + n} must add up to its "
            f"{sample_totals[n]:.0f} counts"
        )
    return not fresh.all()


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
        self._observation, self._seed = observation, seed
        layout = lay_out(X, BLOCKS_PER_THREAD * self._n_threads, self._block_size)
        self._part, self._iteration = MemoryPart(layout, first_sample), 0
        self._sample_totals = layout.sample_totals
        totals = np.bincount(X.indices, weights=X.data, minlength=X.shape[1])
        self._totals = np.asarray(totals, dtype=np.float64)
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
        L = self._part.state()
        L = np.full((self.n_samples, 1), -1, dtype=np.int64) if L is None else L.copy()
        return State(L, self._iteration)

    @state.setter
    def state(self, state: State) -> None:
        L = np.array(state.L, dtype=np.int64, ndmin=2)
        if L.ndim != 2 or L.shape[0] != self.n_samples:
            raise InvalidInputError(
                f"the state is of {L.shape[0]} samples, but there are {self.n_samples}"
            )
        self._part.restart()
        if check_chains(L, self._sample_totals):
            self._part.put_aside(L)
            self._part.commit()
        self._iteration = state.iteration

    def advance(self, model: GaP, sweeps: Sweeps) -> Statistics:
        """One E-step from the present state: the Monte Carlo expectations of Eqs. 35 to 37.

        If it is interrupted the state is as before.
        """
        own = None
        if self._observation is not None:
            rates = self._observation.rates(model)
            factors = (model.column_norms + model.beta) / rates
            own = Own(factors, np.zeros(rates.shape, dtype=np.int64))
        inputs = self._inputs(model, sweeps)
        sums = self._draw(inputs, own)
        statistics = to_statistics(
            sums, inputs.scales, self._totals, self.n_samples, model, sweeps, self._n_threads
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
        self._commit()
        return statistics

    def collect(self, model: GaP, sweeps: Sweeps, scales: Scales) -> Sums:
        """`advance`, as a part of larger data: sums in the units of the whole, to be added."""
        assert self._observation is None
        sums = self._draw(self._inputs(model, sweeps)._replace(scales=scales))
        self._commit()
        return sums

    def _inputs(self, model: GaP, sweeps: Sweeps) -> EStepInputs:
        inputs = inputs_for(
            model, sweeps, self._totals, self.n_samples, seed=self._seed, iteration=self._iteration
        )
        largest = self._part.extent.largest
        n_sizes = n_sizes_for(sweeps, largest, model.n_components, self._n_threads)
        return inputs._replace(n_sizes=n_sizes)

    def _draw(self, inputs: EStepInputs, own: Own | None = None) -> Sums:
        return draw([self._part], inputs, self._n_threads, own, self._block_size)

    def _commit(self) -> None:
        self._part.commit()
        self._iteration += 1
