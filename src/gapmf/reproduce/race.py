"""race: log-likelihood against time on NIPS, for schedules with α = 1 and with α learned."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from gapmf.em.history import Iteration
from gapmf.estimator import GammaPoissonMF
from gapmf.parallel import for_each
from gapmf.reproduce.cache import ResultCache, Trace, to_columns, trace_fit
from gapmf.reproduce.nips import QUICK, WHOLE, Subset, judge, load
from gapmf.reproduce.results import COLOURS, Experiment, Options, Outcome, new_figure

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
    Contender("SAEM", COLOURS["mcem-h"], {"schedule": "saem"}),
)


@dataclass(frozen=True)
class Config:
    """The paper's K on the paper's data."""

    part: Subset = WHOLE
    n_components: int = 10
    max_iter: int = 2000
    max_sweeps: int = 10**9
    growth: float = 1.6  # ratio of the numbers of sweeps at which the likelihood is computed


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Run every contender with α = 1 and with α learned."""
    X = load(options.data, config.part)
    n_tokens, log_likelihood = judge(X, config.part, options.seed)

    def trace(case: tuple[Contender, bool]) -> Trace:
        contender, learned = case
        est = GammaPoissonMF(
            config.n_components,
            max_iter=config.max_iter,
            learn_alpha=learned,
            random_state=options.seed,
            **contender.parameters,
        )
        name = f"race {contender.label}{', α learned' if learned else ''}"
        data = {"name": name, "growth": config.growth, **asdict(config.part)}
        milestone = 1.0

        def keep(state: Iteration) -> bool:
            nonlocal milestone
            due = state.n_sweeps >= milestone
            milestone = state.n_sweeps * config.growth if due else milestone
            return due

        most = min(config.max_sweeps, contender.max_sweeps or config.max_sweeps)
        return trace_fit(est, X, cache, data, keep, log_likelihood, most)

    cases = [(c, learned) for learned in (False, True) for c in CONTENDERS]
    traces = for_each(trace, cases, cache.n_jobs)
    curves = to_columns(
        [
            {
                "contender": contender.label,
                "alpha_learned": learned,
                "sweeps": found.n_sweeps[i - 1],
                "cpu_seconds": found.cpu_seconds[i - 1],
                "log_likelihood": value / n_tokens,
                "std_error": error / n_tokens,
            }
            for (contender, learned), found in zip(cases, traces, strict=True)
            for i, (value, error) in found.values.items()
        ]
    )
    findings: dict[str, Any] = {"tokens_judged": n_tokens}
    for learned in (False, True):
        findings["alpha learned" if learned else "alpha = 1"] = _findings(curves, learned)
    return Outcome({"seed": options.seed, **asdict(config)}, curves, findings)


def _findings(curves: dict[str, Any], learned: bool) -> dict[str, Any]:
    """Find where each ended, and when each was within 0.01 nats per token of the best."""
    these = curves["alpha_learned"] == learned
    best = curves["log_likelihood"][these].max()
    found: dict[str, Any] = {"best": best}
    for label in dict.fromkeys(curves["contender"].tolist()):
        mine = these & (curves["contender"] == label)
        values, seconds = curves["log_likelihood"][mine], curves["cpu_seconds"][mine]
        near = np.flatnonzero(values > best - 0.01)
        found[label] = {
            "log_likelihood": values[-1],
            "cpu_seconds": seconds[-1],
            "sweeps": int(curves["sweeps"][mine][-1]),
            "cpu_seconds_until_near": seconds[near[0]] if near.size else None,
        }
    return found


def draw(outcome: Outcome) -> Any:
    """Draw one panel for α = 1 and one for α learned."""
    figure, axes = new_figure(2)
    curves = outcome.curves
    for ax, learned in zip(axes, (False, True), strict=True):
        these = curves["alpha_learned"] == learned
        for c in CONTENDERS:
            mine = these & (curves["contender"] == c.label)
            x, y = curves["cpu_seconds"][mine], curves["log_likelihood"][mine]
            ax.plot(x, y, color=c.colour, marker=".", label=c.label)
        top = curves["log_likelihood"][these].max()
        title = "α learned" if learned else "α = 1"
        ax.set(xscale="log", xlabel="CPU time, s", title=title, ylim=(top - 0.32, top + 0.02))
    axes[0].set_ylabel("log-likelihood, nats per token")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


RACE = Experiment(
    "log-likelihood against time, NIPS, K = 10",
    Config(),
    Config(QUICK, max_iter=120, max_sweeps=1500, growth=1000.0),
    run,
    draw,
    needs_nips=True,
)
