"""Draws of the directions of components from Dirichlet distributions."""

from __future__ import annotations

from gapmf.kernels.jit import kernel
from gapmf.kernels.random import DIRECTIONS, U, address, fill, gamma, join, small_gamma


@kernel()
def draw_gammas(first, last, W, scale, seed, iteration, words, out):
    """Draw out[f, k] ~ Gamma(w_fk scale_k, 1) for these features; scaled columns are Dirichlet.

    A draw is addressed by the seed, the iteration, the feature and the component, so that threads
    can share the features. `words` (4 K) is for the words of a feature.
    """
    K = W.shape[1]
    one, two, three = U(K), U(2 * K), U(3 * K)
    for f in range(first, last):
        fill(words, K, address(seed, iteration, f, 0, DIRECTIONS))
        more = address(seed, iteration, f, 1, DIRECTIONS)
        for k in range(K):
            shape, index = W[f, k] * scale[k], U(k)
            a = join(words[index], words[one + index])
            b = join(words[two + index], words[three + index])
            if shape >= 1.0:
                out[f, k] = gamma(shape, a, b, index, more)
            elif shape > 0.0:
                out[f, k] = small_gamma(shape, a, b, index, more)
            else:
                out[f, k] = 0.0
