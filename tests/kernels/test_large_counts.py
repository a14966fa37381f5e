"""Large counts, token by token: the fast count against a literal one, ties included."""

import numpy as np
import pytest
from numba import njit
from scipy import stats

import naive
from gapmf.kernels.large_counts import RESOLUTION, count_beyond, fill_tokens
from gapmf.kernels.random import SEPARATE, U, address


@njit
def compiled_count(v, p, rest, index, at, words, reach):
    end = fill_tokens(words, v, index, at)
    count_beyond(v, p, rest, words, 0, index * U(8), at, reach)
    return end


def weights_of(p):
    p = np.asarray(p, dtype=float)
    return p, np.cumsum(p[::-1])[::-1].copy()


@pytest.mark.parametrize("p", [[0.3, 0.0, 0.5, 0.2], [0.0, 0.6, 0.4, 0.0], [1.0], [1e-4, 1 - 1e-4]])
@pytest.mark.parametrize("v", [1, 63, 64, 65, 500])
def test_counts_the_tokens_of_the_literal_version(p, v):
    p, rest = weights_of(p)
    words, reach = np.empty(600, dtype=np.uint32), np.empty(p.size, dtype=np.int64)
    for index in (0, 8, 800):
        at = address(5, 1, 2, 3, SEPARATE)
        end = compiled_count(v, p, rest, U(index), at, words, reach)
        assert end == index + 8 * -(-v // 64)
        expected = naive.count_beyond(v, p, rest, index, at)
        np.testing.assert_array_equal(reach, expected)
        sizes = -np.diff(np.append(v, reach))
        assert sizes.sum() == v
        assert (sizes[p == 0.0] == 0).all()


def test_ties_are_settled_by_the_other_bits():
    """A bound that shares its first 16 bits with a token lies to either side of it."""
    at = address(9, 0, 0, 0, SEPARATE)
    words, reach = np.empty(600, dtype=np.uint32), np.empty(2, dtype=np.int64)
    v = 200
    tokens = np.sort([naive.token(i, 0, at) for i in range(v)])
    for i in (0, 3, 100, v - 1):
        for bound, expected in ((tokens[i], i), (tokens[i] + 1, i + 1)):
            rest = np.array([1.0, bound / RESOLUTION])
            compiled_count(v, np.array([1.0 - rest[1], rest[1]]), rest, U(0), at, words, reach)
            np.testing.assert_array_equal(reach, [expected, 0])


def test_the_law_is_binomial():
    """20,000 counts of 90 tokens; a correct version is refused with probability 1e-4."""
    p, rest = weights_of([0.35, 0.65])
    words, reach = np.empty(600, dtype=np.uint32), np.empty(2, dtype=np.int64)
    seen = np.zeros(91)
    for n in range(20_000):
        compiled_count(90, p, rest, U(0), address(1, 0, n, 0, SEPARATE), words, reach)
        seen[90 - reach[0]] += 1
    expected = 20_000 * stats.binom(90, 0.35).pmf(np.arange(91))
    middle = expected > 8
    seen = np.append(seen[middle], seen[~middle].sum())
    expected = np.append(expected[middle], expected[~middle].sum())
    assert stats.chisquare(seen, expected).pvalue > 1e-4
