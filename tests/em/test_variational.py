"""VBEM: the bound is the one of its definition, below the likelihood, and never falls."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, psi

from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood
from gapmf.counts import check_counts
from gapmf.em.ascent import AscentState, run_ascent
from gapmf.em.variational import VariationalBound, better_alpha
from gapmf.engines.allocation import Allocator
from gapmf.kernels.mean_field import digamma, weighted_log


def problem(seed=0, N=6, F=4, K=3, alpha=(0.3, 1.0, 4.0), scale=3.0):
    rng = np.random.default_rng(seed)
    model = GaP(rng.gamma(0.5, scale, (F, K)), alpha=alpha, beta=rng.gamma(2.0, 1.0, K))
    X = model.sample(N, random_state=seed)
    X[0] = 0
    return model, X


def literal_bound(X, model, L_in, n_passes):
    """E_q[log p(v, c, h) − log q(c, h)], a term at a time, after updates in plain NumPy."""
    S, total = model.column_norms, 0.0
    L_out = np.empty_like(L_in)
    for n, v in enumerate(X):
        L = L_in[n]
        for _ in range(n_passes):
            phi = model.W / (model.beta + S) * np.exp(psi(model.alpha + L))
            phi = phi / phi.sum(axis=1, keepdims=True)
            L = v @ phi
        a, b = model.alpha + L, model.beta + S
        mean, mean_log = a / b, psi(a) - np.log(b)
        c = v[:, None] * phi
        # Σ log c! is in log p(c | h) and in the entropy of q(c), with opposite signs
        total += (c * (np.log(model.W) + mean_log)).sum() - S @ mean
        prior = model.alpha * np.log(model.beta) - gammaln(model.alpha)
        total += (prior + (model.alpha - 1) * mean_log - model.beta * mean).sum()
        total += -gammaln(v + 1.0).sum() - (c * np.log(phi)).sum()
        total += stats.gamma(a, scale=1 / b).entropy().sum()
        L_out[n] = L
    return total, L_out


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_the_one_of_its_definition(seed):
    model, X = problem(seed)
    bound = VariationalBound(Allocator(check_counts(X)))
    L = np.random.default_rng(seed).gamma(1.0, 1.0, (6, 3))
    at = bound.e_step(model, L)
    value, L_out = literal_bound(X, model, L, n_passes=4)
    assert at.value == pytest.approx(value, rel=1e-11)
    np.testing.assert_allclose(at.L, L_out, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(at.statistics.c_sum.sum(axis=0), L_out.sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(at.statistics.c_sum.sum(axis=1), X.sum(axis=0), rtol=1e-12)


EDGES = {
    "any": {},
    "one component": {"K": 1, "alpha": 0.7},
    "one sample": {"N": 1},
    "one feature": {"F": 1},
    "small alpha": {"alpha": 0.01},
    "tiny alpha": {"alpha": 1e-4},
    "large counts": {"scale": 1e5, "N": 2, "K": 2, "alpha": 0.5},
}


@pytest.mark.parametrize("learn_alpha", [None, "component", "shared"])
@pytest.mark.parametrize("name", EDGES)
def test_the_bound_never_falls_and_lies_below_the_likelihood(name, learn_alpha):
    truth, X = problem(5, **EDGES[name])
    bound = VariationalBound(Allocator(check_counts(X)), learn_alpha)
    W = np.random.default_rng(1).gamma(1.0, 1.0, truth.W.shape)
    model = GaP(W, alpha=truth.alpha[0] if learn_alpha == "shared" else truth.alpha)
    last = -np.inf
    first = AscentState(model, bound.first_sizes(model, given=False))
    for state, at in run_ascent(bound, first, max_iter=25, tol=0.0):
        assert at.value >= last - 1e-13 * abs(last)
        exact = log_marginal_likelihood(X, state.model).total
        assert at.value <= exact + 1e-9 * max(1.0, abs(exact))
        last = at.value
    if truth.n_components == 1 and learn_alpha is None:  # q is then the posterior
        assert last == pytest.approx(exact, rel=1e-12)


def test_zeros_in_w_and_impossible_components():
    """Rates stay positive where a weight underflows: α is tiny and only one component fits."""
    X = np.array([[5, 0, 0], [0, 3, 0], [4, 2, 0], [0, 0, 0]])
    model = GaP([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], alpha=1e-4)
    bound = VariationalBound(Allocator(check_counts(X)))
    at = bound.e_step(model, np.zeros((4, 3)))
    np.testing.assert_allclose(at.L, [[5, 0, 0], [0, 3, 0], [4, 2, 0], [0, 0, 0]], atol=1e-12)
    assert at.value == pytest.approx(log_marginal_likelihood(X, model).total, rel=1e-12)


def test_the_m_step_is_the_maximum_of_the_bound_over_w():
    """Given φ and the best q(h): no scaling of a column, and no other direction, is better."""
    model, X = problem(2)
    bound = VariationalBound(Allocator(check_counts(X)))
    at = bound.e_step(model, bound.first_sizes(model, given=True))
    best = bound.m_step(model, at)

    def given_phi(m):
        c, L = at.statistics.c_sum, at.L
        value = (c * np.log(m.event_probabilities)).sum()
        value -= X.shape[0] * (m.alpha @ np.log1p(m.column_norms / m.beta))
        return value + (gammaln(m.alpha + L) - gammaln(m.alpha)).sum()

    rng = np.random.default_rng(0)
    for _ in range(50):
        other = GaP(best.W * np.exp(rng.normal(0.0, 0.01, best.W.shape)), best.alpha, best.beta)
        assert given_phi(other) < given_phi(best)


@pytest.mark.parametrize("shared", [False, True])
def test_alpha_reaches_the_top_of_the_bound_given_phi(shared):
    rng = np.random.default_rng(4)
    L, times = rng.gamma([0.3, 2.0], 3.0, (40, 2)), rng.integers(1, 4, 40).astype(float)

    def value(alpha):
        m, x = times @ L / times.sum(), times @ (gammaln(alpha + L) - gammaln(alpha))
        return x - times.sum() * (alpha * np.log1p(m / alpha) + m * np.log(alpha + m))

    for first in (1e-3, 1.0, 1e3):
        alpha = np.full(2, first)
        for _ in range(60):
            new = better_alpha(L, times, alpha, shared=shared)
            gained = value(new) - value(alpha)
            assert (gained.sum() if shared else gained.min()) >= -1e-9
            alpha = new
        tops = np.exp(np.linspace(-0.02, 0.02, 5))[:, None] * alpha
        values = np.array([value(row) for row in tops])
        values = values.sum(axis=1, keepdims=True) if shared else values
        assert (values.argmax(axis=0) == 2).all()


def test_a_component_without_counts_keeps_its_alpha():
    L = np.array([[3.0, 0.0], [1.0, 0.0], [9.0, 0.0]])
    new = better_alpha(L, np.ones(3), np.array([1.0, 0.25]), shared=False)
    assert new[1] == 0.25
    assert new[0] != 1.0


@pytest.mark.filterwarnings("ignore:the learned α of components")
def test_learned_alpha_raises_the_bound():
    _, X = problem(1, N=60, F=6)
    fits = {
        how: GammaPoissonMF(3, algorithm="vbem", learn_alpha=how, random_state=0, tol=1e-7)
        for how in (False, "shared", "component")
    }
    values = [est.fit(X).history_["bound"][-1] for est in fits.values()]
    assert values[0] < values[1]
    assert values[0] < values[2]
    assert np.ptp(fits["shared"].alpha_) == 0.0


def test_digamma_and_the_sum_of_logarithms():
    x = np.concatenate([np.geomspace(1e-10, 1e8, 200), np.linspace(0.1, 12.0, 100)])
    np.testing.assert_allclose([digamma(v) for v in x], psi(x), rtol=2e-14, atol=1e-14)
    rng = np.random.default_rng(0)
    v, rate = rng.integers(1, 7, 200).astype(float), np.exp(rng.uniform(-650, 300, 200))
    assert weighted_log(0, 200, v, rate) == pytest.approx(v @ np.log(rate), rel=1e-13)


def test_samples_and_their_weights():
    """A sample that counts twice is the same as two of it; threads change no bit."""
    rng = np.random.default_rng(0)
    truth = GaP(rng.gamma(0.3, 5.0, (30, 7)), alpha=0.4)
    X = truth.sample(50, random_state=0)
    times = rng.integers(1, 4, 50).astype(float)
    found = [
        Allocator(check_counts(X), n_jobs, times).allocate(
            truth.event_probabilities, truth.alpha, np.ones((50, 7)), n_passes=2
        )
        for n_jobs in (1, 2, 3)
    ]
    for other in found[1:]:
        assert other.value == found[0].value
        for part in ("c_sum", "L", "weights"):
            np.testing.assert_array_equal(getattr(other, part), getattr(found[0], part))
    repeated = Allocator(check_counts(np.repeat(X, times.astype(int), axis=0))).allocate(
        truth.event_probabilities, truth.alpha, np.ones((int(times.sum()), 7)), n_passes=2
    )
    assert repeated.value == pytest.approx(found[0].value, rel=1e-13)
    np.testing.assert_allclose(repeated.c_sum, found[0].c_sum, rtol=1e-11, atol=1e-12)
