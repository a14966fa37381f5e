"""overfit: what estimators do with more components than there are.

Maximum marginal likelihood, variational EM and maximum joint likelihood of the same model, and
KL-NMF, with the true number of components, twice and four times as many: the shares of the columns,
and how well held-out samples are predicted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.estimator import GammaPoissonMF
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.likelihood.predictive import estimate_activations, log_entry_rates, split_tokens
from gapmf.model import GaP
from gapmf.reproduce.cache import FITS, NotFinishedError, ResultCache, to_columns
from gapmf.reproduce.nips import QUICK, WHOLE, Subset, load
from gapmf.reproduce.results import Experiment, Options, Outcome, quantiles, with_legend

SMOOTHING = 1e-3  # as in the estimator: no word is impossible
PRECISION = 0.05  # of activations, which changes a completion by some 0.0005 nats per token
USED = 1e-3  # the share above which a column is in use, as in `rank_`
FRESH = 500_000  # added to the seed: the seed of the held-out samples
METHODS = {
    "mcem-c": ("marginal likelihood (MCEM-C)", "#d62728"),
    "vbem": ("variational EM", "#7b4ab5"),
    "mjle": ("joint likelihood (MJLE)", "#e08a1e"),
    "kl-nmf": ("KL-NMF (scikit-learn)", "#555555"),
}


@dataclass(frozen=True)
class Config:
    """Samples of a model with `n_true` components, and NIPS, whose every fifth paper is held out.

    The truth has topics drawn from a Dirichlet distribution, and `n_tokens` per sample.
    """

    alphas: tuple[float, ...] = (0.3, 1.0, 3.0)
    n_samples: tuple[int, ...] = (100, 1000)
    n_sets: int = 3
    n_true: int = 4
    n_features: int = 50
    n_tokens: int = 100
    n_fresh: int = 300
    nips: Subset | None = WHOLE
    n_nips: int = 10
    factors: tuple[int, ...] = (1, 2, 4)


@dataclass(frozen=True)
class Problem:
    """A data set in two parts, and the number of components that it is fitted with at least."""

    name: str
    alpha: float
    n_components: int
    train: sp.csr_array
    test: sp.csr_array
    seed: int


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Fit every data set by every method, and judge the fits on held-out samples."""
    rows = []
    problems = simulated(config, options.seed)
    if config.nips is not None:
        X = load(options.data, config.nips)
        held = np.arange(X.shape[0]) % 5 == 4
        problems.append(Problem("NIPS", 1.0, config.n_nips, X[~held], X[held], options.seed))
    truth = ("n_true", "n_features", "n_tokens", "n_fresh")
    sizes = {name: getattr(config, name) for name in truth}
    cells = [
        (problem, factor, method)
        for problem in problems
        for factor in config.factors
        for method in METHODS
        # Below α = 1 the joint likelihood has no maximum: it is infinite at h = 0.
        if method != "mjle" or problem.alpha >= 1.0
    ]
    for problem, factor, method in cache.steps("overfit", cells):
        K = factor * problem.n_components
        case = {
            "data": problem.name,
            "alpha": problem.alpha,
            "n_samples": problem.train.shape[0],
            "data_seed": problem.seed,
            "fit_seed": FITS + problem.seed,
            "method": method,
            "n_components": K,
        }
        settings = sizes | {"n_features": problem.train.shape[1]} | case
        work = partial(judge, problem, method, K, cache.check)
        with suppress(NotFinishedError):
            found = cache.cached(f"overfit-{problem.name}-{method}", settings, work)
            rows.append(case | {"factor": factor} | found)
    curves = to_columns([{key: row[key] for key in row if key != "shares"} for row in rows])
    shares = [
        {key: row[key] for key in ("data", "alpha", "n_samples", "data_seed", "method", "factor")}
        | {"column": k, "share": share}
        for row in rows
        for k, share in enumerate(row["shares"], start=1)
    ]
    findings = {"cells": _cells(curves)}
    settings = {"seed": options.seed, **asdict(config)}
    return Outcome(settings, curves, findings, {"shares": to_columns(shares)})


def simulated(config: Config, seed: int) -> list[Problem]:
    """Draw the data sets of known truth."""
    found = []
    for i in range(config.n_sets):
        for alpha in config.alphas:
            for n in config.n_samples:
                rng = np.random.default_rng([seed + i, n])
                topics = rng.dirichlet(np.full(config.n_features, 0.2), config.n_true).T
                truth = GaP(topics * config.n_tokens / (config.n_true * alpha), alpha)
                train = sp.csr_array(truth.sample(n, random_state=seed + i))
                test = sp.csr_array(truth.sample(config.n_fresh, random_state=FRESH + seed + i))
                found.append(Problem("simulated", alpha, config.n_true, train, test, seed + i))
    return found


def judge(
    problem: Problem, method: str, n_components: int, check: Callable[[], None]
) -> dict[str, Any]:
    """Fit, and return the shares and the scores per held-out token, in nats.

    `check` ends the work after Ctrl-C, when a fit has returned what it had.
    """
    fit = fit_kl_nmf if method == "kl-nmf" else partial(fit_model, algorithm=method)
    model = fit(problem.train, n_components, problem.alpha, FITS + problem.seed)
    check()
    feature_counts = np.asarray(problem.train.sum(axis=0), dtype=float).ravel()
    smooth = model.smoothed(feature_counts, SMOOTHING)
    test = problem.test
    ll = log_marginal_likelihood(test, smooth, precision=1e-3, random_state=problem.seed)
    shares = np.sort(model.shares)[::-1]
    return {
        "shares": shares,
        "columns_used": int((shares > USED).sum()),
        "effective_columns": float(np.exp(-(shares * np.log(np.maximum(shares, 1e-300))).sum())),
        "held_out": ll.total / float(test.sum()),
        "held_out_error": ll.std_error / float(test.sum()),
        "completion": completion(test, smooth, problem.seed),
    }


