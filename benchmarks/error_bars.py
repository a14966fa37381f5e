"""Are the error bars of the estimated likelihood right? On problems with exact answers.

    python benchmarks/error_bars.py [--problems 200] [--json FILE]

Random models with K = 1 … 4, α from 0.05 to 5, components that overlap, that share little and
that have zeros; samples from the model and others, from 0 to thousands of counts. For every
estimator: how many samples it flags as unreliable; among the others, how many exact values lie
within one, two and three standard errors; the same of those only whose standard error is not
next to nothing; the mean of the errors in standard errors; the median standard error and time.
"estimate" is "auto" without the exact methods.

Then totals of 400 samples to three precisions: by particles alone, and from a random part of the
samples with the mean-field bounds of the others, as `score` does.
"""

from __future__ import annotations

import time

import numpy as np

from gapmf import GaP, log_marginal_likelihood
from gapmf.counts import check_counts
from gapmf.likelihood import partial, smc
from gapmf.likelihood.marginal import log_normaliser
from gapmf.likelihood.result import sum_error
from simulated import arguments, save

METHODS = ("smc", "reverse", "importance", "chib", "estimate")
PRECISIONS = (1e-2, 1e-3, 1e-4)  # nats per token
N_TOTAL = 400  # samples of a total


def problem(rng):
    """A model and a sample, the exact likelihood of which is affordable."""
    K, F = rng.choice([1, 2, 3, 4], p=[0.05, 0.3, 0.35, 0.3]), rng.integers(1, 13)
    kind = rng.choice(["overlapping", "sparse", "zeros", "disjoint"], p=[0.35, 0.3, 0.25, 0.1])
    W = rng.gamma(3.0 if kind == "overlapping" else 0.3, 1.0, (F, K)) + 1e-3
    if kind == "zeros":
        W[rng.random((F, K)) < 0.4] = 0.0
    if kind == "disjoint":
        W[np.arange(F)[:, None] % K != np.arange(K)] = 0.0
    W *= 10 ** rng.uniform(-1, 3 if K < 4 else 1.5)
    alpha = 10 ** rng.uniform(np.log10(0.05), np.log10(5.0), K)
    model = GaP(W, alpha, 10 ** rng.uniform(-0.5, 0.5))
    if rng.random() < 0.3:  # not what the model expects
        x = rng.poisson(10 ** rng.uniform(-1, 3 if K < 4 else 1.5, F)) * (W.sum(axis=1) > 0)
    else:
        x = model.sample(1, random_state=rng)[0]
    most = 5000 if K < 4 else 400
    return model, x if x.sum() <= most else x * most // x.sum()


