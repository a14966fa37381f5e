"""The inner loops of sequential Monte Carlo, each a straight line over the particles.

Matrices (components × particles) are flat, a row every P numbers; P is a multiple of four.
Offsets are unsigned and arrays are never sliced: LLVM then vectorises each of these loops, and
no reference is counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapmf.kernels.compiled import kernel
from gapmf.kernels.philox import LOW, SHIFT, U, fill

N_WORDS = 2048  # words drawn at once: they stay in the first cache
UNIT = 2.0**-32


class Particles(NamedTuple):
    """Room to work on one sample with P particles, K components and J entries."""

    sizes: NDArray[np.float64]
    """(K × P): L, the tokens that each component has so far."""
    weight: NDArray[np.float64]
    """(P,)."""
    parent: NDArray[np.int64]
    """(P,): which particle each one goes on from."""
    g: NDArray[np.float64]
    """(K × P): (S_k + β_k) h_k, when it is drawn."""
    cum: NDArray[np.float64]
    """(K × P): running sums over components."""
    reach: NDArray[np.float64]
    """(K × P): how many tokens fell beyond each component."""
    total: NDArray[np.float64]
    """(P,)."""
    token: NDArray[np.float64]
    """(P,): where among the running sums each particle's token falls."""
    words: NDArray[np.uint32]
    own_words: NDArray[np.uint32]
    """(4 K P): for the activations."""
    clock: NDArray[np.uint64]
    """How many blocks of words were drawn, and how many words of the last were used."""
    rest: NDArray[np.float64]
    """(K,)."""
    p: NDArray[np.float64]
    """(J × K): the sample's rows of p, without the columns that cannot have produced it."""
    alpha: NDArray[np.float64]
    """(K,): theirs."""
    placed: NDArray[np.int64]
    """(J,): the tokens of each entry that the particles have seen."""
    batch: NDArray[np.int64]
    """(J,): those that they are seeing."""
    offset: NDArray[np.float64]
    """(J,): what makes the tokens of different entries take turns."""


def make_particles(n_particles: int, K: int, n_entries: int) -> Particles:
    """Room for samples of at most so many entries."""
    P, KP = n_particles, n_particles * K
    return Particles(
        sizes=np.empty(KP),
        weight=np.empty(P),
        parent=np.empty(P, np.int64),
        g=np.empty(KP),
        cum=np.empty(KP),
        reach=np.empty(KP),
        total=np.empty(P),
        token=np.empty(P),
        words=np.empty(max(N_WORDS, P), np.uint32),
        own_words=np.empty(4 * KP, np.uint32),
        clock=np.zeros(2, np.uint64),
        rest=np.empty(K),
        p=np.empty(n_entries * K),
        alpha=np.empty(K),
        placed=np.empty(n_entries, np.int64),
        batch=np.empty(n_entries, np.int64),
        offset=np.empty(n_entries),
    )


@kernel()
def tick(stream, clock):
    """The address of the next block of words of a stream: (key, name) of 64 bits each."""
    key, name = stream
    block = clock[0]
    clock[0] = block + U(1)
    return block & LOW, name & LOW, name >> SHIFT, key & LOW, key >> SHIFT


@kernel()
def take_words(stream, at):
    """Where P fresh words begin in `words`."""
    P = U(at.weight.size)
    n = U(at.words.size)
    cursor = at.clock[1]
    if cursor + P > n:
        fill(at.words, at.words.size // 4, tick(stream, at.clock))
        cursor = U(0)
    at.clock[1] = cursor + P
    return cursor


@kernel()
def put(out, n, value):
    """out[:n] = value."""
    for i in range(U(n)):
        out[i] = value


@kernel()
def add_predictive(total, cum, row, P, sizes, p, alpha):
    """total += p (α_k + L_k), kept as the running sum at this component."""
    row = U(row)
    for j in range(U(P)):
        i = U(j)
        z = total[i] + p * (alpha + sizes[row + i])
        total[i] = z
        cum[row + i] = z


@kernel()
def add_rate(total, cum, row, P, g, p):
    """total += p g_k, kept as the running sum at this component."""
    row = U(row)
    for j in range(U(P)):
        i = U(j)
        z = total[i] + p * g[row + i]
        total[i] = z
        cum[row + i] = z


@kernel()
def place(token, words, cursor, total, P):
    """token = u × total, with u in (0, 1)."""
    cursor = U(cursor)
    for j in range(U(P)):
        i = U(j)
        token[i] = (np.float64(words[cursor + i]) + 0.5) * UNIT * total[i]


@kernel()
def count_beyond(reach, cum, row, P, token):
    """reach += 1 where the token falls beyond this component."""
    row = U(row)
    for j in range(U(P)):
        i = U(j)
        reach[row + i] += 1.0 if token[i] >= cum[row + i] else 0.0


@kernel()
def give(sizes, cum, row, P, token, open_):
    """L_k += 1 where the token falls in this component and in none before (`open_` is 1)."""
    row = U(row)
    for j in range(U(P)):
        i = U(j)
        beyond = 1.0 if token[i] >= cum[row + i] else 0.0
        sizes[row + i] += open_[i] - beyond
        open_[i] = beyond


@kernel()
def add_difference(sizes, row, P, reach, before, n):
    """L_k += the tokens beyond the component before (n of them, for the first) but not beyond k."""
    row, before = U(row), U(before)
    if row == U(0):
        for j in range(U(P)):
            i = U(j)
            sizes[i] += n - reach[i]
    else:
        for j in range(U(P)):
            i = U(j)
            sizes[row + i] += reach[before + i] - reach[row + i]


@kernel()
def scale(weight, factor, P):
    """weight *= factor."""
    for j in range(U(P)):
        weight[j] *= factor


@kernel()
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
