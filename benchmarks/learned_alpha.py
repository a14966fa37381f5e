"""Is learned α right? Simulated data, many seeds.

    python benchmarks/learned_alpha.py [--seeds 20] [--json FILE]

N samples of K = 3 components with the same α, fitted by MCEM-C from α = 1 at the true K; W starts
anywhere. Over seeds: the mean of log(α̂/α) with its standard error, the spread of log α̂ beside
what it would be if the component sizes L were seen, which is the least possible: the inverse of
the information of a negative binomial's shape. W is estimated too, which biases α̂ downwards by an
amount of the order of F K / N, as exact maximum likelihood does: F is small here. Two processes of
one thread each.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from scipy.special import polygamma

from gapmf import GammaPoissonMF
from simulated import arguments, save, simulate

N, F, K, COUNTS = 1000, 10, 3, 150


def trial(alpha, how, seed):
    warnings.simplefilter("ignore")
    X = simulate(seed, N=N, F=F, K=K, counts=COUNTS, alpha=alpha, spread=0.2)
    est = GammaPoissonMF(K, learn_alpha=how, random_state=seed, n_jobs=1).fit(X)
    return np.log(est.alpha_ / alpha)


def least_spread(alpha):
    """The standard deviation of log α̂ for one component whose sizes were seen."""
    mean = COUNTS / K
    rng = np.random.default_rng(0)
    L = rng.negative_binomial(alpha, alpha / (alpha + mean), 200_000)
    # The expected information on α with the mean profiled out.
    information = np.mean(polygamma(1, alpha) - polygamma(1, alpha + L)) - mean / (
        alpha * (alpha + mean)
    )
    return 1.0 / (alpha * np.sqrt(N * information))


def main():
    args = arguments(seeds=20).parse_args()
    print(f"{'α':>5} {'learned':>10} {'mean log(α̂/α)':>20} {'spread':>7} {'least':>7}")
    results = []
    with ProcessPoolExecutor(2) as pool:
        for alpha in (0.05, 0.2, 1.0, 5.0):
            for how in ("component", "shared"):
                n = args.seeds
                found = np.array(list(pool.map(trial, [alpha] * n, [how] * n, range(n))))
                by_seed = found.mean(axis=1)
                error = by_seed.std(ddof=1) / np.sqrt(n)
                least = least_spread(alpha) / (np.sqrt(K) if how == "shared" else 1.0)
                spread = (found if how == "component" else by_seed).std(ddof=1)
                results.append([alpha, how, by_seed.mean(), error, spread, least])
                print(
                    f"{alpha:>5} {how:>10} {by_seed.mean():>11.3f} ± {error:<6.3f}"
                    f" {spread:>7.3f} {least:>7.3f}",
                    flush=True,
                )
    save(results, args.json)


if __name__ == "__main__":
    main()
