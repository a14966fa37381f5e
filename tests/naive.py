"""Slow, literal versions of what gapmf computes fast: the paper's sums as it writes them.

Orientation is the paper's: V is F×N, C is F×K×N.
"""

from __future__ import annotations

import decimal
import itertools
import math

import numpy as np
from scipy import optimize, special, stats


def compositions(v, K):
    """All ways to write v as an ordered sum of K counts."""
    if K == 1:
        yield (v,)
        return
    for first in range(v + 1):
        for rest in compositions(v - first, K - 1):
            yield (first, *rest)


def admissible(V, K):
    """The set of Eq. 25: every tensor C (F×K×N) of counts with Σ_k c_fkn = v_fn."""
    F, N = V.shape
    cells = [list(compositions(int(V[f, n]), K)) for f in range(F) for n in range(N)]
    for choice in itertools.product(*cells):
        yield np.array(choice).reshape(F, N, K).transpose(0, 2, 1)


def negative_multinomial_pmf(c, alpha, p):
    """Eq. 15."""
    p0 = 1 - sum(p)
    value = math.gamma(alpha + sum(c)) / math.gamma(alpha) * p0**alpha
    for cf, pf in zip(c, p, strict=True):
        value *= pf**cf / math.factorial(cf)
    return value


def marginal_likelihood(V, W, alpha, beta):
    """p(V | W, β) by Eq. 28: a sum over F×K×N tensors of products of NM probabilities."""
    return sum(probability_of_components(C, W, alpha, beta) for C in admissible(V, W.shape[1]))


def probability_of_components(C, W, alpha, beta):
    """p(C | W, β): a product of NM probabilities over components and samples, Eq. 28's summand."""
    product = 1.0
    for k in range(W.shape[1]):
        p = [float(w) / (float(W[:, k].sum()) + float(beta[k])) for w in W[:, k]]
        for n in range(C.shape[2]):
            c = [int(x) for x in C[:, k, n]]
            product *= negative_multinomial_pmf(c, float(alpha[k]), p)
    return product


def log_likelihood_40_digits(v, W, alpha, beta):
    """log p(v) for one sample with 40 digits, the terms of Eq. 31 gathered by L."""
    with decimal.localcontext(prec=50, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX):
        F, K = W.shape
        b, a = ([decimal.Decimal(float(x)) for x in values] for values in (beta, alpha))
        w = [[decimal.Decimal(float(x)) for x in row] for row in W]
        S = [sum(column) for column in zip(*w, strict=True)]
        p = [[w[f][k] / (S[k] + b[k]) for k in range(K)] for f in range(F)]
        poly = {(0,) * (K - 1): decimal.Decimal(1)}  # by (L_1 … L_{K−1}); L_K is the rest
        for f in range(F):
            for _ in range(int(v[f])):
                grown = {}
                for L, value in poly.items():
                    for k in range(K):
                        if p[f][k] == 0:
                            continue
                        key = L if k == K - 1 else (*L[:k], L[k] + 1, *L[k + 1 :])
                        grown[key] = grown.get(key, 0) + p[f][k] * value
                poly = grown
        n = int(sum(v))
        rising = [_rising(a[k], n) for k in range(K)]
        total = sum(
            value * math.prod(rising[k][L[k]] for k in range(K - 1)) * rising[K - 1][n - sum(L)]
            for L, value in poly.items()
        )
        for k in range(K):
            total *= (b[k] / (S[k] + b[k])) ** a[k]
        for f in range(F):
            total /= math.factorial(int(v[f]))
        return float(total.ln())


def _rising(a, n):
    values = [decimal.Decimal(1)]
    for i in range(n):
        values.append(values[-1] * (a + i))
    return values


