"""Perplexity, coherence, recovery and stability; quality at equal time; numbers of components."""

from __future__ import annotations

from statistics import mean
from typing import Any

from reproduction_pages.words import number, percent, table

from comparison_pages.results import NAMES, OURS, Results, failure, several, title

TIMES = (1, 4, 16, 64)
SLACK = 1.001  # how near a perplexity has to come to count as reached


def perplexities(results: Results, column: str = "perplexity") -> str:
    """Return the tables of document completion for all data sets."""
    parts = []
    for data, name in NAMES.items():
        ranks = [K for d, K in results.settings() if d == data]
        if not ranks:
            continue
        lines = []
        for peer in results.peers:
            cells = [_cell(results, data, K, peer, column) for K in ranks]
            if any(cell != "–" for cell in cells):
                lines.append([peer, *cells])
        head = [name, *(f"K = {K}" for K in ranks)]
        parts.append(table(head, lines))
    return "\n\n".join(parts)


def _cell(results: Results, data: str, K: int, peer: str, column: str) -> str:
    rows = results.rows(data=data, K=K, peer=peer)
    if failure(rows):
        return "failed"
    values = [row[column] for row in rows if column in row]
    text = several(values)
    if any(row.get("stopped_by_limit") for row in rows):
        text += " *"
    return text


def differences(results: Results) -> list[tuple[str, int, str, float]]:
    """Return, for each setting, the best other package and how much higher its perplexity is."""
    found = []
    for data, K in results.settings():
        ours = results.values("perplexity", data=data, K=K, peer=OURS)
        best = results.best_peer(data, K)
        if ours and best:
            found.append((data, K, best[0], best[1] / mean(ours) - 1.0))
    return found


def reading(results: Results) -> list[str]:
    """Return who is best where, in words: losses first."""
    all_ = differences(results)
    if not all_:
        return ["No setting has both gapmf and another package yet."]
    lost = [x for x in all_ if x[3] < 0]
    won = [x for x in all_ if x[3] >= 0]
    parts = [
        f"Document completion: gapmf with the settings that the README recommends is better than the best other package "
        f"in {len(won)} of {len(all_)} settings, and worse in {len(lost)}. These are means over the seeds that were run."
    ]
    most = max(len(results.values("perplexity", data=d, K=K, peer=OURS)) for d, K, *_ in all_)
    if most == 1:
        parts[0] += (
            " **So far that is one seed, so a difference of a per cent or two may be chance.**"
        )
    if lost:
        said = "; ".join(
            f"{title(data, K)}: {peer} is {percent(-gain)} better" for data, K, peer, gain in lost
        )
        parts.append(f"**Where it loses.** {said}.")
    if won:
        said = "; ".join(
            f"{title(data, K)}: {percent(gain)} ({peer})" for data, K, peer, gain in won
        )
        parts.append(
            f"**Where it wins**, by how much, and the best other package: {said}. Compare these margins with the spread over "
            "seeds in the tables: margins within it may be chance."
        )
    return parts


def at_time(row: dict[str, Any], seconds: float) -> float | None:
    """Return the perplexity of the last look within so many CPU seconds."""
    seen = [*row.get("looks", []), row]
    within = [x["perplexity"] for x in seen if x["cpu"] <= 1.05 * seconds]
    return within[-1] if within else None


def equal_time(results: Results, data: str, K: int) -> str:
    """Return perplexity after some CPU seconds, seed 0, one thread."""
    lines = []
    for peer in results.peers:
        for row in results.rows(data=data, K=K, peer=peer, seed=0):
            if "perplexity" not in row:
                continue
            values = [at_time(row, t) for t in TIMES]
            cells = ["–" if x is None else number(x, 4) for x in values]
            lines.append([peer, *cells, f"{number(row['perplexity'], 4)} ({number(row['cpu'])} s)"])
    return table([title(data, K), *(f"{t} s" for t in TIMES), "end"], lines)


