"""What a likelihood computation returns.

What an estimator says about its samples, and how weights become a value with an error bar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from gapmf.types import Array


@dataclass(frozen=True, repr=False, eq=False)
class LogLikelihood:
    """log p(X | W), its parts sample by sample, and how sure they are.

    Attributes
    ----------
    total, std_error : float
        The sum over samples, and its standard error: 0.0 when exact. Equal samples are
        computed once, and share their error. Errors of different samples are independent, but
        for half of `corrections`, by which all may be wrong together.
    per_sample, std_errors : float arrays, (N,)
    ess : float array, (N,)
        Effective number of independent draws behind each value; inf when exact. With n
        particles, points or chains and a relative variance s² of their mean, 1 / (1/n + s²).
    reliable : bool array, (N,)
        False where the error bar itself is not to be trusted; exact values always are.
    corrections : float array, (N,)
        What was added to each value because the logarithm of an unbiased estimate is too small
        on average, by half its relative variance; negative for "reverse", 0 when exact.
    methods : array of str, (N,)
        The method used for each sample.
    method : str
        What was asked or, for "auto", a summary.
    """

    total: float
    std_error: float
    per_sample: NDArray[np.float64]
    std_errors: NDArray[np.float64]
    ess: NDArray[np.float64]
    reliable: NDArray[np.bool_]
    corrections: NDArray[np.float64]
    methods: NDArray[np.str_]
    method: str

    @classmethod
    def of_distinct(
        cls,
        known: Estimates,
        methods: NDArray[np.str_],
        inverse: NDArray[np.int64],
        method: str,
    ) -> LogLikelihood:
        """The result for all samples from that for distinct ones; inverse (N,) says which.

        The errors of distinct samples are independent; that of equal ones is the same.
        """
        times = np.bincount(inverse, minlength=known.values.size)
        methods = methods[inverse]
        if method == "auto":
            names, numbers = np.unique(methods, return_counts=True)
            used = ", ".join(f"{name} {n}" for name, n in zip(names, numbers, strict=True))
            method = f"auto ({used})"
        per_sample = known.values[inverse]
        independent = np.sqrt(((times * known.std_errors) ** 2).sum())
        return cls(
            total=float(per_sample.sum()),
            std_error=float(np.hypot(independent, 0.5 * abs(times @ known.corrections))),
            per_sample=per_sample,
            std_errors=known.std_errors[inverse],
            ess=known.ess[inverse],
            reliable=known.reliable[inverse],
            corrections=known.corrections[inverse],
            methods=methods,
            method=method,
        )

    def __repr__(self) -> str:
        error = "exact" if self.std_error == 0.0 else f"± {self.std_error:.2g}"
        return (
            f"LogLikelihood(total={self.total:.6f}, {error}, "
            f"n_samples={self.per_sample.size}, method={self.method!r})"
        )


# Above it the parts of an estimate hardly agree, and one may dominate: neither the correction of
# the logarithm nor the error bar is then what it says.
LARGEST_STD_ERROR = 0.5

# The shape of the weights' upper tail from which their variance is infinite (Vehtari et al.,
# Pareto smoothed importance sampling).
HEAVIEST_TAIL = 0.5

FEWEST_BIRTHS = 10.0

ROUNDING = 1e-14  # of a logarithm, as a part: all that is left where the weights are equal


class Estimates(NamedTuple):
    """An estimate for each of N samples."""

    values: Array
    std_errors: Array
    ess: Array
    reliable: NDArray[np.bool_]
    corrections: Array
    """What the bias of the logarithm has added to the values."""

    @classmethod
    def empty(cls, N: int) -> Estimates:
        """Room for N samples."""
        values, std_errors, ess, corrections = np.empty((4, N))
        return cls(values, std_errors, ess, np.empty(N, dtype=bool), corrections)

    def put(self, places: NDArray[np.int64], others: Estimates) -> None:
        """Take over the estimates of some samples."""
        for array, values in zip(self, others, strict=True):
            array[places] = values


def is_ambiguous(p: Array, starts: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Whether what a sample's tokens choose matters, from the rows p (entries, K) of its counts.

    Rows are scaled to a maximum of 1; those of sample n begin at starts[n]. It does not when no
    token has two columns to come from, nor when the columns are equal.
    """
    several = (p > 0).sum(axis=1) > 1
    unequal = (p != 1.0).any(axis=1)
    return np.asarray(
        np.logical_or.reduceat(several, starts) & np.logical_or.reduceat(unequal, starts)
    )


def expected_first_tokens(alpha: Array, mass: Array, total: Array) -> Array:
    """How many particles, as a part, give an empty component with this α a token, by prior odds.

    The i-th of so many tokens does so with a probability of α/(mass + i), mass being Σ_k α_k and
    all of the guide, if there is one. (Below 1 the first token is what it adds, which must go
    somewhere.) Where all particles together have fewer than
    `FEWEST_BIRTHS`, a mode with such a component may have been missed by every one of them.
    """
    mass = np.maximum(mass, 1.0)
    found = alpha * (digamma(mass + total) - digamma(mass))
    return np.where(np.asarray(total) <= 1, np.inf, found)  # one token has all of its choices


class Mean(NamedTuple):
    """The logarithm of a mean of weights, and what is known about it."""

    value: float
    std_error: float
    ess: float
    reliable: bool
    correction: float


def log_mean(log_weights: Array, parts: tuple[int, ...] | None = None) -> Mean:
    """The logarithm of the mean of independent weights (S,), corrected for its own bias.

    parts are the sizes of strata, one after the other: weights vary within these only.
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
        reliable=std_error <= LARGEST_STD_ERROR and tail_shape(weights) <= HEAVIEST_TAIL,
        correction=correction,
    )


def tail_shape(weights: Array) -> float:
    """The shape ξ of the generalised Pareto law of the largest weights.

    Zhang and Stephens' (2009) estimate, drawn to 1/2 as if ten weights more had said so.
    Of the largest 3 √S, or a fifth of all.
    """
    S = weights.size
    n = int(min(0.2 * S, 3.0 * np.sqrt(S)))
    if n < 20:
        return 0.0  # too few to tell
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
