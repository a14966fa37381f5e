"""Fits from shards, locally and on Dask, beside the same kernel in memory: time and memory.

    python benchmarks/streams.py [--tokens 50000000] [--components 20] [--folder DIR] [--json FILE]

A simulated corpus is written to shards. Then each way runs in a process of its own: E-steps of one
sweep, with an M-step each, so that they are whole iterations. Time is CPU time of all processes
that draw, per token and sweep; memory is the largest resident set of each process (the files that
are mapped count while they are mapped). The sums of the last E-step must be the same bits.

    python benchmarks/streams.py --way beside --folder DIR

Whole iterations in turns, seconds of the clock: in memory with two threads, and on two Dask workers
of one thread each. Other processes disturb both alike.

    python benchmarks/streams.py --way costs [--json FILE]

What an iteration on these workers takes longer than in memory, for several F and K on few tokens,
beside what a F K + d predicts: d from hardly any features, a from the first size.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager

import numpy as np
import scipy.sparse as sp

from gapmf import GaP, open_shards, write_shards
from gapmf.em.m_steps import update_c
from gapmf.em.start import random_start
from gapmf.engines.base import Sweeps
from gapmf.engines.local import LocalEngine
from gapmf.engines.streamed import StreamedEngine
from gapmf.io.shards import ShardWriter
from simulated import save

ONE = Sweeps(1, expectations=True)
WAYS = ("memory", "local", "dask")
N_WARM, N_TIMED, N_PAIRED = 2, 4, 14


def write_corpus(path, n_tokens, *, F, K=30, length=200, at_once=5_000, seed=0):
    """Documents of about `length` words, from K topics whose words have Zipf's frequencies."""
    rng = np.random.default_rng(seed)
    zipf = 1.0 / np.arange(1, F + 1) ** 0.9
    ends = np.cumsum([rng.gamma(0.1, 1.0, F) * zipf for _ in range(K)], 1)
    ends /= ends[:, -1:]
    done = 0
    with ShardWriter(path, F) as writer:
        while done < n_tokens:
            theta = rng.dirichlet(np.full(K, 0.1), at_once)
            sizes = rng.negative_binomial(4, 4 / (4 + length), at_once)
            by_topic = rng.multinomial(sizes, theta)
            rows, words = [], []
            for k in range(K):
                n = by_topic[:, k]
                rows.append(np.repeat(np.arange(at_once), n))
                words.append(np.searchsorted(ends[k], rng.random(n.sum())).clip(0, F - 1))
            places = np.concatenate(rows), np.concatenate(words)
            block = sp.csr_array((np.ones(places[0].size, np.int64), places), shape=(at_once, F))
            block.sum_duplicates()
            writer.add(block)
            done += int(block.sum())


def iterate(engine, K, clock):
    """Run some iterations; return CPU and wall seconds of each timed one, and a hash of sums."""
    model, cpu, wall = first_model(engine, K), [], []
    for _ in range(N_WARM + N_TIMED):
        begin = clock(), time.perf_counter()
        s = engine.advance(model, ONE)
        model = GaP(update_c(s, model.alpha, model.beta), model.alpha, model.beta)
        cpu.append(clock() - begin[0])
        wall.append(time.perf_counter() - begin[1])
    digest = hashlib.sha256(s.c_sum.tobytes()).hexdigest()[:16]
    return {"cpu": cpu[N_WARM:], "wall": wall[N_WARM:], "sums": digest}


def first_model(engine, K):
    """A random start for an engine's data."""
    mean, prior = engine.totals / engine.n_samples, (np.full(K, 0.1), np.ones(K))
    return GaP(random_start(mean, *prior, np.random.default_rng(0)), *prior)


def in_turns(engines, K, n):
    """Iterate engines in turns; return the clock's seconds of each, (n, 2), without warm-up."""
    model, seconds = first_model(engines[0], K), np.empty((n + N_WARM, 2))
    for i in range(n + N_WARM):
        for e in (0, 1) if i % 2 else (1, 0):
            begin = time.perf_counter()
            s = engines[e].advance(model, ONE)
            after = GaP(update_c(s, model.alpha, model.beta), model.alpha, model.beta)
            seconds[i, e] = time.perf_counter() - begin
        model = after
    return seconds[N_WARM:]


def run_beside(shards, K):
    """Two threads in memory, and two Dask workers of one thread each."""
    with two_workers() as client:
        engines = LocalEngine(2).load(shards.to_table().counts, 1), dask_engine(shards, client)
        seconds = in_turns(engines, K, N_PAIRED)
        engines[1].close()
    ratios = seconds[:, 1] / seconds[:, 0]
    medians = np.median(seconds, axis=0).tolist()
    return {"seconds": seconds.tolist(), "medians": medians, "median": float(np.median(ratios))}


SIZES = (12, 20), (30_000, 20), (30_000, 50), (100_000, 20), (100_000, 50), (100_000, 100)


