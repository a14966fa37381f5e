"""The likelihood from above: sequential Monte Carlo around draws from the posterior.

Each run gives an estimate of 1/p(v) that is unbiased if the draw it is made around is one from the
posterior: here the ends of Gibbs chains, which are so to a good approximation. Where it agrees with
"smc", which errs to the other side, both are right. (Both are corrected for what is known of these
errors; `values − corrections` are the bounds themselves, on average.)
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from gapmf.csr import sum_entries
from gapmf.errors import InvalidInputError
from gapmf.kernels.conditional_smc import GROWTH, estimate_above, make_room
from gapmf.kernels.particles import make_particles
from gapmf.likelihood.guide import estimate_each, pilot_cost, pilot_shapes
from gapmf.likelihood.planning import MAX_MEMORY
from gapmf.likelihood.result import LARGEST_STD_ERROR, Estimates, Mean, is_ambiguous, log_mean
from gapmf.likelihood.sample import REVERSE, Sample, max_particles, stream_keys, sweep_cost
from gapmf.model import GaP
from gapmf.types import Array
from gapmf.validation import check_whole

N_RUNS = 16
N_PARTICLES = 512  # at least,
PER_COMPONENT = 25  # and so many for every component
N_PILOT = 8  # sweeps after the burn-in, after which chains end at posterior draws


def check_particles(n_particles: int | None, n_components: int) -> int:
    """Particles of a run: a multiple of four, of all runs together at least n_particles."""
    if n_particles is None:
        usual = max(N_PARTICLES, PER_COMPONENT * n_components)
        n_particles = min(usual, N_RUNS * max_particles(n_components))
    n = check_whole(n_particles, "n_particles", 4 * N_RUNS)
    each = -(-n // (4 * N_RUNS)) * 4
    most = max_particles(n_components)
    if each > most:
        raise InvalidInputError(
            f"n_particles is {n}, but with {n_components} components at most "
            f"{most * N_RUNS} particles can be told apart"
        )
    return each


def predict_cost(rows: sp.csr_array, K: int, per_run: int) -> Array:
    """Operations for each sample, about a nanosecond each; inf where its tokens fill 2 GiB."""
    moves = sweep_cost(rows, K) * per_run * N_RUNS / GROWTH
    tokens = sum_entries(rows.indptr, rows.data.astype(float))  # which come one by one
    singly = tokens * (0.5 * K + 3.0) * (per_run + K) * N_RUNS
    cost = moves + singly + pilot_cost(rows, K, N_PILOT, per_run * N_RUNS)
    return np.where(8.0 * tokens > MAX_MEMORY, np.inf, cost)


def log_factors(
    rows: sp.csr_array, model: GaP, seed: np.uint64, per_run: int, n_jobs: int | None
) -> Estimates:
    """The logarithm of the second factor of Eq. 31, estimated for each sample.

    Every sample must be possible, and meet two columns or more.
    """
    most = max_particles(model.n_components)
    apart = max(min(per_run, most // N_RUNS), 1)
    n_chains = N_RUNS * apart

    def estimate(n: int, sample: Sample, guide: Array) -> Mean:
        J, K = sample.p.shape
        # Of one pass: among several, those that have missed a mode would count as much.
        pilot = pilot_shapes(rows, n, sample, guide, seed, N_PILOT, n_chains, n_passes=1)
        ends = pilot[0, -1, ::apart]
        names = stream_keys(rows, n, REVERSE, N_RUNS)
        at = make_particles(per_run, K, J)
        path, features = make_room(sample.counts, K), np.arange(J)
        values = np.array(
            [
                estimate_above(
                    features, sample.counts, sample.p, sample.alpha,
                    guide, end,
                    (seed, np.uint64(name)), at, path,
                )
                for end, name in zip(ends, names, strict=True)
            ]
        )  # fmt: skip
        inverse = log_mean(-values)
        # Few runs may lie close together by chance: Student's variance, and both scales.
        spread = max(inverse.std_error, float(values.std(ddof=1)) / math.sqrt(N_RUNS))
        spread *= math.sqrt((N_RUNS - 1) / (N_RUNS - 3))
        chance = is_ambiguous(sample.p, np.zeros(1, dtype=np.int64))[0]
        # A choice that no particle made may still be as probable as one in so many.
        least = 1.0 / (per_run * N_RUNS) if chance else 0.0
        return Mean(
            value=-inverse.value,
            std_error=max(spread, least),
            ess=inverse.ess,
            reliable=inverse.reliable and spread <= LARGEST_STD_ERROR,
            correction=-inverse.correction,
        )

    return estimate_each(rows, model, estimate, seed, n_jobs, n_chains)
