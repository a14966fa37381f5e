"""What a likelihood computation returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, repr=False, eq=False)
class LogLikelihood:
    """log p(X | W), its parts sample by sample, and how sure they are.

    Attributes
    ----------
    total, std_error : float
        The sum over samples, and its standard error: 0.0 when exact.
    per_sample, std_errors : float arrays, (N,)
    ess : float array, (N,)
        Effective number of independent draws behind each value; inf when exact.
    reliable : bool array, (N,)
        False where the error bar itself is not to be trusted; exact values always are.
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
    methods: NDArray[np.str_]
    method: str

    @classmethod
    def from_exact(
        cls, per_sample: NDArray[np.float64], methods: NDArray[np.str_], method: str
    ) -> LogLikelihood:
        """A result without error."""
        N = per_sample.size
        if method == "auto":
            names, times = np.unique(methods, return_counts=True)
            used = ", ".join(f"{name} {n}" for name, n in zip(names, times, strict=True))
            method = f"auto ({used})"
        return cls(
            total=float(per_sample.sum()),
            std_error=0.0,
            per_sample=per_sample,
            std_errors=np.zeros(N),
            ess=np.full(N, np.inf),
            reliable=np.ones(N, dtype=bool),
            methods=methods,
            method=method,
        )

    def __repr__(self) -> str:
        error = "exact" if self.std_error == 0.0 else f"± {self.std_error:.2g}"
        return (
            f"LogLikelihood(total={self.total:.6f}, {error}, "
            f"n_samples={self.per_sample.size}, method={self.method!r})"
        )
