"""Method "smc": sequential Monte Carlo over the tokens, in independent islands of particles.

Each island gives an unbiased estimate of p(v), and so does their mean. The spread of the islands
gives the error bar. The logarithm of an unbiased estimate is too small on average, by half its
relative variance; this is added back.

A pilot run decides how many particles a sample gets, and is used for nothing else. A decision by
the estimate itself would be biased: an island that finds a mode which the others miss makes them
disagree, so that only the estimates without it would be kept.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from gapmf.csr import sum_entries, take_block
from gapmf.kernels import token_smc as smc
from gapmf.kernels.particles import make_particles
from gapmf.likelihood.exact import block_probabilities
from gapmf.likelihood.guide import Guides, few_first_tokens, guide_cost, guides, guides_from_chains
from gapmf.likelihood.planning import support
from gapmf.likelihood.result import LARGEST_STD_ERROR, ROUNDING, Estimates, is_ambiguous, sum_error
from gapmf.likelihood.sample import (
    COARSE,
    PILOT,
    max_particles,
    particles_per_run,
    pass_cost,
    stream_keys,
)
from gapmf.model import GaP
from gapmf.parallel import Progress, for_each, part_of
from gapmf.types import Array, Index

N_ISLANDS = 4
MIN_PARTICLES = 288  # default for few components
PER_COMPONENT = 36  # default per component, from MANY components on; proportionally fewer below
MANY = 40
ESCALATION = (2, 4, 8, 16)  # factors of the number of particles for samples that need more
_PILOT_PART = 8  # the pilot has 1/8 of the particles
_TARGET_ERROR = 0.3  # standard error of a sample that needs no more particles
_BLOCK_COST = 5e7  # operations of one task of a thread

# A coarse estimate: few islands, rough guides, and moves that are further apart than usual: one
# whenever the tokens seen have doubled. With few components and good guides, fewer moves would do.
COARSE_ISLANDS = 2
COARSE_PARTICLES = 64  # per island; with fewer, the estimate is too small by more than its error
COARSE_SPACING = 2.0
MAX_PARTICLES = 1 << 12  # that a precision can lead to
ENOUGH = 1.5  # times the variance that was asked for
MAX_COARSE = 8  # times as many particles: beyond, better guides and more moves pay

# The variance of the weights within islands is used like that of 7 further islands. The factor
# corrects it, since it is too small where moves mix slowly.
_WITHIN_COUNTS = 7.0
_WITHIN_FACTOR = 1.5


def check_particles(n_particles: int | None, n_components: int) -> int:
    """Return the particles of each island."""
    each = PER_COMPONENT * min(n_components / MANY, 1.0)
    default = max(MIN_PARTICLES, int(each * n_components))
    return particles_per_run(n_particles, n_components, default, N_ISLANDS)


def log_factors(
    rows: sp.csr_array,
    model: GaP,
    seed: np.uint64,
    per_island: int,
    n_jobs: int | None,
    escalate: bool = True,
    progress: Progress | None = None,
    rates: Array | None = None,
) -> Estimates:
    """Estimate the logarithm of the second factor of Eq. 31 for each sample.

    Every sample must be possible. rates (N, K) are their own R/s, if they have exposures. With
    `escalate`, samples that need more particles, according to
    a pilot run, get them.
    """
    first = part_of(progress, 0.0, 0.2)
    guided = guides(rows, model, seed, N_ISLANDS * per_island, n_jobs, first, rates)
    if not escalate:
        rest = part_of(progress, 0.2, 1.0)
        return _estimate(rows, model, guided, seed, per_island, n_jobs, progress=rest, rates=rates)
    few = max(per_island // (4 * _PILOT_PART) * 4, 4)
    pilot = _estimate(
        rows, model, guided, seed, few, n_jobs, PILOT, part_of(progress, 0.2, 0.4), rates=rates
    )
    error = pilot.std_errors * np.sqrt(few / per_island)  # with factor 1
    sizes = np.full(rows.shape[0], per_island)
    for factor in ESCALATION:
        poor = error > _TARGET_ERROR * np.sqrt(sizes / per_island)
        poor |= _may_miss_modes(rows, model, guided, N_ISLANDS * sizes)
        sizes[poor] = factor * per_island
    sizes = np.minimum(sizes, max_particles(model.n_components))
    result = Estimates.empty(rows.shape[0])
    done, work = 0.0, float(sizes.sum())
    for size in np.unique(sizes):
        some = np.flatnonzero(sizes == size)
        own = guided._replace(sizes=guided.sizes[some])
        before, done = done, done + float(size) * some.size
        part = part_of(progress, 0.4 + 0.6 * before / work, 0.4 + 0.6 * done / work)
        own_rates = None if rates is None else rates[some]
        found = _estimate(
            rows[some], model, own, seed, int(size), n_jobs, progress=part, rates=own_rates
        )
        result.put(some, found)
    return result


def log_factors_to(
    rows: sp.csr_array,
    model: GaP,
    seed: np.uint64,
    std_error: float,
    times: Array,
    n_jobs: int | None,
    progress: Progress | None = None,
    rates: Array | None = None,
) -> Estimates:
    """Estimate the factors so that their sum has about this standard error, or a smaller one.

    times (N,) says how often each sample counts. How much to do is decided for all samples
    together: a decision on single ones by their own estimates would be biased.
    """
    guided = guides_from_chains(rows, model, seed, n_jobs, part_of(progress, 0.0, 0.2), rates)

    def estimate(factor: int, start: float, end: float) -> Estimates:
        per_island = min(factor * COARSE_PARTICLES, max_particles(model.n_components))
        part = part_of(progress, start, end)
        found = _estimate(
            rows, model, guided, seed, per_island, n_jobs, COARSE, part, COARSE_ISLANDS,
            COARSE_SPACING, rates,
        )  # fmt: skip
        # Two islands say little about the variance, so the correction may be half of what is due.
        return found._replace(common=np.abs(found.corrections))

    found = estimate(1, 0.2, 0.5)
    factor = (sum_error(found, times) / std_error) ** 2
    if factor <= 1.0:
        return found
    if factor <= MAX_COARSE:
        return estimate(int(np.ceil(factor)), 0.5, 1.0)
    n_particles = COARSE_ISLANDS * COARSE_PARTICLES * factor
    most = N_ISLANDS * max_particles(model.n_components)
    for start in (0.5, 0.75):
        n_particles = min(n_particles, MAX_PARTICLES, most)
        per_island = check_particles(int(n_particles), model.n_components)
        part = part_of(progress, start, start + 0.25)
        found = log_factors(rows, model, seed, per_island, n_jobs, progress=part, rates=rates)
        factor = (sum_error(found, times) / std_error) ** 2
        if factor <= ENOUGH or n_particles >= min(MAX_PARTICLES, most):
            break
        n_particles *= factor  # errors fall more slowly where single samples are hard
    return found


def _estimate(
    rows: sp.csr_array,
    model: GaP,
    guided: Guides,
    seed: np.uint64,
    per_island: int,
    n_jobs: int | None,
    purpose: int = 0,
    progress: Progress | None = None,
    n_islands: int = N_ISLANDS,
    spacing: float = smc.MOVE,
    rates: Array | None = None,
) -> Estimates:
    """Estimate each sample from islands of per_island particles."""
    N = rows.shape[0]
    # Other numbers of particles use other streams.
    keys = [stream_keys(rows, n, purpose + per_island, n_islands) for n in range(N)]
    streams = np.array(keys, dtype=np.uint64).reshape(N, n_islands)
    blocks = [
        (members, take_block(rows, members, own=rates is not None))
        for members in _cut(pass_cost(rows, model.n_components, per_island))
    ]
    tasks = [(b, island) for b in range(len(blocks)) for island in range(n_islands)]
    columns = np.arange(model.n_components)
    alpha = model.alpha.copy()  # writable, as those of samples: the kernel has one signature
    log_values, within = np.empty((2, n_islands, N))
    ambiguous = np.empty(N, dtype=bool)

    def work(task: tuple[int, int]) -> None:
        members, block = blocks[task[0]]
        island = task[1]
        p, log_scale = block_probabilities(model, rates, block, members, columns)
        most = int(np.diff(block.indptr).max(initial=0))
        at = make_particles(per_island, model.n_components, most)
        values, variance = np.empty((2, members.size))
        smc.estimates(
            block.indptr, block.indices, block.counts, p, alpha, guided.sizes[members],
            spacing, seed, streams[members, island], at, values, variance,
        )  # fmt: skip
        # The scaling and the order of tokens contribute Σ_f v_f s_f − log v_f!.
        constants = block.counts * log_scale[block.indices] - gammaln(block.counts + 1.0)
        log_values[island, members] = values + sum_entries(block.indptr, constants)
        within[island, members] = variance
        if island == 0:
            ambiguous[members] = is_ambiguous(p[block.indices], block.indptr[:-1])

    for_each(work, tasks, n_jobs, progress)
    P = n_islands * per_island
    found = combine(log_values, within, P)
    # A choice that no particle made may still have a probability of about 1/P.
    least = np.where(ambiguous, 1.0 / P, 0.0)
    missed = ambiguous & _may_miss_modes(rows, model, guided, P)
    return found._replace(
        std_errors=np.maximum(found.std_errors, least), reliable=found.reliable & ~missed
    )


def _may_miss_modes(
    rows: sp.csr_array, model: GaP, guided: Guides, n_particles: int | Index
) -> NDArray[np.bool_]:
    """Return whether all particles may miss the possible component with the smallest α."""
    possible = support(rows, model.W > 0)
    rarest = np.where(possible, model.alpha, np.inf).min(axis=1)
    mass, guide_mass = possible @ model.alpha, guided.sizes.sum(axis=1)
    total = sum_entries(rows.indptr, rows.data)
    return few_first_tokens(rarest, mass, guide_mass, total, n_particles, guided.n_chains)


def combine(log_values: Array, within: Array, n_particles: int) -> Estimates:
    """Combine the estimates of the islands (R, N) into one per sample, with its error.

    A few islands may agree by chance. So the variance between islands is averaged with the
    relative variance of the weights within islands (R, N), which counts as `_WITHIN_COUNTS`
    further islands.
    """
    R = log_values.shape[0]
    top = log_values.max(axis=0)
    relative = np.exp(log_values - top)
    mean = _mean(relative)
    spread = _variance(relative / mean) / R
    between = np.maximum(spread, _variance(log_values) / R)
    expected = _WITHIN_FACTOR * _mean(within) / R
    mixed = (_WITHIN_COUNTS * expected + (R - 1) * between) / (_WITHIN_COUNTS + R - 1)
    values = top + np.log(mean)
    rounding = ROUNDING * (1.0 + np.abs(values))
    variance = np.maximum(np.maximum(mixed, between), rounding**2)
    std_error = np.sqrt(variance)
    # The variance of the error bar is conservative: as a correction it would add up to a bias
    # over many samples.
    corrections = 0.5 * np.minimum(spread, 1.0)
    return Estimates(
        values=values + corrections,
        std_errors=std_error,
        ess=n_particles / (1.0 + n_particles * variance),
        reliable=std_error <= LARGEST_STD_ERROR,
        corrections=corrections,
        common=0.5 * corrections,
    )


def _mean(islands: Array) -> Array:
    """Return the mean over islands. (np.mean may add in another order when N is 1.)"""
    total = np.zeros(islands.shape[1])
    for island in islands:
        total += island
    return total / len(islands)


def _variance(islands: Array) -> Array:
    R = len(islands)
    return _mean((islands - _mean(islands)) ** 2) * (R / (R - 1))


def predict_cost(rows: sp.csr_array, K: int, per_island: int) -> Array:
    """Predict the operations for each sample."""
    P = N_ISLANDS * per_island
    return np.asarray(pass_cost(rows, K, P) + guide_cost(rows, K, P))


def coarse_cost(rows: sp.csr_array, K: int) -> Array:
    """Predict the operations of a coarse estimate for each sample, without its guide."""
    return np.asarray(pass_cost(rows, K, COARSE_ISLANDS * COARSE_PARTICLES))


def _cut(cost: Array) -> list[Index]:
    """Cut the samples into consecutive blocks of about equal work."""
    place = (np.cumsum(cost) / _BLOCK_COST).astype(np.int64)
    return list(np.split(np.arange(cost.size), np.flatnonzero(np.diff(place)) + 1))
