"""The counter generator: its published values, and statistics of its streams.

Seeds are fixed. Each statistical test refuses a correct generator with probability 1e-4.
"""

import numpy as np
import pytest
from numba import njit
from scipy import stats

from gapmf.kernels.random import ACTIVATIONS, RETRIES, TOKENS, U, address, fill, pair, philox
from gapmf.kernels.random import uniform as to_uniform

REFUSE = 1e-4


@njit
def philox_at(c0, c1, c2, c3, k0, k1):
    return philox(c0, c1, c2, c3, k0, k1)


@pytest.mark.parametrize(
    ("counter_and_key", "words"),
    [
        ((0,) * 6, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 6, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(counter_and_key, words):
    """The known answers that come with the published description of Philox4x32-10."""
    assert philox_at(*(U(x) for x in counter_and_key)) == words


@njit
def compiled_fill(words, n, at):
    fill(words, n, at)


def words_at(seed=1, iteration=0, sample=0, sweep=0, purpose=TOKENS, n=1000):
    words = np.empty(4 * n, dtype=np.uint32)
    compiled_fill(words, n, address(U(seed), iteration, sample, sweep, purpose))
    return words


def test_fill_is_philox_at_every_index():
    at = address(U(2**40 + 5), 3, 2**31 + 1, 4, RETRIES)
    for n in (1, 7, 64, 301):
        words = np.empty(4 * n, dtype=np.uint32)
        compiled_fill(words, n, at)
        for t in range(n):
            c1, c2, c3, k0, k1 = at
            np.testing.assert_array_equal(
                words[[t, n + t, 2 * n + t, 3 * n + t]], philox_at(U(t), c1, c2, c3, k0, k1)
            )
    first, second = pair(0, at)
    assert [first >> U(32), first & U(2**32 - 1)] == [words[0], words[n]]
    assert [second >> U(32), second & U(2**32 - 1)] == [words[2 * n], words[3 * n]]


def test_addresses_differ():
    """Different draws have different addresses: no two share words."""
    seen = {
        address(U(seed), iteration, sample, sweep, purpose)
        for seed in (0, 1, 2**32, 2**63 + 1)
        for iteration in range(4)
        for sample in (0, 1, 2, 70_000)
        for sweep in range(5)
        for purpose in (TOKENS, ACTIVATIONS, RETRIES)
    }
    assert len(seen) == 4 * 4 * 4 * 5 * 3


@pytest.mark.parametrize("what", ["seed", "iteration", "sample", "sweep", "purpose"])
def test_neighbouring_streams_are_unrelated(what):
    """Correlation and joint distribution of the words of two streams that are one apart."""
    here = {"seed": 11, "iteration": 5, "sample": 9, "sweep": 2, "purpose": TOKENS, "n": 25_000}
    a, b = words_at(**here), words_at(**here | {what: here[what] + type(here[what])(1)})
    x, y = a / 2.0**32, b / 2.0**32
    r = np.corrcoef(x, y)[0, 1] * np.sqrt(x.size)
    assert abs(r) < stats.norm.isf(REFUSE / 2)
    table = np.histogram2d(x, y, bins=16, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(table.ravel()).pvalue > REFUSE
    agree = np.unpackbits((a ^ b).view(np.uint8)).sum()
    assert stats.binomtest(int(agree), 32 * a.size).pvalue > REFUSE


def stream(n=200_000):
    """Words of many short streams after one another, as a sweep over samples takes them."""
    return np.concatenate([words_at(seed=3, sample=i, n=n // 4 // 200) for i in range(200)])


def test_words_are_uniform_bit_by_bit_and_byte_by_byte():
    words = stream()
    bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 32).sum(axis=0)
    z = (bits - words.size / 2) / np.sqrt(words.size / 4)
    assert stats.chi2.sf((z**2).sum(), 32) > REFUSE
    for byte in words.view(np.uint8).reshape(-1, 4).T:
        assert stats.chisquare(np.bincount(byte, minlength=256)).pvalue > REFUSE


def test_serial_pairs_runs_gaps_and_birthdays():
    words = stream()
    u = words / 2.0**32
    pairs = np.histogram2d(u[:-1:2], u[1::2], bins=32, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(pairs.ravel()).pvalue > REFUSE
    lag = np.array([np.mean((u[:-d] - 0.5) * (u[d:] - 0.5)) * 12 * np.sqrt(u.size - d)
                    for d in range(1, 9)])  # fmt: skip
    assert stats.chi2.sf((lag**2).sum(), 8) > REFUSE
    above = u > 0.5
    runs = 1 + np.count_nonzero(above[1:] != above[:-1])
    n1, n0 = above.sum(), (~above).sum()
    mean = 1 + 2 * n1 * n0 / u.size
    sd = np.sqrt((mean - 1) * (mean - 2) / (u.size - 1))
    assert abs(runs - mean) / sd < stats.norm.isf(REFUSE / 2)
    gaps = np.diff(np.flatnonzero(u < 0.1)) - 1
    p = 0.1 * 0.9 ** np.arange(30)
    seen = np.bincount(np.minimum(gaps, 30), minlength=31)
    assert stats.chisquare(seen, gaps.size * np.append(p, 0.9**30)).pvalue > REFUSE
    # Birthday spacings: 512 birthdays in a year of 2^24 days, repeated spacings ~ Poisson(2).
    days = np.sort((words[: 512 * 300] >> 8).reshape(300, 512).astype(np.int64), axis=1)
    spacings = np.sort(np.diff(days, axis=1, prepend=0), axis=1)
    repeats = (spacings[:, 1:] == spacings[:, :-1]).sum()
    expected = 300 * 512**3 / (4 * 2**24)
    assert stats.poisson.sf(repeats - 1, expected) > REFUSE / 2
    assert stats.poisson.cdf(repeats, expected) > REFUSE / 2


def test_uniforms_stay_inside():
    assert 0.0 < to_uniform(U(0)) < 1e-15
    assert 1.0 - 1e-15 < to_uniform(U(2**64 - 1)) < 1.0
