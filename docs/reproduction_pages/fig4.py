"""The section of fig4."""

from __future__ import annotations

from collections.abc import Iterable

from reproduction_pages.nips_results import (
    FIRST_SHOWN,
    OURS,
    UNIT,
    last_looks,
    last_of_mcem_c,
    leads,
    race_runs,
    values,
)
from reproduction_pages.words import (
    NAMES,
    OTHERS,
    ahead_by,
    between,
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
        settling(runs),
        "The right panel shows what the paper could not: the log-likelihood of "
        f"all {f['documents']:,} documents ({tokens:,} tokens), estimated with {s['n_particles']} particles per "
        f"document and the same random numbers for all models. Its standard error is {between(errors[1], 2)} nats from "
        f"iteration {FIRST_SHOWN} on, that is {between([e / tokens for e in errors[1]], 1)} nats per token{before}. Its "
        "values, and how far MCEM-C is ahead of the others at the same iteration, in nats; ± is the root of the sum of both squared "
        "errors, and ignores that the random numbers are the same:",
        table(["seed", "iteration", "MCEM-C", *(f"ahead of {NAMES[a]}" for a in OTHERS)], ahead()),
        in_words(tokens),
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


def in_words(tokens: float) -> str:
    """Return what the likelihoods say, in nats per token."""
    said = [
        lead(tokens),
        *(caught_up(n) for n in EARLY),
        lead_of_h(tokens),
        beside_the_default(tokens),
    ]
    return " ".join(filter(None, said))


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
    found = {key: gap / tokens for key, (gap, _) in leads("mcem-ch").items()}
    if not found:
        return ""
    first = min(n for _, n in found)
    text = f"At all looks from iteration {first:.0f} on, MCEM-C is {ahead_by(list(found.values()), 'MCEM-CH', UNIT)}."
    if max(abs(gap) for gap in found.values()) < LITTLE:
        text += " So the norms differ for hundreds of iterations, but the likelihoods hardly do."
    return text


def caught_up(early: float) -> str:
    """Return when MCEM-CH has the likelihood of MCEM-C at an early iteration, between two looks."""
    at = values()
    within: dict[float, tuple[float, float]] = {}
    not_yet: dict[float, float] = {}
    for seed in sorted({seed for _, seed, _ in at}):
        looks = sorted(
            (n, v["log_likelihood"]) for (a, s, n), v in at.items() if (a, s) == ("mcem-ch", seed)
        )
        if ("mcem-c", seed, early) not in at or not looks or looks[-1][0] < early:
            continue
        goal = at["mcem-c", seed, early]["log_likelihood"]
        reached = [n for n, value in looks if value >= goal]
        if reached:
            within[seed] = max((n for n, _ in looks if n < reached[0]), default=0.0), reached[0]
        else:
            not_yet[seed] = looks[-1][0]
    said = []
    if within:
        low, high = min(x for x, _ in within.values()), max(x for _, x in within.values())
        said.append(f"between iterations {low:,.0f} and {high:,.0f} ({which_seeds(within)})")
    if not_yet:
        said.append(
            f"not yet at iteration {between(list(not_yet.values()))} ({which_seeds(not_yet)})"
        )
    if not said:
        return ""
    return f"What MCEM-C has after {early:.0f} iterations, MCEM-CH has {', '.join(said)}."


def which_seeds(seeds: Iterable[float]) -> str:
    """Return "seed 0" or "seeds 0 and 1"."""
    names = [f"{seed:.0f}" for seed in seeds]
    return f"seed{'s' if len(names) > 1 else ''} {listed(names)}"


def lead_of_h(tokens: float) -> str:
    """Return how far MCEM-H is ahead, and whether it is similar to MCEM-CH."""
    of_c = {key: gap for key, (gap, _) in leads("mcem-h").items()}
    if not of_c:
        return ""
    at, ends = values(), last_looks(of_c)
    of_h = {key: -gap / tokens for key, gap in of_c.items()}
    text = (
        "MCEM-H has an M-step that averages over C, where the two others use draws of C. At the last common look, in nats "
        f"per token, it {at_the_last_looks(of_h, 'MCEM-C')}."
    )
    for seed, n in ends.items():
        mine = at["mcem-h", seed, n]["log_likelihood"]
        last = max(m for a, s, m in at if (a, s) == ("mcem-c", seed))
        if last > n and mine > at["mcem-c", seed, last]["log_likelihood"]:
            text += f" After {n:,.0f} iterations it is above MCEM-C after {last:,.0f} (seed {seed:.0f})."
    of_ch = {key: gap for key, (gap, _) in leads("mcem-ch").items()}
    times = [
        abs(of_ch[key] - of_c[key]) / abs(of_ch[key]) for key in ends.items() if of_ch.get(key)
    ]
    if times and min(times) > CLEAR:
        text += (
            f" So in likelihood MCEM-H is not similar to MCEM-CH: it is {between(times, 2)} times as far from it as "
            "MCEM-C is."
        )
    return text


def beside_the_default(tokens: float) -> str:
    """Return how far the default schedule comes with the same seed, if `race` judges the same documents."""
    if head("race")["findings"]["tokens_judged"] != tokens:
        return ""
    for ours in race_runs(learned=False).get(OURS, []):
        papers = last_of_mcem_c(ours["seed"])
        if papers is not None:
            n, value = papers
            gap = ours["log_likelihood"] - value / tokens
            return (
                f"To compare: after {ours['sweeps']:,} sweeps the default schedule (seed {ours['seed']}) is "
                f"{ahead_by([gap], f'MCEM-C after {n:,.0f} iterations', UNIT)}. "
                f"The latter are {250 * n:,.0f} sweeps (see `race`)."
            )
    return ""


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
        "the same from 0.9 on:",
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
    return text + (": where a run goes depends on chance." if min(common) < n_components else ".")
