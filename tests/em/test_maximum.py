"""The maximum itself, and its certificate."""

from __future__ import annotations

import numpy as np
import pytest

from gapmf import GaP, log_marginal_likelihood
from gapmf.counts import check_counts
from gapmf.datasets import paper_model, paper_synthetic
from gapmf.em.exact_em import em_c_step
from gapmf.em.expectation import ExactExpectation
from gapmf.em.history import History
from gapmf.em.maximum import certify, fit_maximum, improve
from gapmf.em.start import random_start


def _fit(X, W, alpha=1.0, beta=1.0):
    expect = ExactExpectation(check_counts(X))
    fit = fit_maximum(expect, GaP(W, alpha, beta), max_iter=1000, history=History())
    return expect, fit


def _start(X, K, seed, alpha=1.0, beta=1.0):
    a, b = np.broadcast_to(alpha, K).astype(float), np.broadcast_to(beta, K).astype(float)
    return random_start(X.mean(axis=0), a, b, np.random.default_rng(seed))


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), ([0.3, 2.0, 1.0], [1.0, 0.2, 5.0])])
def test_certificate_of_a_maximum(scale, alpha, beta):
    X, _ = paper_synthetic(scale, 15, random_state=1)
    expect, fit = _fit(X, _start(X, 3, 0, alpha, beta), alpha, beta)
    certificate = certify(expect, fit.model)
    assert fit.converged
    assert certificate.projected_gradient < 1e-3
    assert certificate.identity < 1e-12
    assert certificate.r.shape == (4,)
    assert fit.expectation.log_likelihood == pytest.approx(
        log_marginal_likelihood(X, fit.model).total, rel=1e-12
    )
    # no EM step, and no small random step, gains anything
    at = expect.e_step(fit.model)
    gain = expect.e_step(em_c_step(fit.model, at)).log_likelihood - at.log_likelihood
    assert gain < 1e-7
    rng = np.random.default_rng(0)
    for _ in range(20):
        W = fit.model.W * np.exp(rng.normal(0.0, 1e-3, fit.model.W.shape))
        assert expect.e_step(GaP(W, alpha, beta)).log_likelihood < at.log_likelihood + 1e-6


def test_certificate_sees_what_is_not_a_maximum():
    X, _ = paper_synthetic(10.0, 60, random_state=1)
    expect, fit = _fit(X, _start(X, 2, 0))
    off = certify(expect, GaP(fit.model.W * [1.0, 1.05]))
    assert off.projected_gradient > 0.05
    assert off.identity > 0.01
    # one column for data from two: another would help, and the score says so
    _, one = _fit(X, _start(X, 1, 0))
    score = certify(expect, one.model)
    assert score.projected_gradient < 1e-6
    assert score.r.max() > 1.05
    assert (score.r_error > 0).all()


def test_a_column_comes_back_from_zero():
    """r_f > 1 at the best single column: an empty second one must leave zero."""
    X, _ = paper_synthetic(100.0, 50, random_state=0)
    W = np.column_stack([X.mean(axis=0), np.zeros(4)])
    _, fit = _fit(X, W)
    assert fit.model.column_norms.min() > 1.0
    _, full = _fit(X, _start(X, 2, 0))
    best = full.expectation.log_likelihood
    assert fit.expectation.log_likelihood == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 3, 9, 11])
def test_a_column_goes_to_zero(seed):
    """Data of one component where no feature gains from a second (max r_f ≤ 1): it vanishes."""
    X = GaP([[3.0], [1.0]]).sample(60, random_state=seed)
    expect, fit = _fit(X, _start(X, 2, 0))
    one = GaP(X.mean(axis=0)[:, None])
    assert expect.score(one)[0].max() < 1.0
    assert fit.model.column_norms.min() == 0.0
    best = expect.e_step(one).log_likelihood
    assert fit.expectation.log_likelihood == pytest.approx(best, abs=1e-9)
    certificate = certify(expect, fit.model)
    assert certificate.r.max() < 1.0
    assert certificate.projected_gradient < 1e-5


@pytest.mark.slow
def test_regrowing_finds_a_better_place_for_the_spare_column():
    """Two maxima 0.06 nats apart; nine starts in ten end at the lower one."""
    X, _ = paper_synthetic(100.0, random_state=3)
    expect, fit = _fit(X, _start(X, 3, 0))
    history = History()
    better = improve(expect, fit, max_iter=1000, history=history)
    gain = better.expectation.log_likelihood - fit.expectation.log_likelihood
    assert gain == pytest.approx(0.0556, abs=1e-3)
    assert history.model is better.model
    assert certify(expect, better.model).projected_gradient < 1e-3
    again = improve(expect, better, max_iter=1000, history=history)
    assert again.model is better.model  # nothing better is found
    one = fit_maximum(expect, GaP(X.mean(axis=0)[:, None]), max_iter=10, history=History())
    assert improve(expect, one, max_iter=10, history=History()) is one


@pytest.mark.slow
def test_exchanging_columns_finds_who_is_who():
    """With unequal α every assignment of α to the columns is a basin; one start is enough."""
    truth = GaP(paper_model(30.0).W, [0.4, 2.5], [0.5, 3.0])
    X = truth.sample(100, random_state=3)
    alpha, beta = [0.4, 2.5], [0.5, 3.0]
    top = [_fit(X, _start(X, 2, seed, alpha, beta), alpha, beta) for seed in range(4)]
    best = max(fit.expectation.log_likelihood for _, fit in top)
    worst = min(top, key=lambda pair: pair[1].expectation.log_likelihood)
    assert worst[1].expectation.log_likelihood < best - 1.0
    fit = improve(*worst, max_iter=1000, history=History())
    assert fit.expectation.log_likelihood == pytest.approx(best, abs=1e-4)


def test_features_without_counts_stay_at_zero_and_empty_data_are_legal():
    X = np.array([[3, 0, 1], [0, 0, 2], [5, 0, 4]])
    expect, fit = _fit(X, _start(X, 2, 0))
    assert (fit.model.W[1] == 0).all()
    assert np.isfinite(certify(expect, fit.model).projected_gradient)
    nothing = np.zeros((4, 2), dtype=int)
    expect, fit = _fit(nothing, np.ones((2, 2)))
    assert fit.expectation.log_likelihood == 0.0
    assert fit.model.W.max() == 0.0
    off = certify(expect, GaP(np.ones((2, 2))))
    assert off.projected_gradient > 1.0
    assert off.identity > 0.1


def test_certificate_is_in_nats_of_moving_one_share():
    """A column of a thousandth that had better be empty: down to zero gains its slope times it."""
    X = GaP([[3.0], [1.0]]).sample(60, random_state=0)
    mean = X.mean(axis=0)
    expect = ExactExpectation(check_counts(X))
    model = GaP(np.column_stack([0.999 * mean, 0.001 * mean]))
    slope = expect.e_step(model).gradient * mean[:, None]
    expected = max((0.001 * slope[:, 1]).max(), (-slope).max(), (0.999 * slope[:, 0]).max())
    assert certify(expect, model).projected_gradient == pytest.approx(expected)
