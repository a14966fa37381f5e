"""The schedules that watch what they gain. Seeds are fixed."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import naive
from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood
from gapmf.counts import check_counts
from gapmf.datasets import paper_synthetic
from gapmf.em.expectation import ExactExpectation
from gapmf.em.gain import EStep, Gain, gain
from gapmf.em.history import History
from gapmf.em.m_steps import update_c
from gapmf.em.maximum import fit_maximum
from gapmf.em.momentum import Momentum
from gapmf.em.schedules import Adaptive, Decision, Saem, StoppingRule, TextbookSaem
from gapmf.em.start import are_alike, mean_start, perturbed_mean_start, random_start
from gapmf.engines.base import Statistics, Sweeps
from gapmf.engines.local import LocalEngine
from gapmf.kernels.dictionary import roll_rows


def two_models(seed, *, learn=False):
    rng = np.random.default_rng(seed)
    X = GaP(rng.gamma(1.0, 3.0, (5, 2))).sample(60, random_state=rng)
    mean, alpha = X.mean(axis=0), np.array([0.7, 1.5])
    a = GaP(perturbed_mean_start(mean, alpha, np.ones(2), rng), alpha)
    factor = rng.uniform(0.8, 1.25, 2) if learn else np.ones(2)
    W = a.W * rng.uniform(0.9, 1.1, a.W.shape) / factor
    return X, a, GaP(W, alpha * factor)


@pytest.mark.slow
@pytest.mark.parametrize("learn", [False, True])
def test_the_gain_of_a_step_is_the_difference_of_exact_likelihoods(learn):
    """Within a few standard errors, which take two sweeps for a draw: chains can be slower."""
    scores = []
    for seed in range(12):
        X, a, b = two_models(seed, learn=learn)
        engine = LocalEngine().load(check_counts(X), seed)
        sweeps = Sweeps(100, 20, expectations=True, sizes=learn)
        points = [EStep(m, engine.advance(m, sweeps), 100) for m in (a, b)]
        told = gain(*points)
        true = log_marginal_likelihood(X, b).total - log_marginal_likelihood(X, a).total
        scores.append((told.estimate - true) / (told.error + 0.02 * abs(true)))
    assert np.abs(scores).max() < 6.0
    assert 0.2 < np.sqrt(np.mean(np.square(scores))) < 3.0
    assert abs(np.mean(scores)) < 3.0 * 3.0 / np.sqrt(12)


def test_the_gain_of_standing_still_is_nothing():
    X, a, _ = two_models(0)
    engine = LocalEngine().load(check_counts(X), 0)
    here = EStep(a, engine.advance(a, Sweeps(1, expectations=True)), 1)
    assert gain(here, here) == Gain(0.0, 0.0)


@pytest.mark.parametrize(("factor", "better"), [(0.02, 4.0), (0.3, 2.0), (3.0, 1.5)])
def test_the_gain_allows_for_rare_entries_that_move_far(factor, better):
    """Entries with a small share of their features, times 0.02 to 3, one third of them at a time.

    In the logarithm of an entry the expected count is an exponential function, and the
    trapezoidal rule in that coordinate alone is off by more.
    """
    rng = np.random.default_rng(3)
    W = rng.gamma(1.0, 2.0, (12, 2))
    W[:, 1] *= 0.05
    a = GaP(W, alpha=[1.0, 0.6])
    X = a.sample(150, random_state=rng)
    W = a.W.copy()
    W[::3, 1] *= factor
    b = GaP(W, a.alpha)
    engine = LocalEngine().load(check_counts(X), 0)
    points = [EStep(m, engine.advance(m, Sweeps(400, 20, expectations=True)), 400) for m in (a, b)]
    true = log_marginal_likelihood(X, b).total - log_marginal_likelihood(X, a).total
    told = gain(*points)
    in_logs = 0.5 * sum(float((s.c_sum[::3, 1]).sum()) / 400 * np.log(factor) for _, s, _ in points)
    in_logs += 0.5 * sum(naive.expected_log_ratio(*p, a, b) for p in points)
    assert abs(told.estimate - true) < 0.15 * abs(true) + 4.0 * told.error
    assert abs(in_logs - true) > better * abs(told.estimate - true)


def test_momentum_adds_up_what_steps_have_in_common():
    """At a steady drift steps become 1/friction times as long; the means stay."""
    momentum, means = Momentum(0.25, 0.0), np.ones(2)
    model = GaP([[0.5, 0.5], [0.5, 0.5]])
    steps = []
    for _ in range(40):
        u = model.W * np.exp([0.001, -0.001])
        em = GaP(u / u.sum(axis=1, keepdims=True))
        before = model
        model, momentum = momentum.step(model, em, means)
        steps.append(np.log(model.W / before.W)[0, 0] / np.log(em.W / before.W)[0, 0])
        np.testing.assert_allclose(model.W.sum(axis=1), 1.0, rtol=1e-14)
    assert steps[0] == pytest.approx(1.0)
    assert steps[-1] == pytest.approx(4.0, rel=0.05)
    forgotten, _ = Momentum(0.25, 0.0).step(model, em, means)
    np.testing.assert_allclose(forgotten.W, em.W, rtol=1e-14)


def test_momentum_keeps_zeros_and_its_floor():
    momentum = Momentum(0.25, 0.01)
    model = GaP([[1.0, 0.0], [0.5, 0.5], [0.999999, 1e-6]])
    for _ in range(3):
        model, momentum = momentum.step(model, model, np.ones(3))
    assert model.W[0, 1] == 0.0
    assert model.W[2, 1] == pytest.approx(0.01, rel=0.02)


@pytest.mark.parametrize("kept", [0.0, 0.875, 0.9])
@pytest.mark.parametrize("keeps_means", [False, True])
def test_rows_roll_as_their_equation_says(kept, keeps_means):
    rng = np.random.default_rng(0)
    em, before = rng.gamma(0.1, 1.0, (2, 300, 4))
    em[rng.random(em.shape) < 0.1] = before[rng.random(em.shape) < 0.1] = 0.0
    em[0] = 0.0
    factors = np.exp(rng.normal(0.0, 2.0, em.shape))
    mean_counts = rng.gamma(1.0, 1.0, 300) if keeps_means else np.empty(0)
    expected, moved = naive.rolled_rows(em, before, factors, kept, 0.01, mean_counts)
    assert ((moved == 1.0) & (em > 0)).any()
    scales = rng.gamma(1.0, 1.0, (3, 4))
    for roll in (roll_rows, roll_rows.py_func):
        W, new = np.empty_like(em), factors.astype(np.float32)
        steps = em / scales[0], scales[0], before / scales[1], scales[1], new
        roll(0, 100, *steps, kept, 0.01, mean_counts, scales[2], W)
        roll(100, 300, *steps, kept, 0.01, mean_counts, scales[2], W)
        np.testing.assert_allclose(W, expected * scales[2], rtol=2e-6)
        np.testing.assert_allclose(new, np.minimum(moved, 1e30), rtol=2e-6)


def keep_model(statistics, model):
    """An M-step that stays where it is."""
    return model


def adaptive():
    rule = StoppingRule(per_sweep=0.1, in_all=100.0)
    return Adaptive(keep_model, False, rule, np.empty(0), n_components=2)


def test_windows_become_a_quarter_of_the_iterations_with_the_same_sweeps():
    X, model, _ = two_models(0)
    schedule = adaptive()
    statistics = LocalEngine().load(check_counts(X), 0).advance(model, Sweeps(1, expectations=True))
    lengths, progress = [], schedule.start()
    while len(lengths) < 12:
        lengths.append(schedule.window_length(progress))
        for _ in range(lengths[-1]):
            _, progress = schedule.step(progress, model, statistics)
        _, progress = schedule.decide(progress, Gain(1000.0, 1.0))
    assert set(lengths[:5]) == {60}
    assert lengths[-1] == (sum(lengths[:-1])) // 4 > 100
    assert schedule.n_averaged(progress) == schedule.window_length(progress) // 3
    decision, progress = schedule.decide(progress, Gain(0.0, 100.0))
    assert decision is Decision.CONTINUE_FROM_AVERAGE
    assert (progress.n_draws, schedule.window_length(progress)) == (2, 60)


def test_the_stopping_rule_is_a_rate_and_a_bound():
    rule = StoppingRule(per_sweep=0.5, in_all=20.0)
    assert rule.is_met(Gain(4.0, 0.4), 10)
    assert not rule.is_met(Gain(4.0, 0.6), 10)
    assert not rule.is_met(Gain(-6.0, 0.0), 10)
    assert not rule.is_met(Gain(21.0, 0.0), 1000)


def test_the_adaptive_schedule_draws_more_only_when_it_cannot_tell():
    """A window of 60 iterations of one sweep may gain 6 nats, and one of two sweeps 12."""
    schedule = adaptive()
    decision, progress = schedule.decide(schedule.start(), Gain(20.0, 5.0))
    assert (decision, progress.n_draws) == (Decision.CONTINUE, 1)
    decision, progress = schedule.decide(progress, Gain(9.0, 5.0))  # may be nothing
    assert (decision, progress.n_draws) == (Decision.CONTINUE_FROM_AVERAGE, 2)
    assert progress.momentum.floor > 0
    decision, progress = schedule.decide(progress, Gain(9.0, 1.0))  # the floor goes first
    assert (decision, progress.momentum.floor) == (Decision.CONTINUE_FROM_AVERAGE, 0.0)
    decision, progress = schedule.decide(progress, Gain(11.0, 1.0))  # small, but not surely
    assert (decision, progress.n_draws) == (Decision.CONTINUE_FROM_AVERAGE, 4)
    decision, progress = schedule.decide(progress, Gain(11.0, 1.0))
    assert decision is Decision.STOP


def test_saem_averages_with_the_documented_steps():
    seen = []

    def note(s, model):
        seen.append(s.c_sum[0, 0] / s.n_draws)
        return model

    def draw(c, n):
        return Statistics(np.array([[c * n]]), np.ones(1), float(n))

    schedule = Saem(note, False, StoppingRule(0.0, 0.0))
    progress = schedule.start()
    for c in (3.0, 5.0):
        _, progress = schedule.step(progress, None, draw(c, 2))
    assert seen == [3.0, 5.0]  # no memory yet
    _, progress = schedule.decide(progress, Gain(0.0, 1.0))
    expected = 5.0
    for j, c in enumerate((1.0, 2.0, 7.0), start=1):
        _, progress = schedule.step(progress, None, draw(c, 4))
        expected += j**-0.75 * (c - expected)
        assert seen[-1] == pytest.approx(expected, rel=1e-12)
    assert progress.effective_sweeps == pytest.approx(1.0 + 2.0**-0.75 + 3.0**-0.75)


def test_saem_draws_more_only_where_it_cannot_tell():
    schedule = Saem(keep_model, False, StoppingRule(0.01, 1.0))
    draw = Statistics(np.ones((1, 1)), np.ones(1), 1.0)
    progress, windows, decisions = schedule.start(), [], []
    for gained in (
        Gain(0.1, 0.0),  # small, but without averaging yet
        Gain(9.0, 1.0),  # a gain: the same again
        Gain(1.0, 1.0),  # unclear
        Gain(0.1, 0.0),  # 2 × 7.9 full steps may gain 0.16
    ):
        for _ in range(schedule.window_length(progress)):
            _, progress = schedule.step(progress, None, draw)
        windows.append((progress.n_draws, progress.effective_sweeps))
        decision, progress = schedule.decide(progress, gained)
        decisions.append(decision)
    assert decisions == [Decision.CONTINUE] * 3 + [Decision.STOP]
    averaged = sum(j**-0.75 for j in range(1, 61))
    assert [n for n, _ in windows] == [1, 1, 1, 2]
    worth = [60.0, averaged, averaged, 2 * averaged]
    np.testing.assert_allclose([n for _, n in windows], worth, rtol=1e-12)


def test_textbook_saem_never_restarts_its_steps():
    schedule = TextbookSaem(keep_model, False, StoppingRule(0.1, 1.0))
    draw = Statistics(np.ones((1, 1)), np.ones(1), 1.0)
    progress, lengths, sizes = schedule.start(), [], []
    for gained in (Gain(9.0, 1.0), Gain(1.0, 1.0), *[Gain(3.0, 2.0)] * 8):  # then all unclear
        lengths.append(schedule.window_length(progress))
        for _ in range(lengths[-1]):
            before = progress.effective_sweeps
            _, progress = schedule.step(progress, None, draw)
            sizes.append(progress.effective_sweeps - before)
        decision, progress = schedule.decide(progress, gained)
        assert (decision, progress.n_draws) == (Decision.CONTINUE, 1)
    assert lengths[:3] == [60, 60, 60]
    assert lengths[-1] > 60  # a quarter of the iterations since the burn-in
    np.testing.assert_allclose(sizes[:120], 1.0)
    np.testing.assert_allclose(sizes[120:], np.arange(1.0, len(sizes) - 119) ** -0.75)
    assert schedule.decide(progress, Gain(0.0, 0.0))[0] is Decision.STOP


@pytest.mark.slow
@pytest.mark.parametrize(("K", "scale"), [(2, 1), (2, 100), (3, 10)])
def test_it_ends_at_a_maximum(scale, K):
    """V₁- and V₂-like data: a tenth of a nat from the top that the exact gradient climbs to."""
    X, _ = paper_synthetic(scale=scale, random_state=3)
    est = GammaPoissonMF(K, random_state=0).fit(X)
    assert est.converged_
    expect = ExactExpectation(check_counts(X))
    top = fit_maximum(expect, est.model_, max_iter=400, history=History(), warm_up=3)
    here = expect.e_step(est.model_).log_likelihood
    assert 0.0 <= top.expectation.log_likelihood - here < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{"algorithm": "mcem-ch"}, {"schedule": "saem"}])
@pytest.mark.parametrize("scale", [1, 100])
def test_the_others_end_near_one_too(parameters, scale):
    X, _ = paper_synthetic(scale=scale, random_state=3)
    est = GammaPoissonMF(2, random_state=0, **parameters).fit(X)
    assert est.converged_
    top = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X).log_likelihood_
    assert top - log_marginal_likelihood(X, est.model_).total < 0.3


def test_a_looser_tolerance_takes_fewer_sweeps():
    rng = np.random.default_rng(0)
    X = GaP(rng.gamma(0.3, 2.0, (40, 4)), alpha=0.5).sample(200, random_state=rng)
    n_sweeps = [
        GammaPoissonMF(4, tol=tol, random_state=0).fit(X).history_["n_sweeps"][-1]
        for tol in (1e-3, 1e-5)
    ]
    assert n_sweeps[0] < 0.7 * n_sweeps[1]


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_few_tokens_per_parameter_do_not_keep_a_fit_from_ending(alpha):
    """Four tokens per parameter: what draws seem to gain for the model that they made, is much."""
    rng = np.random.default_rng(1)
    truth = GaP(75 / 4 * rng.dirichlet(np.full(600, 0.05), 4).T)
    X = truth.sample(300, random_state=rng)
    est = GammaPoissonMF(8, alpha=alpha, random_state=0).fit(X)
    assert est.converged_
    assert est.n_iter_ < 1500
    assert 0.0 < est.last_gain_ < 0.02


def test_max_iter_first_is_said():
    X, _ = paper_synthetic(scale=100, random_state=0)
    with pytest.warns(ConvergenceWarning, match="stopped after 30 iterations"):
        est = GammaPoissonMF(3, max_iter=30, random_state=0).fit(X)
    assert not est.converged_
    assert est.n_iter_ == 30
    with pytest.warns(ConvergenceWarning):
        few = GammaPoissonMF(3, max_iter=3, random_state=0).fit(X)
    np.testing.assert_array_equal(few.history_["norms"][-1], few.model_.column_norms)


def test_a_callback_stops_it_without_a_warning():
    X, _ = paper_synthetic(scale=1, random_state=0)
    est = GammaPoissonMF(2, random_state=0, callbacks=[lambda r: r.iteration == 25])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est.fit(X)
    assert est.n_iter_ == 25
    assert not est.converged_
    # What the callback saw last, not an average that lags behind.
    np.testing.assert_array_equal(est.history_["norms"][-1], est.model_.column_norms)


def test_components_that_stay_the_same_are_said():
    """Samples that are multiples of one another: one direction explains them all."""
    X = np.outer(np.random.default_rng(0).integers(1, 20, 80), [1, 2, 1, 3])
    with pytest.warns(ConvergenceWarning, match="all components are equal up to noise"):
        est = GammaPoissonMF(2, random_state=0, tol=1e-4).fit(X)
    assert est.converged_


def test_alike_means_one_direction():
    rng = np.random.default_rng(0)
    X = GaP(rng.gamma(0.3, 5.0, (20, 3))).sample(100, random_state=rng)
    engine = LocalEngine().load(check_counts(X), 0)
    alpha = beta = np.ones(3)
    start = GaP(mean_start(X.mean(axis=0), alpha, beta))
    sweeps = Sweeps(20, 5, expectations=True)
    assert are_alike(engine.advance(start, sweeps), 100)
    other = GaP(random_start(X.mean(axis=0), alpha, beta, rng))
    assert not are_alike(engine.advance(other, sweeps), 100)
    one = Statistics(np.ones((4, 1)), np.ones(1), 1.0)
    assert not are_alike(one, 1)


def test_the_edges():
    """Zero columns and counts, N = 1, F = 1, K = 1, huge counts, tiny α."""
    for X, K, alpha in [
        (np.array([[3, 0, 2]]), 2, 1.0),
        (np.array([[3], [0], [7]]), 2, 1.0),
        (np.array([[3, 1], [0, 0], [7, 2]]), 1, 0.01),
        (np.array([[100_000, 3], [2, 50_000], [10, 10]]), 2, 0.5),
        (np.array([[2, 1, 0], [0, 1, 0], [5, 5, 0]]), 3, 0.01),
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            est = GammaPoissonMF(K, alpha=alpha, max_iter=300, random_state=0).fit(X)
        assert np.isfinite(est.components_).all()
        np.testing.assert_allclose(
            est.model_.expected_counts(), X.mean(axis=0), rtol=1e-9, atol=1e-12
        )
    est = GammaPoissonMF(2, random_state=0).fit(np.zeros((4, 3), dtype=int))
    assert est.converged_
    assert (est.components_ == 0).all()


def test_update_c_is_the_step():
    """Without a step before it, momentum changes nothing."""
    X, a, _ = two_models(1)
    s = LocalEngine().load(check_counts(X), 0).advance(a, Sweeps(1, expectations=True))
    em = GaP(update_c(s, a.alpha, a.beta), a.alpha)
    model, _ = Momentum(0.25, 0.0).step(a, em, X.mean(axis=0))
    np.testing.assert_allclose(model.W, em.W, rtol=1e-13)


def test_few_counts_can_tell_components_apart():
    """Five little documents without a word in common: nobody may call their components alike."""
    X = np.kron(np.eye(5, dtype=int), np.array([[3, 1, 2]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est = GammaPoissonMF(5, random_state=0, alpha=0.2).fit(X)
    assert est.n_iter_ < 1000
    one = GammaPoissonMF(1, alpha=0.2, algorithm="exact").fit(X)
    assert log_marginal_likelihood(X, est.model_).total > one.log_likelihood_ + 5.0


def test_components_without_counts_do_not_make_the_others_alike():
    rng = np.random.default_rng(0)
    X = GaP(10.0 * rng.dirichlet(np.full(12, 0.3), 3).T).sample(60, random_state=rng)
    c = np.zeros((12, 300))
    c[:, :3] = np.stack([np.where(np.arange(12) % 3 == k, X.sum(axis=0), 0) for k in range(3)], 1)
    c[:, 3:] = 1e-6
    assert not are_alike(Statistics(c, np.ones(300), 60.0), 60)