def completion(test: sp.csr_array, model: GaP, seed: int) -> float:
    """Return the mean log-probability of half of the tokens, given the other half of each sample.

    As `document_completion`, with short chains: its exact moments take a minute at K = 16.
    """
    shown, rest = split_tokens(test, 0.5, np.random.default_rng(seed))
    half = GaP(0.5 * model.W, model.alpha, model.beta)
    h = estimate_activations(shown, half, seed, None, precision=PRECISION)
    totals = np.repeat(np.log(h @ half.column_norms), np.diff(rest.indptr))
    scores = rest.data * (log_entry_rates(rest, h, half.W) - totals)
    return float(scores.sum() / rest.sum())


def fit_model(
    X: sp.csr_array, n_components: int, alpha: float, seed: int, *, algorithm: str
) -> GaP:
    """Fit the estimator."""
    est = GammaPoissonMF(n_components, algorithm=algorithm, alpha=alpha, random_state=seed)
    return est.fit(X).model_


def fit_kl_nmf(X: sp.csr_array, n_components: int, alpha: float, seed: int) -> GaP:
    """Fit KL-NMF, whose scale is set so that activations have the prior's mean, α/β = α."""
    from sklearn.decomposition import NMF

    nmf = NMF(
        n_components,
        solver="mu",
        beta_loss="kullback-leibler",
        init="random",
        max_iter=1000,
        tol=1e-5,
        random_state=seed,
    )
    H = nmf.fit_transform(X.astype(float))
    return GaP((nmf.components_ * (H.mean(axis=0) / alpha)[:, None]).T, alpha)


def _cells(curves: dict[str, Any]) -> list[dict[str, Any]]:
    """Summarise each method in each cell over data sets."""
    keys = ("data", "alpha", "n_samples", "method", "factor")
    rows = list(zip(*(curves[key].tolist() for key in keys), strict=True))
    # Data sets differ more than methods: what a fit gains over MCEM-C with the fewest components.
    sets = list(zip(*(curves[key].tolist() for key in (*keys[:3], "data_seed")), strict=True))
    first = (curves["method"] == "mcem-c") & (curves["factor"] == 1)
    base = {sets[i]: curves["completion"][i] for i in np.flatnonzero(first)}
    gain = curves["completion"] - np.array([base.get(one, np.nan) for one in sets])
    curves = curves | {"completion_gain": gain}
    found = []
    for cell in dict.fromkeys(rows):
        mine = np.array([row == cell for row in rows])
        found.append(
            dict(zip(keys, cell, strict=True))
            | {"n_components": int(curves["n_components"][mine][0])}
            | {
                name: quantiles(curves[name][mine])
                for name in (
                    "columns_used",
                    "effective_columns",
                    "held_out",
                    "completion",
                    "completion_gain",
                )
            }
        )
    return found


def draw(outcome: Outcome) -> Any:
    """Draw the effective number of columns and the held-out score against the number fitted.

    Scores are beside that of MCEM-C with the fewest components, for each data set. Lines are
    medians over data sets, in bands from the smallest to the largest value.
    """
    cells = outcome.findings["cells"]
    problems = list(dict.fromkeys((c["data"], c["alpha"], c["n_samples"]) for c in cells))
    from matplotlib.figure import Figure

    width = max(2.0 + 1.75 * len(problems), 9.0)  # room for the legend
    figure: Any = Figure(figsize=(width, 5.6), layout="constrained")
    axes = figure.subplots(2, len(problems), squeeze=False)
    for column, problem in enumerate(problems):
        mine = [c for c in cells if (c["data"], c["alpha"], c["n_samples"]) == problem]
        for row, name in enumerate(("effective_columns", "completion_gain")):
            ax = axes[row, column]
            for method, (label, colour) in METHODS.items():
                points = [c for c in mine if c["method"] == method]
                x = [c["n_components"] for c in points]
                low, y, high = ([c[name][part] for c in points] for part in (0, 2, 4))
                if points:
                    ax.plot(x, y, marker="o", markersize=3.5, color=colour, label=label)
                    ax.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
            ticks = sorted({c["n_components"] for c in mine})
            ax.set_xscale("log")
            ax.set_xticks(ticks, [str(k) for k in ticks])
            ax.set_xticks([], minor=True)
            ax.tick_params(labelsize=8)
            if row == 0:
                alike = "all columns alike" if column == 0 else None
                ax.plot(ticks, ticks, color="#bbbbbb", linewidth=0.8, label=alike)
                ax.set_title(f"{problem[0]}, α = {problem[1]:g}\nN = {problem[2]}", fontsize=8.5)
            else:
                ax.set_xlabel("K fitted")
    axes[0, 0].set_ylabel("effective number of columns")
    axes[1, 0].set_ylabel(
        "completion of held-out samples:\ngain over MCEM-C at the smallest K,\nnats per token"
    )
    band = {"color": "#888888", "alpha": 0.3, "linewidth": 7}
    axes[0, -1].plot([], [], label="band: smallest to largest value", **band)
    return with_legend(figure)


OVERFIT = Experiment(
    "more components than there are: shares, and held-out scores",
    Config(),
    Config(
        alphas=(1.0,),
        n_samples=(50,),
        n_sets=1,
        n_features=20,
        n_fresh=40,
        nips=QUICK,
        n_nips=2,
        factors=(1, 2),
    ),
    run,
    draw,
    needs_nips=True,
)
