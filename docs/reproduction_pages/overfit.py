"""The section of overfit."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from reproduction_pages.words import (
    between,
    count,
    data_sets,
    head,
    listed,
    minus,
    number,
    rows,
    section,
    table,
)

METHODS = {"mcem-c": "MCEM-C", "vbem": "VBEM", "mjle": "MJLE", "kl-nmf": "KL-NMF"}
MARGINAL = ("mcem-c", "vbem")
USED = 0.001  # the share above which a column is in use
LARGE = 0.01  # the share above which a column is a component of its own
SMOOTHING = 0.001  # of the components that are scored
ALL = 0.9  # of the components fitted: with so many effective columns nothing is pruned


def overfit() -> str:
    found = head("overfit")
    s, fits = found["settings"], rows("overfit")
    cells: dict[tuple, dict[str, list[dict]]] = {}
    for row in fits:
        key = row["data"], row["alpha"], row["n_samples"], row["factor"]
        cells.setdefault(key, {}).setdefault(row["method"], []).append(row)
    problems = list(dict.fromkeys(key[:3] for key in cells))
    sizes = [len(x) for key, mine in cells.items() if key[0] != "NIPS" for x in mine.values()]
    lines = [
        [
            f"{problem[0]}, α = {problem[1]:g}, N = {problem[2]:,.0f}",
            f"{next(iter(mine.values()))[0]['n_components']:.0f}",
            *(_cell(mine.get(method), max(sizes)) for method in METHODS),
        ]
        for problem in problems
        for factor in s["factors"]
        if (mine := cells.get((*problem, factor)))
    ]
    nips = any(key[0] == "NIPS" for key in cells)
    and_nips, on_nips = (", and NIPS,", f" (on NIPS {s['n_nips']})") if nips else ("", "")
    return section(
        "overfit",
        "more components than there are",
        "gapmf reproduce overfit --data NIPS_DIR -o DIR",
        "overfit",
        "**The paper** reports of earlier work (Dikmen and Févotte, 2012) that the marginal likelihood leaves K − K* "
        'columns empty, while maximum joint likelihood (MJLE) "used all K dimensions and overfit the data".',
        f"**Here** samples of a model with {s['n_true']} components ({s['n_features']} features, "
        f"{s['n_tokens']} expected tokens each){and_nips} are fitted with the true number of components"
        f"{on_nips}, twice and four times as many. The table has the effective number of "
        "columns, exp(entropy of their shares of the expected counts), and the score of a random half "
        "of the tokens of held-out samples given the other half, in nats per token: medians over "
        f"{data_sets(max(sizes))}{', or as many as are given in brackets' if min(sizes) < max(sizes) else ''}"
        f"{', and one fit to four fifths of NIPS' if nips else ''}. Given W, activations "
        f"are the posterior mean for all methods, and {SMOOTHING:g} of each component is taken from a background distribution, "
        "so that no word is impossible.",
        "MJLE has a maximum for α > 1 only. For α < 1 the joint likelihood is infinite at h = 0, and at α = 1 it grows for ever "
        "as W grows and H shrinks. There the scale is held, at the prior's mean of h, and MJLE is KL-NMF by another program. "
        f"MCEM-C is fitted by the default schedule: these are not exact maxima.{shared_dictionaries(fits)}",
        "The picture shows each score minus MCEM-C's at the smallest K, on the same data set. Lines are medians, in bands from "
        "the smallest to the largest value. On the grey diagonal all columns are alike.",
        table(["data", "K", *METHODS.values()], lines),
        *on_known_truth([row for row in fits if row["data"] == "simulated"], s),
        _nips(fits),
        "Files: `overfit.csv` also has the likelihood of held-out samples, `overfit-shares.csv` the share of every column.",
    )


def shared_dictionaries(fits: list[dict]) -> str:
    """Return how many dictionaries the data sets have: those that differ in α only have the same."""
    sets = {_data_set(row) for row in fits if row["data"] == "simulated"}
    dictionaries = {key[1:] for key in sets}
    if len(dictionaries) == len(sets):
        return ""
    return (
        f" The {len(sets)} data sets of known truth have {len(dictionaries)} dictionaries: those that differ in α only share "
        "theirs."
    )


def on_known_truth(known: list[dict], s: dict) -> list[str]:
    """Return what many components do where their true number is known, in paragraphs."""
    top, n_true = max(row["factor"] for row in known), s["n_true"]
    many = {m: [r for r in known if (r["method"], r["factor"]) == (m, top)] for m in METHODS}
    joint = []
    for m in ("mjle", "kl-nmf"):
        if many[m]:
            cost = list(losses(known, m, top).values())
            verdict = ": it overfits, as reported" if m == "mjle" and min(cost) > 0 else ""
            joint.append(
                f"{METHODS[m]} (α = {alphas_of(many[m])}) uses {between([r['columns_used'] for r in many[m]], 2)} columns and "
                f"{loses(cost)}{verdict}."
            )
    large = large_columns(top)
    lines = []
    for m in MARGINAL:
        cost = losses(known, m, top)
        for alpha in s["alphas"]:
            mine = [row for row in many[m] if row["alpha"] == alpha]
            if mine:
                kept = [len(large[m, *_data_set(row)]) for row in mine]
                lines.append(
                    [
                        METHODS[m],
                        f"{alpha:g}",
                        between([row["columns_used"] for row in mine], 2),
                        between(kept, 2),
                        between([row["effective_columns"] for row in mine], 2),
                        count(sum(row["columns_used"] <= n_true for row in mine), len(mine)),
                        count(sum(n < n_true for n in kept), len(mine)),
                        between([cost[_data_set(row)] for row in mine], 2),
                    ]
                )
    columns = ["", "α", "used", f"above {100 * LARGE:g} %", "effective", f"at most {n_true} used"]
    columns += [f"fewer than {n_true} above {100 * LARGE:g} %", "loss"]
    return [
        f"The following compares {top * n_true:.0f} components with the true number, {n_true}. A column is used if its share is "
        f"above {100 * USED:g} %. Losses are those of held-out samples, in nats per token. "
        + " ".join(joint),
        "For the marginal likelihood and the variational bound, the table has columns used, columns above 1 %, effective columns, "
        "the fits in which spare columns are all empty, those in which components are missing, and losses (negative for gains):",
        table(columns, lines),
        " ".join([*empty(many, n_true), *merged(known, large, n_true, top), *sizes_of(many, s)]),
    ]


def large_columns(top: float) -> dict[tuple, list[float]]:
    """Return the large shares of each fit with `top` times the true number of components, by method and data set."""
    found: dict[tuple, list[float]] = {}
    for row in rows("overfit-shares"):
        if row["data"] == "simulated" and row["factor"] == top:
            mine = found.setdefault((row["method"], *_data_set(row)), [])
            if row["share"] > LARGE:
                mine.append(row["share"])
    return found


def empty(many: dict[str, list[dict]], n_true: int) -> list[str]:
    """Return in how many fits spare columns are all empty."""
    said = []
    for m in MARGINAL:
        none = [row for row in many[m] if row["columns_used"] <= n_true]
        where = f" (α = {alphas_of(none)})" if none else ""
        said.append(f"{METHODS[m]} in {count(len(none), len(many[m]))} fits{where}")
    return [f"Spare columns are all empty with {listed(said)}."]


def merged(
    known: list[dict], large: dict[tuple, list[float]], n_true: int, top: float
) -> list[str]:
    """Return in how many fits there are too few large columns, an example, and what this costs."""
    said = []
    for m in MARGINAL:
        cost = losses(known, m, top)
        few = [key for key in cost if len(large[m, *key]) < n_true]
        if not few:
            said.append(f"With {METHODS[m]} this is so in none of {len(cost)} fits.")
            continue
        alphas = sorted({key[0] for key in few})
        fits = sum(key[0] in alphas for key in cost)
        worst = max(few, key=cost.__getitem__)
        shares = listed([f"{100 * x:.1f}" for x in sorted(large[m, *worst], reverse=True)])
        said.append(
            f"With {METHODS[m]} this is so in {count(len(few), fits)} fits with α = "
            f"{listed([f'{alpha:g}' for alpha in alphas])} (shares such as {shares} %). These fits "
            f"{loses([cost[key] for key in few]).replace('loses', 'lose', 1)}."
        )
    return [
        f"Where fewer than {n_true} are above {100 * LARGE:g} %, true components have merged or are lost.",
        *said,
    ]


def sizes_of(many: dict[str, list[dict]], s: dict) -> list[str]:
    """Return the effective number of columns by the number of samples."""
    said = []
    for m in MARGINAL:
        by_size = [
            (n, [row["effective_columns"] for row in many[m] if row["n_samples"] == n])
            for n in s["n_samples"]
        ]
        medians = [f"{median(x):.1f} with N = {n:,}" for n, x in by_size if x]
        said.append(f"{listed(medians)} ({METHODS[m]})")
    return [f"The effective number of columns is in the median {'; '.join(said)} (see `spare`)."]


def alphas_of(fits: list[dict]) -> str:
    """Return the values of α of some fits."""
    return listed([f"{alpha:g}" for alpha in sorted({row["alpha"] for row in fits})])


def loses(losses: list[float]) -> str:
    """Return in words what more components cost."""
    return f"loses {between(losses, 2)}" if min(losses) > 0 else at_most(losses)


def at_most(losses: list[float]) -> str:
    """Return the largest loss in words."""
    return f"loses at most {number(max(losses), 2)}" if max(losses) > 0 else "loses nothing"


def _cell(fits: list[dict] | None, n_sets: int) -> str:
    if fits is None:
        return "–"
    columns, score = (median(r[key] for r in fits) for key in ("effective_columns", "completion"))
    fewer = f" ({len(fits)})" if len(fits) < n_sets and fits[0]["data"] != "NIPS" else ""
    return minus(f"{columns:.1f}; {score:.3f}{fewer}")


def losses(known: list[dict], method: str, top: float) -> dict[tuple, float]:
    """Return what `top` times the true number of components costs, by data set."""
    at = {}
    for row in known:
        if row["method"] == method:
            at[*_data_set(row), row["factor"]] = row["completion"]
    return {
        tuple(key): at[*key, 1] - x
        for (*key, factor), x in at.items()
        if factor == top and (*key, 1) in at
    }


def _data_set(row: dict) -> tuple[float, float, float]:
    return row["alpha"], row["n_samples"], row["data_seed"]


def _nips(fits: list[dict]) -> str:
    """Return what more components do on NIPS, whose number is not known."""
    by = {
        m: sorted(
            (row for row in fits if (row["data"], row["method"]) == ("NIPS", m)),
            key=lambda row: row["n_components"],
        )
        for m in METHODS
    }
    by = {m: mine for m, mine in by.items() if len(mine) > 1}
    if not by:
        return ""
    few, many = (f"{next(iter(by.values()))[i]['n_components']:.0f}" for i in (0, -1))
    changes = [
        f"{number(mine[-1]['completion'] - mine[0]['completion'], 2)} ({METHODS[m]})"
        for m, mine in by.items()
    ]
    effective = [f"{mine[-1]['effective_columns']:.0f}" for mine in by.values()]
    text = (
        f"On NIPS, from {few} to {many} components scores change by {listed(changes)} nats per token. The effective number of "
        f"columns is then {listed(effective)}."
    )
    over = [
        METHODS[m]
        for m, mine in by.items()
        if any(b["completion"] < a["completion"] for a, b in pairwise(mine))
    ]
    pruned = [
        METHODS[m]
        for m, mine in by.items()
        if mine[-1]["effective_columns"] < ALL * mine[-1]["n_components"]
    ]
    if not over and not pruned:
        text += f" So no method overfits up to {many} components, and none prunes."
    else:
        text += f" Scores fall with {listed(over) if over else 'no method'}; {listed(pruned) if pruned else 'none'} prunes."
    text += " Each is one fit from one start."
    same, other = (apart(by, *pair) for pair in (("mjle", "kl-nmf"), MARGINAL))
    if same and other and all(row["alpha"] == 1 for row in by["mjle"]):
        text += (
            f" MJLE and KL-NMF have the same objective here, and differ by up to {number(max(same), 2)} nats per token at the "
            f"same K; MCEM-C and VBEM differ by up to {number(max(other), 2)}."
        )
        if max(other) <= max(same):
            text += " So differences of this size cannot be ranked."
    return text


def apart(by: dict[str, list[dict]], a: str, b: str) -> list[float]:
    """Return by how much the scores of two methods differ, for each number of components."""
    theirs = {row["n_components"]: row["completion"] for row in by.get(b, [])}
    return [
        abs(row["completion"] - theirs[row["n_components"]])
        for row in by.get(a, [])
        if row["n_components"] in theirs
    ]
