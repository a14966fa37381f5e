"""On-line EM over a stream: every block of samples is seen once, and nothing of it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.counts import is_anndata, is_frame
from gapmf.em.averages import Averages, Stream, averages_at
from gapmf.em.online import model_for, only_met, step, with_samples
from gapmf.em.settings import Settings
from gapmf.em.start import mean_start, random_start
from gapmf.engines.base import State, Sweeps
from gapmf.engines.local import LocalEngine
from gapmf.io.count_blocks import CountBlocks
from gapmf.likelihood.bound import mean_field_bound
from gapmf.model import GaP
from gapmf.types import Array

EXPONENT, DELAY = 0.5, 4.0  # γ_t = (t + DELAY)^-EXPONENT
BATCH = 500  # samples of a mini-batch, at most
AVERAGED = 5.0  # the slow averages have steps of AVERAGED/t: the last fifth or so of the stream
SWEEPS = Sweeps(n_draws=4, n_burn_in=4, expectations=True)  # of the new chains of a mini-batch
PASSES, SETTLED = 30, 0.005  # where they begin: passes that move less than this part of the tokens
N_BEFORE = 32  # mini-batches that components stand for which were given


def after_block(
    stream: Stream, counts: sp.csr_array, settings: Settings, n_jobs: int | None
) -> Stream:
    """Return the stream after a block of samples, which is cut into mini-batches."""
    N = counts.shape[0]
    rows = np.random.default_rng([stream.seed, stream.averages.t]).permutation(N)
    for part in np.array_split(rows, -(-N // BATCH)):
        stream = _visit(stream, sp.csr_array(counts[np.sort(part)]), settings, n_jobs)
    return stream


def _visit(stream: Stream, counts: sp.csr_array, settings: Settings, n_jobs: int | None) -> Stream:
    """Return the stream after a mini-batch of samples that were never seen before."""
    features, met = only_met(counts)
    engine = LocalEngine(n_jobs).load(met, stream.seed)
    N, t = engine.n_samples, stream.averages.t
    sweeps = replace(SWEEPS, sizes=settings.learn_alpha is not None)
    totals = engine.totals[:-1]
    fast = with_samples(stream.averages, features, totals, N)
    slow = with_samples(stream.slow, features, totals, N)
    model = model_for(fast, features)
    # Streams of random numbers belong to the mini-batch and the sample's place in it.
    engine.state = State(_typical_sizes(met, model, n_jobs), t)
    s = engine.advance(model, sweeps)
    move = partial(step, features=features, s=s, n_samples=N, learn_alpha=settings.learn_alpha)
    gamma = (t + DELAY) ** -EXPONENT
    fast = move(fast, gamma=gamma)
    slow = move(slow, gamma=min(gamma, AVERAGED / (t + AVERAGED)))
    return Stream(fast, slow, stream.seed)


def _typical_sizes(counts: sp.csr_array, model: GaP, n_jobs: int | None) -> NDArray[np.int64]:
    """Return where new chains begin, (n, K): the mean-field sizes, as whole numbers.

    From there few sweeps are as good as many from the prior mean.
    """
    sizes = mean_field_bound(counts, model, tol=SETTLED, max_passes=PASSES, n_jobs=n_jobs).sizes
    up_to = np.rint(np.cumsum(sizes, axis=1)).astype(np.int64)
    up_to[:, -1] = counts.sum(axis=1)
    return np.diff(np.minimum(up_to, up_to[:, -1:]), axis=1, prepend=0)


def begin(n_features: int, settings: Settings, rng: np.random.Generator) -> Stream:
    """Return a stream before its first block."""
    nothing, K = np.zeros(n_features), settings.alpha.size
    if isinstance(settings.init, str):
        ones = np.ones(n_features)
        if settings.init == "mean":
            W = mean_start(ones, settings.alpha, settings.beta)
        else:
            W = random_start(ones, settings.alpha, settings.beta, rng)
        averages = averages_at(GaP(W, settings.alpha, settings.beta), nothing, 0)
    else:
        model = GaP(settings.init, settings.alpha, settings.beta)
        averages = go_on(model, model.W @ (model.alpha / model.beta) * N_BEFORE * K)
    return new_stream(averages, int(rng.integers(2**63)))


def new_stream(averages: Averages, seed: int) -> Stream:
    """Return a stream that begins with these averages."""
    return Stream(averages, deepcopy(averages), seed)


def go_on(model: GaP, feature_counts: Array) -> Averages:
    """Return averages that continue a fit, from its model and the total count of each feature."""
    expected = float((model.W @ (model.alpha / model.beta)).sum())
    # The mean count of a sample is what the model expects: so many samples there were.
    n_samples = max(1, round(feature_counts.sum() / expected)) if expected > 0.0 else 1
    n_before = max(N_BEFORE, n_samples // BATCH)
    return averages_at(model, feature_counts.copy(), n_samples, n_before=n_before)


def blocks_of(X: Any) -> Iterator[Any]:
    """Iterate over the blocks of X: X itself if it is one, otherwise what it yields."""
    if isinstance(X, CountBlocks):
        return iter(X)
    if hasattr(X, "shape") or is_frame(X) or is_anndata(X) or isinstance(X, (str, bytes)):
        return iter([X])
    if isinstance(X, (list, tuple)) and not (X and hasattr(X[0], "shape") and len(X[0].shape) == 2):
        return iter([X])
    return iter(X) if isinstance(X, Iterable) else iter([X])
