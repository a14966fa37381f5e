"""How fast the EMs converge: the Jacobians of their maps, and rates seen in iterates.

With one E-step EM-C and EM-CH give the same column directions, and norms that relate by
S_CH = S_C (β+S)/(β+S_C). Differentiated at a stationary point this is

    J_CH = R + (I − R) J_C,        R = w_k 1ᵀ / (S_k + β_k) on each column k,

so EM-CH contracts no faster than max_k ρ_k, ρ_k = S_k/(S_k+β_k): its rate tends to one as the
counts grow. EM-C has no such bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapmf.em.exact_moments import em_c_step, em_ch_step
from gapmf.em.expectation import ExactExpectation, Expectation
from gapmf.model import GaP

Array = NDArray[np.float64]
Step = Callable[[GaP, Expectation], GaP]

_STEP = 1e-4  # of a feature's row of W: third-order terms and rounding balance near here


class Rates(NamedTuple):
    """Eigenvalues of the two EM maps at a stationary point, in descending order."""

    em_c: Array
    em_ch: Array
    rho: Array
    """S_k / (S_k + β_k), (K,)."""


def convergence_rates(expect: ExactExpectation, model: GaP) -> Rates:
    """The eigenvalues of both Jacobians at a stationary point; the first is the rate."""
    em_c, em_ch = (
        np.sort(np.linalg.eigvals(jacobian(expect, model, step)).real)[::-1]
        for step in (em_c_step, em_ch_step)
    )
    return Rates(em_c, em_ch, model.column_norms / (model.column_norms + model.beta))


def jacobian(expect: ExactExpectation, model: GaP, step: Step) -> Array:
    """The derivative of an EM map at `model`, (FK, FK), W in C order, by differences.

    Central where w_fk allows it; at the boundary one-sided, of second order too.
    """

    def image(W: Array) -> Array:
        here = GaP(W, model.alpha, model.beta)
        return step(here, expect(here)).W.ravel()

    W = model.W
    size = _STEP * W.sum(axis=1, keepdims=True) * np.ones_like(W)
    centre = image(W)
    columns = []
    for place in np.ndindex(*W.shape):
        h = size[place]
        if h == 0.0:  # a feature without counts stays at zero
            columns.append(np.zeros(W.size))
            continue
        moved = []
        for times in (-1, 1) if W[place] > h else (1, 2):
            V = W.copy()
            V[place] += times * h
            moved.append(image(V))
        if W[place] > h:
            columns.append((moved[1] - moved[0]) / (2 * h))
        else:
            columns.append((4 * moved[0] - moved[1] - 3 * centre) / (2 * h))
    return np.stack(columns, axis=1)


def scale_matrix(model: GaP) -> Array:
    """R, (FK, FK): what a change of a column's norm does to the column, w_k 1ᵀ/(S_k + β_k)."""
    F, K = model.W.shape
    R = np.zeros((F, K, F, K))
    for k in range(K):
        R[:, k, :, k] = (model.W[:, k] / (model.column_norms[k] + model.beta[k]))[:, None]
    return R.reshape(F * K, F * K)


def observed_rate(
    expect: ExactExpectation, model: GaP, step: Step, *, n_iter: int = 200, seed: int = 0
) -> float:
    """The factor by which the distance to `model` shrinks an iteration, seen in the iterates.

    Started a little off; the distance is brought back to its first size whenever it has become
    small, so that rounding does not end the sequence before the slowest direction rules.
    """
    rng = np.random.default_rng(seed)
    off = model.W * rng.uniform(-1e-4, 1e-4, model.W.shape)
    room = 1e-4 * model.W.sum(axis=1, keepdims=True)  # zeros can only be left upwards
    off = np.where(room > model.W, room * rng.random(model.W.shape), off)
    first = float(np.linalg.norm(off))
    ratio = np.nan
    for _ in range(n_iter):
        here = GaP(np.maximum(model.W + off, 0.0), model.alpha, model.beta)
        moved = step(here, expect(here)).W - model.W
        before, after = float(np.linalg.norm(off)), float(np.linalg.norm(moved))
        ratio = after / before
        if after == 0.0:
            return 0.0
        off = moved * (first / after if after < 0.1 * first else 1.0)
    return ratio
