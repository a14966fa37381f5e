"""What `fig4` and `race` found on NIPS, for the sections of both."""

from __future__ import annotations

from collections.abc import Iterable

from reproduction_pages.words import head, rows

FIRST_SHOWN = 10  # iteration
UNIT = "nats per token"
PAPERS, OURS = "the paper's", "adaptive (default)"
PAPERS_SWEEPS = 250  # of an iteration
N_ERRORS = 2.0  # a difference above so many standard errors is one
MOST = 0.5  # a share above this is most of it


def values() -> dict:
    """Return the rows of the likelihood by algorithm, seed and iteration."""
    return {(v["algorithm"], v["seed"], v["iteration"]): v for v in rows("fig4-likelihood")}


def leads(other: str) -> dict[tuple[float, float], tuple[float, float]]:
    """Return by how much MCEM-C is ahead of another algorithm, by seed and iteration; the error."""
    at, found = values(), {}
    for algorithm, seed, n in at:
        if algorithm == "mcem-c" and (other, seed, n) in at and n >= FIRST_SHOWN:
            mine, theirs = at["mcem-c", seed, n], at[other, seed, n]
            error = (mine["std_error"] ** 2 + theirs["std_error"] ** 2) ** 0.5
            found[seed, n] = mine["log_likelihood"] - theirs["log_likelihood"], error
    return found


def last_looks(keys: Iterable[tuple[float, float]]) -> dict[float, float]:
    """Return the last iteration of each seed."""
    return dict(sorted(keys))


def last_row(algorithm: str, seed: float) -> dict | None:
    """Return the last look at an algorithm with a seed."""
    mine = [v for v in _sorted() if (v["algorithm"], v["seed"]) == (algorithm, seed)]
    return mine[-1] if mine else None


def ends_of_fig4(algorithm: str, tokens: float) -> dict[float, float]:
    """Return the last log-likelihood per token of an algorithm, by seed."""
    last = {
        v["seed"]: v["log_likelihood"] / tokens for v in _sorted() if v["algorithm"] == algorithm
    }
    return dict(sorted(last.items()))


def _sorted() -> list[dict]:
    return [v for _, v in sorted(values().items())]


def judged_alike() -> bool:
    """Return whether `fig4` and `race` judge as many tokens: all documents."""
    return head("race")["findings"]["tokens_judged"] == head("fig4")["findings"]["tokens_judged"]


def shares_of_h(runs: list[dict], base: dict[float, float], tokens: float) -> list[float]:
    """Return how much of the lead of each run over `base`, by seed, MCEM-H of `fig4` has.

    MCEM-H averages over C and has the paper's schedule otherwise.
    """
    of_h = ends_of_fig4("mcem-h", tokens)
    return [
        (of_h[seed] - base[seed]) / (run["log_likelihood"] - base[seed])
        for run in runs
        if (seed := run["seed"]) in base and seed in of_h and run["log_likelihood"] > base[seed]
    ]


def race_runs(*, learned: bool) -> dict[str, list[dict]]:
    """Return the runs of each contender."""
    found: dict[str, list[dict]] = {}
    for run in head("race")["findings"]["runs"]:
        if run["alpha_learned"] == learned:
            found.setdefault(run["contender"], []).append(run)
    return found
