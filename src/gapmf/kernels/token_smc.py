"""Sequential Monte Carlo over the tokens of a sample: an unbiased estimate of Eq. 31.

A particle is L, the sizes of the components after some of the tokens. The second factor of
Eq. 31 times Π v_f! is the product, token by token, of Σ_k p_fk (α_k + L_k), averaged over what
components the earlier tokens have; a token multiplies each particle's weight by that sum and then
takes a component with probabilities proportional to its terms. When the weights have become
uneven the particles are resampled. And when the tokens seen have become some more they are moved,
each by a Gibbs sweep over all of these: h given L, then L given h. Without the moves copies would
stay copies, and early choices stand for ever. The moves have fixed times: a move that depended on
the weights would make the estimate biased, which resampling does not.

Tokens come in rounds, each some per cent of what has been seen, in which every entry has its
share: at any time the seen tokens are much like the whole. An entry with many tokens in a round
is seen as one batch: with θ ~ Dirichlet(α + L) the weight is (Σ_k p_fk θ_k)^m, and the batch is
shared out given θ. So the time does not grow with the count, but with its logarithm.

With a small α a component that nothing has gone to yet hardly gets a token, and particles that
have gone different ways hardly meet again. A guide helps, sizes that a sample's components are
expected to have: as long as tokens are to come, their part of the guide is added to α. When some
have come the rest of it is less, and each weight is multiplied by Π_k (α_k + less)_L / (α_k +
more)_L, (a)_L being a (a + 1) … (a + L − 1). At the end nothing of it is left. So the estimate is
unbiased whatever the guide, and the better it is, the more even are the weights.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.jit import kernel
from gapmf.kernels.particles import (
    add_rows,
    draw_activations,
    find,
    give,
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
MOVE = 1.3  # particles are moved when so many times as many tokens have been seen
LEVEL = 0.8  # the guide is made smaller when the tokens to come have become so much fewer
SAFE = 1e30  # weights are rescaled when their mean leaves (1/SAFE, SAFE)


@kernel()
def growth(K):
    """A round, as a part of what has been seen."""
    return min(GROWTH, 0.3 / math.sqrt(K))


@kernel()
def resample(u, total, at):
    """Systematic resampling: each particle's parent. The weights become 1."""
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


@kernel()
def fine(total, squares, P):
    """Whether the weights are even enough, and of a reasonable size, to go on with."""
    uneven = total * total < EVEN * P * squares
    return not uneven and P / SAFE < total < P * SAFE


@kernel()
def settle(total, squares, stream, K, at):
    """Resample when the weights are uneven; else rescale them.

    Gives the logarithm of what was taken out of the weights, and the relative variance that
    these weights leave in the estimate.
    """
    P = at.weight.size
    mean = total / P
    if total * total < EVEN * P * squares:
        word, _ = pair(0, tick(stream, at.clock))
        resample(uniform(word), total, at)
        copy_parents(K, at)
        return math.log(mean), squares / (total * total) - 1.0 / P
    scale(at.weight, 1.0 / mean, P)
    return math.log(mean), 0.0


@kernel()
def copy_parents(K, at):
    """Every particle becomes its parent."""
    P = at.weight.size
    for k in range(K):
        for i in range(P):
            at.total[i] = at.shape[k * P + at.parent[i]]
        for i in range(P):
            at.shape[k * P + i] = at.total[i]
    for i in range(P):
        at.parent[i] = i


@kernel()
def see_token(p, row, K4, P, shape, weight, total, cum, token, found, words, clock, stream):
    """One token of an entry: the weights, then a component in every particle.

    Gives the sum of the weights and that of their squares.
    """
    add_rows(total, P, shape, p, row, K4)
    place(token, words, take_words(stream, words, clock, P), total, P)
    find(shape, P, p, row, K4, cum, token, found, 1.0, 0.0)
    give(shape, P, found)
    return multiply(weight, total, P)


@kernel()
def see_batches(seen, stream, J, K, at):
    """All entries with many tokens in this round, given θ ~ Dirichlet(α + L)."""
    P = at.weight.size
    draw_activations(stream, K, at)
    n, A = 0, 0.0
    for k in range(K):
        A += at.alpha[k]
    put(at.token, 0, P, 0.0)  # the logarithm of the weight
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


@kernel()
def load_sample(features, counts, p, alpha, stream, at):
    """The sample's rows of p without the columns that are 0 in all of them; how many are left."""
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
    put(at.p, 0, J * K4, 0.0)
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
        word, _ = pair(j, address)
        at.offset[j] = uniform(word)
        at.placed[j] = 0
    return kept


