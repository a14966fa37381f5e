"""Results of likelihood computations, and how weights become estimates with error bars."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from gapmf.types import Array, Index

# Above it, the parts of an estimate hardly agree and one of them may dominate. Then neither the
# correction of the logarithm nor the error bar can be trusted.
LARGEST_STD_ERROR = 0.5

# With a larger shape of their upper tail, weights have an infinite variance (Vehtari et al. 2024,
# "Pareto smoothed importance sampling").
LARGEST_TAIL_SHAPE = 0.5

# With fewer particles that give a first token to a component, all may miss a mode with it.
MIN_FIRST_TOKENS = 10.0

ROUNDING = 1e-14  # relative error of a logarithm when all weights are equal


@dataclass(frozen=True, repr=False, eq=False)
class LogLikelihood:
    """Log-likelihood of counts, in total and for each sample, with error bars.

    Errors of different samples are independent, except for a common part: half of the summed
    `corrections` is added to `std_error` (all of it where the estimate is coarse), since all
    corrections have the same sign. Equal samples are computed once and share their error.

    Attributes
    ----------
    total : float
        Sum over the samples.
    std_error : float
        Standard error of `total`; 0.0 if exact.
    per_sample : ndarray of shape (n_samples,)
        Log-likelihood of each sample.
    std_errors : ndarray of shape (n_samples,)
        Standard errors of `per_sample`; 0.0 where exact.
    ess : ndarray of shape (n_samples,)
        Effective number of independent draws behind each value, 1 / (1/n + s²) for n particles,
        points or chains whose mean has the relative variance s². It is inf where exact.
    reliable : ndarray of bool of shape (n_samples,)
        False where the error bar itself cannot be trusted. Exact values are reliable.
    corrections : ndarray of shape (n_samples,)
        Terms added to the values because the logarithm of an unbiased estimate is too small on
        average, by half its relative variance. Negative for "reverse", 0 where exact.
    methods : ndarray of str of shape (n_samples,)
        Method used for each sample.
    method : str
        Requested method; for "auto", a summary of the methods used.
    """

    total: float
    std_error: float
    per_sample: Array
    std_errors: Array
    ess: Array
    reliable: NDArray[np.bool_]
    corrections: Array
    methods: NDArray[np.str_]
    method: str

    def __repr__(self) -> str:
        error = "exact" if self.std_error == 0.0 else f"± {self.std_error:.2g}"
        return (
            f"LogLikelihood(total={self.total:.6f}, {error}, "
            f"n_samples={self.per_sample.size}, method={self.method!r})"
        )


def common_error(part: LogLikelihood) -> float:
    """Return the part of the error of a total that its samples have in common."""
    return math.sqrt(max(part.std_error**2 - float((part.std_errors**2).sum()), 0.0))


def joined(a: LogLikelihood, b: LogLikelihood) -> LogLikelihood:
    """Return the result of the samples of a and of those of b after them."""
    independent = math.sqrt(float((a.std_errors**2).sum() + (b.std_errors**2).sum()))
    common = common_error(a) + common_error(b)
    return LogLikelihood(
        total=a.total + b.total,
        std_error=math.hypot(independent, common),
        per_sample=np.append(a.per_sample, b.per_sample),
        std_errors=np.append(a.std_errors, b.std_errors),
        ess=np.append(a.ess, b.ess),
        reliable=np.append(a.reliable, b.reliable),
        corrections=np.append(a.corrections, b.corrections),
        methods=np.append(a.methods, b.methods),
        method=a.method,
    )


class Estimates(NamedTuple):
    """Estimates for N samples, with fields as in `LogLikelihood`."""

    values: Array
    std_errors: Array
    ess: Array
    reliable: NDArray[np.bool_]
    corrections: Array
    common: Array
    """Errors that all samples may have with the same sign."""

    @classmethod
    def empty(cls, N: int) -> Estimates:
        """Allocate arrays for N samples."""
        values, std_errors, ess, corrections, common = np.empty((5, N))
        return cls(values, std_errors, ess, np.empty(N, dtype=bool), corrections, common)

    def put(self, places: Index, others: Estimates) -> None:
        """Overwrite the estimates of some samples."""
        for array, values in zip(self, others, strict=True):
            array[places] = values


def sum_error(known: Estimates, times: Array) -> float:
    """Return the standard error of the sum of estimates, each of which counts so many times."""
    independent = math.sqrt(float(((times * known.std_errors) ** 2).sum()))
    return math.hypot(independent, float(times @ known.common))


def expand_distinct(
    known: Estimates, methods: NDArray[np.str_], inverse: Index, method: str
) -> LogLikelihood:
    """Return the result for all samples from that of the distinct ones.

    inverse (N,) is the number of each sample among the distinct ones, whose errors are
    independent.
    """
    times = np.bincount(inverse, minlength=known.values.size).astype(float)
    methods = methods[inverse]
    if method == "auto":
        names, numbers = np.unique(methods, return_counts=True)
        used = ", ".join(f"{name} {n}" for name, n in zip(names, numbers, strict=True))
        method = f"auto ({used})"
    per_sample = known.values[inverse]
    return LogLikelihood(
        total=float(per_sample.sum()),
        std_error=sum_error(known, times),
        per_sample=per_sample,
        std_errors=known.std_errors[inverse],
        ess=known.ess[inverse],
        reliable=known.reliable[inverse],
        corrections=known.corrections[inverse],
        methods=methods,
        method=method,
    )


def is_ambiguous(p: Array, starts: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return for each sample whether the components of its tokens are uncertain and matter.

    The rows of p (entries, K) have maximum 1; those of sample n begin at starts[n]. A sample is
    unambiguous when each of its tokens has one possible component, or when all columns are equal.
    """
    several = (p > 0).sum(axis=1) > 1
    unequal = (p != 1.0).any(axis=1)
    return np.asarray(
        np.logical_or.reduceat(several, starts) & np.logical_or.reduceat(unequal, starts)
    )


