"""Short readings of the tables, in words, made from the same numbers."""

from __future__ import annotations

from statistics import mean

from reproduction_pages.words import listed, number

from comparison_pages import cost as cost_tables
from comparison_pages import quality
from comparison_pages.quality import rank_counts
from comparison_pages.results import OURS, Results, title

NEAR = 1.1  # times as long is about as long
GOAL = 5.0  # times as fast as the fastest package that reaches the best one's quality
FIRST_LOOKS = 0.6  # CPU seconds: looks come after ¼, ½, 1, …
HIGHER = {"npmi": "coherence", "cosine": "recovery of the true components"}


def common(results: Results) -> str:
    """Say who has the better components when the inference is the same."""
    found = quality.differences(results, OURS, quality.common)
    if not found:
        return ""
    parts = [f"So judged, gapmf for prediction is {quality.counted(found)}."]
    for which, said in (("worse", "Worse"), ("tie", "Ties"), ("better", "Better")):
        if quality.those(found, which):
            parts.append(f"{said}: {quality.those(found, which)}.")
    return " ".join([*parts, quality.inference_effect(results)]).strip()


def higher(results: Results) -> list[str]:
    """Say who is best by measures of which higher is better, and where gapmf is not.

    The best form of gapmf stands for it; values that are printed alike are ties.
    """
    parts = []
    for column, name in HIGHER.items():
        lost, tied, n = [], [], 0
        for data, K in results.fair_settings():
            means = {
                peer: mean(found)
                for peer in results.peers
                if not peer.startswith("HDP")
                and (found := results.values(column, data=data, K=K, peer=peer))
            }
            ours = {peer: x for peer, x in means.items() if peer.startswith("gapmf")}
            others = {peer: x for peer, x in means.items() if peer not in ours}
            if not ours or not others:
                continue
            n += 1
            own, best = (max(x, key=x.__getitem__) for x in (ours, others))
            if number(ours[own], 3) == number(others[best], 3):
                tied.append(f"{title(data, K)} ({best}, {number(others[best], 3)})")
            elif others[best] > ours[own]:
                pair = f"{number(others[best], 3)} against {number(ours[own], 3)} of {own}"
                lost.append(f"{title(data, K)} ({best}, {pair})")
        if n:
            said = f" Others are better for {listed(lost)}." if lost else ""
            said += f" Ties at three digits: {listed(tied)}." if tied else ""
            parts.append(
                f"gapmf, in the better one of its forms, has the best {name} alone in {n - len(lost) - len(tied)} of {n} "
                f"cases.{said}"
            )
    return parts


def speed(results: Results) -> list[str]:
    """Say how long gapmf takes to be as good as the best other package, a whole fit, and inference."""
    parts = _races(results), _whole_fits(results), _inference(results), _equal_quality(results)
    return [part for part in parts if part]


def _races(results: Results) -> str:
    races = quality.races(results)
    if not races:
        return ""
    never = [title(r["data"], r["K"]) for r in races if r["ours"] is None]
    faster, slower, alike = [], [], []
    for r in races:
        if r["ours"] is not None:
            ratio = r["seconds"] / r["ours"]
            if 1 / NEAR <= ratio <= NEAR:
                alike.append(title(r["data"], r["K"]))
            elif ratio > 1:
                faster.append(f"{title(r['data'], r['K'])} ({number(ratio, 2)} times)")
            else:
                slower.append(f"{title(r['data'], r['K'])} ({number(1 / ratio, 2)} times)")
    said = [
        f"**Time to quality** (seed 0). gapmf for prediction comes within 0.5 % of the best other package in "
        f"{len(races) - len(never)} of {len(races)} cases."
    ]
    if never:
        said.append(f"Never for {listed(never)}.")
    if slower:
        said.append(f"It is slower than the fastest package that gets there for {listed(slower)}.")
    if alike:
        said.append(f"It takes about as long as that for {listed(alike)}.")
    if faster:
        said.append(
            f"It is faster than the fastest other package that gets there for {listed(faster)}."
        )
    said.append(
        "These ratios are known to a factor of two. The goal is the best package's own final value, so that package needs "
        "nearly its whole fit by construction."
    )
    return " ".join(said)


