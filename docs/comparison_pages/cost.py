"""What a fit costs: time, memory, inference, threads, growth; and what failed."""

from __future__ import annotations

from statistics import mean
from typing import Any

from reproduction_pages.words import number, table

from comparison_pages.results import NAMES, OURS, QUARTER, Results, several, title

TOMOTOPY = ("LDA, tomotopy", "LDA, tomotopy η = 0.1")


def costs(results: Results, data: str, K: int) -> str:
    """Return time, passes, memory and inference of each peer."""
    lines = []
    for peer in results.peers:
        rows = [r for r in results.rows(data=data, K=K, peer=peer) if "cpu" in r]
        if not rows:
            continue
        memory = [r["memory_mib"] for r in rows if r["memory_mib"] is not None]
        lines.append(
            [
                peer,
                several([r["cpu"] for r in rows], 3),
                several([1e3 * r["cpu"] / r["passes"] for r in rows], 3),
                several(memory, 3),
                several([1e3 * r["infer_cpu"] / r["n_test"] for r in rows], 3),
            ]
        )
    head = [
        title(data, K),
        "fit, CPU s",
        "per pass, CPU ms",
        "memory, MiB",
        "inference, CPU ms per sample",
    ]
    return table(head, lines)


def equal_quality(results: Results) -> list[dict[str, Any]]:
    """Return, for each case, tomotopy's better form and our cheapest inference that is as good.

    Each has a perplexity and CPU seconds per sample; our settings are None if none is as good.
    """
    found = []
    for data, K in results.settings():
        theirs = {
            peer: mean(values)
            for peer in TOMOTOPY
            if (values := results.values("perplexity", data=data, K=K, peer=peer))
        }
        rows = [r for r in results.rows(data=data, K=K, peer=OURS) if "faster" in r]
        if not theirs or not rows:
            continue
        best = min(theirs, key=theirs.__getitem__)
        seconds = [
            r["infer_cpu"] / r["n_test"]
            for r in results.rows(data=data, K=K, peer=best)
            if "infer_cpu" in r
        ]
        forms = {"the default": [(r["perplexity"], r["infer_cpu"] / r["n_test"]) for r in rows]}
        for name in rows[0]["faster"]:
            forms[name] = [
                (r["faster"][name]["perplexity"], r["faster"][name]["infer_cpu"] / r["n_test"])
                for r in rows
            ]
        means = {name: [mean(x) for x in zip(*some, strict=True)] for name, some in forms.items()}
        good = {name: x for name, x in means.items() if x[0] <= theirs[best]}
        chosen = min(good, key=lambda name: good[name][1]) if good else None
        found.append(
            {
                "data": data,
                "K": K,
                "best": best,
                "goal": theirs[best],
                "theirs": mean(seconds),
                "default": means["the default"],
                "chosen": chosen,
                "ours": good.get(chosen or ""),
            }
        )
    return found


def inference(results: Results) -> str:
    """Return the cost of new samples at the quality of tomotopy."""
    lines = []
    for x in equal_quality(results):
        ours, ratio = "not as good with any", "–"
        if x["ours"] is not None:
            ours = f"{number(1e3 * x['ours'][1])} ({x['chosen']}: {number(x['ours'][0], 4)})"
            ratio = number(x["theirs"] / x["ours"][1], 2)
        lines.append(
            [
                title(x["data"], x["K"]),
                f"{number(1e3 * x['theirs'])} ({number(x['goal'], 4)})",
                f"{number(1e3 * x['default'][1])} ({number(x['default'][0], 4)})",
                ours,
                ratio,
            ]
        )
    head = [
        "CPU ms per sample (perplexity)",
        "tomotopy",
        "gapmf, precision=0.05",
        "as good",
        "ratio",
    ]
    return table(head, lines) if lines else ""


def growth(results: Results) -> str:
    """Return CPU milliseconds per pass as K and N grow."""
    ranks = sorted({K for data, K in results.settings() if data == "nips"})
    lines = []
    for peer in results.peers:
        by_rank = [_per_pass(results, "nips", K, peer) for K in ranks]
        if any(x is not None for x in by_rank):
            cells = [
                "–" if x is None else number(x)
                for x in (*by_rank, _per_pass(results, QUARTER, 20, peer))
            ]
            lines.append([peer, *cells])
    head = ["CPU ms per pass", *(f"K = {K}" for K in ranks), "¼ N, K = 20"]
    return table(head, lines)


