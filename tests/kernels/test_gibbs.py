"""The Gibbs kernel against exact moments, against its own joint distribution, and at the edges.

Seeds are fixed. A statistical test refuses a correct kernel with probability 1e-4 or less a
regime; moments are compared by z-scores over independent chains.
"""

import numpy as np
import pytest
from scipy import stats

import naive
from chains import burnt_in, draws, one_sweep
from component_sizes import law_of_sizes
from gapmf import GaP
from gapmf.counts import check_counts
from gapmf.engines import parts
from gapmf.engines.base import State, Sweeps
from gapmf.engines.local import LocalEngine
from gapmf.likelihood.moments import posterior_moments

REFUSE = 1e-4
N_CHAINS = 1200

W3 = np.array([[2.0, 0.3, 0.9], [0.1, 1.5, 0.8], [0.6, 0.0, 1.1], [0.4, 0.7, 0.05]])

REGIMES = {
    "few counts": ([2, 0, 3, 1], W3, 1.0, 60),
    "few counts, small alpha": ([2, 0, 3, 1], W3, 0.05, 150),
    "more counts": ([30, 9, 14, 7], W3, 5.0, 150),
    "unequal alpha": ([12, 20, 3, 5], W3, [0.05, 1.0, 5.0], 150),
    "large counts": ([300, 150, 40, 0], W3 * [5.0, 1.0, 0.2], 1.0, 400),
    "large counts, large alpha": ([220, 2, 140, 131], W3, 5.0, 400),
    "empty": ([0, 0, 0, 0], W3, 0.3, 1),
    "a column of zeros": ([4, 2, 5, 0], W3 * [1.0, 0.0, 1.0], 0.5, 60),
    "two components": ([9, 3, 1, 4], W3[:, :2], 0.4, 60),
    "one component": ([9, 3, 1, 4], W3[:, :1], 0.4, 1),
    "one feature": ([17], W3[:1], 0.7, 150),
}
EACH = [
    pytest.param(name, marks=[pytest.mark.slow] if name.startswith("large") else [])
    for name in REGIMES
]


def z_scores(sample, mean):
    """How far sample means (over axis 0) are from their expectations, in standard errors."""
    sd = sample.std(axis=0, ddof=1)
    off = sample.mean(axis=0) - mean
    assert (np.abs(off[sd == 0]) < 1e-9 * (1 + np.abs(mean[sd == 0]))).all()
    return off[sd > 0] / (sd[sd > 0] / np.sqrt(len(sample)))


def refuse_far(z):
    assert np.abs(z).max(initial=0.0) < stats.norm.isf(REFUSE / 2 / max(z.size, 1)), z


