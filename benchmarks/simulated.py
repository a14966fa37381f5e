"""What the benchmarks on simulated data share: the data, the arguments, and where results go."""

from __future__ import annotations

import argparse
import json

import numpy as np

from gapmf import GaP


def simulate(seed, *, N, F, K, counts, alpha, spread):
    """Draw counts of K components with Dirichlet(spread) directions, `counts` per sample."""
    rng = np.random.default_rng(seed)
    directions = rng.dirichlet(np.full(F, spread), K).T
    return GaP(directions * counts / (K * alpha), alpha).sample(N, random_state=rng)


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
