"""The section of fig4."""

from __future__ import annotations

from collections.abc import Iterable

from reproduction_pages.nips_results import (
    FIRST_SHOWN,
    MOST,
    N_ERRORS,
    OURS,
    PAPERS_SWEEPS,
    UNIT,
    ends_of_fig4,
    last_looks,
    last_row,
    leads,
    race_runs,
    shares_of_h,
    values,
)
from reproduction_pages.words import (
    NAMES,
    OTHERS,
    ahead_by,
    between,
    count,
    head,
    listed,
    minus,
    number,
    rows,
    section,
    table,
)

EARLY = (20.0, 50.0)  # iterations of MCEM-C to which MCEM-CH is compared
CLEAR = 2.0  # a factor above this is clear
LITTLE = 0.001  # nats per token
SIMILAR = 1.25  # numbers whose ratio is below this are similar
SAME = 0.9  # the overlap from which on components count as the same
CLOSE = 0.02  # a median overlap that is so near to SAME depends on it
FAR = 0.2  # an overlap that is so far below SAME does not


def fig4() -> str:
    found = head("fig4")
    f, s = found["findings"], found["settings"]
    runs, tokens = f["runs"], f["tokens_judged"]
    ran = [
        [
            NAMES[run["algorithm"]],
            run["seed"],
            f"{run['iterations']:,} of {run['planned']:,}",
            number(run["cpu_seconds"] / 60, 2),
            run["norms_settle_after"],
            f"{100 * run['largest_change_in_the_last_tenth']:.1f} %",
        ]
        for run in runs
    ]
    errors = [
        [v["std_error"] for v in rows("fig4-likelihood") if (v["iteration"] >= FIRST_SHOWN) == late]
        for late in (False, True)
    ]
    before = f" ({between(errors[0], 2)} nats before)" if errors[0] else ""
    return section(
        "fig4",
        "NIPS",
        "gapmf reproduce fig4 --data NIPS_DIR -o DIR",
        "norms on NIPS",
        "**The paper** runs MCEM-C and MCEM-CH with K = 10 and α = β = 1 for 1,000 iterations, with 125 draws "
        'after a burn-in of 125. MCEM-C "converges dramatically faster than MCEM-CH", though it "still '
        'takes a few hours to converge". In its figure the two "converge to different solutions"; in other runs '
        'MCEM-C "is consistently faster", and they "do not always converge to the same solution". MCEM-H '
        '"results in similar performance than MCEM-CH" and is not shown.',
        f"**The data** are those of the paper: {f['documents']:,} documents and {f['words']:,} words, "
        f"{100 * f['share_of_zeros']:.0f} % zeros, counts up to {f['largest_count']}. Its words are said to occur at "
        f"least ten times, but in the published file {f['words_never']} never occur, and "
        f"{f['words_fewer_than_ten_times']} others occur fewer than ten times.",
        "**Here** these runs were made, in blocks of at most fifty iterations, so that the command can be "
        "interrupted. The norms have settled when all stay within 5 % of their last values; the last column "
        "is the largest change of a norm between the last tenth of the iterations and the tenth before:",
        table(
            ["", "seed", "iterations", "CPU minutes", "norms settled after", "still move by"], ran
        ),
        " ".join(filter(None, (settling(runs), shorter_runs(runs), time_of_h(runs)))),
        "The right panel shows what the paper could not: the log-likelihood of "
        f"all {f['documents']:,} documents ({tokens:,} tokens), estimated with {s['n_particles']} particles per "
        f"document and the same random numbers for all models. The panel has its distance from a round number above all values. Its standard error is {between(errors[1], 2)} nats from "
        f"iteration {FIRST_SHOWN} on, that is {between([e / tokens for e in errors[1]], 1)} nats per token{before}. Its "
        "values, and how far MCEM-C is ahead of the others at the same iteration, in nats; ± is the root of the sum of both squared "
        "errors, and ignores that the random numbers are the same:",
        table(["seed", "iteration", "MCEM-C", *(f"ahead of {NAMES[a]}" for a in OTHERS)], ahead()),
        *in_words(tokens, runs),
        *solutions(f["solutions"], s["n_components"]),
    )