def time_to(row: dict[str, Any], goal: float) -> float | None:
    """Return the CPU seconds of the first look at which a perplexity is reached."""
    for seen in [*row.get("looks", []), row]:
        if seen["perplexity"] <= SLACK * goal:
            return float(seen["cpu"])
    return None


def races(results: Results) -> list[dict[str, Any]]:
    """Return the time to the quality of the best other package, ours and that of the fastest peer."""
    found = []
    for data, K in results.settings():
        first = {
            row["peer"]: row for row in results.rows(data=data, K=K, seed=0) if "perplexity" in row
        }
        others = {p: r for p, r in first.items() if p in results.others}
        if OURS not in first or not others:
            continue
        best = min(others, key=lambda p: others[p]["perplexity"])
        goal = others[best]["perplexity"]
        times = {p: t for p, r in others.items() if (t := time_to(r, goal)) is not None}
        fastest = min(times, key=times.__getitem__)
        ours = {p: time_to(r, goal) for p, r in first.items() if p.startswith("gapmf")}
        found.append(
            {
                "data": data,
                "K": K,
                "goal": goal,
                "best": best,
                "fastest": fastest,
                "seconds": times[fastest],
                "ours": ours.get(OURS),
                "any of ours": min((t for t in ours.values() if t is not None), default=None),
            }
        )
    return found


def race_table(results: Results) -> str:
    """Return the table of `races`."""
    lines = []
    for race in races(results):
        cells = ["never" if race[x] is None else number(race[x]) for x in ("ours", "any of ours")]
        ratio = "–" if race["ours"] is None else number(race["seconds"] / race["ours"], 2)
        lines.append(
            [
                title(race["data"], race["K"]),
                f"{number(race['goal'], 4)} ({race['best']})",
                f"{number(race['seconds'])} ({race['fastest']})",
                *cells,
                ratio,
            ]
        )
    head = ["", "goal", "fastest peer, CPU s", "gapmf, for prediction", "any gapmf", "ratio"]
    return table(head, lines)


def other_measures(results: Results) -> str:
    """Return coherence, recovery of the truth, and stability over seeds."""
    stable = {(x["data"], x["K"], x["peer"]): x["stability"] for x in results.content["stability"]}
    parts = []
    for data, K in results.settings():
        lines = []
        for peer in results.peers:
            who = {"data": data, "K": K, "peer": peer}
            coherence = results.values("npmi", **who)
            if not coherence:
                continue
            cosine = results.values("cosine", **who)
            agreement = stable.get((data, K, peer))
            found = results.values("n_components", **who)
            lines.append(
                [
                    peer,
                    several(coherence, 3),
                    several(cosine, 3),
                    "–" if agreement is None else number(agreement, 3),
                    several(found, 3) if peer.startswith("HDP") else str(K),
                ]
            )
        head = [title(data, K), "NPMI", "cosine to the truth", "stability", "components"]
        parts.append(table(head, lines))
    return "\n\n".join(parts)


def rank_counts(results: Results) -> dict[str, dict[tuple[str, int], list[int]]]:
    """Return the ranks that each recipe named, by case."""
    found: dict[str, dict[tuple[str, int], list[int]]] = {}
    for row in results.rows(kind="rank"):
        if "rank" in row:
            case = row["data"], row["K"]
            found.setdefault(row["peer"], {}).setdefault(case, []).append(row["rank"])
    return found


def rank_table(results: Results) -> str:
    """Return how often each recipe named the true number of components."""
    counts = rank_counts(results)
    cases = sorted({case for ranks in counts.values() for case in ranks})
    lines = []
    for recipe, ranks in counts.items():
        cells = []
        for case in cases:
            named = ranks.get(case, [])
            right = sum(rank == case[1] for rank in named)
            span = f"{min(named)} to {max(named)}" if named else ""
            cells.append(f"{right} of {len(named)} ({span})" if named else "–")
        lines.append([recipe, *cells])
    return table(["", *(f"{name}, K* = {K}" for name, K in cases)], lines)
