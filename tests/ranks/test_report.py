"""The rank report, pruning and the score by Monte Carlo. Seeds are fixed."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood
from gapmf.counts import check_counts
from gapmf.datasets import paper_synthetic
from gapmf.em.expectation import ExactExpectation
from gapmf.em.settings import check_settings
from gapmf.engines.local import LocalEngine
from gapmf.ranks.criteria import HeldOutCounts, Scores
from gapmf.ranks.refit import Refit
from gapmf.ranks.report import CAREFUL, BackwardElimination, report_on, score_test
from gapmf.validation import check_random_state


def simulated(K, seed, N=300, F=40, counts=100, alpha=0.3):
    rng = np.random.default_rng(seed)
    directions = rng.dirichlet(np.full(F, 0.1), K).T
    truth = GaP(directions * counts / (K * alpha), alpha)
    return truth.sample(N, random_state=rng), truth.sample(N, random_state=rng)


@pytest.fixture(scope="module")
def fitted():
    X, X_test = simulated(3, 0, N=120, F=30, counts=60)
    return X, X_test, GammaPoissonMF(4, alpha=0.3, tol=1e-4, random_state=0).fit(X)


CRITERIA = {
    "held-out counts": lambda X_test: {},
    "held-out samples": lambda X_test: {"X_test": X_test},
    "BIC": lambda X_test: {"criterion": "bic"},
}


@pytest.fixture(scope="module")
def reports(fitted):
    X, X_test, est = fitted
    return {name: est.rank_report(X, **made(X_test)) for name, made in CRITERIA.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", CRITERIA)
def test_the_report_finds_the_rank(name, fitted, reports):
    X, _, est = fitted
    report = reports[name]
    assert report.criterion == name
    assert report.rank == 3 == report.keep.sum()
    assert [m.n_components for m in report.models] == [3]
    np.testing.assert_array_equal(report.model.W, report.models[-1].W)
    assert sorted(report.removed) == np.flatnonzero(~report.keep).tolist()
    if name == "held-out counts":  # it is on a new fit, on the scale of all counts
        assert report.norm.sum() == pytest.approx(est.model_.column_norms.sum(), rel=0.02)
    else:
        np.testing.assert_array_equal(report.norm, est.model_.column_norms)
        np.testing.assert_array_equal(report.share, est.model_.shares)
    assert report.cost.shape == report.cost_error.shape == report.bound.shape == (4,)
    assert (report.cost_error > 0).all()
    if name == "BIC":
        assert report.price == pytest.approx(0.5 * (X.sum(axis=0) > 0).sum() * np.log(120))
    else:
        assert report.price is None
    # Models are on the scale of all counts. Of held-out counts, 12 % of those of a feature is four
    # standard errors where it has 300 counts.
    often = X.sum(axis=0) > 300
    tolerance = 0.12 if name == "held-out counts" else 1e-12
    found = report.model.expected_counts()[often]
    np.testing.assert_allclose(found, X.mean(axis=0)[often], rtol=tolerance)


def test_the_printed_report_explains_its_words(reports):
    """One line per component, then what the numbers are, what decided, and what r means."""
    for name, (data, rule) in {
        "held-out counts": ("held-out counts (a random 20% of all)", "two standard err"),
        "held-out samples": ("the held-out samples", "errors of that of the best model so far"),
        "BIC": ("the fitted counts", f"BIC's price of a component, {reports['BIC'].price:.1f} nat"),
    }.items():
        report = reports[name]
        table, words = str(report).split("\n\n")
        assert len(table.splitlines()) == 5
        assert table.count("yes") == 3
        words = " ".join(words.split())
        assert f"cost: the loss in log-likelihood of {data}" in words
        assert "in nats (natural logarithms)" in words
        assert f"rank: 3, by {name}." in words
        assert rule in words
        assert re.search(r"one more component: r = [\d.]+ ± [\d.]+ at feature \d+\.", words)
        assert "EM multiplies the weight of a feature in a tiny new component by r" in words
        assert "the largest (r − 1)/error of 30 features: no more than chance gives" in words
        assert max(map(len, str(report).splitlines())) <= 100
        assert repr(report) == "RankReport(rank=3, n_components=4)"


def test_a_cheap_component_that_stays_is_explained(reports):
    """Its cost alone is small where another one with its role was removed."""
    report = next(iter(reports.values()))
    K = report.keep.size
    keep = np.arange(K) > 0
    said = "is kept where another one with its role was removed before"
    for cost, shown in ((1.0, True), (50.0, False)):
        changed = dataclasses.replace(
            report, keep=keep, removed=(0,), cost=np.full(K, cost), cost_error=np.ones(K),
            bound=np.zeros(K, dtype=bool),
        )  # fmt: skip
        assert (said in " ".join(str(changed).split())) == shown


def test_components_are_called_by_distinctive_features(fitted, reports):
    X, _, est = fitted
    for k, label in enumerate(reports["BIC"].labels):
        assert label == ", ".join(str(f) for f, _ in est.top_features(3)[k])
    few = X[:60, :6] + 1
    frame = pd.DataFrame(few, columns=["ape", "bee", "cat", "dog", "elk", "fox"])
    named = GammaPoissonMF(2, algorithm="em-c", tol=1e-3, random_state=0).fit(frame)
    report = named.rank_report(frame)
    shown = str(report)
    for k, top in enumerate(named.top_features(3)):
        assert report.labels[k] == ", ".join(name for name, _ in top)
        assert report.labels[k] in shown
    assert re.search(r"at '(ape|bee|cat|dog|elk|fox)'\.", " ".join(shown.split()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters", [{"learn_alpha": True}, {"algorithm": "mcem-ch"}, {"schedule": "saem"}]
)
def test_it_finds_the_rank_with_other_algorithms_too(parameters):
    X, _ = simulated(2, seed=3, N=120, F=12)
    est = GammaPoissonMF(4, tol=1e-3, random_state=0, **parameters).fit(X)
    assert est.rank_report(X).rank == 2
    report = est.rank_report(X, criterion="bic")
    assert report.rank == 2
    n_parameters = (X.sum(axis=0) > 0).sum() + ("learn_alpha" in parameters)
    assert report.price == pytest.approx(0.5 * n_parameters * np.log(120))


@pytest.fixture(scope="module")
def small_fit():
    X, _ = simulated(2, seed=3, N=40, F=8, counts=40)
    return X, GammaPoissonMF(3, alpha=0.3, tol=1e-3, random_state=0).fit(X)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"criterion": "bic"}])
def test_it_is_the_same_for_any_n_jobs(options, small_fit):
    X, est = small_fit
    one, two = (est.set_params(n_jobs=n_jobs).rank_report(X, **options) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.cost, two.cost)
    np.testing.assert_array_equal(one.cost_error, two.cost_error)
    np.testing.assert_array_equal(one.r, two.r)
    np.testing.assert_array_equal(one.model.W, two.model.W)


def test_pruning_gives_a_fitted_estimator(fitted, reports):
    X, _, est = fitted
    small = est.prune(X, report=reports["held-out counts"])
    assert small.n_components == 3
    assert small.components_.shape == (3, 30)
    assert small.converged_
    assert est.n_components == 4
    value = [
        log_marginal_likelihood(X, m, precision=1e-4, random_state=0).total
        for m in (small.model_, est.model_)
    ]
    assert value[0] > value[1] - reports["BIC"].price


def literal_costs(est, X, X_test, options):
    """With K = 2: what is left is one component, fitted in closed form."""
    counts = check_counts(X)
    if X_test is not None:
        alone = GaP(X.mean(axis=0)[:, None])
        models = est.model_, alone
        return np.subtract(*(log_marginal_likelihood(X_test, m).total for m in models)), 1e-3
    if options:
        alone = GaP(X.mean(axis=0)[:, None])
        return est.log_likelihood_ - log_marginal_likelihood(X, alone).total, 1e-4
    judge = HeldOutCounts(counts, int(check_random_state(0).integers(2**63)), None)
    alone = GaP(np.asarray(judge.fitted.sum(axis=0))[:, None] / len(X))
    models = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(judge.fitted).model_, alone
    return np.subtract(*(judge.score(m).total for m in models)), 1e-2


@pytest.fixture(scope="module")
def exact_fit():
    X, truth = paper_synthetic(scale=10, random_state=0)
    return X, truth, GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X)


@pytest.mark.slow
@pytest.mark.parametrize("name", CRITERIA)
def test_costs_with_exact_moments_are_those_of_refits(name, exact_fit):
    X, truth, est = exact_fit
    options = CRITERIA[name](truth.sample(80, random_state=1))
    report = est.rank_report(X, **options)
    expected, tolerance = literal_costs(est, X, options.get("X_test"), options)
    np.testing.assert_allclose(report.cost, expected, atol=tolerance)
    assert (report.cost_error == 0).all() == (name == "BIC")
    if name != "held-out counts":  # 20 % of 2,200 counts: they do not decide
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


class ByTable:
    """A criterion and a refit: scores by which components are left, from a table."""

    name, scale, fitted, monte_carlo = "BIC", 1.0, None, True

    def __init__(self, scores, price, error=0.0):
        self.scores, self.price, self._error = scores, price, error
        self.careful = []  # the models that were refitted carefully

    def score(self, model, *, rough=False, start=None):
        return Scores(np.array([self.scores(components_of(model))]), 0.0)

    def error(self, more, less):
        return self._error

    def fit(self, model, effort):
        if effort == CAREFUL:
            self.careful.append(components_of(model))
        return model

    def without(self, model, k):
        return GaP(np.delete(model.W, k, axis=1))

    def report(self, K):
        elimination = BackwardElimination(self, self)
        report = report_on(elimination, GaP(np.eye(K)), self, (np.ones(K), np.ones(K)))
        assert [m.n_components for m in report.models] == list(range(K - 1, report.rank - 1, -1))
        assert components_of(report.model) == tuple(np.flatnonzero(report.keep).tolist())
        return report


def components_of(model):
    return tuple(np.flatnonzero(model.W.any(axis=1)).tolist())


def test_the_order_of_elimination():
    """By hand: the cheapest goes first, a twin that became costly stays, the costly is not tried.

    Component 1 has the role of 0, so that it is costly once 0 is gone.
    """
    costs = {
        (0, 1, 2, 3): 0.0,
        (1, 2, 3): 1.0,
        (0, 2, 3): 2.0,
        (0, 1, 3): 3.0,
        (0, 1, 2): 500.0,
        (2, 3): 60.0,
        (1, 3): 5.0,
    }
    by_table = ByTable(lambda left: -costs[left], price=10.0)
    report = by_table.report(4)
    assert report.removed == (0, 2)
    assert report.cost.tolist() == [1.0, 2.0, 3.0, 500.0]
    assert report.bound.tolist() == [False, False, False, True]  # it had short refits only
    assert by_table.careful == [(0, 1, 2, 3), (1, 2, 3), (0, 2, 3), (0, 1, 3), (2, 3), (1, 3)]
    costs[1, 3] = 11.5  # 10.5 more than (1, 2, 3)
    assert by_table.report(4).removed == (0,)


@pytest.mark.parametrize("price", [10.0, None])
def test_one_component_always_stays(price):
    assert ByTable(lambda left: 0.0, price, error=1.0).report(4).rank == 1


def test_held_out_losses_do_not_add_up_unseen():
    """Each removal loses 0.9 standard errors: three together lose more than the two allowed."""
    by_table = ByTable(lambda left: 0.9 * len(left), price=None, error=1.0)
    assert by_table.report(6).removed == (0, 1)
    # Spare components: the model gets better without them, and the best one is what counts.
    scores = {6: 0.0, 5: 3.0, 4: 6.0, 3: 5.0, 2: 3.9, 1: 2.0}
    by_table = ByTable(lambda left: scores[len(left)], price=None, error=1.0)
    assert by_table.report(6).rank == 3


def test_what_is_clearly_needed_is_not_refitted_carefully():
    costs = {0: 2.1, 1: 1.9, 2: 7.0}  # 4 is the limit: twice two standard errors
    by_table = ByTable(
        lambda left: -sum(costs[k] for k in {0, 1, 2} - {*left}), price=None, error=1.0
    )
    report = by_table.report(3)
    assert report.bound.tolist() == [False, False, True]
    assert report.removed == (1,)
    assert by_table.careful == [(0, 1, 2), (1, 2), (0, 2), (2,)]
    assert "<       7.0 ± 1" in str(report)
    assert "<: at most this, clearly needed" in " ".join(str(report).split())


def test_a_cost_that_falls_is_not_called_clear():
    by_table = ByTable(lambda left: 0.0, price=None)
    needs = BackwardElimination(by_table, by_table).needs
    assert needs((17.0, 1.0), np.inf)  # beyond 8 times two standard errors at once
    assert not needs((15.0, 1.0), np.inf)  # a first refit does not show whether it falls
    assert needs((10.0, 1.0), 11.9)  # at last 10 - 3 × 1.9 = 4.3
    assert not needs((10.0, 1.0), 12.1)
    assert needs((4.1, 1.0), 4.0)  # does not fall
    assert not needs((3.9, 1.0), 3.8)


def test_the_score_by_monte_carlo_is_the_exact_one():
    X, truth = paper_synthetic(scale=10, random_state=2)
    model = GaP(truth.W @ [[1.0], [1.0]])
    exact, error = ExactExpectation(check_counts(X)).score(model)
    r, r_error = score_test(check_counts(X), model, 0, None)
    np.testing.assert_allclose(r, exact, rtol=0.05)  # 1/h has heavy tails
    assert (np.abs(np.log(r_error / error)) < np.log(2.5)).all()


@pytest.mark.parametrize("options", [{}, {"criterion": "bic"}])
def test_one_component(options):
    X = np.array([[3, 0, 2], [1, 1, 1], [4, 0, 1]])
    report = GammaPoissonMF(1, random_state=0).fit(X).rank_report(X, **options)
    assert report.rank == 1
    assert report.cost.tolist() == [np.inf]
    assert report.removed == report.models == ()
    assert "rank: 1" in str(report)


def test_one_sample():
    """What varies from sample to sample is unknown: only BIC can decide."""
    X = np.array([[3, 0, 2]])
    est = GammaPoissonMF(2, tol=1e-2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="all components are equal up to noise"):
        est.fit(X)
    with pytest.raises(ValueError, match=r"X has one sample, .* or criterion='bic'"):
        est.rank_report(X)
    with pytest.raises(ValueError, match="X_test must have two samples or more"):
        est.rank_report(X, X)
    report = est.rank_report(X, criterion="bic")
    assert report.rank == 1
    assert np.isnan(report.r_error).all()
    assert "rank: 1" in str(report)


@pytest.fixture(scope="module")
def with_an_empty_component():
    X, truth = paper_synthetic(scale=30, n_samples=200, random_state=0)
    start = np.array([X.mean(axis=0) / 2, np.zeros(4), X.mean(axis=0) / 2 * [1.5, 0.5, 1, 1]])
    start *= X.mean(axis=0) / start.sum(axis=0)
    return X, truth, GammaPoissonMF(3, init=start, tol=1e-3, random_state=0).fit(X)


@pytest.mark.slow
@pytest.mark.parametrize("name", CRITERIA)
def test_an_empty_component_goes_first(name, with_an_empty_component):
    X, truth, est = with_an_empty_component
    assert est.model_.column_norms[1] == 0.0
    report = est.rank_report(X, **CRITERIA[name](truth.sample(60, random_state=1)))
    assert report.removed == (1,)
    assert report.cost[1] == report.cost_error[1] == 0.0
    np.testing.assert_array_equal(report.keep, [True, False, True])
    assert report.rank == 2 == report.model.n_components
    np.testing.assert_allclose(report.norm, est.model_.column_norms, rtol=0.1)
    assert report.norm[1] == report.share[1] == 0.0
    assert report.labels[1] == ""


def test_ctrl_c_is_passed_on(fitted, monkeypatch):
    """In the score test, in the fit to the other counts, and in a refit: no half report."""
    X, _, est = fitted
    advance, calls = LocalEngine.advance, []

    def counting(engine, *given):
        calls.append(engine)
        if len(calls) == stop:
            raise KeyboardInterrupt
        return advance(engine, *given)

    monkeypatch.setattr(LocalEngine, "advance", counting)
    stop = -1
    est.rank_report(X)
    kinds = [engine is not calls[-1] for engine in calls]
    last_of_fit = np.flatnonzero(kinds)[-1] + 1  # the engine of all refits is one
    for stop in (3, last_of_fit, last_of_fit + 5):
        calls.clear()
        with pytest.raises(KeyboardInterrupt):
            est.rank_report(X)
        assert len(calls) == stop


def test_refusals(fitted):
    X, _, est = fitted
    with pytest.raises(NotFittedError):
        GammaPoissonMF(2).rank_report(X)
    with pytest.raises(ValueError, match="the model is expecting 30"):
        est.rank_report(X[:, :7])
    with pytest.raises(ValueError, match="the model is expecting 30"):
        est.rank_report(X, X[:, :7])
    with pytest.raises(ValueError, match="criterion must be one of 'prediction', 'bic'"):
        est.rank_report(X, criterion="aic")


@pytest.mark.slow
def test_held_out_features_without_counts_are_left_out(fitted, reports):
    X, X_test, est = fitted
    unseen = np.flatnonzero(X.sum(axis=0) == 0)
    assert unseen.size
    X_test = X_test.copy()
    X_test[:, unseen] = 7
    report = est.rank_report(X, X_test)
    np.testing.assert_allclose(report.cost, reports["held-out samples"].cost)
    assert np.isfinite(report.cost).all()
