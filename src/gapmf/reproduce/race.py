"""race: log-likelihood against time on NIPS, for schedules with α = 1 and with α learned."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.em.history import Iteration
from gapmf.estimator import GammaPoissonMF
from gapmf.parallel import for_each
from gapmf.reproduce.cache import NotFinishedError, ResultCache, Trace, to_columns, trace_fit
from gapmf.reproduce.nips import QUICK, WHOLE, Subset, judge, load
from gapmf.reproduce.results import COLOURS, Experiment, Options, Outcome, with_legend

NEAR = 0.01  # nats per token below the best: a schedule counts as near there
WHOLE_RANGE, END_RANGE = 0.32, 0.04  # nats per token below the best that are drawn, at most
_PAPER = {"schedule": "paper", "n_draws": 125, "n_burn_in": 125}


@dataclass(frozen=True)
class Contender:
    """A schedule: its label, colour, and the parameters of the estimator."""

    label: str
    colour: str
    parameters: dict[str, Any] = field(default_factory=dict)
    max_sweeps: int | None = None  # for schedules without a stopping rule


# To add a schedule, add a line.
CONTENDERS = (
    Contender("the paper's", COLOURS["mcem-ch"], _PAPER, max_sweeps=15_000),
    Contender("adaptive (default)", COLOURS["mcem-c"]),
    Contender("SAEM, γ restarted", COLOURS["mcem-h"], {"schedule": "saem"}),
    Contender("SAEM, textbook", "#e08a1e", {"schedule": "saem-textbook"}),
)


@dataclass(frozen=True)
class Case:
    """A contender with a seed, with α = 1 or learned."""

    contender: Contender
    seed: int
    learned: bool


@dataclass(frozen=True)
class Config:
    """The paper's K on the paper's data."""

    part: Subset = WHOLE
    n_components: int = 10
    n_seeds: int = 3
    max_iter: int = 2000
    max_sweeps: int = 10**9
    growth: float = 2.5  # ratio of the numbers of sweeps at which the likelihood is computed
    # Of each likelihood, for an error of 2e-5 nats per token:
    n_particles: int = 48


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Run every contender with α = 1 and with α learned, one seed after the other."""
    X = load(options.data, config.part)
    n_tokens, log_likelihood = judge(X, config.part, options.seed, config.n_particles)
    judged = {"n_particles": config.n_particles, "judge": options.seed}
    cases = [
        Case(contender, options.seed + i, learned)
        for i in range(config.n_seeds)
        for learned in (False, True)
        for contender in CONTENDERS
    ]

    def trace(case: Case) -> Trace | None:
        with suppress(NotFinishedError):
            return _trace(case, config, X, log_likelihood, judged, cache)
        return None

    curves = to_columns(
        [
            {
                "contender": case.contender.label,
                "alpha_learned": case.learned,
                "seed": case.seed,
                "sweeps": found.n_sweeps[i - 1],
                "cpu_seconds": found.cpu_seconds[i - 1],
                "log_likelihood": value / n_tokens,
                "std_error": error / n_tokens,
            }
            for case, found in zip(cases, for_each(trace, cases, cache.n_jobs), strict=True)
            if found is not None
            for i, (value, error) in found.values.items()
        ]
    )
    findings = {"tokens_judged": n_tokens, "near": NEAR, "runs": _runs(curves)}
    return Outcome({"seed": options.seed, **asdict(config)}, curves, findings)


def _trace(
    case: Case,
    config: Config,
    X: sp.csr_array,
    log_likelihood: Any,
    judged: dict[str, Any],
    cache: ResultCache,
) -> Trace:
    """Fit, and judge the models after about 1, 2.5, 2.5² … sweeps, and the last."""
    contender = case.contender
    est = GammaPoissonMF(
        config.n_components,
        max_iter=config.max_iter,
        learn_alpha=case.learned,
        random_state=case.seed,
        **contender.parameters,
    )
    name = f"race {contender.label}{', α learned' if case.learned else ''}"
    data = {"name": name, "growth": config.growth} | judged
    milestone = 1.0

    def keep(state: Iteration) -> bool:
        nonlocal milestone
        due = state.n_sweeps >= milestone
        milestone = state.n_sweeps * config.growth if due else milestone
        return due

    most = min(config.max_sweeps, contender.max_sweeps or config.max_sweeps)
    return trace_fit(est, X, cache, data | asdict(config.part), keep, log_likelihood, most)


def _runs(curves: dict[str, Any]) -> list[dict[str, Any]]:
    """Find where each run ended, and when it was near the best run with its seed and kind of α."""
    found = []
    columns = [curves[name].tolist() for name in ("alpha_learned", "seed", "contender")]
    for learned, seed, label in dict.fromkeys(zip(*columns, strict=True)):
        rivals = (curves["alpha_learned"] == learned) & (curves["seed"] == seed)
        mine = rivals & (curves["contender"] == label)
        values, seconds = curves["log_likelihood"][mine], curves["cpu_seconds"][mine]
        near = np.flatnonzero(values > curves["log_likelihood"][rivals].max() - NEAR)
        found.append(
            {
                "alpha_learned": learned,
                "seed": seed,
                "contender": label,
                "sweeps": int(curves["sweeps"][mine][-1]),
                "cpu_seconds": seconds[-1],
                "log_likelihood": values[-1],
                "std_error": curves["std_error"][mine][-1],
                "cpu_seconds_until_near": seconds[near[0]] if near.size else None,
            }
        )
    return found


def draw(outcome: Outcome) -> Any:
    """Draw a panel for α = 1 and one for α learned, with a line for each run; below, their ends.

    All panels of a row show the same likelihoods. Earlier looks are below them.
    """
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(9.2, 6.4), layout="constrained")
    axes = figure.subplots(2, 2, squeeze=False, sharex="row", sharey="row")
    curves = outcome.curves
    seeds = np.unique(curves["seed"]).tolist()
    top = curves["log_likelihood"].max()
    lowest = min(run["log_likelihood"] for run in outcome.findings["runs"])
    room = max(0.08 * (top - lowest), 0.001)
    bottoms = top - WHOLE_RANGE, max(lowest - room, top - END_RANGE)
    for i, bottom in enumerate(bottoms):
        shown = curves["cpu_seconds"][curves["log_likelihood"] > bottom]
        axes[i, 0].set(xscale="log", xlim=(0.7 * shown.min(), 1.4 * shown.max()))
        for ax, learned in zip(axes[i], (False, True), strict=True):
            these = curves["alpha_learned"] == learned
            for c in CONTENDERS:
                for seed in seeds:
                    mine = these & (curves["contender"] == c.label) & (curves["seed"] == seed)
                    x, y = curves["cpu_seconds"][mine], curves["log_likelihood"][mine]
                    style = {"color": c.colour, "marker": ".", "linewidth": 1.0}
                    ax.plot(x, y, label=c.label if seed == seeds[0] else None, **style)
            ax.set_ylim((bottom, top + (room if i else 0.02)))
            if i == 0:
                ax.set_title("α learned" if learned else "α = 1")
            else:
                ax.set_xlabel("CPU time, s")
    axes[0, 0].set_ylabel("log-likelihood, nats per token")
    axes[1, 0].set_ylabel("the ends, close-up")
    return with_legend(figure)


RACE = Experiment(
    "log-likelihood against time, NIPS, K = 10",
    Config(),
    Config(QUICK, n_seeds=1, max_iter=90, max_sweeps=900, growth=1000.0),
    run,
    draw,
    needs_nips=True,
)
