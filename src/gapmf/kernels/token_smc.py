"""Sequential Monte Carlo over the tokens of a sample: an unbiased estimate of Eq. 31.

A particle is L, the sizes of the components after some of the tokens. The second factor of
Eq. 31 times Π v_f! is the product, token by token, of Σ_k p_fk (α_k + L_k), averaged over what
components the earlier tokens have. A token multiplies each particle's weight by that sum and then
takes a component with probabilities proportional to its terms. Particles are resampled when the
weights are uneven. They are moved, each by a Gibbs sweep over all tokens seen, when the number of
these has grown by some per cent: h given L, then L given h. Without moves copies would stay copies,
and early choices would stand. The moves have fixed times: a move that depended on the weights would
make the estimate biased, which resampling does not.

Tokens come in rounds, each some per cent of what has been seen, in which every entry has its
share: at any time the tokens seen are much like the whole. An entry with many tokens in a round is
seen as one batch: with θ ~ Dirichlet(α + L) the weight is (Σ_k p_fk θ_k)^m, and the batch is shared
out given θ. So the time grows with the logarithm of the count.

With a small α a component without tokens hardly gets one, and particles in different modes stay
there. A guide helps: sizes that a sample's components are expected to have. It is added to α, times
the part of the tokens that are still to come. When that part falls, each weight is multiplied by
Π_k (α_k + less)_L / (α_k + more)_L, with (a)_L = a (a + 1) … (a + L − 1). At the end nothing of the
guide is left. So the estimate is unbiased for any guide; a better one makes more even weights.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.gibbs_loops import clear
from gapmf.kernels.jit import inlined, inner, kernel
from gapmf.kernels.particles import (
    add_found,
    add_rows,
    draw_activations,
    find,
    move,
    multiply,
    padded,
    place,
    put,
    scale,
    share_batch,
    take_words,
    tick,
)
from gapmf.kernels.random import U, pair, uniform

BATCH = 32  # with more tokens of an entry in a round, the round is seen in batches
FEW = 2  # tokens of an entry that are then still seen one by one
GROWTH = 0.1  # a round, as a part of what has been seen, at most
EVEN = 0.5  # particles are resampled when their effective number, as a part, is below
MOVE = 1.3  # usual spacing of moves
LEVEL = 0.8  # the guide is made smaller when the tokens to come have become so much fewer
SAFE = 1e30  # weights are rescaled when their mean leaves (1/SAFE, SAFE)


@inner()
def growth(K):
    """Give the size of a round, as a part of what has been seen."""
    return min(GROWTH, 0.3 / math.sqrt(K))


@inner()
def resample(u, total, at):
    """Draw each particle's parent by systematic resampling. The weights become 1."""
    P = at.weight.size
    step = total / P
    level = u * step
    reached = at.weight[0]
    i = 0
    for j in range(P):
        while level >= reached and i < P - 1:
            i += 1
            reached += at.weight[i]
        at.parent[j] = i
        level += step
    put(at.weight, 0, P, 1.0)


@inner()
def is_even(total, squares, P):
    """Whether the weights are even enough, and of a moderate size."""
    uneven = total * total < EVEN * P * squares
    return not uneven and P / SAFE < total < P * SAFE


@inner()
def resample_or_rescale(total, squares, stream, K, at):
    """Resample when the weights are uneven; else rescale them.

    Return the logarithm of what was taken out of the weights, and the relative variance that
    these weights leave in the estimate.
    """
    P = at.weight.size
    mean = total / P
    if total * total < EVEN * P * squares:
        word, _ = pair(U(0), tick(stream, at.clock))
        resample(uniform(word), total, at)
        copy_parents(K, at)
        return math.log(mean), squares / (total * total) - 1.0 / P
    scale(at.weight, 1.0 / mean, P)
    return math.log(mean), 0.0


@inner()
def copy_parents(K, at):
    """Copy each particle's parent to it."""
    P = at.weight.size
    for k in range(K):
        for i in range(P):
            at.total[i] = at.shape[k * P + at.parent[i]]
        for i in range(P):
            at.shape[k * P + i] = at.total[i]
    for i in range(P):
        at.parent[i] = i


