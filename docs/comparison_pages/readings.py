"""Short readings of the tables, in words, made from the same numbers."""

from __future__ import annotations

from statistics import mean

from reproduction_pages.words import listed, number, percent

from comparison_pages.quality import rank_counts
from comparison_pages.results import OURS, Results, title

HIGHER = {"npmi": "coherence", "cosine": "recovery of the true components"}


def common(results: Results) -> str:
    """Say who has the better components when the inference is the same."""
    lost, n = [], 0
    for data, K in results.settings():
        ours = results.values("perplexity_common", data=data, K=K, peer=OURS)
        others = {
            peer: mean(found)
            for peer in results.others
            if (found := results.values("perplexity_common", data=data, K=K, peer=peer))
        }
        if not ours or not others:
            continue
        n += 1
        best = min(others, key=others.__getitem__)
        if others[best] < mean(ours):
            gain = percent(1.0 - others[best] / mean(ours))
            lost.append(f"{title(data, K)} ({best}, by {gain})")
    said = f" Not for {listed(lost)}." if lost else ""
    return f"So judged, gapmf's components predict best in {n - len(lost)} of {n} settings.{said}"


def higher(results: Results) -> list[str]:
    """Say who is best by measures of which higher is better, and where gapmf is not."""
    parts = []
    for column, name in HIGHER.items():
        lost, n = [], 0
        for data, K in results.settings():
            means = {
                peer: mean(found)
                for peer in results.peers
                if not peer.startswith("HDP")
                and (found := results.values(column, data=data, K=K, peer=peer))
            }
            if OURS not in means or len(means) < 2:
                continue
            n += 1
            best = max(means, key=means.__getitem__)
            if not best.startswith("gapmf"):
                pair = f"{number(means[best], 3)} against {number(means[OURS], 3)}"
                lost.append(f"{title(data, K)} ({best}, {pair})")
        if n:
            said = f" Others are better for {listed(lost)}." if lost else ""
            parts.append(
                f"gapmf, in one of its forms, has the best {name} in {n - len(lost)} of {n} settings.{said}"
            )
    return parts


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
