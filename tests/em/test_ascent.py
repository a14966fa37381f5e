"""VBEM and MJLE in the estimator: what holds for both, as it does for the other algorithms."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood, select_rank
from gapmf.datasets import paper_synthetic
from gapmf.em.settings import OBJECTIVES

X, _ = paper_synthetic(10.0, 40, random_state=0)


@pytest.fixture(params=OBJECTIVES)
def algorithm(request):
    return request.param


def test_fit_leaves_what_it_promises(algorithm):
    est = GammaPoissonMF(3, algorithm=algorithm, alpha=[1.5, 2.0, 3.0], random_state=0)
    assert est.fit(X) is est
    assert est.converged_
    assert est.alpha_.tolist() == [1.5, 2.0, 3.0]
    name, history = OBJECTIVES[algorithm], est.history_
    assert set(history) == {"seconds", "n_sweeps", "norms", "log_likelihood", name}
    assert history["norms"].shape == (est.n_iter_, 3)
    np.testing.assert_allclose(history["norms"][-1], est.model_.column_norms)
    values = history[name]
    assert (np.diff(values) >= -1e-13 * np.abs(values[1:])).all()
    assert np.isnan(history["log_likelihood"]).all()  # the objective is something else
    assert not hasattr(est, "log_likelihood_")
    assert not hasattr(est, "certificate_")
    assert hasattr(est, "activations_") == (algorithm == "mjle")
    assert (history["n_sweeps"] == 0).all()
    est.set_params(algorithm="exact").fit(X)
    assert not hasattr(est, "activations_")


def test_it_answers_what_a_model_answers(algorithm):
    """Questions are asked of the marginal model, whatever was maximised."""
    Y, _ = paper_synthetic(60.0, 60, random_state=1)
    est = GammaPoissonMF(2, algorithm=algorithm, random_state=0, smoothing=0.0).fit(Y)
    exact = log_marginal_likelihood(Y, est.model_).total
    assert est.log_likelihood(Y).total == pytest.approx(exact)
    assert est.transform(Y).shape == (60, 2)
    np.testing.assert_allclose(est.proportions(Y).sum(axis=1), 1.0)
    if algorithm == "vbem":
        assert est.history_["bound"][-1] < exact
    report = est.rank_report(Y)
    assert report.rank == 2
    assert est.prune(Y, report=report).algorithm == algorithm
    assert len(est.stability(Y, n_fits=2).returned) == 2
    found = select_rank(Y, [1, 2], estimator=GammaPoissonMF(algorithm=algorithm, random_state=0))
    assert found.n_components == 2


def test_scores_on_the_way_are_log_likelihoods(algorithm):
    weights = np.arange(1, 41) / 10.0
    est = GammaPoissonMF(2, algorithm=algorithm, random_state=0, max_iter=8, score_every=4)
    with pytest.warns(ConvergenceWarning, match=f"{algorithm} stopped after 8 iterations"):
        est.fit(X, sample_weight=weights)
    values = est.history_["log_likelihood"]
    assert np.isfinite(values).nonzero()[0].tolist() == [3, 7]
    exact = log_marginal_likelihood(X, est.model_).per_sample
    assert values[-1] == pytest.approx(weights @ exact)


def test_weights_are_repetitions(algorithm):
    times = np.random.default_rng(0).integers(0, 4, 40)
    once = GammaPoissonMF(2, algorithm=algorithm, random_state=0).fit(X, sample_weight=times)
    many = GammaPoissonMF(2, algorithm=algorithm, random_state=0).fit(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(once.components_, many.components_, rtol=1e-6)


def test_same_bits_for_any_input_and_threads(algorithm):
    def fit(data, n_jobs=None):
        est = GammaPoissonMF(3, algorithm=algorithm, random_state=5, n_jobs=n_jobs, tol=1e-3)
        return est.fit(data).components_

    base = fit(X)
    np.testing.assert_array_equal(fit(sp.csc_matrix(X)), base)
    for n_jobs in (2, 5):
        np.testing.assert_array_equal(fit(X, n_jobs), base)


def test_several_starts_keep_the_best(algorithm):
    rng = np.random.default_rng(1)
    Y = GaP(rng.gamma(0.3, 5.0, (8, 4))).sample(40, random_state=1)
    starts = []

    def collect(record):
        starts.append([]) if record.iteration == 1 else None
        starts[-1].append(record.objective)

    est = GammaPoissonMF(
        4, algorithm=algorithm, n_init=3, init="random", tol=1e-4, random_state=11,
        callbacks=[collect],
    ).fit(Y)  # fmt: skip
    best = max(starts, key=lambda values: values[-1])
    assert best is starts[1]
    assert len(starts) == 3
    assert est.history_[OBJECTIVES[algorithm]].tolist() == best


def test_a_warm_start_loses_nothing(algorithm):
    """What belongs to the samples is fitted to the components first, so these are not spoilt."""
    name = OBJECTIVES[algorithm]
    est = GammaPoissonMF(2, algorithm=algorithm, random_state=0, warm_start=True, tol=1e-6).fit(X)
    before = est.history_[name][-1]
    assert est.fit(X).history_[name][0] >= before - 1e-6 * X.sum()


@pytest.mark.parametrize("max_iter", [1, 2, 7])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_max_iter_is_kept(algorithm, max_iter):
    seen = []
    est = GammaPoissonMF(
        3, algorithm=algorithm, max_iter=max_iter, random_state=0, callbacks=[seen.append]
    ).fit(X)
    assert est.n_iter_ == len(seen) == max_iter
    assert seen[-1].model is est.model_
    assert seen[-1].objective == est.history_[OBJECTIVES[algorithm]][-1]


def test_callbacks_stop_and_ctrl_c_keeps_the_model(algorithm):
    def stop(record):
        return record.iteration == 3

    est = GammaPoissonMF(2, algorithm=algorithm, random_state=0, tol=0.0, callbacks=[stop]).fit(X)
    assert (est.n_iter_, est.converged_, est.interrupted_) == (3, False, False)

    def interrupt(record):
        if record.iteration == 4:
            os.kill(os.getpid(), signal.SIGINT)

    est.set_params(callbacks=[interrupt])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # however tests are run
    try:
        with pytest.warns(ConvergenceWarning, match=f"{algorithm} was interrupted after 4 iter"):
            est.fit(X)
    finally:
        signal.signal(signal.SIGINT, before)
    assert est.interrupted_
    assert est.n_iter_ == 4
    assert est.transform(X[:2]).shape == (2, 2)


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
    alphas = [0.01, 1e-4] if algorithm == "vbem" else [1.0, 1.5]
    for alpha in alphas:
        est = GammaPoissonMF(2, algorithm=algorithm, alpha=alpha, random_state=0, max_iter=50)
        est.fit(data)
        assert np.isfinite(est.components_).all()
        assert np.isfinite(est.history_[OBJECTIVES[algorithm]]).all()
        np.testing.assert_array_equal(est.components_[:, data.sum(axis=0) == 0], 0.0)


def test_a_symmetric_start_is_said(algorithm):
    symmetric = np.tile(X.mean(axis=0) / 2, (2, 1))
    with pytest.warns(ConvergenceWarning, match="did not leave its symmetric starting point"):
        GammaPoissonMF(2, algorithm=algorithm, init=symmetric).fit(X)
    GammaPoissonMF(2, algorithm=algorithm, random_state=0).fit([[3], [9], [0], [4]])  # no warning
