"""Does the rank report find the number of components that data were simulated with?

    python benchmarks/ranks.py [--seeds 50] [--only TEXT] [--json FILE]

Data of K* components whose feature distributions are drawn from a Dirichlet; fitted with 2 K*
components; the rank is the report's, by held-out counts, and, for comparison, the number of
components whose share of the expected counts exceeds a threshold. Two processes of one thread each.
"""

from __future__ import annotations

import time
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from gapmf import GammaPoissonMF
from simulated import arguments, save, simulate

THRESHOLDS = (1e-3, 1e-2, 5e-2)
USUAL = {"N": 500, "F": 100, "counts": 200, "alpha": 0.3, "spread": 0.1, "fit": {"alpha": 0.3}}
# What is different from the usual, and how many seeds of all it gets.
CASES = {
    "usual, K* = 2": ({"K": 2}, 1.0),
    "usual, K* = 5": ({"K": 5}, 1.0),
    "usual, K* = 10": ({"K": 10}, 1.0),
    "fitted with α = 1, K* = 5": ({"K": 5, "fit": {}}, 0.2),
    "fitted with α learned, K* = 5": ({"K": 5, "fit": {"learn_alpha": True}}, 0.2),
    "N = 100, K* = 5": ({"K": 5, "N": 100}, 0.2),
    "N = 2000, K* = 5": ({"K": 5, "N": 2000}, 0.1),
    "50 counts per sample, K* = 5": ({"K": 5, "counts": 50}, 0.2),
    "20 counts per sample, K* = 5": ({"K": 5, "counts": 20}, 0.2),
    "α = 1, K* = 5": ({"K": 5, "alpha": 1.0, "fit": {"alpha": 1.0}}, 0.2),
    "overlapping components, K* = 5": ({"K": 5, "spread": 1.0}, 0.2),
    "one component of 1.2 %, K* = 5": ({"K": 5, "last": 0.05}, 0.2),
    "harder: N = 50, K* = 10": ({"K": 10, "N": 50}, 0.2),
    "harder: N = 100, 20 counts, K* = 5": ({"K": 5, "N": 100, "counts": 20}, 0.2),
    "harder: overlapping, 50 counts, K* = 5": ({"K": 5, "spread": 1.0, "counts": 50}, 0.2),
}


def trial(case, seed):
    """The rank by the report, by the thresholds, and the seconds of fit and report."""
    warnings.simplefilter("ignore")
    X = simulate(seed, **{name: case[name] for name in case if name != "fit"})
    start = time.perf_counter()
    est = GammaPoissonMF(2 * case["K"], random_state=seed, n_jobs=1, **case["fit"]).fit(X)
    fitted = time.perf_counter()
    report = est.rank_report(X)
    by_share = [int((est.model_.shares > t).sum()) for t in THRESHOLDS]
    return report.rank, by_share, fitted - start, time.perf_counter() - fitted


def main():
    parser = arguments(seeds=50)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    results = {}
    print(f"{'':34} {'seeds':>5} {'found K*':>9} {'ranks':>7}   shares above {THRESHOLDS}")
    with ProcessPoolExecutor(2) as pool:
        for name, (what, part) in CASES.items():
            if args.only not in name:
                continue
            case = USUAL | what
            n = max(round(args.seeds * part), 1)
            rows = []
            for row in pool.map(trial, [case] * n, range(n)):  # kept as they come: hours may pass
                rows.append(row)
                save(results | {name: {"so far": rows}}, args.json)
            ranks, shares = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
            found, by_share = (ranks == case["K"]).mean(), (shares == case["K"]).mean(axis=0)
            fit, report = np.median([r[2:] for r in rows], axis=0)
            results[name] = {
                "ranks": ranks.tolist(),
                "by_share": shares.tolist(),
                "fit_seconds": fit,
                "report_seconds": report,
            }
            said = "  ".join(f"{x:4.0%}" for x in by_share)
            print(
                f"{name:34} {n:>5} {found:>9.0%} {ranks.min():>3} to {ranks.max():<3}  {said}"
                f"   (fit {fit:.1f} s, report {report:.1f} s)",
                flush=True,
            )
            save(results, args.json)


if __name__ == "__main__":
    main()
