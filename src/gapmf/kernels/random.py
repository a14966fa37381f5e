"""Random variates by address: Philox4x32 with ten rounds, and what is made of its words.

A word is a pure function of a key and a counter, so a draw needs no state: it is addressed. The
key is the seed. The counter has the sample, the iteration, the sweep, the purpose and an index.
Threads, blocks and machines then draw the same numbers, in any order.

Normal, Gamma and binomial variates are given their first words. When they need more they take
them at their own index, which they count up. The index of a Gamma variate has the component in
its low 20 bits and counts above them.

All words are held in 64 bits, of which the low 32 count: products then need no casts, and nothing
overflows when the code runs uncompiled.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.jit import inlined, inner

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
SEPARATE = U(4)
DIRECTIONS = U(5)
PURPOSES = U(8)

TWO_POW_MINUS_52 = 2.0**-52


@inlined  # LLVM alone would not, and `fill` would not be vectorised
def philox(c0, c1, c2, c3, k0, k1):
    """Give the four words at counter (c0, c1, c2, c3) under key (k0, k1).

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


@inlined
def address(seed, iteration, sample, sweep, purpose):
    """Give all words of a counter but the first, and the key."""
    return (
        (U(sweep) * PURPOSES + purpose) & LOW,
        U(sample) & LOW,
        U(iteration) & LOW,
        U(seed) & LOW,
        U(seed) >> SHIFT,
    )


@inner()
def fill(words, n, at):
    """Fill 4n words: those of index t < n are words[t], words[n + t], … .

    Offsets are unsigned and go into one array. With signed ones, or with slices, this loop is
    not vectorised.
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


@inlined
def join(a, b):
    """Join two words to one of 64 bits."""
    return (U(a) << SHIFT) | U(b)


@inner()
def pair(index, at):
    """Give the two words of 64 bits at an index (uint64)."""
    c1, c2, c3, k0, k1 = at
    a, b, c, d = philox(index, c1, c2, c3, k0, k1)
    return join(a, b), join(c, d)


@inlined
def uniform(word):
    """Make a number in (0, 1) of 64 bits. It is never 0, so its logarithm is finite."""
    return (np.float64(np.int64(word >> U(12))) + 0.5) * TWO_POW_MINUS_52


ONE_MORE = U(1 << 20)
ONE = U(1)

# The ziggurat: 256 layers of equal area under exp(-x²/2). RIGHT[0] is the width of a rectangle
# with the area of the base layer, tail included; RIGHT[1] = TAIL is where the tail begins.
N_LAYERS = 256
TAIL = 3.6541528853610088
LAYER = U(N_LAYERS - 1)


def _layers():
    base = math.exp(-0.5 * TAIL**2)
    area = TAIL * base + math.sqrt(math.pi / 2) * math.erfc(TAIL / math.sqrt(2))
    right = np.zeros(N_LAYERS + 1)
    right[0], right[1] = area / base, TAIL
    for i in range(2, N_LAYERS):
        height = area / right[i - 1] + math.exp(-0.5 * right[i - 1] ** 2)
        right[i] = math.sqrt(-2 * math.log(height))
    return right, np.exp(-0.5 * right**2)


RIGHT, HEIGHT = _layers()

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
FEW = 10.0  # expected successes below which a binomial is drawn by inversion


@inner()
def normal(word, index, at):
    """Draw a standard normal from 64 bits by the ziggurat; give it and the next index."""
    while True:
        i = np.int64(word & LAYER)
        u = 2.0 * uniform(word) - 1.0
        x = u * RIGHT[i]
        if abs(x) < RIGHT[i + 1]:
            return x, index
        if i == 0:
            while True:
                a, b = pair(index, at)
                index += ONE_MORE
                x = -math.log(uniform(a)) / TAIL
                if -2.0 * math.log(uniform(b)) > x * x:
                    return math.copysign(TAIL + x, u), index
        a, word = pair(index, at)
        index += ONE_MORE
        if HEIGHT[i] + uniform(a) * (HEIGHT[i + 1] - HEIGHT[i]) < math.exp(-0.5 * x * x):
            return x, index


@inlined
def gamma(shape, first, second, index, at):
    """Draw Gamma(shape, 1), shape ≥ 1, from two words of 64 bits: Marsaglia and Tsang (2000).

    What nearly all draws need is here, to be part of the caller; the rest begins anew.
    """
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    i = first & LAYER
    x = (2.0 * uniform(first) - 1.0) * RIGHT[i]
    v = 1.0 + c * x
    square = x * x
    if abs(x) < RIGHT[i + ONE] and v > 0.0 and uniform(second) < 1.0 - 0.0331 * square * square:
        return d * (v * v * v)
    return rejected_gamma(d, c, first, second, index, at)


@inner()
def rejected_gamma(d, c, first, second, index, at):
    """`gamma`, whatever the words are."""
    while True:
        x, index = normal(first, index, at)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            u = uniform(second)
            x *= x
            if u < 1.0 - 0.0331 * x * x:
                return d * v
            if math.log(u) < 0.5 * x + d * (1.0 - v + math.log(v)):
                return d * v
        first, second = pair(index, at)
        index += ONE_MORE


@inner()
def small_gamma(shape, first, second, index, at):
    """Draw Gamma(shape, 1), shape < 1, from two words of 64 bits: Ahrens and Dieter (1974), GS.

    It may underflow to 0; `log_gamma` does not.
    """
    bound = 1.0 + shape / math.e
    while True:
        p, u = bound * uniform(first), uniform(second)
        if p <= 1.0:
            x = math.exp(math.log(p) / shape)
            if u <= 1.0 - x or u <= math.exp(-x):
                return x
        else:
            x = -math.log((bound - p) / shape)
            if u <= x ** (shape - 1.0):
                return x
        first, second = pair(index, at)
        index += ONE_MORE


@inner()
def log_gamma(shape, first, second, index, more, small):
    """Draw the logarithm of Gamma(shape, 1) for shape < 1, which itself may underflow.

    `first` and `second` are two words of 64 bits; `more` and `small` are addresses.
    """
    word, _ = pair(index, small)
    return (
        math.log(gamma(shape + 1.0, first, second, index, more)) + math.log(uniform(word)) / shape
    )


@inner()
def _binomial_few(n, p, word):
    """Draw Binomial(n, p) for small np by inversion, from 0 upwards."""
    u = uniform(word)
    odds = p / (1.0 - p)
    probability = math.exp(n * math.log1p(-p))
    x = 0
    while u > probability and x < n:
        u -= probability
        x += 1
        probability *= odds * (n - x + 1) / x
        if probability < 1e-18 and x > n * p:  # what is left is less than a word resolves
            break
    return x


@inner()
def _stirling_error(n):
    """Give log n! less the logarithm of Stirling's formula."""
    if n < 16.0:
        return math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - HALF_LOG_2PI
    return (1 / 12 - (1 / 360 - (1 / 1260) / (n * n)) / (n * n)) / n


