"""A prior on directions: literal steps, ascent, the identity, fits, and the choice of η."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import naive
from gapmf import GammaPoissonMF, GaP
from gapmf.counts import check_counts
from gapmf.em.evidence import LARGEST, SMALLEST, best_pseudo_count, predictive_pseudo_count
from gapmf.em.exact_em import em_c_alpha_step, em_c_step, em_ch_step
from gapmf.em.expectation import ExactExpectation
from gapmf.em.gain import EStep, gain
from gapmf.em.m_steps import update_c, update_ch
from gapmf.em.maximum import certify
from gapmf.engines.base import Statistics
from gapmf.errors import InvalidInputError
from gapmf.observation import check_observation

HOW = ["plain", "exposed", "masked"]


def problem(how, *, N=30, F=5, seed=0, largest=None):
    """Counts of a model with unequal α and β; the last feature never occurs."""
    rng = np.random.default_rng(seed)
    model = GaP(2.0 * rng.gamma(0.6, 1.0, (F, 2)) + 0.05, [0.5, 1.4], [0.7, 2.0])
    s = np.ones(N) if how == "plain" else 10 ** rng.uniform(-0.7, 0.7, N)
    M = rng.random((N, F)) < (0.7 if how == "masked" else 1.1)
    X = rng.poisson(s[:, None] * (rng.gamma(model.alpha, 1 / model.beta, (N, 2)) @ model.W.T))
    X[:, -1] = 0
    X = X if largest is None else np.minimum(X, largest)
    counts, observation = check_observation(check_counts(X), s, M)
    return model, X, s, M, counts, observation


def test_the_steps_are_those_of_pseudo_counts():
    """Directions in proportion to Σ c + η, norms as without it; empty columns stay empty."""
    rng = np.random.default_rng(0)
    C = rng.poisson(2.0, (3, 4, 2, 6)).astype(float)  # J, F, K, N
    C[:, :, 1] = 0
    h = rng.gamma(2.0, 1.0, 2) * 18
    alpha, beta, eta = np.array([0.5, 2.0]), np.array([1.5, 0.7]), 0.3
    s = Statistics(C.sum(axis=(0, 3)), h, 18.0)
    for with_prior, plain in (
        (update_c(replace(s, pseudo=3 * eta), alpha, beta), update_c(s, alpha, beta)),
        (update_ch(replace(s, pseudo=3 * eta)), update_ch(s)),
    ):
        mean = C.sum(axis=3).mean(axis=0)[:, 0] + eta
        direction = mean / mean.sum()
        np.testing.assert_allclose(with_prior[:, 0], plain[:, 0].sum() * direction, rtol=1e-13)
        assert not with_prior[:, 1].any()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("eta", [1e-3, 0.4, 30.0])
def test_both_steps_are_the_literal_ones(how, eta):
    model, X, s, M, counts, observation = problem(how, N=6, F=3, largest=3)
    expect = ExactExpectation(counts, observation=observation, pseudo_count=eta)
    at = expect.e_step(model)
    for step, expanded in ((em_c_step, True), (em_ch_step, False)):
        literal = naive.observed_prior_step(
            X.T, model.W, model.alpha, model.beta, s, M.T, eta, expanded=expanded
        )
        np.testing.assert_allclose(step(model, at).W, literal, rtol=1e-5)


@pytest.mark.parametrize("how", HOW)
def test_em_never_loses_and_ends_where_the_identities_hold(how):
    model, *_, counts, observation = problem(how, N=12)
    expect = ExactExpectation(counts, observation=observation, pseudo_count=0.3)
    for step in (em_c_step, em_ch_step):
        at, values = model, []
        for _ in range(100 if step is em_c_step else 30):
            here = expect.e_step(at)
            values.append(here.objective)
            at = step(at, here)
        assert np.diff(values).min() >= -1e-10
        if step is em_c_step:
            certificate = certify(expect, at)
            assert certificate.identity < 1e-6
            assert certificate.projected_gradient < 1e-4
            away = certify(expect, GaP(at.W * [[1.0, 1.01]], at.alpha, at.beta))
            assert away.identity > 1e-3


def test_the_means_identity_holds_after_every_step():
    model, X, *_, counts, _ = problem("plain")
    eta, F, N = 0.7, 5, 30
    expect = ExactExpectation(counts, pseudo_count=eta)
    new = em_c_step(model, expect.e_step(model))
    shares = new.W / new.column_norms
    sums = new.W @ (new.alpha / new.beta) + eta / N * (F * shares - 1.0).sum(axis=1)
    np.testing.assert_allclose(sums, X.mean(axis=0), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(new.expected_counts().sum(), X.sum() / N, rtol=1e-12)


@pytest.mark.parametrize("how", HOW)
def test_em_with_learned_alpha_never_loses(how):
    model, *_, counts, observation = problem(how, N=15)
    expect = ExactExpectation(counts, None, "component", None, observation, 0.3)
    at, values = model, []
    for _ in range(15):
        here = expect.e_step(at)
        values.append(here.objective)
        at = em_c_alpha_step(expect, at, here)
    assert np.diff(values).min() >= -1e-9


def test_the_log_prior():
    W = np.array([[1.0, 0.0, 2.0], [3.0, 0.0, 2.0]])
    expected = 0.5 * (np.log(2 * 0.25) + np.log(2 * 0.75))
    assert GaP(W).log_prior(0.5) == pytest.approx(expected, rel=1e-14)
    assert GaP(7.0 * W).log_prior(0.5) == pytest.approx(expected, rel=1e-13)
    assert GaP(W).log_prior(0.0) == 0.0
    assert GaP([[1.0], [0.0]]).log_prior(0.5) == -np.inf


def test_the_gain_of_a_step_has_the_prior_in_it():
    """Exactly in the statistics: at equal likelihoods, only the prior's part is left."""
    a, b = GaP([[3.0], [1.0]]), GaP([[2.0], [2.0]])
    steps = [EStep(m, Statistics(np.zeros((2, 1)), np.ones(1), 4.0), 2) for m in (a, b)]
    without = gain(*steps).estimate
    steps = [e._replace(statistics=replace(e.statistics, pseudo=2 * 0.5)) for e in steps]
    expected = without + b.log_prior(0.5) - a.log_prior(0.5)
    assert gain(*steps).estimate == pytest.approx(expected, rel=1e-12)