def _per_pass(results: Results, data: str, K: int, peer: str) -> float | None:
    rows = [r for r in results.rows(data=data, K=K, peer=peer, seed=0) if "cpu" in r]
    return 1e3 * rows[0]["cpu"] / rows[0]["passes"] if rows else None


def threads(results: Results) -> str:
    """Return wall time per pass with one and two threads."""
    lines = []
    for two in results.rows(threads=2):
        who = {key: two[key] for key in ("data", "K", "peer", "seed")}
        for one in results.rows(**who):
            if "wall" in one and "wall" in two:
                a, b = (1e3 * x["wall"] / x["passes"] for x in (one, two))
                lines.append([two["peer"], number(a), number(b), number(a / b, 2)])
    return table(["NIPS, K = 20", "one thread, wall ms per pass", "two threads", "ratio"], lines)


def failures(results: Results) -> str:
    """Return what has no result, and why."""
    lines = []
    seen = set()
    for row in results.content["rows"]:
        who = row["kind"], row["data"], row["K"], row["peer"], row["threads"]
        if "reason" in row and who not in seen:
            seen.add(who)
            lines.append(
                [
                    f"{NAMES.get(row['data'], row['data'])}, K = {row['K']}",
                    row["peer"],
                    " ".join(row["reason"].replace("|", "/").split()),
                ]
            )
    return (
        table(["", "method", "reason"], lines) if lines else "Every run that was made has a result."
    )


def not_run(results: Results) -> str:
    """Return how many cells of the plan have no result yet."""
    missing, note = results.content["missing"], results.content["note"]
    if not missing:
        return f"All runs of the plan were made. {note}".strip()
    return (
        f"**Not complete: {len(missing)} of the {results.content['planned']} runs of the plan were not made yet.** "
        "The tables show what was run, with as many seeds as were run; a dash is a run that was not made, or was not planned. "
        f"The last section lists what was not run. {note}"
    ).strip()


def missing(results: Results) -> str:
    """Return the cells that were not run, by setting."""
    groups: dict[tuple[str, str, int, int], list[str]] = {}
    for kind, data, K, peer, _, n_threads in results.content["not run"]:
        groups.setdefault((kind, data, K, n_threads), []).append(peer)
    lines = []
    for (kind, data, K, n_threads), peers in groups.items():
        name = f"numbers of components, {data}" if kind == "rank" else NAMES.get(data, data)
        rank = f", K* = {K}" if kind == "rank" else f", K = {K}"
        name = name.replace("nips", "NIPS") + rank + (", two threads" if n_threads > 1 else "")
        run = {
            row["peer"] for row in results.rows(kind=kind, data=data, K=K, threads=n_threads)
        }  # with another seed
        none = [peer for peer in dict.fromkeys(peers) if peer not in run]
        said = "; ".join(none) if run else "all"
        lines.append([name, str(len(peers)), said or "none: further seeds only"])
    head = ["not run", "runs", "methods without any result here"]
    return table(head, lines) if lines else "All runs of the plan were made."


def plan_cost(results: Results) -> str:
    """Return how the plan was budgeted."""
    budget = results.content["budget"]
    how = "The runner makes two runs of one thread side by side, and those of two threads alone, at the end."
    if not results.content["missing"]:
        return (
            f"The {results.content['planned']} runs of the plan took {number(budget['took'], 2)} minutes on two cores "
            f"({number(budget['measured'])} CPU seconds, with start, compilation and judging). {how}"
        )
    return (
        f"The {results.content['planned']} runs of the plan are estimated to take {number(budget['minutes'], 2)} minutes on two idle cores: "
        f"{number(budget['measured'])} CPU seconds were measured, and {number(budget['estimated'])} are estimated for runs that "
        "were not made, from the same method with another seed or K, or else by their limit, which is the most that a fit may take. Start "
        f"and judging are included, in proportion to K. {how}"
    )
