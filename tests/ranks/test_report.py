"""The rank report, pruning and the score by Monte Carlo. Seeds are fixed."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood
from gapmf.counts import check_counts
from gapmf.datasets import paper_synthetic
from gapmf.em.expectation import ExactExpectation
from gapmf.em.settings import check_settings
from gapmf.ranks.refit import Refit
from gapmf.ranks.report import BackwardElimination, Candidate, score_test


def simulated(K, seed, N=300, F=40, counts=100, alpha=0.3):
    rng = np.random.default_rng(seed)
    directions = rng.dirichlet(np.full(F, 0.1), K).T
    truth = GaP(directions * counts / (K * alpha), alpha)
    return truth.sample(N, random_state=rng), truth.sample(N, random_state=rng)


@pytest.fixture(scope="module")
def fitted():
    X, X_test = simulated(3, 0, N=180)
    return X, X_test, GammaPoissonMF(5, alpha=0.3, tol=1e-4, random_state=0).fit(X)


@pytest.fixture(scope="module")
def report(fitted):
    X, _, est = fitted
    return est.rank_report(X)


@pytest.mark.slow
def test_the_report_finds_the_rank(fitted, report):
    X, X_test, est = fitted
    assert report.rank == 3 == report.keep.sum()
    assert report.model.n_components == 3
    assert [m.n_components for m in report.models] == [4, 3]
    assert sorted(report.removed) == np.flatnonzero(~report.keep).tolist()
    np.testing.assert_array_equal(report.norm, est.model_.column_norms)
    np.testing.assert_array_equal(report.share, est.model_.shares)
    n_features = (X.sum(axis=0) > 0).sum()
    assert report.price == pytest.approx(0.5 * n_features * np.log(180))
    assert report.held_out is None
    assert "rank: 3" in str(report)
    assert str(report).count("yes") == 3
    with_test = est.rank_report(X, X_test)
    np.testing.assert_array_equal(with_test.cost, report.cost)
    assert with_test.rank == 3
    assert with_test.held_out.shape == (5,)
    assert "held-out" in str(with_test)


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters", [{"learn_alpha": True}, {"algorithm": "mcem-ch"}, {"schedule": "saem"}]
)
def test_it_finds_the_rank_with_other_algorithms_too(parameters):
    X, _ = simulated(2, seed=3, N=150, F=12)
    est = GammaPoissonMF(4, tol=1e-4, random_state=0, n_jobs=2, **parameters).fit(X)
    report = est.rank_report(X)
    assert report.rank == 2
    n_parameters = (X.sum(axis=0) > 0).sum() + ("learn_alpha" in parameters)
    assert report.price == pytest.approx(0.5 * n_parameters * np.log(150))


def test_it_is_the_same_for_any_n_jobs():
    X, _ = simulated(2, seed=3, N=60, F=12)
    one, two = (
        GammaPoissonMF(3, alpha=0.3, tol=1e-3, random_state=0, n_jobs=n_jobs).fit(X).rank_report(X)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.cost, two.cost)
    np.testing.assert_array_equal(one.r, two.r)
    np.testing.assert_array_equal(one.model.W, two.model.W)


def test_pruning_gives_a_fitted_estimator(fitted, report):
    X, _, est = fitted
    small = est.prune(X, report=report)
    assert small.n_components == 3
    assert small.components_.shape == (3, 40)
    assert small.converged_
    assert est.n_components == 5
    value = [
        log_marginal_likelihood(X, m, random_state=0).total for m in (small.model_, est.model_)
    ]
    assert value[0] > value[1] - report.price


def test_costs_with_exact_moments_are_those_of_refits():
    """With K = 2 they can be had by hand: what is left is one component, fitted in closed form."""
    X, _ = paper_synthetic(scale=10, random_state=0)
    est = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X)
    report = est.rank_report(X)
    alone = GaP(X.mean(axis=0)[:, None])
    expected = est.log_likelihood_ - log_marginal_likelihood(X, alone).total
    np.testing.assert_allclose(report.cost, expected, atol=1e-4)
    assert (report.cost_error == 0).all()
    assert report.rank == 2


def test_removing_hands_the_counts_to_the_others():
    X, _ = simulated(3, 1, N=50)
    est = GammaPoissonMF(3, alpha=[0.2, 0.5, 1.0], max_iter=20, tol=1.0, random_state=0)
    counts = check_counts(X)
    refit = Refit(counts, check_settings(est.get_params(), counts), None, 0)
    W = np.random.default_rng(0).gamma(1.0, 1.0, (40, 3))
    W[3] = [0.0, 2.0, 0.0]  # only the one that goes
    model = GaP(W, [0.2, 0.5, 1.0])
    less = refit.without(model, 1)
    np.testing.assert_array_equal(less.alpha, [0.2, 1.0])
    np.testing.assert_allclose(less.expected_counts(), X.mean(axis=0), rtol=1e-12)
    seen = (X.sum(axis=0) > 0) & (W[:, [0, 2]].sum(axis=1) > 0)
    left = less.W[seen] / W[seen][:, [0, 2]]
    np.testing.assert_allclose(left[:, 0], left[:, 1], rtol=1e-12)
    assert (less.W[3] > 0).all() == (X[:, 3].sum() > 0)


def test_the_order_of_elimination():
    """By hand: the cheapest goes first, a twin that became dear stays, the dear are not asked."""
    costs = {
        (0, 1, 2, 3): 0.0,
        (1, 2, 3): 1.0,
        (0, 2, 3): 2.0,
        (0, 1, 3): 3.0,
        (0, 1, 2): 50.0,
        (2, 3): 60.0,  # without 0, 1 is dear
        (1, 3): 5.0,
        (3,): 80.0,
    }

    class ByHand(BackwardElimination):
        asked = ()
        level = 0.0

        def without(self, full, k):
            left = tuple(np.delete(full.model, k))
            self.asked += (left,)
            return made(left)

        def loss(self, full, less):
            return costs[tuple(less.model)] - costs[tuple(full.model)] - 10.0

        def noise(self, full, less):
            return self.level

    def made(left):
        class Columns(tuple):
            n_components = len(left)
            shares = np.ones(4)

        return type("Worth", (), {"model": Columns(left), "held_out": None})

    by_hand = ByHand(None, 10.0, None)
    full = made((0, 1, 2, 3))
    first = [by_hand.without(full, k) for k in range(4)]
    by_hand.asked = ()
    removed, models = by_hand.run(full, first)
    assert removed == [0, 2]
    assert [tuple(m) for m in models] == [(1, 2, 3), (1, 3)]
    assert by_hand.asked == ((2, 3), (1, 3))

    # Without 0, component 1 costs little more than 2 did: within the noise it may go at once.
    costs[2, 3], costs[1, 3] = 5.5, 5.0
    costs[3,] = costs[2,] = 80.0
    for level, first_asked, gone in ((0.0, ((2, 3), (1, 3)), [0, 2]), (3.0, ((2, 3),), [0, 1])):
        by_hand.asked, by_hand.level = (), level
        removed, _ = by_hand.run(full, first)
        assert removed == gone
        assert by_hand.asked[: len(first_asked)] == first_asked


def test_held_out_losses_do_not_add_up_unseen():
    """Each removal loses less than an error bar; together they lose three of them."""

    def value(totals):
        totals = np.asarray(totals, dtype=float)
        numbers = {"per_sample": totals, "total": totals.sum(), "std_errors": 0.0 * totals}
        return type("LogLikelihood", (), numbers)

    noise = np.random.default_rng(0).normal(size=400)
    error = noise.std(ddof=1) * 20.0
    noise -= noise.mean()

    def worth(K):  # each component less costs 0.9 errors of its difference from the next
        model = GaP(np.ones((2, K)))
        return Candidate(model, value([0.0]), value(noise * (K % 2) + 0.9 * error * K / 400.0))

    class ByHand(BackwardElimination):
        def without(self, full, k):
            return worth(full.model.n_components - 1)

    by_hand = ByHand(None, 10.0, X_test=np.ones((2, 2)))
    removed, _ = by_hand.run(worth(6), [worth(5)] * 6)
    assert len(removed) == 1


def test_the_score_by_monte_carlo_is_the_exact_one():
    X, truth = paper_synthetic(scale=10, random_state=2)
    model = GaP(truth.W @ [[1.0], [1.0]])
    exact, error = ExactExpectation(check_counts(X)).score(model)
    r, r_error = score_test(check_counts(X), model, 0, None)
    np.testing.assert_allclose(r, exact, rtol=0.05)  # 1/h has heavy tails
    assert (np.abs(np.log(r_error / error)) < np.log(2.5)).all()


def test_one_component_and_one_sample():
    X = np.array([[3, 0, 2]])
    report = GammaPoissonMF(1, random_state=0).fit(X).rank_report(X)
    assert report.rank == 1
    assert report.cost[0] == np.inf
    assert np.isnan(report.r_error).all()
    assert "rank: 1" in str(report)
    est = GammaPoissonMF(2, tol=1e-2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="all components are equal up to noise"):
        est.fit(X)
    assert est.rank_report(X).rank == 1
    with pytest.raises(ValueError, match="X_test must have two samples or more"):
        est.rank_report(X, X)


def test_an_empty_component_goes_first():
    X, _ = paper_synthetic(scale=10, random_state=0)
    start = np.array([X.mean(axis=0) / 2, np.zeros(4), X.mean(axis=0) / 2 * [1.5, 0.5, 1, 1]])
    start *= X.mean(axis=0) / start.sum(axis=0)
    est = GammaPoissonMF(3, init=start, tol=1e-3, random_state=0).fit(X)
    report = est.rank_report(X)
    assert report.removed[0] == 1
    assert report.cost[1] == 0.0
    np.testing.assert_array_equal(report.keep, [True, False, True])
    assert report.rank == 2 == report.model.n_components
    np.testing.assert_array_equal(report.norm, est.model_.column_norms)


def test_refusals(fitted):
    X, _, est = fitted
    with pytest.raises(NotFittedError):
        GammaPoissonMF(2).rank_report(X)
    with pytest.raises(ValueError, match="the model is expecting 40"):
        est.rank_report(X[:, :7])
    with pytest.raises(ValueError, match="the model is expecting 40"):
        est.rank_report(X, X[:, :7])


def test_held_out_features_without_counts_are_left_out(fitted):
    X, X_test, est = fitted
    unseen = np.flatnonzero(X.sum(axis=0) == 0)
    if not unseen.size:
        X = X.copy()
        X[:, 5] = 0
        unseen = np.array([5])
        est = GammaPoissonMF(2, alpha=0.3, tol=1e-3, random_state=0).fit(X)
    X_test = X_test.copy()
    X_test[:, unseen] = 7
    assert np.isfinite(est.rank_report(X, X_test).held_out).all()
