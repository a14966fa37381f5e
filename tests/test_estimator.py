"""GammaPoissonMF: the constructor, fit, and what it leaves behind."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood
from gapmf.datasets import paper_synthetic
from gapmf.em.settings import EXACT_MOMENTS as ALGORITHMS
from gapmf.errors import TooCostlyError

X, _ = paper_synthetic(10.0, 40, random_state=0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_fit_leaves_what_it_promises(algorithm):
    est = GammaPoissonMF(3, algorithm=algorithm, alpha=[0.5, 1.0, 2.0], random_state=0)
    assert est.fit(X) is est
    assert est.components_.shape == (3, 4)
    np.testing.assert_array_equal(est.components_.T, est.model_.W)
    assert est.alpha_.tolist() == [0.5, 1.0, 2.0]
    assert est.n_features_in_ == 4
    assert est.converged_
    assert est.log_likelihood_ == pytest.approx(log_marginal_likelihood(X, est.model_).total)
    history = est.history_
    assert set(history) == {"seconds", "n_sweeps", "norms", "log_likelihood"}
    assert history["norms"].shape == (est.n_iter_, 3)
    np.testing.assert_allclose(history["norms"][-1], est.model_.column_norms)
    assert history["log_likelihood"][-1] == est.log_likelihood_
    assert (np.diff(history["seconds"]) >= 0).all()
    assert (history["n_sweeps"] == 0).all()
    if algorithm != "exact":
        assert (np.diff(history["log_likelihood"]) > -1e-9).all()
    assert est.certificate_.identity < (0.01 if algorithm == "em-ch" else 1e-12)


def test_exact_is_at_least_as_good_as_the_ems():
    values = {}
    for algorithm in ALGORITHMS:
        est = GammaPoissonMF(2, algorithm=algorithm, random_state=0, tol=1e-9, max_iter=3000)
        values[algorithm] = est.fit(X).log_likelihood_
    assert values["exact"] >= values["em-c"] - 1e-9
    assert values["exact"] >= values["em-ch"] - 1e-9
    assert values["em-c"] == pytest.approx(values["exact"], abs=1e-3)


def test_rank_counts_shares_above_the_threshold():
    est = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X)
    assert est.rank_ == 2
    smaller = est.model_.shares.min()
    est = GammaPoissonMF(2, algorithm="exact", random_state=0, prune_tol=smaller + 1e-6).fit(X)
    assert est.rank_ == 1
    assert est.components_.shape == (2, 4)  # nothing is removed


@pytest.mark.slow
def test_same_seed_same_bits_for_any_input_and_threads():
    def fit(data, state=5, n_jobs=None):
        est = GammaPoissonMF(2, algorithm="exact", max_iter=20, random_state=state, n_jobs=n_jobs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return est.fit(data).components_

    base = fit(X)
    for data in (sp.csc_matrix(X), pd.DataFrame(X), X.astype(float), X.tolist()):
        np.testing.assert_array_equal(fit(data), base)
    for n_jobs in (2, 5):
        np.testing.assert_array_equal(fit(X, n_jobs=n_jobs), base)
    assert (fit(X, state=6) != base).any()
    np.testing.assert_array_equal(fit(X, np.random.default_rng(5)), base)
    np.testing.assert_array_equal(
        fit(X, np.random.RandomState(5)), fit(X, np.random.RandomState(5))
    )


def test_parameters_are_stored_untouched_and_cloned():
    alpha, init = [0.5, 2.0], np.ones((2, 4))
    est = GammaPoissonMF(2, alpha=alpha, init=init, tol=1e-3)
    assert est.alpha is alpha
    assert est.init is init
    twin = clone(est)
    assert twin.get_params()["tol"] == 1e-3
    assert not hasattr(twin, "components_")
    assert "GammaPoissonMF(" in repr(est)


def test_init():
    start = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X).components_ * 1.01
    warm = GammaPoissonMF(2, algorithm="em-c", init=start).fit(X)
    cold = GammaPoissonMF(2, algorithm="em-c", init="random", random_state=0).fit(X)
    assert warm.n_iter_ < cold.n_iter_
    with pytest.raises(ValueError, match=r"init must have shape \(2, 4\), components × features"):
        GammaPoissonMF(2, init=np.ones((4, 2))).fit(X)
    bad = np.ones((2, 4))
    bad[:, 1] = 0.0
    with pytest.raises(ValueError, match="feature 1 has counts, but every component of init is 0"):
        GammaPoissonMF(2, init=bad).fit(X)


@pytest.mark.slow
def test_several_starts_keep_the_best():
    Y, _ = paper_synthetic(10.0, 100, random_state=5)  # two maxima, 1.6 nats apart
    singles = []
    for seed in range(3):
        est = GammaPoissonMF(
            3, algorithm="exact", init="random", random_state=np.random.default_rng(seed)
        )
        singles.append(est.fit(Y).log_likelihood_)
    many = GammaPoissonMF(3, algorithm="exact", init="random", n_init=4, random_state=0).fit(Y)
    assert many.log_likelihood_ >= max(singles) - 1e-6


def test_callbacks_see_every_iteration_and_can_stop():
    seen = []
    est = GammaPoissonMF(2, algorithm="em-c", random_state=0, callbacks=[seen.append], tol=1e-3)
    est.fit(X)
    assert [record.iteration for record in seen] == list(range(1, est.n_iter_ + 1))
    assert isinstance(seen[-1].model, GaP)
    np.testing.assert_array_equal(seen[-1].model.W, est.model_.W)
    assert seen[-1].log_likelihood == est.log_likelihood_
    assert seen[0].n_sweeps == 0
    for algorithm in ALGORITHMS:
        for last in (3, 25):
            est = GammaPoissonMF(
                2, algorithm=algorithm, random_state=0, tol=0.0,
                callbacks=[lambda record, last=last: record.iteration == last],
            )  # fmt: skip
            est.fit(X)  # no warning: it was asked for
            assert est.n_iter_ == last
            assert not est.converged_
            assert est.history_["log_likelihood"][-1] == pytest.approx(est.log_likelihood_)
    seen.clear()
    stop = [seen.append, lambda record: record.model.shares.min() < 0.9]  # a NumPy bool
    GammaPoissonMF(2, algorithm="em-c", n_init=3, random_state=0, callbacks=stop).fit(X)
    assert [record.iteration for record in seen] == [1]


@pytest.mark.parametrize("max_iter", [1, 2, 5, 20, 25, 40])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_max_iter_is_kept(algorithm, max_iter):
    seen = []
    est = GammaPoissonMF(
        3, algorithm=algorithm, max_iter=max_iter, random_state=0, callbacks=[seen.append]
    ).fit(X)
    assert est.n_iter_ == len(seen) <= max_iter
    assert seen[-1].model is est.model_


@pytest.mark.slow
def test_converged_em_has_little_left():
    """Weak signals, where the gains of fast directions hide a slow one: not more than tol."""
    rng = np.random.default_rng(97)
    Y = GaP(1 + 0.3 * rng.uniform(-1, 1, (6, 2)), 3.0).sample(200, random_state=97)
    est = GammaPoissonMF(2, alpha=3.0, algorithm="em-c", random_state=0, max_iter=5000).fit(Y)
    climb = GammaPoissonMF(2, algorithm="exact", alpha=3.0, init=est.components_).fit(Y)
    assert climb.log_likelihood_ - est.log_likelihood_ < 3e-5 * Y.sum()


@pytest.mark.slow
def test_warnings():
    with pytest.warns(ConvergenceWarning, match="em-c stopped after 3 iterations before it conv"):
        est = GammaPoissonMF(2, algorithm="em-c", max_iter=3, random_state=0).fit(X)
    assert not est.converged_
    symmetric = np.tile(X.mean(axis=0) / 2, (2, 1))
    with pytest.warns(ConvergenceWarning, match="did not leave its symmetric starting point"):
        GammaPoissonMF(2, algorithm="em-c", init=symmetric).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GammaPoissonMF(2, algorithm="em-c", random_state=0).fit(X)  # leaves the saddle by itself
        one_feature = [[3], [9], [0], [4], [55]]  # where all directions are the same
        GammaPoissonMF(3, alpha=0.3, random_state=2).fit(one_feature)


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"n_components": 0}, "n_components must be a whole number, 1 or more, but is 0"),
        ({"n_components": 2.0}, "n_components must be a whole number"),
        ({"algorithm": "magic"}, "algorithm must be one of 'mcem-c', .*, but is 'magic'"),
        ({"alpha": -1.0}, "alpha is -1.0"),
        ({"beta": [1.0, 2.0, 3.0]}, r"beta has shape \(3,\), but there are 2 components"),
        ({"max_iter": 0}, "max_iter must be a whole number, 1 or more"),
        ({"tol": -1.0}, "tol must be a number, 0 or more"),
        ({"tol": "small"}, "tol must be a number"),
        ({"init": "best"}, "init must be one of 'mean', 'random', but is 'best'"),
        ({"init": np.full((2, 4), -1.0)}, r"init\[0, 0\] is -1.0"),
        ({"init": None}, "init must be 'mean', 'random' or numbers"),
        ({"algorithm": "em-c", "init": np.ones((2, 4)), "n_init": 2}, "use n_init=1"),
        ({"n_init": 0}, "n_init must be a whole number"),
        ({"prune_tol": None}, "prune_tol must be a number"),
        ({"random_state": "x"}, "random_state must be"),
        ({"n_jobs": 0}, "n_jobs is 0"),
        ({"callbacks": [3]}, "callbacks must be a list of functions of one"),
        ({"callbacks": print}, "callbacks must be a list of functions of one"),
    ],
)
def test_bad_parameters(kwargs, says):
    with pytest.raises(ValueError, match=says):
        GammaPoissonMF(**({"n_components": 2} | kwargs)).fit(X)


def test_bad_data_leave_the_estimator_as_it_was():
    est = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X)
    before = est.components_
    with pytest.raises(ValueError, match=r"X\[0, 1\] is -1"):
        est.fit([[1, -1, 0, 0]])
    with pytest.raises(ValueError, match="an exact E-step with 20 components needs"):
        est.set_params(n_components=20).fit(X)
    assert est.components_ is before


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "data",
    [
        np.zeros((3, 2), dtype=int),
        np.array([[5]]),
        np.array([[0, 3], [0, 0]]),
        np.array([[1, 0, 2]]),
        np.array([[100_000], [3]]),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_edges(algorithm, data):
    est = GammaPoissonMF(2, algorithm=algorithm, alpha=0.01, random_state=0, max_iter=50).fit(data)
    assert est.log_likelihood_ == pytest.approx(log_marginal_likelihood(data, est.model_).total)
    assert np.isfinite(est.components_).all()
    assert np.isfinite(est.log_likelihood_)
    np.testing.assert_array_equal(est.components_[:, data.sum(axis=0) == 0], 0.0)


def test_too_many_components_for_exact_moments_are_told_what_else_there_is():
    X = np.random.default_rng(0).poisson(3.0, (50, 40))
    with pytest.raises(TooCostlyError, match=r"with 10 components .* with algorithm='mcem-c'"):
        GammaPoissonMF(algorithm="exact").fit(X)
