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
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.em.alpha import fit_alpha
from gapmf.engines.base import Statistics
from gapmf.kernels.averages import average_rows, gather_rows
from gapmf.model import GaP, model_of_step
from gapmf.types import Array

ALL_GONE = -1000.0  # the logarithm of a decay whose exponential is 0
MEMORY = 5.0  # the last tokens of a feature that its row remembers, however long ago they were
REFRESH = 64.0  # component totals are added up anew after so many visits per feature


@dataclass(frozen=True)
class Averages:
    """Averaged statistics, and the model that follows from them.

    A step takes over the arrays: go on from the latest averages only.

    Attributes
    ----------
    alpha, beta : array, (K,)
        Of the present model.
    shares : array, (F, K)
        u_fk; rows sum to 1.
    weights : array, (F,)
        Σ_k s_fk as it was at the last visit of the feature; 0 before the first.
    clocks : array, (F,)
        `log_decay` at that visit.
    feature_totals : array, (F,)
        Σ_n v_fn over the samples that count in v̄_f.
    n_samples : int
        The number of these samples.
    component_totals : array, (K,)
        Σ_f u_fk Σ_n v_fn.
    log_decay : float
        Σ_t log(1 − γ_t).
    t : int
        Mini-batches so far.
    sizes : array, (K, M + 1), or None
        If α is learned: the averaged frequencies of L_kn = 0, 1, 2, …
    n_visits : int
        Visits of features since the component totals were added up.
    """

    alpha: Array
    beta: Array
    shares: Array
    weights: Array
    clocks: Array
    feature_totals: Array
    n_samples: int
    component_totals: Array
    log_decay: float = 0.0
    t: int = 0
    sizes: Array | None = None
    n_visits: int = 0

    @property
    def scale(self) -> Array:
        """(K,): w_fk = scale_k T_f u_fk, where T_f are the feature totals."""
        return self.beta / (self.alpha * max(self.n_samples, 1))

    def model(self) -> GaP:
        """Return the present model."""
        W = self.shares * self.feature_totals[:, None]
        W *= self.scale
        return model_of_step(W, self.alpha, self.beta)

    def model_for(self, features: NDArray[np.int64]) -> GaP:
        """Return the model of some features, and of all others together as the last one."""
        W = np.empty((features.size + 1, self.alpha.size))
        gather_rows(features, self.shares, self.feature_totals, self.scale, W)
        rest = self.component_totals * self.scale - W[:-1].sum(axis=0)
        W[-1] = np.maximum(rest, 0.0)
        return model_of_step(W, self.alpha, self.beta)

    def with_samples(self, features: NDArray[np.int64], counts: Array, n_samples: int) -> Averages:
        """Return averages whose mean counts include new samples, with these totals of features."""
        self.feature_totals[features] += counts
        totals = self.component_totals + counts @ self.shares[features]
        return replace(self, component_totals=totals, n_samples=self.n_samples + n_samples)

    def step(
        self,
        features: NDArray[np.int64],
        s: Statistics,
        gamma: float,
        *,
        n_samples: int,
        learn_alpha: str | None = None,
        sums: Array | None = None,
    ) -> Averages:
        """Return the averages after a mini-batch, with its statistics at `model_for(features)`.

        `sums` (F, K), if given, has Σ_jn c_fkn added to it.
        """
        log_decay = self.log_decay + (math.log1p(-gamma) if gamma < 1.0 else ALL_GONE)
        totals, n_visits = self.component_totals.copy(), self.n_visits + features.size
        average_rows(
            features,
            s.c_sum,
            s.n_draws,
            gamma,
            log_decay,
            (1.0 - gamma) * gamma * MEMORY / n_samples,
            self.feature_totals,
            self.shares,
            self.weights,
            self.clocks,
            totals,
            np.empty((0, 0)) if sums is None else sums,
        )
        if n_visits > REFRESH * self.weights.size:
            totals, n_visits = self.feature_totals @ self.shares, 0
        sizes, alpha = self.sizes, self.alpha
        if learn_alpha is not None:
            assert s.sizes is not None
            sizes = _mix(sizes, s.sizes / s.n_draws, gamma)
            alpha = fit_alpha(sizes, alpha, shared=learn_alpha == "shared")
        return replace(
            self,
            alpha=alpha,
            component_totals=totals,
            log_decay=log_decay,
            t=self.t + 1,
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


def averages_at(
    model: GaP, feature_totals: Array, n_samples: int, *, n_before: int = 0
) -> Averages:
    """Return averages with the shares of a model, for samples with these totals of features.

    If the model stands for `n_before` mini-batches, the averages are theirs; otherwise nothing has
    been averaged yet. A feature that the model does not have is shared out equally.
    """
    F, K = model.W.shape
    shares = model.W * (model.alpha / model.beta)
    total = shares.sum(axis=1, keepdims=True)
    shares = np.where(total > 0.0, shares / np.where(total > 0.0, total, 1.0), 1.0 / K)
    return Averages(
        alpha=model.alpha,
        beta=model.beta,
        shares=shares,
        weights=feature_totals / max(n_samples, 1) * (n_before > 0),
        clocks=np.zeros(F),
        feature_totals=feature_totals.astype(np.float64),
        n_samples=n_samples,
        component_totals=feature_totals @ shares,
        t=n_before,
    )


def continued(model: GaP, averages: Averages) -> Averages:
    """Return averages that go on from another model of the same samples."""
    at = averages_at(model, averages.feature_totals, averages.n_samples, n_before=averages.t)
    clocks = np.full_like(averages.clocks, averages.log_decay)
    return replace(at, clocks=clocks, log_decay=averages.log_decay, sizes=averages.sizes)


def only_met(counts: sp.csr_array) -> tuple[NDArray[np.int64], sp.csr_array]:
    """Return the features that samples have, and their counts in these and one empty column."""
    features, column = np.unique(counts.indices, return_inverse=True)
    met = sp.csr_array(
        (counts.data, column.astype(np.int32), counts.indptr),
        shape=(counts.shape[0], features.size + 1),
    )
    return features.astype(np.int64), met
