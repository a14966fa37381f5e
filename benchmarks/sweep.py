"""The Gibbs sweep beside tomotopy's LDA, on the NIPS bag of words.

    python benchmarks/sweep.py [--data DIR] [--only speed|growth|memory] [--json FILE]

DIR holds docword.nips.txt.gz (or GAPMF_NIPS_DIR names it). tomotopy comes with `gapmf[bench]`.
Both draw a component for every token. Measured in turns, in one process, one thread each unless
it says two; the median of repeats. "20 sweeps": ten of twenty are accumulated, as expectations;
"draws": as draws of C. "1 sweep": one accumulated sweep an E-step, everything included.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from gapmf import GammaPoissonMF, GaP
from gapmf.counts import check_counts
from gapmf.em.m_steps import update_c
from gapmf.em.start import random_start
from gapmf.engines.base import Sweeps
from gapmf.engines.local import LocalEngine

GOALS = {10: 12.0, 50: 6.0, 200: 3.0}
ONE_SWEEP_GOALS = {10: 3.0, 50: 1.0, 200: 1.0}
WAYS = {
    "20 sweeps": Sweeps(10, 10, expectations=True),
    "20 sweeps, draws": Sweeps(10, 10),
    "1 sweep": Sweeps(1, expectations=True),
}


def read_nips(folder):
    with gzip.open(Path(folder) / "docword.nips.txt.gz", "rt") as file:
        N, F, _ = (int(next(file)) for _ in range(3))
        n, f, v = np.loadtxt(file, dtype=np.int64).T
    return check_counts(sp.csr_array((v, (n - 1, f - 1)), shape=(N, F)))


class Ours:
    """Chains and a dictionary after some iterations, so that neither is special."""

    def __init__(self, X, K, n_jobs=1, alpha=0.1):
        self.engine = LocalEngine(n_jobs).load(X, seed=1)
        mean, prior = self.engine.totals / X.shape[0], (np.full(K, alpha), np.ones(K))
        self.model = GaP(random_start(mean, *prior, np.random.default_rng(0)), *prior)
        for _ in range(10):
            s = self.engine.advance(self.model, WAYS["1 sweep"])
            self.model = GaP(update_c(s, *prior), *prior)

    def seconds_a_sweep(self, sweeps):
        """The time of an E-step, shared out among its sweeps."""
        start = time.perf_counter()
        self.engine.advance(self.model, sweeps)
        return (time.perf_counter() - start) / (sweeps.n_draws + sweeps.n_burn_in)


class Tomotopy:
    """LDA with fixed hyperparameters, after some sweeps."""

    def __init__(self, X, K):
        import tomotopy

        self.model = tomotopy.LDAModel(k=K, seed=1)
        for n in range(X.shape[0]):
            row = slice(X.indptr[n], X.indptr[n + 1])
            words = np.repeat(X.indices[row], X.data[row])
            self.model.add_doc([str(word) for word in words])
        self.model.optim_interval = 0
        self.model.train(10, workers=1, show_progress=False)

    def seconds_a_sweep(self, workers=1, n=3):
        """The mean time of a few sweeps."""
        start = time.perf_counter()
        self.model.train(n, workers=workers, show_progress=False)
        return (time.perf_counter() - start) / n


def in_turns(works, repeats):
    """The median time of each work, measured in turns."""
    times = [[] for _ in works]
    for _ in range(repeats):
        for work, seen in zip(works, times, strict=True):
            seen.append(work())
    return [statistics.median(seen) for seen in times]


def one_size(X, K, repeats):
    """Seconds a sweep at K: tomotopy's, ours every way, and what a second thread gains."""
    ours, two, peer = Ours(X, K), Ours(X, K, n_jobs=2), Tomotopy(X, K)
    works = [peer.seconds_a_sweep, partial(peer.seconds_a_sweep, workers=2)]
    works += [partial(ours.seconds_a_sweep, sweeps) for sweeps in WAYS.values()]
    works += [partial(two.seconds_a_sweep, WAYS["20 sweeps"])]
    peer_time, two_workers, *times, two_threads = in_turns(works, repeats)
    ways = dict(zip(WAYS, times, strict=True))
    return {
        "K": K,
        "tomotopy_ms": 1e3 * peer_time,
        "ways": {way: {"ms": 1e3 * t, "ratio": peer_time / t} for way, t in ways.items()},
        "two_threads_gain": ways["20 sweeps"] / two_threads,
        "tomotopy_two_workers_gain": peer_time / two_workers,
    }


