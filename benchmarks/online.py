"""`schedule="online"` beside "adaptive", and `partial_fit` beside `fit`: likelihood and CPU time.

    python benchmarks/online.py [--seeds 1 2 3] [--documents 200000] [--json FILE]
    python benchmarks/online.py --nips DIR [--components 10] [--passes 12] [--block 50]

One thread, CPU seconds, all in one run. The first is on simulated documents (10,000 words, 75
tokens each, K = 20): for each seed a fit by each schedule, the log-likelihood of 2,500 of the
documents in nats per token, and when the other schedules come within 0.002 of the first one's end,
by models that are kept every third iteration. The second makes passes of `partial_fit` over the
NIPS papers in shuffled blocks.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings

import numpy as np
import scipy.sparse as sp

from gapmf import GammaPoissonMF
from gapmf.likelihood.marginal import comparison_log_likelihood
from simulated import save, short_documents
from sweep import read_nips

N_SCORED, PRECISION = 2500, 5e-4
EVERY = 3  # iterations from look to look
NEAR = 0.002  # nats per token
SCHEDULES = "adaptive", "online"


def scorer(X, n):
    """Return a function: nats per token of n of the samples, always the same."""
    rows = np.sort(np.random.default_rng(99).choice(X.shape[0], min(n, X.shape[0]), replace=False))
    part = sp.csr_array(X[rows])
    n_tokens = float(part.sum())

    def score(model):
        found = comparison_log_likelihood(part, model, seed=0, n_jobs=1, precision=PRECISION)
        return found.total / n_tokens

    return score


def timed_fit(X, seed, **parameters):
    """Return an estimator, the CPU seconds of its fit, and looks: (CPU seconds, model)."""
    begin, looks = time.process_time(), []

    def look(record):
        if record.iteration % EVERY == 0:
            looks.append((time.process_time() - begin, record.model))

    est = GammaPoissonMF(random_state=seed, n_jobs=1, callbacks=[look], **parameters).fit(X)
    seconds = time.process_time() - begin
    return est, seconds, [*looks, (seconds, est.model_)]


def first_above(goal, looks, score):
    """Return the seconds of the first look whose score reaches a goal, by bisection."""
    low, high = 0, len(looks) - 1
    if score(looks[high][1]) < goal:
        return math.nan
    while low < high:
        middle = (low + high) // 2
        if score(looks[middle][1]) >= goal:
            high = middle
        else:
            low = middle + 1
    return looks[low][0]


def compare_schedules(given):
    """Fit by both schedules, with each seed."""
    X = short_documents(0, N=given.documents, F=10_000, K=20, tokens=75)
    score, results = scorer(X, N_SCORED), []
    timed_fit(X[:500], 0, n_components=20, alpha=0.1, max_iter=3)  # compiles
    print("| seed | schedule | iterations | CPU seconds | nats per token | within 0.002 | part |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for seed in given.seeds:
        for schedule in given.schedules:
            est, seconds, looks = timed_fit(X, seed, n_components=20, alpha=0.1, schedule=schedule)
            row = {"seed": seed, "schedule": schedule, "iterations": est.n_iter_,
                   "seconds": seconds, "score": score(est.model_)}  # fmt: skip
            results.append(row)
            first = next(r for r in results if r["seed"] == seed)
            row["near"] = first_above(first["score"] - NEAR, looks, score)
            print(
                f"| {seed} | {schedule} | {est.n_iter_} | {seconds:.1f} | {row['score']:.4f} | "
                f"{row['near']:.1f} | {row['near'] / first['seconds']:.2f} |",
                flush=True,
            )
            save(results, given.json)


def compare_streams(given):
    """A fit, and passes of partial_fit over shuffled blocks."""
    X = sp.csr_array(read_nips(given.nips))
    score, K, results = scorer(X, 300), given.components, []
    print("| seed | | passes | CPU seconds | nats per token |\n| --- | --- | --- | --- | --- |")
    for seed in given.seeds:
        est, seconds, _ = timed_fit(X, seed, n_components=K)
        found = [("fit", est.n_iter_, seconds, score(est.model_))]
        stream, rng = GammaPoissonMF(K, random_state=seed, n_jobs=1), np.random.default_rng(seed)
        seconds = 0.0
        for i in range(1, given.passes + 1):
            rows, begin = rng.permutation(X.shape[0]), time.process_time()
            cuts = range(0, rows.size, given.block)
            stream.partial_fit(X[rows[a : a + given.block]] for a in cuts)
            seconds += time.process_time() - begin
            if i in (3, 6) or i % 24 == 0 or i == given.passes:
                found.append(("partial_fit", i, seconds, score(stream.model_)))
        for way, n, seconds, value in found:
            results.append({"seed": seed, "way": way, "n": n, "seconds": seconds, "score": value})
            print(f"| {seed} | {way} | {n} | {seconds:.1f} | {value:.4f} |", flush=True)
        save(results, given.json)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--schedules", nargs="+", default=SCHEDULES, help="of these, in turns")
    parser.add_argument("--nips", help="the folder of the NIPS counts")
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--passes", type=int, default=12)
    parser.add_argument("--block", type=int, default=50)
    parser.add_argument("--json")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    (compare_streams if given.nips else compare_schedules)(given)


if __name__ == "__main__":
    main()
