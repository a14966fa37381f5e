"""schedule="posterior": draws of directions, their posterior mean, and what a fit returns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import naive
from gapmf import GammaPoissonMF, GaP, document_completion
from gapmf.counts import check_counts
from gapmf.em.posterior_mean import draw_directions
from gapmf.engines.base import Sweeps
from gapmf.engines.local import LocalEngine
from gapmf.errors import InvalidInputError
from gapmf.kernels.directions import draw_gammas
from gapmf.likelihood.predictive import split_tokens

SIGMAS = 4.5  # a right value is further off with probability 7e-6


def test_directions_are_dirichlet():
    """Means and variances of 4,000 draws, shapes from 0.02 to 300; an empty column stays empty."""
    shapes = np.array([[0.02, 4.0, 0.0], [0.9, 300.0, 0.0], [1.5, 0.05, 0.0], [0.3, 30.0, 0.0]])
    totals = shapes.sum(axis=0)
    model = GaP(shapes * [0.5, 2.0, 1.0], alpha=0.7)
    draws = np.array([draw_directions(model, totals, 7, i) for i in range(4000)])
    np.testing.assert_allclose(
        draws.sum(axis=1), np.broadcast_to(model.column_norms, (4000, 3)), rtol=1e-12
    )
    assert not draws[:, :, 2].any()
    found = draws[:, :, :2] / model.column_norms[:2]
    mean = shapes[:, :2] / totals[:2]
    variance = mean * (1.0 - mean) / (totals[:2] + 1.0)
    assert np.all(np.abs(found.mean(axis=0) - mean) < SIGMAS * np.sqrt(variance / 4000))
    # The variance of a squared deviation, from its own draws.
    squares = (found - mean) ** 2
    error = squares.std(axis=0) / np.sqrt(4000)
    assert np.all(np.abs(squares.mean(axis=0) - variance) < SIGMAS * error)


def test_draws_do_not_depend_on_how_features_are_divided():
    rng = np.random.default_rng(0)
    W, scale = GaP(rng.gamma(0.5, 1.0, (50, 3)) + 0.1).W, np.array([1.0, 40.0, 0.5])
    whole, parts, words = np.empty_like(W), np.empty_like(W), np.empty(12, np.uint32)
    draw_gammas(0, 50, W, scale, np.uint64(3), 5, words, whole)
    for first, last in ((0, 7), (7, 31), (31, 50)):
        draw_gammas(first, last, W, scale, np.uint64(3), 5, words, parts)
    np.testing.assert_array_equal(whole, parts)
    draw_gammas(0, 50, W, scale, np.uint64(3), 6, words, parts)
    assert not (whole == parts).any()


@pytest.mark.slow
def test_draws_of_c_and_w_have_the_posterior_of_directions():
    """Against integration over both directions (F = 2), with norms, α and β as they are."""
    alpha, beta, norms, eta = np.array([0.5, 2.0]), np.array([1.0, 1.0]), np.array([6.0, 1.5]), 1.5
    X = np.array([[5, 1], [0, 2], [3, 0], [6, 2], [0, 0]])
    expected = naive.posterior_moments_of_directions(X.T, norms, alpha, beta, eta, n_nodes=12)
    engine = LocalEngine().load(check_counts(X), seed=11)
    model, seen = GaP(np.tile(norms / 2.0, (2, 1)), alpha, beta), []
    for i in range(4200):
        C = engine.advance(model, Sweeps(1)).c_sum + eta
        mean = GaP(C * (norms / C.sum(axis=0)), alpha, beta)
        model = GaP(draw_directions(mean, C.sum(axis=0), 5, i), alpha, beta)
        seen.append([model.W[0] / norms, (model.W[0] / norms) ** 2])
    batches = np.array(seen[200:]).reshape(40, 100, 2, 2).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(40)
    assert np.all(error < 0.013)
    assert np.all(np.abs(batches.mean(axis=0) - expected) < SIGMAS * error)


def test_one_component_is_the_mean_of_a_dirichlet():
    """With K = 1, C is V: no draw enters the direction."""
    X = np.array([[4, 0, 1], [2, 0, 0], [7, 0, 3]])
    est = GammaPoissonMF(1, schedule="posterior", pseudo_count=0.25, random_state=0).fit(X)
    direction = (X.sum(axis=0) + 0.25) / (X.sum() + 0.75)
    np.testing.assert_allclose(est.components_[0], X.sum() / 3 * direction, rtol=1e-12)
    assert est.converged_


def topics(seed, N):
    """Short documents of 8 topics: 20 tokens, 200 words."""
    rng = np.random.default_rng(0)
    truth = GaP(20 * rng.dirichlet(np.full(200, 0.1), 8).T / 8 / 0.2, alpha=0.2)
    return sp.csr_array(truth.sample(N, random_state=seed))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the learned α of components")
def test_the_mean_predicts_better_than_the_mode():
    """Threads change no bit."""
    train, test = topics(1, 300), topics(2, 300)
    shown, hidden = split_tokens(test, 0.5, np.random.default_rng(0))
    settings = {"learn_alpha": True, "pseudo_count": "auto", "random_state": 0}
    mode = GammaPoissonMF(8, **settings).fit(train)
    mean = GammaPoissonMF(8, schedule="posterior", **settings).fit(train)
    scores = [
        document_completion(shown, hidden, est, random_state=0).log_p_token for est in (mode, mean)
    ]
    assert scores[1] > scores[0] + 0.01
    assert mean.converged_
    assert 0.0 < mean.pseudo_count_ < 1.0
    other = GammaPoissonMF(8, schedule="posterior", n_jobs=2, **settings).fit(train)
    np.testing.assert_array_equal(other.components_, mean.components_)


def test_exposures_scale_samples_and_nothing_else():
    """One component: the norm is EM-C's with exposures, the direction a Dirichlet's mean."""
    X, s = np.array([[4, 0, 1], [2, 0, 0], [7, 0, 3]]), np.array([1.0, 0.5, 3.0])
    settings = {"pseudo_count": 0.25, "random_state": 0}
    est = GammaPoissonMF(1, schedule="posterior", **settings).fit(X, exposure=s)
    mode = GammaPoissonMF(1, **settings).fit(X, exposure=s)
    direction = (X.sum(axis=0) + 0.25) / (X.sum() + 0.75)
    np.testing.assert_allclose(est.components_ / est.components_.sum(), [direction], rtol=1e-12)
    np.testing.assert_allclose(est.components_.sum(), mode.components_.sum(), rtol=0.02)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "needs a prior on the components, but pseudo_count is 0"),
        ({"pseudo_count": 0.1, "algorithm": "mcem-ch"}, "fits norms as 'mcem-c' does"),
    ],
)
def test_what_has_no_posterior_is_refused(parameters, message):
    with pytest.raises(InvalidInputError, match=message):
        GammaPoissonMF(2, schedule="posterior", **parameters).fit([[1, 2], [3, 4]])


def test_unobserved_entries_are_refused():
    est = GammaPoissonMF(2, schedule="posterior", pseudo_count=0.1)
    with pytest.raises(InvalidInputError, match="unobserved entries: use schedule='adaptive'"):
        est.fit([[1, 2], [3, 4]], observed=[[True, False], [True, True]])


def test_copies_of_samples_choose_no_smaller_eta():
    """Copies share a half, and the halves share no random numbers: else η falls to its bound."""
    X = topics(3, 120)
    est = GammaPoissonMF(3, schedule="posterior", pseudo_count="auto", tol=1e-3, random_state=0)
    est.fit(X, sample_weight=np.full(120, 2))
    assert est.pseudo_count_ > 0.01


def test_one_sample_has_no_halves():
    est = GammaPoissonMF(2, schedule="posterior", pseudo_count="auto", random_state=0, tol=1e-2)
    assert np.isfinite(est.fit([[3, 1, 2]]).components_).all()


def test_a_run_that_is_cut_while_it_draws_returns_an_average():
    """The window before, or the present one once it is half as long: never the last draw's mean."""
    X = topics(4, 80)
    settings = {"schedule": "posterior", "pseudo_count": 0.2, "tol": 1e-2, "random_state": 1}
    models = []
    whole = GammaPoissonMF(
        3, callbacks=[lambda record: models.append(record.model.W.T)], **settings
    ).fit(X)
    assert whole.n_iter_ == 480  # windows of 60, 60, 120 and 240 draws
    for n_drawn in (130, 230):
        with pytest.warns(ConvergenceWarning):
            cut = GammaPoissonMF(3, max_iter=n_drawn, **settings).fit(X)
        last = models[n_drawn - 1]
        drawn = np.array(models[60:120] if n_drawn == 130 else models[120:n_drawn])
        near = np.abs(cut.components_ - drawn.mean(axis=0)).max()
        assert near < 0.2 * np.abs(cut.components_ - last).max()
