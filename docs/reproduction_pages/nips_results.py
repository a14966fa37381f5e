"""What `fig4` and `race` found on NIPS, for the sections of both."""

from __future__ import annotations

from collections.abc import Iterable

from reproduction_pages.words import head, rows

FIRST_SHOWN = 10  # iteration
UNIT = "nats per token"
PAPERS, OURS = "the paper's", "adaptive (default)"


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


def last_of_mcem_c(seed: float) -> tuple[float, float] | None:
    """Return the last iteration of MCEM-C with a seed that was looked at, and its log-likelihood."""
    looks = [
        (n, v["log_likelihood"]) for (a, s, n), v in values().items() if (a, s) == ("mcem-c", seed)
    ]
    return max(looks) if looks else None


def race_runs(*, learned: bool) -> dict[str, list[dict]]:
    """Return the runs of each contender."""
    found: dict[str, list[dict]] = {}
    for run in head("race")["findings"]["runs"]:
        if run["alpha_learned"] == learned:
            found.setdefault(run["contender"], []).append(run)
    return found