def one_feature_probabilities(n_max, w, alpha, beta):
    """P(v = 0 … n_max) for F = 1: v p(v) = Σ_{j=1..v} p(v−j) Σ_k α_k π_k^j, any K."""
    pi = w / (w + beta)
    p = np.zeros(n_max + 1)
    p[0] = np.prod((1 - pi) ** alpha)
    power_sums = np.array([(alpha * pi**j).sum() for j in range(n_max + 1)])
    for v in range(1, n_max + 1):
        p[v] = (p[v - 1 :: -1] * power_sums[1 : v + 1]).sum() / v
    return p


def covariance(W, alpha, beta):
    """Cov(v_n) = diag(E v_n) + Σ_k (α_k/β_k²) w_k w_kᵀ."""
    return np.diag(W @ (alpha / beta)) + (W * (alpha / beta**2)) @ W.T


def log_joint(V, H, W, alpha, beta):
    """log p(V, H | W, β) from Eqs. 1 and 2, cell by cell; H is K×N."""
    F, N = V.shape
    K = W.shape[1]
    total = 0.0
    for n in range(N):
        for k in range(K):
            total += stats.gamma.logpdf(H[k, n], alpha[k], scale=1 / beta[k])
        for f in range(F):
            total += stats.poisson.logpmf(V[f, n], sum(W[f, k] * H[k, n] for k in range(K)))
    return total


def gibbs(V, W, alpha, beta, C, n_sweeps, rng):
    """The paper's Gibbs sampler, Eqs. 38 to 40, with its F×K×N tensor: the last C and H."""
    F, N = V.shape
    K = W.shape[1]
    H = np.empty((K, N))
    for _ in range(n_sweeps):
        for n in range(N):
            for k in range(K):
                shape = alpha[k] + C[:, k, n].sum()
                H[k, n] = rng.gamma(shape, 1 / (beta[k] + W[:, k].sum()))
            for f in range(F):
                rho = W[f] * H[:, n] / (W[f] @ H[:, n])
                C[f, :, n] = rng.multinomial(V[f, n], rho)
    return C, H


def posterior_of_components(V, W, alpha, beta):
    """Every admissible C with its posterior probability, from Eq. 28."""
    tensors = list(admissible(V, W.shape[1]))
    products = [probability_of_components(C, W, alpha, beta) for C in tensors]
    return tensors, np.array(products) / sum(products)


def em_step_with_alpha(V, W, alpha, beta, *, shared):
    """EM-C's iteration for W and α: the maximum of E[log p(C | W, α)], searched for over α.

    The expectation is over every admissible C; for given α the best w_fk is (β_k/α_k) times the
    mean of c_fkn.
    """
    tensors, weights = posterior_of_components(V, W, alpha, beta)
    K = W.shape[1]
    mean_c = sum(q * C.mean(axis=2) for q, C in zip(weights, tensors, strict=True))

    def expected(k, a):
        size = mean_c[:, k].sum()
        law = stats.nbinom(a, a / (a + size))  # the directions of C do not depend on α
        return sum(
            q * law.logpmf(C[:, k].sum(axis=0)).sum() for q, C in zip(weights, tensors, strict=True)
        )

    def best(ks):
        kept = alpha[ks[0]]
        ks = [k for k in ks if mean_c[:, k].sum() > 0]
        if not ks:
            return kept
        found = optimize.minimize_scalar(
            lambda x: -sum(expected(k, math.exp(x)) for k in ks),
            bounds=(math.log(1e-4), math.log(1e4)),
            method="bounded",
            options={"xatol": 1e-10},
        )
        return math.exp(found.x)

    new = np.full(K, best(range(K))) if shared else np.array([best([k]) for k in range(K)])
    return beta / new * mean_c, new


def expected_log_ratio(at, statistics, n_draws, a, b):
    """Mean of log p(C | b) − log p(C | a) over draws, less Σ c_fk log(w_b/w_a), for one α."""
    sizes, n_samples = statistics.c_sum.sum(axis=0) / n_draws, statistics.n_draws / n_draws
    rates = [m.W.sum(axis=0) + m.beta for m in (a, b)]
    return float(-(sizes + n_samples * a.alpha) @ np.log(rates[1] / rates[0]))


