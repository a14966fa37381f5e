"""fig2, fig3a, fig3b: the three algorithms on the paper's synthetic data, with many seeds.

The first data set is drawn as the paper draws its only one. The others, with their own chains, tell
what is true in general; other chains on the first data set tell what depends on the chain.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats

from gapmf.datasets import paper_model, paper_synthetic
from gapmf.estimator import GammaPoissonMF
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.model import GaP
from gapmf.reproduce.cache import (
    ALGORITHMS,
    FITS,
    NotFinishedError,
    ResultCache,
    Trace,
    as_columns,
    paper_schedule,
    some_iterations,
    to_columns,
    trace_runs,
)
from gapmf.reproduce.results import (
    DASHED,
    Experiment,
    Options,
    Outcome,
    new_figure,
    plot_bands,
    plot_runs,
    quantiles,
    with_legend,
)

NEAR = 0.5  # nats above the minimum: an algorithm counts as converged there


@dataclass(frozen=True)
class Config:
    """W* = scale · W₁*, fitted with one component more than the truth."""

    scale: float
    n_iter: int
    n_sets: int = 10  # data sets, each with a chain of its own
    n_chains: int = 1  # chains on the first data set
    n_samples: int = 100
    n_components: int = 3
    n_draws: int = 150
    n_burn_in: int = 150
    n_starts: int = 3  # of the search for the exact minimum
    n_looks: int = 160  # maximum number of iterates whose cost is computed


V1, V2 = Config(1.0, 500, n_chains=10), Config(100.0, 2000)
_SHORT = {"n_starts": 1, "n_burn_in": 10}
V1_QUICK = Config(1.0, 150, n_sets=2, n_chains=2, n_draws=40, n_looks=20, **_SHORT)
V2_QUICK = Config(100.0, 90, n_sets=2, n_samples=60, n_draws=20, n_looks=8, **_SHORT)


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Compute the norms of all iterates, and the exact cost of many, for all seeds."""
    n_iter = options.n_iter(config.n_iter)
    at = some_iterations(n_iter, config.n_looks)
    pairs = [(i, i) for i in range(config.n_sets)] + [(0, i) for i in range(1, config.n_chains)]
    done, found = [], []
    for i, j in cache.steps(f"scale {config.scale:g}, data sets and chains", pairs):
        with suppress(NotFinishedError):
            found.append(_one(config, options.seed + i, options.seed + j, n_iter, cache))
            done.append((i, j))
    rows = [
        {"algorithm": a, "data_seed": options.seed + i, "chain_seed": FITS + options.seed + j}
        | _measure(traces[a], best)
        for (i, j), (traces, best) in zip(done, found, strict=True)
        for a in ALGORITHMS
    ]
    runs = to_columns(rows)
    sets, chains = (
        runs["chain_seed"] - FITS == runs["data_seed"],
        runs["data_seed"] == options.seed,
    )
    traces, best = found[0]
    curves = as_columns(traces, at)
    curves["cost"] = np.array([traces[a].values[i] for a in ALGORITHMS for i in at])
    findings = best | {
        "cost_of_the_start": _cost_of_the_start(config, options.seed),
        "over_data_sets": _compare({k: v[sets] for k, v in runs.items()}),
        "over_chains": _compare({k: v[chains] for k, v in runs.items()}),
    }
    settings = {"seed": options.seed, "iterations_run": n_iter, **asdict(config)}
    bands = _bands([one for (i, j), one in zip(done, found, strict=True) if i == j], at)
    return Outcome(settings, curves, findings, {"runs": runs, "bands": bands})


def _one(
    config: Config, data_seed: int, chain: int, n_iter: int, cache: ResultCache
) -> tuple[dict[str, Trace], dict[str, Any]]:
    """Run the three algorithms on one data set, and find its exact minimum."""
    X, _ = paper_synthetic(config.scale, config.n_samples, random_state=data_seed)
    name = f"scale{config.scale:g}"
    data = {"name": name, "n_samples": config.n_samples, "data_seed": data_seed}

    def cost(model: GaP) -> float:
        return -log_marginal_likelihood(X, model).total

    est = paper_schedule(
        config.n_components, n_iter, config.n_draws, config.n_burn_in, FITS + chain
    )
    traces = trace_runs(est, X, cache, data, some_iterations(n_iter, config.n_looks), cost)
    search = data | {"n_components": config.n_components, "n_starts": config.n_starts}
    return traces, cache.cached(f"{name}-best", search, lambda: _best(X, config, data_seed))


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


