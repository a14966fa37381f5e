"""Particles of sequential Monte Carlo: their arrays, inner loops and Gibbs moves (Eqs. 38 to 40).

Matrices (components × particles) are flat, with rows P apart; P is a multiple of four. K4 is K,
rounded up to a multiple of four: components come four at a time, padded with zeros in p. Offsets
are unsigned and arrays are never sliced: LLVM then vectorises each of these loops. A move is a
Gibbs sweep over all tokens that the particles have seen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapmf.kernels.gibbs_loops import FUSE, add_up, clear
from gapmf.kernels.jit import inlined, inner
from gapmf.kernels.random import LOW, SHIFT, U, binomial, fill, gamma, join, log_gamma

N_WORDS = 2048  # words drawn at once: they stay in the first cache
UNIT = 2.0**-31
f4 = np.float32
u4 = np.uint32
UNIT_24 = f4(2.0**-24)
ONE, EIGHT = u4(1), u4(8)


class Particles(NamedTuple):
    """The arrays for one sample with P particles, K components and J entries."""

    shape: NDArray[np.float64]
    """(K4 × P): α_k + L_k, where L_k are the tokens that the component has so far."""
    weight: NDArray[np.float64]
    """(P,)."""
    parent: NDArray[np.int64]
    """(P,): which particle each one goes on from."""
    g: NDArray[np.float64]
    """(K4 × P): (S_k + β_k) h_k, when it is drawn."""
    h: NDArray[np.float32]
    """(K4 × P): the same, each particle's scaled to a maximum of 1."""
    total: NDArray[np.float64]
    """(P,): Σ_k p_k (α_k + L_k), or Σ_k p_k g_k."""
    cum: NDArray[np.float64]
    """(P,): its running sum."""
    token: NDArray[np.float64]
    """(P,): where among the running sums each particle's token falls."""
    found: NDArray[np.float64]
    """(P,): the component that it falls in."""
    single_total: NDArray[np.float32]
    """(P,): the same for moves, in single precision."""
    single_cum: NDArray[np.float32]
    single_token: NDArray[np.float32]
    single_found: NDArray[np.float32]
    words: NDArray[np.uint32]
    own_words: NDArray[np.uint32]
    """(4 K P): for the activations."""
    clock: NDArray[np.uint64]
    """How many blocks of words were drawn, and how many words of the last were used."""
    rest: NDArray[np.float64]
    """(K,)."""
    p: NDArray[np.float64]
    """(J × K4): the sample's rows of p, without the columns that cannot have produced it."""
    single_p: NDArray[np.float32]
    alpha: NDArray[np.float64]
    """(K,): theirs, and what is left of the guide."""
    own_alpha: NDArray[np.float64]
    """(K,): theirs alone."""
    guide: NDArray[np.float64]
    """(K,): all of it."""
    column: NDArray[np.int64]
    """(K,): their numbers in the model."""
    placed: NDArray[np.int64]
    """(J,): the tokens of each entry that the particles have seen."""
    batch: NDArray[np.int64]
    """(J,): those that they are seeing."""
    offset: NDArray[np.float64]
    """(J,): what makes the tokens of different entries alternate."""


