"""What questions to a fitted model cost beside its fit, and how right the answers are.

    python benchmarks/asking.py [--nips DIR] [--only TEXT] [--skip ranks] [--json FILE]

CPU seconds of one thread. For each data set: the fit; `transform` of the data of the fit at three
precisions, with the share of samples whose error is within the precision and within twice of it,
beside long runs; `score` at its default, with its standard error; the rank report; and
`select_rank` over four ranks beside the four fits.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

import numpy as np
import scipy.sparse as sp

import gapmf
from gapmf import GammaPoissonMF, GaP, select_rank
from gapmf.likelihood.sample import ACTIVATIONS
from gapmf.likelihood.short_chains import sample_sizes
from simulated import save

PRECISIONS = (0.1, 0.05, 0.02)
LONG = 2048  # sweeps of each of eight chains of a long run
N_LONG = 150  # samples that are compared with long runs


def cells(seed=0, N=4000, F=15_000, K=10, counts=2000, alpha=0.3):
    """A matrix like that of cells × genes."""
    rng = np.random.default_rng(seed)
    directions = rng.dirichlet(np.full(F, 0.1), K).T
    return sp.csr_array(GaP(directions * counts / (K * alpha), alpha).sample(N, random_state=rng))


def cpu(function, *args, **options):
    """What a call returns, and its CPU seconds."""
    start = time.process_time()
    result = function(*args, **options)
    return result, time.process_time() - start


def long_run(X, model):
    """E[h | v] from two long runs of four chains."""
    rate = model.column_norms + model.beta
    runs = [
        sample_sizes(
            X, model, np.uint64(seed), ACTIVATIONS, precision=0.0, max_sweeps=LONG, n_jobs=2
        ).mean
        for seed in (101, 102)
    ]
    return (model.alpha + np.mean(runs, axis=0)) / rate


def within(found, truth, precision):
    """The shares of samples whose error is within the precision, and within twice of it."""
    error = np.linalg.norm(found - truth, axis=1) / np.linalg.norm(truth, axis=1)
    return float((error <= precision).mean()), float((error <= 2 * precision).mean())


def ask(X, est, ranks):
    """All questions of one data set."""
    X = sp.csr_array(X)
    found, fit = cpu(est.fit, X)
    row = {"fit": fit, "iterations": found.n_iter_}
    print(f"  fit {fit:.1f} s, {found.n_iter_} iterations", flush=True)
    some = np.sort(np.random.default_rng(0).choice(X.shape[0], N_LONG, replace=False))
    truth = long_run(X[some], est.model_.smoothed(est.feature_counts_, est.smoothing))
    for precision in PRECISIONS:
        H, seconds = cpu(est.set_params(precision=precision).transform, X)
        shares = within(H[some], truth, precision)
        row[f"transform {precision}"] = {"of the fit": seconds / fit, "within": shares}
        print(
            f"  transform to {precision}: {seconds / fit:.1%} of the fit; error within it for "
            f"{shares[0]:.1%}, within twice for {shares[1]:.1%}",
            flush=True,
        )
    ll, seconds = cpu(est.log_likelihood, X, total_only=True)  # as `score` does
    per_token = ll.std_error / X.sum()
    row["score"] = {"of the fit": seconds / fit, "total": ll.total, "std_error": ll.std_error}
    print(f"  score: {seconds / fit:.1%} of the fit; ± {per_token:.1e} nats per token", flush=True)
    if ranks:
        report, seconds = cpu(est.rank_report, X)
        row["rank report"] = {"of the fit": seconds / fit, "rank": report.rank}
        print(f"  rank report: {seconds / fit:.2f} × the fit; rank {report.rank}", flush=True)
        fits = sum(
            cpu(GammaPoissonMF(**est.get_params() | {"n_components": K}).fit, X)[1] for K in ranks
        )
        chosen, seconds = cpu(select_rank, X, ranks, estimator=est)
        row["select_rank"] = {"of the fits": seconds / fits, "rank": chosen.n_components}
        print(
            f"  select_rank over {ranks}: {seconds / fits:.2f} × the fits; rank "
            f"{chosen.n_components}",
            flush=True,
        )
    return row


def compile_kernels():
    """Ask everything once. Kernels for data with and without large counts are compiled apart."""
    X = GaP(np.ones((12, 9))).sample(200, random_state=0)
    for largest in (1, 400):
        X[0, 0] = largest
        for learn_alpha in (False, True):
            est = GammaPoissonMF(9, learn_alpha=learn_alpha, max_iter=40, random_state=0).fit(X)
            est.transform(X)
            est.log_likelihood(X, total_only=True)
        est.rank_report(X)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nips", default=os.environ.get("GAPMF_NIPS_DIR"))
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", default="")
    parser.add_argument("--json")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    compile_kernels()
    nips = gapmf.read(os.path.join(args.nips, "docword.nips.txt.gz")).counts if args.nips else None
    cases = {
        "cells, K = 10": (cells, {"n_components": 10}, (5, 8, 10, 12)),
        "NIPS, K = 20": (lambda: nips, {"n_components": 20}, (10, 15, 20, 25)),
        "NIPS, K = 20, α learned": (
            lambda: nips,
            {"n_components": 20, "learn_alpha": True},
            (10, 15, 20, 25),
        ),
        "NIPS, K = 40": (lambda: nips, {"n_components": 40}, ()),
    }
    results = {}
    for name, (data, parameters, ranks) in cases.items():
        if args.only not in name or (nips is None and "NIPS" in name):
            continue
        print(name, flush=True)
        est = GammaPoissonMF(**parameters, random_state=0)
        results[name] = ask(data(), est, () if args.skip == "ranks" else ranks)
        save(results, args.json)


if __name__ == "__main__":
    main()
