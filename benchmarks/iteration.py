"""A whole iteration of the default schedule, of one sweep, beside a sweep of tomotopy's LDA.

    python benchmarks/iteration.py [--data DIR] [--repeats 7] [--only nips|short] [--json FILE]

DIR holds docword.nips.txt.gz (or GAPMF_NIPS_DIR names it). tomotopy comes with `gapmf[bench]`;
without it only our own times are shown. CPU milliseconds of one thread, measured in turns, the
least and the median of the repeats: the E-step, the M-step with momentum, both, and tomotopy's
sweep.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time

from gapmf.counts import check_counts
from gapmf.em.m_steps import step_c
from gapmf.em.momentum import FRICTION, Momentum
from simulated import save, short_documents
from sweep import WAYS, Ours, Tomotopy, read_nips


class Iteration:
    """A fit after some iterations, whose next ones are timed."""

    def __init__(self, X, K):
        ours = Ours(X, K, alpha=1.0)
        self.engine, self.model = ours.engine, ours.model
        self.momentum = Momentum(FRICTION, 0.01 / K)
        self.mean_counts = self.engine.totals / X.shape[0]
        self.window = None

    def __call__(self):
        """CPU seconds of the E-step, and of everything after it."""
        start = time.process_time()
        statistics = self.engine.advance(self.model, WAYS["1 sweep"])
        middle = time.process_time()
        proposed = step_c(statistics, self.model)
        self.model, self.momentum = self.momentum.step(self.model, proposed, self.mean_counts)
        self.window = statistics if self.window is None else self.window + statistics
        return middle - start, time.process_time() - middle


def measure(name, X, K, repeats, with_peer):
    """One row of the table."""
    ours = Iteration(X, K)
    peer = Tomotopy(X, K) if with_peer else None
    steps, sweeps = [], []
    for _ in range(repeats):
        steps += [ours() for _ in range(3)]
        if peer is not None:
            start = time.process_time()
            peer.model.train(2, workers=1, show_progress=False)
            sweeps.append((time.process_time() - start) / 2)
    row = {"data": name, "K": K}
    for what, times in (
        ("E-step", [a for a, _ in steps]),
        ("M-step", [b for _, b in steps]),
        ("iteration", [a + b for a, b in steps]),
        ("tomotopy", sweeps),
    ):
        if times:
            row[what] = {"least": 1e3 * min(times), "median": 1e3 * statistics.median(times)}
    if peer is not None:
        row["ratio"] = {
            how: row["tomotopy"][how] / row["iteration"][how] for how in ("least", "median")
        }
    shown = "  ".join(
        f"{what} {values['least']:.1f} ({values['median']:.1f})"
        for what, values in row.items()
        if isinstance(values, dict)
    )
    print(f"{name:>6} K = {K:>3}: {shown}", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("GAPMF_NIPS_DIR"))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", choices=["nips", "short"])
    parser.add_argument("--json")
    args = parser.parse_args()
    with_peer = importlib.util.find_spec("tomotopy") is not None
    cases = []
    if args.only in (None, "nips"):
        X = read_nips(args.data)
        cases += [("nips", X, K) for K in (10, 20, 50, 200)]
    if args.only in (None, "short"):
        cases += [("short", check_counts(short_documents()), 20)]
    rows = []
    for case in cases:
        rows.append(measure(*case, args.repeats, with_peer))
        save(rows, args.json)


if __name__ == "__main__":
    main()
