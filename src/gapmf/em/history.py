"""What a fit tells of itself: a record per iteration, and the certificate of a maximum.

Both stand apart from what computes them, so that reading a model file stays light.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapmf.model import GaP
from gapmf.types import Array


@dataclass
class Iteration:
    """One iteration, as callbacks see it.

    Attributes
    ----------
    iteration : int
        From 1.
    seconds : float
        Since the fit began, without the time spent in callbacks and for `score_every`.
    n_sweeps : int
        Gibbs sweeps so far, whether of all samples or of a part; 0 without Monte Carlo.
    log_likelihood : float
        log p(X | W) after the iteration, or nan where it was not computed.
    model : GaP
        The parameters after the iteration.
    gain : float
        The gain in log-likelihood that was last measured, with twice its standard error, in nats
        per token and sweep: what the stopping rule compares with `tol`. It is nan before the
        first measurement and without Monte Carlo.
    objective : float
        What "vbem" or "mjle" maximises: the lower bound of log p(X | W), or log p(X, H | W). It
        is nan for the other algorithms.
    log_prior : float
        η Σ_fk log(F w_fk/S_k), what the prior of `pseudo_count` adds to the objective. It is nan
        where the log-likelihood or other objective is.
    """

    iteration: int
    seconds: float
    n_sweeps: int
    log_likelihood: float
    model: GaP = field(repr=False)
    gain: float = np.nan
    objective: float = np.nan
    log_prior: float = np.nan


HISTORY = ("seconds", "n_sweeps", "norms", "log_likelihood")

Callback = Callable[[Iteration], Any]


class History:
    """Collects the records of a fit and calls the callbacks; the clock stops meanwhile.

    `score` computes the log-likelihood of a model after every `every`-th iteration that comes
    without one; never if `every` is 0. `objective` names what a fit maximises that does not
    maximise the log-likelihood: it then has a column of its own. So has the prior on directions,
    if there is one.
    """

    def __init__(
        self,
        callbacks: Sequence[Callback] = (),
        score: Callable[[GaP], float] | None = None,
        every: int = 0,
        objective: str | None = None,
        *,
        prior: bool = False,
    ) -> None:
        self._callbacks = tuple(callbacks)
        self._score, self._every = score, every
        self._begin = time.perf_counter()
        self._rows: list[tuple[float, int, Array, float]] = []
        self._objective, self._values = objective, list[float]()
        self._prior, self._priors = prior, list[float]()
        self.stopped = False
        self.model: GaP | None = None
        self.pseudo_count = 0.0

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        model: GaP,
        log_likelihood: float = np.nan,
        n_sweeps: int = 0,
        gain: float = np.nan,
        objective: float = np.nan,
        pseudo_count: float = 0.0,
    ) -> bool:
        """Add an iteration; return True when a callback asks to stop."""
        self.model, self.pseudo_count = model, pseudo_count
        now = time.perf_counter()
        seconds = now - self._begin
        asked = self._every > 0 and (len(self._rows) + 1) % self._every == 0
        if asked and self._score is not None and np.isnan(log_likelihood):
            log_likelihood = self._score(model)
        self._rows.append((seconds, n_sweeps, model.column_norms, log_likelihood))
        self._values.append(objective)
        known = not (np.isnan(log_likelihood) and np.isnan(objective))
        prior = model.log_prior(pseudo_count) if known else np.nan
        self._priors.append(prior)
        n = len(self._rows)
        record = Iteration(n, seconds, n_sweeps, log_likelihood, model, gain, objective, prior)
        answers = [callback(record) for callback in self._callbacks]
        self._begin += time.perf_counter() - now
        self.stopped = any(isinstance(a, (bool, np.bool_)) and bool(a) for a in answers)
        return self.stopped

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from the arrays of an earlier history, its clock included."""
        columns = (arrays[name] for name in HISTORY)
        self._rows = [
            (float(seconds), int(n_sweeps), norms, float(value))
            for seconds, n_sweeps, norms, value in zip(*columns, strict=True)
        ]
        unknown = np.full(len(self._rows), np.nan)
        self._values = arrays.get(self._objective or "", unknown).tolist()
        self._priors = arrays.get("log_prior", unknown).tolist()
        self._begin = time.perf_counter() - (self._rows[-1][0] if self._rows else 0.0)

    def arrays(self, n_components: int) -> dict[str, NDArray[Any]]:
        """Return the history as arrays with one entry per iteration."""
        seconds, sweeps, norms, values = zip(*self._rows, strict=True) if self._rows else ([],) * 4
        arrays = {
            "seconds": np.array(seconds, dtype=float),
            "n_sweeps": np.array(sweeps, dtype=np.int64),
            "norms": np.array(norms, dtype=float).reshape(len(self._rows), n_components),
            "log_likelihood": np.array(values, dtype=float),
        }
        if self._objective is not None:
            arrays[self._objective] = np.array(self._values, dtype=float)
        if self._prior:
            arrays["log_prior"] = np.array(self._priors, dtype=float)
        return arrays


@dataclass(frozen=True)
class Certificate:
    """First-order conditions at a model, and the score test for one column more.

    Attributes
    ----------
    projected_gradient : float
        The largest first-order gain, in nats, from moving one share u_fk (the part of feature
        f's mean count that component k explains) as far as it can go: up by a whole share, or
        down to zero. When α is learned, also the largest absolute d log p/d log α_k at fixed
        expected counts, unless α_k is at a bound that it would cross. Zero at a maximum.
    identity : float
        The largest deviation from Σ_k (α_k/β_k) w_fk = v̄_f, relative to v̄_f, which holds at
        every stationary point.
    r, r_error : arrays, (F,)
        The score test for one column more, and its standard error over samples. Where r_f > 1 a
        new column would raise the likelihood, at first by N (α/β) (r_f − 1) nats per unit
        of w_f. At the truth r_f is one on average, so it nearly always exceeds one somewhere. It
        is a slope at an empty column, so it does not say how much can be gained in all.
    """

    projected_gradient: float
    identity: float
    r: Array
    r_error: Array
