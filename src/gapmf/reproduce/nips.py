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
from gapmf.types import Array

FIG4_ALGORITHMS = ("mcem-c", "mcem-ch")


@dataclass(frozen=True)
class Subset:
    """A subset of the documents and words, and of the documents whose likelihood is computed.

    Attributes
    ----------
    every : int
        Take every `every`-th document.
    n_words : int or None
        Take the most frequent words.
    judged : int
        Compute the likelihood of every `judged`-th document of these.
    """

    every: int = 1
    n_words: int | None = None
    judged: int = 5


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
    # Iterations whose likelihood is computed:
    milestones: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 400, 500, 700, 1000)


def find_nips(folder: Path | None) -> Path:
    """Return the file of the counts."""
    if folder is None:
        raise InvalidInputError(
            "this figure needs the NIPS counts: --data DIR, a folder with docword.nips.txt.gz and "
            "vocab.nips.txt; gapmf.datasets.fetch_nips(DIR) downloads them"
        )
    names = ("docword.nips.txt.gz", "docword.nips.txt")
    found = [folder / name for name in names if (folder / name).exists()]
    if not found:
        raise InvalidInputError(
            f"{folder} has neither {names[0]} nor {names[1]}: "
            f"gapmf.datasets.fetch_nips({str(folder)!r}) downloads them"
        )
    return found[0]


def load(folder: Path | None, part: Subset) -> sp.csr_array:
    """Return the counts, documents × words, or a subset of them."""
    counts = read(find_nips(folder)).counts[:: part.every]
    if part.n_words is not None:
        totals = np.asarray(counts.sum(axis=0)).ravel()
        counts = counts[:, np.sort(np.argsort(-totals, kind="stable")[: part.n_words])]
    return sp.csr_array(counts)


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Compute the norms of both algorithms, and the likelihood at some iterations."""
    X = load(options.data, config.part)
    judged = X[:: config.part.judged]
    n_iter = options.n_iter(config.n_iter)
    protocol = Protocol(config.n_components, n_iter, config.n_draws, config.n_burn_in, options.seed)
    data = {"name": "nips", **asdict(config.part)}
    at = [i for i in config.milestones if i <= n_iter]

    def log_likelihood(W: Array) -> tuple[float, float]:
        ll = log_marginal_likelihood(judged, GaP(W), random_state=options.seed)
        return ll.total, ll.std_error

    tasks = [
        partial(trace_run, X, a, protocol, cache, data, at, log_likelihood) for a in FIG4_ALGORITHMS
    ]
    traces = dict(zip(FIG4_ALGORITHMS, cache.parallel(tasks), strict=True))
    settings = {"seed": options.seed, "iterations_run": n_iter, **asdict(config)}
    findings: dict[str, Any] = {
        "documents": X.shape[0],
        "words": X.shape[1],
        "tokens_judged": int(judged.sum()),
    }
    findings |= {a: _findings(traces[a]) for a in FIG4_ALGORITHMS}
    rows = [
        (a, i, trace.cpu_seconds[i - 1], *trace.values[i])
        for a, trace in traces.items()
        for i in trace.values
    ]
    names = ("algorithm", "iteration", "cpu_seconds", "log_likelihood", "std_error")
    table = dict(zip(names, (np.array(x) for x in zip(*rows, strict=True)), strict=True))
    return Outcome(
        settings, as_columns(traces, some_iterations(n_iter)), findings, {"likelihood": table}
    )


def _findings(trace: Trace) -> dict[str, Any]:
    """Measure how far the norms still moved in the last tenth, and list the likelihoods."""
    tenth = max(len(trace) // 10, 1)
    last = trace.norms[-tenth:].mean(axis=0)
    before = trace.norms[-2 * tenth : len(trace) - tenth].mean(axis=0) if len(trace) > 1 else last
    return {
        "cpu_seconds": trace.cpu_seconds[-1],
        "norms_at_the_end": np.sort(trace.norms[-1])[::-1],
        "largest_change_in_the_last_tenth": float(np.abs(last / before - 1.0).max()),
        "log_likelihood": {str(i): value[0] for i, value in trace.values.items()},
    }


def draw(outcome: Outcome) -> Any:
    """Draw the norms, and the likelihood."""
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
