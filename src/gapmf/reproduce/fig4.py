"""fig4: column norms and log-likelihood of the paper's algorithms on NIPS.

The runs take hours, so that they are computed in blocks (see `cache.LongRun`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.parallel import for_each
from gapmf.ranks.features import match_components
from gapmf.ranks.stability import SAME
from gapmf.reproduce.cache import (
    LongRun,
    NotFinishedError,
    ResultCache,
    joined,
    paper_schedule,
    some_iterations,
    to_columns,
)
from gapmf.reproduce.nips import WHOLE, Subset, describe, judge, load
from gapmf.reproduce.results import (
    COLOURS,
    LABELS,
    Experiment,
    Options,
    Outcome,
    new_figure,
    quantiles,
    with_legend,
)

BLOCK = 50  # iterations in a block, at most
SETTLED = 0.05  # norms that stay as near to their last values have settled


@dataclass(frozen=True)
class Run:
    """An algorithm, its seed, and the number of its iterations."""

    algorithm: str
    seed: int
    n_iter: int


def protocol(n_long: int, n_short: int, seeds: Sequence[int]) -> tuple[Run, ...]:
    """Return the paper's two runs, then MCEM-H and the other seeds, which are shorter."""
    long = [Run(a, seeds[0], n_long) for a in ("mcem-c", "mcem-ch")]
    short = [Run("mcem-h", seeds[0], n_short)]
    short += [Run(a, seed, n_short) for seed in seeds[1:] for a in ("mcem-c", "mcem-ch", "mcem-h")]
    return (*long, *short)


@dataclass(frozen=True)
class Config:
    """The paper's protocol, and more seeds at fewer iterations."""

    part: Subset = WHOLE
    n_components: int = 10
    n_draws: int = 125
    n_burn_in: int = 125
    runs: tuple[Run, ...] = protocol(1000, 200, (0, 1, 2))
    # Iterations whose likelihood is computed:
    milestones: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    # Of each likelihood, for an error of 6e-6 nats per token:
    n_particles: int = 144


def block_ends(n_iter: int, milestones: Sequence[int]) -> tuple[int, ...]:
    """Return the iterations after which a block of a run ends."""
    ends = {*milestones, *range(BLOCK, n_iter, BLOCK), n_iter}
    return tuple(sorted(i for i in ends if i <= n_iter))


def long_runs(
    config: Config, X: sp.csr_array, options: Options, cache: ResultCache
) -> dict[Run, LongRun]:
    """Return the runs of the protocol, of which nothing is computed yet."""
    found = {}
    for run in config.runs:
        seed, n_iter = options.seed + run.seed, options.n_iter(run.n_iter)
        est = paper_schedule(config.n_components, 1, config.n_draws, config.n_burn_in, seed)
        name = f"nips-{run.algorithm}-seed{seed}"
        ends = block_ends(n_iter, config.milestones)
        est.set_params(algorithm=run.algorithm)
        found[run] = LongRun(est, X, cache, name, asdict(config.part), ends)
    return found


def compute_blocks(runs: Sequence[LongRun], cache: ResultCache) -> None:
    """Compute all blocks: runs of the same length take turns, the longest first."""
    for ends in dict.fromkeys(run.ends for run in runs):
        alike = [run for run in runs if run.ends == ends]
        for i in range(len(ends)):
            for_each(methodcaller("block", i), alike, cache.n_jobs)


def run(config: Config, options: Options, cache: ResultCache) -> Outcome:
    """Compute the norms of all runs, and the likelihood at some iterations."""
    X = load(options.data, config.part)
    runs = long_runs(config, X, options, cache)
    if not options.finished_only:
        compute_blocks(list(runs.values()), cache)
    n_tokens, log_likelihood = judge(X, config.part, options.seed, config.n_particles)
    curves: list[dict[str, Any]] = []
    likelihood: list[dict[str, Any]] = []
    summary: list[dict[str, Any]] = []
    done: dict[tuple[str, int], tuple[LongRun, int]] = {}
    for planned, run in runs.items():
        n_blocks = sum(run.is_finished(i) for i in range(len(run.ends)))
        cache.n_missing += len(run.ends) - n_blocks
        if n_blocks == 0:
            continue
        seconds, norms = joined([run.block(i) for i in range(n_blocks)])
        who = {"algorithm": planned.algorithm, "seed": options.seed + planned.seed}
        for n in some_iterations(len(norms)):
            row = who | {"iteration": n, "cpu_seconds": seconds[n - 1]}
            columns = {f"norm_{k}": norm for k, norm in enumerate(norms[n - 1], start=1)}
            curves.append(row | columns)
        for i, n in enumerate(run.ends[:n_blocks]):
            if n not in config.milestones:
                continue
            settings = run.settings(i) | {"n_particles": config.n_particles, "judge": options.seed}
            work = partial(_judge, log_likelihood, run, i)
            with suppress(NotFinishedError):
                value, error = cache.cached(f"{run.name}-likelihood{n}", settings, work)
                row = who | {"iteration": n, "cpu_seconds": seconds[n - 1]}
                likelihood.append(row | {"log_likelihood": value, "std_error": error})
        summary.append(who | {"iterations": len(norms), "planned": planned.n_iter})
        summary[-1] |= _movement(seconds, norms)
        done[planned.algorithm, options.seed + planned.seed] = run, n_blocks
    findings = describe(X) | {
        "tokens_judged": n_tokens,
        "runs": summary,
        "solutions": _solutions(done, options.seed),
    }
    settings = {"seed": options.seed, **asdict(config)}
    return Outcome(settings, to_columns(curves), findings, {"likelihood": to_columns(likelihood)})


