"""The sections of fig1, fig2, fig3a and fig3b."""

from __future__ import annotations

from statistics import median

from reproduction_pages.words import (
    NAMES,
    OTHERS,
    data_sets,
    extremes,
    head,
    listed,
    middle_of,
    number,
    paired,
    percent,
    rows,
    section,
    several,
    spread,
    table,
    times,
)

SURE = 0.05  # a p-value below this counts
CONVERGED = 0.1  # nats above the exact minimum: runs of fig1 below this have converged
SEEDS = ("data_seed", "chain_seed")


def _converged(runs: list[dict[str, str]]) -> str:
    """Say which runs have come to the minimum."""
    excess = [(NAMES[run["algorithm"]], float(run["excess_of_last_mean"])) for run in runs]
    near = [value for _, value in excess if value < CONVERGED]
    late = [(name, value) for name, value in excess if value >= CONVERGED]
    begin = "All" if not late else f"{len(near)} of {len(excess)}"
    text = (
        f"{begin} runs have converged: their mean iterate costs at most {number(max(near), 2)} nats more "
        "than the exact minimum (★)."
    )
    if late:
        where = ", ".join(f"{number(value, 2)} nats ({name})" for name, value in sorted(late))
        text += f" After 500 iterations the others are still above it by {where}."
    return text


def fig1() -> str:
    found = head("fig1")
    f, s = found["findings"], found["settings"]
    measured = ("distance_from_the_line", "spread_along_the_line", "excess_of_last_mean")
    lines = [[NAMES[a], *(extremes(f[name][a]) for name in measured)] for a in NAMES]
    n_sets = len({row["data_seed"] for row in rows("fig1-runs")})
    return section(
        "fig1",
        "one feature, two components",
        "gapmf reproduce fig1 -o DIR",
        "iterates on the exact cost",
        "**The paper** draws C_ML for N = 300 samples and α = β = 1, and on it the last "
        "80 of 500 iterates of the three algorithms. Those of MCEM-C satisfy "
        "w₁ + w₂ = v̄ (its Eq. 49). It gives neither W* nor the number of draws in this example.",
        f"**Here** W* = ({s['truth'][0]:g}, {s['truth'][1]:g}), and an iteration has {s['n_draws']} draws "
        f"after {s['n_burn_in']} sweeps of burn-in, as in the paper's other synthetic examples. The "
        f"figure shows the first data set; the numbers are from {data_sets(n_sets)}. MCEM-C is on the "
        f"line up to rounding, and the others move around it. {_converged(rows('fig1-runs'))} (There are two "
        "minima, one with the columns exchanged; all iterates are drawn at one of them.)",
        "Largest |w₁ + w₂ − v̄|; standard deviation of the iterates along the line, where the cost is "
        "flat; cost of the mean iterate above the minimum, in nats"
        f"{': minimum · quartiles · maximum over ' + data_sets(n_sets) if n_sets > 1 else ''}:",
        table(["", "off the line", "spread along the line", "excess cost"], lines),
    )


def compare(f: dict) -> str:
    """Return the table that compares the algorithms over seeds."""
    lines = []
    for a, label in NAMES.items():
        x = f[a]
        relative = ["1", "1", ""]
        if a != "mcem-c":
            relative = [
                spread(x["iterations_relative_to_mcem_c"]),
                spread(x["cpu_seconds_relative_to_mcem_c"]),
                number(x["p_of_no_difference"], 2) if x["runs"] > 5 else "–",
            ]
        lines.append([label, spread(x["iterations_until_near"]), *relative])
        lines[-1] += [x["never_near"], spread(x["excess_at_the_end"], 2)]
    columns = ["", "iterations", "ratio to MCEM-C's", "ratio of CPU times", "p", "never near"]
    return table([*columns, "excess at the end"], lines)


def explain(name: str) -> str:
    """Return what the columns of the comparison are."""
    return (
        "Iterations until the cost is within half a nat of the exact minimum for the first time "
        f"({looks(name)}), their ratios and those of CPU times on the "
        "same data, the two-sided p-value of Wilcoxon's signed-rank test that there is no difference to "
        "MCEM-C, the number of runs that never came so near (they count as infinitely slow), and the "
        "mean excess cost of the last tenth of the iterations, in nats"
    )


