"""The data sets: training counts, and new samples of which half of each is shown."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

SPLIT_SEED = 25  # not the split by which details of schedule="posterior" were chosen
HELD_OUT = 0.1


class MissingDataError(Exception):
    """The data are not on this machine."""


@dataclass(frozen=True)
class Split:
    """Training counts, the two halves of each test sample, and the truth where it is known."""

    train: sp.csr_array
    shown: sp.csr_array
    hidden: sp.csr_array
    truth: np.ndarray | None = None  # K* × F, rows sum to one


def nips(quick: bool) -> tuple[sp.csr_array, None]:
    """NIPS papers, a bag of words: 1,500 documents, 12,419 words, 1.9 million tokens."""
    import gapmf

    folder = os.environ.get("GAPMF_NIPS_DIR")
    if not folder or not (Path(folder) / "docword.nips.txt.gz").exists():
        raise MissingDataError("GAPMF_NIPS_DIR does not name a folder with docword.nips.txt.gz")
    counts = sp.csr_array(gapmf.read(Path(folder) / "docword.nips.txt.gz").counts)
    return (counts[:120] if quick else counts), None


def part_of_nips(share: float) -> Callable[[bool], tuple[sp.csr_array, None]]:
    """Return a data set of the first NIPS papers only: how costs grow with N."""

    def some(quick: bool) -> tuple[sp.csr_array, None]:
        counts, _ = nips(quick)
        return counts[: int(share * counts.shape[0])], None

    return some


def digits(quick: bool) -> tuple[sp.csr_array, None]:
    """Handwritten digits: 1,797 images, 64 pixels of 0 to 16."""
    from sklearn.datasets import load_digits

    counts = sp.csr_array(load_digits().data.astype(np.int64))
    return (counts[:200] if quick else counts), None


def _gap(N: int, F: int, K: int, tokens: int, spread: float) -> tuple[sp.csr_array, np.ndarray]:
    """Draw from GaP itself, with α = 0.3 and equal shares."""
    from gapmf import GaP

    rng = np.random.default_rng(1)
    phi = rng.dirichlet(np.full(F, spread), K)
    model = GaP(phi.T * tokens / (K * 0.3), 0.3)
    return sp.csr_array(model.sample(N, random_state=rng)), phi


def small_counts(quick: bool) -> tuple[sp.csr_array, np.ndarray]:
    """GaP with small counts: 3,000 samples of 50 tokens on average, 1,000 features, K* = 10."""
    return _gap(200 if quick else 3000, 1000, 10, 50, 0.05)


def large_counts(quick: bool) -> tuple[sp.csr_array, np.ndarray]:
    """GaP with large counts: 600 samples of 2,000 tokens on average, 200 features, K* = 10."""
    return _gap(60 if quick else 600, 200, 10, 2000, 0.1)


def cells(quick: bool) -> tuple[sp.csr_array, np.ndarray]:
    """A simulated cell matrix: 1,500 cells, 1,500 genes, eight types and two activities.

    Genes have log-normal levels; a program multiplies a tenth of them by log-normal folds. A cell
    has one type, a third of the cells also have an activity, with up to half of its molecules, and
    depths are log-normal with a median of 1,000. Shares are not Gamma variables.
    """
    rng = np.random.default_rng(2)
    N, F, types, activities = (150 if quick else 1500), 1500, 8, 2
    K = types + activities
    level = rng.lognormal(0.0, 1.2, F)
    folds = np.where(rng.random((K, F)) < 0.1, rng.lognormal(1.5, 0.8, (K, F)), 1.0)
    phi = level * folds
    phi /= phi.sum(axis=1, keepdims=True)
    theta = np.zeros((N, K))
    active = rng.random(N) < 1 / 3
    part = np.where(active, rng.uniform(0.1, 0.5, N), 0.0)
    theta[np.arange(N), rng.integers(0, types, N)] = 1.0 - part
    theta[np.arange(N), types + rng.integers(0, activities, N)] += part
    depth = rng.lognormal(np.log(1000), 0.5, N)
    return sp.csr_array(rng.poisson(depth[:, None] * (theta @ phi))), phi


def bursty(quick: bool) -> tuple[sp.csr_array, np.ndarray]:
    """Documents whose words come in bursts: 1,500 of 200 tokens, 1,500 words, K* = 10.

    Each document has its own version of each topic, drawn from a Dirichlet around the topic with
    total 100, so that a rare word that occurs once tends to occur again. Real text does this; all
    peers here assume that it does not. Topics follow Zipf's law, tilted by Gamma variables.
    """
    rng = np.random.default_rng(3)
    N, F, K = (150 if quick else 1500), 1500, 10
    phi = rng.gamma(0.2, 1.0, (K, F)) / (np.arange(F) + 10.0)
    phi /= phi.sum(axis=1, keepdims=True)
    rows = np.zeros((N, F), dtype=np.int64)
    for n in range(N):
        tokens = rng.multinomial(rng.poisson(200), rng.dirichlet(np.full(K, 0.2)))
        for k in np.flatnonzero(tokens):
            own = rng.gamma(100.0 * phi[k])
            if own.sum() > 0:
                rows[n] += rng.multinomial(tokens[k], own / own.sum())
    return sp.csr_array(rows), phi


DATA: dict[str, Callable[[bool], tuple[sp.csr_array, np.ndarray | None]]] = {
    "nips": nips,
    "digits": digits,
    "small counts": small_counts,
    "large counts": large_counts,
    "cells": cells,
    "bursty": bursty,
    "a quarter of nips": part_of_nips(0.25),
}


def load(name: str, quick: bool = False) -> Split:
    """Return a data set, split in the same way for all peers."""
    counts, truth = DATA[name](quick)
    return split(counts, truth)


def split(counts: sp.csr_array, truth: np.ndarray | None, seed: int = SPLIT_SEED) -> Split:
    """Hold out a tenth of the samples; each token of these is shown with probability one half."""
    rng = np.random.default_rng(seed)
    counts = sp.csr_array(counts)
    counts.sum_duplicates()
    order = rng.permutation(counts.shape[0])
    n_test = max(int(HELD_OUT * counts.shape[0]), 1)
    test = counts[np.sort(order[:n_test])]
    first = rng.binomial(test.data.astype(np.int64), 0.5)
    parts = []
    for data in (first, test.data - first):
        part = sp.csr_array((data, test.indices.copy(), test.indptr.copy()), shape=test.shape)
        part.eliminate_zeros()
        parts.append(part)
    train = counts[np.sort(order[n_test:])]
    return Split(train.astype(np.int64), parts[0], parts[1], truth)