def make_particles(n_particles: int, K: int, n_entries: int) -> Particles:
    """Make arrays for samples of at most so many entries."""
    P, K4 = n_particles, -(-K // 4) * 4
    f8, f4 = np.float64, np.float32
    return Particles(
        shape=np.empty(K4 * P, f8),
        weight=np.empty(P, f8),
        parent=np.empty(P, np.int64),
        g=np.empty(K4 * P, f8),
        h=np.empty(K4 * P, f4),
        total=np.empty(P, f8),
        cum=np.empty(P, f8),
        token=np.empty(P, f8),
        found=np.empty(P, f8),
        single_total=np.empty(P, f4),
        single_cum=np.empty(P, f4),
        single_token=np.empty(P, f4),
        single_found=np.empty(P, f4),
        words=np.empty(max(N_WORDS, P), np.uint32),
        own_words=np.empty(4 * K * P, np.uint32),
        clock=np.zeros(2, np.uint64),
        rest=np.empty(K, f8),
        p=np.empty(n_entries * K4, f8),
        single_p=np.empty(n_entries * K4, f4),
        alpha=np.empty(K, f8),
        own_alpha=np.empty(K, f8),
        guide=np.empty(K, f8),
        column=np.empty(K, np.int64),
        placed=np.empty(n_entries, np.int64),
        batch=np.empty(n_entries, np.int64),
        offset=np.empty(n_entries, f8),
    )


@inner()
def tick(stream, clock):
    """Give the address of the next block of words of a stream: (key, name) of 64 bits each."""
    key, name = stream
    block = clock[0]
    clock[0] = block + U(1)
    return block & LOW, name & LOW, name >> SHIFT, key & LOW, key >> SHIFT


@inner()
def take_words(stream, words, clock, P):
    """Give where P new words begin in `words`."""
    cursor = clock[1]
    if cursor + U(P) > U(words.size):
        fill(words, words.size // 4, tick(stream, clock))
        cursor = U(0)
    clock[1] = cursor + U(P)
    return cursor


@inner()
def put(out, at, n, value):
    """out[at:at + n] = value."""
    at = U(at)
    for i in range(U(n)):
        out[at + U(i)] = value


@inner()
def place(token, words, cursor, total, P):
    """token = u × total in double precision, with u in (0, 1)."""
    cursor = U(cursor)
    for j in range(U(P)):
        i = U(j)
        token[i] = (np.float64(np.int32(words[cursor + i] >> ONE)) + 0.5) * UNIT * total[i]


@inner()
def place_single(token, words, cursor, total, P):
    """token = u × total in single precision, with u in [0, 1) in steps of 2⁻²⁴.

    So it is never the total itself, and never falls in a component whose rate is 0.
    """
    cursor = U(cursor)
    for j in range(U(P)):
        i = U(j)
        token[i] = f4(np.int32(words[cursor + i] >> EIGHT)) * UNIT_24 * total[i]


@inner(fastmath=FUSE)
def count_passed(matrix, row, P, cum, token, found, one, zero, a, b, c, d):
    """found += how many of four components each token falls beyond; cum moves on by them."""
    o0 = U(row)
    o1 = o0 + U(P)
    o2 = o1 + U(P)
    o3 = o2 + U(P)
    for j in range(U(P)):
        i = U(j)
        t = token[i]
        z = cum[i] + a * matrix[o0 + i]
        n = one if t >= z else zero
        z += b * matrix[o1 + i]
        n += one if t >= z else zero
        z += c * matrix[o2 + i]
        n += one if t >= z else zero
        z += d * matrix[o3 + i]
        n += one if t >= z else zero
        found[i] += n
        cum[i] = z


@inlined
def find(matrix, P, p, row, K4, cum, token, found, one, zero):
    """found = the component in which each token falls, among the running sums of `add_rows`."""
    clear(cum, P)
    clear(found, P)
    for k in range(0, K4, 4):
        o = row + k
        a, b, c, d = p[o], p[o + 1], p[o + 2], p[o + 3]
        count_passed(matrix, k * P, P, cum, token, found, one, zero, a, b, c, d)


@inner()
def add_found(shape, P, found):
    """α_k + L_k grows by 1 where the token was found to fall."""
    for j in range(U(P)):
        i = U(j)
        shape[U(np.int64(found[i])) * U(P) + i] += 1.0


@inner()
def add_rows(total, P, matrix, p, row, K4):
    """total = Σ_k p_k (row k of a matrix), where p_0 is p[row]."""
    clear(total, P)
    for k in range(0, K4, 4):
        o = row + k
        add_up(total, 0, P, matrix, k * P, P, p[o], p[o + 1], p[o + 2], p[o + 3])


@inner()
def scale(weight, factor, P):
    """weight *= factor."""
    for j in range(U(P)):
        weight[j] *= factor


@inner()
def multiply(weight, total, P):
    """weight *= total; Σ weight and Σ weight², four sums at a time."""
    a = b = c = d = 0.0
    e = f = g = h = 0.0
    one, two, three = U(1), U(2), U(3)
    for j in range(U(0), U(P), U(4)):
        i = U(j)
        w = weight[i] * total[i]
        x = weight[i + one] * total[i + one]
        y = weight[i + two] * total[i + two]
        z = weight[i + three] * total[i + three]
        weight[i], weight[i + one], weight[i + two], weight[i + three] = w, x, y, z
        a += w
        b += x
        c += y
        d += z
        e += w * w
        f += x * x
        g += y * y
        h += z * z
    return (a + b) + (c + d), (e + f) + (g + h)


HEAVY = 128  # counts above are moved by conditional binomials
LEAST = 1e-280  # a smaller activation would be 0 in products; it makes no difference
LEAST_SINGLE = 1e-36  # the same in single precision


@inlined
def padded(K):
    """Round K up to a multiple of four."""
    return (K + 3) // 4 * 4


@inner()
def draw_activations(stream, K, at):
    """g_k ~ Gamma(α_k + L_k, 1) for every particle, L being its parent's: Eq. 38."""
    P = at.weight.size
    n = K * P
    words = at.own_words
    fill(words, n, tick(stream, at.clock))
    more = tick(stream, at.clock)
    small = tick(stream, at.clock)
    for k in range(K):
        for i in range(P):
            o = k * P + i
            shape = at.shape[k * P + at.parent[i]]
            first = join(words[o], words[n + o])
            second = join(words[2 * n + o], words[3 * n + o])
            if shape >= 1.0:
                at.g[o] = gamma(shape, first, second, U(o), more)
            else:
                g = math.exp(log_gamma(shape, first, second, U(o), more, small))
                at.g[o] = g if g > LEAST else LEAST


@inner()
def scale_activations(K, at):
    """h = g, each particle's scaled to a maximum of 1, in single precision."""
    P = at.weight.size
    clear(at.total, P)
    for k in range(K):
        for i in range(P):
            at.total[i] = max(at.total[i], at.g[k * P + i])
    for k in range(K):
        for i in range(P):
            at.h[k * P + i] = np.float32(max(LEAST_SINGLE, at.g[k * P + i] / at.total[i]))


@inner()
def share_batch(j, m, K, index, address, at):
    """Share m tokens of entry j among each particle's components, by conditional binomials."""
    P, K4 = at.weight.size, padded(K)
    for i in range(P):
        rest = 0.0
        for k in range(K - 1, -1, -1):
            rest += at.p[j * K4 + k] * at.g[k * P + i]
            at.rest[k] = rest
        left = m
        for k in range(K):
            if left == 0:
                break
            rate = at.p[j * K4 + k] * at.g[k * P + i]
            if rate > 0.0:
                x, index = binomial(left, rate / at.rest[k], index, address)
                at.shape[k * P + i] += x
                left -= x
    return index


@inner()
def share_tokens(m, p, row, K4, P, h, shape, total, cum, token, found, words, clock, stream):
    """Share m tokens of an entry, one by one, given h.

    To pass all of `Particles` on would take as long as a token does, so arrays come one by one.
    """
    add_rows(total, P, h, p, row, K4)
    for _ in range(m):
        place_single(token, words, take_words(stream, words, clock, P), total, P)
        find(h, P, p, row, K4, cum, token, found, f4(1), f4(0))
        add_found(shape, P, found)


@inner()
def reallocate(stream, J, K, at):
    """Draw L given g, for all tokens seen so far."""
    P, K4 = at.weight.size, padded(K)
    scale_activations(K, at)
    address = tick(stream, at.clock)
    index = U(0)
    for k in range(K):
        put(at.shape, k * P, P, at.alpha[k])
    for j in range(J):
        m = at.placed[j]
        if m > HEAVY:
            index = share_batch(j, m, K, index, address, at)
        elif m > 0:
            share_tokens(
                m, at.single_p, j * K4, K4, P, at.h, at.shape, at.single_total, at.single_cum,
                at.single_token, at.single_found, at.words, at.clock, stream,
            )  # fmt: skip


@inlined
def move(stream, J, K, at):
    """Do a Gibbs sweep: g given the parent's L, then L given g for all tokens seen so far."""
    draw_activations(stream, K, at)
    reallocate(stream, J, K, at)
