"""Exact methods: enumeration, polynomial and quadrature, on blocks of samples.

Each method computes, for every sample, the logarithm of the second factor of Eq. 31,

    Σ_C Ω_α(C) Π_fk p_fk^{c_fk}.

Multiplied by the first factor, Π_k (1 − Σ_f p_fk)^α_k, it gives p(v). The samples of a block have
the same possible columns; the caller removes columns of W that are zero on a sample's support. Rows
of p are scaled to a maximum of one, which avoids under- and overflow: scaling p_f by e^s adds v_f s
to the result (see `scaled_probabilities`).

Quadrature computes expectations of polynomials over θ ~ Dirichlet(α) on the simplex. Stick-breaking
turns θ into K−1 independent Beta variables, so the rule is a product of Gauss-Jacobi rules. The
likelihood is a sum of positive multiples of monomials u^i (1−u)^(n−i), so the largest relative
error of a monomial bounds its error. This decides the number of nodes per stick.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh_tridiagonal
from scipy.special import betaln, gammaln, psi, xlogy

from gapmf.csr import Block, sum_entries
from gapmf.distributions import log_rising
from gapmf.kernels import enumeration, jacobi, polynomial
from gapmf.kernels import quadrature_sums as quadrature
from gapmf.model import GaP
from gapmf.types import Array, Index


class QuadratureRule(NamedTuple):
    """Product rule: the nodes u of each stick, their complements 1 − u and log-weights."""

    nodes: Array
    complements: Array
    log_weights: Array


@lru_cache(maxsize=512)
def beta_rule(a: float, b: float, m: int) -> tuple[Array, Array, Array]:
    """Return the m-point Gauss rule of Beta(a, b) on [0, 1]: nodes u, 1 − u and log-weights.

    It is exact for polynomials of degree 2m − 1. Eigenvalues of the Jacobi matrix are only
    starting values, since they are inaccurate near the ends.
    """
    A, B, _ = jacobi.recurrence(a, b, m)
    guess = (1.0 + A) / B
    if m > 1:
        guess = eigvalsh_tridiagonal(guess, np.sqrt(A[1:] / (B[1:] * B[:-1])))
    arrays = jacobi.refine(guess, a, b)
    for array in arrays:
        array.setflags(write=False)
    return arrays[0], arrays[1], arrays[2]


def simplex_rule(alpha: Array, n: int, *, logs: bool = False) -> QuadratureRule:
    """Return a rule for θ ~ Dirichlet(α) that integrates polynomials of degree n to rounding.

    A rule with ⌊n/2⌋ + 1 nodes per stick is exact. Fewer nodes suffice when shapes are at most 1:
    they are then dense everywhere, and a monomial of degree n is no narrower than 1/√n in the angle
    arccos(2u−1), which 4√n + 6 nodes resolve to 1e-13. The integer part of a larger shape moves to
    the integrand as additional counts: Beta(a, b) ∝ u^i (1−u)^j Beta(a−i, b−j). (Otherwise nodes
    would cluster at the prior and miss the likelihood.)

    With `logs`, these polynomials times a logarithm of `simplex_logs` are integrated too.
    """
    if alpha.size == 1:  # no sticks: the single node θ = 1
        return QuadratureRule(np.empty((0, 1)), np.empty((0, 1)), np.empty((0, 1)))
    sticks = []
    for a, b, i, j, m in _sticks(alpha, n, logs):
        u, y, log_w = beta_rule(a - i, b - j, m)
        if i or j:
            log_w = log_w + i * np.log(u) + j * np.log(y)
            log_w = log_w + (betaln(a - i, b - j) - betaln(a, b))
        sticks.append((u, y, log_w))
    return QuadratureRule(*(np.stack(parts) for parts in zip(*sticks, strict=True)))


def simplex_logs(alpha: Array, n: int) -> Array:
    """Return projections of log u and log(1 − u) at the nodes of `simplex_rule(…, logs=True)`.

    The shape is (2, K−1, m). The logarithms of the nodes themselves would be integrated badly,
    above all for small α: see `kernels.jacobi.projected_logs`.
    """
    if alpha.size == 1:
        return np.empty((2, 0, 1))
    sticks = []
    for a, b, i, j, m in _sticks(alpha, n, True):
        u, y, _ = beta_rule(a - i, b - j, m)
        log_u, log_y = jacobi.projected_logs(u, y, a - i, b - j)
        total = psi(a - i + (b - j))
        sticks.append([log_u + (psi(a - i) - total), log_y + (psi(b - j) - total)])
    return np.array(sticks).transpose(1, 0, 2).copy()


def _sticks(alpha: Array, n: int, logs: bool) -> Iterator[tuple[float, float, int, int, int]]:
    """Yield for each stick its shapes (a, b), their parts in the integrand and its nodes."""
    sizes, dense = nodes_per_stick(alpha, np.array([n]), logs=logs)
    for k in range(alpha.size - 1):
        a, b = float(alpha[k]), float(alpha[k + 1 :].sum())
        i, j = (_whole_part(a), _whole_part(b)) if dense[0] else (0, 0)
        yield a, b, i, j, int(sizes[0])


def nodes_per_stick(
    alpha: Array, n: NDArray[Any], *, logs: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the nodes per stick for degrees n, and whether the dense rule is used.

    A projected logarithm has degree m − 1, so with `logs` n + 1 nodes are exact, and 6.5√n replaces
    4√n. Above 32 the number is rounded up by at most one sixteenth, so that samples share rules.
    """
    n = np.asarray(n, dtype=np.int64)
    extra = 0.0
    for k in range(alpha.size - 1):
        extra = max(extra, float(_whole_part(alpha[k]) + _whole_part(alpha[k + 1 :].sum())))
    density = 6.5 if logs else 4.0
    m = np.ceil(density * np.sqrt(n + min(extra, 1e17))).astype(np.int64) + 6
    exact = n + 1 if logs else n // 2 + 1
    dense = m < exact
    m = np.where(dense, m, exact)
    step = np.left_shift(1, np.maximum(0, np.log2(m).astype(np.int64) - 4))
    return -(-m // step) * step, dense


def rule_key(alpha: Array, n: NDArray[Any], *, logs: bool = False) -> NDArray[np.int64]:
    """Return a key of the rule for each degree n: equal keys mean equal rules."""
    m, dense = nodes_per_stick(alpha, n, logs=logs)
    return 2 * m + dense


def _whole_part(shape: float) -> int:
    """Return the integer that leaves the rest of a shape in (0, 1]."""
    return max(0, math.ceil(shape) - 1)


def by_enumeration(block: Block, p: Array, alpha: Array) -> Array:
    """Sum over admissible components, as the paper writes it: Eqs. 28, 29 and 31."""
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
    """Compute the same sum with one coefficient for each value of L: Eq. 31."""
    log_total: Array = polynomial.log_totals(block.indptr, block.indices, block.counts, p, alpha)
    return log_total - _log_factorials(block)


def by_quadrature(block: Block, p: Array, alpha: Array) -> Array:
    """Integrate over the simplex: Eq. 31.

    The sum is Γ(A+|v|)/(Γ(A) Π v_f!) E[Π_f (Σ_k p_fk θ_k)^{v_f}] with θ ~ Dirichlet(α). The samples
    of a block must have the same rule.
    """
    n = sum_entries(block.indptr, block.counts.astype(float))
    rule = simplex_rule(alpha, int(n.max()))
    top, total = quadrature.expectations(
        block.indptr, block.indices, block.counts, p, *rule, np.empty((0, 0))
    )
    log_mean: Array = top + np.log(total)
    return log_rising(alpha.sum(), n) + log_mean - _log_factorials(block)


def one_column(block: Block, p: Array, alpha: Array) -> Array:
    """Compute the single term for one column, or none for an empty sample: Eq. 15."""
    if alpha.size == 0:
        return np.zeros(block.indptr.size - 1)
    n = sum_entries(block.indptr, block.counts.astype(float))
    log_p = sum_entries(block.indptr, xlogy(block.counts, p[block.indices, 0]))
    return log_rising(alpha[0], n) + log_p - _log_factorials(block)


def log_factors(method: str, block: Block, p: Array, log_scale: Array, alpha: Array) -> Array:
    """Compute the logarithm of the second factor of Eq. 31, (N,), by the named method.

    p and log_scale are `scaled_probabilities` of the block's features.
    """
    compute = METHODS[method] if alpha.size > 1 else one_column
    return compute(block, p, alpha) + sum_entries(
        block.indptr, block.counts * log_scale[block.indices]
    )


def scaled_probabilities(W: Array, rate: Array) -> tuple[Array, Array]:
    """Return p_fk e^(−s_f) with maximum 1 in each row, and s_f, where p = w/rate."""
    with np.errstate(divide="ignore"):
        log_p = np.log(W) - np.log(rate)
    log_scale = log_p.max(axis=1, initial=-np.inf)
    log_scale = np.where(np.isfinite(log_scale), log_scale, 0.0)
    return np.exp(log_p - log_scale[:, None]), log_scale


def block_probabilities(
    model: GaP, rates: Array | None, block: Block, members: Index, columns: Index
) -> tuple[Array, Array]:
    """Return `scaled_probabilities` of some columns for the features of a block of samples.

    rates (N, K) are R/s of all samples, if they have exposures: their own p = w s/R. Entries of the
    block must then be `own`. `members` are the block's samples.
    """
    W = model.W[np.ix_(block.features, columns)]
    if rates is None:
        return scaled_probabilities(W, (model.column_norms + model.beta)[columns])
    rows = np.repeat(members, np.diff(block.indptr))
    return scaled_probabilities(W, rates[np.ix_(rows, columns)])


def _log_factorials(block: Block) -> Array:
    return sum_entries(block.indptr, gammaln(block.counts + 1.0))


METHODS: dict[str, Callable[[Block, Array, Array], Array]] = {
    "enumerate": by_enumeration,
    "polynomial": by_polynomial,
    "quadrature": by_quadrature,
}