def why_not_faster(results: Results) -> str:
    """Say why gapmf is not five times as fast to the best package's quality, where it is not."""
    early, late, rest = [], [], []
    for r in quality.races(results):
        if r["ours"] is None or r["seconds"] >= GOAL * r["ours"]:
            continue
        row = results.rows(data=r["data"], K=r["K"], peer=OURS, seed=0)[0]
        if r["ours"] <= FIRST_LOOKS:
            early.append(title(r["data"], r["K"]))
        elif r["ours"] >= 0.5 * row["cpu"]:
            late.append(title(r["data"], r["K"]))
        else:
            rest.append(title(r["data"], r["K"]))
    said = [f"Where gapmf is not {GOAL:g} times as fast, there are these reasons."]
    if early:
        said.append(
            f"For {listed(early)} it is there at one of its first two looks, which come after ¼ and ½ s: a larger ratio "
            "could not be seen."
        )
    if late:
        said.append(
            f"For {listed(late)} it is there only in the second half of its fit. That half draws components around the mode that "
            "the first half found; the mode itself predicts worse, and is not good enough here."
        )
    if rest:
        said.append(
            f"For {listed(rest)} the other package is itself within 0.5 % of its end early in its fit."
        )
    return " ".join(said) if early or late or rest else ""


def _by_size(ratios: dict[str, tuple[float, str]]) -> str:
    """Say where a ratio is above, near and below one."""
    more, alike, less = [], [], []
    for setting, (ratio, peer) in ratios.items():
        text = f"{setting} ({number(ratio, 2)} times that of {peer})"
        (more if ratio > NEAR else less if ratio < 1 / NEAR else alike).append(text)
    said = [
        f"It takes {words} for {listed(some)}."
        for words, some in (("more", more), ("about as much", alike), ("less", less))
        if some
    ]
    return " ".join(said)


def _whole_fits(results: Results) -> str:
    ratios = {}
    for data, K in results.fair_settings():
        best = results.best_peer(data, K)
        ours = results.values("cpu", data=data, K=K, peer=OURS)
        if best and ours:
            theirs = mean(results.values("cpu", data=data, K=K, peer=best[0]))
            ratios[title(data, K)] = mean(ours) / theirs, best[0]
    if not ratios:
        return ""
    return f"**CPU time of a whole fit**, beside that of the best other package. {_by_size(ratios)}"


def _inference(results: Results) -> str:
    ratios = {}
    for data, K in results.fair_settings():
        ours = results.values("infer_cpu", data=data, K=K, peer=OURS)
        others = {
            peer: mean(found)
            for peer in results.others
            if (found := results.values("infer_cpu", data=data, K=K, peer=peer))
        }
        if ours and others:
            best = min(others, key=others.__getitem__)
            ratios[title(data, K)] = mean(ours) / others[best], best
    if not ratios:
        return ""
    return (
        "**New samples.** The CPU time of inference beside that of the fastest other package, whatever its quality. "
        + _by_size(ratios)
    )


def _equal_quality(results: Results) -> str:
    found = cost_tables.equal_quality(results)
    if not found:
        return ""
    slower = {
        title(x["data"], x["K"]): (x["ours"][1] / x["theirs"], "tomotopy")
        for x in found
        if x["ours"] and x["ours"][1] > x["theirs"]
    }
    never = [title(x["data"], x["K"]) for x in found if x["ours"] is None]
    n = len(found) - len(slower) - len(never)
    return " ".join(
        [
            f"**New samples, at equal quality.** With the coarsest `precision` at which its perplexity is not above tomotopy's, "
            f"inference takes no longer than tomotopy's in {n} of {len(found)} cases.",
            *([_by_size(slower)] if slower else []),
            *([f"It is not as good with any precision for {listed(never)}."] if never else []),
        ]
    )


def ranks(results: Results) -> str:
    """Say how often each recipe was right, over all cases."""
    totals = []
    for recipe, cases in rank_counts(results).items():
        named = [(rank, K) for (_, K), found in cases.items() for rank in found]
        right = sum(rank == K for rank, K in named)
        totals.append((right / len(named), f"{recipe} {right} of {len(named)}"))
    totals.sort(key=lambda x: -x[0])
    return f"Over all of them, the true number was named by {listed([text for _, text in totals])}."


def cost(results: Results) -> str:
    """Say how the cost of a fit to NIPS compares with the cheapest and the best other package."""
    parts = []
    for data, K in results.settings():
        best = results.best_peer(data, K)
        ours = results.values("cpu", data=data, K=K, peer=OURS)
        if data != "nips" or not ours or not best:
            continue
        theirs = mean(results.values("cpu", data=data, K=K, peer=best[0]))
        parts.append(
            f"{number(mean(ours))} CPU s at K = {K} ({best[0]}, the best other package there: {number(theirs)})"
        )
    return f"A whole fit for prediction takes {'; '.join(parts)}." if parts else ""
