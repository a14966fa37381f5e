"""The NIPS counts, and fig4: column norms of MCEM-C and MCEM-CH on them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.errors import InvalidInputError
from gapmf.io import read
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.model import GaP
from gapmf.reproduce.cache import (
    Protocol,
    ResultCache,
    Trace,
    as_columns,
    some_iterations,
    trace_run,
)
from gapmf.reproduce.results import COLOURS, LABELS, Experiment, Options, Outcome, new_figure
from gapmf.reproduce.synthetic import plot_norms

FIG4_ALGORITHMS = ("mcem-c", "mcem-ch")


@dataclass(frozen=True)
class Subset:
    """Of the documents and of the words: every so many-th one, and the most frequent."""

    every: int = 1
    n_words: int | None = None
    judged: int = 5
    """The likelihood is that of every so many-th document of these."""


WHOLE = Subset()
QUICK = Subset(every=15, n_words=500, judged=5)


@dataclass(frozen=True)
class Config:
    """The paper's protocol."""

    part: Subset = WHOLE
    n_components: int = 10
    n_iter: int = 1000
    n_draws: int = 125
    n_burn_in: int = 125
    milestones: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 400, 500, 700, 1000)
    """Iterations whose likelihood is looked at."""


def find_nips(folder: Path | None) -> Path:
    """The file of the counts."""
    if folder is None:
        raise InvalidInputError(
            "this figure needs the NIPS counts: --data DIR, with docword.nips.txt.gz and "
            "vocab.nips.txt in it; gapmf.datasets.fetch_nips(DIR) gets them"
        )
    names = ("docword.nips.txt.gz", "docword.nips.txt")
    found = [folder / name for name in names if (folder / name).exists()]
    if not found:
        raise InvalidInputError(
            f"{folder} has neither {names[0]} nor {names[1]}: "
            f"gapmf.datasets.fetch_nips({str(folder)!r}) gets them"
        )
    return found[0]


def load(folder: Path | None, part: Subset) -> sp.csr_array:
    """The counts, documents × words, or a part of them."""
    counts = read(find_nips(folder)).counts[:: part.every]
    if part.n_words is not None:
        totals = np.asarray(counts.sum(axis=0)).ravel()
        counts = counts[:, np.sort(np.argsort(-totals, kind="stable")[: part.n_words])]
    return sp.csr_array(counts)


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Norms of both algorithms, and the likelihood at some iterations."""
    X = load(options.data, config.part)
    protocol = Protocol(
        config.n_components, config.n_iter, config.n_draws, config.n_burn_in, options.seed
    )
    name = f"nips-{config.part.every}-{config.part.n_words}"
    tasks = [
        partial(
            trace_run,
            X,
            a,
            protocol,
            cache,
            name,
            until=options.until,
            milestones=config.milestones,
        )
        for a in FIG4_ALGORITHMS
    ]
    traces = dict(zip(FIG4_ALGORITHMS, cache.side_by_side(tasks), strict=True))
    n_iter = len(traces["mcem-c"])
    settings = {"seed": options.seed, "iterations_run": n_iter, **asdict(config)}
    values = _likelihoods(X, traces, {"seed": options.seed, **asdict(config)}, cache)
    judged = X[:: config.part.judged]
    findings: dict[str, Any] = {
        "documents": X.shape[0],
        "words": X.shape[1],
        "tokens_judged": int(judged.sum()),
    }
    findings |= {a: _findings(traces[a], values[a]) for a in FIG4_ALGORITHMS}
    likelihood = [
        (a, i, traces[a].cpu_seconds[i - 1], *values[a][i]) for a in values for i in values[a]
    ]
    names = ("algorithm", "iteration", "cpu_seconds", "log_likelihood", "std_error")
    table = dict(zip(names, (np.array(x) for x in zip(*likelihood, strict=True)), strict=True))
    return Outcome(
        settings, as_columns(traces, some_iterations(n_iter)), findings, {"likelihood": table}
    )


def _likelihoods(
    X: sp.csr_array, traces: dict[str, Trace], settings: dict[str, Any], cache: ResultCache
) -> dict[str, dict[int, tuple[float, float]]]:
    """log p of the judged documents, and its error, at the milestones of each algorithm."""
    judged = X[:: settings["part"]["judged"]]
    at = [(a, i) for a, trace in traces.items() for i in trace.W]

    def look(algorithm: str, i: int) -> list[float]:
        model = GaP(traces[algorithm].W[i])
        ll = log_marginal_likelihood(judged, model, random_state=settings["seed"])
        return [ll.total, ll.std_error]

    def taken(algorithm: str, i: int) -> tuple[float, float]:
        piece = f"nips-likelihood-{algorithm}-{i}"
        total, error = cache.cached(piece, settings, partial(look, algorithm, i))
        return total, error

    found = cache.side_by_side([partial(taken, a, i) for a, i in at])
    values: dict[str, dict[int, tuple[float, float]]] = {a: {} for a in traces}
    for (a, i), value in zip(at, found, strict=True):
        values[a][i] = value
    return values


def _findings(trace: Trace, values: dict[int, tuple[float, float]]) -> dict[str, Any]:
    """How far the norms still moved in the last tenth, and what the likelihood came to."""
    tenth = max(len(trace) // 10, 1)
    last = trace.norms[-tenth:].mean(axis=0)
    before = trace.norms[-2 * tenth : len(trace) - tenth].mean(axis=0) if len(trace) > 1 else last
    return {
        "cpu_seconds": trace.cpu_seconds[-1],
        "norms_at_the_end": np.sort(trace.norms[-1])[::-1],
        "largest_change_in_the_last_tenth": float(np.abs(last / before - 1.0).max()),
        "log_likelihood": {str(i): value[0] for i, value in values.items()},
    }


def draw(outcome: Outcome) -> Any:
    """The norms, an algorithm a panel beside the paper's one, and the likelihood."""
    figure, axes = new_figure(9.2, 3.7, 1, 2)
    plot_norms(axes[0, 0], outcome)
    ax, table = axes[0, 1], outcome.more["likelihood"]
    best = table["log_likelihood"].max()
    for name in FIG4_ALGORITHMS:
        mine = (table["algorithm"] == name) & (table["log_likelihood"] < best)
        short = best - table["log_likelihood"][mine]
        ax.plot(
            table["iteration"][mine], short, color=COLOURS[name], marker=".", label=LABELS[name]
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("iteration")
    ax.set_ylabel("nats below the best of these likelihoods")
    ax.legend()
    return figure


FIG4 = Experiment(
    "column norms and log-likelihood, NIPS, K = 10",
    Config(Subset(judged=1)),
    Config(QUICK, n_iter=25, n_draws=15, n_burn_in=10, milestones=(1, 5, 25)),
    run,
    draw,
    needs_nips=True,
)
