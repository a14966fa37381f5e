"""MJLE: the joint likelihood where it has a maximum, and KL-NMF where only that is left."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import NMF

from gapmf import GammaPoissonMF, GaP, log_joint_likelihood, split_joint_cost
from gapmf.errors import InvalidInputError

SHAPES = {
    "equal": {"alpha": 2.0, "beta": 3.0},
    "unequal": {"alpha": [1.5, 2.0, 4.0], "beta": [1.0, 2.0, 0.5]},
    "near 1": {"alpha": 1.01},
    "1": {"alpha": 1.0, "beta": [1.0, 2.0, 0.5]},
}


def counts(seed=0, N=25):
    rng = np.random.default_rng(seed)
    return GaP(rng.gamma(0.5, 6.0, (8, 3))).sample(N, random_state=seed)


def fitted(X, n_components=3, **parameters):
    given = {"random_state": 0, "max_iter": 3000, "tol": 1e-8} | parameters
    return GammaPoissonMF(n_components, algorithm="mjle", **given).fit(X)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_objective_is_the_joint_likelihood_and_never_falls(name):
    X = counts()
    est = fitted(X, **SHAPES[name], tol=1e-6, max_iter=400)
    values = est.history_["log_joint_likelihood"]
    assert (np.diff(values) >= -1e-12 * np.abs(values[1:])).all()
    assert est.activations_.shape == (25, 3)
    assert values[-1] == pytest.approx(
        log_joint_likelihood(X, est.activations_, est.model_), rel=1e-12
    )
    # Σ_k ((α_k − 1)/β_k) w_fk = v̄_f; with the scale held, α_k in the place of α_k − 1
    shape = est.alpha_ - 1.0 if est.alpha_.min() > 1.0 else est.alpha_
    means = est.model_.W @ (shape / est.model_.beta)
    np.testing.assert_allclose(means, X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(est.activations_.mean(axis=0), shape / est.model_.beta, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["equal", "unequal"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_it_is_a_maximum_in_both(name):
    """No small move of W or H gains: α > 1, where there is no other condition."""
    X = counts()
    est = fitted(X, **SHAPES[name])
    W, H, top = est.model_.W, est.activations_, est.history_["log_joint_likelihood"][-1]
    rng = np.random.default_rng(0)
    for _ in range(40):
        move_w, move_h = (np.exp(rng.normal(0.0, 0.01, A.shape)) for A in (W, H))
        model = GaP(W * move_w, est.alpha_, est.model_.beta)
        assert log_joint_likelihood(X, H * move_h, model) < top


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_alpha_1_is_kl_nmf():
    """Each method, started where the other ended, finds nothing to gain."""
    X = counts()
    est = fitted(X, alpha=1.0)
    ours = split_joint_cost(X, est.activations_, est.model_).divergence
    nmf = NMF(3, beta_loss="kullback-leibler", solver="mu", init="custom", max_iter=3000, tol=1e-10)
    H = np.ascontiguousarray(est.activations_)
    H = nmf.fit_transform(X.astype(float), W=H, H=est.components_.copy())
    theirs = split_joint_cost(X, H, GaP(nmf.components_.T)).divergence
    assert theirs == pytest.approx(nmf.reconstruction_err_**2 / 2, rel=1e-9)
    assert ours == pytest.approx(theirs, rel=1e-4)
    other = NMF(
        3, beta_loss="kullback-leibler", solver="mu", init="random", random_state=1,
        max_iter=3000, tol=1e-10,
    )  # fmt: skip
    other.fit(X)
    again = fitted(X, alpha=1.0, init=other.components_ + 1e-12)
    ours = split_joint_cost(X, again.activations_, again.model_).divergence
    assert ours == pytest.approx(other.reconstruction_err_**2 / 2, rel=1e-4)


def test_beta_changes_nothing_at_alpha_1_but_the_scale():
    X = counts()
    one, other = (fitted(X, alpha=1.0, beta=beta, tol=1e-5) for beta in (1.0, 0.25))
    np.testing.assert_allclose(other.components_, 0.25 * one.components_, rtol=1e-9)
    np.testing.assert_allclose(other.activations_, 4.0 * one.activations_, rtol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"alpha": 0.5}, "alpha of component 0 is 0.5: below 1 it is infinite at h = 0"),
        ({"alpha": [1.0, 2.0, 0.9]}, "alpha of component 2 is 0.9"),
        ({"alpha": [1.0, 2.0, 2.0]}, "some alpha are 1 and others larger"),
        ({"learn_alpha": True}, "'mjle' cannot learn alpha"),
    ],
)
def test_where_there_is_no_maximum_it_says_so(parameters, says):
    with pytest.raises(InvalidInputError, match=says):
        GammaPoissonMF(3, algorithm="mjle", **parameters).fit(counts())
