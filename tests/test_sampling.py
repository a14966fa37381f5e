"""The three generative forms: one law. Each check states how often it would fail by chance."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import naive
from gapmf import (
    GaP,
    NegativeMultinomial,
    distributions,
    log_marginal_likelihood,
    negative_binomial,
)
from gapmf import model as model_module
from gapmf.model import FORMS

MODEL = GaP([[1.1, 0.1], [0.2, 0.9], [0.0, 0.4]], alpha=[0.6, 1.8], beta=[0.7, 1.6])
N = 20_000


def _check_moments(X, mean, cov):
    """Means and covariances within 4.5 standard errors: by chance once in 10⁴ calls."""
    error = np.sqrt(np.diag(cov) / len(X))
    z = (X.mean(axis=0) - mean) / np.where(error > 0, error, 1e-300)
    assert np.abs(z).max() < 4.5, f"means are {np.abs(z).max():.1f} standard errors off"
    centred = X - mean
    products = centred[:, :, None] * centred[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(X))
    z = (products.mean(axis=0) - cov) / np.where(error > 0, error, 1e-300)
    assert np.abs(z).max() < 4.5, f"covariances are {np.abs(z).max():.1f} standard errors off"


def check_law(X):
    """Moments, and a chi-square test against the exact probabilities at level 10⁻⁴."""
    W, alpha, beta = MODEL.W, MODEL.alpha, MODEL.beta
    _check_moments(X, MODEL.expected_counts(), naive.covariance(W, alpha, beta))
    cells = np.array(list(itertools.product(range(6), repeat=3)))
    probability = np.exp(log_marginal_likelihood(cells, MODEL).per_sample)
    common = probability * len(X) >= 10
    cells, probability = cells[common], probability[common]
    place = {tuple(cell): i for i, cell in enumerate(cells.tolist())}
    observed = np.bincount([place.get(tuple(x), len(cells)) for x in X.tolist()])
    expected = np.append(probability, 1 - probability.sum()) * len(X)
    p_value = stats.chisquare(observed, expected).pvalue
    assert p_value > 1e-4, f"chi-square against the exact probabilities: p = {p_value:.1g}"


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("form", FORMS)
def test_each_form_has_the_models_law(form, seed):
    check_law(MODEL.sample(N, form, random_state=seed))


@pytest.mark.parametrize("form", FORMS)
def test_latents_have_their_joint_law(form):
    """H, L and C together: the three forms agree on them, though only one starts from H."""
    X, (H, L, C) = MODEL.sample(N, form, random_state=2, return_latent=True)
    assert H.shape == L.shape == (N, 2)
    assert C.shape == (N, 2, 3)
    np.testing.assert_array_equal(C.sum(axis=1), X)
    np.testing.assert_array_equal(C.sum(axis=2), L)
    np.testing.assert_array_equal(MODEL.sample(N, form, random_state=2), X)
    a, b, S = MODEL.alpha, MODEL.beta, MODEL.column_norms
    for k in range(2):
        assert stats.kstest(H[:, k], stats.gamma(a[k], scale=1 / b[k]).cdf).pvalue > 1e-4
        _check_moments(C[:, k], MODEL.component(k).mean(), MODEL.component(k).cov())
        # given C, (β_k + S_k) h_k is Gamma(α_k + L_k, 1), whatever L_k
        u = stats.gamma(a[k] + L[:, k]).cdf(H[:, k] * (b[k] + S[k]))
        assert stats.kstest(u, "uniform").pvalue > 1e-4
        assert abs(stats.spearmanr(u, L[:, k]).statistic) < 4 / np.sqrt(N)
    assert abs(np.corrcoef(H.T)[0, 1]) < 4 / np.sqrt(N)


def _break_definition(monkeypatch):
    def draw(model, n_samples, rng):  # β taken for a scale
        H = rng.gamma(model.alpha, model.beta, (n_samples, model.n_components))
        return H, rng.poisson(H @ model.W.T)

    monkeypatch.setattr(model_module, "_draw_definition", draw)


def _break_definition_subtly(monkeypatch):
    def draw(model, n_samples, rng):  # right means, but h shared by the features is drawn anew
        shape = (n_samples, model.n_features, model.n_components)
        H = rng.gamma(model.alpha, 1 / model.beta, shape)
        return H[:, 0], rng.poisson((H * model.W).sum(axis=2))

    monkeypatch.setattr(model_module, "_draw_definition", draw)


def _break_theorem_1(monkeypatch):
    def rvs(self, size, rng):  # the chain forgets what came before
        rest = self.p0 + np.cumsum(self.p)
        q = np.where(self.p > 0, (rest - self.p) / rest, 1.0)
        return rng.negative_binomial(self.alpha, q, (size, self.p.size))

    monkeypatch.setattr(NegativeMultinomial, "rvs", rvs)


def _break_theorem_1_subtly(monkeypatch):
    def draw(model, k, n_samples, rng):  # one α for all
        alpha = model.alpha.mean()
        beta = model.beta[k] * alpha / model.alpha[k]
        return NegativeMultinomial.from_rates(alpha, beta, model.W[:, k]).rvs(n_samples, rng)

    monkeypatch.setattr(model_module, "_draw_theorem_1", draw)


def _break_theorem_2(monkeypatch):
    def swapped(alpha, p0):  # SciPy's p for the paper's
        return negative_binomial(alpha, p0)

    monkeypatch.setattr(distributions, "negative_binomial", swapped)


def _break_theorem_2_subtly(monkeypatch):
    def draw(model, k, n_samples, rng):  # a Poisson number of trials with the right mean
        S = model.column_norms[k]
        L = rng.poisson(model.alpha[k] / model.beta[k] * S, n_samples)
        return rng.multinomial(L, model.W[:, k] / S)

    monkeypatch.setattr(model_module, "_draw_theorem_2", draw)


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        (FORMS[0], _break_definition),
        (FORMS[0], _break_definition_subtly),
        (FORMS[1], _break_theorem_1),
        (FORMS[1], _break_theorem_1_subtly),
        (FORMS[2], _break_theorem_2),
        (FORMS[2], _break_theorem_2_subtly),
    ],
)
def test_the_check_sees_a_broken_form(form, fault, monkeypatch):
    fault(monkeypatch)
    X = MODEL.sample(N, form, random_state=0)
    with pytest.raises(AssertionError):
        check_law(X)


def test_edges():
    one = GaP([[2.0]], alpha=0.01)
    for form in FORMS:
        assert one.sample(1, form, random_state=0).shape == (1, 1)
        large = GaP([[1e5], [0.0]], alpha=50.0).sample(200, form, random_state=0)
        assert large[:, 1].sum() == 0
        assert large[:, 0].mean() == pytest.approx(5e6, rel=0.05)
        assert large.dtype == np.int64
