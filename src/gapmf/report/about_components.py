"""The components: what each is about, and which are alike."""

from __future__ import annotations

import numpy as np

from gapmf.plot.arrange import place_components, similarity_order
from gapmf.ranks.features import distinctiveness, feature_weights, frequency_ratios
from gapmf.report import charts
from gapmf.report.content import MIN_SHARE, Content, Samples, chips
from gapmf.report.elements import Column, Html, chip, join, paragraphs, table, tag

N_BARS = 10  # features per card
N_CARDS = 24  # that are not folded away
MANY_FEATURES = 2000  # of more, only the distinctive ones of some component are listed


def the_components(content: Content) -> Html:
    """Show what each component is about."""
    k = content.order[0]
    intro = (
        "Components in the order of their share of all counts. The number of a component is its "
        f"place in the model: in Python, <code>est.components_[{k}]</code> is component {k}. "
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
        best = content.listed(k)[:N_BARS]
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
    best = [n for n in np.argsort(-shares, kind="stable")[:3] if shares[n] >= MIN_SHARE]
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
            row.append(", ".join(str(content.names[f]) for f in content.listed(k)[:20]))
        row.append([float(model.alpha[k]), f"{model.alpha[k]:.3g}"])
        if model.n_components > 1:
            others = content.overlap[k].copy()
            others[k] = -1.0
            near = int(others.argmax())
            row.append([[near, round(float(others[near]), 4), None]])
        if ranks is not None:
            row.append("yes" if ranks.keep[k] else "no")
        rows.append(row)
    return table("components", "Components", columns, rows, chips(content))


def _feature_table(content: Content) -> Html:
    model, counts = content.model, content.est.feature_counts_
    some = np.arange(model.n_features)
    said = "all features that have counts"
    if some.size > MANY_FEATURES:
        some = np.unique(content.top)
        said = (
            f"{some.size:,} of {model.n_features:,} features: the {len(content.top)} most "
            "distinctive of each component"
        )
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
            [round(float(times[i]), 3), f"{times[i]:,.{int(times[i] < 100)}f} ×"],
        ]
        for i in order
        if weight[i] > 0
    ]
    columns = [
        Column("Feature"),
        Column("Counts", "number", "in the data of the fit"),
        Column("Component", "chips", "where it is most distinctive, and its weight there"),
        Column("Times as frequent", "number", "as in the other components together"),
    ]
    return join(
        [
            tag("h3", "Find a feature"),
            paragraphs(
                f"The table has {said}. Each is listed with the component where it is most "
                "distinctive, its share of this component, and how many times as frequent it is "
                "there as in the other components together."
            ),
            table("features", "Features", columns, rows, chips(content)),
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
    off = overlap[~np.eye(K, dtype=bool)]
    a, b = np.unravel_index(int(above.argmax()), above.shape)
    alike = tag(
        "p",
        "Most similar are ",
        chip(int(a), content.labels[a]),
        " and ",
        chip(int(b), content.labels[b]),
        f" with an overlap of {100 * overlap[a, b]:.0f} %. Above 90 %, two components are hardly "
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
            f"Each pair of components: the stronger the colour, the more their features overlap. "
            f"Overlaps are between {100 * off.min():.0f} and {100 * off.max():.0f} %. Similar "
            "components are beside each other.",
        ),
    )
    return join([alike, tag("div", left, right, class_="two")])
