"""The NIPS counts, and fig4: column norms of MCEM-C and MCEM-CH on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.errors import InvalidInputError
from gapmf.io import read
from gapmf.likelihood.marginal import log_marginal_likelihood
from gapmf.model import GaP
from gapmf.reproduce.cache import (
    ResultCache,
    Trace,
    as_columns,
    paper_schedule,
    some_iterations,
    to_columns,
    trace_runs,
)
from gapmf.reproduce.results import Experiment, Options, Outcome, new_figure, plot_runs
from gapmf.reproduce.synthetic import plot_norms

FIG4_ALGORITHMS = ("mcem-c", "mcem-ch")


@dataclass(frozen=True)
class Subset:
    """Every `every`-th document, and the `n_words` most frequent words.

    The likelihood is that of every `judged`-th document of these.
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
            "this figure needs the NIPS counts: add --data DIR, where DIR is a folder with "
            "docword.nips.txt.gz and vocab.nips.txt; gapmf.datasets.fetch_nips(DIR) downloads them"
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


def judge(
    X: sp.csr_array, part: Subset, seed: int
) -> tuple[int, Callable[[GaP], tuple[float, float]]]:
    """Return the number of tokens that are judged, and their log-likelihood with its error."""
    judged = X[:: part.judged]

    def log_likelihood(model: GaP) -> tuple[float, float]:
        ll = log_marginal_likelihood(judged, model, random_state=seed)
        return ll.total, ll.std_error

    return int(judged.sum()), log_likelihood


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Compute the norms of both algorithms, and the likelihood at some iterations."""
    X = load(options.data, config.part)
    n_tokens, log_likelihood = judge(X, config.part, options.seed)
    n_iter = options.n_iter(config.n_iter)
    data = {"name": "nips", **asdict(config.part)}
    at = [i for i in config.milestones if i <= n_iter]
    est = paper_schedule(
        config.n_components, n_iter, config.n_draws, config.n_burn_in, options.seed
    )
    traces = trace_runs(est, X, cache, data, at, log_likelihood, FIG4_ALGORITHMS)
    settings = {"seed": options.seed, "iterations_run": n_iter, **asdict(config)}
    findings: dict[str, Any] = {
        "documents": X.shape[0],
        "words": X.shape[1],
        "tokens_judged": n_tokens,
    }
    findings |= {a: _findings(trace) for a, trace in traces.items()}
    likelihood = [
        {
            "algorithm": a,
            "iteration": i,
            "cpu_seconds": trace.cpu_seconds[i - 1],
            "log_likelihood": value,
            "std_error": error,
        }
        for a, trace in traces.items()
        for i, (value, error) in trace.values.items()
    ]
    curves = as_columns(traces, some_iterations(n_iter))
    return Outcome(settings, curves, findings, {"likelihood": to_columns(likelihood)})


def _findings(trace: Trace) -> dict[str, Any]:
    """Measure how far the norms still moved in the last tenth, and list the likelihoods."""
    tenth = max(len(trace.norms) // 10, 1)
    last = trace.norms[-tenth:].mean(axis=0)
    before = trace.norms[-2 * tenth : -tenth].mean(axis=0) if len(trace.norms) > 1 else last
    return {
        "cpu_seconds": trace.cpu_seconds[-1],
        "norms_at_the_end": np.sort(trace.norms[-1])[::-1],
        "largest_change_in_the_last_tenth": float(np.abs(last / before - 1.0).max()),
        "log_likelihood": {str(i): value[0] for i, value in trace.values.items()},
    }


def draw(outcome: Outcome) -> Any:
    """Draw the norms, and the likelihood."""
    figure, (left, right) = new_figure(2)
    plot_norms(left, outcome)
    table = outcome.more["likelihood"]
    below = table["log_likelihood"].max() - table["log_likelihood"]
    shown = below > 0.0
    algorithm, x, y = table["algorithm"][shown], table["iteration"][shown], below[shown]
    plot_runs(right, algorithm, x, y, marker=".")
    right.set(xscale="log", yscale="log", xlabel="iteration")
    right.set_ylabel("nats below the best of these likelihoods")
    right.legend()
    return figure


FIG4 = Experiment(
    "column norms and log-likelihood, NIPS, K = 10",
    Config(Subset(judged=1)),
    Config(QUICK, n_iter=25, n_draws=15, n_burn_in=10, milestones=(1, 5, 25)),
    run,
    draw,
    needs_nips=True,
)
