"""Draws of the directions of components from Dirichlet distributions."""

from __future__ import annotations

import math

from gapmf.kernels.jit import kernel
from gapmf.kernels.random import DIRECTIONS, U, address, gamma, log_gamma, pair


@kernel()
def draw_gammas(first, last, W, scale, seed, iteration, out):
    """Draw out[f, k] ~ Gamma(w_fk scale_k, 1) for these features; scaled columns are Dirichlet.

    A draw is addressed by the seed, the iteration, the feature and the component, so that threads
    can share the features.
    """
    for f in range(first, last):
        at = address(seed, iteration, f, 0, DIRECTIONS)
        more = address(seed, iteration, f, 1, DIRECTIONS)
        small = address(seed, iteration, f, 2, DIRECTIONS)
        for k in range(W.shape[1]):
            shape, index = W[f, k] * scale[k], U(k)
            if shape == 0.0:
                out[f, k] = 0.0
                continue
            a, b = pair(index, at)
            if shape >= 1.0:
                out[f, k] = gamma(shape, a, b, index, more)
            else:
                out[f, k] = math.exp(log_gamma(shape, a, b, index, more, small))
