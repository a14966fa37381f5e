"""Perplexity, coherence, recovery and stability; quality at equal time; numbers of components."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from math import log
from statistics import mean
from typing import Any

from reproduction_pages.words import listed, number, percent, table

from comparison_pages.results import DEFAULT, NAMES, OURS, Results, failure, several, title

TIMES = (1, 4, 16, 64)
TIE = 0.005  # differences below this are ties
SLACK = 1.0 + TIE  # how near a perplexity has to come to count as reached
FROM_GAP = ("small counts", "large counts")  # drawn from the model of gapmf
UNSMOOTHED = ("KL-NMF", "Poisson MF", "cNMF", "gapmf, default")

Value = Callable[[dict[str, Any]], float | None]


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


SHORT_FORM = {
    "gapmf, for prediction": ("gapmf, for prediction",),
    "gapmf, default": ("gapmf, default",),
    "LDA, tomotopy": ("LDA, tomotopy", "LDA, tomotopy η = 0.1"),
    "LDA, scikit-learn": ("LDA, scikit-learn batch", "LDA, scikit-learn on-line"),
    "LDA, gensim": ("LDA, gensim",),
    "KL-NMF, scikit-learn": ("KL-NMF, scikit-learn",),
    "HPF, hpfrec": ("HPF, hpfrec",),
    "Poisson MF, poismf": ("Poisson MF, poismf", "Poisson MF, poismf L2 = 1"),
    "cNMF": ("cNMF",),
}


def short_form(results: Results) -> str:
    """Return the table of the README: the better form of each method, the lowest value in bold."""
    settings = results.settings()
    values = {}
    for label, peers in SHORT_FORM.items():
        for data, K in settings:
            means = [
                mean(found)
                for peer in peers
                if (found := results.values("perplexity", data=data, K=K, peer=peer))
            ]
            if means:
                values[label, data, K] = min(means)
    lines = []
    for label in SHORT_FORM:
        cells = []
        for setting in settings:
            value = values.get((label, *setting))
            lowest = min(x for key, x in values.items() if key[1:] == setting)
            text = "–" if value is None else number(value, 4)
            cells.append(f"**{text}**" if value == lowest else text)
        lines.append([label, *cells])
    several_ranks = {data for data, K in settings if K != 10}
    heads = [f"{NAMES[d]}, {K}" if d in several_ranks else NAMES[d] for d, K in settings]
    return table(["perplexity", *heads], lines)


def _cell(results: Results, data: str, K: int, peer: str, column: str) -> str:
    rows = results.rows(data=data, K=K, peer=peer)
    if failure(rows):
        return "failed"
    values = [row[column] for row in rows if column in row]
    text = several(values)
    if any(row.get("stopped_by_limit") for row in rows):
        text += " *"
    return text


def own(row: dict[str, Any]) -> float | None:
    """Return the perplexity with the peer's own inference."""
    return row.get("perplexity")


def common(row: dict[str, Any]) -> float | None:
    """Return the perplexity with the same inference for all."""
    return row.get("perplexity_common")


def differences(
    results: Results, ours: str = OURS, value: Value = own
) -> list[tuple[str, int, str, float]]:
    """Return, for each setting, the best other package and how much higher its perplexity is."""
    found = []
    for data, K in results.fair_settings():
        means = {}
        for peer in (ours, *results.others):
            values = [value(row) for row in results.rows(data=data, K=K, peer=peer)]
            kept = [x for x in values if x is not None]
            if kept:
                means[peer] = mean(kept)
        if ours in means and len(means) > 1:
            best = min((p for p in means if p != ours), key=means.__getitem__)
            found.append((data, K, best, means[best] / means[ours] - 1.0))
    return found


def verdict(gain: float) -> str:
    """Return who is better; less than half a per cent is a tie."""
    if abs(gain) < TIE:
        return "tie"
    return "better" if gain > 0 else "worse"


def counted(found: list[tuple[str, int, str, float]]) -> str:
    """Return how often it is better, worse, or neither."""
    n = Counter(verdict(x[3]) for x in found)
    return (
        f"better than the best other package in {n['better']} of {len(found)} cases, worse in {n['worse']}, and a tie "
        f"in {n['tie']}"
    )


def those(found: list[tuple[str, int, str, float]], which: str) -> str:
    """Return the settings with a verdict, the best other package there, and the difference.

    Of ties, also who is ahead by it.
    """
    sides = ("behind ", "ahead of ") if which == "tie" else ("", "")
    return "; ".join(
        f"{title(data, K)}: {percent(abs(gain))} ({sides[gain > 0]}{peer})"
        for data, K, peer, gain in found
        if verdict(gain) == which
    )


