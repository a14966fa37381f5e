"""The total log-likelihood of many samples, from a random part of them.

For every sample there is an approximation that costs next to nothing once its mean component sizes
are known: Chib's identity log p(v) = log p(v, h) − log p(h | v) at the posterior mean of h, with
independent Gamma laws, those with these sizes, in place of the posterior. What it is off by varies
little from sample to sample. So it is computed properly for a random part, and predicted for the
others by a regression on a few numbers. The spread of its residuals gives the error of the total.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from gapmf.csr import sum_entries
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.likelihood.predictive import log_entry_rates
from gapmf.likelihood.result import LogLikelihood
from gapmf.likelihood.sample import ACTIVATIONS
from gapmf.likelihood.short_chains import Sizes, sample_sizes
from gapmf.model import GaP
from gapmf.parallel import Progress, part_of
from gapmf.types import Array, Index

PILOT = 100  # samples that tell how many are needed
PART = 0.6  # of the samples: if more are needed, all are computed
MARGIN = 0.6  # of the error that is allowed, for the prediction of the others
# Precision of the sizes, and sweeps at most: their noise is a part of the spread. The second is for
# spreads that the first leaves too large.
EFFORTS = ((0.05, 32), (0.02, 128))


def total_log_likelihood(
    counts: sp.csr_array,
    model: GaP,
    precision: float,
    *,
    seed: int,
    n_jobs: int | None,
    max_cost: float,
    progress: Progress | None = None,
) -> LogLikelihood:
    """Compute the total of log p(v_n), to a standard error in nats per token.

    If a random part of the samples is enough, the values of the others are nan.
    """

    def compute(rows: sp.csr_array, target: float, part: Progress | None) -> LogLikelihood:
        return log_marginal_likelihood(
            rows,
            model,
            precision=target,
            random_state=seed,
            n_jobs=n_jobs,
            max_cost=max_cost,
            progress=part,
        )

    N = counts.shape[0]
    if N <= PILOT / PART:
        return compute(counts, precision, progress)
    if not np.asarray(model.W.any(axis=1))[counts.indices].all():  # some samples are impossible
        return compute(counts, precision, progress)
    order = np.random.default_rng(seed).permutation(N)
    some = np.sort(order[:PILOT])
    # Any precision is enough here: the spread between samples is larger than their own errors.
    pilot = compute(counts[some], math.inf, part_of(progress, 0.0, 0.1))
    allowed = MARGIN * precision * float(counts.sum())
    for i, (sizes_precision, max_sweeps) in enumerate(EFFORTS):
        found = sample_sizes(
            counts,
            model,
            np.uint64(seed),
            ACTIVATIONS,
            precision=sizes_precision,
            max_sweeps=max_sweeps,
            n_jobs=n_jobs,
            progress=part_of(progress, 0.1 + 0.2 * i, 0.3 + 0.2 * i),
        )
        rough, regressors = approximation(counts, model, found)
        spread = predict(pilot.per_sample - rough[some], regressors, some)[1]
        n_needed = math.ceil((N * spread / max(allowed, 1e-300)) ** 2)
        if n_needed <= PART * N:
            break
    else:
        return compute(counts, precision, part_of(progress, 0.5, 1.0))
    more = np.sort(order[: max(n_needed, PILOT)])
    part = (
        pilot
        if more.size == some.size
        else compute(counts[more], math.inf, part_of(progress, 0.5, 1.0))
    )
    return _combine(part, more, rough, regressors, N)


def approximation(counts: sp.csr_array, model: GaP, found: Sizes) -> tuple[Array, Array]:
    """Return approximations of log p(v_n), (N,), and what their errors may depend on, (N, 8)."""
    sizes = found.mean
    rate = model.column_norms + model.beta
    shape = model.alpha + sizes
    h = shape / rate
    entries = counts.data * log_entry_rates(counts, h, model.W) - gammaln(counts.data + 1.0)
    value = sum_entries(counts.indptr, entries) - h @ model.column_norms
    log_h = np.log(h)
    prior = model.alpha * (np.log(model.beta) + log_h) - model.beta * h - gammaln(model.alpha)
    posterior = shape * (np.log(rate) + log_h) - rate * h - gammaln(shape)
    share = shape / shape.sum(axis=1, keepdims=True)
    regressors = np.column_stack(
        [
            np.ones(len(h)),
            np.log1p(sizes.sum(axis=1)),
            np.exp(-(share * np.log(share)).sum(axis=1)),  # how many components it has
            np.log1p(sizes).sum(axis=1),
            np.log(shape).sum(axis=1),
            (sizes > 0.5).sum(axis=1),
            -np.expm1(-sizes).sum(axis=1),
            found.error,
        ]
    )
    return value + (prior - posterior).sum(axis=1), regressors


def predict(error: Array, regressors: Array, some: Index) -> tuple[Array, float]:
    """Predict errors (N,) from those of some samples, by least squares; also their spread."""
    coefficients, _, n_used, _ = np.linalg.lstsq(regressors[some], error, rcond=1e-10)
    predicted = regressors @ coefficients
    left = float(((error - predicted[some]) ** 2).sum())
    return predicted, math.sqrt(left / (some.size - n_used))


def _combine(
    part: LogLikelihood, some: Index, rough: Array, regressors: Array, N: int
) -> LogLikelihood:
    """Return the total of all samples from a part of them."""
    m = some.size
    predicted, spread = predict(part.per_sample - rough[some], regressors, some)
    others = np.setdiff1d(np.arange(N), some)
    total = part.total + float((rough + predicted)[others].sum())
    # The coefficients have an error, and so has each prediction; the part's own error is in both.
    independent = spread * math.sqrt((N - m) ** 2 / m + (N - m))
    error = math.hypot(independent, part.std_error * N / m)

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
