"""The samples: their components, in pictures and in a table."""

from __future__ import annotations

import numpy as np

from gapmf.plot.arrange import structure_order
from gapmf.report import charts
from gapmf.report.content import MIN_SHARE, Content, Samples, chips, missing
from gapmf.report.elements import Column, Html, chip, join, paragraphs, table, tag

N_LEGEND = 20
N_COLUMNS = 600  # samples in a structure plot
N_CHIPS = 6  # components of a sample in the table, at most


def the_samples(content: Content) -> Html:
    """Show the components of each sample."""
    data = content.data
    if data is None:
        return missing("Which components each sample has", content, "")
    samples = data.samples
    shown = len(samples.names)
    some = ""
    if shown < data.n_samples:
        some = (
            f" Here are {shown:,} of {data.n_samples:,} samples, chosen at random; "
            "gapmf transform writes the proportions of all."
        )
    return join(
        [
            tag(
                "p",
                Html(
                    "A sample’s <b>proportions</b> say what part of its counts comes from each "
                    f"component. They add up to 100 %.{some}"
                ),
            ),
            _structure(content, samples),
            _group_table(content, samples),
            tag("h3", "Sample by sample"),
            paragraphs(
                f"The largest components of each sample, from {100 * MIN_SHARE:.0f} % up, ± the "
                "standard deviation of the proportion given the counts. It is large where "
                "components are alike or counts are few."
            ),
            _sample_table(content, samples),
        ]
    )


def _structure(content: Content, samples: Samples) -> Html:
    K = content.model.n_components
    stacked = samples.proportions[:, content.order]
    classes: list[str | None] = [f"k{k}" for k in content.order]
    groups = samples.groups
    strips = []
    for name in samples.group_order or [""]:
        rows = np.arange(len(samples.names))
        if groups is not None:
            rows = rows[[group == name for group in groups]]
        if not rows.size:
            continue
        rows = rows[structure_order(samples.proportions[rows])]
        most = max(N_COLUMNS * rows.size // len(samples.names), 30)
        if rows.size > most:
            rows = rows[np.linspace(0, rows.size - 1, most).astype(int)]
        said = "all samples" if groups is None else f"group {name}"
        label = f"Proportions of components in {said}, as stacked columns"
        drawn = charts.structure(stacked[rows], classes, label)
        head = None
        if groups is not None:
            colour = samples.group_colours.get(name)
            swatch = None
            if colour:
                swatch = tag("span", class_="swatch", style=f"--c:{colour}")
            number = f" {groups.count(name):,} samples"
            head = tag("p", swatch, tag("b", name), tag("span", number, class_="quiet"))
        strips.append(tag("div", head, drawn, class_="strip" if head else "strip tall"))
    chips = [chip(int(k), content.labels[k]) for k in content.order[:N_LEGEND]]
    more = f" and {K - N_LEGEND} smaller ones" if K > N_LEGEND else ""
    note = (
        "Each thin column is a sample; its colours are its components, the largest of all at the "
        "bottom. Samples are ordered by their largest component."
    )
    if n_empty := int((samples.totals == 0).sum()):
        has = "sample without counts has" if n_empty == 1 else "samples without counts have"
        note += f" {n_empty:,} {has} the proportions that the model expects of any sample."
    if len(samples.names) > N_COLUMNS:
        note += f" About {N_COLUMNS} samples are drawn."
    return tag(
        "figure",
        *strips,
        charts.legend([*chips, tag("span", more, class_="quiet")]),
        tag("figcaption", note),
    )


def _group_table(content: Content, samples: Samples) -> Html | None:
    """Return the mean proportions of each group."""
    if samples.groups is None:
        return None
    shown = content.order[:N_LEGEND]
    heads = [tag("th", "Group", scope="col")]
    heads += [tag("th", chip(int(k), ""), scope="col", class_="number") for k in shown]
    rows = []
    for name in samples.group_order:
        mine = samples.proportions[[group == name for group in samples.groups]]
        if len(mine):
            means = mine.mean(axis=0)[shown]
            cells = [charts.shade(float(m), f"{100 * m:.0f} %") for m in means]
            rows.append(tag("tr", tag("th", name, scope="row", class_="group"), *cells))
    caption = "Mean proportion of each component in each group"
    grid = tag(
        "table", tag("caption", caption), tag("thead", tag("tr", *heads)), tag("tbody", *rows)
    )
    return tag("div", grid, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _sample_table(content: Content, samples: Samples) -> Html:
    columns = [Column("Sample"), Column("Counts", "number")]
    if samples.groups is not None:
        columns.append(Column("Group"))
    columns.append(Column("Components", "chips", "by the largest proportion"))
    uncertain = not samples.reliable.all()
    if uncertain:
        columns.append(Column("Note", "text", "chains that disagree"))
    rows = []
    for m, name in enumerate(samples.names):
        row: list[object] = [name, [samples.totals[m], f"{samples.totals[m]:,.0f}"]]
        if samples.groups is not None:
            row.append(samples.groups[m])
        shares, deviations = samples.proportions[m], samples.deviations[m]
        best = [k for k in np.argsort(-shares, kind="stable")[:N_CHIPS] if shares[k] >= MIN_SHARE]
        row.append(
            [
                [
                    int(k),
                    round(float(shares[k]), 4),
                    None if np.isnan(deviations[k]) else round(float(deviations[k]), 4),
                ]
                for k in best
            ]
        )
        if uncertain:
            row.append("" if samples.reliable[m] else "less certain than stated")
        rows.append(row)
    choose = "With most of component" if content.model.n_components > 1 else ""
    return table("samples", "Samples", columns, rows, chips(content), choose)