@inner()
def _deviance(x, mean):
    """Give x log(x/mean) + mean − x, without cancellation when the two are close."""
    d = (x - mean) / (x + mean)
    if abs(d) > 0.1:
        return x * math.log(x / mean) + mean - x
    total = (x - mean) * d
    term = 2.0 * x * d
    d *= d
    for j in range(1, 20):
        term *= d
        total += term / (2 * j + 1)
    return total


@inner()
def _log_binomial(x, n, p):
    """Give the log-probability of x, to a constant, for sizes up to 2⁵³: Loader (2000)."""
    if x == 0.0:
        return n * math.log1p(-p) + HALF_LOG_2PI
    if x == n:
        return n * math.log(p) + HALF_LOG_2PI
    y = n - x
    value = _stirling_error(n) - _stirling_error(x) - _stirling_error(y)
    value -= _deviance(x, n * p) + _deviance(y, n * (1.0 - p))
    return value + 0.5 * (math.log(n / x) - math.log(y))


@inner()
def _binomial_many(n, p, index, at):
    """Draw Binomial(n, p), p ≤ 1/2, np ≥ 10, by transformed rejection: Hörmann (1993)."""
    n = np.float64(n)
    spread = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = n * p + 0.5
    alpha = (2.83 + 5.1 / b) * spread
    inside = 0.92 - 4.2 / b
    top = _log_binomial(np.float64(math.floor((n + 1.0) * p)), n, p)
    while True:
        first, second = pair(index, at)
        index += ONE
        u = uniform(first) - 0.5
        v = uniform(second)
        us = 0.5 - abs(u)
        x = np.float64(math.floor((2.0 * a / us + b) * u + centre))
        if x < 0.0 or x > n:
            continue
        if us >= 0.07 and v <= inside:
            return np.int64(x), index
        if math.log(v * alpha / (a / (us * us) + b)) <= _log_binomial(x, n, p) - top:
            return np.int64(x), index


@inner()
def binomial(n, p, index, at):
    """Draw Binomial(n, p) in time that does not grow with n; give it and the next index."""
    if n <= 0 or p <= 0.0:
        return np.int64(0), index
    if p >= 1.0:
        return np.int64(n), index
    few = p if p <= 0.5 else 1.0 - p
    if n * few < FEW:
        word, _ = pair(index, at)
        index += ONE
        x = np.int64(_binomial_few(n, few, word))
    else:
        x, index = _binomial_many(n, few, index, at)
    return (x if p <= 0.5 else n - x), index