def speed(X, repeats=9):
    """Milliseconds a sweep, ours and tomotopy's, and what a second thread gains."""
    print(f"NIPS, {X.shape[0]} documents, {int(X.sum())} tokens: ms a sweep, one thread\n")
    print(f"{'K':>4}  {'tomotopy':>9}" + "".join(f"{way:>27}" for way in WAYS))
    rows = []
    for K, goal in GOALS.items():
        row = one_size(X, K, repeats)
        goals = {"20 sweeps": f"({goal:g}×)", "1 sweep": f"({ONE_SWEEP_GOALS[K]:g}×)"}
        cells = "".join(
            f"{x['ms']:10.1f} ={x['ratio']:5.1f}× {goals.get(way, ''):>7}"
            for way, x in row["ways"].items()
        )
        print(f"{K:>4}  {row['tomotopy_ms']:9.1f}{cells}")
        print(
            f"      two threads gain {row['two_threads_gain']:.2f}×, "
            f"tomotopy's two workers {row['tomotopy_two_workers_gain']:.2f}×"
        )
        rows.append(row)
    return rows


def growth(X, repeats=5):
    """Nanoseconds a token, one thread, as K, N and the counts grow."""
    rows = []

    def line(what, value, counts, K):
        ours = Ours(counts, K)
        n_tokens = int(counts.sum())
        many, one = in_turns(
            [partial(ours.seconds_a_sweep, WAYS[way]) for way in ("20 sweeps", "1 sweep")], repeats
        )
        ns = [1e9 * t / n_tokens for t in (many, one)]
        entry = [1e9 * t / counts.nnz for t in (many, one)]
        print(f"{what:>8} {value:>9}   {ns[0]:9.3f} {ns[1]:9.3f}   {entry[0]:9.1f} {entry[1]:9.1f}")
        rows.append({"what": what, "value": value, "ns_a_token": ns, "ns_an_entry": entry})

    print("\nns a token, and ns an entry:   20 sweeps   1 sweep   20 sweeps   1 sweep")
    for K in (1, 2, 5, 10, 20, 50, 100, 200, 400):
        line("K", K, X, K)
    for times in (1, 7, 20, 67):
        many = check_counts(sp.vstack([X] * times, format="csr")[:100_000])
        line("N", many.shape[0], many, 10)
    some = X[:300]
    for factor in (1, 10, 100, 1000, 10**5):
        line("counts ×", factor, check_counts(some * factor), 10)
    return rows


def peak_memory(X):
    """MiB that a fit of NIPS at K = 10 takes above the same process after a fit of two rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.npz"
        sp.save_npz(path, sp.csr_matrix(X), compressed=False)
        code = f"from sweep import measured_peak as m; print(m({str(path)!r}))"
        env = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, env=env, capture_output=True, text=True
        )
    mib = float(done.stdout)
    print(f"\npeak memory of a NIPS fit, K = 10: {mib:.0f} MiB above a fit of two rows (150)")
    return mib


def measured_peak(path):
    X = sp.load_npz(path)
    est = GammaPoissonMF(10, algorithm="mcem-c", n_draws=10, n_burn_in=10, max_iter=3)
    est.fit(X[:2])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    est.fit(X)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("GAPMF_NIPS_DIR"))
    parser.add_argument("--only", choices=["speed", "growth", "memory"])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if not args.data:
        parser.error("say where docword.nips.txt.gz is: --data DIR, or GAPMF_NIPS_DIR")
    X = read_nips(args.data)
    result = {}
    if args.only in (None, "speed"):
        result["speed"] = speed(X)
    if args.only in (None, "memory"):
        result["memory_mib"] = peak_memory(X)
    if args.only in (None, "growth"):
        result["growth"] = growth(X)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
