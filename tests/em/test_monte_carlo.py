"""MCEM-C, MCEM-H and MCEM-CH by the paper's schedule. Seeds are fixed."""

import functools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from chains import one_sweep
from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood
from gapmf.counts import check_counts
from gapmf.datasets import paper_synthetic
from gapmf.em.fit import first_model, run_with_restarts
from gapmf.em.m_steps import m_step_for
from gapmf.em.monte_carlo import RunState, final_model, make_schedule
from gapmf.em.settings import MONTE_CARLO, check_settings
from gapmf.engines.base import Sweeps
from gapmf.engines.local import LocalEngine

ALGORITHMS = MONTE_CARLO


def settings_for(X, **parameters):
    return check_settings(GammaPoissonMF(**parameters).get_params(), check_counts(X))


def counts(N=120, F=30, K=3, seed=0):
    rng = np.random.default_rng(seed)
    truth = GaP(rng.gamma(0.3, 1.0, (F, K)), alpha=0.5, beta=0.5)
    X = truth.sample(N, random_state=seed + 1)
    X[0] = 0
    X[1, 2] = 500
    return X


@pytest.mark.parametrize("learn_alpha", [False, True])
@pytest.mark.parametrize(
    "schedule",
    [
        {"schedule": "paper", "n_draws": 3, "n_burn_in": 1},
        {"schedule": "saem"},
        {"schedule": "saem-textbook"},
        {},
    ],
)
@pytest.mark.filterwarnings("ignore:mcem-c stopped after 40")
def test_mcem_c_keeps_the_means(schedule, learn_alpha):
    """Σ_k (α_k/β_k) w_fk = v̄_f after every iteration, to rounding."""
    X = counts()
    alpha, beta = np.array([0.1, 1.0, 5.0]), np.array([2.0, 0.3, 1.0])
    seen = []
    GammaPoissonMF(
        3,
        alpha=alpha,
        beta=beta,
        learn_alpha=learn_alpha,
        max_iter=40,
        random_state=0,
        callbacks=[lambda record: seen.append(record.model)],
        **schedule,
    ).fit(X)
    assert len(seen) == 40
    assert (seen[-1].alpha != alpha).all() == learn_alpha
    for m in seen:
        expected = m.W @ (m.alpha / m.beta)
        np.testing.assert_allclose(expected, X.mean(axis=0), rtol=1e-12, atol=0)


def fitted_model(engine, settings, rng):
    """What one start comes to, on any engine."""
    schedule = make_schedule(settings, engine)
    state = first = RunState(first_model(settings, engine, rng), schedule.start())
    for state in run_with_restarts(engine, schedule, settings, rng, first):
        assert state.n_iter <= settings.max_iter
    return final_model(schedule, state)


PAPER = {"schedule": "paper", "n_draws": 3, "n_burn_in": 2, "max_iter": 6}


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        *({"algorithm": algorithm, **PAPER} for algorithm in ALGORITHMS),
        *({"algorithm": algorithm, "max_iter": 70} for algorithm in ALGORITHMS),
        {"learn_alpha": True, "max_iter": 70},
        {"learn_alpha": "shared", **PAPER},
        {"schedule": "saem", "max_iter": 70},
    ],
    ids=str,
)
def test_a_fit_is_the_same_bits_however_it_is_run(parameters):
    X = counts(60)
    settings = settings_for(X, n_components=4, alpha=0.4, tol=1e-4, **parameters)

    def fit(data, engine):
        engine.load(check_counts(data), seed=5)
        rng = np.random.default_rng(0)
        return fitted_model(engine, settings, rng).W

    reference = fit(X, LocalEngine())
    assert np.isfinite(reference).all()
    for data, n_jobs, block_size in [(X, 2, None), (X, 1, 7), (sp.csc_array(X), 5, 1000)]:
        W = fit(data, LocalEngine(n_jobs, block_size))
        np.testing.assert_array_equal(W, reference)


