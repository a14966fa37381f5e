"""How near a model is to a maximum of the likelihood, and what one column more would do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gapmf.em.expectation import ExactExpectation, Expectation
from gapmf.em.learned import slope_left
from gapmf.em.start import shares_of
from gapmf.model import GaP

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Certificate:
    """First-order conditions at a model, and the score test for one column more.

    Attributes
    ----------
    projected_gradient : float
        The largest first-order gain, in nats, from moving one share u_fk (the part of feature
        f's mean count that component k explains) as far as it can go: up by a whole share, or
        down to zero. When α is learned, also the largest |d log p/d log α_k| at fixed expected
        counts, unless α_k is at a bound that it would cross. Zero at a maximum.
    identity : float
        The largest deviation from Σ_k (α_k/β_k) w_fk = v̄_f, relative to v̄_f, which holds at
        every stationary point.
    r, r_error : arrays, (F,)
        The score test for one column more, and its standard error over samples. Where r_f > 1 a
        new column would raise the likelihood, at first by N (α/β) (r_f − 1) nats a unit of
        w_f. At the truth r_f is one on average, so it exceeds one somewhere nearly always; and
        being of first order at an empty column it says nothing of how much there is to gain.
    """

    projected_gradient: float
    identity: float
    r: Array
    r_error: Array


def certify(expect: ExactExpectation, model: GaP, at: Expectation | None = None) -> Certificate:
    """The certificate of a model for the data that `expect` holds; `at` is an E-step there."""
    at = at or expect(model)
    mean, seen = expect.mean_counts, expect.mean_counts > 0
    with np.errstate(invalid="ignore"):  # inf · 0 where w is next to nothing
        gradient = at.gradient[seen] * (model.beta / model.alpha) * mean[seen, None]
        down = shares_of(model, mean)[seen] * gradient
    moves = np.fmax(-gradient, down).max(initial=0.0)
    useless = (at.gradient * model.W)[~seen]  # what explains no counts had better be zero
    slopes = slope_left(expect, model, at) if expect.learn_alpha else np.zeros(0)
    expected = model.expected_counts()
    deviation = np.abs(expected[seen] / mean[seen] - 1.0).max(initial=0.0)
    r, r_error = expect.score(model)
    return Certificate(
        projected_gradient=float(
            max(moves, useless.max(initial=0.0), np.abs(slopes).max(initial=0.0))
        ),
        identity=float(max(deviation, expected[~seen].max(initial=0.0))),
        r=r,
        r_error=r_error,
    )
