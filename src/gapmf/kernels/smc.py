"""Sequential Monte Carlo over the tokens of a sample: an unbiased estimate of Eq. 31.

A particle is L, the sizes of the components after some of the tokens. The second factor of
Eq. 31 times Π v_f! is the product, token by token, of Σ_k p_fk (α_k + L_k), averaged over what
components the earlier tokens have; a token multiplies each particle's weight by that sum and then
takes a component with probabilities proportional to its terms. When the weights have become
uneven the particles are resampled, and each is moved by a Gibbs sweep over all tokens that it has
seen: h given L, then L given h. Without the moves copies would stay copies, and early choices
stand for ever.

Tokens come in rounds, each some per cent of what has been seen, in which every entry has its
share: at any time the seen tokens are much like the whole. An entry with many tokens in a round
is seen as one batch: with θ ~ Dirichlet(α + L) the weight is (Σ_k p_fk θ_k)^m, and the batch is
shared out given θ. So the time does not grow with the count, but with its logarithm.
"""

from __future__ import annotations

import math

import numpy as np

from gapmf.kernels.compiled import kernel
from gapmf.kernels.particles import (
    add_difference,
    add_predictive,
    add_rate,
    count_beyond,
    give,
    multiply,
    place,
    put,
    scale,
    take_words,
    tick,
)
from gapmf.kernels.philox import U, fill, join, pair, uniform
from gapmf.kernels.variates import binomial, gamma

HEAVY = 128  # counts above are moved by conditional binomials
BATCH = 32  # with more tokens of an entry in a round, the round is seen in batches
FEW = 2  # tokens of an entry that are then still seen one by one
GROWTH = 0.1  # a round, as a part of what has been seen, at most
SAFE = 1e30  # weights are rescaled when their mean leaves (1/SAFE, SAFE)
LEAST = 1e-280  # a smaller activation would be 0 in products; it makes no difference


@kernel()
def draw_activations(stream, K, at):
    """g_k ~ Gamma(α_k + L_k, 1) for every particle, L being its parent's."""
    P = at.weight.size
    n = K * P
    words = at.own_words
    fill(words, n, tick(stream, at.clock))
    more = tick(stream, at.clock)
    small = tick(stream, at.clock)
    for k in range(K):
        for i in range(P):
            o = k * P + i
            shape = at.alpha[k] + at.sizes[k * P + at.parent[i]]
            first = join(words[o], words[n + o])
            second = join(words[2 * n + o], words[3 * n + o])
            if shape >= 1.0:
                at.g[o] = gamma(shape, first, second, U(o), more)
            else:
                word, _ = pair(o, small)
                log_g = math.log(gamma(shape + 1.0, first, second, U(o), more))
                log_g += math.log(uniform(word)) / shape
                at.g[o] = max(LEAST, math.exp(log_g))


@kernel()
def sum_rates(j, K, at):
    """The running sums of p_jk g_k over components, and their total."""
    P = at.weight.size
    put(at.total, P, 0.0)
    for k in range(K):
        add_rate(at.total, at.cum, k * P, P, at.g, at.p[j * K + k])


@kernel()
def share_batch(j, m, K, index, address, at):
    """m tokens of entry j among the components of each particle, by conditional binomials."""
    P = at.weight.size
    for i in range(P):
        rest = 0.0
        for k in range(K - 1, -1, -1):
            rest += at.p[j * K + k] * at.g[k * P + i]
            at.rest[k] = rest
        left = m
        for k in range(K):
            if left == 0:
                break
            rate = at.p[j * K + k] * at.g[k * P + i]
            if rate > 0.0:
                x, index = binomial(left, rate / at.rest[k], index, address)
                at.sizes[k * P + i] += x
                left -= x
    return index


@kernel()
def move(stream, J, K, at):
    """A Gibbs sweep: g given the parent's L, then L given g for all tokens seen so far."""
    P = at.weight.size
    draw_activations(stream, K, at)
    address = tick(stream, at.clock)
    index = U(0)
    put(at.sizes, K * P, 0.0)
    put(at.reach, K * P, 0.0)
    n = 0
    for j in range(J):
        m = at.placed[j]
        if m > HEAVY:
            index = share_batch(j, m, K, index, address, at)
        elif m > 0:
            n += m
            sum_rates(j, K, at)
            for _ in range(m):
                place(at.token, at.words, take_words(stream, at), at.total, P)
                for k in range(K - 1):
                    count_beyond(at.reach, at.cum, k * P, P, at.token)
    for k in range(K):
        add_difference(at.sizes, k * P, P, at.reach, (k - 1) * P, float(n))


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
    put(at.weight, P, 1.0)