def evidence(C, eta):
    F = C.shape[0]
    value = gammaln(F * eta) - gammaln(F * eta + C.sum(axis=0))
    return (value + (gammaln(eta + C) - gammaln(eta)).sum(axis=0)).sum()


def test_the_best_pseudo_count_maximises_the_evidence():
    rng = np.random.default_rng(0)
    for truth in (0.05, 0.5, 4.0):
        C = np.array([rng.multinomial(4000, rng.dirichlet(np.full(300, truth))) for _ in range(8)])
        found = best_pseudo_count(C.T.astype(float))
        best = minimize_scalar(
            lambda x, C=C: -evidence(C.T, np.exp(x)), bounds=(-8, 4), method="bounded"
        )
        assert np.log(found) == pytest.approx(best.x, abs=1e-3)
        assert found == pytest.approx(truth, rel=0.15)
    assert best_pseudo_count(np.zeros((3, 2))) == SMALLEST
    assert best_pseudo_count(np.ones((1, 2))) == SMALLEST
    assert best_pseudo_count(np.eye(3) * 50) < 0.05
    assert best_pseudo_count(np.full((4, 2), 100.0)) == LARGEST


# Fits.


@pytest.fixture(scope="module")
def short():
    """Short documents, of which some words never occur, and others to test on."""
    rng = np.random.default_rng(3)
    truth = GaP(rng.dirichlet(np.full(60, 0.3), 3).T * 12, 0.4)
    X = truth.sample(160, random_state=1)
    X[:, -2:] = 0
    return X, truth.sample(400, random_state=2)