def rolled_rows(means, before, factors, kept, floor, mean_counts):
    """A step with momentum: EM's proposal, its push, its floor, its scale; and what it did."""
    means = means * np.exp(np.clip(kept * np.log(factors), -1.0, 1.0))
    least = floor * means.sum(axis=1, keepdims=True)
    low = (means > 0) & (means < least)
    means = np.where(low, least, means)
    if mean_counts.size:
        total = means.sum(axis=1)
        seen = total > 0
        means[seen] *= (mean_counts[seen] / total[seen])[:, None]
    moves = ~low & (means > 0) & (before > 0)
    return means, np.where(moves, means / np.where(before > 0, before, 1.0), 1.0)


def expected_sizes(v, W, h):
    """E[L_k | v, h] = Σ_f v_f w_fk h_k / [Wh]_f, (K,)."""
    sizes = np.zeros(W.shape[1])
    for f in range(len(v)):
        if v[f]:
            sizes += v[f] * W[f] * h / (W[f] @ h)
    return sizes


def mean_field_bound(v, W, alpha, beta, L):
    """The lower bound of log p(v) with q(h_k) = Gamma(α_k + L_k, β_k + S_k) and the best q(C)."""
    rate = beta + W.sum(axis=0)
    shape = alpha + L
    mean, mean_log = shape / rate, special.psi(shape) - np.log(rate)
    value = -special.gammaln(v + 1.0).sum() - mean @ W.sum(axis=0)
    for f in np.flatnonzero(v):
        phi = W[f] * np.exp(mean_log)
        value += v[f] * np.log(phi.sum())
    prior = alpha * np.log(beta) - special.gammaln(alpha) + (alpha - 1) * mean_log - beta * mean
    own = shape * np.log(rate) - special.gammaln(shape) + (shape - 1) * mean_log - rate * mean
    return value + (prior - own).sum()


# Exposures and unobserved entries: v_fn ~ Poisson(s_n [W h_n]_f) where m_fn is True, F×N.


def observed_pieces(V, W, alpha, beta, s, m):
    """For each sample: every admissible C (F×K), its probability, and the rates R_kn."""
    K = W.shape[1]
    for n in range(V.shape[1]):
        seen = np.flatnonzero(m[:, n])
        rate = np.array([s[n] * sum(W[f, k] for f in seen) + beta[k] for k in range(K)])
        tensors, products = [], []
        for choice in itertools.product(*(compositions(int(V[f, n]), K) for f in seen)):
            C = np.zeros(W.shape)
            C[seen] = np.array(choice).reshape(seen.size, K)
            product = 1.0
            for k in range(K):
                p = [s[n] * W[f, k] / rate[k] for f in seen]
                c = [int(C[f, k]) for f in seen]
                product *= negative_multinomial_pmf(c, float(alpha[k]), p)
            tensors.append(C)
            products.append(product)
        yield tensors, np.array(products), rate


def observed_log_likelihood(V, W, alpha, beta, s, m):
    """log p(V | W) with exposures s (N,), of the entries that m (F×N) says were observed."""
    pieces = observed_pieces(V, W, alpha, beta, s, m)
    return sum(math.log(products.sum()) for _, products, _ in pieces)


def observed_moments(V, W, alpha, beta, s, m):
    """E[c_fkn] (F×K×N), E[L_kn] (K×N) and E[h_kn] = (α_k + E[L_kn]) / R_kn (K×N)."""
    (F, K), N = W.shape, V.shape[1]
    c, h = np.zeros((F, K, N)), np.zeros((K, N))
    for n, (tensors, products, rate) in enumerate(observed_pieces(V, W, alpha, beta, s, m)):
        c[:, :, n] = sum(q * C for q, C in zip(products / products.sum(), tensors, strict=True))
        h[:, n] = (alpha + c[:, :, n].sum(axis=0)) / rate
    return c, c.sum(axis=0), h


