"""An engine that begins with a random part of the samples and takes in more of them when asked.

The samples are shuffled, and each part is the beginning of the next one. So the chains go on when
the part grows; those of new samples start then.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.engines.base import State, Statistics, Sweeps
from gapmf.engines.local import LocalEngine
from gapmf.errors import InvalidInputError
from gapmf.model import GaP

if TYPE_CHECKING:
    from gapmf.observation import Observation

TOKENS = 6  # of the first part, for each entry of W
SAMPLES = 100  # of the first part, at least, for each component
GROWTH = 4  # from one part to the next, at most
LEAST_GROWTH = 2  # to all samples


def part_sizes(n_samples: int, n_tokens: float, n_features: int, n_components: int) -> list[int]:
    """Return how many samples the parts have, from the first one to all of them.

    >>> part_sizes(200_000, 15e6, 10_000, 20)
    [16000, 64000, 200000]
    >>> part_sizes(1500, 1.9e6, 12_000, 20)
    [1500]
    """
    per_sample = max(n_tokens / max(n_samples, 1), 1e-9)
    size = max(round(TOKENS * n_features * n_components / per_sample), SAMPLES * n_components)
    sizes = []
    while LEAST_GROWTH * size <= n_samples:
        sizes.append(size)
        size *= GROWTH
    if sizes and n_samples < GROWTH * sizes[0]:
        sizes = []  # one small step would save nothing
    return [*sizes, n_samples]


class GrowingEngine:
    """Chains of a part of the samples, on this machine.

    `totals` and `n_samples` are those of the present part, and `mean_counts` those of all samples.
    A feature that the part lacks keeps its row of W: its statistics are what the model expects.

    >>> counts = sp.csr_array(np.eye(5, 2, dtype=np.int64))
    >>> engine = GrowingEngine(counts, seed=0, sizes=[2, 5])
    >>> engine.n_samples, engine.is_whole
    (2, False)
    >>> engine.grow()
    >>> engine.n_samples, engine.is_whole
    (5, True)
    """

    def __init__(
        self, counts: sp.csr_array, seed: int, sizes: list[int], n_jobs: int | None = None
    ) -> None:
        self._counts, self._seed, self._sizes, self._n_jobs = counts, seed, sizes, n_jobs
        self._rows = np.random.default_rng(seed).permutation(counts.shape[0])
        totals = np.bincount(counts.indices, weights=counts.data, minlength=counts.shape[1])
        self._mean_counts = np.asarray(totals / max(counts.shape[0], 1))
        self._load(sizes[0])

    def _load(self, size: int) -> None:
        part = sp.csr_array(self._counts[self._rows[:size]])
        self._engine = LocalEngine(self._n_jobs).load(part, self._seed)
        self._missing = (self._engine.totals == 0.0) & (self._mean_counts > 0.0)

    @property
    def is_whole(self) -> bool:
        """Whether the part is all samples."""
        return self.n_samples == self._sizes[-1]

    def grow(self) -> None:
        """Go on with the next part."""
        state = self.state
        size = self._sizes[self._sizes.index(self.n_samples) + 1]
        new = np.full((size - self.n_samples, state.L.shape[1]), -1, dtype=state.L.dtype)
        self._load(size)
        self._engine.state = State(np.concatenate([state.L, new]), state.iteration)

    @property
    def n_samples(self) -> int:
        """The number of samples of the part."""
        return self._engine.n_samples

    @property
    def totals(self) -> NDArray[np.float64]:
        """(F,): Σ_n v_fn over the part."""
        return self._engine.totals

    @property
    def mean_counts(self) -> NDArray[np.float64]:
        """(F,): the mean count of each feature in all samples."""
        return self._mean_counts

    @property
    def observation(self) -> Observation | None:
        """None: all samples are observed alike."""
        return None

    @property
    def state(self) -> State:
        """The state of the chains of the part; one of another part changes to that part."""
        return self._engine.state

    @state.setter
    def state(self, state: State) -> None:
        size = state.L.shape[0]
        if size not in self._sizes:
            raise InvalidInputError(f"the state is of {size} samples, but parts have {self._sizes}")
        if size != self.n_samples:
            self._load(size)
        self._engine.state = state

    def advance(self, model: GaP, sweeps: Sweeps) -> Statistics:
        """One E-step of the part from the present state."""
        statistics = self._engine.advance(model, sweeps)
        if not self._missing.any():
            return statistics
        c_sum = statistics.c_sum.copy()
        expected = model.W[self._missing] * (model.alpha / model.beta)
        c_sum[self._missing] = statistics.n_draws * expected
        return replace(statistics, c_sum=c_sum)
