"""Method "reverse": conditional sequential Monte Carlo around posterior draws.

Each run estimates 1/p(v). The estimate is unbiased if the run is made around an exact posterior
draw; here these are the ends of Gibbs chains. So log p(v) is overestimated on average, whereas
"smc" underestimates it: agreement of the two is strong evidence for both. (Both are corrected for
the known part of this bias; `values − corrections` are the bounds themselves.)
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from gapmf.csr import sum_entries
from gapmf.kernels.conditional_smc import GROWTH, estimate_above, make_room
from gapmf.kernels.particles import make_particles
from gapmf.likelihood.guide import chains_cost, draw_passes, estimate_each
from gapmf.likelihood.planning import MAX_MEMORY
from gapmf.likelihood.result import LARGEST_STD_ERROR, Estimates, Mean, log_mean
from gapmf.likelihood.sample import (
    CHAINS,
    REVERSE,
    Sample,
    max_particles,
    particles_per_run,
    stream_keys,
    sweep_cost,
)
from gapmf.model import GaP
from gapmf.types import Array

N_RUNS = 16
MIN_PARTICLES = 512  # default for few components
PER_COMPONENT = 25  # default per component
N_PILOT = 8  # sweeps of the chains after their burn-in


def check_particles(n_particles: int | None, n_components: int) -> int:
    """Return the particles of each run."""
    default = max(MIN_PARTICLES, PER_COMPONENT * n_components)
    return particles_per_run(n_particles, n_components, default, N_RUNS)


def predict_cost(rows: sp.csr_array, K: int, per_run: int) -> Array:
    """Predict the operations for each sample; inf where its tokens fill 2 GiB."""
    moves = sweep_cost(rows, K) * per_run * N_RUNS / GROWTH
    tokens = sum_entries(rows.indptr, rows.data.astype(float))
    singly = tokens * (0.5 * K + 3.0) * (per_run + K) * N_RUNS
    cost = moves + singly + chains_cost(rows, K, N_PILOT, per_run * N_RUNS)
    return np.where(8.0 * tokens > MAX_MEMORY, np.inf, cost)


def log_factors(
    rows: sp.csr_array,
    model: GaP,
    seed: np.uint64,
    per_run: int,
    n_jobs: int | None,
    rates: Array | None = None,
) -> Estimates:
    """Estimate the logarithm of the second factor of Eq. 31 for each sample.

    Every sample must be possible for two columns or more. rates (N, K) are their own R/s, if they
    have exposures.
    """
    most = max_particles(model.n_components)
    spacing = max(min(per_run, most // N_RUNS), 1)
    n_chains = N_RUNS * spacing

    def estimate(n: int, sample: Sample, guide: Array) -> Mean:
        J, K = sample.p.shape
        # All chains start from one pass, where those that found more probable modes have more
        # descendants; independent passes would count alike.
        start = stream_keys(rows, n, CHAINS, 1)
        ends = draw_passes(sample, guide, seed, start, N_PILOT, n_chains)[0, -1, ::spacing]
        keys = stream_keys(rows, n, REVERSE, N_RUNS)
        at = make_particles(per_run, K, J)
        path, features = make_room(sample.counts, K), np.arange(J)
        values = np.array(
            [
                estimate_above(
                    features, sample.counts, sample.p, sample.alpha, guide, end,
                    (seed, np.uint64(key)), at, path,
                )
                for end, key in zip(ends, keys, strict=True)
            ]
        )  # fmt: skip
        inverse = log_mean(-values)
        # A few runs may agree by chance: take the larger spread of two scales, and the variance
        # of Student's t.
        spread = max(inverse.std_error, float(values.std(ddof=1)) / math.sqrt(N_RUNS))
        spread *= math.sqrt((N_RUNS - 1) / (N_RUNS - 3))
        # A choice that no particle made may still have about this probability.
        least = 1.0 / (per_run * N_RUNS) if sample.is_ambiguous() else 0.0
        reliable = inverse.reliable and spread <= LARGEST_STD_ERROR
        error = max(spread, least)
        return Mean(
            -inverse.value, error, inverse.ess, reliable, -inverse.correction, -inverse.common
        )

    return estimate_each(rows, model, rates, estimate, seed, n_jobs, n_chains)