def reading(results: Results) -> list[str]:
    """Return who is best where, in words: losses first."""
    found = differences(results)
    if not found:
        return ["No case has both gapmf and two other packages yet."]
    first = (
        f"**Document completion.** gapmf for prediction is {counted(found)}. A tie is a difference "
        "of less than 0.5 %."
    )
    most = max(len(results.values("perplexity", data=d, K=K, peer=OURS)) for d, K, *_ in found)
    if most == 1:
        first += " **So far this is one seed, so a difference of a per cent or two may be chance.**"
    favoured = [title(d, K) for d, K, *_ in found if d in FROM_GAP]
    if favoured:
        first += f" Of these cases, the data of {listed(favoured)} are drawn from gapmf's own model, which favours it."
    parts = [first]
    for which, said in (("worse", "Worse"), ("tie", "Ties"), ("better", "Better")):
        if those(found, which):
            parts.append(
                f"**{said}**, with the difference and the best other package: {those(found, which)}."
            )
    default = differences(results, DEFAULT)
    if default:
        said = those(default, "worse")
        worse = f" It is worse for {said}." if said else ""
        parts.append(
            f"**The default of gapmf**, without the settings for prediction, is {counted(default)}.{worse}"
        )
    same = differences(results, OURS, common)
    if same:
        parts.append(
            f"**With one inference for all**, which leaves the components only, gapmf for prediction is {counted(same)}."
        )
    return parts


def epsilon(results: Results) -> str:
    """Say what another weight ε of the background would do."""
    parts = []
    for e in ("0.0001", "0.01"):
        groups: dict[bool, list[float]] = {True: [], False: []}
        for row in results.rows():
            if "by_epsilon" in row and row["data"] in NAMES:
                change = row["by_epsilon"][e] / row["by_epsilon"]["0.001"] - 1.0
                groups[row["peer"].startswith(UNSMOOTHED)].append(change)
        if not groups[True] or not groups[False]:
            return ""
        spans = [f"{percent(min(x))} to {percent(max(x))}" for x in (groups[True], groups[False])]
        other = differences(results, OURS, lambda row, e=e: row.get("by_epsilon", {}).get(e))
        changed = sum(
            verdict(a[3]) != verdict(b[3]) for a, b in zip(differences(results), other, strict=True)
        )
        parts.append(
            f"With ε = {e} perplexities change by {spans[0]} for fits without smoothing (KL-NMF, poismf, cNMF, gapmf's default), by "
            f"{spans[1]} for the others, and the verdict on gapmf for prediction changes in {changed} of {len(other)} cases."
        )
    return " ".join(parts)


def inference_effect(results: Results) -> str:
    """Say for whom the common inference is better and worse than the peer's own."""
    means = {}
    for peer in results.peers:
        rows = [r for r in results.rows(peer=peer) if "perplexity" in r and r["data"] in NAMES]
        if rows:
            means[peer] = mean(r["perplexity_common"] / r["perplexity"] - 1.0 for r in rows)
    if len(means) < 2:
        return ""
    low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    return (
        "Against the method's own inference the perplexity changes, on average over the fits, by "
        f"{percent(means[low])} for {low} and by {percent(means[high])} for {high}; all others are between."
    )


def at_time(row: dict[str, Any], seconds: float) -> float | None:
    """Return the perplexity after so many CPU seconds.

    Linear in log time between the looks before and after; none before the first look, and that of
    the end after the end.
    """
    seen = [*row.get("looks", []), row]
    if seconds < seen[0]["cpu"]:
        return None
    for a, b in pairwise(seen):
        if a["cpu"] <= seconds < b["cpu"]:
            part = log(seconds / a["cpu"]) / log(b["cpu"] / a["cpu"])
            return float(a["perplexity"] + part * (b["perplexity"] - a["perplexity"]))
    return float(row["perplexity"])


def worse_again(results: Results) -> str:
    """Say which fits were better on the way than at their end."""
    found = []
    for data, K in results.settings():
        for row in results.rows(data=data, K=K, seed=0):
            seen = [look["perplexity"] for look in row.get("looks", [])]
            if seen and "perplexity" in row and row["perplexity"] > SLACK * min(seen):
                pair = f"{number(min(seen), 4)}, then {number(row['perplexity'], 4)}"
                found.append(f"{row['peer']}, {title(data, K)} ({pair})")
    if not found:
        return ""
    return (
        f"Some fits are better on the way than at their end, by more than 0.5 %: {'; '.join(found)}. The tables and sentences "
        "above take the end, since no fit here is stopped by held-out data."
    )


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
    for data, K in results.fair_settings():
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
    head = [
        "",
        "goal",
        "fastest other package, CPU s",
        "gapmf, for prediction",
        "any gapmf",
        "ratio",
    ]
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
