"""The sections of a report, in words for people who have not read the paper."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gapmf.plot.arrange import place_components, similarity_order, structure_order
from gapmf.progress import format_duration
from gapmf.ranks.features import distinctiveness, feature_weights, frequency_ratios
from gapmf.report import charts
from gapmf.report.content import Content, Data, Samples
from gapmf.report.elements import Column, Html, chip, facts, join, paragraphs, table, tag

N_BARS = 10  # features per card
N_CARDS = 24  # that are not folded away
N_LEGEND = 12
N_COLUMNS = 600  # samples in a structure plot
MIN_CHIP, N_CHIPS = 0.02, 6  # smallest share, and number, of a sample's components in the table
MANY_FEATURES = 2000  # of more, only the distinctive ones of some component are listed


class Section(NamedTuple):
    """A section: its name in addresses, its title, and what it says; None leaves it out."""

    name: str
    title: str
    write: Callable[[Content], Html | None]


def the_fit(content: Content) -> Html:
    """Say what was fitted and how well."""
    est, model = content.est, content.model
    history = est.history_
    seconds = float(history["seconds"][-1]) if est.n_iter_ else 0.0
    sweeps = int(history["n_sweeps"][-1]) if est.n_iter_ else 0
    low, high = float(model.alpha.min()), float(model.alpha.max())
    alpha = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    pairs = {
        "Components": f"{model.n_components}",
        "with a noticeable share": f"{est.rank_} (more than {100 * est.prune_tol:g} % each)",
        "Features": f"{model.n_features:,}",
        "Counts in the fit": f"{est.feature_counts_.sum():,.0f}",
        "Algorithm": est.algorithm + (f", {est.schedule}" if sweeps else ""),
        "Iterations": f"{est.n_iter_:,} in {format_duration(seconds)}",
        "α, the shape of activations": alpha + (", learned" if est.learn_alpha else ", given"),
        "Random seed": "none" if est.random_state is None else f"{est.random_state}",
    }
    data = content.data
    parts = [
        tag("p", _about(content)),
        None if data is None else _how_well(data),
        tag("h3", "How it was fitted"),
        facts(pairs),
        tag("p", _stopping(content), class_="" if est.converged_ else "warning"),
        _convergence(content),
    ]
    if data is None:
        parts.insert(1, _missing("How well the model fits", content, ""))
    return join(parts)


def _about(content: Content) -> Html:
    model = content.model
    return Html(
        f"The model explains counts of {model.n_features:,} features by {model.n_components} "
        "<b>components</b>. A component is a list of features that occur together: a topic of "
        "documents, a program of genes, a part of images. A sample mixes the components, in "
        "<b>proportions</b> of its own, and its counts vary about the expected ones as Poisson "
        "counts do. How much of each component a sample has is not fitted. All possible amounts "
        "are averaged over, so that the model has a likelihood."
    )


def _how_well(data: Data) -> Html:
    found, n = data.log_likelihood, data.n_counts
    who = "the counts that it was fitted to" if data.of_the_fit else "these counts"
    intro = f"The data are {data.n_samples:,} samples with {n:,} counts, " + (
        "those of the fit." if data.of_the_fit else "other ones than those of the fit."
    )
    if n == 0 or not math.isfinite(found.total):
        reason = "there are no counts" if n == 0 else "some counts are impossible under the model"
        advice = "" if n == 0 else ": set est.smoothing, for example to 0.001"
        return paragraphs(intro, f"There is no log-likelihood per count: {reason}{advice}.")
    per_count, error = found.total / n, found.std_error / n
    boxes = [
        _number(
            _signed(per_count, 4),
            f"nats per count: the log-likelihood of {who}"
            + (", exactly" if error == 0 else f", ± {error:.1g} (its standard error)"),
        )
    ]
    gain = (found.total - data.one_component) / n
    if math.isfinite(gain):
        boxes.append(
            _number(
                f"{math.exp(gain):.2f} ×",
                "as probable as under a single component is each count, on average: what the "
                "components explain beyond the overall frequencies",
            )
        )
    total = f"{_signed(found.total, 0)}" + ("" if error == 0 else f" ± {found.std_error:,.0f}")
    explained = (
        f"The likelihood is the probability of the data under the model. Its natural logarithm, in "
        f"nats, is {total} in all; divided by the number of counts it can be compared between data "
        "sets of different sizes. Closer to 0 is better. A difference of 0.01 between two models "
        "means that one makes each count 1 % more probable."
    )
    caution = (
        "These are the counts that the model was fitted to, so more components always look better "
        "here. Compare models by other data, or by counts that were held out."
        if data.of_the_fit
        else "The model has not seen these counts, so that models can be compared by this number."
    )
    return join(
        [
            tag("h3", "How well it fits"),
            tag("p", intro),
            tag("div", *boxes, class_="numbers"),
            paragraphs(explained, caution),
        ]
    )


def _number(number: str, text: str) -> Html:
    return tag("div", tag("strong", number), text)


def _signed(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _stopping(content: Content) -> str:
    est = content.est
    if est.interrupted_:
        return "The fit was interrupted before it had converged: fit again for a better model."
    if est.schedule == "paper" and est.algorithm.startswith("mcem"):
        return f"The fit made {est.n_iter_:,} iterations, as the schedule of the paper demands."
    if not est.converged_:
        return (
            f"The fit ended after {est.n_iter_:,} iterations, before its stopping rule was met. A "
            "larger number of iterations (--max-iter, or max_iter in Python) may give a better "
            "model."
        )
    return (
        f"The fit stopped by itself: it expected to gain next to nothing from going on (tolerance "
        f"{est.tol:g} nats per count)."
    )


def _convergence(content: Content) -> Html | None:
    history = content.est.history_
    x = np.arange(1.0, content.est.n_iter_ + 1)
    if x.size < 2:
        return None
    columns = {
        "log_likelihood": "log-likelihood, in nats",
        "bound": "lower bound of the log-likelihood, in nats",
        "log_joint_likelihood": "joint log-likelihood, in nats",
    }
    known = {name: history[name] for name in columns if name in history}
    known = {name: values for name, values in known.items() if np.isfinite(values).sum() > 1}
    if known:
        name = next(iter(known))
        words, curves = columns[name], [(known[name], "")]
        note = "The curve is flat at the end when more iterations would not help."
    else:
        words = "norm of each component"
        norms = history["norms"]
        named = set(content.order[:N_LEGEND].tolist())
        # Those in colour come last, above the others.
        curves = [
            (norms[:, k], f"k{k}" if k in named else "faint") for k in content.order[:100][::-1]
        ]
        note = (
            "How large each component was after each iteration (the sum of its weights). Curves "
            "are level at the end when the fit has settled. A curve that falls to 0 is a component "
            "that was not needed."
        )
    drawn = charts.lines(
        x, curves, x_label="iteration", y_label=words, label=f"{words}, after each iteration"
    )
    return tag("figure", drawn, tag("figcaption", note))


def the_components(content: Content) -> Html:
    """Show what each component is about."""
    intro = (
        "Components in the order of their share of all counts. The number of a component is its "
        "place in the model: <code>est.components_[7]</code> is component 7. "
    )
    if content.image:
        intro += "Each picture shows the weights of the pixels, bright for large ones."
    else:
        intro += (
            "The features below are <b>distinctive</b>: clearly more frequent in this component "
            "than in the others. The percentage is the feature’s share of the component’s counts."
        )
    cards = [_card(content, int(k)) for k in content.order]
    shown = tag("div", *cards[:N_CARDS], class_="cards")
    more = None
    if len(cards) > N_CARDS:
        more = tag(
            "details",
            tag("summary", f"Show {len(cards) - N_CARDS} more components"),
            tag("div", *cards[N_CARDS:], class_="cards"),
        )
    return join(
        [
            tag("p", Html(intro)),
            shown,
            more,
            tag("h3", "All components, as a table"),
            _component_table(content),
            None if content.image else _feature_table(content),
        ]
    )


def _card(content: Content, k: int) -> Html:
    model = content.model
    share = charts.percent(float(model.shares[k]))
    head = tag("h3", f"Component {k}", tag("span", share, class_="quiet"))
    parts: list[Html | None] = [head]
    column = model.W[:, k]
    norm = float(column.sum())
    if norm == 0.0:
        parts.append(tag("p", "Empty: it has no features."))
    elif content.image:
        alt = f"Weights of component {k} as a picture"
        parts.append(charts.picture(column.reshape(content.image), alt))
    else:
        best = [f for f in content.top[:N_BARS, k] if column[f] > 0]
        items = [(content.names[f], float(column[f]) / norm) for f in best]
        parts.append(charts.bars(items, max((w for _, w in items), default=1.0)))
    if model.n_components > 1 and norm > 0:
        others = content.overlap[k].copy()
        others[k] = -1.0
        near = int(others.argmax())
        parts.append(tag("p", "Most similar: ", chip(near, content.labels[near]), class_="quiet"))
    if content.data is not None:
        parts.append(_examples(content, content.data.samples, k))
    return tag("article", *parts, class_=f"card k{k}", id=f"component-{k}")


def _examples(content: Content, samples: Samples, k: int) -> Html | None:
    """Return the samples that have most of a component."""
    shares = samples.proportions[:, k]
    best = [n for n in np.argsort(-shares, kind="stable")[:3] if shares[n] >= MIN_CHIP]
    if not best:
        return None
    words = [f"{samples.names[n]} ({charts.percent(float(shares[n]))})" for n in best]
    if content.image is None:
        return tag("p", f"Samples with most of it: {', '.join(words)}", class_="quiet")
    pictures = [
        charts.picture(samples.counts[[n]].toarray().reshape(content.image), f"sample {word}")
        for n, word in zip(best, words, strict=True)
    ]
    return join(
        [
            tag("p", "Samples with most of it:", class_="quiet"),
            tag("div", *pictures, class_="thumbs"),
        ]
    )


def _component_table(content: Content) -> Html:
    model, ranks = content.model, content.rank_report
    columns = [Column("Component", "number"), Column("Share", "number", "of all expected counts")]
    if not content.image:
        columns.append(Column("Distinctive features"))
    columns.append(Column("α", "number", "shape of the activations: small if few samples have it"))
    if model.n_components > 1:
        columns.append(Column("Most similar", "chips", "overlap of their features, 100 % if equal"))
    if ranks is not None:
        columns.append(Column("Kept", "text", "by the rank report"))
    rows = []
    for k in map(int, content.order):
        share = float(model.shares[k])
        row: list[object] = [[k, str(k)], [share, charts.percent(share)]]
        if not content.image:
            best = [str(content.names[f]) for f in content.top[:, k] if model.W[f, k] > 0]
            row.append(", ".join(best[:20]))
        row.append([float(model.alpha[k]), f"{model.alpha[k]:.3g}"])
        if model.n_components > 1:
            others = content.overlap[k].copy()
            others[k] = -1.0
            near = int(others.argmax())
            row.append([[near, round(float(others[near]), 4), None]])
        if ranks is not None:
            row.append("yes" if ranks.keep[k] else "no")
        rows.append(row)
    return table("components", "Components", columns, rows, _chips(content))


def _chips(content: Content) -> list[tuple[int, str]]:
    """Return the number and label of each component, in order of their shares."""
    return [(int(k), content.labels[k]) for k in content.order]


def _feature_table(content: Content) -> Html:
    model, counts = content.model, content.est.feature_counts_
    some = np.arange(model.n_features)
    said = "all features"
    if some.size > MANY_FEATURES:
        some = np.unique(content.top)
        said = f"the {len(content.top)} most distinctive features of each component"
    value = distinctiveness(model, counts, some)
    best = value.argmax(axis=1)
    each = np.arange(some.size)
    times = frequency_ratios(model, counts, some)[each, best]
    weight = feature_weights(model, some)[each, best]
    order = np.argsort(-value[each, best], kind="stable")
    rows = [
        [
            str(content.names[some[i]]),
            [float(counts[some[i]]), f"{counts[some[i]]:,.0f}"],
            [[int(best[i]), round(float(weight[i]), 6), None]],
            [round(float(times[i]), 3), f"{times[i]:,.1f} ×"],
        ]
        for i in order
        if weight[i] > 0
    ]
    columns = [
        Column("Feature"),
        Column("Counts", "number", "in the data of the fit"),
        Column("Component", "chips", "where it is most distinctive, and its weight there"),
        Column("Frequency", "number", "compared with the other components"),
    ]
    more = ""
    if model.n_features > some.size:
        more = f" of {model.n_features:,}"
    return join(
        [
            tag("h3", "Find a feature"),
            paragraphs(
                f"The table has {said}{more}. Each is listed with the component where it is most "
                "distinctive, its share of this component, and how many times as frequent it is "
                "there as in the other components together."
            ),
            table("features", "Features", columns, rows, _chips(content)),
        ]
    )


def the_map(content: Content) -> Html | None:
    """Show which components are alike."""
    K = content.model.n_components
    if K < 3:
        return None
    overlap = content.overlap
    order = similarity_order(overlap)
    shares = content.model.shares
    named = [content.labels[k].split(", ")[0] for k in range(K)]
    labels = [f"{k} {name}".strip() for k, name in enumerate(named)]
    texts = [
        f"component {k}{': ' + label if label else ''}, {charts.percent(float(shares[k]))}"
        for k, label in enumerate(content.labels)
    ]
    above = np.triu(overlap, 1)
    a, b = np.unravel_index(int(above.argmax()), above.shape)
    alike = tag(
        "p",
        "The two most similar components are ",
        chip(int(a), content.labels[a]),
        " and ",
        chip(int(b), content.labels[b]),
        f": their overlap is {100 * overlap[a, b]:.0f} %. Above 90 %, two components are hardly "
        "different, and one may be enough.",
    )
    left = tag(
        "figure",
        charts.scatter(place_components(overlap), shares, labels, texts),
        tag(
            "figcaption",
            "A circle is a component, as large as its share; near ones have features in common. "
            "A plane cannot show all distances. Select a circle to see the component.",
        ),
    )
    right = tag(
        "figure",
        charts.overlap_picture(overlap, order, "Overlap of each pair of components, as a picture"),
        tag(
            "figcaption",
            "Each pair of components: the stronger the colour, the more their features overlap. "
            "Similar components are beside each other.",
        ),
    )
    return join([alike, tag("div", left, right, class_="two")])


def the_samples(content: Content) -> Html:
    """Show the components of each sample."""
    data = content.data
    if data is None:
        return _missing("Which components each sample has", content, "")
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
                f"The largest components of each sample, from {100 * MIN_CHIP:.0f} % up, ± the "
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
        best = [k for k in np.argsort(-shares, kind="stable")[:N_CHIPS] if shares[k] >= MIN_CHIP]
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
    return table("samples", "Samples", columns, rows, _chips(content), choose)


def the_ranks(content: Content) -> Html:
    """Show what each component is worth."""
    report = content.rank_report
    if report is None:
        return _missing(
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
    model, data = _files(content)
    commands = [
        ("How likely are data that the fit has not seen?", f"gapmf score {model} NEW_DATA"),
        ("What is each component worth, and how many are enough?", f"gapmf rank {model} {data}"),
        ("Would more or fewer components predict better?", f"gapmf select {data} -k 5,10,20,40"),
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
    return join([tag("ul", *steps), tag("h3", "Words"), tag("dl", *glossary, class_="facts")])


def _files(content: Content) -> tuple[str, str]:
    return content.model_name or "MODEL", content.data_name or "DATA"


def _missing(what: str, content: Content, option: str, more: str = "") -> Html:
    """Say how to get what is not in this report."""
    model, data = _files(content)
    needs = "" if content.data is not None else " needs data, and"
    return tag(
        "div",
        tag("p", f"{what}{needs} is not in this report.{more} To add it:"),
        tag("pre", tag("code", f"gapmf report {model} --data {data}{option} -o report.html")),
        class_="note",
    )


SECTIONS = (
    Section("fit", "The model", the_fit),
    Section("components", "Components", the_components),
    Section("map", "Which components are alike", the_map),
    Section("samples", "Samples", the_samples),
    Section("ranks", "How many components", the_ranks),
    Section("next", "What to do next", next_steps),
)
