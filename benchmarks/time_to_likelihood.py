"""How long until a likelihood is reached: the adaptive schedule beside the paper's, on NIPS.

    python benchmarks/time_to_likelihood.py [--data DIR] [--seeds 5] [--json FILE]

NIPS bag of words, K = 10, α = β = 1, one kernel, one thread. The paper's schedule (125 + 125
sweeps per iteration) for 50 iterations, then the adaptive one until it stops; both clocks leave out
the likelihood, which is computed afterwards from kept models. tomotopy's sweeps at K = 10 are
timed in the same run, in turns, as a reference that does not depend on us. At the end: what a
refit with a tenth of the tolerance gains, and what learned α gains.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import warnings
from functools import cache

import numpy as np

from gapmf import GammaPoissonMF, log_marginal_likelihood
from sweep import Tomotopy, read_nips

K = 10
PAPER = {"schedule": "paper", "n_draws": 125, "n_burn_in": 125, "max_iter": 50}


def fit_and_watch(X, looks, **parameters):
    """A fit, and at some iterations (seconds, sweeps, model)."""
    seen = []

    def watch(record):
        if looks(record.iteration):
            seen.append((record.seconds, record.n_sweeps, record.model))

    est = GammaPoissonMF(K, n_jobs=1, callbacks=[watch], **parameters).fit(X)
    return est, seen


def a_token(X, model, n_particles=64):
    """Nats a token, with the same draws for all models."""
    value = log_marginal_likelihood(
        X, model, "smc", random_state=0, n_jobs=2, n_particles=n_particles
    )
    return value.total / X.data.sum()


def first_above(goal, seen, value):
    """The first look whose likelihood reaches a goal, by bisection: looks ascend, but for noise."""
    low, high = 0, len(seen) - 1
    while low < high:
        middle = (low + high) // 2
        if value(middle) >= goal:
            high = middle
        else:
            low = middle + 1
    if value(low) < goal:
        raise SystemExit(f"{goal} was not reached within the looks")
    return seen[low][:2]


def race(X, seed, reference):
    """One seed: both schedules, and when the adaptive one reached what."""
    _, paper = fit_and_watch(X, lambda i: i == 50, random_state=seed, **PAPER)
    paper_seconds, paper_sweeps, paper_model = paper[0]
    est, seen = fit_and_watch(X, lambda i: i % 5 == 0 and i <= 250, random_state=seed)
    goal = a_token(X, paper_model)
    value = cache(lambda i: a_token(X, seen[i][2]))
    seconds, sweeps = first_above(goal, seen, value)
    seconds_2318, sweeps_2318 = first_above(-2.318, seen, value)
    return {
        "seed": seed,
        "paper": goal,
        "fewer sweeps": paper_sweeps / sweeps,
        "less time": paper_seconds / seconds,
        "seconds to -2.318": seconds_2318,
        "sweeps to -2.318": int(sweeps_2318),
        "tomotopy sweeps in that time": seconds_2318 / reference,
        "stopped at": a_token(X, est.model_),
        "iterations": est.n_iter_,
        "sweeps": int(est.history_["n_sweeps"][-1]),
        "seconds": float(est.history_["seconds"][-1]),
        "converged": est.converged_,
    }, est


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.environ.get("GAPMF_NIPS_DIR"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args()
    X = read_nips(args.data)
    GammaPoissonMF(K, max_iter=2, tol=1e9, random_state=0, n_jobs=1).fit(X)  # compiles
    tomotopy = Tomotopy(X, K)
    rows = []
    for seed in range(1, args.seeds + 1):
        reference = statistics.median(tomotopy.seconds_a_sweep(n=10) for _ in range(3))
        row, est = race(X, seed, reference)
        if seed == 1:
            row |= further(X, est)
        rows.append(row)
        print(json.dumps(row), flush=True)
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump(rows, file, indent=1)
    print("stopped at, on average:", np.mean([row["stopped at"] for row in rows]))


def further(X, est):
    """From where it stopped: a tenth of the tolerance, and learned α."""
    tokens = X.data.sum()
    tight = GammaPoissonMF(K, init=est.components_, tol=1e-6, random_state=0, n_jobs=2).fit(X)
    learned = GammaPoissonMF(K, learn_alpha=True, random_state=1, n_jobs=2).fit(X)
    values = [a_token(X, e.model_, n_particles=512) for e in (est, tight, learned)]
    return {
        "a tenth of tol gains a token": values[1] - values[0],
        "learned alpha gains": (values[2] - values[0]) * tokens,
        "learned alpha": np.sort(learned.alpha_).tolist(),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
