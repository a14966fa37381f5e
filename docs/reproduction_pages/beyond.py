"""The sections of rates and spare, and the page of the spare columns."""

from __future__ import annotations

from math import inf

from reproduction_pages.words import (
    between,
    data_sets,
    extremes,
    head,
    listed,
    number,
    percent,
    rows,
    section,
    spread,
    table,
    wrapped,
)

WITHIN = 2.0  # a factor that a measured rate may be off


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
    ratio = [row["em_ch_per_digit"] / row["em_c_per_digit"] for row in all_rows]
    apart = [x for x, r in zip(fano, ratio, strict=True) if r > 2.0]
    dispersed = [m for m in f["medians"] if m["alpha"] >= 3.0]
    return section(
        "rates",
        "why MCEM-C is faster",
        "gapmf reproduce rates -o DIR",
        "rates",
        '**The paper** says of V₂ that the "drastic difference in convergence is unexplained at this stage", '
        'and conjectures "that this is linked to the over-dispersion of the data (i.e. when the variance is '
        'greater than the mean), which increases with the scale of W".',
        "**Here** is why. With one E-step both EMs give the same column "
        "directions, and norms that are related by S_CH = S_C (β + S)/(β + S_C). Differentiation "
        "gives J_CH = R + (I − R) J_C, where R has the eigenvalues 0 and ρ = S/(S + β), one for each column. "
        "So EM-CH cannot be faster than the largest ρ (dashed). The size of a component in a sample is negative "
        "binomial, L ~ NB(α, ρ), with Var[L]/E[L] = 1/(1 − ρ): **ρ is the over-dispersion** of the "
        "component's counts, one minus the inverse of their Fano factor. EM-C integrates the activations "
        "out and has no such bound. What is left for it is what the counts leave open about which component "
        "they came from.",
        f"The expected counts are those of W₁* times the scale, for every α (N = {s['n_samples']}, "
        f"K = {s['n_components']}, {data_sets(s['n_sets'])} per cell, fitted to the exact maximum). "
        "Median iterations per digit of EM-C / EM-CH, and the Fano factor of the larger component:",
        table(["α", *(f"scale {scale:g}" for scale in s["scales"])], lines),
        "So the paper's conjecture is confirmed, with a qualification. Over-dispersion is what slows "
        f"EM-CH down: of {len(all_rows)} data sets, it is faster than its bound in {f['em_ch_below_rho'] or 'none'} and faster "
        f"than EM-C in {f['em_c_above_em_ch'] or 'none'}. In {len(apart)} it needs more than twice the iterations of EM-C, and "
        f"there the Fano factor is at least {number(min(apart), 2)}. It is not the scale as such: at the same "
        "expected counts the gap closes as α grows (read a column downwards). But over-dispersion alone does "
        "not make a gap: for α = 3 and more the median ratio of a cell is at most "
        f"{number(max(m['ratio'][2] for m in dispersed), 2)} (this is not the ratio of the medians in the table), even at a Fano "
        f"factor of {number(max(m['fano'] for m in dispersed), 2)}. There, presumably because components are hard "
        f"to tell apart, EM-C itself is slower than ρ, and nothing is gained by avoiding the bound.{outside(f['slower_than_shown'])}",
        measured(all_rows, s["n_iter"]),
    )