def test_a_step_of_mcem_h_is_the_papers():
    """With one draw of h a sample, Eq. 42 written out."""
    rng = np.random.default_rng(3)
    X = rng.poisson(4.0, (6, 5))
    model = GaP(rng.gamma(1.0, 1.0, (5, 2)))
    engine = LocalEngine().load(check_counts(X), seed=2)
    s = engine.advance(model, Sweeps(1, expectations=True))
    W = m_step_for("mcem-h", None)(s, model).W
    first = np.full((6, 2), -1)
    _, h, _ = one_sweep(X, model, first, seed=2)
    ratio = sum(h[n][None] * (X[n] / (model.W @ h[n]))[:, None] for n in range(6))
    np.testing.assert_allclose(W, model.W * ratio / h.sum(axis=0), rtol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_mcem_h_is_mcem_ch_but_for_the_papers_schedule():
    """The others accumulate E[C | h], with which one multiplicative step is the one of EM-CH."""
    X = counts()
    for given, same in (({}, True), ({"schedule": "saem"}, True), (PAPER, False)):
        parameters = {"max_iter": 30, "random_state": 0} | given
        fits = [
            GammaPoissonMF(3, algorithm=algorithm, **parameters).fit(X)
            for algorithm in ("mcem-h", "mcem-ch")
        ]
        assert np.array_equal(fits[0].components_, fits[1].components_) == same


@functools.cache
def exact_maximum(scale):
    X, _ = paper_synthetic(scale=scale, random_state=1)
    return X, GammaPoissonMF(3, algorithm="exact", random_state=0).fit(X)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "scale"), [("mcem-c", 1), ("mcem-c", 100), ("mcem-ch", 100), ("mcem-h", 1)]
)
def test_near_the_maximum_the_mean_is_the_maximum(algorithm, scale):
    """Iterates wander about the maximum of V₁ and V₂; their mean is it, to a hundredth of a nat.

    A single iterate is off by more, so the mean is not near merely because it began there.
    """
    X, top = exact_maximum(scale)
    seen = []
    GammaPoissonMF(
        3,
        algorithm=algorithm,
        init=top.components_,
        schedule="paper",
        n_draws=150,
        n_burn_in=10,
        max_iter=120,
        random_state=0,
        callbacks=[lambda record: seen.append(record.model.W)],
    ).fit(X)
    mean = np.mean(seen, axis=0)
    below = top.log_likelihood_ - log_marginal_likelihood(X, GaP(mean)).total
    assert below < 0.03
    assert np.abs(mean - top.model_.W).max() < 0.02 * top.model_.W.max()
    assert np.abs(mean.sum(axis=0) - top.model_.column_norms).max() < 0.03 * mean.sum()
    assert np.std(seen, axis=0).max() > 1e-3 * mean.max()


@pytest.mark.slow
def test_the_spare_column_shrinks_under_mcem_c_only():
    """The paper's figure 3: on V₂, after as many iterations, MCEM-CH and MCEM-H still have it."""
    X, _ = paper_synthetic(scale=100, random_state=0)
    share = {}
    for algorithm in ALGORITHMS:
        est = GammaPoissonMF(
            3,
            algorithm=algorithm,
            schedule="paper",
            n_draws=30,
            n_burn_in=30,
            max_iter=100,
            random_state=0,
        ).fit(X)
        share[algorithm] = est.model_.shares.min()
    assert share["mcem-c"] < 0.08
    assert share["mcem-ch"] > 0.2
    assert share["mcem-h"] > 0.2


def test_the_estimator_follows_the_papers_protocol():
    X = counts()
    est = GammaPoissonMF(3, schedule="paper", n_draws=2, n_burn_in=3, max_iter=7, random_state=4)
    est.fit(X)
    assert est.n_iter_ == 7
    assert est.converged_ is False
    np.testing.assert_array_equal(est.history_["n_sweeps"], 5 * np.arange(1, 8))
    assert est.history_["norms"].shape == (7, 3)
    assert np.isnan(est.history_["log_likelihood"]).all()
    assert not hasattr(est, "log_likelihood_")
    again = GammaPoissonMF(**est.get_params()).fit(sp.csr_array(X))
    np.testing.assert_array_equal(again.components_, est.components_)
    other = GammaPoissonMF(**est.get_params() | {"random_state": 5, "n_jobs": 2}).fit(X)
    assert (other.components_ != est.components_).any()


def test_the_first_iteration_starts_from_the_papers_point(monkeypatch):
    X = counts()
    seen = []
    advance = LocalEngine.advance
    monkeypatch.setattr(
        LocalEngine, "advance", lambda self, m, s: (seen.append((m, s)), advance(self, m, s))[1]
    )
    GammaPoissonMF(4, algorithm="mcem-ch", alpha=2.0, beta=0.5, schedule="paper", max_iter=1).fit(X)
    model, sweeps = seen[0]
    expected = np.tile(X.mean(axis=0)[:, None] * 0.25 / 4, (1, 4))
    np.testing.assert_allclose(model.W, expected, rtol=1e-15)
    assert sweeps == Sweeps(150, 150, expectations=False)