def _cost_of_the_start(config: Config, data_seed: int) -> float:
    """Return the cost where the paper starts: K equal columns are one, with shape K."""
    X, _ = paper_synthetic(config.scale, config.n_samples, random_state=data_seed)
    K = config.n_components
    return -log_marginal_likelihood(X, GaP(X.mean(axis=0)[:, None] / K, alpha=K)).total


def _measure(trace: Trace, exact: dict[str, Any]) -> dict[str, Any]:
    """Measure when a run first came near the minimum (nan for never), and where it ended."""
    best = exact["smallest_cost"]
    at, cost = list(trace.values), np.array(list(trace.values.values()))
    n_iter = len(trace.norms)
    late = np.array(at) > 0.9 * n_iter
    near = np.flatnonzero(cost - best < NEAR)
    first = at[near[0]] if near.size else None
    end = np.sort(trace.norms[-max(n_iter // 10, 1) :].mean(axis=0))[::-1]
    return {
        "cpu_seconds": trace.cpu_seconds[-1],
        "iterations_until_near": np.nan if first is None else float(first),
        "cpu_seconds_until_near": np.nan if first is None else trace.cpu_seconds[first - 1],
        "excess_at_the_end": cost[late].mean() - best,
    } | {
        f"{label}_{k}": norm
        for label, norms in (("norm", end), ("exact_norm", exact["norms_of_smallest_cost"]))
        for k, norm in enumerate(norms, start=1)
    }


def _compare(runs: dict[str, Any]) -> dict[str, Any]:
    """Compare algorithms over seeds: quartiles, ratios to MCEM-C, and a test of equality.

    A run that never came near counts as infinitely slow. Where neither did, there is no ratio.
    """
    until = {}
    found: dict[str, Any] = {}
    for a in ALGORITHMS:
        mine = runs["algorithm"] == a
        columns = {key: runs[key][mine] for key in runs if key not in ("algorithm",)}
        until[a] = [
            np.where(np.isnan(columns[key]), np.inf, columns[key])
            for key in ("iterations_until_near", "cpu_seconds_until_near")
        ]
        found[a] = {
            "runs": int(mine.sum()),
            "never_near": int(np.isnan(columns["iterations_until_near"]).sum()),
            "iterations_until_near": quantiles(until[a][0]),
            "cpu_seconds": quantiles(columns["cpu_seconds"]),
            "excess_at_the_end": quantiles(columns["excess_at_the_end"]),
        }
    of = {a: runs["algorithm"] == a for a in ALGORITHMS}
    for a in ("mcem-h", "mcem-ch"):
        some = np.isfinite(np.minimum(until[a][0], until["mcem-c"][0]))
        for i, name in enumerate(("iterations", "cpu_seconds")):
            ratio = until[a][i][some] / until["mcem-c"][i][some]
            found[a][f"{name}_relative_to_mcem_c"] = quantiles(ratio) if some.any() else None
        whole = runs["cpu_seconds"][of[a]] / runs["cpu_seconds"][of["mcem-c"]]
        found[a]["cpu_seconds_of_all_iterations_relative_to_mcem_c"] = quantiles(whole)
        here, there = (np.log(np.minimum(until[which][0], 1e9)) for which in (a, "mcem-c"))
        found[a]["p_of_no_difference"] = float(stats.wilcoxon(here, there).pvalue)
    return found


def _bands(found: list[Any], at: list[int]) -> dict[str, Any]:
    """Return quartiles over data sets of the excess cost and of the norms, sorted."""
    rows = []
    for a in ALGORITHMS:
        for i in at:
            excess = [traces[a].values[i] - best["smallest_cost"] for traces, best in found]
            norms = np.sort([traces[a].norms[i - 1] for traces, _ in found], axis=1)[:, ::-1]
            row = {"algorithm": a, "iteration": i}
            for name, values in (("excess", np.array(excess)), *enumerate(norms.T, start=1)):
                label = name if isinstance(name, str) else f"norm_{name}"
                _, low, middle, high, _ = quantiles(values)
                row |= {f"{label}_low": low, f"{label}_median": middle, f"{label}_high": high}
            rows.append(row)
    return to_columns(rows)


def draw_cost(outcome: Outcome) -> Any:
    """Draw fig2: the first data set as in the paper, and all of them."""
    figure, (left, right) = new_figure(2)
    curves = outcome.curves
    plot_runs(left, curves["algorithm"], curves["cpu_seconds"], curves["cost"])
    left.axhline(outcome.findings["smallest_cost"], label="exact minimum", **DASHED)
    left.set(xlabel="CPU time, s", ylabel="$C_{ML}(W)$, nats", title="the first data set")
    plot_excess(right, outcome)
    return with_legend(figure)


def draw_norms(outcome: Outcome) -> Any:
    """Draw fig3a: the norms of the first data set, and of all of them."""
    figure, (left, right) = new_figure(2)
    plot_norms(left, outcome)
    plot_all_norms(right, outcome)
    return with_legend(figure)


def draw_both(outcome: Outcome) -> Any:
    """Draw fig3b: the norms, and the cost that the paper could not draw."""
    figure, (left, middle, right) = new_figure(3, 12.0)
    plot_norms(left, outcome)
    plot_all_norms(middle, outcome)
    plot_excess(right, outcome)
    return with_legend(figure)


def plot_norms(ax: Any, outcome: Outcome) -> None:
    """Draw the norm of every column, one colour per algorithm, and those of the exact minimum."""
    curves = outcome.curves
    norms = np.column_stack([curves[key] for key in curves if key.startswith("norm_")])
    plot_runs(ax, curves["algorithm"], curves["cpu_seconds"], norms, linewidth=1.1)
    for i, norm in enumerate(outcome.findings["norms_of_smallest_cost"]):
        ax.axhline(norm, label=None if i else "exact minimum", **DASHED)
    ax.set(xlabel="CPU time, s", ylabel="$||w_k||_1$, one line per component")
    ax.set(title="the first data set", ylim=(0.0, 1.05 * norms.max()))


def plot_all_norms(ax: Any, outcome: Outcome) -> None:
    """Draw medians and quartiles over data sets of the largest, the second and the third norm."""
    bands = outcome.more["bands"]
    labels = [key.removesuffix("_median") for key in bands if key.endswith("_median")]
    for label in labels[1:]:
        plot_bands(ax, bands, label)
    top = bands["norm_1_high"].max()
    ax.set(xscale="log", xlabel="iteration", ylim=(0.0, 1.05 * top))
    ax.set_ylabel("$||w_k||_1$, sorted")
    ax.set_title(_seeds(outcome))


def plot_excess(ax: Any, outcome: Outcome) -> None:
    """Draw medians and quartiles over data sets of the cost above the exact minimum."""
    plot_bands(ax, outcome.more["bands"], "excess")
    ax.axhline(NEAR, label=f"{NEAR:g} nats", **(DASHED | {"linestyle": (0, (1, 2))}))
    ax.set(xscale="log", yscale="log", xlabel="iteration")
    ax.set_ylabel("$C_{ML}$ above its minimum, nats")
    ax.set_title(_seeds(outcome))


def _seeds(outcome: Outcome) -> str:
    n_sets = outcome.findings["over_data_sets"]["mcem-c"]["runs"]
    return f"{n_sets} data sets: medians and quartiles" if n_sets > 1 else "one data set"


FIG2 = Experiment("the cost of V₁, N = 100, K = 3", V1, V1_QUICK, run, draw_cost)
FIG3A = Experiment("column norms, V₁, K = 3", V1, V1_QUICK, run, draw_norms)
FIG3B = Experiment(
    "column norms and the exact cost, V₂ (100 times V₁'s W), K = 3", V2, V2_QUICK, run, draw_both
)
