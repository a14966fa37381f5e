"""The size and the price of the spare column at the exact maximum.

    python experiments/spare_column.py [--seeds 50] [--json FILE]

Data as in the paper's synthetic experiment (two components, N = 100, α = β = 1) at four scales,
fitted exactly with K = 2 and with K = 3. For each data set: the smallest column's share of the
expected counts, what the third column adds to the log-likelihood, how many free parameters that
took, and whether the score test asked for it (max_f r_f at K = 2; it stays zero only if ≤ 1).
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from gapmf import GammaPoissonMF
from gapmf.datasets import paper_synthetic

SCALES = (1.0, 10.0, 100.0, 1000.0)


def fit_both(scale, seed):
    X, _ = paper_synthetic(scale, random_state=seed)
    two, three = (GammaPoissonMF(K, random_state=seed).fit(X) for K in (2, 3))
    return {
        "scale": scale,
        "seed": seed,
        "share": float(three.model_.shares.min()),
        "gain": three.log_likelihood_ - two.log_likelihood_,
        "max_r": float(two.certificate_.r.max()),
        "projected_gradient": three.certificate_.projected_gradient,
        "converged": bool(two.converged_ and three.converged_),
    }


def summary(rows):
    share = 100 * np.array([row["share"] for row in rows])
    gain = np.array([row["gain"] for row in rows])
    zero = int((share < 1e-6).sum())
    helped = int(sum(row["max_r"] > 1.0 for row in rows))
    # BIC's price of four more parameters at N = 100
    worth = int((gain > 0.5 * 4 * np.log(100)).sum())
    spread = "  ".join(f"{q:5.1f}" for q in np.percentile(share, [0, 25, 50, 75, 100]))
    prices = "  ".join(f"{q:5.2f}" for q in np.percentile(gain, [0, 25, 50, 75, 100]))
    return f"{zero:>4}   {spread}    {prices}   {helped:>3}   {worth:>3}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--json", help="write every data set's numbers to this file")
    arguments = parser.parse_args()
    print(f"{arguments.seeds} data sets a scale; five numbers are min, quartiles, max\n")
    print(
        "scale  zero   share of the spare column, %         nats that it adds             r>1  BIC"
    )
    results = []
    for scale in SCALES:
        rows = [fit_both(scale, seed) for seed in range(arguments.seeds)]
        results += rows
        print(f"{scale:5g}  {summary(rows)}", flush=True)
    if not all(row["converged"] for row in results):
        print("some fits did not converge")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
