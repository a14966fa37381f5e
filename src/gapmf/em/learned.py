"""Steps that learn α along with W, and what is known of α afterwards.

Given C, component sizes are negative binomial, and with the means of C at their averages the
M-step for α_k is that of a dispersion: see `gapmf.dispersion`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gapmf.dispersion import LARGEST, SMALLEST, fit_alpha, lift_alpha
from gapmf.em.expectation import ExactExpectation, Expectation
from gapmf.em.sizes import expected_sizes
from gapmf.m_steps import update_c
from gapmf.model import GaP

Array = NDArray[np.float64]
Step = Callable[[GaP, Expectation], GaP]


def em_c_alpha_step(expect: ExactExpectation) -> Step:
    """EM-C's iteration for W and α together: Q_C's maximum over both, from the law of L."""

    def step(model: GaP, at: Expectation) -> GaP:
        s = replace(at.statistics, sizes=expected_sizes(expect, model))
        assert s.sizes is not None
        alpha = fit_alpha(s.sizes, model.alpha, shared=expect.learn_alpha == "shared")
        return GaP(update_c(s, alpha, model.beta), alpha, model.beta)

    return step


def lower_bound_step(expect: ExactExpectation) -> Step:
    """An iteration for W and α that cannot lose either, and needs no law of L.

    It maximises a lower bound of Q_C in which α enters through E[ψ(α + L) − ψ(α)] alone, which
    quadrature gives; so it is much cheaper than `em_c_alpha_step`, and moves α less.
    """

    def step(model: GaP, at: Expectation) -> GaP:
        assert at.rising is not None
        s = at.statistics
        shared = expect.learn_alpha == "shared"
        rising, means = at.rising / s.n_draws, s.c_sum.sum(axis=0) / s.n_draws
        alpha = lift_alpha(rising, means, model.alpha, shared=shared)
        return GaP(update_c(s, alpha, model.beta), alpha, model.beta)

    return step


def with_alpha(model: GaP, alpha: Array) -> GaP:
    """The model with another α and the same expected counts of each component."""
    return GaP(model.W * (model.alpha / alpha), alpha, model.beta)


def slope_left(expect: ExactExpectation, model: GaP, at: Expectation) -> Array:
    """d log p(V)/d log α_k as far as its bounds let α follow it: (K,), or (1,) when shared."""
    slope, alpha = at.slope_by_log_alpha(model), model.alpha
    if expect.learn_alpha == "shared":
        slope, alpha = slope.sum(keepdims=True), alpha[:1]
    slope = np.where((alpha >= LARGEST) & (slope > 0), 0.0, slope)
    return np.where((alpha <= SMALLEST) & (slope < 0), 0.0, slope)


def say_where_alpha_ended(model: GaP) -> str | None:
    """A sentence on the components whose α is at a bound, or None when there are none."""
    used = model.column_norms > 0
    said = []
    for bound, meaning in (
        (LARGEST, "their sizes vary no more than Poisson counts do, so no finite α is best"),
        (SMALLEST, "the data ask for an α as near to zero as they can get"),
    ):
        named = np.flatnonzero(used & (model.alpha == bound))
        if named.size:
            components = ", ".join(str(k) for k in named)
            said.append(f"the learned α is at its bound {bound:g} in components {components}: "
                        + meaning)  # fmt: skip
    return "; ".join(said) or None
