"""What a likelihood computation returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gapmf.likelihood.estimates import Estimates


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
