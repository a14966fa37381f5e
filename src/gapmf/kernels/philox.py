"""Random words by counter: Philox4x32 with ten rounds.

A word is a pure function of a key and a counter, so a draw needs no state: it is addressed. The
key is the seed; the counter says which sample, which iteration, which sweep, what for, and which
of them. Threads, blocks and machines then draw the same numbers, in whatever order they work.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). All words
are held in 64 bits, of which the low 32 count: products then need no casts, and nothing
overflows when the code runs uncompiled.
"""

from __future__ import annotations

import numpy as np

from gapmf.kernels.compiled import kernel

U = np.uint64
LOW = U(0xFFFFFFFF)
SHIFT = U(32)
MULTIPLIER_0 = U(0xD2511F53)
MULTIPLIER_1 = U(0xCD9E8D57)
WEYL_0 = U(0x9E3779B9)
WEYL_1 = U(0xBB67AE85)

# What a draw is for: the low bits of counter word 1, above them the sweep.
TOKENS = U(0)
ACTIVATIONS = U(1)
RETRIES = U(2)
SMALL_SHAPES = U(3)
SINGLY = U(4)
PURPOSES = U(8)

TWO_POW_MINUS_52 = 2.0**-52


@kernel(inline="always")  # LLVM alone would not, and `fill` be scalar
def philox(c0, c1, c2, c3, k0, k1):
    """Four words at counter (c0, c1, c2, c3) under key (k0, k1).

    The masks, idle though they are, tell the compiler that products fit in 64 bits.
    """
    c0, c1, c2, c3 = U(c0) & LOW, U(c1) & LOW, U(c2) & LOW, U(c3) & LOW
    k0, k1 = U(k0) & LOW, U(k1) & LOW
    for _ in range(10):
        p0 = c0 * MULTIPLIER_0
        p1 = c2 * MULTIPLIER_1
        c0 = (p1 >> SHIFT) ^ c1 ^ k0
        c2 = (p0 >> SHIFT) ^ c3 ^ k1
        c1 = p1 & LOW
        c3 = p0 & LOW
        k0 = (k0 + WEYL_0) & LOW
        k1 = (k1 + WEYL_1) & LOW
    return c0, c1, c2, c3


@kernel()
def address(seed, iteration, sample, sweep, purpose):
    """Where draws are found: all but the first word of a counter, and the key."""
    return (
        (U(sweep) * PURPOSES + purpose) & LOW,
        U(sample) & LOW,
        U(iteration) & LOW,
        U(seed) & LOW,
        U(seed) >> SHIFT,
    )


@kernel()
def fill(words, n, at):
    """4n words: those of index t, for t < n, at words[t], words[n + t], … .

    Unsigned offsets into one array: with signed ones, or with slices, this loop is not
    vectorised.
    """
    c1, c2, c3, k0, k1 = at
    second, third, fourth = U(n), U(2 * n), U(3 * n)
    for i in range(U(n)):
        t = U(i)
        a, b, c, d = philox(t, c1, c2, c3, k0, k1)
        words[t] = a
        words[second + t] = b
        words[third + t] = c
        words[fourth + t] = d


@kernel()
def join(a, b):
    """Two words as one of 64 bits."""
    return (U(a) << SHIFT) | U(b)


@kernel()
def pair(index, at):
    """The two words of 64 bits that an index has."""
    c1, c2, c3, k0, k1 = at
    a, b, c, d = philox(U(index), c1, c2, c3, k0, k1)
    return join(a, b), join(c, d)


@kernel()
def uniform(word):
    """A number in (0, 1) from 64 bits: never 0, so that its logarithm is finite."""
    return (np.float64(np.int64(word >> U(12))) + 0.5) * TWO_POW_MINUS_52
