"""fig1: one feature and two components. MCEM-C's iterates stay on the line w₁ + w₂ = v̄."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapmf.estimator import GammaPoissonMF
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.model import GaP
from gapmf.reproduce.cache import ALGORITHMS, ResultCache, paper_schedule, to_columns, trace_runs
from gapmf.reproduce.results import DASHED, INK, Experiment, Options, Outcome, new_figure, plot_runs
from gapmf.types import Array

QUIET = "#8a8a8a"
LEVELS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # nats above the minimum


@dataclass(frozen=True)
class Config:
    """The paper does not give the W of its samples; `truth` is our choice."""

    truth: tuple[float, float] = (8.0, 1.0)
    n_samples: int = 300
    n_iter: int = 500
    n_draws: int = 150
    n_burn_in: int = 150
    n_last: int = 80
    n_grid: int = 41


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Compute the last iterates of the three algorithms, and the cost around them."""
    X = GaP([config.truth]).sample(config.n_samples, random_state=options.seed)
    n_iter = options.n_iter(config.n_iter)
    last = range(max(n_iter - config.n_last, 0) + 1, n_iter + 1)
    est = paper_schedule(2, n_iter, config.n_draws, config.n_burn_in, options.seed)
    data = {"name": "fig1", "truth": config.truth, "n_samples": config.n_samples}
    traces = trace_runs(est, X, cache, data, last, lambda model: model.W[0])
    W = {a: np.array([traces[a].values[i] for i in last]) for a in ALGORITHMS}
    best = GammaPoissonMF(2, algorithm="exact", random_state=options.seed).fit(X)
    cache.check()  # a fit that was stopped returns an unfinished model
    mean = float(X.mean())
    settings = {"seed": options.seed, **asdict(config)}
    w1, w2 = _grid(mean, config.n_grid)
    cost = cache.cached("fig1-grid", settings, lambda: _costs(X, w1, w2, cache))
    findings = {
        "mean_count": mean,
        "smallest_cost": -best.log_likelihood_,
        "w_of_smallest_cost": best.model_.W[0],
        "distance_from_the_line": {a: np.abs(W[a].sum(axis=1) - mean).max() for a in ALGORITHMS},
        "cost_of_last_mean": {
            a: -log_marginal_likelihood(X, GaP(W[a].mean(axis=0)[None])).total for a in ALGORITHMS
        },
    }
    curves = to_columns(
        [
            {"algorithm": a, "iteration": i, "w1": w[0], "w2": w[1]}
            for a in ALGORITHMS
            for i, w in zip(last, W[a], strict=True)
        ]
    )
    contours = {"w1": w1.ravel(), "w2": w2.ravel(), "cost": np.ravel(cost)}
    settings["iterations_run"] = n_iter
    return Outcome(settings, curves, findings, {"contours": contours})


def _grid(mean: float, n: int) -> tuple[Array, Array]:
    """Return points by their sum and by the share of w₁: the valley lies along the second."""
    total, share = np.meshgrid(np.linspace(0.3, 1.8, n) * mean, np.linspace(0.0, 1.0, n))
    return share * total, (1.0 - share) * total


def _costs(X: NDArray[np.int64], w1: Array, w2: Array, cache: ResultCache) -> Array:
    """Compute C_ML exactly: it is symmetric in w₁ and w₂, and equal counts are grouped."""
    values, times = np.unique(X, return_counts=True)
    n = w1.shape[0]
    cost = np.empty(w1.shape)
    for i in range((n + 1) // 2):
        cache.check()
        cache.progress("fig1 contours", i + 1, (n + 1) // 2)
        for j in range(w1.shape[1]):
            ll = log_marginal_likelihood(values[:, None], GaP([[w1[i, j], w2[i, j]]]))
            cost[i, j] = cost[n - 1 - i, j] = -(times @ ll.per_sample)
    return cost


def draw(outcome: Outcome) -> Any:
    """Draw contours, the line, and the iterates; the second panel is a close-up."""
    findings, curves = outcome.findings, outcome.curves
    side = outcome.settings["n_grid"]
    w1, w2, cost = (c.reshape(side, side) for c in outcome.more["contours"].values())
    excess = np.maximum(cost - findings["smallest_cost"], 0.0)
    mean, top = findings["mean_count"], np.sort(findings["w_of_smallest_cost"])
    w = np.column_stack([curves["w1"], curves["w2"]])
    for name in ALGORITHMS:  # the two minima are one with the columns exchanged
        mine = curves["algorithm"] == name
        if w[mine, 0].mean() > w[mine, 1].mean():
            w[mine] = w[mine, ::-1]
    figure, (whole, close) = new_figure(2, 8.4, 4.3)
    for ax in (whole, close):
        lines = ax.contour(w1, w2, excess, levels=LEVELS, colors=QUIET, linewidths=0.7)
        if ax is whole:
            ax.clabel(lines, LEVELS[2:], fmt=lambda x: f"{x:g}", fontsize=7)
        ax.plot([0.0, mean], [mean, 0.0], **DASHED)
        plot_runs(ax, curves["algorithm"], *w.T, linewidth=1.0)
        ax.plot(top, top[::-1], marker="*", markersize=9, color=INK, linestyle="none", zorder=5)
        ax.set_aspect("equal", adjustable="box")
        ax.grid(visible=False)
        ax.set(xlabel="$w_1$", ylabel="$w_2$")
    seen = np.vstack([w, top])
    low, high = seen.min(axis=0), seen.max(axis=0)
    centre, room = 0.5 * (low + high), 0.6 * (high - low).max()
    whole.set(xlim=(0.0, 1.3 * mean), ylim=(0.0, 1.3 * mean))
    whole.set_title("$C_{ML}$ in nats above its minimum (★)")
    xlim, ylim = np.column_stack([centre - room, centre + room])
    close.set(xlim=xlim, ylim=ylim)
    n_last = curves["w1"].size // len(ALGORITHMS)
    close.set_title(f"the last {n_last} iterates; dashed: $w_1 + w_2 = \\bar{{v}}$")
    close.legend(loc="upper right")
    return figure


FIG1 = Experiment(
    "one feature, two components; iterates on the exact cost",
    Config(),
    Config(n_iter=100, n_draws=50, n_burn_in=20, n_last=30, n_grid=9),
    run,
    draw,
)
