"""The certificate of a maximum, apart from what computes it: reading a model file stays light."""

from __future__ import annotations

from dataclasses import dataclass

from gapmf.types import Array


@dataclass(frozen=True)
class Certificate:
    """First-order conditions at a model, and the score test for one column more.

    Attributes
    ----------
    projected_gradient : float
        The largest first-order gain, in nats, from moving one share u_fk (the part of feature
        f's mean count that component k explains) as far as it can go: up by a whole share, or
        down to zero. When α is learned, also the largest absolute d log p/d log α_k at fixed
        expected counts, unless α_k is at a bound that it would cross. Zero at a maximum.
    identity : float
        The largest deviation from Σ_k (α_k/β_k) w_fk = v̄_f, relative to v̄_f, which holds at
        every stationary point.
    r, r_error : arrays, (F,)
        The score test for one column more, and its standard error over samples. Where r_f > 1 a
        new column would raise the likelihood, at first by N (α/β) (r_f − 1) nats per unit
        of w_f. At the truth r_f is one on average, so it nearly always exceeds one somewhere. It
        is a slope at an empty column, so it does not say how much can be gained in all.
    """

    projected_gradient: float
    identity: float
    r: Array
    r_error: Array