def test_a_refit_forgets_what_exact_moments_left():
    X = counts(40, 6)
    est = GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X)
    assert hasattr(est, "certificate_")
    est.set_params(algorithm="mcem-c", schedule="paper", n_draws=1, n_burn_in=0, max_iter=2).fit(X)
    assert not hasattr(est, "certificate_")
    assert not hasattr(est, "log_likelihood_")


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"schedule": "paper", "n_draws": 0}, "n_draws must be a whole number, 1 or more"),
        ({"schedule": "paper", "n_burn_in": -1}, "n_burn_in must be a whole number, 0 or more"),
        ({"n_draws": 5}, "n_draws is for schedule='paper' only, but the schedule is 'adaptive'"),
        ({"schedule": "saem", "n_burn_in": 5}, "n_burn_in is for schedule='paper' only"),
        (
            {"schedule": "fast"},
            "schedule must be one of 'adaptive', 'paper', 'saem', 'saem-textbook', 'online', "
            "'posterior', but is 'fast'",
        ),
        ({"algorithm": "mcem-ch", "learn_alpha": True}, "'mcem-ch' cannot learn alpha"),
        ({"learn_alpha": "both"}, "learn_alpha must be False, 'component'"),
        ({"algorithm": "exact", "n_draws": 5}, "n_draws is for Monte Carlo only"),
        ({"algorithm": "em-c", "n_burn_in": 5}, "n_burn_in is for Monte Carlo only"),
    ],
)
def test_bad_parameters(parameters, says):
    with pytest.raises(ValueError, match=says):
        GammaPoissonMF(**{"n_components": 2, "algorithm": "mcem-c"} | parameters).fit(counts())


@functools.cache
def exact_maximum_with_alpha(how):
    X = GaP([[9.0, 1.0], [1.0, 6.0], [3.0, 2.0]], alpha=[0.4, 1.2]).sample(200, random_state=0)
    return X, GammaPoissonMF(2, algorithm="exact", learn_alpha=how, random_state=0).fit(X)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["component", "shared"])
@pytest.mark.parametrize("schedule", ["adaptive", "saem"])
def test_learned_alpha_is_that_of_the_exact_maximum(how, schedule):
    """From the maximum over W and α, Monte Carlo stays there: within 10 % and half a nat."""
    X, top = exact_maximum_with_alpha(how)
    est = GammaPoissonMF(
        2,
        learn_alpha=how,
        schedule=schedule,
        init=top.components_,
        alpha=top.alpha_,
        random_state=0,
    ).fit(X)
    assert est.converged_
    np.testing.assert_allclose(est.alpha_, top.alpha_, rtol=0.1)
    below = top.log_likelihood_ - log_marginal_likelihood(X, est.model_).total
    assert -1e-6 < below < 0.5


def test_several_starts_keep_the_best():
    """Two maxima, 1.6 nats apart: the best of several starts, by its likelihood."""
    X, _ = paper_synthetic(10.0, 100, random_state=5)
    parameters = {"n_components": 3, "init": "random", "tol": 1e-3}
    many = GammaPoissonMF(**parameters, n_init=4, random_state=1).fit(X)
    rng = np.random.default_rng(1)
    values = []
    for _ in range(4):  # the same four fits, one by one
        settings = settings_for(X, **parameters)
        engine = LocalEngine().load(check_counts(X), int(rng.integers(2**64, dtype=np.uint64)))
        model = fitted_model(engine, settings, rng)
        values.append(log_marginal_likelihood(X, model).total)
    assert log_marginal_likelihood(X, many.model_).total == pytest.approx(max(values), abs=1e-9)


def test_ctrl_c_keeps_the_best_of_the_starts_so_far():
    def stop(record):
        n_starts[0] += record.iteration == 1
        if n_starts[0] == 2 and record.iteration == 3:
            raise KeyboardInterrupt

    n_starts = [0]
    est = GammaPoissonMF(2, tol=1e-2, n_init=3, random_state=0, callbacks=[stop])
    with pytest.warns(ConvergenceWarning, match="was interrupted after .* the model so far"):
        assert est.fit(counts()) is est
    assert est.converged_
    assert est.n_iter_ > 3


@pytest.mark.parametrize("wrapped", [False, True])
def test_ctrl_c_keeps_what_there_is(wrapped):
    """Numba makes a SystemError of an interruption that comes while it looks for a kernel."""

    def stop(record):
        if record.iteration == 3:
            if wrapped:
                raise SystemError(
                    "returned a result with an exception set"
                ) from KeyboardInterrupt()
            raise KeyboardInterrupt

    est = GammaPoissonMF(
        2, schedule="paper", n_draws=1, n_burn_in=0, max_iter=50, random_state=0, callbacks=[stop]
    )
    with pytest.warns(ConvergenceWarning, match="was interrupted after 3 iterations"):
        est.fit(counts())
    assert est.n_iter_ == 3
    assert est.components_.shape == (2, 30)
    whole = GammaPoissonMF(**est.get_params() | {"max_iter": 3, "callbacks": None}).fit(counts())
    np.testing.assert_array_equal(est.components_, whole.components_)


def test_other_system_errors_are_no_interruption():
    def fail(record):
        if record.iteration == 3:
            raise SystemError("something else")

    with pytest.raises(SystemError, match="something else"):
        GammaPoissonMF(2, max_iter=9, random_state=0, callbacks=[fail]).fit(counts())