def looks(name: str) -> str:
    """Return how many iterates were looked at."""
    n_looks = len({row["iteration"] for row in rows(name)})
    return f"{n_looks} of the {head(name)['settings']['n_iter']:,} iterates were looked at"


def over(f: dict, what: str = "data set") -> str:
    """Return over what medians and quartiles are taken."""
    n = f["mcem-c"]["runs"]
    return "" if n == 1 else f". Medians and quartiles over {several(n, what)}"


def fig2() -> str:
    found = head("fig2")
    f, s = found["findings"], found["settings"]
    sets, chains = f["over_data_sets"], f["over_chains"]
    n_chains = chains["mcem-c"]["runs"]
    whole = "cpu_seconds_of_all_iterations_relative_to_mcem_c"
    worst = max(sets[a]["excess_at_the_end"][-1] for a in NAMES)
    descent = f["cost_of_the_start"] - f["smallest_cost"]
    text = (
        f"**Here** {s['n_iter']} iterations of MCEM-C take {number(sets['mcem-c']['cpu_seconds'][2], 2)} s of CPU "
        f"time in the median, those of MCEM-H {spread(sets['mcem-h'][whole], 2)} times as much and those of "
        f"MCEM-CH {spread(sets['mcem-ch'][whole], 2)} times. All runs end at the same cost: the last tenth of "
        f"their iterates is within {number(worst, 2)} nats of the exact minimum on average, which the paper "
        f"did not have. {verdict(sets)} {quietest(sets)}"
    )
    parts = [text, f"{explain('fig2')}{over(sets)}:", compare(sets)]
    if n_chains > 1:
        spans = [chains[a]["iterations_until_near"] for a in NAMES]
        slowest = max(x[-1] / x[0] for x in spans if x[-1] is not None)
        parts += [
            "A single run shows nothing of this. The whole descent on the first data set is "
            f"{descent:.1f} nats, since the starting point, in which all columns are equal, is nearly as "
            "good a model of these data as any; and chains of the same algorithm on it differ by a factor of "
            f"up to {number(slowest, 2)}. The same over {several(n_chains, 'chain')} on the first data set:",
            compare(chains),
        ]
    return section(
        "fig2",
        "the cost of V₁",
        "gapmf reproduce fig2 -o DIR",
        "cost of V1",
        "**The paper** fits N = 100 samples of W₁* with K = 3 and α = β = 1, by 500 iterations of 150 draws after a "
        "burn-in of 150. The three "
        'algorithms "have almost identical computation times" and "converge to the same point, with '
        'MCEM-C converging marginally faster than the other two in this case".',
        *parts,
    )


def verdict(sets: dict) -> str:
    """Return whether MCEM-C is faster on V₁."""
    n = sets["mcem-c"]["runs"]
    slower = [
        a
        for a in OTHERS
        if sets[a]["p_of_no_difference"] < SURE
        and above_one(sets[a]["iterations_relative_to_mcem_c"])
    ]
    numbers = listed(
        [
            f"{NAMES[a]} needs {once(sets[a]['iterations_relative_to_mcem_c'])} as many iterations "
            f"(p = {number(sets[a]['p_of_no_difference'], 2)})"
            for a in reversed(OTHERS)
        ]
    )
    if len(slower) == 2:
        return f"MCEM-C is marginally faster indeed: in the median over {data_sets(n)}, {numbers}."
    if slower:
        return (
            f"MCEM-C is marginally faster than {NAMES[slower[0]]}; for the other one {data_sets(n)} do not "
            f"tell: in the median, {numbers}."
        )
    return f"That MCEM-C is faster is not seen in {data_sets(n)}: in the median, {numbers}."


def once(quartiles: list) -> str:
    """Return the median of a ratio in words."""
    return times([quartiles[2]] * 5, 3)


def above_one(quartiles: list) -> bool:
    """Return whether the median of a ratio exceeds one."""
    return quartiles[2] is None or quartiles[2] > 1.0


