"""How long until a likelihood, or a perplexity, is reached on NIPS.

    python benchmarks/time_to_likelihood.py [--data DIR] [--seeds 5] [--json FILE]
    python benchmarks/time_to_likelihood.py --perplexity [--seeds 3] [-k 10 20 50] [--json FILE]

The first is the adaptive schedule beside the paper's: K = 10, α = β = 1, one kernel, one thread.
The paper's schedule (125 + 125 sweeps per iteration) for 50 iterations, then the adaptive one until
it stops; both clocks leave out the likelihood, which is computed afterwards from kept models.
tomotopy's sweeps at K = 10 are timed in the same run, in turns, as a reference that does not depend
on us. At the end: what a refit with a tenth of the tolerance gains, and what learned α gains.

The second is the way that the README recommends for prediction, beside tomotopy's LDA after 1,000
sweeps: the data, the split and the score of pseudo_count.py, CPU seconds of one thread. tomotopy's
time is that of its sweeps. Ours is that of a whole `fit`, made anew with more iterations until one
is as good.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from functools import cache

import numpy as np

from gapmf import GammaPoissonMF, document_completion, log_marginal_likelihood
from pseudo_count import FITS, LDA, lda, load, topics
from simulated import save
from sweep import Tomotopy, read_nips

K = 10
PAPER = {"schedule": "paper", "n_draws": 125, "n_burn_in": 125, "max_iter": 50}
PEER_SWEEPS = 1000
LENGTHS = 60, 120, 180, 240, 360, 480, 720, 960, 1440, 1920  # iterations of our fits


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


def perplexity_race(K, seed, data):
    """One K and seed: a row for each η of tomotopy."""
    train, shown, hidden = data

    def perplexity(model):
        return document_completion(shown, hidden, model, random_state=0).perplexity

    @cache
    def ours(n_iter):
        parameters = FITS["posterior, auto"] | {"max_iter": n_iter, "tol": 0.0}
        est = GammaPoissonMF(K, random_state=seed, n_jobs=1, **parameters)
        return cpu_seconds(lambda: est.fit(train)), perplexity(est)

    rows = []
    for name, eta in LDA.items():
        peer = lda(train, K, eta, seed)
        seconds = cpu_seconds(lambda peer=peer: peer.train(PEER_SWEEPS, workers=1))
        goal = perplexity(topics(peer, train.shape[1]))
        row = {"K": K, "seed": seed, "peer": name, "seconds": seconds, "perplexity": goal}
        reached = next((n for n in LENGTHS if ours(n)[1] <= goal), None)
        if reached is not None:
            own, value = ours(reached)
            row |= {"iterations": reached, "our seconds": own, "our perplexity": value}
            row["times as fast"] = seconds / own
        rows.append(row)
    return rows


def cpu_seconds(work):
    """The CPU seconds of a call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def perplexity_races(given):
    """All rows, and the medians over seeds."""
    data = load("nips", given.data)
    GammaPoissonMF(5, random_state=0, n_jobs=1, max_iter=3, **FITS["posterior, auto"]).fit(data[0])
    rows = []
    for K in given.n_components:
        for seed in range(given.seeds):
            rows += perplexity_race(K, seed, data)
            for row in rows[-len(LDA) :]:
                print(json.dumps(row), flush=True)
            save(rows, given.json)
        for peer in LDA:
            found = [r.get("times as fast", 0.0) for r in rows if (r["K"], r["peer"]) == (K, peer)]
            print(f"K = {K}, {peer}: {statistics.median(found):.1f} times as fast, the median")


def likelihood_races(given):
    """The adaptive schedule beside the paper's, for each seed."""
    X = read_nips(given.data)
    GammaPoissonMF(K, max_iter=2, tol=1e9, random_state=0, n_jobs=1).fit(X)  # compiles
    tomotopy = Tomotopy(X, K)
    rows = []
    for seed in range(1, given.seeds + 1):
        reference = statistics.median(tomotopy.seconds_a_sweep(n=10) for _ in range(3))
        row, est = race(X, seed, reference)
        if seed == 1:
            row |= further(X, est)
        rows.append(row)
        print(json.dumps(row), flush=True)
        save(rows, given.json)
    print("stopped at, on average:", np.mean([row["stopped at"] for row in rows]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.environ.get("GAPMF_NIPS_DIR"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--perplexity", action="store_true")
    parser.add_argument("-k", dest="n_components", nargs="+", type=int, default=[10, 20, 50])
    parser.add_argument("--json")
    given = parser.parse_args()
    (perplexity_races if given.perplexity else likelihood_races)(given)


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
