"""The sections of fig4 and race."""

from __future__ import annotations

from reproduction_pages.words import (
    NAMES,
    OTHERS,
    between,
    head,
    listed,
    minus,
    number,
    rows,
    section,
    several,
    table,
)

FIRST_SHOWN = 10  # iteration
LATE = 100  # iterations after which components tell where a run ends
PAPERS, OURS = "the paper's", "adaptive (default)"
RESTARTED, TEXTBOOK = "SAEM, γ restarted", "SAEM, textbook"


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
    ends = {(run["algorithm"], run["seed"]): run for run in runs}
    pairs = {
        seed: (run["norms_settle_after"], ends["mcem-ch", seed]["norms_settle_after"])
        for (algorithm, seed), run in ends.items()
        if algorithm == "mcem-c"
        and ("mcem-ch", seed) in ends
        and all(ends[a, seed]["iterations"] == run["planned"] for a in ("mcem-c", "mcem-ch"))
    }
    errors = [v["std_error"] for v in rows("fig4-likelihood")]
    return section(
        "fig4",
        "NIPS",
        "gapmf reproduce fig4 --data NIPS_DIR -o DIR",
        "norms on NIPS",
        "**The paper** runs MCEM-C and MCEM-CH with K = 10 and α = β = 1 for 1,000 iterations, with 125 draws "
        'after a burn-in of 125. MCEM-C "converges dramatically faster than MCEM-CH", though it "still '
        'takes a few hours to converge". In its figure the two "converge to different solutions"; in other runs '
        'MCEM-C "is consistently faster", and they "do not always converge to the same solution". MCEM-H is '
        "similar to MCEM-CH and not shown.",
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
        settling(pairs),
        "The right panel shows what the paper could not: the log-likelihood of "
        f"all {f['documents']:,} documents ({tokens:,} tokens), estimated with {s['n_particles']} particles per "
        "document and the same random numbers for all models. Its standard error is "
        f"{between(errors, 2)} nats, that is {between([e / tokens for e in errors], 1)} nats per token. Its values, "
        "and how far MCEM-C is ahead of the others at the same iteration, in nats:",
        table(["seed", "iteration", "MCEM-C", *(f"ahead of {NAMES[a]}" for a in OTHERS)], ahead()),
        in_words(tokens),
        *solutions(f["solutions"], s["n_components"]),
    )


def settling(pairs: dict[int, tuple[int, int]]) -> str:
    """Return when the norms of MCEM-C and MCEM-CH have settled, by seed."""
    if not pairs:
        return ""
    shown = listed([f"{ch:,} instead of {c:,} (seed {seed})" for seed, (c, ch) in pairs.items()])
    clear = all(ch > 2 * c for c, ch in pairs.values())
    claim = (
        "The norms of MCEM-C settle far earlier, as in the paper's figure: those"
        if clear
        else "Those"
    )
    return (
        f"{claim} of MCEM-CH settle after {shown} iterations. (Each is measured by its own last "
        "values, which flatters a run that is still moving.)"
    )


def values() -> dict:
    """Return the rows of the likelihood by algorithm, seed and iteration."""
    return {(v["algorithm"], v["seed"], v["iteration"]): v for v in rows("fig4-likelihood")}


def leads(other: str) -> dict[tuple[float, float], tuple[float, float]]:
    """Return by how much MCEM-C is ahead of another algorithm, by seed and iteration; the error."""
    at, found = values(), {}
    for algorithm, seed, n in at:
        if algorithm == "mcem-c" and (other, seed, n) in at and n >= FIRST_SHOWN:
            mine, theirs = at["mcem-c", seed, n], at[other, seed, n]
            error = (mine["std_error"] ** 2 + theirs["std_error"] ** 2) ** 0.5
            found[seed, n] = mine["log_likelihood"] - theirs["log_likelihood"], error
    return found


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
    """Return what the likelihoods say about speed."""
    found = {key: gap / tokens for key, (gap, _) in leads("mcem-ch").items()}
    seeds = sorted({seed for seed, _ in found})
    ends = [found[one, max(n for seed, n in found if seed == one)] for one in seeds]
    caught = [text for seed in seeds for n in (20.0, 50.0) if (text := caught_up(seed, n))]
    n_last, last = max(
        (n, v["log_likelihood"] / tokens)
        for (a, seed, n), v in values().items()
        if (a, seed) == ("mcem-c", seeds[0])
    )
    ours = [run for run in race_runs(learned=False)[OURS] if run["seed"] == seeds[0]]
    beyond = ""
    if ours and head("race")["findings"]["tokens_judged"] == tokens:
        beyond = (
            f"To compare: after {ours[0]['sweeps']:,} sweeps the default schedule with the same seed is "
            f"{ahead_by([ours[0]['log_likelihood'] - last], f'MCEM-C after {n_last:,.0f} iterations')}, in nats per "
            f"token; these are {250 * n_last:,.0f} sweeps (see `race`)."
        )
    return (
        "So the lead of MCEM-C in likelihood is small, where the norms look striking: from the tenth "
        f"iteration on the two differ by at most {number(max(map(abs, found.values())), 2)} nats per token. "
        f"{' '.join(caught)} At the last look MCEM-C is {between(ends, 2)} nats per token ahead. {beyond}"
    )


