"""Generate docs/reproduction.md and docs/spare-column.md from the results in docs/figures.

    python docs/generate_reproduction.py

Every number on these pages that belongs to one of our experiments comes from a file. A test fails
when pages and files differ; others compare what is claimed with the files.
"""

from __future__ import annotations

import csv
import json
import textwrap
from collections import Counter
from pathlib import Path

DOCS = Path(__file__).parent
NAMES = {"mcem-c": "MCEM-C", "mcem-h": "MCEM-H", "mcem-ch": "MCEM-CH"}
METHODS = {"mcem-c": "MCEM-C", "vbem": "VBEM", "mjle": "MJLE", "kl-nmf": "KL-NMF"}


def head(name: str) -> dict:
    """Return the JSON file of a figure."""
    return json.loads((DOCS / "figures" / f"{name}.json").read_text(encoding="utf-8"))


def rows(name: str) -> list[dict]:
    """Return the rows of a CSV file, with numbers where they are numbers."""
    with (DOCS / "figures" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return [{key: _value(cell) for key, cell in row.items()} for row in csv.DictReader(file)]


def _value(cell: str):
    try:
        return float(cell)
    except ValueError:
        return cell


def number(x: float | None, digits: int = 3) -> str:
    """Return a number with so many significant digits, and "never" for an infinite one."""
    if x is None:
        return "never"
    if x != 0 and abs(x) < 1e-4:
        mantissa, exponent = f"{x:.{digits - 1}e}".split("e")
        small = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"{mantissa.replace('-', '−')}·10{small}"
    text = f"{x:,.0f}" if abs(x) >= 10 ** (digits - 1) else f"{x:.{digits}g}"
    return text.replace("-", "−")


def data_sets(n: int) -> str:
    """Return how many data sets there are, in words."""
    return "one data set" if n == 1 else f"{n} data sets"


def spread(quartiles: list, digits: int = 3) -> str:
    """Return "median (lower quartile – upper quartile)", or the value if there is only one."""
    _, low, middle, high, _ = (number(x, digits) for x in quartiles)
    if quartiles[0] == quartiles[-1]:
        return middle
    return f"{middle} ({low} – {high})"


def extremes(quartiles: list, digits: int = 2) -> str:
    """Return minimum, quartiles and maximum, or the value if there is only one."""
    if quartiles[0] == quartiles[-1]:
        return number(quartiles[0], digits)
    return " · ".join(number(x, digits) for x in quartiles)


def table(columns: list[str], lines: list[list]) -> str:
    """Return a Markdown table."""
    text = [columns, ["---"] * len(columns), *lines]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in text)


def section(name: str, title: str, command: str, alt: str, *paragraphs: str) -> str:
    """Return the section of a figure; it says how many results are missing."""
    missing = head(name).get("results_missing", 0)
    parts = [f"## {name}: {title}", f"`{command}`", f"![{alt}](figures/{name}.png)", *paragraphs]
    if "note" in head(name):
        parts.append(f"*{head(name)['note']}*")
    if missing:
        parts.append(
            f"*Not complete: {missing} or more results of this protocol have not been computed yet. "
            "What is shown is what was run.*"
        )
    return "\n\n".join(_wrapped(part) for part in parts)


def _wrapped(text: str) -> str:
    """Return a paragraph in lines of the width of other pages; tables and links as they are."""
    if text.startswith(("|", "!", "#", "`")):
        return text
    return textwrap.fill(text, 125, break_long_words=False, break_on_hyphens=False)