def refuse_counts(seen, expected):
    """A χ² test of counts; bins of which few are expected are taken together."""
    order = np.argsort(expected)
    group = np.minimum(np.cumsum(expected[order]) // 8, 1e9)
    group = np.unique(group, return_inverse=True)[1]
    seen, expected = (np.bincount(group, weights=x[order]) for x in (seen, expected))
    if seen.size > 1:
        assert stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > REFUSE


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_moments_are_the_exact_ones(name):
    """Means and second moments of L, h and C, from draws and from expectations of C."""
    v, W, alpha, burn_in = REGIMES[name]
    model = GaP(W, alpha=alpha, beta=[1.0, 0.5, 2.0][: W.shape[1]])
    exact = posterior_moments([v], model)
    sizes, p = law_of_sizes(v, model)
    C_exact = np.zeros(W.shape)
    C_exact[exact.counts.indices] = exact.c
    X, before = burnt_in(v, model, n_chains=N_CHAINS, n_burn_in=burn_in, seed=3)
    L, h, C = one_sweep(X, model, before, seed=3, iteration=1)
    assert (C.sum(axis=2) == v).all()
    np.testing.assert_array_equal(C.sum(axis=1), L)
    refuse_far(z_scores(L, p @ sizes))
    refuse_far(z_scores(L.astype(float) ** 2, p @ sizes**2))
    refuse_far(z_scores(h, exact.h[0]))
    refuse_far(z_scores(h[:, :, None] * h[:, None, :], exact.h_second[0]))
    refuse_far(z_scores(C, C_exact))
    same_L, same_h, expected_C = one_sweep(X, model, before, seed=3, iteration=1, expectations=True)
    np.testing.assert_array_equal(same_L, L)
    np.testing.assert_array_equal(same_h, h)
    np.testing.assert_allclose(expected_C.sum(axis=2), np.tile(v, (N_CHAINS, 1)), rtol=1e-6)
    refuse_far(z_scores(expected_C, C_exact))
    assert expected_C.var() <= C.var()


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_the_sum_of_scaled_activations_is_gamma(name):
    """Σ_k (S_k + β_k) h_kn ~ Gamma(A + |v_n|, 1), whatever W is."""
    v, W, alpha, burn_in = REGIMES[name]
    model = GaP(W, alpha=alpha)
    _, h, _ = draws(v, model, n_chains=N_CHAINS, n_burn_in=burn_in, seed=8)
    s = h @ (model.column_norms + model.beta)
    assert stats.kstest(s, stats.gamma(model.alpha.sum() + sum(v)).cdf).pvalue > REFUSE


@pytest.mark.slow
@pytest.mark.parametrize("name", ["few counts, small alpha", "unequal alpha", "one feature"])
def test_the_law_of_sizes_is_the_exact_one(name):
    """The histogram of L that the engine keeps, over independent chains."""
    v, W, alpha, burn_in = REGIMES[name]
    model = GaP(W, alpha=alpha)
    engine = LocalEngine().load(check_counts(np.tile(v, (N_CHAINS, 1))), seed=4)
    s = engine.advance(model, Sweeps(1, burn_in, sizes=True))
    sizes, p = law_of_sizes(v, model)
    assert s.sizes.shape == (model.n_components, sum(v) + 1)
    for k in range(model.n_components):
        expected = np.bincount(sizes[:, k], weights=p, minlength=sum(v) + 1) * N_CHAINS
        refuse_counts(s.sizes[k], expected)
    np.testing.assert_array_equal(
        s.sizes @ np.arange(sum(v) + 1), s.c_sum.sum(axis=0)
    )  # one draw each: the histogram and the sum of C tell the same L


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "largest"), [(0.3, 128), (2.0, 128), (0.3, 2), (0.05, 5)])
def test_joint_distribution(alpha, largest, monkeypatch):
    """Geweke's test, from stationarity.

    Chains begin with (h, C) from the prior. In turns, C of some features is drawn anew given h
    (the counts change with it), and the kernel draws h and C given the counts. Both leave the
    joint distribution alone, so after any number of turns h and L have their prior laws.
    """
    monkeypatch.setattr(parts, "LARGEST", largest)
    rng = np.random.default_rng(5)
    W = np.array([[3.0, 0.2], [0.5, 1.0], [0.0, 2.5], [1.0, 0.7]])
    model = GaP(W, alpha=[alpha, 2 * alpha], beta=[0.5, 1.5])
    N = 2000
    h = rng.gamma(model.alpha, 1 / model.beta, (N, 2))
    C = rng.poisson(W * h[:, None, :])
    for turn in range(8):
        anew = rng.random((N, 4)) < 0.5
        C = np.where(anew[:, :, None], rng.poisson(W * h[:, None, :]), C)
        L, h, C = one_sweep(C.sum(axis=2), model, C.sum(axis=1), seed=6, iteration=turn)
        C = C.astype(np.int64)
    for k in range(2):
        prior = stats.gamma(model.alpha[k], scale=1 / model.beta[k])
        cuts = np.unique(prior.cdf(np.append(1e-9, prior.ppf(np.linspace(0.02, 1, 50)))))
        seen = np.histogram(prior.cdf(h[:, k]), np.append(0.0, cuts[cuts >= prior.cdf(1e-9)]))[0]
        refuse_counts(seen, N * np.diff(np.append(0.0, cuts[cuts >= prior.cdf(1e-9)])))
        law = stats.nbinom(model.alpha[k], model.beta[k] / (model.beta[k] + W[:, k].sum()))
        expected = N * np.append(law.pmf(np.arange(60)), law.sf(59))
        seen = np.bincount(np.minimum(L[:, k], 60), minlength=61)
        refuse_counts(seen, expected)
    refuse_far(z_scores(h[:, 0] * h[:, 1], (model.alpha / model.beta).prod()))
    refuse_far(z_scores(C, W * model.alpha / model.beta))


@pytest.mark.slow
def test_agrees_with_the_literal_sampler():
    """Five components, too many for quadrature: both samplers' Σ c and Σ h, over the samples."""
    rng = np.random.default_rng(2)
    W = rng.gamma(0.5, 1.0, (6, 5))
    alpha, beta = np.array([0.2, 0.5, 1.0, 1.0, 3.0]), np.full(5, 0.7)
    v = np.array([5, 0, 9, 1, 12, 3])
    N = 300
    V = np.tile(v[:, None], (1, N))
    C = np.zeros((6, 5, N), dtype=np.int64)
    C[np.arange(6), W.argmax(axis=1)] = V
    C, H = naive.gibbs(V, W, alpha, beta, C, 60, rng)
    _, h, c = draws(v, GaP(W, alpha, beta), n_chains=N_CHAINS, n_burn_in=60, seed=1)
    for slow, fast in ((H.T, h), (C.transpose(2, 0, 1), c)):
        gap = slow.mean(axis=0) - fast.mean(axis=0)
        se = np.sqrt(slow.var(axis=0) / N + fast.var(axis=0) / N_CHAINS)
        refuse_far(gap[se > 0] / se[se > 0])