def caught_up(seed: float, early: float) -> str:
    """Return when MCEM-CH has the likelihood of MCEM-C at an early iteration, between two looks."""
    at = values()
    if ("mcem-c", seed, early) not in at:
        return ""
    goal = at["mcem-c", seed, early]["log_likelihood"]
    looks = sorted(
        (n, v["log_likelihood"]) for (a, s, n), v in at.items() if (a, s) == ("mcem-ch", seed)
    )
    after = [n for n, value in looks if value >= goal]
    what = f"What MCEM-C has after {early:.0f} iterations (seed {seed:.0f}), MCEM-CH has"
    if not after:
        return f"{what} not even after {looks[-1][0]:,.0f}."
    before = [n for n, _ in looks if n < after[0]]
    return f"{what} between iterations {max(before, default=0):,.0f} and {after[0]:,.0f}."


def solutions(found: list[dict], n_components: int) -> tuple[str, str, str]:
    """Return whether runs end at the same components."""
    kinds = {
        ("mcem-ch", "mcem-c"): "MCEM-C and MCEM-CH, same seed",
        ("mcem-ch", "mcem-h"): "MCEM-H and MCEM-CH, same seed",
        ("mcem-c", "mcem-c"): "MCEM-C, different seeds",
    }
    common: dict[tuple, list[int]] = {kind: [] for kind in kinds}
    lines = []
    for row in sorted(found, key=lambda row: list(kinds).index(tuple(row["algorithms"]))):
        kind = tuple(row["algorithms"])
        if row["iteration"] >= LATE:
            common[kind].append(row["components_in_common"])
        seeds = listed([str(seed) for seed in dict.fromkeys(row["seeds"])])
        lines.append(
            [
                kinds[kind],
                seeds,
                f"{row['iteration']:,}",
                f"{row['components_in_common']} of {n_components}",
                f"{row['overlap'][0]:.3f}",
                f"{row['overlap'][2]:.3f}",
            ]
        )
    if not lines:
        return "", "", ""
    same, chance = common["mcem-ch", "mcem-c"], common["mcem-c", "mcem-c"]
    said = []
    if same and min(same) == n_components:
        said.append(
            "From the same seed, the two algorithms end at different points, but with the same components; "
            "whether they would meet is open."
        )
    elif same:
        said.append(
            f"From the same seed, the two algorithms have {between(same, 2)} of {n_components} components in "
            "common: they do converge to different solutions."
        )
    if chance:
        said.append(
            f"MCEM-C from different seeds has {between(chance, 2)} in common"
            + (
                ". So which solution is found depends on chance, and the cost has several minima, as the "
                "paper says."
                if min(chance) < n_components
                else "."
            )
        )
    columns = ["", "seeds", "iteration", "in common", "smallest overlap", "median overlap"]
    return (
        "**The same solution?** The components of two runs are matched, after as many iterations as both "
        "have. Two components with the distributions of words p and q overlap by Σ_f √(p_f q_f), and count as "
        "the same from 0.9 on:",
        table(columns, lines),
        " ".join(said),
    )


def race_runs(*, learned: bool) -> dict[str, list[dict]]:
    """Return the runs of each contender."""
    found: dict[str, list[dict]] = {}
    for run in head("race")["findings"]["runs"]:
        if run["alpha_learned"] == learned:
            found.setdefault(run["contender"], []).append(run)
    return found