def expected_first_tokens(alpha: Array, mass: Array, total: Array) -> Array:
    """Return the expected fraction of particles that give a token to an empty component.

    By the prior, token i chooses a component with shape α with probability α/(mass + i), where
    mass is Σ_k α_k plus the sum of the guide. (If mass < 1, this counts from the second token,
    since the first must go somewhere.) See `MIN_FIRST_TOKENS`.
    """
    mass = np.maximum(mass, 1.0)
    found = alpha * (digamma(mass + total) - digamma(mass))
    return np.where(np.asarray(total) <= 1, np.inf, found)  # all choices of one token are tried


class Mean(NamedTuple):
    """Logarithm of a mean of weights: the estimate of one sample, with fields as in Estimates."""

    value: float
    std_error: float
    ess: float
    reliable: bool
    correction: float
    common: float


def log_mean(log_weights: Array, parts: tuple[int, ...] | None = None) -> Mean:
    """Return the logarithm of the mean of independent weights (S,), corrected for its bias.

    parts are the sizes of consecutive strata; only the variance within strata counts.
    """
    S = log_weights.size
    top = log_weights.max()
    weights = np.exp(log_weights - top)
    mean = weights.mean()
    strata = np.split(weights, np.cumsum(parts)[:-1]) if parts else [weights]
    variance = sum(w.size * w.var(ddof=1) for w in strata if w.size > 1) / (S * mean) ** 2
    value = float(top + np.log(mean))
    std_error = float(max(np.sqrt(variance), ROUNDING * (1.0 + abs(value))))
    correction = 0.5 * float(min(variance, 1.0))
    return Mean(
        value=value + correction,
        std_error=std_error,
        ess=float(S / (1.0 + S * variance)),
        reliable=std_error <= LARGEST_STD_ERROR and tail_shape(weights) <= LARGEST_TAIL_SHAPE,
        correction=correction,
        common=0.5 * correction,
    )


def tail_shape(weights: Array) -> float:
    """Estimate the shape ξ of the generalised Pareto distribution of the largest weights.

    This is the estimate of Zhang and Stephens (2009) from the largest 3 √S weights, or a fifth
    of all. It is shrunk towards 1/2 with the weight of ten observations.
    """
    S = weights.size
    n = int(min(0.2 * S, 3.0 * np.sqrt(S)))
    if n < 20:
        return 0.0  # too few for an estimate
    ordered = np.sort(weights)[-n - 1 :]
    x = ordered[1:] - ordered[0]
    if x[-1] <= 1e-10 * ordered[-1]:
        return 0.0  # all are equal
    x = np.maximum(x, 1e-12 * x[-1])
    grid = 30 + int(np.sqrt(n))
    theta = 1.0 - np.sqrt(grid / (np.arange(grid) + 0.5))
    theta = 1.0 / x[-1] + theta / (3.0 * x[int(n / 4 + 0.5) - 1])
    shape = np.log1p(-theta[:, None] * x).mean(axis=1)
    fit = n * (np.log(-theta / shape) - shape - 1.0)
    weight = np.exp(fit - fit.max())
    best = float(theta @ weight / weight.sum())
    return float((n * np.log1p(-best * x).mean() + 5.0) / (n + 10.0))
