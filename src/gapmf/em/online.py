"""On-line EM (Cappé and Moulines, 2009): a step of EM-C after every mini-batch of samples.

The statistics of EM-C per sample, s_fk = E[c_fk], are averaged over mini-batches,

    s ← (1 − γ_t) s + γ_t ŝ_t,   γ_t = (t + t₀)^-κ,

and W follows from the average, w_fk = (β_k/α_k) v̄_f s_fk / Σ_l s_fl: the M-step of EM-C, with each
row scaled to the mean count v̄_f of all samples so far, as it is at every maximum.

Most features have no counts in a mini-batch. Their ŝ is 0, so their s_f only shrinks, and their row
of W does not change but for v̄_f. So a row has shares u_fk = s_fk / Σ_l s_fl and a weight Σ_l s_fl,
which is brought up to date when the feature is met again: it has shrunk by Π (1 − γ), of which the
logarithm is kept. (But not to less than a few tokens of the feature: a row that remembered only
its last token would follow it, and the next token would again be given to the same component.) And
to the samples of a mini-batch, all features that they lack are one feature:
its row of W is the sum of theirs. Thus a mini-batch costs as many rows as it has features.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.em.alpha import fit_alpha
from gapmf.em.averages import Averages
from gapmf.engines.base import Statistics
from gapmf.kernels.row_averages import average_rows, gather_rows
from gapmf.model import GaP, model_of_step
from gapmf.types import Array

ALL_GONE = -1000.0  # the logarithm of a decay whose exponential is 0
MEMORY = 5.0  # the last tokens of a feature that its row remembers, however long ago they were
REFRESH = 64.0  # component totals are added up anew after so many visits per feature


def model_for(averages: Averages, features: NDArray[np.int64]) -> GaP:
    """Return the model of some features, and of all others together as the last one."""
    W = np.empty((features.size + 1, averages.alpha.size))
    gather_rows(features, averages.shares, averages.feature_totals, averages.scale, W)
    rest = averages.component_totals * averages.scale - W[:-1].sum(axis=0)
    W[-1] = np.maximum(rest, 0.0)
    return model_of_step(W, averages.alpha, averages.beta)


def with_samples(
    averages: Averages, features: NDArray[np.int64], counts: Array, n_samples: int
) -> Averages:
    """Return averages whose mean counts include new samples, with these totals of features."""
    averages.feature_totals[features] += counts
    totals = averages.component_totals + counts @ averages.shares[features]
    return replace(averages, component_totals=totals, n_samples=averages.n_samples + n_samples)


def step(
    averages: Averages,
    features: NDArray[np.int64],
    s: Statistics,
    gamma: float,
    *,
    n_samples: int,
    learn_alpha: str | None = None,
) -> Averages:
    """Return the averages after a mini-batch, with its statistics at `model_for(features)`."""
    log_decay = averages.log_decay + (math.log1p(-gamma) if gamma < 1.0 else ALL_GONE)
    totals, n_visits = averages.component_totals.copy(), averages.n_visits + features.size
    average_rows(
        features,
        s.c_sum,
        s.n_draws,
        gamma,
        log_decay,
        (1.0 - gamma) * gamma * MEMORY / n_samples,
        averages.feature_totals,
        averages.shares,
        averages.weights,
        averages.clocks,
        totals,
    )
    if n_visits > REFRESH * averages.weights.size:
        totals, n_visits = averages.feature_totals @ averages.shares, 0
    sizes, alpha = averages.sizes, averages.alpha
    if learn_alpha is not None:
        assert s.sizes is not None
        sizes = _mix(sizes, s.sizes / s.n_draws, gamma)
        alpha = fit_alpha(sizes, alpha, shared=learn_alpha == "shared")
    return replace(
        averages,
        alpha=alpha,
        component_totals=totals,
        log_decay=log_decay,
        t=averages.t + 1,
        sizes=sizes,
        n_visits=n_visits,
    )


def _mix(old: Array | None, new: Array, gamma: float) -> Array:
    """(1 − γ) old + γ new, of histograms that may differ in length."""
    if old is None:
        return new
    mixed = np.zeros((new.shape[0], max(old.shape[1], new.shape[1])))
    mixed[:, : old.shape[1]] = (1.0 - gamma) * old
    mixed[:, : new.shape[1]] += gamma * new
    return mixed


def only_met(counts: sp.csr_array) -> tuple[NDArray[np.int64], sp.csr_array]:
    """Return the features that samples have, and their counts in these and one empty column."""
    features, column = np.unique(counts.indices, return_inverse=True)
    met = sp.csr_array(
        (counts.data, column.astype(np.int32), counts.indptr),
        shape=(counts.shape[0], features.size + 1),
    )
    return features.astype(np.int64), met
