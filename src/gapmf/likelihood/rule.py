"""Quadrature on the simplex: expectations over θ ~ Dirichlet(α) of polynomials in θ.

Stick-breaking turns θ into K−1 independent Betas, so the rule is a product of Gauss-Jacobi
rules. How many nodes a stick needs is decided by the *monomials*: the likelihood is a sum of
positive multiples of u^i (1−u)^(n−i), so the largest relative error among these bounds its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh_tridiagonal
from scipy.special import betaln, psi

from gapmf.kernels import jacobi

Array = NDArray[np.float64]


class Rule(NamedTuple):
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


def simplex_rule(alpha: Array, n: int, *, logs: bool = False) -> Rule:
    """A rule for θ ~ Dirichlet(α) that is right for polynomials of degree n to rounding.

    With ⌊n/2⌋ + 1 nodes a stick it is exact. Fewer do when shapes are at most 1: the nodes
    then lie dense everywhere, and a monomial of degree n is no narrower than 1/√n in the
    angle arccos(2u−1), which 4√n + 6 nodes resolve to 1e-13. A larger shape gives its whole
    part to the integrand, as that many more counts: Beta(a, b) = u^i (1−u)^j Beta(a−i, b−j)
    up to a constant. (Without this, nodes crowd where the prior is and miss the likelihood.)

    With `logs` it is right for these polynomials times a logarithm of `simplex_logs` too.
    """
    if alpha.size == 1:  # no sticks: the single node θ = 1
        return Rule(np.empty((0, 1)), np.empty((0, 1)), np.empty((0, 1)))
    sticks = []
    for a, b, i, j, m in _sticks(alpha, n, logs):
        u, y, log_w = beta_rule(a - i, b - j, m)
        if i or j:
            log_w = log_w + i * np.log(u) + j * np.log(y)
            log_w = log_w + (betaln(a - i, b - j) - betaln(a, b))
        sticks.append((u, y, log_w))
    return Rule(*(np.stack(parts) for parts in zip(*sticks, strict=True)))


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