@kernel()
def settle(total, squares, stream, J, K, n_moves, at):
    """Resample and move when the weights are uneven; rescale when they are large or small.

    Gives the logarithm of what was taken out of the weights, and the relative variance that
    these weights leave in the estimate.
    """
    P = at.weight.size
    mean = total / P
    if total * total < 0.5 * P * squares:
        word, _ = pair(0, tick(stream, at.clock))
        resample(uniform(word), total, at)
        for _ in range(n_moves):
            move(stream, J, K, at)
            for i in range(P):
                at.parent[i] = i
        return math.log(mean), squares / (total * total) - 1.0 / P
    if mean < 1.0 / SAFE or mean > SAFE:
        scale(at.weight, 1.0 / mean, P)
        return math.log(mean), 0.0
    return 0.0, 0.0


@kernel()
def see_token(j, stream, K, at):
    """One token of entry j: the weights, then a component in every particle."""
    P = at.weight.size
    put(at.total, P, 0.0)
    for k in range(K):
        p, alpha = at.p[j * K + k], at.alpha[k]
        add_predictive(at.total, at.cum, k * P, P, at.sizes, p, alpha)
    place(at.token, at.words, take_words(stream, at), at.total, P)
    sums = multiply(at.weight, at.total, P)
    put(at.total, P, 1.0)
    for k in range(K):
        give(at.sizes, at.cum, k * P, P, at.token, at.total)
    at.placed[j] += 1
    return sums


@kernel()
def see_batches(seen, stream, J, K, at):
    """All entries with many tokens in this round, given θ ~ Dirichlet(α + L)."""
    P = at.weight.size
    draw_activations(stream, K, at)
    n, A = 0, 0.0
    for k in range(K):
        A += at.alpha[k]
    put(at.token, P, 0.0)  # the logarithm of the weight
    for j in range(J):
        m = at.batch[j]
        if m > FEW:
            n += m
            sum_rates(j, K, at)
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
def lay_out(features, counts, p, alpha, stream, at):
    """The sample's rows of p without the columns that are 0 in all of them; how many are left."""
    J, K = features.size, alpha.size
    kept = 0
    for k in range(K):
        for j in range(J):
            if p[features[j], k] > 0.0:
                at.alpha[kept] = alpha[k]
                kept += 1
                break
    o = 0
    for k in range(K):
        some = False
        for j in range(J):
            some = some or p[features[j], k] > 0.0
        if some:
            for j in range(J):
                at.p[j * kept + o] = p[features[j], k]
            o += 1
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
def estimate(features, counts, p, alpha, stream, n_moves, at):
    """log of an unbiased estimate of Eq. 31's second factor times Π v_f!, for one sample.

    p (features, K) and alpha (K,) are the model's; features (J,) and counts (J,) the sample's.
    The second result is the relative variance that the estimate would have if moved particles
    were independent: too little where they are not.
    """
    J, P = features.size, at.weight.size
    at.clock[0] = U(0)
    at.clock[1] = U(at.words.size)
    K = lay_out(features, counts, p, alpha, stream, at)
    put(at.sizes, K * P, 0.0)
    put(at.weight, P, 1.0)
    for i in range(P):
        at.parent[i] = i
    n = 0
    for j in range(J):
        n += counts[j]
    growth = min(GROWTH, 0.3 / math.sqrt(K))
    result, variance = 0.0, 0.0
    goal, seen = 0.0, 0
    total, squares = float(P), float(P)
    while seen < n:
        goal += max(1.0, math.floor(growth * goal))
        most = plan_round(min(1.0, goal / n), counts, at)
        if most == 0:
            continue
        singly = most if most <= BATCH else FEW
        for turn in range(singly):  # the entries take turns
            for j in range(J):
                if turn < at.batch[j] <= singly:
                    total, squares = see_token(j, stream, K, at)
                    seen += 1
                    if seen < n:
                        taken, noise = settle(total, squares, stream, J, K, n_moves, at)
                        result += taken
                        variance += noise
        if most > singly:
            (total, squares), taken, m = see_batches(seen, stream, J, K, at)
            result += taken
            seen += m
            if seen < n:
                taken, noise = settle(total, squares, stream, J, K, n_moves, at)
                result += taken
                variance += noise
    if n > 0:
        result += math.log(total / P)
        variance += squares / (total * total) - 1.0 / P
    return result, variance


@kernel()
def estimates(rows, features, counts, p, alpha, key, names, n_moves, at, values, variances):
    """`estimate` for samples rows[n] to rows[n + 1], each from the stream of its name."""
    for n in range(names.size):
        lo, hi = rows[n], rows[n + 1]
        stream = (key, names[n])
        values[n], variances[n] = estimate(
            features[lo:hi], counts[lo:hi], p, alpha, stream, n_moves, at
        )
