"""The maximum of the marginal likelihood against EM with exact moments.

    python benchmarks/exact_em.py [--quick] [--json FILE]

Thirty simulated data sets (like the paper's V₁ and V₂, with α ≠ 1, with unequal β), N = 100,
F = 4, K = 3. For each: `exact`, as users call it, from one start; EM-C and EM-CH for 5,000
iterations from the same kind of start; and the best of 20 plain climbs. Log-likelihoods are
given as nats below the best that anything found. Times are CPU seconds of one thread in the
same process; the ratio is to the faster EM. The last line times one exact E-step on V₂.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from threadpoolctl import threadpool_limits

from gapmf import GammaPoissonMF, GaP
from gapmf.counts import check_counts
from gapmf.datasets import paper_model, paper_synthetic
from gapmf.em.exact_em import STEPS, run_em
from gapmf.em.expectation import ExactExpectation
from gapmf.em.history import History
from gapmf.em.maximum import WARM_UP, certify, fit_maximum
from gapmf.em.start import random_start

K = 3


def data_sets():
    """Thirty: ten like V₁, ten like V₂, five with α ≠ 1, five with unequal β besides."""
    for seed in range(10):
        yield f"V1 seed {seed}", paper_synthetic(1.0, random_state=seed)[0], 1.0, 1.0
    for seed in range(10):
        yield f"V2 seed {seed}", paper_synthetic(100.0, random_state=seed)[0], 1.0, 1.0
    for seed, (scale, alpha) in enumerate([(1, 0.3), (5, 0.3), (20, 3.0), (50, 0.5), (10, 0.1)]):
        X = GaP(paper_model(scale).W, alpha).sample(100, random_state=seed)
        yield f"alpha {alpha} scale {scale}", X, alpha, 1.0
    shapes, rates = [0.4, 1.0, 2.5], [0.5, 1.0, 3.0]
    for seed, scale in enumerate((1, 3, 10, 30, 60)):
        X = GaP(paper_model(scale).W, [0.4, 2.5], [0.5, 3.0]).sample(100, random_state=seed)
        yield f"alpha, beta unequal, scale {scale}", X, shapes, rates


def clocked(work):
    begin = time.process_time()
    result = work()
    return result, time.process_time() - begin


def compare(name, X, alpha, beta, n_em, n_starts):
    alpha = np.broadcast_to(np.asarray(alpha, dtype=float), K)
    beta = np.broadcast_to(np.asarray(beta, dtype=float), K)
    expect = ExactExpectation(check_counts(X))

    def start(seed):
        rng = np.random.default_rng(seed)
        return GaP(random_start(expect.mean_counts, alpha, beta, rng), alpha, beta)

    def climb(seed):  # every second start without warm-up, as the estimator does
        warm_up = 0 if seed % 2 else WARM_UP
        return fit_maximum(expect, start(seed), max_iter=1000, history=History(), warm_up=warm_up)

    certify(expect, start(0))  # kernels and rules are made outside the clock of all

    exact, exact_seconds = clocked(
        lambda: GammaPoissonMF(
            K, algorithm="exact", alpha=alpha, beta=beta, init="random", random_state=0
        ).fit(X)
    )
    values = {"exact": exact.log_likelihood_}
    seconds = {"exact": exact_seconds}
    for algorithm, step in STEPS.items():
        fit, seconds[algorithm] = clocked(
            lambda step=step: next(
                run_em(expect, start(0), step, max_iter=n_em, tol=-1.0, history=History())
            )
        )
        values[algorithm] = fit.expectation.log_likelihood
    others = [climb(1000 + seed).expectation.log_likelihood for seed in range(n_starts)]
    values["best of starts"] = max(others)
    certificate = exact.certificate_
    top = max(values.values())
    em_seconds = min(seconds["em-c"], seconds["em-ch"])
    row = {
        "data": name,
        "log_likelihood": top,
        "below": {key: top - value for key, value in values.items()},
        "seconds": seconds,
        "ratio": seconds["exact"] / em_seconds,
        "starts_at_the_top": int(sum(top - value < 0.01 for value in others)),
        "projected_gradient": certificate.projected_gradient,
        "identity": certificate.identity,
        "spare_share": float(exact.model_.shares.min()),
        "max_r": float(certificate.r.max()),
    }
    below = row["below"]
    print(
        f"{name:34} {top:11.4f}  {below['exact']:8.5f} {below['em-c']:9.5f} {below['em-ch']:9.5f} "
        f"{below['best of starts']:8.5f}  {seconds['exact']:6.2f} {em_seconds:7.2f} "
        f"{row['ratio']:6.3f}  {row['starts_at_the_top']:>2}/{n_starts}  "
        f"{certificate.projected_gradient:7.1e} {certificate.identity:7.1e}",
        flush=True,
    )
    return row


def one_pass():
    """An exact E-step on V₂ at K = 3, one thread, the median of 20."""
    X, _ = paper_synthetic(100.0, random_state=0)
    expect = ExactExpectation(check_counts(X))
    model = GammaPoissonMF(3, algorithm="exact", random_state=0).fit(X).model_
    expect.e_step(model)
    times = [clocked(lambda: expect.e_step(model))[1] for _ in range(20)]
    print(f"\none exact EM pass over V₂ (|v| up to {X.sum(axis=1).max()}, K = 3): "
          f"{1e3 * float(np.median(times)):.1f} ms")  # fmt: skip
    return float(np.median(times))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="every tenth data set, 300 iterations")
    parser.add_argument("--only", default="", help="data sets whose name contains this")
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    threadpool_limits(1)  # idle BLAS threads would count as CPU time
    chosen = [data for data in data_sets() if arguments.only in data[0]]
    chosen = chosen[:: 10 if arguments.quick else 1]
    n_em, n_starts = (300, 4) if arguments.quick else (5000, 20)
    head = ["best", "exact", "em-c", "em-ch", "climbs", "exact", "an EM", "ratio", "top"]
    head += ["gradient", "identity"]
    print(f"nats below the best found; EM: {n_em} iterations; exact: 1 start; CPU seconds\n")
    widths = (11, 9, 9, 9, 8, 7, 7, 6, 6, 8, 7)
    print(f"{'data':34} " + " ".join(f"{h:>{w}}" for h, w in zip(head, widths, strict=True)))
    rows = [compare(*data, n_em, n_starts) for data in chosen]
    worst = {key: max(row["below"][key] for row in rows) for key in rows[0]["below"]}
    print(f"\nworst: {worst}; largest ratio {max(row['ratio'] for row in rows):.3f}")
    results = {"rows": rows, "worst": worst, "pass_seconds": one_pass()}
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
