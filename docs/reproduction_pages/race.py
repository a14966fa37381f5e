"""The section of race."""

from __future__ import annotations

from itertools import pairwise
from math import log

from reproduction_pages.nips_results import (
    MOST,
    N_ERRORS,
    OURS,
    PAPERS,
    PAPERS_SWEEPS,
    UNIT,
    ends_of_fig4,
    judged_alike,
    last_row,
    race_runs,
    shares_of_h,
)
from reproduction_pages.words import (
    ahead_by,
    between,
    count,
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
A_LITTLE_MORE = 1.05  # sweeps per iteration of a run of single sweeps: some more judge its windows
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
        "and its M-step uses draws of C. The others begin with one sweep per iteration, and use E[C | h]. The default has momentum besides, SAEM has not. "
        f"The log-likelihood is that of {judged(s['part'])} ({f['tokens_judged']:,} tokens, standard error at most "
        f"{number(error, 1)} nats per token). The documents are among those fitted.",
        "The table has sweeps and CPU seconds at the end, log-likelihood in nats per token for each seed, and CPU seconds "
        f"until a look within {f['near']:g} of the best schedule with the same seed. These times are coarse: each look "
        f"but the last comes after at least {s['growth']:g} times as many sweeps as the one before. The lower row of the picture is a close-up of the ends. "
        "Earlier looks are below the panels.",
        table(["", "schedule", "sweeps", "seconds", "log-likelihood", "until near"], lines),
        limits(fixed, learned, s["max_iter"]),
        papers_end(fixed, f["tokens_judged"]),
        remark_on_saem(fixed, f["tokens_judged"]),
        beside_the_default(fixed, learned),
        *at_equal_time(),
        f"{learning}(To add a contender, add one line to `gapmf/reproduce/race.py`.)",
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


def limits(fixed: dict[str, list[dict]], learned: dict[str, list[dict]], max_iter: int) -> str:
    """Return which runs ended at the largest number of iterations, not by themselves.

    These have one sweep per iteration, and some more.
    """
    said = []
    for form, name in FORMS.items():
        runs = [*fixed.get(form, []), *learned.get(form, [])]
        capped = [run for run in runs if max_iter <= run["sweeps"] <= A_LITTLE_MORE * max_iter]
        if capped:
            said.append(f"{count(len(capped), len(runs))} runs of {name}")
    if not said:
        return ""
    text = listed(said)
    return (
        f"{text[0].upper()}{text[1:]} went on to the limit of {max_iter:,} iterations, so that their seconds at the end are "
        "those of this limit."
    )


def papers_end(fixed: dict[str, list[dict]], tokens: float) -> str:
    """Return where the paper's schedule ends, and what it lacks."""
    if not fixed.get(PAPERS):
        return ""
    short = fixed[PAPERS][0]
    text = f"With α = 1, the paper's schedule was given {short['sweeps'] // PAPERS_SWEEPS} iterations here, not its 1,000."
    steps = [
        (looks[-2], looks[-1]) for looks in traces(PAPERS, learned=False).values() if len(looks) > 1
    ]
    if steps:
        late = " to ".join(
            f"{n:,.0f}" for n in ends_of({b["sweeps"] - a["sweeps"] for a, b in steps})
        )
        gained = [b["log_likelihood"] - a["log_likelihood"] for a, b in steps]
        text += f" In its last {late} sweeps it gained {between(gained, 1)} nats per token."
    papers = last_row("mcem-c", short["seed"])
    best = [run for run in fixed.get(OURS, []) if run["seed"] == short["seed"]]
    if papers is None or not best or not judged_alike():
        return text
    end = papers["log_likelihood"] / tokens
    text += (
        f" Where it would go is in `fig4`: after {papers['iteration']:,.0f} iterations (seed {short['seed']}) it is at "
        f"{minus(f'{end:.4f}')}, {ahead_by([end - short['log_likelihood']], 'its end here')} and "
        f"{ahead_by([end - best[0]['log_likelihood']], 'the default schedule')}. These took {number(papers['cpu_seconds'])} s, "
        f"the default {number(best[0]['cpu_seconds'], 2)} s."
    )
    shares = shares_of_h(fixed[OURS], ends_of_fig4("mcem-c", tokens), tokens)
    if shares and min(shares) > MOST:
        text += (
            " The default differs in three things: fewer sweeps per iteration, E[C | h], and momentum. Averaging over C alone "
            f"gives most of its higher end: MCEM-H in the paper's schedule has {between([100 * x for x in shares], 2)} % of "
            "the difference (see `fig4`). What the default saves is time."
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


FORMS = {RESTARTED: "SAEM with restarts", TEXTBOOK: "the textbook's SAEM"}


def remark_on_saem(fixed: dict[str, list[dict]], tokens: float) -> str:
    """Return how each form of SAEM ends beside the paper's schedule, and how much of that is SAEM's."""
    forms = {form: name for form, name in FORMS.items() if form in fixed}
    said = []
    better = [form for form in forms if improves(fixed, form, PAPERS)]
    if better and not any(improves(fixed, form, OURS) for form in better):
        said.append("Whether the remark about SAEM holds depends on what it is compared with.")
    for form, name in forms.items():
        gaps = gains(fixed, form, fixed, PAPERS)
        if gaps:
            begin = (
                "With α = 1, " + name if form == next(iter(forms)) else name[0].upper() + name[1:]
            )
            said.append(
                f"{begin} ends {ahead_by(gaps, 'the schedule of the paper', UNIT)}, {in_time(fixed, form, PAPERS)}."
            )
    of_h = ends_of_fig4("mcem-h", tokens) if judged_alike() else {}
    beside = []
    for form, name in forms.items():
        runs = [run for run in fixed[form] if run["seed"] in of_h]
        if runs:
            gaps = [run["log_likelihood"] - of_h[run["seed"]] for run in runs]
            when = f"after {between([run['cpu_seconds'] for run in runs])} s"
            beside.append(f"{name} ends {ahead_by(gaps, 'it', UNIT)}, {when}")
    if beside:
        slow = [last_row("mcem-h", seed) for seed in of_h]
        said.append(
            "MCEM-H of `fig4` averages over C in the paper's schedule: its "
            f"{between([row['iteration'] for row in slow])} iterations take {between([row['cpu_seconds'] for row in slow])} s. "
            f"Beside its end, {listed(beside)}."
        )
    base = {run["seed"]: run["log_likelihood"] for run in fixed.get(PAPERS, [])}
    shares = [x for form in forms for x in shares_of_h(fixed[form], base, tokens)] if of_h else []
    if shares and min(shares) > MOST:
        said.append(
            f"So MCEM-H has {between([100 * x for x in shares], 2)} % of what SAEM ends above the schedule of the paper. Most "
            "of this is not SAEM's: here it uses E[C | h], where the paper's schedule has draws of C. SAEM with draws of C was "
            "not run."
        )
    return " ".join(said)


def beside_the_default(fixed: dict[str, list[dict]], learned: dict[str, list[dict]]) -> str:
    """Return how each form of SAEM ends beside the default."""
    said = []
    for form, name in FORMS.items():
        for label, runs in {"α = 1": fixed, "α learned": learned}.items():
            gaps = gains(runs, form, runs, OURS)
            if gaps:
                verdict = " (an improvement)" if improves(runs, form, OURS) else ""
                said.append(
                    f"With {label}, {name} ends {ahead_by(gaps, 'the default', UNIT)}, "
                    f"{in_time(runs, form, OURS)}{verdict}."
                )
    if said:
        said.append("(The default has momentum, SAEM has not. SAEM with momentum was not run.)")
    return " ".join(said)


def at_equal_time() -> tuple[str, ...]:
    """Return how far SAEM is ahead of the default at equal CPU time, for each look and seed."""
    gaps = [
        (label, gap)
        for learned, label in ((False, "α = 1"), (True, "α learned"))
        for gap in equal_time_gaps(learned=learned)
    ]
    if not gaps:
        return ()
    lines = [
        [
            label,
            f"{gap['seed']:.0f}",
            "both forms" if len(gap["forms"]) > 1 else FORMS[gap["forms"][0]],
            f"{gap['sweeps']:,.0f}",
            between(gap["seconds"], 2),
            between(gap["gaps"], 2),
            verdict_on(gap),
        ]
        for label, gap in gaps
    ]
    words = [verdict_on(gap) for _, gap in gaps]
    error = max(max(gap["errors"]) for _, gap in gaps)
    shared = [len(gap["forms"]) > 1 for _, gap in gaps]
    text = (
        f"At equal CPU time SAEM is ahead of the default at {count(words.count('ahead'), len(words))} looks and behind at "
        f"{words.count('behind') or 'none'}: looks after {SECONDS:g} s, while the default runs. The default is interpolated "
        "between its looks, linearly in log time."
    )
    if any(shared):
        text += " Both forms begin as the same run. A look at this counts once, and the clocks of the two give two differences."
    if all(shared):
        text += " The default has ended before the two forms differ."
    text += (
        f" A difference has a standard error of at most {number(error, 1)}. Within two of these it is level, and also if the "
        "clocks give both signs. The error of interpolation is not known: where the likelihood bends down, a chord is below "
        "it, which favours SAEM."
    )
    columns = ["", "seed", "SAEM", "sweeps", "seconds", "SAEM less the default", "SAEM is"]
    return text, table(columns, lines)


def verdict_on(gap: dict) -> str:
    """Return "ahead", "behind" or "level"."""
    pairs = list(zip(gap["gaps"], gap["errors"], strict=True))
    if all(x > N_ERRORS * e for x, e in pairs):
        return "ahead"
    return "behind" if all(x < -N_ERRORS * e for x, e in pairs) else "level"


def equal_time_gaps(*, learned: bool) -> list[dict]:
    """Return the differences of SAEM and the default at the looks at SAEM, by seed.

    A look at which both forms have made the same sweeps and have the same likelihood is one look,
    with the times of two clocks.
    """
    default = traces(OURS, learned=learned)
    found: dict[tuple, dict] = {}
    for form in FORMS:
        for seed, looks in traces(form, learned=learned).items():
            for look in looks:
                there = interpolated(default.get(seed, []), look["cpu_seconds"])
                if there is None:
                    continue
                key = seed, look["sweeps"], look["log_likelihood"]
                gap = found.setdefault(key, {"seed": seed, "sweeps": look["sweeps"]})
                value, error = there
                for name, x in (
                    ("forms", form),
                    ("seconds", look["cpu_seconds"]),
                    ("gaps", look["log_likelihood"] - value),
                    ("errors", (look["std_error"] ** 2 + error**2) ** 0.5),
                ):
                    gap.setdefault(name, []).append(x)
    return [gap for _, gap in sorted(found.items()) if max(gap["seconds"]) > SECONDS]


def interpolated(looks: list[dict], time: float) -> tuple[float, float] | None:
    """Return log-likelihood and standard error at a time, linear in its logarithm, while a run goes on."""
    for a, b in pairwise(looks):
        if a["cpu_seconds"] <= time <= b["cpu_seconds"]:
            share = log(time / a["cpu_seconds"]) / log(b["cpu_seconds"] / a["cpu_seconds"])
            value = a["log_likelihood"] + share * (b["log_likelihood"] - a["log_likelihood"])
            return value, max(a["std_error"], b["std_error"])
    return None


def judged(part: dict) -> str:
    """Return which documents are judged."""
    return "all documents" if part["judged"] == 1 else f"every {part['judged']}th document"


def ends_of(values: set) -> list:
    """Return the smallest and the largest value, or the only one."""
    return sorted({min(values), max(values)})