@inner()
def add_token(p, row, K4, P, shape, weight, total, cum, token, found, words, clock, stream):
    """Add a token of an entry: multiply the weights, then draw its component in every particle.

    Return the sum of the weights and that of their squares.
    """
    add_rows(total, P, shape, p, row, K4)
    place(token, words, take_words(stream, words, clock, P), total, P)
    find(shape, P, p, row, K4, cum, token, found, 1.0, 0.0)
    add_found(shape, P, found)
    return multiply(weight, total, P)


@inner()
def add_batches(seen, stream, J, K, at):
    """Add the tokens of all entries with many in this round, given θ ~ Dirichlet(α + L)."""
    P = at.weight.size
    draw_activations(stream, K, at)
    n, A = 0, 0.0
    for k in range(K):
        A += at.alpha[k]
    clear(at.token, P)  # the logarithm of the weight
    for j in range(J):
        m = at.batch[j]
        if m > FEW:
            n += m
            add_rows(at.total, P, at.g, at.p, j * padded(K), padded(K))
            for i in range(P):
                at.token[i] += m * math.log(at.total[i])
    top = -math.inf
    for i in range(P):
        s = 0.0
        for k in range(K):
            s += at.g[k * P + i]
        at.token[i] -= n * math.log(s)
        top = max(top, at.token[i])
    for i in range(P):
        at.total[i] = math.exp(at.token[i] - top)
    sums = multiply(at.weight, at.total, P)
    address = tick(stream, at.clock)
    index = U(0)
    for j in range(J):
        m = at.batch[j]
        if m > FEW:
            index = share_batch(j, m, K, index, address, at)
            at.placed[j] += m
    rising = math.lgamma(A + seen + n) - math.lgamma(A + seen)
    return sums, top + rising, n


@inner()
def load_sample(features, counts, p, alpha, stream, at):
    """Store the sample's rows of p without columns of zeros; return the number of the others."""
    J, K = features.size, alpha.size
    kept = 0
    for k in range(K):
        for j in range(J):
            if p[features[j], k] > 0.0:
                at.alpha[kept] = alpha[k]
                at.column[kept] = k
                kept += 1
                break
    K4 = padded(kept)
    clear(at.p, J * K4)
    o = 0
    for k in range(K):
        some = False
        for j in range(J):
            some = some or p[features[j], k] > 0.0
        if some:
            for j in range(J):
                at.p[j * K4 + o] = p[features[j], k]
            o += 1
    for i in range(J * K4):
        at.single_p[i] = np.float32(at.p[i])
    address = tick(stream, at.clock)
    for j in range(J):
        word, _ = pair(U(j), address)
        at.offset[j] = uniform(word)
        at.placed[j] = 0
    return kept


@inner()
def plan_round(part, counts, at):
    """Set how many tokens of each entry come next, up to a part of all; return the largest."""
    most = 0
    for j in range(counts.size):
        goal = np.int64(math.floor(part * counts[j] + at.offset[j]))
        at.batch[j] = min(goal, counts[j]) - at.placed[j]
        most = max(most, at.batch[j])
    return most


@inner()
def add_guide(guide, K, at):
    """Add the guide to α."""
    for k in range(K):
        at.own_alpha[k] = at.alpha[k]
        at.guide[k] = guide[at.column[k]]
        at.alpha[k] += at.guide[k]


@inner()
def reduce_guide(left, K, at):
    """Leave only a part of the guide, and correct the weights for the rest.

    Return the sums of the weights and of their squares, and the logarithm of what was taken out.
    """
    P = at.weight.size
    clear(at.token, P)  # the logarithm of the weight
    for k in range(K):
        old, new = at.alpha[k], at.own_alpha[k] + left * at.guide[k]
        if new < old:
            at.alpha[k] = new
            constant = math.lgamma(old) - math.lgamma(new)
            for i in range(P):
                shape = at.shape[k * P + i]
                tokens = math.floor(shape - old + 0.5)
                if tokens > 0:
                    at.token[i] += math.lgamma(new + tokens) - math.lgamma(shape) + constant
                at.shape[k * P + i] = new + tokens
    top = -math.inf
    for i in range(P):
        top = max(top, at.token[i])
    for i in range(P):
        at.total[i] = math.exp(at.token[i] - top)
    return multiply(at.weight, at.total, P), top


