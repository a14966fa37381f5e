"""Coverage of 95 % intervals for W on simulated data: exact moments, then Monte Carlo throughout.

Data sets come from known components. Each is fitted from the truth on, so that components keep
their order, and the maximum is the one that belongs to the truth; what is tested is the error bar,
not the search. An interval is asked for every entry of at least a tenth of its component's largest.

    python benchmarks/standard_errors.py [--sets 200] [--sampled 50] [--jobs 2] [--learned]
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

from gapmf import GammaPoissonMF, GaP

PROBLEMS = {
    "N = 200, F = 5, alpha = 0.5": (
        GaP([[12.0, 1.5], [6.0, 2.0], [3.0, 4.0], [2.0, 8.0], [1.5, 10.0]], alpha=0.5), 200
    ),
    "N = 300, F = 4, alpha = (0.3, 1)": (
        GaP([[9.0, 1.0], [5.0, 1.0], [1.0, 6.0], [1.0, 3.0]], alpha=[0.3, 1.0]), 300
    ),
    "N = 100, F = 6, alpha = 1": (
        GaP(
            [[40.0, 4.0], [20.0, 4.0], [10.0, 10.0], [5.0, 20.0], [4.0, 30.0], [4.0, 40.0]],
            alpha=1.0,
        ),
        100,
    ),
}  # fmt: skip


def inside(truth: GaP, N: int, seed: int, algorithm: str, method: str, learned: bool, jobs: int):
    """Fit one data set; return which intervals (log scale, plain, norms) contain the truth."""
    X = truth.sample(N, random_state=seed)
    est = GammaPoissonMF(
        2, algorithm=algorithm, alpha=truth.alpha, init=truth.W.T, learn_alpha=learned,
        random_state=seed, n_jobs=jobs,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est.fit(X)
        found = est.standard_errors(X, method=method)
    W = truth.W.T
    away = W.max(axis=1, keepdims=True) <= 10.0 * W
    low, high = found.intervals()
    with np.errstate(invalid="ignore"):
        held = (low <= W) & (high >= W)
        plain = np.abs(est.components_ - W) <= 1.96 * found.components
        norms = np.abs(est.components_.sum(axis=1) - W.sum(axis=1)) <= 1.96 * found.norms
    known = ~np.isnan(found.components)
    return held[away], plain[away], norms, known[away]


def main() -> None:
    """Print one line per problem and method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--sampled", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--learned", action="store_true", help="learn alpha too")
    args = parser.parse_args()
    for name, (truth, N) in PROBLEMS.items():
        for method, algorithm, sets in (
            ("exact", "exact", args.sets), ("sampled", "mcem-c", args.sampled)
        ):  # fmt: skip
            begin = time.perf_counter()
            found = [
                inside(truth, N, seed, algorithm, method, args.learned, args.jobs)
                for seed in range(sets)
            ]
            if not found:
                continue
            shares = [float(np.concatenate(part).mean()) for part in zip(*found, strict=True)]
            print(
                f"{name:34s} {method:8s} {sets:4d} sets: log-scale {shares[0]:.1%}, plain "
                f"{shares[1]:.1%}, norms {shares[2]:.1%}, with an error {shares[3]:.1%}, "
                f"{time.perf_counter() - begin:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
