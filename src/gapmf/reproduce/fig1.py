"""fig1: one feature and two components. MCEM-C's iterates stay on the line w₁ + w₂ = v̄."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gapmf.estimator import GammaPoissonMF
from gapmf.model import GaP
from gapmf.reproduce.cache import (
    ALGORITHMS,
    FITS,
    NotFinishedError,
    ResultCache,
    paper_schedule,
    to_columns,
    trace_runs,
)
from gapmf.reproduce.results import (
    DASHED,
    INK,
    Experiment,
    Options,
    Outcome,
    new_figure,
    plot_runs,
    quantiles,
    with_legend,
)
from gapmf.types import Array

QUIET = "#8a8a8a"
LEVELS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # nats above the minimum
CLOSE_LEVELS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


@dataclass(frozen=True)
class Config:
    """The paper does not give the W of its samples; `truth` is our choice."""

    truth: tuple[float, float] = (8.0, 1.0)
    n_sets: int = 10  # data sets, each with a chain of its own
    n_samples: int = 300
    n_iter: int = 500
    n_draws: int = 150
    n_burn_in: int = 150
    n_last: int = 80


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Compute the last iterates of the three algorithms, and how far they are from the minimum."""
    n_iter = options.n_iter(config.n_iter)
    last = range(max(n_iter - config.n_last, 0) + 1, n_iter + 1)
    rows, curves, findings = [], [], {}
    for i in cache.steps("fig1, data sets", range(config.n_sets)):
        seed = options.seed + i
        X = counts(config.truth, config.n_samples, seed)
        est = paper_schedule(2, n_iter, config.n_draws, config.n_burn_in, FITS + seed)
        data = {"name": "fig1", "truth": config.truth, "n_samples": config.n_samples}
        data["data_seed"] = seed
        try:
            traces = trace_runs(est, X, cache, data, last, lambda model: model.W[0])
            best = cache.cached("fig1-best", data, partial(_best, X, seed))
        except NotFinishedError:
            continue
        for a in ALGORITHMS:
            W = np.array([traces[a].values[n] for n in last])
            off = W.sum(axis=1) - X.mean()
            along = np.abs(W[:, 0] - W[:, 1]) / np.sqrt(2.0)  # whichever column is the larger
            excess = float(costs(X, *W.mean(axis=0))) - best["smallest_cost"]
            row = {"algorithm": a, "data_seed": seed, "chain_seed": FITS + seed}
            row |= {"distance_from_the_line": np.abs(off).max(), "excess_of_last_mean": excess}
            rows.append(row | {"spread_along_the_line": along.std(ddof=1)})
            if i == 0:
                points = zip(last, W, strict=True)
                curves += [
                    {"algorithm": a, "iteration": n, "w1": w, "w2": v} for n, (w, v) in points
                ]
        if i == 0:
            findings = {"mean_count": float(X.mean())} | best
    runs = to_columns(rows)
    for name in ("distance_from_the_line", "excess_of_last_mean", "spread_along_the_line"):
        findings[name] = {a: quantiles(runs[name][runs["algorithm"] == a]) for a in ALGORITHMS}
    settings = {"seed": options.seed, "iterations_run": n_iter, **asdict(config)}
    return Outcome(settings, to_columns(curves), findings, {"runs": runs})


def counts(truth: tuple[float, float], n_samples: int, seed: int) -> NDArray[np.int64]:
    """Draw one data set, (N, 1)."""
    return GaP([truth]).sample(n_samples, random_state=seed)


def _best(X: NDArray[np.int64], seed: int) -> dict[str, Any]:
    est = GammaPoissonMF(2, algorithm="exact", random_state=seed).fit(X)
    return {"smallest_cost": -est.log_likelihood_, "w_of_smallest_cost": est.model_.W[0]}


