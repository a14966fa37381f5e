"""race: log-likelihood against time on NIPS, for schedules with α = 1 and with α learned."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.em.history import Iteration
from gapmf.estimator import GammaPoissonMF
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.model import GaP
from gapmf.reproduce.cache import ResultCache
from gapmf.reproduce.nips import QUICK, WHOLE, Subset, load
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


class _Snapshots:
    """A callback that keeps models at growing distances, with their CPU time."""

    def __init__(self, config: Config, most: int | None, cache: ResultCache, name: str) -> None:
        self._growth = config.growth
        self._most = min(config.max_sweeps, most or config.max_sweeps)
        self._cache, self._name, self._max_iter = cache, name, config.max_iter
        self._next, self._used = 1.0, 0.0
        self.kept: list[tuple[int, float, GaP]] = []
        self._last: tuple[int, float, GaP] | None = None
        self._begin = time.thread_time()

    def __call__(self, record: Iteration) -> bool:
        self._used += time.thread_time() - self._begin
        self._last = record.n_sweeps, self._used, record.model
        if record.n_sweeps >= self._next:
            self.kept.append(self._last)
            self._next = record.n_sweeps * self._growth
        ended = record.n_sweeps >= self._most
        done = record.n_sweeps / self._most if self._most < 10**9 else 0.0
        done = max(done, record.iteration / self._max_iter)
        self._cache.progress(self._name, int(1000 * done), 1000)
        self._cache.check()
        self._begin = time.thread_time()
        return ended

    def end(self, model: GaP) -> list[tuple[int, float, GaP]]:
        """Return the snapshots, with the returned model in place of the last iterate."""
        assert self._last is not None
        n_sweeps, used, _ = self._last
        before = [one for one in self.kept if one[0] < n_sweeps]
        return [*before, (n_sweeps, used, model)]


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Run every contender with α = 1 and with α learned."""
    X = load(options.data, config.part)
    cases = [(c, learned) for learned in (False, True) for c in CONTENDERS]

    def one(contender: Contender, learned: bool) -> list[dict[str, Any]]:
        way = {"parameters": contender.parameters, "max_sweeps": contender.max_sweeps}
        settings = {"seed": options.seed, "config": asdict(config), **way, "learned": learned}
        name = f"race {contender.label}{', α learned' if learned else ''}"
        rows = cache.cached(
            "race",
            settings,
            lambda: _trace(X, config, options.seed, contender, learned, cache, name),
        )
        cache.progress(name, 1000, 1000)
        return list(rows)

    found = cache.parallel([partial(one, *case) for case in cases])
    rows = [row for some in found for row in some]
    curves = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    findings: dict[str, Any] = {"tokens_judged": int(X[:: config.part.judged].sum())}
    for learned in (False, True):
        findings["alpha learned" if learned else "alpha = 1"] = _findings(curves, learned)
    return Outcome({"seed": options.seed, **asdict(config)}, curves, findings)


def _trace(
    X: sp.csr_array,
    config: Config,
    seed: int,
    contender: Contender,
    learned: bool,
    cache: ResultCache,
    name: str,
) -> list[dict[str, Any]]:
    snapshots = _Snapshots(config, contender.max_sweeps, cache, name)
    est = GammaPoissonMF(
        config.n_components,
        max_iter=config.max_iter,
        learn_alpha=learned,
        random_state=seed,
        callbacks=[snapshots],
        **contender.parameters,
    ).fit(X)
    cache.check()
    judged = X[:: config.part.judged]
    rows = []
    for n_sweeps, used, model in snapshots.end(est.model_):
        ll = log_marginal_likelihood(judged, model, random_state=seed)
        cache.check()
        rows.append(
            {
                "contender": contender.label,
                "alpha_learned": learned,
                "sweeps": n_sweeps,
                "cpu_seconds": used,
                "log_likelihood": ll.total / judged.sum(),
                "std_error": ll.std_error / judged.sum(),
            }
        )
    return rows


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
    figure, axes = new_figure(9.2, 3.7, 1, 2)
    curves = outcome.curves
    for ax, learned in zip(axes[0], (False, True), strict=True):
        for c in CONTENDERS:
            mine = (curves["contender"] == c.label) & (curves["alpha_learned"] == learned)
            x, y = curves["cpu_seconds"][mine], curves["log_likelihood"][mine]
            ax.plot(x, y, color=c.colour, marker=".", label=c.label)
        ax.set_xscale("log")
        ax.set_xlabel("CPU time, s")
        ax.set_title("α learned" if learned else "α = 1")
        late = curves["alpha_learned"] == learned
        top = curves["log_likelihood"][late].max()
        ax.set_ylim(top - 0.32, top + 0.02)
    axes[0, 0].set_ylabel("log-likelihood, nats per token")
    axes[0, 0].legend(loc="lower right")
    return figure


RACE = Experiment(
    "log-likelihood against time, NIPS, K = 10",
    Config(),
    Config(QUICK, max_iter=120, max_sweeps=1500, growth=6.0),
    run,
    draw,
    needs_nips=True,
)
