"""The estimator when it learns α: what it finds, what it refuses, what it keeps."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood
from gapmf.datasets import paper_synthetic
from gapmf.em.expectation import ExactExpectation
from gapmf.errors import InvalidInputError, TooCostlyError


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["em-c", "exact"])
def test_the_estimator_learns(algorithm):
    X, _ = paper_synthetic(1.0, 25, random_state=0)
    fixed = GammaPoissonMF(2, algorithm=algorithm, random_state=0).fit(X)
    np.testing.assert_array_equal(fixed.alpha_, [1.0, 1.0])
    kwargs = {"algorithm": algorithm, "random_state": 0, "tol": 1e-4, "alpha": [0.5, 2.0]}
    one = GammaPoissonMF(2, learn_alpha=True, **kwargs).fit(X)
    two = GammaPoissonMF(2, learn_alpha="component", n_jobs=2, **kwargs).fit(X)
    np.testing.assert_array_equal(one.alpha_, two.alpha_)
    np.testing.assert_array_equal(one.components_, two.components_)
    assert one.history_["norms"].shape == (one.n_iter_, 2)
    shared = GammaPoissonMF(2, learn_alpha="shared", **kwargs).fit(X)
    assert np.ptp(shared.alpha_) == 0
    assert fixed.log_likelihood_ - 0.01 < shared.log_likelihood_ < one.log_likelihood_ + 0.01


@pytest.mark.parametrize("value", ["yes", None, 1, 0.0, ["component"]])
def test_other_values_are_refused(value):
    with pytest.raises(InvalidInputError, match=r"False, 'component' .* or 'shared'"):
        GammaPoissonMF(2, learn_alpha=value).fit([[1, 2]])


@pytest.mark.parametrize("algorithm", ["em-ch", "mcem-h", "mcem-ch"])
def test_algorithms_that_cannot(algorithm):
    with pytest.raises(InvalidInputError, match=r"cannot learn alpha.*'em-c', 'exact'"):
        GammaPoissonMF(2, algorithm=algorithm, learn_alpha=True).fit([[1, 2]])


def test_a_law_of_sizes_that_takes_too_long_is_refused_first():
    X = np.full((3, 2), 4000)
    X[1] += 1
    seen = []
    est = GammaPoissonMF(
        3, algorithm="em-c", learn_alpha=True, callbacks=[seen.append], random_state=0
    )
    with pytest.raises(TooCostlyError, match=r"E-step that learns alpha, with 3 components"):
        est.fit(X)
    assert not seen


@pytest.mark.slow
@pytest.mark.parametrize("dearest", [5.0, 30.0, 9_000.0])
@pytest.mark.parametrize("algorithm", ["exact", "em-c"])
def test_a_fit_is_kept_when_alpha_comes_to_cost_too_much(monkeypatch, dearest, algorithm):
    """Less than Poisson varies, so that α grows without end: E-steps beyond some α are refused."""
    evaluate = ExactExpectation.e_step

    def limited(self, model):
        if model.alpha.max() > dearest:
            raise TooCostlyError("an E-step would take a year")
        return evaluate(self, model)

    X = np.random.default_rng(0).binomial([16, 6], 0.5, (30, 2))
    monkeypatch.setattr(ExactExpectation, "e_step", limited)
    est = GammaPoissonMF(2, algorithm=algorithm, learn_alpha=True, max_iter=3000, random_state=0)
    with pytest.warns(
        ConvergenceWarning, match="with the next learned alpha an E-step would take a year"
    ):
        est.fit(X)
    assert not est.converged_
    assert 1.0 < est.alpha_.max() <= dearest
    value = log_marginal_likelihood(X, est.model_).total
    assert est.log_likelihood_ == pytest.approx(value, rel=1e-12)
    assert value > GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X).log_likelihood_


@pytest.mark.slow
def test_a_trial_that_costs_too_much_does_not_end_a_fit(monkeypatch):
    """E-steps are refused a little beyond the maximum: it is found all the same."""
    X = GaP([[9.0, 1.0], [1.0, 6.0], [3.0, 2.0]], [0.4, 1.2]).sample(60, random_state=0)
    est = GammaPoissonMF(2, algorithm="exact", learn_alpha=True, random_state=0)
    free = est.fit(X)
    top, dearest = free.log_likelihood_, 1.2 * free.alpha_.max()
    evaluate, refused = ExactExpectation.e_step, []

    def limited(self, model):
        if model.alpha.max() > dearest:
            refused.append(model.alpha.max())
            raise TooCostlyError("an E-step would take a year")
        return evaluate(self, model)

    monkeypatch.setattr(ExactExpectation, "e_step", limited)
    est.fit(X)
    assert refused
    assert est.converged_
    assert est.log_likelihood_ == pytest.approx(top, abs=1e-6)
