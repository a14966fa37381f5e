"""The estimated likelihood: sequential Monte Carlo in independent islands, with an error bar.

Each island of particles gives an unbiased estimate of p(v); their mean is one too. How far the
islands lie apart says how sure it is. The logarithm of an unbiased estimate is too small by half
its relative variance, on average: that is added back.

How many particles a sample gets is decided by a pilot run, from which nothing else is taken.
Deciding by the estimate itself, and keeping those that look well, would keep those that are too
small: an island that finds what the others miss makes them disagree.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from gapmf.csr import Block, sum_entries, take_block
from gapmf.errors import InvalidInputError
from gapmf.kernels import token_smc as smc
from gapmf.kernels.particles import make_particles
from gapmf.likelihood.exact import scaled_probabilities
from gapmf.likelihood.guide import Guides, few_first_tokens, guide_cost, guides
from gapmf.likelihood.planning import support
from gapmf.likelihood.result import LARGEST_STD_ERROR, ROUNDING, Estimates, is_ambiguous
from gapmf.likelihood.sample import PILOT, max_particles, pass_cost, stream_keys
from gapmf.model import GaP
from gapmf.parallel import for_each
from gapmf.types import Array, Index
from gapmf.validation import check_whole

N_ISLANDS = 4
N_PARTICLES = 288  # at least,
PER_COMPONENT = 36  # and so many for every component when there are
MANY = 40  # of them, and in proportion fewer below
ESCALATION = (2, 4, 8, 16)  # times as many particles, for samples that need them
_PILOT = 8  # of the particles, one in so many
_AIM = 0.3  # the standard error of a sample that is enough
_BLOCK_COST = 5e7  # operations that a thread does at once, about a nanosecond each

# What the weights within islands say about the variance counts as much as so many islands more,
# and is too little where moves mix slowly.
_WITHIN_COUNTS = 7.0
_WITHIN_FACTOR = 1.5


def check_particles(n_particles: int | None, n_components: int) -> int:
    """Particles an island: a multiple of four, of all islands together at least n_particles."""
    if n_particles is None:
        each = PER_COMPONENT * min(n_components / MANY, 1.0)
        usual = max(N_PARTICLES, int(each * n_components))
        n_particles = min(usual, N_ISLANDS * max_particles(n_components))
    n = check_whole(n_particles, "n_particles", 4 * N_ISLANDS)
    each = -(-n // (4 * N_ISLANDS)) * 4
    most = max_particles(n_components)
    if each > most:
        raise InvalidInputError(
            f"n_particles is {n}, but with {n_components} components at most "
            f"{most * N_ISLANDS} particles can be told apart"
        )
    return each


def log_factors(
    rows: sp.csr_array, model: GaP, seed: np.uint64, per_island: int, n_jobs: int | None
) -> Estimates:
    """The logarithm of the second factor of Eq. 31, estimated for each sample.

    Every sample must be possible. What it gets depends on the seed and on its counts alone.
    Samples that need more particles, by a pilot run, get them.
    """
    result = Estimates.empty(rows.shape[0])
    guided = guides(rows, model, seed, N_ISLANDS * per_island, n_jobs)
    sizes = _sizes(rows, model, guided, seed, per_island, n_jobs)
    for size in np.unique(sizes):
        some = np.flatnonzero(sizes == size)
        own = guided._replace(sizes=guided.sizes[some])
        result.put(some, _estimate(rows[some], model, own, seed, int(size), n_jobs))
    return result


def estimate_once(
    rows: sp.csr_array, model: GaP, seed: np.uint64, per_island: int, n_jobs: int | None
) -> Estimates:
    """The same, of islands with so many particles for every sample."""
    guided = guides(rows, model, seed, N_ISLANDS * per_island, n_jobs)
    return _estimate(rows, model, guided, seed, per_island, n_jobs)


def _sizes(
    rows: sp.csr_array,
    model: GaP,
    guided: Guides,
    seed: np.uint64,
    per_island: int,
    n_jobs: int | None,
) -> Index:
    """The particles an island that each sample needs, as far as small islands can tell."""
    few = max(per_island // (4 * _PILOT) * 4, 4)
    pilot = _estimate(rows, model, guided, seed, few, n_jobs, PILOT)
    error = pilot.std_errors * np.sqrt(few / per_island)  # with factor 1
    sizes = np.full(rows.shape[0], per_island)
    (rarest, mass), total = _rarest(rows, model), sum_entries(rows.indptr, rows.data)
    guiding = guided.sizes.sum(axis=1)
    for factor in ESCALATION:
        poor = error > _AIM * np.sqrt(sizes / per_island)
        poor |= few_first_tokens(rarest, mass, guiding, total, N_ISLANDS * sizes, guided.n_chains)
        sizes[poor] = factor * per_island
    return np.asarray(np.minimum(sizes, max_particles(model.n_components)))


def _estimate(
    rows: sp.csr_array,
    model: GaP,
    guided: Guides,
    seed: np.uint64,
    per_island: int,
    n_jobs: int | None,
    purpose: int = 0,
) -> Estimates:
    """One estimate for each sample, from islands of so many particles."""
    N = rows.shape[0]
    # More particles draw anew.
    named = [stream_keys(rows, n, purpose + per_island, N_ISLANDS) for n in range(N)]
    names = np.array(named, dtype=np.uint64).reshape(N, N_ISLANDS)
    blocks = [
        (members, take_block(rows, members))
        for members in _cut(pass_cost(rows, model.n_components, per_island))
    ]
    tasks = [(b, island) for b in range(len(blocks)) for island in range(N_ISLANDS)]
    rate = model.column_norms + model.beta
    alpha = model.alpha.copy()  # writable, as those of samples: the kernel has one signature
    log_values, within = np.empty((2, N_ISLANDS, N))
    chance = np.empty(N, dtype=bool)

    def work(task: tuple[int, int]) -> None:
        members, block = blocks[task[0]]
        island = task[1]
        p, log_scale = scaled_probabilities(model.W[block.features], rate)
        most = int(np.diff(block.indptr).max(initial=0))
        at = make_particles(per_island, model.n_components, most)
        values, variance = np.empty((2, members.size))
        smc.estimates(
            block.indptr, block.indices, block.counts, p, alpha, guided.sizes[members],
            seed, names[members, island], at, values, variance,
        )  # fmt: skip
        log_values[island, members] = values + _constants(block, log_scale)
        within[island, members] = variance
        if island == 0:
            chance[members] = is_ambiguous(p[block.indices], block.indptr[:-1])

    for_each(work, tasks, n_jobs)
    P = N_ISLANDS * per_island
    found = combine(log_values, within, P)
    # A choice that no particle made may still be as probable as one in so many.
    least = np.where(chance, 1.0 / P, 0.0)
    total = sum_entries(rows.indptr, rows.data)
    guiding = guided.sizes.sum(axis=1)
    rare = few_first_tokens(*_rarest(rows, model), guiding, total, P, guided.n_chains)
    return found._replace(
        std_errors=np.maximum(found.std_errors, least), reliable=found.reliable & ~(chance & rare)
    )


def _rarest(rows: sp.csr_array, model: GaP) -> tuple[Array, Array]:
    """The least α of the components that each sample may have, and the sum of theirs."""
    met = support(rows, model.W > 0)
    return np.where(met, model.alpha, np.inf).min(axis=1), met @ model.alpha


def combine(log_values: Array, within: Array, n_particles: int) -> Estimates:
    """One estimate from those of the islands (R, N), and what they say about its error.

    The relative variance is the islands', and that of their weights within (R, N), weighted as
    if the latter came from `_WITHIN_COUNTS` islands more: a few alone would at times lie close
    together by chance.
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
    # Not by the variance of the error bar, which is on the safe side: over many samples that
    # would add up.
    corrections = 0.5 * np.minimum(spread, 1.0)
    return Estimates(
        values=values + corrections,
        std_errors=std_error,
        ess=n_particles / (1.0 + n_particles * variance),
        reliable=std_error <= LARGEST_STD_ERROR,
        corrections=corrections,
    )


def _mean(islands: Array) -> Array:
    """The mean over islands. (NumPy's own may add in another order when N is 1.)"""
    total = np.zeros(islands.shape[1])
    for island in islands:
        total += island
    return total / len(islands)


def _variance(islands: Array) -> Array:
    R = len(islands)
    return _mean((islands - _mean(islands)) ** 2) * (R / (R - 1))


def predict_cost(rows: sp.csr_array, K: int, per_island: int) -> Array:
    """Operations for each sample, about a nanosecond each."""
    P = N_ISLANDS * per_island
    return np.asarray(pass_cost(rows, K, P) + guide_cost(rows, K, P))


def _cut(cost: Array) -> list[Index]:
    """Consecutive samples, in blocks of about equal work."""
    place = (np.cumsum(cost) / _BLOCK_COST).astype(np.int64)
    return list(np.split(np.arange(cost.size), np.flatnonzero(np.diff(place)) + 1))


def _constants(block: Block, log_scale: Array) -> Array:
    """What scaled rows of p and the order of tokens contribute: Σ_f v_f s_f − log v_f!."""
    entries = block.counts * log_scale[block.indices] - gammaln(block.counts + 1.0)
    return sum_entries(block.indptr, entries)