def measured(found: list[dict], n_iter: int) -> str:
    """Return how far the rates can be checked by iterates: by 1 − rate, on which the table depends."""
    off: dict[float, dict[str, list[float]]] = {}
    for row in found:
        for a in ("em_c", "em_ch"):
            ratio = _ratio(1.0 - row[f"{a}_seen"], 1.0 - row[a])
            off.setdefault(row["alpha"], {"em_c": [], "em_ch": []})[a].append(ratio)
    worst = {alpha: max(max(x) for x in by.values()) for alpha, by in off.items()}
    text = (
        "Rates are largest eigenvalues of the Jacobians. Beside them, the factor by which the distance shrinks was measured "
        f"after {n_iter} iterations. What the table has depends on one minus the rate."
    )
    checked = [alpha for alpha in off if worst[alpha] <= WITHIN]
    if checked:
        most = max(worst[alpha] for alpha in checked)
        text += (
            f" For α = {listed([f'{alpha:g}' for alpha in checked])} its measured value is within a factor of "
            f"{number(most, 2)} of the eigenvalue's."
        )
    rest = [alpha for alpha in off if alpha not in checked]
    if rest:
        n = {a: [x for alpha in rest for x in off[alpha][a]] for a in ("em_c", "em_ch")}
        c, ch = (sum(x > WITHIN for x in n[a]) for a in ("em_c", "em_ch"))
        text += (
            f" For α = {listed([f'{alpha:g}' for alpha in rest])} it is not within a factor of {WITHIN:g} in {c} (EM-C) and "
            f"{ch} (EM-CH) of {data_sets(len(n['em_c']))}: {n_iter} iterations are too few there, so that these rows are "
            "eigenvalues only."
        )
    return text


def _ratio(a: float, b: float) -> float:
    """Return by what factor two numbers differ, infinite if one of them is not positive."""
    return max(a / b, b / a) if min(a, b) > 0.0 else inf


def outside(n: int) -> str:
    """Return how many data sets the figure does not show."""
    if n == 0:
        return ""
    return (
        f" ({data_sets(n).capitalize()} in which neither has a rate below one, because a column converges to zero, "
        f"{'is' if n == 1 else 'are'} outside the figure.)"
    )


def counted() -> str:
    """Return how many fits with spare columns there are: some share their data."""
    found = rows("spare")
    keys = ("scale", "n_samples", "alpha", "data_seed" if "data_seed" in found[0] else "seed")
    sets = {tuple(row[key] for key in keys) for row in found}
    return f"{len(found)} fits to {data_sets(len(sets))}"


def spare() -> str:
    cells = head("spare")["findings"]["cells"]
    zero, worth = (sum(c[key] for c in cells) for key in ("columns_exactly_zero", "worth_bic"))
    columns = sum(c["data_sets"] * c["n_spare"] for c in cells)
    middle = [c["share"][2] for c in cells]
    return section(
        "spare",
        "what spare columns are worth",
        "gapmf reproduce spare -o DIR",
        "spare columns",
        '**The paper** explains by the penalty Σ_k α_k log(||w_k|| + β_k) "the ability of MMLE to automatically '
        'prune columns of W": it "will promote sparsity of the norms". It reports of earlier work that the '
        "columns beyond the truth were empty.",
        f"**Here** are the exact maxima of {counted()}, over scales, N, α and the number of "
        f"spare columns. Of {columns} spare columns {zero} are exactly zero. Together the spare columns of a fit "
        f"have {percent(min(middle))} to {percent(max(middle))} of the expected counts in the median of a cell, and up "
        f"to {percent(max(c['share'][-1] for c in cells))}. In {worth or 'none'} of the fits do they add what BIC "
        "charges for them. So spare columns shrink, the more the more data there are, but seldom vanish. What "
        "tells them from the others is what they add, not their size: this is what `est.rank_report` "
        "measures. [The spare column](spare-column.md) has the table.",
    )


def spare_column() -> str:
    """Return the page of the spare columns."""
    found = head("spare")
    cells = found["findings"]["cells"]
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
    intro = (
        'The paper explains the "self-regularization" of maximum marginal likelihood by its penalty term, and reports of '
        "earlier work that columns beyond the true number were empty there. With the exact maximum this can be checked. "
        "`gapmf reproduce spare -o DIR` draws data as in the paper's synthetic experiment (two components, F = 4), with "
        "W* = (scale/α) W₁*, and maximises the exact likelihood with K = 2 and with spare columns. Spare columns are the "
        "smallest ones. The table has minimum · quartiles · maximum over data sets; the held-out gain, on a thousand "
        "other samples, has median and quartiles. Rows with the same scale, N and α are fits to the same data."
    )
    notes = [f"*{found['note']}*"] if "note" in found else []
    parts = [
        "# The spare columns at the exact maximum",
        intro,
        table(columns, lines),
        "What self-regularisation does, and does not do:",
        "\n".join(wrapped(f"- {text}") for text in lessons(cells)),
        remarks(cells),
        *notes,
    ]
    return "\n\n".join(part if part.startswith("- ") else wrapped(part) for part in parts) + "\n"


