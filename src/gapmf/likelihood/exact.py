"""The exact methods, on blocks of samples that share their columns.

Each returns, for every sample, the logarithm of the second factor of Eq. 31,

    Σ_C Ω_α(C) Π_fk p_fk^{c_fk},

which the first, Π_k (1 − Σ_f p_fk)^α_k, turns into p(v). Columns of W that are zero on a
sample's support cannot have produced it: they are left out before these functions see it.

p may be scaled: a row p_f times e^s makes the result larger by v_f s. So the rows come scaled to
a largest entry of one (see `scaled_probabilities`), and nothing under- or overflows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from gapmf.distributions import log_rising
from gapmf.kernels import enumeration, polynomial, quadrature
from gapmf.likelihood.rule import simplex_rule
from gapmf.rows import Block, sum_entries

Array = NDArray[np.float64]


def by_enumeration(block: Block, p: Array, alpha: Array) -> Array:
    """The sum over admissible components as the paper writes it: Eqs. 28, 29 and 31."""
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    result = np.empty(block.indptr.size - 1)
    for s in range(result.size):
        entries = slice(block.indptr[s], block.indptr[s + 1])
        result[s] = enumeration.log_sum_over_components(
            block.counts[entries], log_p[block.indices[entries]], alpha
        )
    return result


def by_polynomial(block: Block, p: Array, alpha: Array) -> Array:
    """The same sum gathered by L, one coefficient for each value of L: Eq. 31."""
    log_total: Array = polynomial.log_totals(block.indptr, block.indices, block.counts, p, alpha)
    return log_total - _log_factorials(block)


def by_quadrature(block: Block, p: Array, alpha: Array) -> Array:
    """Eq. 31 as Γ(A+|v|)/(Γ(A) Π v_f!) E[Π_f (Σ_k p_fk θ_k)^{v_f}], θ ~ Dirichlet(α).

    The samples of a block must need the same rule.
    """
    n = _sums(block, block.counts.astype(float))
    rule = simplex_rule(alpha, int(n.max()))
    top, total = quadrature.expectations(
        block.indptr, block.indices, block.counts, p, *rule, np.empty((0, 0))
    )
    log_mean: Array = top + np.log(total)
    return log_rising(alpha.sum(), n) + log_mean - _log_factorials(block)


def one_column(block: Block, p: Array, alpha: Array) -> Array:
    """With one column (or none, for an empty sample) the sum has a single term: Eq. 15."""
    if alpha.size == 0:
        return np.zeros(block.indptr.size - 1)
    n = _sums(block, block.counts.astype(float))
    log_p = _sums(block, xlogy(block.counts, p[block.indices, 0]))
    return log_rising(alpha[0], n) + log_p - _log_factorials(block)


def log_factors(method: str, block: Block, W: Array, rate: Array, alpha: Array) -> Array:
    """The logarithm of the second factor of Eq. 31, (N,), by the named method.

    W (features of the block, K) and rate = ||w_k||₁ + β_k (K,) give p_fk = w_fk / rate_k.
    """
    p, log_scale = scaled_probabilities(W, rate)
    compute = METHODS[method] if alpha.size > 1 else one_column
    return compute(block, p, alpha) + _sums(block, block.counts * log_scale[block.indices])


def scaled_probabilities(W: Array, rate: Array) -> tuple[Array, Array]:
    """p_fk e^(−s_f) with largest entry 1 in each row, and s_f, so that p = w/rate = both."""
    with np.errstate(divide="ignore"):
        log_p = np.log(W) - np.log(rate)
    log_scale = log_p.max(axis=1, initial=-np.inf)
    log_scale = np.where(np.isfinite(log_scale), log_scale, 0.0)
    return np.exp(log_p - log_scale[:, None]), log_scale


def _log_factorials(block: Block) -> Array:
    return _sums(block, gammaln(block.counts + 1.0))


def _sums(block: Block, entries: Array) -> Array:
    return sum_entries(block.indptr, entries)


METHODS: dict[str, Callable[[Block, Array, Array], Array]] = {
    "enumerate": by_enumeration,
    "polynomial": by_polynomial,
    "quadrature": by_quadrature,
}