def race() -> str:
    found = head("race")
    f, s = found["findings"], found["settings"]
    fixed, learned = race_runs(learned=False), race_runs(learned=True)
    lines = []
    for label, contenders in (("α = 1", fixed), ("α learned", learned)):
        for contender, runs in contenders.items():
            near = [run["cpu_seconds_until_near"] for run in runs]
            when = [x for x in near if x is not None]
            shown = between(when, 2) if when else "never"
            if when and len(when) < len(near):
                shown += f" ({len(when)} of {len(near)} seeds)"
            lines.append(
                [
                    label,
                    contender,
                    " to ".join(f"{n:,}" for n in ends_of({run["sweeps"] for run in runs})),
                    between([run["cpu_seconds"] for run in runs]),
                    ", ".join(minus(f"{run['log_likelihood']:.4f}") for run in runs),
                    shown,
                ]
            )
    seeds = sorted({run["seed"] for runs in fixed.values() for run in runs})
    error = max(run["std_error"] for run in f["runs"])

    def gain(a: dict, contender: str, b: dict, other: str) -> list[float]:
        theirs = {run["seed"]: run["log_likelihood"] for run in b[other]}
        return [
            run["log_likelihood"] - theirs[run["seed"]]
            for run in a[contender]
            if run["seed"] in theirs
        ]

    n_last, end = max(
        (n, v["log_likelihood"] / f["tokens_judged"])
        for (a, seed, n), v in values().items()
        if (a, seed) == ("mcem-c", seeds[0])
    )
    short = next(run for run in fixed[PAPERS] if run["seed"] == seeds[0])
    best = next(run for run in fixed[OURS] if run["seed"] == seeds[0])
    beyond = ""
    if f["tokens_judged"] == head("fig4")["findings"]["tokens_judged"]:
        beyond = (
            f" Where it would go is in `fig4`: after {n_last:,.0f} iterations (seed {seeds[0]}) it is at "
            f"{minus(f'{end:.4f}')}, {ahead_by([end - short['log_likelihood']], 'its end here')} and "
            f"{ahead_by([end - best['log_likelihood']], 'the default schedule')}."
        )
    forms = {RESTARTED: "SAEM with restarts", TEXTBOOK: "the textbook's form"}
    forms = {label: name for label, name in forms.items() if label in fixed}
    better = [x for label in forms for x in gain(fixed, label, fixed, PAPERS)]
    rivals = [
        f"{name} ends {ahead_by(gain(fixed, label, fixed, OURS))}" for label, name in forms.items()
    ]
    worth = gain(learned, OURS, fixed, OURS)
    return section(
        "race",
        "schedules on NIPS",
        "gapmf reproduce race --data NIPS_DIR -o DIR",
        "race",
        '**The paper** says that MCEM-C "still takes a few hours to converge", and that stochastic '
        'variants of EM such as SAEM "did not result in significant improvements in our case". It does not '
        "say how many draws they had per iteration, and treats α as known.",
        f"**Here** MCEM-C is run from the paper's starting point with K = {s['n_components']}, one thread and "
        f"{several(len(seeds), 'seed')}, by these schedules: the paper's; the default; SAEM in the textbook's form "
        "(Kuhn and Lavielle), and with a step size γ that starts again in every window "
        '(`schedule="saem"`). All but the paper\'s, which has 250, begin with one sweep per iteration. The '
        f"log-likelihood is that of {judged(s['part'])} ({f['tokens_judged']:,} tokens, standard error at most {number(error, 1)} nats per token). "
        f"Sweeps and CPU seconds at the end, log-likelihood in nats per token for each seed, and CPU seconds "
        f"until a look within {f['near']:g} of the best schedule with the same seed (each look after {s['growth']:g} times as "
        "many sweeps as the one before):",
        table(["", "schedule", "sweeps", "seconds", "log-likelihood", "until near"], lines),
        f"The paper's schedule was given {short['sweeps'] // 250} iterations here, not its 1,000.{beyond} Hundreds of "
        "sweeps at every W buy precision while the distance to the maximum is what matters.",
        "So the remark about SAEM depends on what it is compared with. It ends "
        f"{ahead_by(better, 'the schedule of the paper')}, in nats per token, and in less time: that is an improvement. "
        f"Against Monte Carlo EM that begins with as few sweeps, the default, {listed(rivals)}: that is none. "
        f"Learning α is worth {between(worth, 2)} nats per token. (To add a contender, add one line to "
        "`gapmf/reproduce/race.py`.)",
    )


def judged(part: dict) -> str:
    """Return which documents are judged."""
    return "all documents" if part["judged"] == 1 else f"every {part['judged']}th document"


def ends_of(values: set) -> list:
    """Return the smallest and the largest value, or the only one."""
    return sorted({min(values), max(values)})


def ahead_by(gaps: list[float], what: str = "it") -> str:
    """Return differences to something in words."""
    if min(gaps) >= 0:
        return f"{between(gaps, 2)} above {what}"
    if max(gaps) <= 0:
        return f"{between([-x for x in gaps], 2)} below {what}"
    return f"between {number(-min(gaps), 2)} below and {number(max(gaps), 2)} above {what}"