def test_large_counts_take_no_longer():
    """A count of 10⁹: by its size alone it would take hours."""
    model = GaP(W3, alpha=0.5)
    v = np.array([10**9, 3 * 10**8, 7, 0])
    engine = LocalEngine().load(check_counts(v[None]), seed=0)
    s = engine.advance(model, Sweeps(50, 50))
    np.testing.assert_array_equal(s.c_sum.sum(axis=1), 50.0 * v)
    scaled = (model.column_norms + model.beta) @ s.h_sum / 50
    assert scaled == pytest.approx(v.sum() + 1.5, abs=4 * np.sqrt(v.sum() / 50))


@pytest.mark.parametrize("expectations", [False, True])
def test_underflowing_totals(expectations):
    """Components that alone can make a count, with no activation to speak of.

    The state says that everything came from component 0. At α = 0.001 the others' activations
    are e^-1000 and less, far below single precision and mostly below double.
    """
    W = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1e-3], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    model = GaP(W, alpha=0.001)
    v = np.array([5, 7, 11, 2])
    N = 50
    L = np.tile([25, 0, 0], (N, 1))
    X = np.tile(v, (N, 1))
    new, h, C = one_sweep(X, model, L, seed=1, expectations=expectations)
    assert (h[:, 1:] < 1e-30).mean() > 0.9
    assert np.isfinite(C).all()
    np.testing.assert_allclose(C.sum(axis=2), X, rtol=1e-6)
    assert (C[:, 0, 1:] == 0).all()
    np.testing.assert_allclose(C[:, 2, 2], 11.0, rtol=1e-6)
    np.testing.assert_allclose(C[:, 3, 0], 2.0, rtol=1e-6)
    assert (new.sum(axis=1) == 25).all()
    assert (new[:, 0] == 7).all()
    if not expectations:
        np.testing.assert_array_equal(C.sum(axis=1), new)
    # Which of 1 and 2 made feature 1 depends on e^-1000 / e^-1100: both happen.
    assert 0 < (C[:, 1, 1] > 3.5).sum() < N


def test_small_alpha_underflows_nowhere():
    """α = 0.01 from the prior mean: finite sums, and exact ones where components do not mix."""
    rng = np.random.default_rng(0)
    W = np.kron(np.eye(3), np.ones((4, 1)))
    X = rng.poisson(2.0, (40, 12))
    X[5] = 0
    engine = LocalEngine().load(check_counts(X), seed=2)
    for expectations in (False, True):
        s = engine.advance(GaP(W, alpha=0.01), Sweeps(20, 5, expectations=expectations))
        np.testing.assert_allclose(s.c_sum, 20 * X.sum(axis=0)[:, None] * W, rtol=1e-12)
        assert np.isfinite(s.h_sum).all()
    np.testing.assert_array_equal(engine.state.L, X @ W)


def test_interrupted_chains_go_on_as_if_they_had_not_stopped():
    X = check_counts(np.random.default_rng(1).poisson(1.0, (30, 8)))
    model = GaP(np.random.default_rng(2).gamma(1.0, 1.0, (8, 3)))
    a, b = LocalEngine().load(X, seed=9), LocalEngine().load(X, seed=9)
    a.advance(model, Sweeps(3))
    state = a.state
    b.state = State(state.L, state.iteration)
    for x, y in zip(
        (a.advance(model, Sweeps(2, 1)), a.advance(model, Sweeps(1))),
        (b.advance(model, Sweeps(2, 1)), b.advance(model, Sweeps(1))),
        strict=True,
    ):
        np.testing.assert_array_equal(x.c_sum, y.c_sum)
        np.testing.assert_array_equal(x.h_sum, y.h_sum)


@pytest.mark.parametrize("alpha", [1.0, 0.002])
def test_few_lanes_are_drawn_like_many(alpha):
    """Eight sweeps make the words at once and draw few lanes by themselves; seven do not.

    From one state, the draws of the first seven are the same; at α = 0.002 some totals underflow.
    """
    rng = np.random.default_rng(3)
    W = np.array([[2.0, 0.3, 0.9], [0.1, 1.5, 0.8], [0.6, 0.0, 1.1], [0.0, 0.7, 0.0]])
    X = rng.poisson(rng.gamma(0.4, 3.0, (60, 1)), (60, 4))
    X[:3] = [[0, 0, 0, 0], [16, 15, 0, 16], [3, 16, 16, 16]]
    L = np.zeros((60, 3), dtype=np.int64)
    L[:, 0] = X.sum(axis=1)
    found = []
    for sweeps in (Sweeps(7), Sweeps(8), Sweeps(1, 7)):
        engine = LocalEngine().load(check_counts(X), seed=11)
        engine.state = State(L, 2)
        found.append(engine.advance(GaP(W, alpha=alpha), sweeps))
    seven, eight, last = found
    np.testing.assert_array_equal(seven.c_sum, eight.c_sum - last.c_sum)
    np.testing.assert_allclose(seven.h_sum, eight.h_sum - last.h_sum, rtol=1e-9)
