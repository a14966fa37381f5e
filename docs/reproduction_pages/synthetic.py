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
    number,
    ordinal,
    paired,
    percent,
    rows,
    section,
    several,
    spread,
    table,
)

SURE = 0.05  # a p-value below this counts
NEAR = 0.5  # nats above the exact minimum: an algorithm counts as converged there
FOUND = 0.05  # norms that differ by less, as a share of their sum, have been found
CONVERGED = 0.1  # nats above the exact minimum: runs of fig1 below this have converged
SEEDS = ("data_seed", "chain_seed")


def _converged(runs: list[dict], n_iter: int, n_last: int) -> str:
    """Say which runs have come to the minimum."""
    excess = [(NAMES[run["algorithm"]], float(run["excess_of_last_mean"])) for run in runs]
    near = [value for _, value in excess if value < CONVERGED]
    late = sorted((name, value) for name, value in excess if value >= CONVERGED)
    if not near:
        return f"No run has converged after {n_iter} iterations."
    begin = "All" if not late else f"{len(near)} of {len(excess)}"
    text = (
        f"{begin} runs have converged: the mean of their last {n_last} iterates costs at most {number(max(near), 2)} nats "
        "more than the exact minimum (★)."
    )
    if not late:
        return text
    names = list(dict.fromkeys(name for name, _ in late))
    of_one = len(names) == 1
    parts = [number(value, 2) if of_one else f"{number(value, 2)} ({name})" for name, value in late]
    who = {1: "The other one", 2: "The two others"}.get(len(late), f"The {len(late)} others")
    whose = {1: "of", 2: "both of"}.get(len(late), "all of")
    return (
        f"{text} {who}{f', {whose} {names[0]},' if of_one else ''} {'is' if len(late) == 1 else 'are'} {listed(parts)} nats "
        f"above it after {n_iter} iterations."
    )


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
        f"line up to rounding, and the others move around it. {_converged(rows('fig1-runs'), s['n_iter'], s['n_last'])} (There are two "
        "minima, one with the columns exchanged; all iterates are drawn at one of them.)",
        "Largest |w₁ + w₂ − v̄|; standard deviation of the iterates along the line, where the cost is "
        f"flat; cost of the mean of the last {s['n_last']} iterates above the minimum, in nats"
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
        "MCEM-C (equal pairs are dropped; not corrected for two tests), the number of runs that never came so near (they "
        "count as infinitely slow, and pairs in which neither came near have no ratio), and the mean excess cost of the "
        "last tenth of the iterations, in nats"
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
    worst = max(which[a]["excess_at_the_end"][-1] for a in NAMES for which in (sets, chains))
    descent = f["cost_of_the_start"] - f["smallest_cost"]
    cost = "All runs end at the same cost" if worst < NEAR else "Not all runs end at the same cost"
    text = (
        f"**Here** {s['n_iter']} iterations of MCEM-C take {number(sets['mcem-c']['cpu_seconds'][2], 2)} s of CPU "
        f"time in the median, those of MCEM-H {spread(sets['mcem-h'][whole], 2)} times as much and those of "
        f"MCEM-CH {spread(sets['mcem-ch'][whole], 2)} times. {cost}: the last tenth of "
        f"their iterates is within {number(worst, 2)} nats of the exact minimum on average, which the paper "
        f"did not have. {verdict(sets)} {quietest(sets)}"
    )
    parts = [text, f"{explain('fig2')}{over(sets)}:", compare(sets)]
    if n_chains > 1:
        parts += [
            f"The whole descent on the first data set is {descent:.1f} nats, since the starting point, in which all columns "
            f"are equal, is nearly as good a model of these data as any. {one_data_set(sets, chains)} The same "
            "table over these chains:",
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


def one_data_set(sets: dict, chains: dict) -> str:
    """Return what one run, and many chains, on the first data set say about speed."""
    spans = [chains[a]["iterations_until_near"] for a in NAMES]
    factor = max((x[-1] / x[0] for x in spans if x[-1] is not None), default=1.0)
    effects = [sets[a]["iterations_relative_to_mcem_c"][2] for a in OTHERS]
    hidden = None not in effects and factor > max(effects)
    p = {a: chains[a]["p_of_no_difference"] for a in OTHERS}
    shown = listed([f"p = {number(p[a], 2)} for {NAMES[a]}" for a in OTHERS])
    some = several(chains["mcem-c"]["runs"], "chain")
    return (
        f"{'A single run cannot show who is faster' if hidden else 'Single runs differ'}: chains of the same algorithm on "
        f"these data differ by a factor of up to {number(factor, 2)}. "
        + (
            f"Nor do {some} on them show a difference ({shown})."
            if hidden and min(p.values()) >= SURE
            else f"Over {some} on them, {shown}."
        )
    )


def once(quartiles: list) -> str:
    """Return the median of a ratio in words; None stands for runs that never came near."""
    return "infinitely many times" if quartiles[2] is None else f"{number(quartiles[2])} times"


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
    runs = of_data_sets(rows("fig3a-runs"))
    norms = [key for key in runs[0] if key.startswith("norm_")]
    off = {a: [] for a in NAMES}
    for row in runs:
        total = sum(row[f"exact_{key}"] for key in norms)
        off[row["algorithm"]].append(
            max(abs(row[key] - row[f"exact_{key}"]) for key in norms) / total
        )
    sets = {row["data_seed"]: row for row in runs}.values()
    third = [row[f"exact_{norms[-1]}"] / sum(row[f"exact_{key}"] for key in norms) for row in sets]
    worst = max(max(x) for x in off.values())
    return section(
        "fig3a",
        "column norms, V₁",
        "gapmf reproduce fig3a -o DIR",
        "norms, V1",
        "**The paper** shows the norms of the K = 3 columns, of which the truth has two, in the same runs.",
        f"**Here** {'all three algorithms find' if worst < FOUND else 'not all runs find'} the norms of the exact minimum. On "
        f"the first data set these are {', '.join(number(x) for x in f['norms_of_smallest_cost'])} (dashed). The means over "
        "the last tenth of the iterations differ from them by "
        + listed([f"{percent(median(off[a]))} of their sum ({NAMES[a]})" for a in NAMES])
        + f" in the median over {data_sets(len(sets))}, and by at most {percent(worst)}. The third column is no artefact of "
        f"Monte Carlo: at the exact minimum it has {percent(min(third))} to {percent(max(third))} of the sum. But such a "
        f"column adds only {number(worth_of_a_third(), 2)} nats to the log-likelihood in the median (see `spare`).",
    )


def of_data_sets(runs: list[dict]) -> list[dict]:
    """Return the runs of one chain per data set."""
    first = {(row["algorithm"], row["data_seed"]): row for row in reversed(runs)}
    return [row for row in runs if row is first[row["algorithm"], row["data_seed"]]]


def worth_of_a_third() -> float:
    """Return the median gain in nats of a third column on data such as V₁."""
    v1 = {"scale": 1.0, "n_samples": 100, "alpha": 1.0, "n_spare": 1}
    cells = head("spare")["findings"]["cells"]
    return next(c["gain"][2] for c in cells if {key: c[key] for key in v1} == v1)


def fig3b() -> str:
    found = head("fig3b")
    f = found["findings"]
    sets = f["over_data_sets"]
    runs = of_data_sets(rows("fig3b-runs"))
    n_sets = sets["mcem-c"]["runs"]
    return section(
        "fig3b",
        "V₂, a hundred times larger, and its likelihood",
        "gapmf reproduce fig3b -o DIR",
        "norms and cost, V2",
        '**The paper** runs 2,000 iterations on samples of W₂* = 100 W₁*. "MCEM-C clearly outperforms the '
        'other two algorithms in this scenario", by the norms: "it is impossible to compute the '
        'likelihood in reasonable time".',
        f"**Here** the right panel shows how far the exact cost is above its minimum ({data_sets(n_sets)}). "
        + speed(sets, runs, found["settings"]["n_iter"])
        + " "
        + smallest_norm(runs)
        + f" (The minimum of the first data set is {number(f['smallest_cost'], 4)} nats.)",
        f"The columns are those of the table of `fig2` ({looks('fig3b')}){over(sets)}:",
        compare(sets),
    )


def speed(sets: dict, runs: list[dict], n_iter: int) -> str:
    """Return how many iterations the others need on V₂, beside MCEM-C."""
    n = sets["mcem-c"]["runs"]
    said = []
    for a in reversed(OTHERS):
        least = least_ratio(runs, a, n_iter)
        if least is None:
            continue
        quartiles = sets[a]["iterations_relative_to_mcem_c"]
        m = f"more than {number(least, 2)}" if quartiles[2] is None else number(quartiles[2], 2)
        never = sets[a]["never_near"]
        remark = f" ({never} of {several(n, 'run')} never came so near)" if never else ""
        said.append(f"{NAMES[a]} takes {m} times{remark}")
    if not said:
        return "Of two runs on the same data, none came within half a nat of the minimum."
    text = f"To within half a nat of the minimum, {'in the median ' if n > 1 else ''}{listed(said)} the iterations of MCEM-C."
    if all(slower(sets[a]) for a in OTHERS):
        text += f" {'On this data set' if n == 1 else 'So'} the paper is right about speed."
    return text


def least_ratio(runs: list[dict], algorithm: str, n_iter: int) -> float | None:
    """Return what the median ratio of iterations to MCEM-C's is at least, if runs ended too early.

    A run that never came near would have needed more than `n_iter` iterations.
    """
    until: dict[str, dict] = {}
    for row in runs:
        until.setdefault(row["algorithm"], {})[row["data_seed"]] = row["iterations_until_near"]
    ratios = []
    for key, mine in until["mcem-c"].items():
        theirs = until[algorithm].get(key, "")
        if mine != "":  # an empty cell stands for never
            ratios.append((n_iter if theirs == "" else theirs) / mine)
        elif theirs != "":
            ratios.append(0.0)
    return median(ratios) if ratios else None


def slower(x: dict) -> bool:
    """Return whether an algorithm is slower than MCEM-C: in all runs, or by the test."""
    quartiles = x["iterations_relative_to_mcem_c"]
    if quartiles is None or not above_one(quartiles):
        return False
    if x["runs"] > 5:
        return x["p_of_no_difference"] < SURE
    return quartiles[0] is None or quartiles[0] > 1.0


def smallest_norm(runs: list[dict]) -> str:
    """Return how far the smallest norm on V₂ ends from the exact one, and what this costs."""
    off = {
        a: median(abs(row["norm_3"] - row["exact_norm_3"]) for row in runs if row["algorithm"] == a)
        for a in NAMES
    }
    cost = {a: paired(runs, SEEDS, "excess_at_the_end", a, "mcem-c") for a in OTHERS}
    in_the_median = " in the median" if len(cost["mcem-h"]) > 1 else ""
    far = all(off[a] > 2.0 * off["mcem-c"] for a in OTHERS)
    text = (
        f"{'The norms look as described' if far else 'The norms do not look as described'}: in the last tenth of the "
        "iterations the smallest differs from that of the exact minimum by "
        + listed([f"{number(off[a], 2)} ({NAMES[a]})" for a in NAMES])
        + f"{in_the_median}."
    )
    ends = listed([f"{NAMES[a]} ends {above(cost[a])}" for a in OTHERS])
    little = far and all(median(cost[a]) < NEAR for a in OTHERS)
    text += f" In cost, {ends}."
    if little:
        text += " So the norms exaggerate the distance that remains."
    return f"{text}{farthest(runs)}"


def farthest(runs: list[dict]) -> str:
    """Return where the smallest norm of each algorithm ends farthest from the exact one: medians hide this."""
    sets = sorted({row["data_seed"] for row in runs})
    if len(sets) == 1:
        return ""
    by: dict[float, list[str]] = {}
    for a in NAMES:
        row = max(
            (row for row in runs if row["algorithm"] == a),
            key=lambda row: abs(row["norm_3"] - row["exact_norm_3"]),
        )
        by.setdefault(row["data_seed"], []).append(
            f"{NAMES[a]} at {number(row['norm_3'], 2)} ({number(row['excess_at_the_end'], 2)} nats above the minimum)"
        )
    exact = {row["data_seed"]: number(row["exact_norm_3"], 2) for row in runs}
    said = [
        f"on the {ordinal(sets.index(seed) + 1)} data set, where the exact norm is {exact[seed]}, {listed(ends)}"
        for seed, ends in sorted(by.items())
    ]
    return f" Medians hide where it ends farthest off: {'; '.join(said)}."


def above(gaps: list[float]) -> str:
    """Return differences to the cost of MCEM-C in words."""
    middle = median(gaps)
    text = f"{number(abs(middle), 2)} nats {'above' if middle >= 0 else 'below'} MCEM-C"
    if len(gaps) == 1:
        return text
    return f"{text} in the median ({number(min(gaps), 2)} to {number(max(gaps), 2)})"