@inner()
def adjust(total, squares, guided, mark, seen, n, spacing, stream, J, K, at):
    """Do what is due after some tokens: reduce the guide, resample, move.

    `guided` is the part of the guide that is left; a move is due when `mark` tokens of n have
    been seen. Return total, squares, guided and mark as they are then, the logarithm of what was
    taken out of the weights, and the relative variance that they leave.
    """
    taken = noise = 0.0
    P = at.weight.size
    if n - seen <= LEVEL * n * guided or not is_even(total, squares, P):
        to_come = (n - seen) / n
        if to_come <= LEVEL * guided:
            (total, squares), taken = reduce_guide(to_come, K, at)
            guided = to_come
        if to_come > 0.0 and not is_even(total, squares, P):
            more, noise = resample_or_rescale(total, squares, stream, K, at)
            taken += more
    if mark <= seen < n:
        mark = math.ceil(spacing * seen)
        move(stream, J, K, at)
    return total, squares, guided, mark, taken, noise


@inlined
def estimate(features, counts, p, alpha, guide, spacing, stream, at):
    """Give log of an unbiased estimate of Eq. 31's second factor times Π v_f!, for one sample.

    p (features, K) and alpha (K,) are the model's; features (J,), counts (J,) and guide (K,) are
    the sample's. Particles are moved when `spacing` times as many tokens have been seen as at the
    last move. The second result is the relative variance that the estimate would have if moved
    particles were independent: too little where they are not.
    """
    J, P = features.size, at.weight.size
    at.clock[0] = U(0)
    at.clock[1] = U(at.words.size)
    K = load_sample(features, counts, p, alpha, stream, at)
    add_guide(guide, K, at)
    K4 = padded(K)
    for k in range(K4):
        put(at.shape, k * P, P, at.alpha[k] if k < K else 0.0)
    clear(at.g, K4 * P)
    clear(at.h, K4 * P)
    put(at.weight, 0, P, 1.0)
    for i in range(P):
        at.parent[i] = i
    n = 0
    for j in range(J):
        n += counts[j]
    part = growth(K)
    result, variance = 0.0, 0.0
    goal, seen = 0.0, 0
    total, squares = float(P), float(P)
    guided, mark = 1.0, 2
    while seen < n:
        goal += max(1.0, math.floor(part * goal))
        most = plan_round(min(1.0, goal / n), counts, at)
        if most == 0:
            continue
        n_single = most if most <= BATCH else FEW
        for t in range(n_single):  # the entries alternate
            for j in range(J):
                if t < at.batch[j] <= n_single:
                    total, squares = add_token(
                        at.p, j * K4, K4, P, at.shape, at.weight, at.total, at.cum, at.token,
                        at.found, at.words, at.clock, stream,
                    )  # fmt: skip
                    at.placed[j] += 1
                    seen += 1
                    # `adjust` does nothing else: passing all arrays on takes as long as a token.
                    due = seen >= mark or n - seen <= LEVEL * n * guided
                    if due or not is_even(total, squares, P):
                        total, squares, guided, mark, taken, noise = adjust(
                            total, squares, guided, mark, seen, n, spacing, stream, J, K, at
                        )
                        result += taken
                        variance += noise
        if most > n_single:
            (total, squares), taken, m = add_batches(seen, stream, J, K, at)
            result += taken
            seen += m
            total, squares, guided, mark, taken, noise = adjust(
                total, squares, guided, mark, seen, n, spacing, stream, J, K, at
            )
            result += taken
            variance += noise
    if n > 0:
        result += math.log(total / P)
        variance += squares / (total * total) - 1.0 / P
    return result, variance


@kernel()
def estimates(
    rows, features, counts, p, alpha, guides, spacing, key, names, at, values, variances
):  # fmt: skip
    """`estimate` for samples rows[n] to rows[n + 1], with guides[n], from the stream names[n]."""
    for n in range(names.size):
        lo, hi = rows[n], rows[n + 1]
        stream = (key, names[n])
        values[n], variances[n] = estimate(
            features[lo:hi], counts[lo:hi], p, alpha, guides[n], spacing, stream, at
        )