def costs(X: NDArray[np.int64], w1: ArrayLike, w2: ArrayLike) -> Array:
    """Compute C_ML for α = β = 1 at many W: the law of a count is a convolution of two geometrics.

    Σ_{c ≤ v} ρ₁^c ρ₂^{v−c} is a geometric sum; where its ratio is close to 1 it is added up.
    """
    values, times = np.unique(X, return_counts=True)
    rho = [np.asarray(w, dtype=float) / (1.0 + np.asarray(w, dtype=float)) for w in (w1, w2)]
    log_first = np.log1p(-rho[0]) + np.log1p(-rho[1])
    total = np.zeros(np.shape(log_first))
    large, small = np.maximum(*rho), np.minimum(*rho)
    ratio = small / np.maximum(large, 1e-300)
    sums = np.zeros_like(ratio)
    wanted = dict(zip(values.tolist(), times.tolist(), strict=True))
    for v in range(int(values[-1]) + 1):
        sums = sums * ratio + 1.0  # Σ_{c ≤ v} ratio^c
        if v in wanted:
            with np.errstate(divide="ignore"):
                log_large = np.log(large) * v if v else 0.0
            total -= wanted[v] * (log_first + log_large + np.log(sums))
    return total


def draw(outcome: Outcome) -> Any:
    """Draw contours, the line, and the iterates; the second panel is a close-up."""
    findings, curves, settings = outcome.findings, outcome.curves, outcome.settings
    X = counts(settings["truth"], settings["n_samples"], settings["seed"])
    mean, top = findings["mean_count"], np.sort(findings["w_of_smallest_cost"])
    w = np.column_stack([curves["w1"], curves["w2"]])
    for name in ALGORITHMS:  # the two minima are one with the columns exchanged
        mine = curves["algorithm"] == name
        if w[mine, 0].mean() > w[mine, 1].mean():
            w[mine] = w[mine, ::-1]
    seen = np.vstack([w, top])
    low, high = seen.min(axis=0), seen.max(axis=0)
    centre, room = 0.5 * (low + high), 0.62 * (high - low).max()
    figure, (whole, close) = new_figure(2, 8.4, 5.2)
    limits = np.array([[0.0, 0.0], [1.3 * mean, 1.3 * mean]])
    near = np.stack([centre - room, centre + room])
    for ax, levels, (xlim, ylim) in ((whole, LEVELS, limits.T), (close, CLOSE_LEVELS, near.T)):
        along = np.linspace(0.0, 1.0, 300)
        w1, w2 = np.meshgrid(*(a + along * (b - a) for a, b in (xlim, ylim)))
        excess = np.maximum(costs(X, w1, w2) - findings["smallest_cost"], 0.0)
        lines = ax.contour(w1, w2, excess, levels=levels, colors=QUIET, linewidths=0.7)
        ax.clabel(lines, levels=[x for x in lines.levels if x >= levels[2]], fontsize=7, fmt="%g")
        ax.plot([0.0, mean], [mean, 0.0], **DASHED)
        ax.plot(top, top[::-1], marker="*", markersize=9, color=INK, linestyle="none", zorder=2)
        ax.set_aspect("equal", adjustable="box")
        ax.grid(visible=False)
        ax.set(xlabel="$w_1$", ylabel="$w_2$", xlim=xlim, ylim=ylim)
        ax.locator_params(nbins=6)
    style = {"linewidth": 0.8, "marker": "o", "markersize": 2.6, "zorder": 3}
    plot_runs(close, curves["algorithm"], *w.T, **style)
    plot_runs(whole, curves["algorithm"], *w.T, linewidth=2.0, zorder=3)
    whole.indicate_inset_zoom(close, edgecolor=INK, alpha=0.8)
    whole.set_title("$C_{ML}$ in nats above its minimum (★)")
    n_last = curves["w1"].size // len(ALGORITHMS)
    close.set_title(f"the last {n_last} iterates; dashed: $w_1 + w_2 = \\bar{{v}}$")
    return with_legend(figure)


FIG1 = Experiment(
    "one feature, two components; iterates on the exact cost",
    Config(),
    Config(n_samples=150, n_iter=60, n_draws=40, n_burn_in=10, n_last=20, n_sets=2),
    run,
    draw,
)
