"""The likelihood of NIPS with an error bar, at 10 and at 40 components, by several estimators.

    python benchmarks/nips_likelihood.py [--data DIR] [--components 10] [--learn-alpha]
                                         [--methods smc,importance] [--on-a-fifth reverse]
                                         [--model FILE] [--json FILE]

A model is fitted first (adaptive schedule, one seed), or taken from a file; --model keeps it. For
each estimator: the total and its standard error, in nats and in nats per token, the sum without the
corrections for the logarithm (on average too small by "smc" and "importance", too large by
"reverse": a bracket), the part of documents that is flagged, the time on two threads; and how far
apart any two are in joint standard errors. With --on-a-fifth, the same on every fifth document,
beside the first method's there.
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
    parser.add_argument("--on-a-fifth", default="")
    parser.add_argument("--particles", type=int)
    parser.add_argument("--model")
    parser.add_argument("--json")
    args = parser.parse_args()
    X = read_nips(args.data)
    if args.model and os.path.exists(args.model):
        est = GammaPoissonMF.load(args.model)
    else:
        est = GammaPoissonMF(
            args.components, learn_alpha=args.learn_alpha, random_state=0, n_jobs=2
        ).fit(X)
        print(f"fit: {est.n_iter_} iterations, {est.history_['seconds'][-1]:.0f} s")
        if args.model:
            est.save(args.model)
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
                "uncorrected": float((ll.per_sample - ll.corrections).sum()),
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
    first = found[args.methods.split(",")[0]]
    for method in filter(None, args.on_a_fifth.split(",")):
        start = time.perf_counter()
        ll = log_marginal_likelihood(X[::5], model, method, random_state=1, n_jobs=2,
                                     max_cost=np.inf)  # fmt: skip
        seconds = time.perf_counter() - start
        values = []
        for other, every in ((first, 5), (ll, 1)):
            parts = other.per_sample[::every], other.std_errors[::every], other.corrections[::every]
            error = np.hypot(np.sqrt((parts[1] ** 2).sum()), 0.5 * parts[2].sum())
            values.append((parts[0].sum(), error, (parts[0] - parts[2]).sum()))
        (a, a_error, low), (b, b_error, high) = values
        rows.append(
            {
                "method": f"{method}, every fifth document",
                "first": [a, a_error, low],
                "this": [b, b_error, high],
                "joint errors": (a - b) / np.hypot(a_error, b_error),
                "bracket a token": (high - low) / X[::5].sum(),
                "flagged": float((~ll.reliable).mean()),
                "seconds": seconds,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
