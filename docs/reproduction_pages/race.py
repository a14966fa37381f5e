"""The section of race."""

from __future__ import annotations

from reproduction_pages.nips_results import (
    OURS,
    PAPERS,
    UNIT,
    last_looks,
    last_of_mcem_c,
    leads,
    race_runs,
)
from reproduction_pages.words import (
    ahead_by,
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

SECONDS = 1.0  # schedules are compared at looks after this
RESTARTED, TEXTBOOK = "SAEM, γ restarted", "SAEM, textbook"


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
    worth = gains(learned, OURS, fixed, OURS)
    learning = (
        f"On the documents fitted, the default with α learned ends {ahead_by(worth, 'that with α = 1', UNIT)}. "
        if worth
        else ""
    )
    return section(
        "race",
        "schedules on NIPS",
        "gapmf reproduce race --data NIPS_DIR -o DIR",
        "race",
        '**The paper** says that MCEM-C "still takes a few hours to converge", and that stochastic '
        'variants of EM such as SAEM "did not result in significant improvements in our case". It does not '
        "say how many draws they had per iteration, and treats α as fixed.",
        f"**Here** MCEM-C is run from the paper's starting point with K = {s['n_components']}, one thread and "
        f"{several(len(seeds), 'seed')}, by these schedules: {listed_schedules(fixed)}. The paper's has 250 sweeps per iteration, "
        "and its M-step uses draws of C. The others begin with one sweep per iteration, and use E[C | h]. "
        f"The log-likelihood is that of {judged(s['part'])} ({f['tokens_judged']:,} tokens, standard error at most "
        f"{number(error, 1)} nats per token). The documents are among those fitted.",
        "The table has sweeps and CPU seconds at the end, log-likelihood in nats per token for each seed, and CPU seconds "
        f"until a look within {f['near']:g} of the best schedule with the same seed. These times are coarse: each look "
        f"but the last comes after at least {s['growth']:g} times as many sweeps as the one before.",
        table(["", "schedule", "sweeps", "seconds", "log-likelihood", "until near"], lines),
        papers_end(fixed, f["tokens_judged"]),
        f"{remark_on_saem(fixed, learned)}{learning}(To add a contender, add one line to `gapmf/reproduce/race.py`.)",
    )


SCHEDULES = {
    PAPERS: "the paper's",
    OURS: "the default",
    RESTARTED: 'SAEM with a step size γ that starts again in every window (`schedule="saem"`)',
    TEXTBOOK: "SAEM in the textbook's form (Kuhn and Lavielle)",
}


def listed_schedules(fixed: dict[str, list[dict]]) -> str:
    """Return what was run."""
    return listed([SCHEDULES.get(contender, contender) for contender in fixed])


def gains(
    a: dict, contender: str, b: dict, other: str, column: str = "log_likelihood"
) -> list[float]:
    """Return the difference of two contenders at the end, for each seed that both have."""
    theirs = {run["seed"]: run[column] for run in b.get(other, [])}
    return [
        run[column] - theirs[run["seed"]] for run in a.get(contender, []) if run["seed"] in theirs
    ]


def papers_end(fixed: dict[str, list[dict]], tokens: float) -> str:
    """Return where the paper's schedule ends, and what it lacks."""
    if not fixed.get(PAPERS):
        return ""
    short = fixed[PAPERS][0]
    text = (
        f"The paper's schedule was given {short['sweeps'] // 250} iterations here, not its 1,000."
    )
    steps = [
        (looks[-2], looks[-1]) for looks in traces(PAPERS, learned=False).values() if len(looks) > 1
    ]
    if steps:
        late = " to ".join(
            f"{n:,.0f}" for n in ends_of({b["sweeps"] - a["sweeps"] for a, b in steps})
        )
        gained = [b["log_likelihood"] - a["log_likelihood"] for a, b in steps]
        text += f" In its last {late} sweeps it gained {between(gained, 1)} nats per token."
    papers = last_of_mcem_c(short["seed"])
    best = [run for run in fixed.get(OURS, []) if run["seed"] == short["seed"]]
    if papers is not None and best and head("fig4")["findings"]["tokens_judged"] == tokens:
        n, value = papers
        end = value / tokens
        text += (
            f" Where it would go is in `fig4`: after {n:,.0f} iterations (seed {short['seed']}) it is at "
            f"{minus(f'{end:.4f}')}, {ahead_by([end - short['log_likelihood']], 'its end here')} and "
            f"{ahead_by([end - best[0]['log_likelihood']], 'the default schedule')}."
        )
    of_h = {key: gap for key, (gap, _) in leads("mcem-h").items()}
    ends = [of_h[key] for key in last_looks(of_h).items()]
    if ends and max(ends) < 0:
        text += (
            " More of the same sweeps are not all it lacks. MCEM-H, which averages over C, has a higher likelihood than "
            "MCEM-C after as many sweeps (see `fig4`)."
        )
    return text


def traces(contender: str, *, learned: bool) -> dict[float, list[dict]]:
    """Return the looks at a contender, by seed."""
    found: dict[float, list[dict]] = {}
    for row in rows("race"):
        if (row["contender"], row["alpha_learned"]) == (contender, str(learned)):
            found.setdefault(row["seed"], []).append(row)
    return found


def improves(a: dict, contender: str, other: str) -> bool:
    """Return whether a contender ends higher than another and in less time, with every seed."""
    higher = gains(a, contender, a, other)
    slower = gains(a, contender, a, other, "cpu_seconds")
    return bool(higher) and min(higher) > 0 and max(slower) < 0


def in_time(a: dict, contender: str, other: str) -> str:
    """Return whether a contender needs less time than another."""
    slower = gains(a, contender, a, other, "cpu_seconds")
    if max(slower) < 0:
        return "in less CPU time"
    return "in more CPU time" if min(slower) > 0 else "with some seeds in less CPU time"


def remark_on_saem(fixed: dict[str, list[dict]], learned: dict[str, list[dict]]) -> str:
    """Return how each form of SAEM ends, and what this says of the paper's remark."""
    forms = {RESTARTED: "SAEM with restarts", TEXTBOOK: "the textbook's SAEM"}
    forms = {form: name for form, name in forms.items() if form in fixed}
    said = []
    better = [form for form in forms if improves(fixed, form, PAPERS)]
    if better and not any(improves(fixed, form, OURS) for form in better):
        said.append("Whether the remark about SAEM holds depends on what it is compared with.")
    for form, name in forms.items():
        begin = name[0].upper() + name[1:]
        papers = gains(fixed, form, fixed, PAPERS)
        if papers:
            verdict = ": that is an improvement" if improves(fixed, form, PAPERS) else ""
            said.append(
                f"{begin} ends {ahead_by(papers, 'the schedule of the paper', UNIT)}, "
                f"{in_time(fixed, form, PAPERS)}{verdict}."
            )
        for label, runs in {"With α = 1": fixed, "With α learned": learned}.items():
            gaps = gains(runs, form, runs, OURS)
            if gaps:
                verdict = " (an improvement)" if improves(runs, form, OURS) else ""
                said.append(
                    f"{label} it ends {ahead_by(gaps, 'the default', UNIT)}, {in_time(runs, form, OURS)}{verdict}"
                    f"{at_equal_time(form, learned=runs is learned)}."
                )
    if not said:
        return ""
    said.append(
        f"(At equal CPU time: at looks after {SECONDS:g} s, while the default runs. The default counts at its next look.)"
    )
    return " ".join(said) + " "


def at_equal_time(contender: str, *, learned: bool) -> str:
    """Return at how many looks a contender is ahead of the default, and when.

    The default has the value of its next look, so that it never had less time.
    """
    default = traces(OURS, learned=learned)
    ahead, n = [], 0
    for seed, looks in traces(contender, learned=learned).items():
        for look in looks:
            time = look["cpu_seconds"]
            later = [x for x in default.get(seed, []) if x["cpu_seconds"] >= time]
            if later and time > SECONDS:
                n += 1
                if look["log_likelihood"] > later[0]["log_likelihood"]:
                    ahead.append(time)
    if not n:
        return ""
    when = f" (after {between(ahead, 2)} s)" if ahead else ""
    return (
        f"; at equal CPU time it is ahead at {len(ahead) or 'none'} of {several(n, 'look')}{when}"
    )


def judged(part: dict) -> str:
    """Return which documents are judged."""
    return "all documents" if part["judged"] == 1 else f"every {part['judged']}th document"


def ends_of(values: set) -> list:
    """Return the smallest and the largest value, or the only one."""
    return sorted({min(values), max(values)})
