"""From the kernels' whole numbers to statistics: units, sums of parts, and the final account.

Units depend on the whole data. Parts of it, summed in the same units, add up to the same bits
wherever they were drawn; rounding is settled once, when everything has been added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gapmf.engines.base import Sweeps
from gapmf.errors import InvalidInputError
from gapmf.kernels.desk import Sums, Units
from gapmf.kernels.dictionary import settle_rows
from gapmf.m_steps import Statistics
from gapmf.model import GaP

Array = NDArray[np.float64]

EXACT_BITS = 51  # whole numbers up to 2^51 are rounded and added exactly, see kernels.sums
# The share of a feature's counts that an expectation is never rounded below. An entry of W that
# becomes 0 never returns, and during a fit many want to: on documents that costs more likelihood
# than Monte Carlo noise does.
LEAST_SHARE = 2.0**-33


def unit_for(largest: Array) -> Array:
    """The finest powers of two for which sums up to `largest` stay exact."""
    bits = EXACT_BITS - np.ceil(np.log2(np.maximum(largest, 1.0)))
    return np.asarray(2.0**bits)


def check_totals(totals: Array, n_draws: int) -> None:
    """Refuse counts whose sums a double cannot hold exactly."""
    if n_draws * totals.max(initial=0.0) > 2.0**53:
        f = int(totals.argmax())
        raise InvalidInputError(
            f"the counts of feature {f} add up to {totals[f]:.3g}, times {n_draws} draws: "
            "sums above 2**53 are not exact; scale the counts down"
        )


def units_for(totals: Array, n_samples: int, model: GaP, sweeps: Sweeps) -> Units:
    """Units for an E-step of data with these totals of features, and so many samples."""
    J = sweeps.n_draws
    check_totals(totals, J)
    c = unit_for(J * totals) if sweeps.expectations else np.ones_like(totals)
    # Σ g of component k is Gamma with a shape of at most this; four times that, and some more
    # for small shapes, it does not exceed.
    shapes = J * (totals.sum() + n_samples * (model.alpha + 10.0))
    return Units(c, unit_for(4.0 * shapes), float(unit_for(np.array(J * n_samples))))


def add_sums(parts: Sequence[Sums]) -> Sums:
    """Sums of parts of the data, in the same units; the first one is added to."""
    for part in parts[1:]:
        for total, share in zip(parts[0], part, strict=True):
            np.add(total, share, out=total)
    return parts[0]


def finish(
    sums: Sums, units: Units, totals: Array, n_samples: int, model: GaP, sweeps: Sweeps
) -> Statistics:
    """The statistics of all samples, from the sums over all of them."""
    K = model.n_components
    c = sums.c.reshape(totals.size, -1)[:, :K]
    if sweeps.expectations:
        settle_rows(c, model.W, totals * sweeps.n_draws * units.c, LEAST_SHARE)
    g = (sums.g[:K] + sums.g[K:] / units.g_low) / units.g
    return Statistics(
        c_sum=c / units.c[:, None],
        h_sum=g / (model.column_norms + model.beta),
        n_draws=float(sweeps.n_draws * n_samples),
        sizes=sums.sizes if sweeps.sizes else None,
    )