@pytest.fixture(scope="module")
def exact(short):
    return GammaPoissonMF(2, algorithm="em-c", pseudo_count=0.5, random_state=0).fit(
        short[0][:40, :8]
    )


def test_exact_moments_report_the_objective_with_its_prior(short, exact):
    assert exact.converged_
    assert exact.pseudo_count_ == 0.5
    assert exact.log_prior_ == pytest.approx(exact.model_.log_prior(0.5))
    assert exact.log_prior_ < 0
    values = exact.history_["log_likelihood"] + exact.history_["log_prior"]
    assert np.diff(values).min() >= -1e-9
    assert values[-1] == pytest.approx(exact.log_likelihood_ + exact.log_prior_)
    assert exact.certificate_.identity < 1e-6
    plain = GammaPoissonMF(2, algorithm="em-c", random_state=0).fit(short[0][:40, :8])
    assert plain.log_prior_ == 0.0
    assert "log_prior" not in plain.history_
    assert plain.log_likelihood_ > exact.log_likelihood_


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["adaptive", "saem", "paper"])
@pytest.mark.parametrize("algorithm", ["mcem-c", "mcem-ch"])
def test_monte_carlo_comes_to_the_same_maximum(short, exact, algorithm, schedule):
    """Within 0.05 nats. With so few counts, one seed in ten ends in another basin: not this one."""
    more = {"n_draws": 100, "n_burn_in": 10, "max_iter": 60} if schedule == "paper" else {}
    est = GammaPoissonMF(
        2,
        algorithm=algorithm,
        pseudo_count=0.5,
        schedule=schedule,
        init=exact.components_,
        random_state=1,
        score_every=10,
        **more,
    ).fit(short[0][:40, :8])
    expect = ExactExpectation(check_counts(short[0][:40, :8]), pseudo_count=0.5)
    top = exact.log_likelihood_ + exact.log_prior_
    assert expect.e_step(est.model_).objective == pytest.approx(top, abs=0.05)
    known = ~np.isnan(est.history_["log_likelihood"])
    assert known.sum() == est.n_iter_ // 10
    np.testing.assert_array_equal(known, ~np.isnan(est.history_["log_prior"]))


@pytest.mark.parametrize(
    ("algorithm", "objective"), [("vbem", "bound"), ("mjle", "log_joint_likelihood")]
)
@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_other_objectives_never_lose(short, algorithm, objective, alpha):
    est = GammaPoissonMF(
        3, algorithm=algorithm, alpha=alpha, pseudo_count=0.2, random_state=0, max_iter=40, tol=0.0
    )
    with pytest.warns(ConvergenceWarning):
        est.fit(short[0])
    if algorithm == "mjle" and alpha == 1.0:
        return  # the scale is held, so that the joint likelihood itself may fall
    values = est.history_[objective] + est.history_["log_prior"]
    assert np.diff(values).min() >= -1e-7
    assert (est.model_.W > 0).all()


def test_features_without_counts_get_the_weight_of_the_prior(short):
    X, test = short
    few = {"schedule": "paper", "max_iter": 5, "n_draws": 5, "n_burn_in": 0}
    est = GammaPoissonMF(3, pseudo_count=0.1, random_state=0, smoothing=0.0, **few).fit(X)
    assert (est.components_[:, -2:] > 0).all()
    assert np.isfinite(est.score_samples(test[:50])).all()  # though there is no smoothing
    huge = GammaPoissonMF(2, pseudo_count=1e9, random_state=0, **few).fit(X)
    shares = huge.components_ / huge.components_.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, 1 / 60, rtol=1e-5)
    total = huge.model_.expected_counts().sum()
    assert total == pytest.approx(X.sum() / len(X), rel=1e-9)