def run_costs(n_tokens=2_000_000):
    """Seconds that Dask adds to an iteration, measured and predicted, by F and K."""
    rows, rate, latency = [], 0.0, 0.0
    with two_workers() as client, tempfile.TemporaryDirectory() as scratch:
        for F, K in SIZES:
            folder = os.path.join(scratch, str(F))
            if not os.path.exists(folder):
                write_corpus(f"{folder}-whole", n_tokens, F=F)
                counts = open_shards(f"{folder}-whole").to_table().counts
                write_shards(counts, folder, shard_tokens=-(-int(counts.sum()) // 2))
            shards = open_shards(folder)
            engines = (
                LocalEngine(2).load(shards.to_table().counts, 1),
                dask_engine(shards, client),
            )
            seconds = in_turns(engines, K, 10)
            engines[1].close()
            added = float(np.median(seconds[:, 1] - seconds[:, 0]))
            if not rows:
                latency = added
            elif not rate:
                rate = (added - latency) / (F * K)
            predicted = rate * F * K + latency
            rows.append({"F": F, "K": K, "memory": float(np.median(seconds[:, 0])),
                         "added": added, "predicted": predicted})  # fmt: skip
            print(f"| {F:,} | {K} | {rows[-1]['memory']:.3f} | {added:.3f} | {predicted:.3f} |",
                  flush=True)  # fmt: skip
    return {"rows": rows, "rate": rate, "latency": latency}


def run_paired(shards, K):
    """Memory and files in turns, in one process: a ratio that other processes disturb less."""
    engines = LocalEngine().load(shards.to_table().counts, seed=1), StreamedEngine(shards)
    engines[1].start(1)
    model, ratios = first_model(engines[0], K), []
    for i in range(N_PAIRED):
        seconds = [0.0, 0.0]
        for e in (0, 1) if i % 2 else (1, 0):
            begin = time.process_time()
            s = engines[e].advance(model, ONE)
            seconds[e] = time.process_time() - begin
        model = GaP(update_c(s, model.alpha, model.beta), model.alpha, model.beta)
        ratios.append(seconds[1] / seconds[0])
    engines[1].close()
    return {"ratios": ratios, "median": float(np.median(ratios[N_WARM:]))}


def peak():
    """The largest resident set of this process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_memory(shards, K):
    begin = time.process_time()
    engine = LocalEngine().load(shards.to_table().counts, seed=1)
    load = time.process_time() - begin
    return {"load": load} | iterate(engine, K, time.process_time) | {"megabytes": [peak()]}


def run_local(shards, K):
    begin = time.process_time()
    engine = StreamedEngine(shards)
    load = time.process_time() - begin
    engine.start(1)
    found = {"load": load} | iterate(engine, K, time.process_time) | {"megabytes": [peak()]}
    engine.close()
    return found


@contextmanager
def two_workers():
    """A client of two Dask workers with one thread each."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0",
            memory_limit=0,
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        yield client


def dask_engine(shards, client):
    """Shards on the workers, with chains that have begun."""
    from gapmf.engines.cluster import DaskEngine

    engine = DaskEngine(shards, client)
    engine.start(1)
    return engine


def run_dask(shards, K):
    with two_workers() as client:

        def clock():
            return sum(client.run(time.process_time).values())

        begin = clock()
        engine = dask_engine(shards, client)
        load = clock() - begin
        found = {"load": load} | iterate(engine, K, clock)
        found["megabytes"] = [*client.run(peak).values(), peak()]
        engine.close()
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=50_000_000)
    parser.add_argument("--features", type=int, default=30_000)
    parser.add_argument("--components", type=int, default=20)
    parser.add_argument("--folder", help="Where the shards are, or are written.")
    parser.add_argument("--json")
    parser.add_argument("--way", choices=(*WAYS, "paired", "beside", "costs"))
    given = parser.parse_args()
    if given.way == "costs":
        found = run_costs()
        save(found, given.json)
        return
    if given.way:
        ways = {"memory": run_memory, "local": run_local, "dask": run_dask, "paired": run_paired}
        run = (ways | {"beside": run_beside})[given.way]
        print(json.dumps(run(open_shards(given.folder), given.components)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or os.path.join(scratch, "shards")
        if not os.path.exists(folder):
            write_corpus(folder, given.tokens, F=given.features)
        shards, results = open_shards(folder), {}
        size = sum(shards.file(i).stat().st_size for i in range(shards.n_blocks))
        print(
            f"{shards!r}, {shards.sum():,} tokens, {shards.nnz:,} entries, "
            f"{size / shards.nnz:.2f} bytes per entry; K = {given.components}"
        )
        for way in WAYS:
            command = [sys.executable, __file__, "--way", way, "--folder", folder]
            done = subprocess.run(
                [*command, "--components", str(given.components)],
                check=True, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            found = results[way] = json.loads(done.stdout.splitlines()[-1])
            cpu = float(np.median(found["cpu"])) / shards.sum() * 1e9
            ratio = float(np.median(found["cpu"]) / np.median(results["memory"]["cpu"]))
            memory = ", ".join(f"{m:,.0f}" for m in found["megabytes"])
            print(
                f"{way:7s} {cpu:6.1f} ns per token and sweep ({ratio:.2f} × memory), "
                f"{np.median(found['wall']):.2f} s wall, load {found['load']:.1f} s, "
                f"peak {memory} MB, sums {found['sums']}",
                flush=True,
            )
    save(results, given.json)


if __name__ == "__main__":
    main()
