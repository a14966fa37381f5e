"""The exact likelihood: time, memory and predicted cost.

    python benchmarks/exact_likelihood.py [--json FILE]

First the paper's second data set (W₂* = 100 W₁*, N = 100, fitted with K = 3), for which the
paper's sum is out of reach; then every method for one sample, K = 1…5, |v| = 10…1000. Times are
of one thread, compiled, the median of repeats; the reference is one pass of `numpy.exp` over 10⁶
numbers in the same run. Peak memory is what a fresh process needs beyond the compiled package.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from gapmf import GaP, count_admissible, log_marginal_likelihood
from gapmf.counts import check_counts
from gapmf.datasets import paper_model, paper_synthetic
from gapmf.errors import TooCostlyError
from gapmf.likelihood.planning import EXACT_METHODS, predict

SLOWEST = 3e10  # predicted operations above which this table does not wait for a cell


def seconds(work, at_most=5):
    """Median time of a few repeats, fewer when slow; the first call has compiled."""
    times = []
    while len(times) < at_most and sum(times) < 2.0:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def reference():
    numbers = np.linspace(-1.0, 1.0, 10**6)
    return seconds(lambda: np.exp(numbers), at_most=15)


def second_data_set(unit):
    """All of V₂ at K = 3, by every method that does not refuse."""
    X, _ = paper_synthetic(100.0, random_state=0)
    W = paper_model(100.0).W
    model = GaP(np.column_stack([W, W.mean(axis=1)]))
    terms = sum(count_admissible(X, 3))
    print(f"V₂: N = {len(X)}, |v| up to {X.sum(axis=1).max()}, K = 3, one core")
    print(f"the paper's sum: {terms:.1e} terms, at 1e8 a second {terms / 1e8 / 3.15e7:.0f} years\n")
    rows = []
    for method in ("auto", *EXACT_METHODS):
        try:
            total = log_marginal_likelihood(X, model, method).total
        except TooCostlyError as error:
            print(f"{method:>11}  refuses: {error}")
            rows.append({"method": method, "refuses": str(error)})
            continue
        t = seconds(lambda method=method: log_marginal_likelihood(X, model, method))
        print(f"{method:>11}  {total:.9f}  {t:8.4f} s  {t / unit:9.1f} × np.exp(10⁶)")
        rows.append({"method": method, "total": total, "seconds": t, "ratio": t / unit})
    return {"terms": float(terms), "rows": rows}


def one_sample(K, n):
    rng = np.random.default_rng(K)
    model = GaP(rng.gamma(1.0, n / 10, (4, K)), alpha=rng.uniform(0.3, 2.0, K))
    return model, rng.multinomial(n, [0.4, 0.3, 0.2, 0.1])[None]


def peak_memory(K, n, method):
    """MiB that a process needs for the cell beyond the same process on a tiny sample."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from exact_likelihood import measured_peak as m;"
        "print(m(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))"
    )
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", code, here, str(K), str(n), method]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measured_peak(K, n, method):
    model, x = one_sample(K, n)
    log_marginal_likelihood(np.minimum(x, 1), model, method)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from here (Linux)
    before = _status("VmRSS")
    log_marginal_likelihood(x, model, method)
    return (_status("VmHWM") - before) / 1024


def _status(key):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    raise RuntimeError(f"no {key} in /proc/self/status")


def table(unit):
    """One sample of four features: time and memory, or the cost at which a method refuses."""
    print("\none sample, F = 4; predicted operations in [], refused by the library: ✗,")
    print(f"over {SLOWEST:.0e} operations and not waited for here: –\n")
    print(f"{'K':>2} {'|v|':>5} {'terms':>9}  " + "  ".join(f"{m:^34}" for m in EXACT_METHODS))
    rows = []
    for K in range(1, 6):
        for n in (10, 30, 100, 300, 1000):
            model, x = one_sample(K, n)
            terms = count_admissible(x, K, log=True)[0] / math.log(10)
            costs = predict(check_counts(x), model.alpha).operations[:, 0]
            cells = []
            for method, cost in zip(EXACT_METHODS, costs, strict=True):
                row = {"K": K, "n": n, "method": method, "predicted": float(cost)}
                if cost > SLOWEST:
                    mark = "–"
                    try:
                        if cost > 1e12:
                            log_marginal_likelihood(x, model, method)
                    except TooCostlyError:
                        mark = "✗"
                    row["refused"] = mark == "✗"
                    cells.append(f"{mark:>22} [{cost:8.1e}] ")
                else:
                    log_marginal_likelihood(x, model, method)
                    t = seconds(lambda m=method, x=x, k=model: log_marginal_likelihood(x, k, m))
                    mib = peak_memory(K, n, method)
                    row |= {"seconds": t, "ratio": t / unit, "peak_mib": mib}
                    cells.append(f"{1e3 * t:8.2f} ms {mib:6.1f} MiB [{cost:8.1e}]")
                rows.append(row)
            print(f"{K:>2} {n:>5} {f'10^{terms:.1f}':>9}  " + "  ".join(cells))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    unit = reference()
    print(f"reference: np.exp over 10⁶ numbers, {1e3 * unit:.2f} ms\n")
    results = {"reference_seconds": unit, "V2": second_data_set(unit), "table": table(unit)}
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