def observed_em_step(V, W, alpha, beta, s, m, *, expanded=True):
    """One step of EM-C, parameter-expanded: (C, H) maximised in W and β, then β scaled back.

    Without `expanded`, one of EM-CH: in W alone.
    """
    c, _, h = observed_moments(V, W, alpha, beta, s, m)
    N = V.shape[1]
    new = np.zeros_like(W)
    for f in range(W.shape[0]):
        for k in range(W.shape[1]):
            below = sum(m[f, n] * s[n] * h[k, n] for n in range(N))
            new[f, k] = c[f, k].sum() / below if below > 0 else 0.0
            if expanded:
                new[f, k] *= beta[k] * h[k].sum() / (N * alpha[k])
    return new


def observed_prior_step(V, W, alpha, beta, s, m, eta, *, expanded=True):
    """`observed_em_step` with η Σ_f log(w_fk / S_k) added for each k, each column by an optimiser.

    The prior does not depend on the scale of a column, so the expanded step scales it as before.
    """
    c, _, h = observed_moments(V, W, alpha, beta, s, m)
    (F, K), N = W.shape, V.shape[1]
    new = np.zeros_like(W)
    for k in range(K):
        total = c[:, k].sum(axis=1)
        below = np.array([sum(m[f, n] * s[n] * h[k, n] for n in range(N)) for f in range(F)])

        def cost(x, total=total, below=below):
            w = np.exp(x)
            value = total @ x - w @ below + eta * (x.sum() - F * math.log(w.sum()))
            return -value, w * below - total - eta * (1.0 - F * w / w.sum())

        start = np.log((total + eta) / below.max())
        options = {"ftol": 1e-16, "gtol": 1e-12, "maxiter": 5000}
        x = optimize.minimize(cost, start, jac=True, method="L-BFGS-B", options=options).x
        new[:, k] = np.exp(x)
        if expanded:
            new[:, k] *= beta[k] * h[k].sum() / (N * alpha[k])
    return new


