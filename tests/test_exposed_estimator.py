"""GammaPoissonMF with exposures and unobserved entries, from fit to file."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import poisson
from sklearn import config_context
from sklearn.model_selection import cross_validate

from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood, perplexity, posterior_moments
from gapmf.counts import check_counts
from gapmf.em.expectation import ExactExpectation
from gapmf.em.settings import MONTE_CARLO
from gapmf.errors import GapmfError, InvalidInputError
from gapmf.likelihood.predictive import estimate_activations, held_out_scores, split_tokens
from gapmf.observation import check_observation
from gapmf.ranks.report import score_test
from gapmf.storage import checkpoint


@pytest.fixture(scope="module")
def data():
    """Counts of two components, exposures over a factor of 30, 40 % of the entries unobserved."""
    rng = np.random.default_rng(0)
    truth = GaP([[9.0, 0.2], [5.0, 1.0], [1.0, 4.0], [0.1, 8.0]], alpha=0.8)
    s = 10 ** rng.uniform(-1.0, 0.5, 120)
    H = rng.gamma(truth.alpha, 1 / truth.beta, (120, 2))
    X = rng.poisson(s[:, None] * (H @ truth.W.T))
    return X, s, rng.random(X.shape) < 0.6, H


def maximum(X, **how):
    return GammaPoissonMF(2, algorithm="exact", random_state=0).fit(X, **how)


@pytest.fixture(scope="module")
def best(data):
    X, s, M, _ = data
    return {"s": maximum(X, exposure=s), "both": maximum(X, exposure=s, observed=M)}


def value(est, X, **how):
    return log_marginal_likelihood(X, est.model_, **how).total


@pytest.mark.slow
def test_the_exact_maximum_is_certified(data, best):
    X, s, M, _ = data
    for est, how in ((best["s"], {"exposure": s}), (best["both"], {"exposure": s, "observed": M})):
        assert est.converged_
        assert est.certificate_.identity < 1e-4
        assert est.log_likelihood_ == pytest.approx(value(est, X, **how), rel=1e-10)
        truth = GaP([[9.0, 0.2], [5.0, 1.0], [1.0, 4.0], [0.1, 8.0]], alpha=0.8)
        start = GammaPoissonMF(2, algorithm="em-c", init=truth.W.T, random_state=0).fit(X, **how)
        assert est.log_likelihood_ >= start.log_likelihood_ - 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["adaptive", "saem"])
@pytest.mark.parametrize("algorithm", MONTE_CARLO)
def test_monte_carlo_reaches_the_exact_maximum(data, best, algorithm, schedule):
    """Within one nat of 120 samples; the start is tens of nats away."""
    X, s, M, _ = data
    est = GammaPoissonMF(2, algorithm=algorithm, schedule=schedule, tol=1e-4, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est.set_params(max_iter=600 if algorithm == "mcem-c" else 1500)
        est.fit(X, exposure=s, observed=M)
    assert value(est, X, exposure=s, observed=M) > best["both"].log_likelihood_ - 1.0


def test_the_papers_schedule(data, best):
    X, s, _, _ = data
    est = GammaPoissonMF(2, schedule="paper", n_draws=20, n_burn_in=5, max_iter=80, random_state=0)
    est.fit(X, exposure=s)
    assert value(est, X, exposure=s) > best["s"].log_likelihood_ - 2.0


@pytest.mark.slow
@pytest.mark.parametrize("how", ["component", "shared"])
def test_learned_alpha(data, how):
    X, s, M = (part[:70] for part in data[:3])
    exact = GammaPoissonMF(2, algorithm="exact", learn_alpha=how, random_state=0)
    exact.fit(X, exposure=s, observed=M)
    est = GammaPoissonMF(2, learn_alpha=how, tol=1e-4, random_state=0)
    est.fit(X, exposure=s, observed=M)
    assert value(est, X, exposure=s, observed=M) > exact.log_likelihood_ - 1.5
    assert exact.log_likelihood_ > maximum(X, exposure=s, observed=M).log_likelihood_
    np.testing.assert_allclose(np.sort(est.alpha_), np.sort(exact.alpha_), rtol=0.3)


def test_ones_change_no_bit(data):
    X, *_ = data
    plain = GammaPoissonMF(3, max_iter=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain.fit(X)
        ones = GammaPoissonMF(3, max_iter=30, random_state=0)
        ones.fit(X, exposure=np.ones(len(X)), observed=np.ones(X.shape, bool))
    assert (plain.components_ == ones.components_).all()
    assert (plain.transform(X) == ones.transform(X)).all()
    assert not hasattr(ones, "exposure_")


@pytest.mark.slow
def test_equal_exposures_rescale_the_components(data):
    X, *_ = data
    plain, scaled = maximum(X), maximum(X, exposure=np.full(len(X), 4.0))
    assert scaled.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-3)
    np.testing.assert_allclose(4 * scaled.components_, plain.components_, rtol=0.02, atol=0.05)
    h = scaled.set_params(smoothing=0).transform(X[:5], exposure=4)
    np.testing.assert_allclose(h, plain.set_params(smoothing=0).transform(X[:5]), rtol=0.02)


def test_totals(data):
    X, *_ = data
    X = X[X.sum(axis=1) > 0]
    total = X.sum(axis=1)
    rough = {"tol": 1e-3, "random_state": 0}
    est = GammaPoissonMF(2, **rough).fit(X, exposure="total")
    given = GammaPoissonMF(2, **rough).fit(X, exposure=total / total.mean())
    assert (est.components_ == given.components_).all()
    assert (est.exposure_, given.exposure_) == ("total", "given")
    # the default of a fit with totals, and its scale, stay for other samples
    assert (est.transform(X[:3]) == given.transform(X[:3], total[:3] / total.mean())).all()
    assert est.score(X[:3]) == given.score(X[:3], exposure=total[:3] / total.mean())
    h = est.transform(X)
    deep = np.corrcoef(np.log(h.sum(axis=1)), np.log(total))[0, 1]
    assert abs(deep) < 0.5
    assert (GammaPoissonMF(2, **rough).fit_transform(X, exposure="total") == h).all()


def test_nan_is_unobserved(data):
    X, s, M, _ = data
    est = GammaPoissonMF(2, max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = est.fit(X, exposure=s, observed=M).components_
        with_nan = np.where(M, X, np.nan)
        frame = pd.DataFrame(with_nan, columns=list("abcd"))
        for form in (with_nan, frame, with_nan.astype(object), frame.astype("Int64")):
            assert (est.fit(form, exposure=s, missing="nan").components_ == expected).all()
            h = est.transform(form[:4], exposure=s[:4], observed="nan")
            plain = est.fit(X, exposure=s, observed=M).transform(X[:4], s[:4], M[:4])
            assert (h == plain).all()
        sparse = est.fit(sp.csr_array(X), exposure=s, observed=sp.csr_array(M))
        assert (sparse.components_ == expected).all()
    assert est.n_unobserved_ == (~M).sum()
    with pytest.raises(InvalidInputError, match="column 'b'"):
        est.fit(frame.assign(b=0.5), exposure=s, missing="nan")


def test_stability_with_exposures_and_unobserved_entries(data):
    X, s, M, _ = data
    est = GammaPoissonMF(2, tol=1e-3, random_state=0).fit(X, exposure=s, observed=M)
    found = est.stability(X, 2, by="bootstrap", exposure=s, observed=M)
    assert (found.returned > 0.5).all()


@pytest.mark.slow
def test_held_out_samples_have_exposures_of_their_own(data):
    """The cost of a component is that of the test samples, at their own exposures."""
    X, s, *_ = data
    est = maximum(X[:80], exposure=s[:80])
    found = est.rank_report(X[:80], X[80:], exposure=s[:80], exposure_test=s[80:])
    one = GammaPoissonMF(1, algorithm="exact", random_state=0).fit(X[:80], exposure=s[:80])
    costs = [
        value(est, X[80:], exposure=how) - value(one, X[80:], exposure=how) for how in (s[80:], 1.0)
    ]
    assert abs(costs[0] - costs[1]) > 1.0
    np.testing.assert_allclose(found.cost, costs[0], atol=0.05)


def test_a_saved_fit_answers_alike(data, best, tmp_path):
    X, s, M, _ = data
    totals = GammaPoissonMF(2, algorithm="em-c", max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        totals.fit(X + 1, exposure="total")
    for est, how in ((best["both"], {"exposure": s, "observed": M}), (totals, {})):
        est.save(tmp_path / "a.gapmf")
        again = GammaPoissonMF.load(tmp_path / "a.gapmf")
        assert again.exposure_ == est.exposure_
        assert again.n_unobserved_ == est.n_unobserved_
        assert (again.score_samples(X + 1, **how) == est.score_samples(X + 1, **how)).all()


@pytest.mark.parametrize("schedule", ["adaptive", "saem"])
def test_a_resumed_fit_has_the_same_bits(data, tmp_path, monkeypatch, schedule):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "_SHARE", 0.0)
    X, s, M, _ = data
    given = {"exposure": s, "observed": M}
    params = {"schedule": schedule, "learn_alpha": True, "random_state": 0, "max_iter": 45}
    path = tmp_path / "fit.part"

    def stop(record):
        if record.iteration == 31:
            raise RuntimeError("the power fails")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = GammaPoissonMF(2, **params).fit(X, **given)
        with pytest.raises(RuntimeError):
            GammaPoissonMF(2, **params, checkpoint=path, callbacks=[stop]).fit(X, **given)
        with pytest.raises(InvalidInputError, match="exposure"):
            GammaPoissonMF.resume(path, X, exposure=2 * s, observed=M)
        with pytest.raises(InvalidInputError, match="observed"):
            GammaPoissonMF.resume(path, X, exposure=s, observed=M.cumsum(axis=0) > 2)
        resumed = GammaPoissonMF.resume(path, X, **given)
    assert (resumed.components_ == whole.components_).all()
    assert (resumed.alpha_ == whole.alpha_).all()


def test_sample_weights_and_threads(data):
    X, s, M, _ = data
    weights = np.arange(len(X)) % 3
    rows = np.repeat(np.arange(len(X)), weights)
    for algorithm in ("em-c", "mcem-c"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            est = GammaPoissonMF(2, algorithm=algorithm, max_iter=6, random_state=0)
            a = est.fit(X, sample_weight=weights, exposure=s, observed=M).components_
            b = est.set_params(n_jobs=2).fit(X[rows], exposure=s[rows], observed=M[rows])
        np.testing.assert_allclose(a, b.components_, rtol=1e-9)


def test_cross_validation_routes_exposures(data):
    X, s, _, _ = data
    with config_context(enable_metadata_routing=True):
        est = GammaPoissonMF(2, algorithm="em-c", max_iter=30, tol=1e-3, random_state=0)
        est.set_fit_request(exposure=True).set_score_request(exposure=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = cross_validate(est, X, params={"exposure": s}, cv=2, error_score="raise")
    assert np.isfinite(scores["test_score"]).all()


def test_several_starts_are_compared_with_exposures(data):
    X, s, M, _ = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = GammaPoissonMF(2, n_init=2, max_iter=25, score_every=10, random_state=0)
        est.fit(X, exposure=s, observed=M)
    seen = est.history_["log_likelihood"]
    seen = seen[~np.isnan(seen)]
    assert seen.size == 2
    assert seen[-1] == pytest.approx(value(est, X, exposure=s, observed=M), abs=30)


BAD = [
    ({"exposure": [1.0, 2.0]}, r"shape \(2,\), but there are 120 samples"),
    ({"exposure": np.zeros(120)}, r"exposure\[0\] is 0\.0.*above 0"),
    ({"exposure": np.full(120, -1.0)}, "above 0"),
    ({"exposure": np.full(120, np.nan)}, "is nan.*finite"),
    ({"exposure": np.full(120, np.inf)}, "is inf.*finite"),
    ({"exposure": ["a"] * 120}, "exposure must be"),
    ({"exposure": "depth"}, "exposure must be one of 'total'"),
    ({"observed": np.ones((120, 3), bool)}, r"must have the shape \(120, 4\) of X"),
    ({"observed": np.full((120, 4), 2)}, "True"),
    ({"observed": np.full((120, 4), "yes")}, "True"),
    ({"observed": [[True], [True, False]]}, "shape"),
    ({"observed": "missing"}, "observed must be one of 'nan'"),
    ({"observed": np.arange(4) > 0 * np.ones((120, 1))}, "feature 0 is observed in no sample"),
    (
        {"exposure": np.linspace(0.1, 3.3, 120), "observed": np.tile(np.arange(4) > 0, (120, 1))},
        "feature 0 is observed in no sample",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("how", "message"), BAD)
def test_bad_input_is_a_sentence(data, how, message):
    X, *_ = data
    est = GammaPoissonMF(2)
    with pytest.raises(InvalidInputError, match=message):
        est.fit(X, **how)
    assert not hasattr(est, "model_")


def test_refusals(data, best):
    X, s, _, _ = data
    est = best["both"]
    for ask in (est.transform, est.score, est.proportions, est.posterior):
        with pytest.raises(InvalidInputError, match="pass exposure"):
            ask(X)
    with pytest.raises(InvalidInputError, match=r'est\.stability\(X, by="bootstrap"'):
        est.standard_errors(X)
    for ask in (est.rank_report, est.prune, est.stability):
        with pytest.raises(InvalidInputError, match="pass exposure"):
            ask(X)
        with pytest.raises(InvalidInputError, match="pass the observed=… of the fit"):
            ask(X, exposure=s)
    for ask in (est.rank_report, est.prune):
        with pytest.raises(InvalidInputError, match="pass exposure"):
            ask(X, X, exposure=s, observed=data[2])
        with pytest.raises(InvalidInputError, match="are for X_test"):
            ask(X, exposure=s, observed=data[2], exposure_test=s)
    with pytest.raises(InvalidInputError, match="exposures"):
        perplexity(X, est)
    for algorithm in ("vbem", "mjle"):
        with pytest.raises(GapmfError, match="neither exposures nor unobserved"):
            GammaPoissonMF(2, algorithm=algorithm).fit(X, exposure=s)
    empty = X + 1
    empty[7] = 0
    with pytest.raises(InvalidInputError, match="row 7 of X has no counts"):
        GammaPoissonMF(2).fit(empty, exposure="total")
    with pytest.raises(InvalidInputError, match="X is sparse"):
        GammaPoissonMF(2).fit(sp.csr_array(X), missing="nan")
    with pytest.raises(InvalidInputError, match="give one of the two"):
        GammaPoissonMF(2).fit(X, missing="nan", observed=data[2])
    with pytest.raises(InvalidInputError, match="missing must be"):
        GammaPoissonMF(2).fit(X, missing="zero")


def test_a_sample_of_which_nothing_is_observed(data, best):
    X, s, _, _ = data
    none = np.zeros((1, 4), bool)
    est = best["both"]
    h = est.transform(X[:1], exposure=s[:1], observed=none)
    np.testing.assert_allclose(h[0], est.model_.alpha / est.model_.beta)
    assert est.score(X[:1], exposure=s[:1], observed=none) == 0.0


@pytest.mark.parametrize("algorithm", ["mcem-c", "em-c", "exact"])
def test_edges(algorithm):
    """One sample, one feature, one component, extreme exposures, an empty feature and sample."""
    for X, s, alpha in (
        ([[3]], [1e-6], 1.0),
        ([[100_000]], [1e6], 0.01),
        ([[4, 0], [0, 0], [1, 0]], [0.01, 1.0, 100.0], 0.01),
    ):
        est = GammaPoissonMF(1, algorithm=algorithm, alpha=alpha, max_iter=40, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            est.fit(X, exposure=s)
            h = est.transform(X, exposure=s)
            value = est.score(X, exposure=s)
        assert np.isfinite(est.components_).all()
        assert np.isfinite(h).all()
        assert np.isfinite(value)
        # K = 1: Σ_n s_n E h_n S = Σ_n v_n at the maximum
        if len(X) == 1:
            expected = np.array(X)[0, 0] / s[0] / (est.model_.alpha / est.model_.beta)
            np.testing.assert_allclose(est.components_[0], expected, rtol=0.05)


@pytest.mark.slow
def test_the_rank_report_finds_two_components(data):
    X, s, M, _ = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = GammaPoissonMF(3, tol=1e-4, random_state=0)
        est.fit(X, exposure=s, observed=M)
        report = est.rank_report(X, exposure=s, observed=M)
        assert report.rank == 2
        pruned = est.prune(X, report=report, exposure=s, observed=M)
    assert pruned.components_.shape == (2, 4)
    assert pruned.n_unobserved_ == (~M).sum()


def test_held_out_counts_are_scored_with_exposures(data, best):
    """log p(rest | h) by hand, at the same h."""
    X, s, M, _ = data
    counts, observation = check_observation(check_counts(X), s, M)
    shown, rest = split_tokens(counts, 0.8, np.random.default_rng(0))
    model = best["both"].model_
    smaller = GaP(0.8 * model.W, model.alpha, model.beta)
    how = {"observation": observation}
    h = estimate_activations(shown, smaller, 0, None, mean_field=True, **how)
    found = held_out_scores(rest, 0.2, smaller, h, observation)
    rates = 0.25 * s[:, None] * (h @ smaller.W.T)
    literal = (poisson.logpmf(rest.toarray(), rates) * M).sum(axis=1)
    np.testing.assert_allclose(found, literal, rtol=1e-9)
    exact = posterior_moments(shown, smaller, exposure=s, observed=M).h
    length = np.linalg.norm(exact, axis=1)
    assert (np.linalg.norm(h - exact, axis=1) <= 0.15 * length).all()


def test_the_score_test_from_draws_agrees_with_the_exact_one(data):
    """Twice the larger of its own errors and 5 %."""
    X, s, M, _ = data
    counts, observation = check_observation(check_counts(X), s, M)
    model = GaP([[6.0, 1.0], [4.0, 2.0], [2.0, 3.0], [1.0, 5.0]], alpha=0.8)
    r, error = ExactExpectation(counts, observation=observation).score(model)
    drawn, drawn_error = score_test(counts, model, 0, None, observation)
    np.testing.assert_allclose(drawn, r, rtol=0.1)
    np.testing.assert_allclose(drawn_error, error, rtol=0.8)


def test_a_row_has_the_same_answer_in_any_company(data):
    X, s, M, _ = data
    rng = np.random.default_rng(1)
    W = rng.gamma(0.5, 3.0, (4, 12)) + 0.1
    est = GammaPoissonMF(12, init=W.T, max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est.fit(X, exposure=s, observed=M)
        h = est.transform(X[:9], exposure=s[:9], observed=M[:9])
        scores = est.score_samples(X[:9], exposure=s[:9], observed=M[:9])
        for n in (0, 4, 8):
            own = {"exposure": s[n : n + 1], "observed": M[n : n + 1]}
            assert (est.transform(X[n : n + 1], **own)[0] == h[n]).all()
            assert est.score_samples(X[n : n + 1], **own)[0] == scores[n]
