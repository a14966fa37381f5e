"""Loops in explicit vectors compute what their plain forms do."""

import numpy as np
import pytest
from numba import njit

from gapmf.kernels.gibbs_loops import scale_uniforms
from gapmf.kernels.random import philox
from gapmf.kernels.vectors import add_products, count_bits, eight_words, halves_below, running_sums


@njit
def compiled_sums(rows, at, h, tile, lane, stride):
    eight = at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]
    running_sums(rows, eight, h, tile, lane, stride, eight)


@njit
def compiled_products(factors, at, n, rows, row, h, K4, c):
    add_products(factors, at, n, rows, row, h, K4, c)


@pytest.mark.parametrize("K4", [4, 8, 16, 20, 36])
def test_running_sums(K4):
    rng = np.random.default_rng(K4)
    rows, h = (rng.random(n).astype(np.float32) for n in (30 * K4, K4))
    at = rng.integers(0, 30, 8) * K4
    tile, plain = np.full((2, K4 * 27), -1.0, dtype=np.float32)
    compiled_sums(rows, at, h, tile, 3, 27)
    running_sums(rows, at, h, plain, 3, 27, at)
    np.testing.assert_allclose(tile, plain, rtol=1e-6)
    expected = np.cumsum(h[:, None] * rows.reshape(30, K4)[at // K4].T.astype(float), axis=0)
    np.testing.assert_allclose(tile.reshape(K4, 27)[:, 3:11], expected, rtol=1e-5)
    assert (np.delete(tile.reshape(K4, 27), np.s_[3:11], axis=1) == -1.0).all()


@pytest.mark.parametrize("K4", [4, 8, 16, 20, 28, 36])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_products_are_rounded_one_by_one(K4, n):
    """So the order of the terms does not matter, and the sums are whole."""
    rng = np.random.default_rng(K4)
    rows, h = (rng.random(m).astype(np.float32) for m in (5 * K4, 9 * K4))
    factors, at = rng.random(n) * 2.0**20, rng.integers(0, 9, n) * K4
    c, plain, back = np.tile(np.arange(5.0 * K4), (3, 1))
    compiled_products(factors, at, n, rows, 2 * K4, h, K4, c)
    compiled_products(factors[::-1].copy(), at[::-1].copy(), n, rows, 2 * K4, h, K4, back)
    add_products(factors, at, n, rows, 2 * K4, h, K4, plain)
    np.testing.assert_array_equal(c, back)
    np.testing.assert_allclose(c, plain, atol=1.0 if n else 0.0)  # fused, a tie may fall otherwise
    np.testing.assert_array_equal(c, np.round(c))
    terms = factors[:, None] * rows[2 * K4 : 3 * K4] * h.reshape(9, K4)[at // K4].astype(float)
    expected = np.arange(2.0 * K4, 3.0 * K4) + np.round(terms).sum(axis=0)
    np.testing.assert_allclose(c[2 * K4 : 3 * K4], expected, atol=1.0 if n else 0.0)
    assert (np.delete(c, np.s_[2 * K4 : 3 * K4]) == np.delete(plain, np.s_[2 * K4 : 3 * K4])).all()


@njit
def compiled_uniforms(words, total, out):
    scale_uniforms(words, 0, total, 0, words.size, out)


def test_no_token_is_at_the_total_or_at_zero():
    """It would fall beyond the last component, or into a first one that has no weight."""
    total = np.geomspace(1e-20, 100.0, 400).astype(np.float32)
    for word in (0, 2**32 - 1, 2**32 - 300):
        for scale in (compiled_uniforms, compiled_uniforms.py_func):
            out = np.empty(400, dtype=np.float32)
            scale(np.full(400, word, dtype=np.uint32), total, out)
            assert ((out > 0.0) & (out < total)).all()


@njit
def compiled_words(words, at, gap, counter, step, key):
    eight_words(words, at, gap, counter, step, key)


@pytest.mark.parametrize("step", [(1, 0), (0, 8)])
def test_eight_words_are_those_of_philox(step):
    """At counters that wrap around in 32 bits, too."""
    U = np.uint64
    for start in (0, 7, 2**32 - 3):
        counter = tuple(U(x) for x in (start, start + 5, 12, 2**32 - 1))
        key, steps = (U(3), U(2**31 + 1)), tuple(map(U, step))
        words, plain = np.zeros((2, 70), dtype=np.uint32)
        compiled_words(words, 2, 17, counter, steps, key)
        eight_words(plain, 2, 17, counter, steps, key)
        np.testing.assert_array_equal(words, plain)
        assert words[2] == philox(*counter, *key)[0]
        assert (words > 0).sum() == 32


@njit
def compiled_below(words, first, n, bound):
    below, equal = halves_below(words, first, n, bound)
    return below, equal, count_bits(below)


@pytest.mark.parametrize("n", [1, 17, 63, 64])
def test_halves_below(n):
    words = np.random.default_rng(n).integers(0, 2**32, 60, dtype=np.uint32)
    for first in (0, 1, 30):
        one = int(words.view(np.uint16)[first + n - 1])
        for bound in (0, one, 2**15, 2**16 - 1, 2**16):
            below, equal, how_many = compiled_below(words, first, n, np.uint64(bound))
            assert (below, equal) == halves_below(words, first, n, bound)
            assert how_many == (words.view(np.uint16)[first : first + n] < bound).sum()
            assert bool(int(equal) >> (n - 1) & 1) == (bound == one)