def observed_alpha(V, W, alpha, beta, s, m, k, new_W):
    """α_k that is best for the sizes L_kn at fixed means M_kn = (α_k/β_k) s_n Σ_f m_fn w_fk.

    The sizes are negative binomial with these means, those of `new_W`; the expectation over C is
    at (W, α).
    """
    means = alpha[k] / beta[k] * s * (m * new_W[:, [k]]).sum(axis=0)

    def expected(a):
        value = 0.0
        for n, (tensors, products, _) in enumerate(observed_pieces(V, W, alpha, beta, s, m)):
            if means[n] > 0:
                law = stats.nbinom(a, a / (a + means[n]))
                sizes = np.array([C[:, k].sum() for C in tensors])
                value += products / products.sum() @ law.logpmf(sizes)
        return value

    found = optimize.minimize_scalar(
        lambda x: -expected(math.exp(x)),
        bounds=(math.log(1e-4), math.log(1e4)),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return math.exp(found.x)


def recommend(h, W, n, seen):
    """The n features with the highest [Wh]_f of one sample, in a loop; ties by number."""
    expected = {f: float(np.einsum("k,k->", W[f], h)) for f in range(W.shape[0]) if not seen[f]}
    order = sorted((f for f in expected if expected[f] > 0), key=lambda f: (-expected[f], f))[:n]
    return order, [expected[f] for f in order]


def count_statistics(X):
    """The statistics of a predictive check, one at a time, from a dense array (N, F)."""
    totals = X.sum(axis=1)
    mean = totals.mean()
    dispersion = given_totals = 0.0
    if mean > 0:
        for f in range(X.shape[1]):
            x, share = X[:, f], X[:, f].sum() / X.sum()
            if share > 0:
                dispersion += share * (x.var() - x.mean()) / x.mean() ** 2
                squares = ((x - totals * share) ** 2 - x).sum()
                squares += 2 * share * ((x * totals).sum() - share * (totals**2).sum())
                given_totals += share * squares / (share**2 * (totals**2).sum())
    return [
        mean,
        totals.std() / mean if mean > 0 else 0.0,
        *(np.quantile(totals, level) for level in (0.05, 0.5, 0.95)),
        (X == 0).mean(),
        dispersion,
        given_totals,
        X.max(),
        X.max(axis=1).mean(),
    ]


def residual_spread(X, H, W, weights):
    """Σ_f u_f Σ_n [(x − μ)² − x] / Σ_f u_f Σ_n μ², term by term."""
    above = below = 0.0
    for n in range(X.shape[0]):
        for f in range(X.shape[1]):
            mu = float(W[f] @ H[n])
            above += weights[f] * ((X[n, f] - mu) ** 2 - X[n, f])
            below += weights[f] * mu**2
    return above / below


def online_averages(batches, K, alpha, beta, memory):
    """On-line EM's statistics and W after given mini-batches, every row scaled at every step.

    A batch has (c (F, K) summed over its samples, its number of samples n, γ). A row that a batch
    has counts of keeps at least (1 − γ) γ memory / n of what it weighed at its last visit.
    """
    F = batches[0][0].shape[0]
    s, visited = np.zeros((F, K)), np.zeros(F)  # s (F, K), and Σ_k s_fk at the last visit
    shares, totals, N = np.full((F, K), 1.0 / K), np.zeros(F), 0
    for c, n, gamma in batches:
        s = (1.0 - gamma) * s
        for f in range(F):
            if c[f].sum() == 0:
                continue
            least = min(visited[f], (1.0 - gamma) * gamma * memory / n)
            if s[f].sum() < least:
                s[f] = least * shares[f]
            s[f] = s[f] + gamma * c[f] / n
            visited[f] = s[f].sum()
            shares[f] = s[f] / visited[f]
        totals, N = totals + c.sum(axis=1), N + n
    return shares, visited, beta / alpha * shares * (totals / N)[:, None]


def token(i, index, at):
    """The 48 bits of token i of a large count, whose first words are at this index."""
    from gapmf.kernels.random import philox

    c1, c2, c3, k0, k1 = at
    block, half = divmod(i, 64)  # eight counters: their first words, then their second ones, …
    word, counter = divmod(half // 2, 8)
    first = int(philox(index + 8 * block + counter, c1, c2, c3, k0, k1)[word])
    first = first >> (16 * (half % 2)) & 0xFFFF
    more = int(philox(8 * index + i + 2**31, c1, c2, c3, k0, k1)[0])
    return (first << 32) | more


def count_beyond(v, p, rest, index, at):
    """How many of v tokens fall beyond each component: a token beyond k is below P(beyond k)."""
    K = len(p)
    out = np.zeros(K, dtype=np.int64)
    for i in range(v):
        x = token(i, index, at)
        k = 0
        while k + 1 < K and (p[k] == 0.0 or x < int(rest[k + 1] * 2.0**48)):
            out[k] += 1
            k += 1
    return out


def posterior_moments_of_directions(V, norms, alpha, beta, eta, n_nodes):
    """E[φ_1k | V] and E[φ_1k² | V] for F = K = 2, φ_k ~ Dirichlet(η) and w_k = S_k φ_k.

    By Gauss-Jacobi rules for both directions: the likelihood is a polynomial in them, so the rules
    are exact with |V|/2 + 2 nodes.
    """
    x, weights = special.roots_jacobi(n_nodes, eta - 1.0, eta - 1.0)
    nodes = (1.0 + x) / 2.0
    total, sums = 0.0, np.zeros((2, 2))
    for (i, a), (j, b) in itertools.product(enumerate(nodes), enumerate(nodes)):
        directions = np.array([[a, b], [1.0 - a, 1.0 - b]])
        mass = weights[i] * weights[j]
        for n in range(V.shape[1]):
            mass *= marginal_likelihood(V[:, [n]], directions * norms, alpha, beta)
        total += mass
        sums += mass * directions[0] ** np.array([[1], [2]])
    return sums / total