def settling(runs: list[dict]) -> str:
    """Return when the norms of MCEM-C and MCEM-CH have settled, in the longest runs."""
    longest = max(run["planned"] for run in runs)
    after = {
        (run["algorithm"], run["seed"]): run["norms_settle_after"]
        for run in runs
        if run["iterations"] == longest
    }
    pairs = {
        seed: (c, after["mcem-ch", seed])
        for (algorithm, seed), c in after.items()
        if algorithm == "mcem-c" and ("mcem-ch", seed) in after
    }
    if not pairs:
        return ""
    shown = listed([f"{ch:,} instead of {c:,} (seed {seed})" for seed, (c, ch) in pairs.items()])
    clear = all(ch > CLEAR * c for c, ch in pairs.values())
    claim = (
        "The norms of MCEM-C settle far earlier, as in the paper's figure: those"
        if clear
        else "The norms"
    )
    return (
        f"{claim} of MCEM-CH settle after {shown} iterations. (Each run is measured by its own last values, which flatters "
        f"a run that is still moving. So only runs of {longest:,} iterations are compared.)"
    )


def shorter_runs(runs: list[dict]) -> str:
    """Return what the norms of MCEM-C and MCEM-CH do in the shorter runs."""
    longest = max(run["planned"] for run in runs)
    pairs = [
        (c, ch)
        for c, ch in of_the_same_length(runs, "mcem-c", "mcem-ch")
        if c["iterations"] < longest
    ]
    if not pairs:
        return ""
    settled = listed([f"{c['norms_settle_after']} (seed {c['seed']})" for c, _ in pairs])
    moved = listed(
        [
            f"{100 * ch['largest_change_in_the_last_tenth']:.1f} % (seed {ch['seed']})"
            for _, ch in pairs
        ]
    )
    return (
        f"In the runs of {between([c['iterations'] for c, _ in pairs])} iterations MCEM-C settles after {settled}. At their "
        f"end MCEM-CH still moves by {moved}."
    )


def of_the_same_length(runs: list[dict], a: str, b: str) -> list[tuple[dict, dict]]:
    """Return the runs of two algorithms that have ended after as many iterations, by seed."""
    done = {(r["algorithm"], r["seed"]): r for r in runs if r["iterations"] == r["planned"]}
    return [
        (one, other)
        for (algorithm, seed), one in sorted(done.items())
        if algorithm == a
        if (other := done.get((b, seed))) and other["iterations"] == one["iterations"]
    ]


def time_of_h(runs: list[dict]) -> str:
    """Return the CPU time of an iteration of MCEM-H, beside one of MCEM-C."""
    cost = {(r["algorithm"], r["seed"]): r["cpu_seconds"] / r["iterations"] for r in runs}
    ratios = [
        x / cost["mcem-c", seed]
        for (algorithm, seed), x in cost.items()
        if algorithm == "mcem-h" and ("mcem-c", seed) in cost
    ]
    if not ratios:
        return ""
    return f"An iteration of MCEM-H takes {between(ratios, 2)} times the CPU time of one of MCEM-C."


def ahead() -> list[list]:
    """Return the lines of the table of likelihoods."""
    by = {a: leads(a) for a in OTHERS}
    lines = []
    for (algorithm, seed, n), mine in sorted(values().items()):
        if algorithm == "mcem-c" and any((seed, n) in by[a] for a in OTHERS):
            line = [f"{seed:.0f}", f"{n:,.0f}", minus(f"{mine['log_likelihood']:,.0f}")]
            for a in OTHERS:
                gap = by[a].get((seed, n))
                line.append("–" if gap is None else minus(f"{gap[0]:,.0f} ± {gap[1]:.0f}"))
            lines.append(line)
    return lines


def in_words(tokens: float, runs: list[dict]) -> list[str]:
    """Return what the likelihoods say, in paragraphs."""
    said = [
        [lead(tokens), *(caught_up(n) for n in EARLY)],
        [lead_of_h(tokens), h_beside_ch(runs)],
        [beside_the_default(tokens)],
    ]
    return [text for part in said if (text := " ".join(filter(None, part)))]