def lessons(cells: list[dict]) -> list[str]:
    """Return what the cells show, one sentence or a few each."""
    at = {tuple(c[key] for key in ("scale", "n_samples", "alpha", "n_spare")): c for c in cells}
    share = {key: c["share"][2] for key, c in at.items()}
    worth = sum(c["worth_bic"] for c in cells)
    largest = max(c["share"][-1] for c in cells if c["n_spare"] == 1)
    gains = [c["gain"][2] for c in cells]
    loss = [-c["held_out_gain"][2] for c in cells]
    several_spare = [key for key in ((1, 100, 1, 2), (1, 100, 1, 4)) if key in at]
    more = "; ".join(f"{number(100 * share[key], 2)} % with {key[3]}" for key in several_spare)
    agree = all(
        c["columns_exactly_zero"] == c["data_sets"] - c["score_above_one"]
        for c in cells
        if c["n_spare"] == 1
    )
    score = (
        "With one spare column, it is exactly zero in those data sets, and only those, in which max_f r_f ≤ 1 at K = 2"
        if agree
        else "With one spare column, it can be exactly zero only if max_f r_f ≤ 1 at K = 2"
    )
    return [
        f"**Spare columns are small, but not zero.** One spare column keeps {percent(share[1, 100, 1, 1])} of the counts in "
        f"the median where a sample has two tokens, and {percent(share[100, 100, 1, 1])} where it has two hundred (N = 100, "
        f"α = 1). Several share what one would have had, and a little more ({more}, instead of "
        f"{number(100 * share[1, 100, 1, 1], 2)} %).",
        "**They shrink as data grow**: with N, and with the scale. Small α makes them smaller (components are seen apart), "
        "large α larger.",
        f"**They are worth little.** The gain is {between(gains, 2)} nats in the median of a row, and exceeds BIC's price in "
        f"{worth or 'none'} of {counted()}. A threshold on shares would have to be above {percent(largest)} to "
        "catch all of them; the gain of a column does not have this problem.",
        f"**They cost next to nothing.** Held-out samples lose at most {number(max(loss), 2)} nats each in the median of a row: "
        "this is the robustness to K.",
        f"**The score test agrees.** {score}, where r_f = mean_n v_fn E[1/[Wh_n]_f | v_n]. The slope of the likelihood at an "
        "empty column is N (α/β) (r_f − 1). Since r_f is one on average at the truth, some feature nearly always exceeds one "
        "by chance, and a new column nearly always starts to grow.",
    ]


def remarks(cells: list[dict]) -> str:
    """Return how far the fits can be trusted."""
    gradient = max(c["largest_projected_gradient"] for c in cells)
    unfinished = sum(c["not_converged"] for c in cells)
    total = sum(c["data_sets"] for c in cells)
    below = [row["gain"] for row in rows("spare") if row["gain"] < -1e-6]
    text = ""
    if below:
        text = (
            f"In {len(below)} of {total} fits the maximum found with spare columns is "
            f"{'up to ' if len(below) > 1 else ''}{number(-min(below), 1)} nats below the one without, so that it is a "
            "local one: each fit has one start. "
        )
    text += "All fits converged. " if not unfinished else f"{unfinished} fits did not converge. "
    return (
        text
        + f"The largest remaining first-order violation is {number(gradient, 1)} nats per unit of share."
    )
