"""Normal, Gamma and binomial variates, each from words at an address of its own.

A draw that needs more words than it was given takes them from (index, `at`) and gives back the
index after it; nothing else is kept between calls. The index of a Gamma has the component's
number in its low 20 bits and counts above them; that of a binomial just counts.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.compiled import kernel
from gapmf.kernels.philox import U, pair, uniform

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


@kernel()
def normal(word, index, at):
    """A standard normal from 64 bits by the ziggurat, and the index after it."""
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


@kernel()
def gamma(shape, first, second, index, at):
    """Gamma(shape, 1) for shape ≥ 1 from two words of 64 bits: Marsaglia and Tsang (2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
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


@kernel()
def _binomial_few(n, p, word):
    """Binomial(n, p) for small np: inversion, going up from 0."""
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


@kernel()
def _stirling_error(n):
    """log n! − log of Stirling's formula."""
    if n < 16.0:
        return math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - HALF_LOG_2PI
    return (1 / 12 - (1 / 360 - (1 / 1260) / (n * n)) / (n * n)) / n


@kernel()
def _deviance(x, mean):
    """x log(x/mean) + mean − x, without cancellation when the two are close."""
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


@kernel()
def _log_binomial(x, n, p):
    """The log-probability of x, to a constant, for sizes up to 2⁵³: Loader (2000)."""
    if x == 0.0:
        return n * math.log1p(-p) + HALF_LOG_2PI
    if x == n:
        return n * math.log(p) + HALF_LOG_2PI
    y = n - x
    value = _stirling_error(n) - _stirling_error(x) - _stirling_error(y)
    value -= _deviance(x, n * p) + _deviance(y, n * (1.0 - p))
    return value + 0.5 * (math.log(n / x) - math.log(y))


@kernel()
def _binomial_many(n, p, index, at):
    """Binomial(n, p) for p ≤ 1/2 and np ≥ 10: transformed rejection, Hörmann (1993)."""
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


@kernel()
def binomial(n, p, index, at):
    """Binomial(n, p) in time that does not grow with n, and the index after it."""
    if n <= 0 or p <= 0.0:
        return np.int64(0), index
    if p >= 1.0:
        return np.int64(n), index
    few = min(p, 1.0 - p)
    if n * few < FEW:
        word, _ = pair(index, at)
        index += ONE
        x = np.int64(_binomial_few(n, few, word))
    else:
        x, index = _binomial_many(n, few, index, at)
    return (x if p <= 0.5 else n - x), index
