"""Method "importance": importance sampling of x = log g from a mixture made for each sample.

The mixture has three parts. Gamma distributions at draws of L have the right tails, but leave gaps
between the draws when there are many components. A Student-t at the mode has the right
correlations. Wide Gamma distributions give every component at least its fair share, so that no
region is missed. Each point is weighted by the density of the whole mixture.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import gammaln, logsumexp

from gapmf.likelihood.guide import N_CHAINS, N_PASSES, chains_cost, draw_passes, estimate_each
from gapmf.likelihood.result import Estimates, Mean, log_mean
from gapmf.likelihood.sample import CHAINS, IMPORTANCE, LARGEST_LOG, Sample, log_gamma, stream_keys
from gapmf.model import GaP
from gapmf.types import Array
from gapmf.validation import check_whole

N_POINTS = 1024  # default
N_GAMMAS = 128  # number of draws of L
FREEDOM = 5.0  # degrees of freedom of the Student-t
WIDE = 0.25  # fraction of the counts in the shapes of the wide Gammas
PARTS = (0.4, 0.5, 0.1)  # fractions of the points: Student-t, Gammas, wide Gammas


def check_particles(n_particles: int | None, n_components: int) -> int:
    """Return the number of points."""
    return check_whole(N_POINTS if n_particles is None else n_particles, "n_particles", 64)


def log_factors(
    rows: sp.csr_array,
    model: GaP,
    seed: np.uint64,
    n_points: int,
    n_jobs: int | None,
    rates: Array | None = None,
) -> Estimates:
    """Estimate the logarithm of the second factor of Eq. 31 for each sample.

    Every sample must be possible for two columns or more. rates (N, K) are their own R/s, if they
    have exposures.
    """

    def estimate(n: int, sample: Sample, guide: Array) -> Mean:
        keys = stream_keys(rows, n, CHAINS, N_PASSES)
        drawn = draw_passes(sample, guide, seed, keys, N_GAMMAS // N_CHAINS)
        shapes = drawn.reshape(-1, sample.alpha.size)
        key = np.array([int(seed), *stream_keys(rows, n, IMPORTANCE, 1)], dtype=np.uint64)
        rng = np.random.Generator(np.random.Philox(key=key))
        log_weights, parts = weigh(sample, shapes, n_points, rng)
        return log_mean(log_weights, parts)

    return estimate_each(rows, model, rates, estimate, seed, n_jobs)


def predict_cost(rows: sp.csr_array, K: int, n_points: int) -> Array:
    """Predict the operations for each sample; a lower bound when K is large."""
    size = np.diff(rows.indptr)
    each: Array = n_points * (size * (0.3 * K + 2.0) + N_GAMMAS * K + 10.0 * K)
    return each + chains_cost(rows, K, N_GAMMAS // N_CHAINS) + 1e6


def weigh(
    sample: Sample, shapes: Array, n_points: int, rng: np.random.Generator
) -> tuple[Array, tuple[int, ...]]:
    """Draw points of the mixture, part by part; return their log-weights and the parts' sizes."""
    mode, factor = find_mode(sample, np.log(shapes.mean(axis=0)))
    K = mode.size
    # Every component gets at least its fair share of the counts, whatever the draws of L are.
    fair = sample.counts @ (sample.p / sample.p.sum(axis=1, keepdims=True))
    counts = np.maximum(shapes.mean(axis=0) - sample.alpha, fair)
    wide = sample.alpha + WIDE * counts
    stretch = np.log((sample.alpha + counts) / wide)
    each = max(int(PARTS[1] * n_points) // len(shapes), 1)
    sizes = int(PARTS[0] * n_points), each * len(shapes), max(int(PARTS[2] * n_points), 2)
    z = rng.standard_normal((sizes[0], K))
    z *= np.sqrt(FREEDOM / rng.chisquare(FREEDOM, sizes[0]))[:, None]
    x = np.concatenate(
        [
            mode + solve_triangular(factor, z.T, lower=True, trans="T").T,
            log_gamma(np.repeat(shapes, each, axis=0), rng),
            log_gamma(np.tile(wide, (sizes[2], 1)), rng) + stretch,
        ]
    )
    parts = np.stack(
        [
            _log_student(x, mode, factor),
            logsumexp(_log_gammas(x, shapes), axis=1) - np.log(len(shapes)),
            _log_gammas(x - stretch, wide[None])[:, 0],
        ]
    )
    weights = np.log(np.array(sizes) / sum(sizes))
    return sample.log_density(x) - logsumexp(parts + weights[:, None], axis=0), sizes


def find_mode(sample: Sample, x: Array) -> tuple[Array, Array]:
    """Find the mode of x = log g given v by Newton's method, and its curvature's Cholesky factor.

    The curvature is diag(α) + Σ_f v_f r_f r_f', r_fk = p_fk g_k / Σ_l p_fl g_l. This is exact at
    the mode only, but positive definite everywhere, so that every step goes up.
    """
    counts, alpha = sample.counts.astype(float), sample.alpha
    least = np.diag(np.maximum(alpha, 1e-4))  # keeps the curvature invertible
    value = sample.log_density(x[None])[0]
    for _ in range(100):
        g = np.exp(x)
        r = sample.p * g
        r /= r.sum(axis=1, keepdims=True)
        slope = alpha + counts @ r - g
        curvature = least + (r * counts[:, None]).T @ r
        step = cho_solve(cho_factor(curvature), slope)
        gain = float(slope @ step)
        if gain < 1e-8:
            break
        for half in range(40):
            nearer = x + 0.5**half * step
            new = sample.log_density(nearer[None])[0]
            if new >= value:
                break
        x, value = nearer, new
    return x, np.linalg.cholesky(curvature)


def _log_gammas(x: Array, shapes: Array) -> Array:
    """Return log-densities (S, M) of x = log g at points (S, K), for each row of shapes (M, K)."""
    constant = gammaln(shapes).sum(axis=1)
    g = np.exp(np.minimum(x, LARGEST_LOG))
    return np.asarray(x @ shapes.T - g.sum(axis=1)[:, None] - constant)


def _log_student(x: Array, mode: Array, factor: Array) -> Array:
    """Return the log-density of the Student-t with precision factor · factor'."""
    K = mode.size
    squares = (((x - mode) @ factor) ** 2).sum(axis=1)
    constant = gammaln(0.5 * (FREEDOM + K)) - gammaln(0.5 * FREEDOM)
    constant += np.log(np.diag(factor)).sum() - 0.5 * K * np.log(np.pi * FREEDOM)
    return np.asarray(constant - 0.5 * (FREEDOM + K) * np.log1p(squares / FREEDOM))