def at_the_last_looks(gaps: dict[tuple[float, float], float], what: str) -> str:
    """Return the difference to something at the last look of each seed."""
    looks = last_looks(gaps)
    ends = [gaps[key] for key in looks.items()]
    same_sign = min(ends) > 0 or max(ends) < 0
    shown = listed(
        [
            f"{number(abs(gap) if same_sign else gap, 2)} (seed {seed:.0f}, iteration {n:,.0f})"
            for gap, (seed, n) in zip(ends, looks.items(), strict=True)
        ]
    )
    if not same_sign:
        return f"differs from {what} by {shown}"
    return f"is {'above' if ends[0] > 0 else 'below'} {what} by {shown}"


def lead(tokens: float) -> str:
    """Return how far MCEM-C is ahead of MCEM-CH."""
    found = leads("mcem-ch")
    if not found:
        return ""
    first = min(n for _, n in found)
    per_token = [gap / tokens for gap, _ in found.values()]
    text = f"At all looks from iteration {first:.0f} on, MCEM-C is {ahead_by(per_token, 'MCEM-CH', UNIT)}."
    if max(abs(gap) for gap in per_token) < LITTLE:
        text += " Per token this is little. In nats it is not: in `fig2` and `fig3b`, half a nat decides."
    late = {
        seed: [gap for (s, n), gap in sorted(found.items()) if s == seed and n >= EARLY[0]]
        for seed in sorted({seed for seed, n in found if n >= EARLY[0]})
    }
    if not late:
        return text
    ahead = [seed for seed, gaps in late.items() if all(x > N_ERRORS * e for x, e in gaps)]
    said = "; ".join(
        f"with seed {seed:.0f} it is {lead_of_seed(gaps, tokens)}" for seed, gaps in late.items()
    )
    which = f" ({which_seeds(ahead)})" if 0 < len(ahead) < len(late) else ""
    return (
        f"{text} From iteration {EARLY[0]:.0f} on, {said}. So in likelihood, a faster descent of MCEM-C is seen with "
        f"{count(len(ahead), len(late))} seeds{which}."
    )


def lead_of_seed(gaps: list[tuple[float, float]], tokens: float) -> str:
    """Return in words by how many nats MCEM-C is ahead with a seed: gaps and their errors."""
    values = [x for x, _ in gaps]
    sizes = (
        f"{between([abs(x) for x in values])} nats ({between([abs(x) / tokens for x in values], 2)} {UNIT}, "
        f"{between([abs(x) / e for x, e in gaps], 2)} standard errors)"
    )
    if all(x > N_ERRORS * e for x, e in gaps):
        return f"ahead at all looks, by {sizes}"
    if all(x < -N_ERRORS * e for x, e in gaps):
        return f"behind at all looks, by {sizes}"
    low, high = min(values), max(values)
    span = f"never more than {number(high)} nats ahead" if high > 0 else "never ahead"
    if low > 0:
        span = f"{between(values)} nats ahead"
    last = values[-1]
    return f"{span}, and ends {number(abs(last))} nats {'ahead' if last > 0 else 'behind'}"


def caught_up(early: float) -> str:
    """Return when MCEM-CH has the likelihood of MCEM-C at an early iteration, between two looks."""
    at = values()
    said: dict[str, list[float]] = {}
    for seed in sorted({seed for _, seed, _ in at}):
        looks = sorted(
            (n, v["log_likelihood"]) for (a, s, n), v in at.items() if (a, s) == ("mcem-ch", seed)
        )
        if ("mcem-c", seed, early) not in at or not looks or looks[-1][0] < early:
            continue
        goal = at["mcem-c", seed, early]["log_likelihood"]
        reached = [n for n, value in looks if value >= goal]
        if reached:
            before = max((n for n, _ in looks if n < reached[0]), default=0.0)
            when = f"between iterations {before:,.0f} and {reached[0]:,.0f}"
        else:
            when = f"not yet at iteration {looks[-1][0]:,.0f}"
        said.setdefault(when, []).append(seed)
    if not said:
        return ""
    shown = listed([f"{when} ({which_seeds(seeds)})" for when, seeds in said.items()])
    return f"What MCEM-C has after {early:.0f} iterations, MCEM-CH has {shown}."


