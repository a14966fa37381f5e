"""fig2, fig3a, fig3b: the three algorithms on the paper's synthetic data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gapmf.datasets import paper_model, paper_synthetic
from gapmf.estimator import GammaPoissonMF
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.model import GaP
from gapmf.reproduce.cache import (
    ALGORITHMS,
    ResultCache,
    Trace,
    as_columns,
    paper_schedule,
    some_iterations,
    trace_runs,
)
from gapmf.reproduce.results import DASHED, Experiment, Options, Outcome, new_figure, plot_runs

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
V1_QUICK = Config(1.0, 150, n_draws=40, n_burn_in=10, n_starts=1, n_looks=20)
V2_QUICK = Config(100.0, 120, n_draws=30, n_burn_in=10, n_starts=1, n_looks=16)


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Compute the norms of all iterates, and the exact cost of many."""
    X, _ = paper_synthetic(config.scale, config.n_samples, random_state=options.seed)
    n_iter = options.n_iter(config.n_iter)
    name = f"scale{config.scale:g}"
    data = {"name": name, "n_samples": config.n_samples}
    at = some_iterations(n_iter, config.n_looks)

    def cost(model: GaP) -> float:
        return -log_marginal_likelihood(X, model).total

    est = paper_schedule(
        config.n_components, n_iter, config.n_draws, config.n_burn_in, options.seed
    )
    traces = trace_runs(est, X, cache, data, at, cost)
    settings = {"seed": options.seed, **asdict(config)}
    best = cache.cached(f"{name}-best", settings, lambda: _best(X, config, options.seed))
    findings = best | {a: _findings(traces[a], best["smallest_cost"]) for a in ALGORITHMS}
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
        "smallest_cost": -est.log_likelihood_,
        "norms_of_smallest_cost": sorted(est.model_.column_norms.tolist(), reverse=True),
        "cost_of_the_truth": -log_marginal_likelihood(X, paper_model(config.scale)).total,
    }


def _findings(trace: Trace, best: float) -> dict[str, Any]:
    at, cost = list(trace.values), np.array(list(trace.values.values()))
    n_iter = len(trace.norms)
    late = np.array(at) > 0.9 * n_iter
    near = np.flatnonzero(cost - best < NEAR)
    return {
        "cpu_seconds": trace.cpu_seconds[-1],
        "excess_at_the_end": cost[late].mean() - best,
        "iterations_until_near": int(at[near[0]]) if near.size else None,
        "cpu_seconds_until_near": trace.cpu_seconds[at[near[0]] - 1] if near.size else None,
        "norms_at_the_end": np.sort(trace.norms[-n_iter // 10 :].mean(axis=0))[::-1],
    }


def draw_cost(outcome: Outcome) -> Any:
    """Draw fig2."""
    figure, (ax,) = new_figure(1, 5.6)
    curves = outcome.curves
    plot_runs(ax, curves["algorithm"], curves["cpu_seconds"], curves["cost"])
    ax.axhline(outcome.findings["smallest_cost"], label="exact minimum", **DASHED)
    ax.set(xlabel="CPU time, s", ylabel="$C_{ML}(W)$, nats")
    ax.legend()
    return figure


def draw_norms(outcome: Outcome) -> Any:
    """Draw fig3a."""
    figure, (ax,) = new_figure(1, 5.6)
    plot_norms(ax, outcome)
    return figure


def draw_both(outcome: Outcome) -> Any:
    """Draw fig3b: the norms, and the cost that the paper could not draw."""
    figure, (left, right) = new_figure(2)
    plot_norms(left, outcome)
    curves = outcome.curves
    excess = curves["cost"] - outcome.findings["smallest_cost"]
    plot_runs(right, curves["algorithm"], curves["cpu_seconds"], excess)
    right.axhline(NEAR, label=f"{NEAR:g} nats", **(DASHED | {"linestyle": (0, (1, 2))}))
    right.set(xscale="log", yscale="log", xlabel="CPU time, s")
    right.set_ylabel("$C_{ML}(W)$ above the exact minimum, nats")
    right.legend()
    return figure


def plot_norms(ax: Any, outcome: Outcome) -> None:
    """Draw the norm of every column, one colour per algorithm, and those of the exact minimum."""
    curves = outcome.curves
    norms = np.column_stack([curves[key] for key in curves if key.startswith("norm_")])
    plot_runs(ax, curves["algorithm"], curves["cpu_seconds"], norms, linewidth=1.1)
    for i, norm in enumerate(outcome.findings.get("norms_of_smallest_cost", ())):
        ax.axhline(norm, label=None if i else "exact minimum", **DASHED)
    ax.set(xlabel="CPU time, s", ylabel="$||w_k||_1$, one line per component")
    ax.legend()


FIG2 = Experiment("the cost of V₁, N = 100, K = 3", V1, V1_QUICK, run, draw_cost)
FIG3A = Experiment("column norms, V₁, K = 3", V1, V1_QUICK, run, draw_norms)
FIG3B = Experiment(
    "column norms and the exact cost, V₂ (100 times V₁'s W), K = 3", V2, V2_QUICK, run, draw_both
)