@kernel()
def plan_round(part, counts, at):
    """How many tokens of each entry come next, for a part of all to be seen; the most of them."""
    most = 0
    for j in range(counts.size):
        goal = np.int64(math.floor(part * counts[j] + at.offset[j]))
        at.batch[j] = min(goal, counts[j]) - at.placed[j]
        most = max(most, at.batch[j])
    return most


@kernel()
def follow(guide, K, at):
    """Add the guide to α."""
    for k in range(K):
        at.own_alpha[k] = at.alpha[k]
        at.guide[k] = guide[at.column[k]]
        at.alpha[k] += at.guide[k]


@kernel()
def retreat(left, K, at):
    """Leave only a part of the guide, and take from the weights what the rest did to them.

    Gives the sums of the weights and of their squares, and the logarithm of what was taken out.
    """
    P = at.weight.size
    put(at.token, 0, P, 0.0)  # the logarithm of the weight
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


@kernel()
def adjust(total, squares, guided, to_come, stream, K, at):
    """Whatever the weights need after some tokens: less of the guide, or other particles.

    `guided` is the part of the guide that is there, `to_come` that of the tokens. Gives the sums
    of the weights and of their squares, what is left of the guide, the logarithm of what was
    taken out of the weights, and the relative variance that they leave.
    """
    taken = noise = 0.0
    if to_come <= LEVEL * guided:
        (total, squares), taken = retreat(to_come, K, at)
        guided = to_come
    if to_come > 0.0 and not fine(total, squares, at.weight.size):
        more, noise = settle(total, squares, stream, K, at)
        taken += more
    return total, squares, guided, taken, noise


@kernel()
def estimate(features, counts, p, alpha, guide, stream, at):
    """log of an unbiased estimate of Eq. 31's second factor times Π v_f!, for one sample.

    p (features, K) and alpha (K,) are the model's; features (J,), counts (J,) and guide (K,) the
    sample's.
    The second result is the relative variance that the estimate would have if moved particles
    were independent: too little where they are not.
    """
    J, P = features.size, at.weight.size
    at.clock[0] = U(0)
    at.clock[1] = U(at.words.size)
    K = load_sample(features, counts, p, alpha, stream, at)
    follow(guide, K, at)
    K4 = padded(K)
    for k in range(K4):
        put(at.shape, k * P, P, at.alpha[k] if k < K else 0.0)
        put(at.g, k * P, P, 0.0)
        put(at.h, k * P, P, np.float32(0))
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
        singly = most if most <= BATCH else FEW
        for turn in range(singly):  # the entries take turns
            for j in range(J):
                if turn < at.batch[j] <= singly:
                    total, squares = see_token(
                        at.p, j * K4, K4, P, at.shape, at.weight, at.total, at.cum, at.token,
                        at.found, at.words, at.clock, stream,
                    )  # fmt: skip
                    at.placed[j] += 1
                    seen += 1
                    if n - seen <= LEVEL * n * guided or not fine(total, squares, P):
                        total, squares, guided, taken, noise = adjust(
                            total, squares, guided, (n - seen) / n, stream, K, at
                        )
                        result += taken
                        variance += noise
                    if mark <= seen < n:
                        mark = math.ceil(MOVE * seen)
                        move(stream, J, K, at)
        if most > singly:
            (total, squares), taken, m = see_batches(seen, stream, J, K, at)
            result += taken
            seen += m
            if n - seen <= LEVEL * n * guided or not fine(total, squares, P):
                total, squares, guided, taken, noise = adjust(
                    total, squares, guided, (n - seen) / n, stream, K, at
                )
                result += taken
                variance += noise
            if mark <= seen < n:
                mark = math.ceil(MOVE * seen)
                move(stream, J, K, at)
    if n > 0:
        result += math.log(total / P)
        variance += squares / (total * total) - 1.0 / P
    return result, variance


@kernel()
def estimates(rows, features, counts, p, alpha, guides, key, names, at, values, variances):
    """`estimate` for samples rows[n] to rows[n + 1], with guides[n], from the stream names[n]."""
    for n in range(names.size):
        lo, hi = rows[n], rows[n + 1]
        stream = (key, names[n])
        values[n], variances[n] = estimate(
            features[lo:hi], counts[lo:hi], p, alpha, guides[n], stream, at
        )