def main():
    args = arguments(problems=200).parse_args()
    rng = np.random.default_rng(0)
    problems = []
    while len(problems) < args.problems:
        model, x = problem(rng)
        exact = log_marginal_likelihood([x], model, "auto", max_cost=1e12)
        if exact.std_error == 0.0:
            problems.append((model, x, exact.total))
    sizes = np.array([x.sum() for _, x, _ in problems])
    print(f"{len(problems)} problems; counts: median {np.median(sizes):.0f}, most {sizes.max()}")
    results = {}
    within = " ".join(f"{f'≤ {n}':>6}" for n in (1, 2, 3))
    print(
        f"{'':12} {'flagged':>8} {within} {'chance':>7} {'≤ 3':>6} {'mean':>6} "
        f"{'error':>9} {'ms':>6}"
    )
    for method in METHODS:
        rows = [trial(method, seed, *what) for seed, what in enumerate(problems)]
        z, std_error, reliable, seconds = np.array(rows).T
        drawn = std_error[reliable == 1] > 1e-6  # where there is something to err about
        z = z[reliable == 1]
        within = [(np.abs(z) <= n).mean() for n in (1, 2, 3)]
        alone = (np.abs(z[drawn]) <= 3).mean()
        results[method] = {
            "flagged": int((reliable == 0).sum()),
            "within": within,
            "with chance": [int(drawn.sum()), alone],
            "mean": z.mean(),
            "std_error": np.median(std_error),
            "seconds": np.median(seconds),
        }
        said = " ".join(f"{x:6.1%}" for x in within)
        print(
            f"{method:12} {(reliable == 0).sum():>8} {said} {drawn.sum():>7} {alone:6.1%} "
            f"{z.mean():6.2f} {np.median(std_error):9.2g} {1e3 * np.median(seconds):6.1f}",
            flush=True,
        )
        save(results, args.json)
    results |= totals(max(args.problems // 5, 1), args)
    save(results, args.json)


def totals(n, args):
    """How often exact totals lie within the error bars of totals to a precision."""
    rng = np.random.default_rng(1)
    problems = []
    while len(problems) < n:
        K, F = int(rng.integers(2, 4)), int(rng.integers(5, 30))
        W = 10 ** rng.uniform(1, 2) * rng.dirichlet(np.full(F, 10 ** rng.uniform(-1, 0)), K).T
        model = GaP(W, 10 ** rng.uniform(-1.3, 0.7, K))
        X = check_counts(model.sample(N_TOTAL, random_state=rng))
        exact = log_marginal_likelihood(X, model, "auto", max_cost=1e12)
        if exact.std_error == 0.0 and X.sum() > 0:
            problems.append((model, X, exact.total))
    print(f"{n} totals of {N_TOTAL} samples")
    results = {}
    for precision in PRECISIONS:
        for how in ("particles", "part"):
            rows = np.array(
                [total(how, precision, seed, *what) for seed, what in enumerate(problems)]
            )
            z, achieved, used = rows.T
            within = [(np.abs(z) <= n).mean() for n in (1, 2, 3)]
            said = " ".join(f"{x:6.1%}" for x in within)
            print(
                f"{how:10} {precision:.0e} {said}  mean {z.mean():5.2f}  error reached "
                f"{np.median(achieved):.2g} of it (most {achieved.max():.2g}), samples "
                f"{np.median(used):.0f}",
                flush=True,
            )
            results[f"{how} {precision:g}"] = {
                "within": within,
                "mean": z.mean(),
                "reached": [np.median(achieved), achieved.max()],
                "samples": np.median(used),
            }
    return results


def total(how, precision, seed, model, X, exact):
    """The error in standard errors, the standard error beside the precision, the samples used."""
    target = precision * X.sum()
    if how == "part":
        options = {"seed": seed, "n_jobs": 1, "max_cost": 1e12}
        found = partial.total_log_likelihood(X, model, precision, **options)
        value, error = found.total, found.std_error
        used = int((~np.isnan(found.per_sample)).sum())
    else:
        full = X[np.diff(X.indptr) > 0]
        ones = np.ones(full.shape[0])
        found = smc.log_factors_to(full, model, np.uint64(seed), target, ones, 1)
        value = found.values.sum() - X.shape[0] * log_normaliser(model)
        error, used = sum_error(found, ones), X.shape[0]
    if error == 0.0:
        z = 0.0 if abs(value - exact) <= 1e-9 * (1 + abs(exact)) else np.inf
    else:
        z = (value - exact) / error
    return z, error / target, used


def trial(method, seed, model, x, exact):
    """The error in standard errors, the standard error, whether it is reliable, the time."""
    log_marginal_likelihood([x], model, method, random_state=0)  # compiles
    start = time.perf_counter()
    found = log_marginal_likelihood([x], model, method, random_state=seed)
    seconds = time.perf_counter() - start
    difference = found.total - exact
    if found.std_error == 0.0:  # in closed form
        z = 0.0 if abs(difference) <= 1e-9 * (1 + abs(exact)) else np.inf
    else:
        z = difference / found.std_error
    return z, found.std_error, float(found.reliable[0]), seconds


if __name__ == "__main__":
    main()
