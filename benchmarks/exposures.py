"""Cells with depths over a factor of 30, and ratings of which 80 % are unobserved.

Prints the tables of docs/exposures.md, and writes the numbers as JSON with -o FILE.
`--seeds N` sets the number of simulated data sets for the choice of the rank.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

import numpy as np
from scipy.special import gammaln
from scipy.stats import spearmanr

from gapmf import GammaPoissonMF, GaP, select_rank
from gapmf.ranks.features import match_components


def simulate_cells(seed, n_cells=600, n_genes=150, K=4):
    """Counts of cells with four gene programs; depths do not depend on the activations."""
    rng = np.random.default_rng(seed)
    truth = GaP(120.0 * rng.dirichlet(np.full(n_genes, 0.15), K).T, alpha=0.4)
    depth = np.exp(rng.uniform(0.0, np.log(30.0), n_cells))
    depth /= depth.mean()
    H = rng.gamma(truth.alpha, 1.0 / truth.beta, (n_cells, K)) + 0.02
    X = rng.poisson(depth[:, None] * (H @ truth.W.T))
    kept = X.sum(axis=1) > 0
    return X[kept], depth[kept], H[kept], truth


def cells(seed):
    """One row per way to treat depth."""
    X, depth, H, truth = simulate_cells(seed)
    rows = []
    ways = {"none": None, '"total"': "total", "true depth": depth}
    for name, exposure in ways.items():
        start = time.process_time()
        est = GammaPoissonMF(truth.n_components, alpha=0.4, random_state=0)
        h = est.fit_transform(X, exposure=exposure)
        order, similarity = match_components(truth, est.model_)
        share = h[:, order] * est.model_.column_norms[order]
        share /= share.sum(axis=1, keepdims=True)
        true_share = H * truth.column_norms
        true_share /= true_share.sum(axis=1, keepdims=True)
        rows.append(
            {
                "exposure": name,
                "depth": max(abs(spearmanr(column, depth).statistic) for column in h.T),
                "similarity": float(np.min(similarity)),
                "share error": float(np.abs(share - true_share).mean()),
                "CPU s": time.process_time() - start,
            }
        )
    return rows


def simulate_ratings(seed, n_users=300, n_items=60, K=3, observed=0.2):
    """Counts of listens, a fifth of which were observed; items differ in how often they were."""
    rng = np.random.default_rng(seed)
    truth = GaP(150.0 * rng.dirichlet(np.full(n_items, 0.2), K).T + 0.3, alpha=0.5)
    X = truth.sample(n_users, random_state=rng)
    chance = rng.beta(1.0, 1.0 / observed - 1.0, n_items)
    M = rng.random(X.shape) < np.clip(chance, 0.03, 1.0)
    return X, M, truth


def log_poisson(x, rate):
    return x * np.log(rate) - rate - gammaln(x + 1.0)


def ratings(seed):
    """Held-out log-likelihood per entry of two fits."""
    X, M, truth = simulate_ratings(seed)
    rng = np.random.default_rng(seed + 1000)
    test = M & (rng.random(M.shape) < 0.2)
    train = M & ~test
    shown = np.where(train, X, 0)
    rows = []
    for name, observed in (("unobserved", train), ("zeros", None)):
        est = GammaPoissonMF(truth.n_components, alpha=0.5, random_state=0)
        est.fit(shown, observed=observed)
        for ask, given in (("as in the fit", observed), ("mask", train)):
            if ask == "mask" and observed is not None:
                continue
            rate = est.transform(shown, observed=given) @ est.components_
            value = log_poisson(X[test], np.maximum(rate[test], 1e-3)).mean()
            rows.append({"fit": name, "activations": ask, "per entry": float(value)})
    oracle = GaP(truth.W, truth.alpha, truth.beta)
    from gapmf import posterior_activations

    h = posterior_activations(shown, oracle, observed=train, quantiles=(), random_state=0).mean
    value = log_poisson(X[test], (h @ truth.W.T)[test]).mean()
    rows.append({"fit": "the true W", "activations": "mask", "per entry": float(value)})
    return rows, float(1.0 - M.mean()), int(test.sum())


def chosen_rank(seed):
    """The number of components that held-out entries choose; three is right."""
    X, M, _ = simulate_ratings(seed)
    # So few counts leave several maxima: one start ends in a poor one now and then.
    est = GammaPoissonMF(alpha=0.5, n_init=4, random_state=seed)
    found = select_rank(X, [2, 3, 4], holdout="entries", observed=M, estimator=est)
    return found.n_components


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    result = {"cells": cells(0)}
    print("| exposure | correlation with depth | least similarity | error of shares |")
    print("| --- | --- | --- | --- |")
    for row in result["cells"]:
        print(
            f"| {row['exposure']} | {row['depth']:.2f} | {row['similarity']:.3f} | "
            f"{row['share error']:.3f} |"
        )
    rows, missing, n_test = ratings(0)
    result["ratings"] = {"rows": rows, "unobserved": missing, "held out": n_test}
    print(f"\n{missing:.0%} unobserved, {n_test:,} entries held out")
    print("| fit | activations | nats per held-out entry |")
    print("| --- | --- | --- |")
    for row in rows:
        print(f"| {row['fit']} | {row['activations']} | {row['per entry']:.3f} |")
    result["ranks"] = []
    for seed in range(options.seeds):
        result["ranks"].append(int(chosen_rank(seed)))
        print(f"seed {seed}: rank {result['ranks'][-1]}", flush=True)
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