@pytest.mark.slow
def test_a_prior_predicts_better_than_overfitting(short):
    """80 new documents; at four seeds the difference was 0.9 to 3.0 nats per document."""
    X, test = short
    est = GammaPoissonMF(6, alpha=0.4, random_state=0, tol=1e-4)
    scores = {
        eta: clone(est).set_params(pseudo_count=eta).fit(X).score(test[:80]) for eta in (0.0, 0.3)
    }
    assert scores[0.3] > scores[0.0] + 0.5


@pytest.mark.parametrize("schedule", ["adaptive", "saem"])
def test_auto_chooses_about_the_truth(schedule):
    rng = np.random.default_rng(0)
    truth = GaP(rng.dirichlet(np.full(80, 0.2), 3).T * 100, 0.3)
    est = GammaPoissonMF(3, pseudo_count="auto", schedule=schedule, alpha=0.3, random_state=0)
    est.fit(truth.sample(300, random_state=1))
    assert 0.1 < est.pseudo_count_ < 0.4
    assert est.log_prior_ == est.model_.log_prior(est.pseudo_count_)


def test_a_fit_can_be_saved_cloned_and_resumed(short, tmp_path):
    X = short[0]
    path = tmp_path / "fit.part"
    est = GammaPoissonMF(3, pseudo_count="auto", random_state=0, max_iter=150)
    with pytest.warns(ConvergenceWarning):
        est.fit(X)
    est.save(tmp_path / "m.gapmf")
    again = GammaPoissonMF.load(tmp_path / "m.gapmf")
    assert (again.pseudo_count, again.pseudo_count_) == ("auto", est.pseudo_count_)
    assert again.log_prior_ == est.log_prior_
    assert clone(est).pseudo_count == "auto"

    def crash(record):
        if record.iteration == 70:
            raise RuntimeError("crash")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gapmf.storage.checkpoint.Checkpoint.is_due", lambda self: True)
        with pytest.raises(RuntimeError, match="crash"):
            clone(est).set_params(checkpoint=path, callbacks=[crash]).fit(X)
    with pytest.warns(ConvergenceWarning):
        resumed = GammaPoissonMF.resume(path, X)
    np.testing.assert_array_equal(resumed.components_, est.components_)
    assert resumed.pseudo_count_ == est.pseudo_count_


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pseudo_count": -0.1}, "pseudo_count"),
        ({"pseudo_count": np.nan}, "pseudo_count"),
        ({"pseudo_count": "best"}, "'auto'"),
        ({"pseudo_count": 0.1, "algorithm": "exact"}, "'em-c'"),
        ({"pseudo_count": "auto", "algorithm": "em-c"}, "give a number"),
        ({"pseudo_count": "auto", "schedule": "paper"}, "give a number"),
    ],
)
def test_what_cannot_be_is_refused(given, said):
    with pytest.raises(InvalidInputError, match=said):
        GammaPoissonMF(2, **given).fit([[1, 2], [3, 0]])


def test_the_predictive_choice_is_the_best_of_a_grid():
    """Σ b log((a + η)/(Σ a + F η)), both ways; an empty half leaves the choice to the evidence."""
    rng = np.random.default_rng(3)
    truth = rng.dirichlet(np.full(30, 0.3), 4)
    a, b = (np.array([rng.multinomial(60, p) for p in truth]).T.astype(float) for _ in range(2))

    def value(eta):
        return sum(
            (y * np.log((x + eta) / (x.sum(axis=0) + 30 * eta))).sum() for x, y in ((a, b), (b, a))
        )

    found = predictive_pseudo_count((a, b))
    grid = np.geomspace(SMALLEST, LARGEST, 400)
    assert value(found) >= max(value(eta) for eta in grid) - 1e-9
    assert predictive_pseudo_count((a, np.zeros_like(a))) == best_pseudo_count(a)


def test_counts_that_repeat_within_samples_need_more_pseudo_counts():
    """The evidence takes repetitions for a sparser component; the other half does not."""
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.full(200, 0.5))
    a, b = (3.0 * rng.multinomial(150, p)[:, None] for _ in range(2))  # each word three times
    assert predictive_pseudo_count((a, b)) > 1.5 * best_pseudo_count(a + b)
