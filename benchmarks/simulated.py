"""What the benchmarks on simulated data share: the data, the arguments, and where results go."""

from __future__ import annotations

import argparse
import json

import numpy as np
import scipy.sparse as sp

from gapmf import GaP


def simulate(seed, *, N, F, K, counts, alpha, spread, last=1.0):
    """Draw counts of K components with Dirichlet(spread) directions, `counts` per sample.

    The last component has the norm of the others times `last`.
    """
    rng = np.random.default_rng(seed)
    W = rng.dirichlet(np.full(F, spread), K).T * counts / (K * alpha)
    W[:, -1] *= last
    return GaP(W, alpha).sample(N, random_state=rng)


def arguments(**numbers):
    """A parser with some whole numbers and the file of results."""
    parser = argparse.ArgumentParser()
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json")
    return parser


def save(results, path):
    """Write the results so far, if there is a path."""
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


def short_documents(seed=0, N=17_000, F=52_000, K=20, tokens=235, alpha=0.1):
    """Draw a sparse corpus, token by token: words follow Zipf's law, tilted by component."""
    rng = np.random.default_rng(seed)
    base = 1.0 / (np.arange(F) + 10.0)
    H = rng.gamma(alpha, 1.0 / alpha, (N, K))
    places = []
    for k in range(K):
        words = base * rng.gamma(0.3, 1.0, F)
        sizes = rng.poisson(H[:, k] * tokens / K)
        found = np.searchsorted(np.cumsum(words), rng.random(sizes.sum()) * words.sum())
        places.append((np.repeat(np.arange(N), sizes), np.minimum(found, F - 1)))
    rows, columns = (np.concatenate(part) for part in zip(*places, strict=True))
    counts = sp.coo_array((np.ones(rows.size, dtype=np.int64), (rows, columns)), shape=(N, F))
    return sp.csr_array(counts)