def which_seeds(seeds: Iterable[float]) -> str:
    """Return "seed 0" or "seeds 0 and 1"."""
    names = [f"{seed:.0f}" for seed in seeds]
    return f"seed{'s' if len(names) > 1 else ''} {listed(names)}"


def lead_of_h(tokens: float) -> str:
    """Return how far MCEM-H is ahead of MCEM-C."""
    of_c = {key: gap for key, (gap, _) in leads("mcem-h").items()}
    if not of_c:
        return ""
    ends = last_looks(of_c)
    of_h = {key: -gap / tokens for key, gap in of_c.items()}
    text = (
        "MCEM-H has an M-step that averages over C, where the two others use draws of C. At the last common look, in nats "
        f"per token, it {at_the_last_looks(of_h, 'MCEM-C')}."
    )
    for seed, n in ends.items():
        mine, last = values()["mcem-h", seed, n], last_row("mcem-c", seed)
        if last["iteration"] > n and mine["log_likelihood"] > last["log_likelihood"]:
            text += f" After {n:,.0f} iterations it is above MCEM-C after {last['iteration']:,.0f} (seed {seed:.0f})."
    if all(of_h[key] > 0 for key in ends.items()):
        text += (
            " Why likelihoods end lower with draws of C is not tested here. It may be that an entry of W whose draws are all "
            "zero once stays zero: rounding small expectations to zero had a similar effect ([design note "
            "0003](design/0003-the-gibbs-sampler.md), decision 4)."
        )
    return text


def h_beside_ch(runs: list[dict]) -> str:
    """Return whether MCEM-H is similar to MCEM-CH: in norms, at which the paper looked, and in likelihood."""
    said = []
    pairs = of_the_same_length(runs, "mcem-h", "mcem-ch")
    settled = [[run["norms_settle_after"] for run in one] for one in zip(*pairs, strict=True)]
    if pairs:
        alike = all(max(x) < SIMILAR * min(x) for x in zip(*settled, strict=True))
        said.append(
            f"In norms, at which the paper looked, MCEM-H is {'' if alike else 'not '}similar to MCEM-CH: in runs of the same "
            f"length they settle after {between(settled[0])} and {between(settled[1])} iterations "
            f"({which_seeds([h['seed'] for h, _ in pairs])})."
        )
    of_c, of_h = leads("mcem-ch"), leads("mcem-h")
    both = {(seed, n): of_c[seed, n][0] for seed, n in of_h if (seed, n) in of_c}
    ends = last_looks(both)
    if ends:
        mine = [both[key] - of_h[key][0] for key in ends.items()]
        theirs = max(abs(both[key]) for key in ends.items())
        apart = min(abs(x) for x in mine) > CLEAR * theirs
        when = f"after {between(list(ends.values()))} iterations"
        begin = f"In likelihood it is not: {when}" if apart else f"In likelihood, {when}"
        said.append(
            f"{begin} it is {ahead_by(mine, 'MCEM-CH', 'nats')}, and MCEM-C is within {number(theirs)} nats of MCEM-CH."
        )
    return " ".join(said)