def fig1() -> str:
    found = head("fig1")
    f, s = found["findings"], found["settings"]
    lines = [
        [NAMES[a], extremes(f["distance_from_the_line"][a]), extremes(f["excess_of_last_mean"][a])]
        for a in NAMES
    ]
    n_sets = len({row["data_seed"] for row in rows("fig1-runs")})
    return section(
        "fig1",
        "one feature, two components",
        "gapmf reproduce fig1 -o DIR",
        "iterates on the exact cost",
        f"**The paper** shows contours of C_ML and the last {s['n_last']} of {s['n_iter']} iterates "
        f"of the three algorithms (N = {s['n_samples']}). The iterates of MCEM-C satisfy "
        "w₁ + w₂ = v̄.",
        f"**Here** the same is found in {data_sets(n_sets)}. MCEM-C is on the line up to rounding; "
        "the others move around it. All three have converged: the average of their last iterates "
        "costs next to nothing more than the exact minimum (★). The iterates of MCEM-C spread "
        "further along the valley, where the cost is flat. The paper does not give W*; ours is "
        "(8, 1), which has two minima, one with the columns exchanged, and iterates are drawn at "
        f"one of them. Minimum · quartiles · maximum over {data_sets(n_sets)}:",
        table(["", "largest distance from the line", "cost of the mean iterate, nats"], lines),
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
        lines[-1].append(spread(x["excess_at_the_end"], 2))
    columns = [
        "",
        "iterations",
        "ratio to MCEM-C's",
        "ratio of CPU times",
        "p",
        "excess at the end",
    ]
    return table(columns, lines)


NEAR = (
    "Iterations until the cost is within half a nat of the exact minimum, their ratios and those "
    "of CPU times on the same data, the p-value of Wilcoxon's test that there is no difference to "
    "MCEM-C, and the excess cost of the last tenth, in nats: medians and quartiles"
)


def fig2() -> str:
    found = head("fig2")
    f, s = found["findings"], found["settings"]
    sets, chains = f["over_data_sets"], f["over_chains"]
    ratios = {a: sets[a]["iterations_relative_to_mcem_c"][2] for a in ("mcem-h", "mcem-ch")}
    cpu = {a: sets[a]["cpu_seconds_relative_to_mcem_c"][2] for a in ("mcem-h", "mcem-ch")}
    first = [row["cost"] for row in rows("fig2")]
    descent = max(first) - f["smallest_cost"]
    seconds = [sets[a]["cpu_seconds"][2] for a in NAMES]
    worst = max(sets[a]["excess_at_the_end"][-1] for a in NAMES)
    slowest = max(
        chains[a]["iterations_until_near"][-1] / chains[a]["iterations_until_near"][0]
        for a in NAMES
    )
    text = (
        f"**Here** {s['n_iter']} iterations take {number(min(seconds), 2)} to "
        f"{number(max(seconds), 2)} s of CPU time. All runs end within {number(worst, 1)} nats of the "
        "exact minimum, which the paper did not have. MCEM-C is marginally faster indeed: in the "
        f"median over {data_sets(sets['mcem-c']['runs'])}, MCEM-CH needs {number(ratios['mcem-ch'])} "
        f"times as many iterations and MCEM-H {number(ratios['mcem-h'])} times (p = "
        f"{number(sets['mcem-ch']['p_of_no_difference'], 2)} and "
        f"{number(sets['mcem-h']['p_of_no_difference'], 2)}). In CPU time, which a busy machine "
        f"measures less well, the ratios are {number(cpu['mcem-ch'])} and {number(cpu['mcem-h'])}. "
        f"One run shows nothing of this: the whole descent on the first data set is {descent:.1f} nats, "
        "W = v̄ in all columns being nearly as good a model of these data as any, and chains of the "
        f"same algorithm on it differ by a factor of up to {slowest:.1f}."
    )
    parts = [text, f"{NEAR} over {data_sets(sets['mcem-c']['runs'])}:", compare(sets)]
    if chains["mcem-c"]["runs"] > 1:
        parts += [f"The same over {chains['mcem-c']['runs']} chains on the first data set:"]
        parts += [compare(chains)]
    return section(
        "fig2",
        "the cost of V₁",
        "gapmf reproduce fig2 -o DIR",
        "cost of V1",
        "**The paper** shows three algorithms with almost the same computation time that converge "
        "to the same point; MCEM-C is marginally faster.",
        *parts,
    )


def fig3a() -> str:
    f = head("fig3a")["findings"]
    norms = " , ".join(number(x) for x in f["norms_of_smallest_cost"]).replace(" ,", ",")
    return section(
        "fig3a",
        "column norms, V₁",
        "gapmf reproduce fig3a -o DIR",
        "norms, V1",
        "**The paper** shows the norms of the K = 3 columns when the truth has two.",
        "**Here** all three algorithms find the norms of the exact minimum; on the first data set "
        f"these are {norms} (dashed). The third column is no artefact of Monte Carlo. It is part of "
        "the maximum, but adds almost nothing to the likelihood (see `spare`).",
    )


def fig3b() -> str:
    found = head("fig3b")
    sets, s = found["findings"]["over_data_sets"], found["settings"]
    end = {a: sets[a]["excess_at_the_end"] for a in NAMES}
    last = max(row["iteration"] for row in rows("fig3b-bands"))
    third = {
        row["algorithm"]: row["norm_3_median"]
        for row in rows("fig3b-bands")
        if row["iteration"] == last
    }
    return section(
        "fig3b",
        "V₂, a hundred times larger, and its likelihood",
        "gapmf reproduce fig3b -o DIR",
        "norms and cost, V2",
        f"**The paper** runs {s['n_iter']:,} iterations. MCEM-C clearly outperforms the others. The "
        "likelihood cannot be computed in reasonable time, so the norms stand in for it.",
        "**Here** the norms look as described, and the right panel shows the exact likelihood, of "
        f"{data_sets(sets['mcem-c']['runs'])}. To within half a nat of the exact minimum, "
        f"MCEM-CH takes {spread(sets['mcem-ch']['cpu_seconds_relative_to_mcem_c'])} times as much "
        f"CPU time as MCEM-C, and MCEM-H {spread(sets['mcem-h']['cpu_seconds_relative_to_mcem_c'])} "
        "times. So the paper is right about speed. But the norms exaggerate "
        f"the distance that remains: after {last:,.0f} iterations the smallest norm of MCEM-H is "
        f"{number(third['mcem-h'], 2)} in the median, and that of MCEM-C "
        f"{number(third['mcem-c'], 2)}, for a difference of only "
        f"{number(end['mcem-h'][2] - end['mcem-c'][2], 2)} nats.",
        f"{NEAR}:",
        compare(sets),
    )


def fig4() -> str:
    found = head("fig4")
    f, s = found["findings"], found["settings"]
    runs, values = f["runs"], rows("fig4-likelihood")
    ran = [
        [
            NAMES[run["algorithm"]],
            run["seed"],
            f"{run['iterations']:,} of {run['planned']:,}",
            number(run["cpu_seconds"] / 60, 2),
            f"{100 * run['largest_change_in_the_last_tenth']:.1f} %",
        ]
        for run in runs
    ]
    where = {(v["algorithm"], v["seed"], v["iteration"]): v for v in values}
    ahead = []
    for _, seed, n in sorted(key for key in where if key[0] == "mcem-c"):
        other = where.get(("mcem-ch", seed, n))
        if other is None or n < 10:
            continue
        mine = where["mcem-c", seed, n]
        error = (mine["std_error"] ** 2 + other["std_error"] ** 2) ** 0.5
        gap = mine["log_likelihood"] - other["log_likelihood"]
        line = [f"{seed:.0f}", f"{n:.0f}", f"{mine['log_likelihood']:,.0f}".replace("-", "−")]
        line += [f"{gap:,.0f} ± {error:.0f}".replace("-", "−")]
        ahead.append([*line, f"{gap / f['tokens_judged']:.5f}".replace("-", "−")])
    first = {run["algorithm"]: run for run in runs if run["seed"] == s["seed"]}
    race = head("race")["findings"]["alpha = 1"]
    return section(
        "fig4",
        "NIPS",
        "gapmf reproduce fig4 --data NIPS_DIR -o DIR",
        "norms on NIPS",
        "**The paper** runs 1,000 iterations of 250 sweeps with K = 10, which takes a few hours. "
        "MCEM-C is reported to converge dramatically faster, and the two algorithms do not always "
        "end at the same solution. MCEM-H is like MCEM-CH.",
        f"**The data** are {f['documents']:,} documents and {f['words']:,} words, as in the paper. "
        "Its words are said to occur at least ten times, but in the published file "
        f"{f['words_never']} never occur, and {f['words_fewer_than_ten_times']} others occur fewer "
        "than ten times.",
        "**Here** these runs were made (the last column is the largest change of a norm between the "
        "last tenth of the iterations and the tenth before). The command computes them in blocks of at "
        "most fifty iterations, so that it can be interrupted:",
        table(["", "seed", "iterations", "CPU minutes", "norms still move by"], ran),
        "The right panel shows what the paper could not: the log-likelihood of "
        f"all {f['documents']:,} documents ({f['tokens_judged']:,} tokens), at full effort, with the "
        "same random numbers for all runs. MCEM-C against MCEM-CH, in nats and in nats per token:",
        table(["seed", "iteration", "MCEM-C", "ahead of MCEM-CH", "per token"], ahead),
        "The difference between the norms is as striking as in the paper's figure: in the last tenth "
        f"those of MCEM-C moved by at most {100 * first['mcem-c']['largest_change_in_the_last_tenth']:.1f} %"
        f", and those of MCEM-CH by {100 * first['mcem-ch']['largest_change_in_the_last_tenth']:.1f} %. "
        "The likelihoods differ by less than 0.001 nats per token from the tenth iteration on. Both runs "
        f"are far below what is known: after {race['adaptive (default)']['sweeps']:,} sweeps the "
        "default schedule is "
        f"{race['adaptive (default)']['log_likelihood'] - race[PAPERS]['log_likelihood']:.3f} nats per "
        f"token above the paper's after {race[PAPERS]['sweeps']:,} (see `race`).",
    )


PAPERS = "the paper's"


def rates() -> str:
    found = head("rates")
    f, s = found["findings"], found["settings"]
    medians = {(m["alpha"], m["scale"]): m for m in f["medians"]}
    lines = []
    for alpha in s["alphas"]:
        line = [f"{alpha:g}"]
        for scale in s["scales"]:
            m = medians.get((alpha, scale))
            line.append(
                "–"
                if m is None
                else f"{number(m['em_c_per_digit'], 2)} / {number(m['em_ch_per_digit'], 2)} "
                f"({number(m['fano'], 2)})"
            )
        lines.append(line)
    all_rows = rows("rates")
    fano = [1.0 / (1.0 - row["rho"]) for row in all_rows]
    apart = [
        x
        for x, row in zip(fano, all_rows, strict=True)
        if row["em_ch_per_digit"] > 2.0 * row["em_c_per_digit"]
    ]
    largest = max(m["fano"] for m in f["medians"] if m["alpha"] >= 3.0)
    gaps = f["largest_gap_of_eigenvalue_and_iterates"]
    return section(
        "rates",
        "why MCEM-C is faster",
        "gapmf reproduce rates -o DIR",
        "rates",
        '**The paper** calls the "drastic difference in convergence … unexplained at this stage", and '
        "conjectures a link to over-dispersion, which grows with the scale of W.",
        "**Here** is why. With one E-step both EMs give the same column "
        "directions, and norms that are related by S_CH = S_C (β + S)/(β + S_C). Differentiation "
        "gives J_CH = R + (I − R) J_C, and R contracts no faster than ρ = S/(S + β). So EM-CH "
        "cannot be faster than ρ (dashed). The size of a component in a sample is negative "
        "binomial, L ~ NB(α, ρ), with Var[L]/E[L] = 1/(1 − ρ): **ρ is over-dispersion**, one minus "
        "the inverse of the Fano factor. EM-C integrates the activations out and has no such "
        "bound. What is left for it is what the counts leave open about which component they came "
        "from.",
        f"The expected counts are those of W₁* times the scale, for every α (N = {s['n_samples']}, "
        f"K = {s['n_components']}, {s['n_sets']} data sets per cell, fitted to the exact maximum). "
        "Median iterations per digit of EM-C / EM-CH, and the Fano factor of the larger component:",
        table(["α", *(f"scale {scale:g}" for scale in s["scales"])], lines),
        "So the paper's conjecture is confirmed, with a qualification. Over-dispersion is what slows "
        f"EM-CH down: in no data set is EM-CH faster than its bound ({f['em_ch_below_rho']} of {len(all_rows)})"
        f" or than EM-C ({f['em_c_above_em_ch']}), and in all {len(apart)} data sets in which it needs more "
        f"than twice the iterations of EM-C, the Fano factor exceeds {number(min(apart), 2)}. It is not "
        "the scale as such: at the same expected counts the gap closes as α grows (read a column "
        "downwards). But over-dispersion alone does not make a gap: for α = 3 and more there is hardly "
        f"any, even at a Fano factor of {number(largest, 2)}. There, presumably because components are hard to tell apart, "
        "EM-C itself is slower than ρ, and nothing is gained by avoiding the bound. "
        f"({f['slower_than_shown']} data sets in which neither has a rate below one, because a column "
        "converges to zero, are outside the figure. Rates are largest eigenvalues of the "
        "Jacobians; the factor measured in "
        f"{s['n_iter']} iterations is within {number(gaps['em_c'], 1)} of them for EM-C and within "
        f"{number(gaps['em_ch'], 1)} for EM-CH.)",
    )


def race() -> str:
    found = head("race")
    f, s = found["findings"], found["settings"]
    fixed, learned = f["alpha = 1"], f["alpha learned"]
    lines = []
    for label, cells in (("α = 1", fixed), ("α learned", learned)):
        for contender in (key for key in cells if key != "best"):
            x = cells[contender]
            value = f"{x['log_likelihood']:.4f}".replace("-", "−")
            line = [label, contender, f"{x['sweeps']:,}", number(x["cpu_seconds"]), value]
            lines.append([*line, number(x["cpu_seconds_until_near"], 2)])
    values = sorted(
        (v["iteration"], v["log_likelihood"])
        for v in rows("fig4-likelihood")
        if v["algorithm"] == "mcem-c" and v["seed"] == 0
    )
    tokens = head("fig4")["findings"]["tokens_judged"]
    n_last, best = values[-1]
    at = dict(values)
    early = max(n for n in at if n <= 60)
    ours = fixed["adaptive (default)"]["log_likelihood"] - fixed[PAPERS]["log_likelihood"]
    theirs = (best - at[early]) / tokens
    return section(
        "race",
        "schedules on NIPS",
        "gapmf reproduce race --data NIPS_DIR -o DIR",
        "race",
        "**The paper** needs hours to converge; variants such as SAEM brought no significant "
        "improvement.",
        f"**Here** all schedules start from the paper's starting point, with K = {s['n_components']} "
        "and one thread. The log-likelihood is that of every fifth document, the same ones for all. "
        "What another choice of documents would change was not measured, and may well exceed the "
        "Monte Carlo error: do not read much into a few thousandths. Sweeps and CPU seconds at the end, "
        "log-likelihood in nats per token, and seconds until within 0.01 of the best:",
        table(["", "schedule", "sweeps", "seconds", "log-likelihood", "until near"], lines),
        f"The paper's schedule was given sixty iterations ({fixed[PAPERS]['sweeps']:,} sweeps), not "
        f"its 1,000. Where it would go is in `fig4`: from iteration {early:.0f} to {n_last:.0f}, "
        f"MCEM-C gains {theirs:.4f} nats per token. The default schedule ends {ours:.4f} above it. "
        "SAEM, with steps that shrink only where noise limits them, is close to it. Hundreds "
        "of sweeps at every W buy precision while the distance to the maximum is what matters. "
        "Learning α is worth "
        f"{learned['adaptive (default)']['log_likelihood'] - fixed['adaptive (default)']['log_likelihood']:.3f} "
        "nats per token, about as much as the schedule. (One seed. To add a contender, add one line to "
        "`gapmf/reproduce/race.py`.)",
    )


def overfit() -> str:
    found = head("overfit")
    cells, s = found["findings"]["cells"], found["settings"]
    problems = list(dict.fromkeys((c["data"], c["alpha"], c["n_samples"]) for c in cells))
    lines = []
    for problem in problems:
        for factor in s["factors"]:
            mine = {
                c["method"]: c
                for c in cells
                if (c["data"], c["alpha"], c["n_samples"], c["factor"]) == (*problem, factor)
            }
            if not mine:
                continue
            K = next(iter(mine.values()))["n_components"]
            line = [f"{problem[0]}, α = {problem[1]:g}, N = {problem[2]:,}", K]
            for method in METHODS:
                c = mine.get(method)
                line.append(
                    "–"
                    if c is None
                    else f"{c['effective_columns'][2]:.1f}; {c['completion'][2]:.3f}".replace(
                        "-", "−"
                    )
                )
            lines.append(line)
    known = [c for c in cells if c["data"] == "simulated"]
    many = {m: [c for c in known if c["method"] == m and c["factor"] == 4] for m in METHODS}
    low = {m: min(c["effective_columns"][2] for c in many[m]) for m in METHODS}
    high = {m: max(c["effective_columns"][2] for c in many[m]) for m in METHODS}
    lean = {(c["method"], c["alpha"], c["n_samples"]): c for c in known if c["factor"] == 1}
    loss = {
        m: max(
            lean[m, c["alpha"], c["n_samples"]]["completion"][2] - c["completion"][2]
            for c in many[m]
        )
        for m in METHODS
    }
    nips = any(c["data"] == "NIPS" for c in cells)
    and_nips, on_nips = (", and NIPS,", f" (on NIPS {s['n_nips']})") if nips else ("", "")
    per_cell = Counter(
        (r["alpha"], r["n_samples"], r["method"], r["factor"])
        for r in rows("overfit")
        if r["data"] == "simulated"
    )
    n_sets = min(per_cell.values())
    return section(
        "overfit",
        "more components than there are",
        "gapmf reproduce overfit --data NIPS_DIR -o DIR",
        "overfit",
        "**The paper** reports of earlier work that maximum marginal likelihood leaves columns beyond "
        'the truth empty, while maximum joint likelihood (MJLE) "used all K dimensions and overfit '
        'the data".',
        f"**Here** samples of a model with {s['n_true']} components ({s['n_features']} features, "
        f"{s['n_tokens']} tokens each){and_nips} are fitted with the true number of components"
        f"{on_nips}, twice and four times as many. The table has the effective number of "
        "columns, exp(entropy of their shares of the expected counts), and the score of a random half "
        "of the tokens of held-out samples given the other half, in nats per token. MJLE has no "
        "maximum for α < 1; at α = 1 it is KL-NMF with another scale.",
        table(["data", "K", *METHODS.values()], lines),
        f"With {data_sets(n_sets)} or more per cell of known truth, the claim holds. With four times the true number, "
        f"KL-NMF uses {low['kl-nmf']:.0f} to {high['kl-nmf']:.0f} columns and MJLE {low['mjle']:.0f} to "
        f"{high['mjle']:.0f}, and both predict held-out samples worse the more columns they have: by up to "
        f"{loss['kl-nmf']:.3f} and {loss['mjle']:.3f} nats per token. The marginal likelihood loses at most "
        f"{loss['mcem-c']:.3f}. Its spare columns become small rather than vanish: it uses "
        f"{low['mcem-c']:.1f} to {high['mcem-c']:.1f} columns, the fewer the more samples there are (see "
        f"`spare`). The variational bound loses at most {loss['vbem']:.3f}; for α = 1 and 3 it empties "
        "spare columns altogether, for α = 0.3 it does not. Files: `overfit.csv` also has the "
        "likelihood of held-out samples, `overfit-shares.csv` the share of every column.",
    )


def spare() -> str:
    cells = head("spare")["findings"]["cells"]
    total, zero = sum(c["data_sets"] for c in cells), sum(c["columns_exactly_zero"] for c in cells)
    worth = sum(c["worth_bic"] for c in cells)
    return section(
        "spare",
        "what spare columns are worth",
        "gapmf reproduce spare -o DIR",
        "spare columns",
        "**The paper** explains by the penalty Σ_k α_k log(||w_k|| + β_k) why maximum marginal "
        "likelihood prunes columns.",
        f"**Here** we found exact maxima of {total} data sets, over scales, N, α and the number of "
        f"spare columns. Of the spare columns {zero} are exactly zero and the others are small. In "
        f"{worth} data sets they add what BIC charges for them. So columns beyond the truth shrink "
        "without vanishing. Their worth distinguishes them from the others, not their size: this is "
        "what `est.rank_report` measures. [The spare column](spare-column.md) has the table.",
    )


INTRODUCTION = """# The paper's figures, and ours beside them

Filstroff, Lumbreras and Févotte, ICML 2018. One command makes one figure, from a seed. `--quick` makes a short version in
a few seconds; the tests run it. The results on this page are those of the full protocol, and where something was not run in
full, the page says what was. PNG, CSV and JSON are in `docs/figures/`, with settings, seeds, versions and CPU times. Finished
results are kept in `DIR/results`: run the same command again to continue after an interruption, or with `--finished-only` to
see what there is. Times are CPU seconds of one thread of a slow two-core machine, and only their ratios mean much. Kernels are
compiled before the clock starts. The paper's own data sets are not published, so ours are drawn from its parameters: the first
data set is shown as the paper shows its only one, and others, with chains of their own, tell what is true in general. Data and
chains have different seeds. This page is generated from the files by `docs/generate_reproduction.py`: do not edit it.
"""


def reproduction() -> str:
    """Return the page of all figures."""
    sections = (fig1, fig2, fig3a, fig3b, fig4, rates, race, spare, overfit)
    return "\n\n".join([INTRODUCTION.strip(), *(make() for make in sections)]) + "\n"


def spare_column() -> str:
    """Return the page of the spare columns."""
    cells = head("spare")["findings"]["cells"]
    lines = [
        [
            f"{c['scale']:g}",
            c["n_samples"],
            f"{c['alpha']:g}",
            c["n_spare"],
            f"{c['columns_exactly_zero']} of {c['data_sets'] * c['n_spare']}",
            extremes([100 * x for x in c["share"]]),
            extremes(c["gain"]),
            spread(c["held_out_gain"], 2),
            f"{c['score_above_one']} of {c['data_sets']}",
            f"{c['worth_bic']} of {c['data_sets']}",
        ]
        for c in cells
    ]
    columns = ["scale", "N", "α", "spare", "exactly zero", "share together, %", "gain, nats"]
    columns += ["held-out gain, nats per sample", "max r > 1", "worth BIC's price"]
    gradient = max(c["largest_projected_gradient"] for c in cells)
    unfinished = sum(c["not_converged"] for c in cells)
    total, worth = (sum(c[key] for c in cells) for key in ("data_sets", "worth_bic"))
    largest = max(c["share"][-1] for c in cells)
    loss = min(c["held_out_gain"][2] for c in cells)
    below = [row["gain"] for row in rows("spare") if row["gain"] < -1e-6]
    lower = ""
    if below:
        lower = (
            f"In {len(below)} of {total} data sets the maximum found with spare columns is {number(-min(below), 1)} "
            "nats below the one without, so that it is a local one. "
        )
    agree = all(
        c["columns_exactly_zero"] == c["data_sets"] - c["score_above_one"]
        for c in cells
        if c["n_spare"] == 1
    )
    score = (
        "With one spare column, it is exactly zero in those data sets, and only those, in which "
        "max_f r_f ≤ 1 at K = 2"
        if agree
        else "With one spare column, it can be exactly zero only if max_f r_f ≤ 1 at K = 2"
    )
    return f"""# The spare columns at the exact maximum

The paper explains the "self-regularisation" of maximum marginal likelihood by its penalty term, and reports that columns
beyond the true number come out empty. With the exact maximum this can be checked. `gapmf reproduce spare -o DIR` draws data
as in the paper's synthetic experiment (two components, F = 4), with W* = (scale/α) W₁*, and finds the exact maximum with
K = 2 and with spare columns. The table has minimum · quartiles · maximum over data sets; the held-out gain, on a thousand
other samples, has median and quartiles.

{table(columns, lines)}

What self-regularisation does, and does not do:

- **Spare columns are small, but not zero.** They keep a tenth of the counts where a sample has two tokens, and a few hundredths
  where it has hundreds. Several spare columns share what one would have had, and a little more.
- **They shrink as data grow**: with N, and with the scale. Small α makes them smaller (components are seen apart), large α larger.
- **They are worth nothing.** The gain is about a nat per data set, and BIC's price in {worth} of {total}. A threshold on norms would
  have to lie somewhere between nothing and {100 * largest:.0f} %; the gain of a column does not have this problem.
- **They cost next to nothing.** Held-out samples lose at most {number(-loss, 2)} nats each in the median: robustness to K.
- **The score test agrees.** {score}, where
  r_f = mean_n v_fn E[1/[Wh_n]_f | v_n]. The slope of the likelihood at an empty column is N (α/β) (r_f − 1). Since r_f is one on
  average at the truth, some feature nearly always exceeds one by chance, and a new column nearly always starts to grow.

{lower}{"All fits converged" if not unfinished else f"{unfinished} data sets have a fit that did not converge"}. The largest remaining first-order violation is {number(gradient, 1)} nats per unit of share.
"""


PAGES = {"reproduction.md": reproduction, "spare-column.md": spare_column}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (DOCS / page).write_text(make(), encoding="utf-8")
