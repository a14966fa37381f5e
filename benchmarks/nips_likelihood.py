"""The likelihood of NIPS with an error bar, at 10 and at 40 components, by several estimators.

    python benchmarks/nips_likelihood.py [--data DIR] [--components 10] [--learn-alpha]
                                         [--methods smc,importance] [--json FILE]

A model is fitted first (adaptive schedule, one seed). For each estimator: the total and its
standard error, in nats and in nats a token, the part of documents that is flagged, the time on two
threads; and how far apart any two are in joint standard errors.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time

import numpy as np

from gapmf import GammaPoissonMF, log_marginal_likelihood
from sweep import read_nips


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.environ.get("GAPMF_NIPS_DIR"))
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--learn-alpha", action="store_true")
    parser.add_argument("--methods", default="smc,importance,reverse")
    parser.add_argument("--particles", type=int)
    parser.add_argument("--json")
    args = parser.parse_args()
    X = read_nips(args.data)
    est = GammaPoissonMF(
        args.components, learn_alpha=args.learn_alpha, random_state=0, n_jobs=2
    ).fit(X)
    model = est.model_
    print(f"K = {args.components}, α from {model.alpha.min():.3f} to {model.alpha.max():.3f}")
    found, rows = {}, []
    for method in args.methods.split(","):
        for what in (X[:20], X):  # the first compiles
            start = time.perf_counter()
            ll = log_marginal_likelihood(
                what, model, method, random_state=1, n_jobs=2, n_particles=args.particles,
                max_cost=np.inf,
            )  # fmt: skip
            seconds = time.perf_counter() - start
        found[method] = ll
        rows.append(
            {
                "method": method,
                "total": ll.total,
                "std_error": ll.std_error,
                "a token": ll.total / X.sum(),
                "error a token": ll.std_error / X.sum(),
                "flagged": float((~ll.reliable).mean()),
                "seconds": seconds,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    for a, b in itertools.combinations(found, 2):
        difference = found[a].total - found[b].total
        joint = np.hypot(found[a].std_error, found[b].std_error)
        print(f"{a} − {b}: {difference:.1f} nats, {difference / joint:.2f} joint errors")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
