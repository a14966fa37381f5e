"""The sections of a report, in words for people who have not read the paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gapmf.analysis.predictive_check import LEVEL, STATISTICS, write_short
from gapmf.report import charts
from gapmf.report.about_components import the_components, the_map
from gapmf.report.about_fit import the_fit
from gapmf.report.about_samples import the_samples
from gapmf.report.common import files, missing
from gapmf.report.content import Content
from gapmf.report.elements import Column, Html, join, table, tag


class Section(NamedTuple):
    """A section: its name in addresses, its title, and what it says; None leaves it out."""

    name: str
    title: str
    write: Callable[[Content], Html | None]


def the_check(content: Content) -> Html:
    """Compare the data with data that are drawn from the model."""
    if content.data is None:
        return missing("Whether the model describes the data", content, "")
    check = content.data.check
    if check is None:
        return tag("p", "There is no such check yet of data with unobserved entries.")
    low, middle, high = check.bands()
    rows = []
    for i, name in enumerate(check.statistics):
        marked = "differs" if check.p_values[i] <= LEVEL else ""
        rows.append(
            [
                STATISTICS[name],
                _value(check.observed[i]),
                _value(middle[i]),
                f"{_short(low[i])} to {_short(high[i])}",
                [float(check.p_values[i]), f"{check.p_values[i]:.3f}"],
                marked,
            ]
        )
    columns = [
        Column("Statistic"),
        Column("Data", "number"),
        Column("Model", "number", "the median of the drawn data sets"),
        Column("90 % of draws"),
        Column("p", "number", "how often the model differs as much as the data do"),
        Column("Verdict"),
    ]
    some = ""
    if check.n_entries_checked < check.n_samples:
        some = (
            f" To save time, totals are those of {check.n_checked:,} samples and single counts "
            f"those of {check.n_entries_checked:,}, chosen at random."
        )
    n = len(check.replicates)
    return join(
        [
            tag(
                "p",
                f"{n} data sets were drawn from the fitted model. If the model describes the data, "
                f"they look alike. A statistic is marked if no more than {100 * LEVEL:g} % of the "
                f"drawn data sets are as extreme as the data.{some}",
            ),
            tag("ul", *(tag("li", text) for text in check.advice), class_="note advice"),
            table("check", "Statistics of the data and of the model", columns, rows),
        ]
    )


def _value(value: float) -> list[object]:
    return [float(value) if np.isfinite(value) else None, _short(value)]


def _short(value: float) -> str:
    return write_short(float(value)).replace("-", "\N{MINUS SIGN}")


def the_ranks(content: Content) -> Html:
    """Show what each component is worth."""
    report = content.rank_report
    if report is None:
        return missing(
            "The rank report, which says how many components the data support,",
            content,
            " --rank",
            " It refits the model without each component, which may take longer than the fit.",
        )
    columns = [
        Column("Component", "number"),
        Column("Share", "number"),
        Column("Cost, nats", "number", "loss of log-likelihood when it is removed"),
        Column("Kept"),
    ]
    if not content.image:
        columns.append(Column("Distinctive features"))
    rows = []
    for k in np.argsort(-report.share, kind="stable"):
        sign = "< " if report.bound[k] else ""
        cost = f"{sign}{report.cost[k]:,.1f} ± {report.cost_error[k]:.2g}"
        value = float(report.cost[k]) if np.isfinite(report.cost[k]) else None
        share = float(report.share[k])
        row: list[object] = [
            [int(k), str(k)],
            [share, charts.percent(share)],
            [value, cost if value is not None else "—"],
            "yes" if report.keep[k] else "no",
        ]
        if not content.image:
            row.append(report.labels[k] if report.labels else "")
        rows.append(row)
    K = report.keep.size
    verdict = (
        f"All {K} components are worth keeping."
        if report.rank == K
        else f"{report.rank} of {K} components are worth keeping."
    )
    return join(
        [
            tag("p", tag("b", verdict)),
            *(tag("p", _capital(text)) for text in report._explain()),
            table("ranks", "Components by what they are worth", columns, rows),
        ]
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def next_steps(content: Content) -> Html:
    """Say what to do next."""
    model, data = files(content)
    K = content.model.n_components
    ranks = ",".join(str(k) for k in sorted({max(K // 2, 1), K, 2 * K}))
    commands = [
        ("How likely are data that the fit has not seen?", f"gapmf score {model} NEW_DATA"),
        ("What is each component worth, and how many are enough?", f"gapmf rank {model} {data}"),
        (
            "Which components differ between groups of samples?",
            f"gapmf compare {model} {data} --groups GROUPS",
        ),
        ("Would more or fewer components predict better?", f"gapmf select {data} -k {ranks}"),
        (
            "The proportions of all samples, to cluster and plot:",
            f"gapmf transform {model} {data} -o proportions.csv",
        ),
        ("More features of each component:", f"gapmf topics {model} -n 50 -o topics.csv"),
    ]
    steps = [tag("li", tag("p", words), tag("pre", tag("code", code))) for words, code in commands]
    words = {
        "Component": "a list of features that occur together, with their weights.",
        "Share": "the part of all expected counts that comes from a component.",
        "Activation": "how strongly a sample has a component, before the counts are drawn.",
        "Proportion": "the part of a sample’s counts that comes from a component.",
        "Count, or token": "one unit of the data: a word in a document, a molecule in a cell.",
        "Nat": "the unit of natural logarithms of probabilities: 0.69 nats are one bit.",
        "α": "the shape of the distribution of activations. If it is far below 1, most samples "
        "have little of a component and a few have much.",
    }
    glossary = [tag("div", tag("dt", name), tag("dd", text)) for name, text in words.items()]
    return join([tag("ul", *steps), tag("h3", "Words"), tag("dl", *glossary, class_="facts words")])


SECTIONS = (
    Section("fit", "The model", the_fit),
    Section("components", "Components", the_components),
    Section("map", "Which components are alike", the_map),
    Section("samples", "Samples", the_samples),
    Section("check", "Does it describe the data?", the_check),
    Section("ranks", "How many components?", the_ranks),
    Section("next", "What to do next", next_steps),
)