def quietest(sets: dict) -> str:
    """Return what Monte Carlo noise costs at the end, if MCEM-H has less of it."""
    end = {a: sets[a]["excess_at_the_end"][2] for a in NAMES}
    if end["mcem-h"] > 0.7 * min(end["mcem-c"], end["mcem-ch"]):
        return ""
    return (
        "What is left is noise, and MCEM-H has least of it: its M-step needs draws of H only, and so "
        f"averages over C. It ends {number(end['mcem-h'], 2)} nats above the minimum, MCEM-C "
        f"{number(end['mcem-c'], 2)} and MCEM-CH {number(end['mcem-ch'], 2)}."
    )


def fig3a() -> str:
    f = head("fig3a")["findings"]
    runs = rows("fig3a-runs")
    norms = [key for key in runs[0] if key.startswith("norm_")]
    off = {a: [] for a in NAMES}
    for row in runs:
        total = sum(row[f"exact_{key}"] for key in norms)
        off[row["algorithm"]].append(
            max(abs(row[key] - row[f"exact_{key}"]) for key in norms) / total
        )
    sets = {row["data_seed"]: row for row in runs}.values()
    third = [row[f"exact_{norms[-1]}"] / sum(row[f"exact_{key}"] for key in norms) for row in sets]
    return section(
        "fig3a",
        "column norms, V₁",
        "gapmf reproduce fig3a -o DIR",
        "norms, V1",
        "**The paper** shows the norms of the K = 3 columns, of which the truth has two, in the same runs.",
        "**Here** all three algorithms find the norms of the exact minimum; on the first data set these "
        f"are {', '.join(number(x) for x in f['norms_of_smallest_cost'])} (dashed). The means over the last tenth "
        "of the iterations differ from them by "
        + listed([f"{percent(median(off[a]))} of their sum ({NAMES[a]})" for a in NAMES])
        + f" in the median over {several(len(off['mcem-c']), 'run')} of each, and by at most "
        f"{percent(max(max(x) for x in off.values()))}: the cost hardly depends on them. The third column is no "
        f"artefact of Monte Carlo. At the exact minimum it has {percent(min(third))} to {percent(max(third))} of "
        "the sum, but adds almost nothing to the likelihood (see `spare`).",
    )


def fig3b() -> str:
    found = head("fig3b")
    sets = found["findings"]["over_data_sets"]
    runs = rows("fig3b-runs")
    small = {a: middle_of(runs, "norm_3", a) for a in NAMES}
    exact = middle_of(runs, "exact_norm_3", "mcem-c")
    gap = {a: median(paired(runs, SEEDS, "excess_at_the_end", a, "mcem-c")) for a in OTHERS}
    ratio = {a: sets[a]["iterations_relative_to_mcem_c"] for a in OTHERS}
    speed = (
        f"To within half a nat of the exact minimum, MCEM-CH takes {times(ratio['mcem-ch'])} as many "
        f"iterations as MCEM-C, and MCEM-H {times(ratio['mcem-h'])}."
    )
    return section(
        "fig3b",
        "V₂, a hundred times larger, and its likelihood",
        "gapmf reproduce fig3b -o DIR",
        "norms and cost, V2",
        '**The paper** runs 2,000 iterations on samples of W₂* = 100 W₁*. "MCEM-C clearly outperforms the '
        'other two algorithms in this scenario", by the norms: "it is impossible to compute the '
        'likelihood in reasonable time".',
        "**Here** the norms look as described, and the right panel shows the exact likelihood, of "
        f"{data_sets(sets['mcem-c']['runs'])}. {speed} So the paper is right about speed. But the norms "
        f"exaggerate the distance that remains. In the last tenth of the iterations the smallest norm of "
        f"MCEM-H is {number(small['mcem-h'], 2)} in the median and that of MCEM-CH "
        f"{number(small['mcem-ch'], 2)}, where MCEM-C has {number(small['mcem-c'], 2)} and the exact minimum "
        f"{number(exact, 2)}. This costs MCEM-H {number(gap['mcem-h'], 2)} nats more than MCEM-C, and MCEM-CH "
        f"{number(gap['mcem-ch'], 2)}, of a cost of {number(found['findings']['smallest_cost'], 4)}.",
        f"The columns are those of the table of `fig2` ({looks('fig3b')}){over(sets)}:",
        compare(sets),
    )
