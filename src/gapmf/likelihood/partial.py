"""The total log-likelihood of many samples, from a random part of them.

For every sample there is an approximation that costs next to nothing: the mean-field lower bound of
log p(v). What it is off by varies little from sample to sample. So log p(v) is computed properly
for a random part, and the gap is predicted for the others by a regression on a few numbers. The
spread of its residuals gives the error of the total.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.likelihood.bound import mean_field_bound
from gapmf.likelihood.marginal import log_likelihood_of
from gapmf.likelihood.result import LogLikelihood, common_error, joined
from gapmf.model import GaP
from gapmf.observation import Observation
from gapmf.parallel import Progress, part_of
from gapmf.types import Array, Index

PILOT = 100  # samples that tell how many are needed
PART = 0.6  # of the samples: if more are needed, all are computed
OWN = 0.75  # of the error that is allowed, for that of the values which are computed
MARGIN = 0.9  # of the error that is allowed: the spread is known only roughly
TOL, MAX_PASSES = 1e-4, 100  # of the bounds: where α is small, some need many passes


def total_log_likelihood(
    counts: sp.csr_array,
    model: GaP,
    precision: float,
    *,
    seed: int,
    n_jobs: int | None,
    max_cost: float,
    progress: Progress | None = None,
    observation: Observation | None = None,
) -> LogLikelihood:
    """Compute the total of log p(v_n), to a standard error in nats per token.

    If a random part of the samples is enough, the values of the others are nan. With exposures,
    all samples are computed.
    """

    def compute(rows: sp.csr_array, target: float, part: Progress | None) -> LogLikelihood:
        return log_likelihood_of(
            rows,
            model,
            precision=target,
            random_state=seed,
            n_jobs=n_jobs,
            max_cost=max_cost,
            progress=part,
            observation=observation,
        )

    N = counts.shape[0]
    if N <= PILOT / PART or observation is not None:
        return compute(counts, precision, progress)
    if not np.asarray(model.W.any(axis=1))[counts.indices].all():  # some samples are impossible
        return compute(counts, precision, progress)
    order = np.random.default_rng(seed).permutation(N)
    allowed = precision * float(counts.sum())
    bound = mean_field_bound(
        counts,
        model,
        tol=TOL,
        max_passes=MAX_PASSES,
        n_jobs=n_jobs,
        progress=part_of(progress, 0.0, 0.4),
    )
    regressors = describe(bound.sizes, model.alpha)
    part = compute(counts[order[:PILOT]], OWN * precision, part_of(progress, 0.4, 0.5))
    while True:
        m = part.per_sample.size
        found = _combine(part, order[:m], bound.value, regressors)
        if found.std_error <= allowed:
            return found
        # More samples make the error of the prediction smaller, but not what is common to all.
        own = common_error(part) * N / m
        room = max((MARGIN * allowed) ** 2 - own**2, 0.1 * allowed**2)
        n_needed = math.ceil(m * (found.std_error**2 - own**2) / room)
        if n_needed > PART * N or n_needed <= m:
            return compute(counts, precision, part_of(progress, 0.5, 1.0))
        some = order[m:n_needed]
        part = joined(part, compute(counts[some], OWN * precision, part_of(progress, 0.5, 1.0)))


def describe(sizes: Array, alpha: Array) -> Array:
    """Return what the gap between bound and log-likelihood may depend on, (N, 7)."""
    shape = alpha + sizes
    share = shape / shape.sum(axis=1, keepdims=True)
    return np.column_stack(
        [
            np.ones(len(sizes)),
            np.log1p(sizes.sum(axis=1)),
            np.exp(-(share * np.log(share)).sum(axis=1)),  # how many components it has
            np.log1p(sizes).sum(axis=1),
            np.log(shape).sum(axis=1),
            (sizes > 0.5).sum(axis=1),
            -np.expm1(-sizes).sum(axis=1),
        ]
    )


def predict(gap: Array, regressors: Array, some: Index) -> tuple[Array, float]:
    """Predict gaps (N,) from those of some samples, by least squares; also their spread."""
    coefficients, _, n_used, _ = np.linalg.lstsq(regressors[some], gap, rcond=1e-10)
    predicted = regressors @ coefficients
    left = float(((gap - predicted[some]) ** 2).sum())
    return predicted, math.sqrt(left / (some.size - n_used))


def _combine(part: LogLikelihood, some: Index, bound: Array, regressors: Array) -> LogLikelihood:
    """Return the total of all samples from a part of them."""
    N, m = bound.size, some.size
    predicted, spread = predict(part.per_sample - bound[some], regressors, some)
    others = np.setdiff1d(np.arange(N), some)
    total = part.total + float((bound + predicted)[others].sum())
    # The coefficients have an error, and so has each prediction. The spread contains the errors of
    # the part's values, except for what is common to them.
    independent = spread * math.sqrt((N - m) ** 2 / m + (N - m))
    own = float((part.std_errors**2).sum())
    error = math.sqrt(independent**2 + own + (common_error(part) * N / m) ** 2)

    def spread_out(values: NDArray[Any], missing: Any) -> NDArray[Any]:
        result = np.full(N, missing, dtype=values.dtype)
        result[some] = values
        return result

    return LogLikelihood(
        total=total,
        std_error=error,
        per_sample=spread_out(part.per_sample, np.nan),
        std_errors=spread_out(part.std_errors, np.nan),
        ess=spread_out(part.ess, np.nan),
        reliable=spread_out(part.reliable, False),
        corrections=spread_out(part.corrections, np.nan),
        methods=spread_out(part.methods, "predicted"),
        method=f"auto (from {m:,} of {N:,} samples, chosen at random)",
    )
