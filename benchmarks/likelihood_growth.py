"""How the time and the memory of an estimated likelihood grow with the number of non-zeros.

    python benchmarks/likelihood_growth.py [--components 10] [--json FILE]

Simulated bags of words over 20,000 features, about 300 non-zeros a sample: 250 samples, and 2, 4,
8 and 16 times as many. For `log_marginal_likelihood` ("smc") and `posterior_activations`, on two
threads: the time, its ratio to the non-zeros, and the peak of what was allocated meanwhile, beside
the counts themselves and beside what a dense F × N array would take.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc

import numpy as np

from gapmf import GaP, log_marginal_likelihood, posterior_activations
from gapmf.counts import check_counts

F = 20_000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--json")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    W = rng.gamma(0.1, 1.0, (F, args.components))
    model = GaP(35.0 * W / W.sum(axis=0))
    ways = {
        "likelihood": lambda X: log_marginal_likelihood(
            X, model, "smc", random_state=0, n_jobs=2, max_cost=np.inf
        ),
        "posterior mean": lambda X: posterior_activations(
            X, model, quantiles=(), random_state=0, n_jobs=2
        ),
    }
    rows = []
    for way, answer in ways.items():
        answer(check_counts(model.sample(4, random_state=0)))  # compiles
        for N in 250 * 2 ** np.arange(5):
            X = check_counts(model.sample(N, random_state=N))
            start = time.perf_counter()
            answer(X)
            seconds = time.perf_counter() - start
            tracemalloc.start()
            answer(X[: min(N, 1000)])
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            rows.append(
                {
                    "what": way,
                    "samples": int(N),
                    "non-zeros": X.nnz,
                    "seconds": seconds,
                    "µs a non-zero": 1e6 * seconds / X.nnz,
                    "peak MiB (of at most 1000 samples)": peak / 2**20,
                    "dense MiB": 8 * F * min(int(N), 1000) / 2**20,
                }
            )
            print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