def beside_the_default(tokens: float) -> str:
    """Return how far the default schedule comes with the same seeds, if `race` judges the same documents."""
    if head("race")["findings"]["tokens_judged"] != tokens:
        return ""
    of_c = ends_of_fig4("mcem-c", tokens)
    runs = [run for run in race_runs(learned=False).get(OURS, []) if run["seed"] in of_c]
    if not runs:
        return ""
    gaps = [run["log_likelihood"] - of_c[run["seed"]] for run in runs]
    text = (
        "To compare: the default schedule has fewer sweeps per iteration, uses E[C | h] and has momentum (see `race`). With "
        f"the same seeds it ends {ahead_by(gaps, 'the last look at MCEM-C', UNIT)}."
    )
    shares = shares_of_h(runs, of_c, tokens)
    if shares:
        text += (
            f" MCEM-H, with the paper's sweeps and without momentum, has {between([100 * x for x in shares], 2)} % of this "
            "difference."
        )
        if min(shares) > MOST:
            text += " So most of it is that of an M-step which averages over C, and what the default schedule saves is time."
    run = runs[0]
    c, h = last_row("mcem-c", run["seed"]), last_row("mcem-h", run["seed"])
    theirs = [
        f"{end['iteration']:,.0f} iterations of {name} take {number(end['cpu_seconds'])} s "
        f"({PAPERS_SWEEPS * end['iteration']:,.0f} sweeps)"
        for name, end in (("MCEM-C", c), ("MCEM-H", h))
        if end
    ]
    return (
        f"{text} With seed {run['seed']} it takes {number(run['cpu_seconds'], 2)} s of CPU time ({run['sweeps']:,} sweeps); "
        f"{listed(theirs)}."
    )


def solutions(found: list[dict], n_components: int) -> tuple[str, str, str]:
    """Return whether runs have the same components."""
    kinds = {
        ("mcem-ch", "mcem-c"): "MCEM-C and MCEM-CH, same seed",
        ("mcem-ch", "mcem-h"): "MCEM-H and MCEM-CH, same seed",
        ("mcem-c", "mcem-c"): "MCEM-C, different seeds",
    }
    by: dict[tuple, list[dict]] = {kind: [] for kind in kinds}
    for row in found:
        by[tuple(row["algorithms"])].append(row)
    lines = [
        [
            label,
            listed([str(seed) for seed in dict.fromkeys(row["seeds"])]),
            f"{row['iteration']:,}",
            f"{row['components_in_common']} of {n_components}",
            f"{row['overlap'][0]:.3f}",
            f"{row['overlap'][2]:.3f}",
        ]
        for kind, label in kinds.items()
        for row in by[kind]
    ]
    if not lines:
        return "", "", ""
    columns = ["", "seeds", "iteration", "in common", "smallest overlap", "median overlap"]
    said = [same_seed(by["mcem-ch", "mcem-c"], n_components)]
    said.append(different_seeds(by["mcem-c", "mcem-c"], n_components))
    return (
        "**The same solution?** The components of two runs are matched, after as many iterations as both "
        "have. Two components with the distributions of words p and q overlap by Σ_f √(p_f q_f), and count as "
        f"the same from {SAME:g} on:",
        table(columns, lines),
        " ".join(filter(None, said)),
    )


def same_seed(found: list[dict], n_components: int) -> str:
    """Return whether MCEM-C and MCEM-CH have the same components if they have the same seed."""
    if not found:
        return ""
    common = [row["components_in_common"] for row in found]
    when = f"after {between([row['iteration'] for row in found])} iterations"
    if min(common) == n_components:
        smallest = min(row["overlap"][0] for row in found)
        text = (
            f"MCEM-C and MCEM-CH with the same seed have the same components {when} (overlap at least {smallest:.3f}). "
            "Whether the rest is noise is not known."
        )
    else:
        text = f"MCEM-C and MCEM-CH with the same seed have {between(common)} of {n_components} components in common {when}."
    return (
        f"{text} Both start where all columns are equal, and the same seed gives both the same first noise, which tells "
        "the columns apart. The paper's runs need not have this in common."
    )


def different_seeds(found: list[dict], n_components: int) -> str:
    """Return whether MCEM-C from different seeds has the same components."""
    if not found:
        return ""
    common = [row["components_in_common"] for row in found]
    text = (
        f"MCEM-C with different seeds has {between(common)} of {n_components} components in common after "
        f"{between([row['iteration'] for row in found])} iterations"
    )
    text += ": where a run goes depends on chance." if min(common) < n_components else "."
    smallest, middle = ([row["overlap"][i] for row in found] for i in (0, 2))
    if any(abs(x - SAME) < CLOSE for x in middle):
        text += f" This number depends on the limit of {SAME:g}, since the median overlap is {between(middle)}."
        if max(smallest) < SAME - FAR:
            text += f" The smallest overlaps, {listed([number(x, 2) for x in smallest])}, do not depend on it."
    return text
