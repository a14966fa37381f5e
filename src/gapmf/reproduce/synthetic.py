"""fig2, fig3a, fig3b: the three algorithms on the paper's synthetic data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from gapmf.datasets import paper_model, paper_synthetic
from gapmf.estimator import GammaPoissonMF
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.model import GaP
from gapmf.reproduce.cache import (
    ALGORITHMS,
    Protocol,
    ResultCache,
    Trace,
    as_columns,
    some_iterations,
    trace_run,
)
from gapmf.reproduce.results import COLOURS, INK, LABELS, Experiment, Options, Outcome, new_figure
from gapmf.types import Array

NEAR = 0.5  # nats above the minimum: an algorithm counts as converged there


@dataclass(frozen=True)
class Config:
    """W* = scale · W₁*, fitted with one component more than the truth."""

    scale: float
    n_iter: int
    n_samples: int = 100
    n_components: int = 3
    n_draws: int = 150
    n_burn_in: int = 150
    n_starts: int = 3  # of the search for the exact minimum
    n_looks: int = 160  # maximum number of iterates whose cost is computed


V1, V2 = Config(1.0, 500), Config(100.0, 2000)
V1_QUICK = Config(1.0, 150, n_draws=40, n_burn_in=10, n_starts=1, n_looks=40)
V2_QUICK = Config(100.0, 120, n_draws=30, n_burn_in=10, n_starts=1, n_looks=40)


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Compute the norms of all iterates, and the exact cost of many."""
    X, _ = paper_synthetic(config.scale, config.n_samples, random_state=options.seed)
    n_iter = options.n_iter(config.n_iter)
    protocol = Protocol(config.n_components, n_iter, config.n_draws, config.n_burn_in, options.seed)
    name = f"scale{config.scale:g}"
    data = {"name": name, "n_samples": config.n_samples}
    at = some_iterations(n_iter, config.n_looks)

    def cost(W: Array) -> float:
        return -log_marginal_likelihood(X, GaP(W)).total

    tasks = [partial(trace_run, X, a, protocol, cache, data, at, cost) for a in ALGORITHMS]
    traces = dict(zip(ALGORITHMS, cache.parallel(tasks), strict=True))
    settings = {"seed": options.seed, **asdict(config)}
    best = cache.cached(f"{name}-best", settings, lambda: _best(X, config, options.seed))
    findings = {
        "smallest_cost": best["cost"],
        "norms_of_smallest_cost": best["norms"],
        "cost_of_the_truth": best["cost_of_the_truth"],
    } | {a: _findings(traces[a], best["cost"]) for a in ALGORITHMS}
    settings["iterations_run"] = n_iter
    curves = as_columns(traces, at)
    curves["cost"] = np.array([traces[a].values[i] for a in ALGORITHMS for i in at])
    return Outcome(settings, curves, findings)


def _best(X: Any, config: Config, seed: int) -> dict[str, Any]:
    """Find the minimum of C_ML: the best of several starts."""
    est = GammaPoissonMF(
        config.n_components, algorithm="exact", n_init=config.n_starts, random_state=seed
    ).fit(X)
    return {
        "cost": -est.log_likelihood_,
        "norms": sorted(est.model_.column_norms.tolist(), reverse=True),
        "cost_of_the_truth": -log_marginal_likelihood(X, paper_model(config.scale)).total,
    }


def _findings(trace: Trace, best: float) -> dict[str, Any]:
    at, cost = list(trace.values), np.array(list(trace.values.values()))
    late = np.array(at) > 0.9 * len(trace)
    near = np.flatnonzero(cost - best < NEAR)
    return {
        "cpu_seconds": trace.cpu_seconds[-1],
        "excess_at_the_end": cost[late].mean() - best,
        "iterations_until_near": int(at[near[0]]) if near.size else None,
        "cpu_seconds_until_near": trace.cpu_seconds[at[near[0]] - 1] if near.size else None,
        "norms_at_the_end": np.sort(trace.norms[-len(trace) // 10 :].mean(axis=0))[::-1],
    }


def draw_cost(outcome: Outcome) -> Any:
    """Draw fig2."""
    figure, axes = new_figure(5.6, 3.7)
    _plot_cost(axes[0, 0], outcome, "cost")
    axes[0, 0].set_ylabel("$C_{ML}(W)$, nats")
    best = outcome.findings["smallest_cost"]
    axes[0, 0].axhline(best, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), label="exact minimum")
    axes[0, 0].legend()
    return figure


def draw_norms(outcome: Outcome) -> Any:
    """Draw fig3a."""
    figure, axes = new_figure(5.6, 3.7)
    plot_norms(axes[0, 0], outcome)
    return figure


def draw_both(outcome: Outcome) -> Any:
    """Draw fig3b: the norms, and the cost that the paper could not draw."""
    figure, axes = new_figure(9.2, 3.7, 1, 2)
    plot_norms(axes[0, 0], outcome)
    ax = axes[0, 1]
    _plot_cost(ax, outcome, "excess")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylabel("$C_{ML}(W)$ above the exact minimum, nats")
    ax.axhline(NEAR, color=INK, linewidth=0.9, linestyle=(0, (1, 2)), label=f"{NEAR:g} nats")
    ax.legend()
    return figure


def _plot_cost(ax: Any, outcome: Outcome, what: str) -> None:
    curves = outcome.curves
    below = outcome.findings["smallest_cost"] if what == "excess" else 0.0
    for name in ("mcem-h", "mcem-ch", "mcem-c"):
        mine = curves["algorithm"] == name
        ax.plot(
            curves["cpu_seconds"][mine],
            curves["cost"][mine] - below,
            color=COLOURS[name],
            label=LABELS[name],
        )
    ax.set_xlabel("CPU time, s")


def plot_norms(ax: Any, outcome: Outcome) -> None:
    """Draw the norm of every column, one colour per algorithm, and those of the exact minimum."""
    curves = outcome.curves
    for name in [a for a in ("mcem-h", "mcem-ch", "mcem-c") if a in curves["algorithm"]]:
        mine = curves["algorithm"] == name
        norms = np.column_stack([curves[key][mine] for key in curves if key.startswith("norm_")])
        lines = ax.plot(curves["cpu_seconds"][mine], norms, color=COLOURS[name], linewidth=1.1)
        lines[0].set_label(LABELS[name])
    best = outcome.findings.get("norms_of_smallest_cost", ())
    for i, norm in enumerate(best):
        label = "exact minimum" if i == 0 else None
        ax.axhline(norm, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), label=label)
    ax.set_xlabel("CPU time, s")
    ax.set_ylabel("$||w_k||_1$, one line per component")
    ax.legend()


FIG2 = Experiment("the cost of V₁, N = 100, K = 3", V1, V1_QUICK, run, draw_cost)
FIG3A = Experiment("column norms, V₁, K = 3", V1, V1_QUICK, run, draw_norms)
FIG3B = Experiment(
    "column norms and the exact cost, V₂ (100 times V₁'s W), K = 3", V2, V2_QUICK, run, draw_both
)