def _judge(log_likelihood: Any, run: LongRun, i: int) -> tuple[float, float]:
    value: tuple[float, float] = log_likelihood(run.model(i))
    return value


def _solutions(
    done: dict[tuple[str, int], tuple[LongRun, int]], first: int
) -> list[dict[str, Any]]:
    """Compare the components of runs, two by two, after as many iterations as both have.

    These are the algorithms with the same seed, and MCEM-C with the first seed and with others.
    Matched components overlap by Σ_f √(p_f q_f), which is 1 if they are equal.
    """
    pairs = [
        (("mcem-ch", seed), (other, seed))
        for other in ("mcem-c", "mcem-h")
        for seed in dict.fromkeys(seed for _, seed in done)
    ]
    pairs += [(("mcem-c", first), key) for key in done if key[0] == "mcem-c" and key[1] != first]
    found = []
    for a, b in pairs:
        if a not in done or b not in done:
            continue
        (one, n), (two, m) = done[a], done[b]
        at = max(set(one.ends[:n]) & set(two.ends[:m]))
        _, overlap = match_components(*(run.model(run.ends.index(at)) for run in (one, two)))
        row = {"algorithms": [a[0], b[0]], "seeds": [a[1], b[1]], "iteration": at}
        same = int((overlap >= SAME).sum())
        found.append(row | {"overlap": quantiles(overlap), "components_in_common": same})
    return found


def _movement(seconds: Any, norms: Any) -> dict[str, Any]:
    """Measure when the norms settled, and how far they still moved in the last tenth."""
    tenth = max(len(norms) // 10, 1)
    last = norms[-tenth:].mean(axis=0)
    before = norms[-2 * tenth : -tenth].mean(axis=0) if len(norms) > 1 else last
    far = np.flatnonzero((np.abs(norms / norms[-1] - 1.0) > SETTLED).any(axis=1))
    return {
        "cpu_seconds": seconds[-1],
        "norms_settle_after": int(far[-1]) + 2 if far.size else 1,  # iterations count from one
        "norms_at_the_end": np.sort(norms[-1])[::-1],
        "largest_change_in_the_last_tenth": float(np.abs(last / before - 1.0).max()),
    }


def draw(outcome: Outcome) -> Any:
    """Draw the norms of the first seed, and the likelihood of all, below a number above them."""
    figure, (left, right) = new_figure(2)
    curves, table = outcome.curves, outcome.more["likelihood"]
    seeds = np.unique(curves["seed"])
    columns = [key for key in curves if key.startswith("norm_")]
    top = 0.0
    for algorithm in ("mcem-ch", "mcem-c"):
        mine = (curves["algorithm"] == algorithm) & (curves["seed"] == seeds[0])
        norms = np.column_stack([curves[key][mine] for key in columns])
        lines = left.plot(curves["cpu_seconds"][mine], norms, color=COLOURS[algorithm], lw=1.1)
        lines[0].set_label(LABELS[algorithm])
        top = max(top, norms.max(initial=0.0))
    left.set(xlabel="CPU time, s", ylabel="$||w_k||_1$, one line per component")
    left.set(title=f"seed {seeds[0]}", ylim=(0.0, 1.05 * top))
    reference = _reference(table["log_likelihood"])
    styles = dict(zip(seeds.tolist(), ("-", "--", ":"), strict=False))
    for seed, style in styles.items():
        for algorithm in ("mcem-h", "mcem-ch", "mcem-c"):
            mine = (table["algorithm"] == algorithm) & (table["seed"] == seed)
            below = reference - table["log_likelihood"][mine]
            label = LABELS[algorithm] if seed == seeds[0] and mine.any() else None
            line = {"color": COLOURS[algorithm], "linestyle": style, "marker": ".", "label": label}
            if algorithm == "mcem-ch":  # around the points of MCEM-C, which are nearly the same
                line |= {"marker": "o", "markersize": 7, "markerfacecolor": "none"}
            right.plot(table["iteration"][mine], below, **line)
    right.set(xscale="log", yscale="log", xlabel="iteration")
    right.set_ylabel(f"nats below {reference:,.0f}".replace("-", "−"))
    lines_of = {"-": "solid", "--": "dashed", ":": "dotted"}
    right.set_title(", ".join(f"seed {seed}: {lines_of[s]}" for seed, s in styles.items()))
    return with_legend(figure)


def _reference(log_likelihood: Any) -> float:
    """Return a round number above all likelihoods, by a hundredth of their range at least."""
    room = max(0.01 * np.ptp(log_likelihood), 1.0)
    unit = 10.0 ** np.floor(np.log10(room))
    return float(unit * np.ceil((log_likelihood.max() + room) / unit))


FIG4 = Experiment(
    "column norms and log-likelihood, NIPS, K = 10",
    Config(),
    Config(
        Subset(every=15, n_words=500, judged=1),
        n_draws=15,
        n_burn_in=10,
        runs=protocol(25, 5, (0, 1)),
        milestones=(1, 5, 25),
        n_particles=48,
    ),
    run,
    draw,
    needs_nips=True,
)
