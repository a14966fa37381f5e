"""Quadrature on the simplex: expectations over θ ~ Dirichlet(α) of polynomials in θ.

Stick-breaking turns θ into K−1 independent Betas, so the rule is a product of Gauss-Jacobi
rules. How many nodes a stick needs is decided by the *monomials*: the likelihood is a sum of
positive multiples of u^i (1−u)^(n−i), so the largest relative error among these bounds its own.

The exact methods, on blocks of samples that share their columns.

Each returns, for every sample, the logarithm of the second factor of Eq. 31,

    Σ_C Ω_α(C) Π_fk p_fk^{c_fk},

which the first, Π_k (1 − Σ_f p_fk)^α_k, turns into p(v). Columns of W that are zero on a
sample's support cannot have produced it: they are left out before these functions see it.

p may be scaled: a row p_f times e^s makes the result larger by v_f s. So the rows come scaled to
a largest entry of one (see `scaled_probabilities`), and nothing under- or overflows.
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
from gapmf.types import Array


class QuadratureRule(NamedTuple):
    """A product rule: nodes of each stick, their complements 1 − u, and log-weights."""

    nodes: Array
    complements: Array
    log_weights: Array


@lru_cache(maxsize=512)
def beta_rule(a: float, b: float, m: int) -> tuple[Array, Array, Array]:
    """The m-point Gauss rule of Beta(a, b) on [0, 1]: nodes u, 1 − u, and log-weights.

    Exact for polynomials of degree 2m − 1. Eigenvalues of the Jacobi matrix are the first
    guess only: they lose the digits of nodes near the ends.
    """
    A, B, _ = jacobi.recurrence(a, b, m)
    diagonal = (1.0 + A) / B
    if m == 1:
        guess = diagonal
    else:
        guess = eigvalsh_tridiagonal(diagonal, np.sqrt(A[1:] / (B[1:] * B[:-1])))
    arrays = jacobi.refine(guess, a, b)
    for array in arrays:
        array.setflags(write=False)
    return arrays[0], arrays[1], arrays[2]


def simplex_rule(alpha: Array, n: int, *, logs: bool = False) -> QuadratureRule:
    """A rule for θ ~ Dirichlet(α) that is right for polynomials of degree n to rounding.

    With ⌊n/2⌋ + 1 nodes a stick it is exact. Fewer do when shapes are at most 1: the nodes
    then lie dense everywhere, and a monomial of degree n is no narrower than 1/√n in the
    angle arccos(2u−1), which 4√n + 6 nodes resolve to 1e-13. A larger shape gives its whole
    part to the integrand, as that many more counts: Beta(a, b) = u^i (1−u)^j Beta(a−i, b−j)
    up to a constant. (Without this, nodes crowd where the prior is and miss the likelihood.)

    With `logs` it is right for these polynomials times a logarithm of `simplex_logs` too.
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
    """What stands for log u and log(1 − u) at the nodes of `simplex_rule(…, logs=True)`.

    (2, K−1, m). At the nodes themselves the logarithms would be integrated badly, for small α
    above all: see `kernels.jacobi.projected_logs`.
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
    """Each stick's shapes (a, b), what of them goes to the integrand, and its nodes."""
    sizes, dense = nodes_per_stick(alpha, np.array([n]), logs=logs)
    for k in range(alpha.size - 1):
        a, b = float(alpha[k]), float(alpha[k + 1 :].sum())
        i, j = (_whole_part(a), _whole_part(b)) if dense[0] else (0, 0)
        yield a, b, i, j, int(sizes[0])


def nodes_per_stick(
    alpha: Array, n: NDArray[Any], *, logs: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For degrees n: how many nodes a stick, and whether they are the dense rule's.

    A projected logarithm is of degree m − 1, so with `logs` n + 1 nodes are exact, and 6.5√n
    take the place of 4√n. Past 32 the number is rounded up by at most a sixteenth, so that
    samples share rules.
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
    """A number for the rule that each degree n gets: equal keys, equal rules."""
    m, dense = nodes_per_stick(alpha, n, logs=logs)
    return 2 * m + dense


def _whole_part(shape: float) -> int:
    """The whole number that leaves a shape in (0, 1]."""
    return max(0, math.ceil(shape) - 1)


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
