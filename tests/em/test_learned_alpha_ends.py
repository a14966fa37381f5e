"""α that is learned, at the ends of its range and where there is nothing to learn it from."""

from __future__ import annotations

import numpy as np
import pytest
from learned_problems import MODES, STEPS, load

from gapmf import GammaPoissonMF, GaP
from gapmf.em.alpha import LARGEST
from gapmf.em.exact_em import ExactFit
from gapmf.em.history import History
from gapmf.em.maximum import _to_the_bound, certify, fit_maximum


@pytest.mark.parametrize("algorithm", ["em-c", "exact"])
@pytest.mark.parametrize("mode", MODES)
def test_poisson_counts_send_alpha_to_its_bound(algorithm, mode):
    X = np.full((20, 2), 3)
    est = GammaPoissonMF(1, algorithm=algorithm, learn_alpha=mode)
    with pytest.warns(UserWarning, match=r"components 0 is at its bound 10000: .*Poisson"):
        est.fit(X)
    np.testing.assert_array_equal(est.alpha_, [LARGEST])
    np.testing.assert_array_equal(est.model_.alpha, est.alpha_)
    assert est.certificate_.projected_gradient < 1e-3
    np.testing.assert_allclose(est.model_.expected_counts(), [3.0, 3.0], rtol=1e-12)


def test_two_components_of_poisson_counts():
    """No overdispersion at K = 2 either: the likelihood flattens, and the end is still found."""
    X = np.random.default_rng(0).poisson([4.0, 2.0, 1.0], (60, 3))
    X[:, 0] = 4
    with pytest.warns(UserWarning, match="bound 10000"):
        est = GammaPoissonMF(2, algorithm="exact", learn_alpha="shared", random_state=0).fit(X)
    assert (est.alpha_ == LARGEST).all()
    assert est.converged_


def test_alpha_that_grows_without_end_is_put_at_its_bound():
    """Where it stopped on the way is an accident; where it has a maximum it stays."""
    for X, ends in ((np.full((20, 2), 3), True), (np.array([[0, 1], [9, 3], [1, 1]]), False)):
        expect = load(X)
        model = GaP(X.mean(axis=0)[:, None] / 3e3, 3e3)
        fit, moved = _to_the_bound(expect, ExactFit(model, expect.e_step(model), True))
        assert moved == ends
        assert fit.model.alpha[0] == (LARGEST if ends else 3e3)
        np.testing.assert_allclose(fit.model.expected_counts(), X.mean(axis=0), rtol=1e-12)


def test_the_certificate_sees_alpha():
    """With one component W is best at any α, so all that is left is the slope by log α."""
    X = GaP([[3.0], [1.0]], 0.5).sample(60, random_state=0)
    expect = load(X)
    for alpha in (0.2, 2.0):
        model = GaP(X.mean(axis=0)[:, None] / alpha, alpha)
        slope = expect.e_step(model).slope_by_log_alpha(model)[0]
        assert abs(slope) > 1.0
        assert certify(expect, model).projected_gradient == pytest.approx(abs(slope))
        assert certify(expect.learning(None), model).projected_gradient < 1e-9


@pytest.mark.parametrize("step", STEPS.values())
def test_a_zero_column_keeps_its_alpha(step):
    X = GaP([[3.0], [1.0]], 0.5).sample(60, random_state=0)
    expect = load(X)
    model = GaP(np.column_stack([X.mean(axis=0), np.zeros(2)]), [1.0, 0.37])
    at = expect.e_step(model)
    assert at.rising[1] == 0.0
    assert step(expect, model, at).alpha[1] == 0.37
    assert step(expect, model, at).alpha[0] != 1.0


def test_a_vanished_column_keeps_its_alpha_in_a_fit():
    X = GaP([[3.0], [1.0]]).sample(60, random_state=0)
    start = GaP(np.column_stack([X.mean(axis=0), np.zeros(2)]), [1.0, 0.37])
    fit = fit_maximum(load(X), start, max_iter=200, history=History())
    assert fit.model.column_norms[1] == 0.0
    assert fit.model.alpha[1] == pytest.approx(0.37)
    assert np.isfinite(certify(load(X), fit.model).projected_gradient)


@pytest.mark.parametrize("algorithm", ["em-c", "exact"])
def test_one_sample_and_none_with_counts(algorithm):
    est = GammaPoissonMF(1, algorithm=algorithm, learn_alpha=True, alpha=0.3)
    with pytest.warns(UserWarning, match="bound"):
        est.fit([[3, 1]])
    assert est.alpha_[0] == LARGEST
    est.fit(np.zeros((3, 2), dtype=int))
    assert est.alpha_[0] == 0.3
    assert est.log_likelihood_ == 0.0
