"""What was fitted, how well it describes the data, and how many components they support."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gapmf.analysis.predictive_check import LEVEL, STATISTICS, write_short
from gapmf.progress import format_duration
from gapmf.report import charts
from gapmf.report.content import Content, Data, missing
from gapmf.report.elements import Column, Html, facts, join, paragraphs, table, tag

N_COLOURS = 20  # curves in colour; those of smaller components are grey


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
        f"Components with more than {100 * est.prune_tol:g} % of the counts": f"{est.rank_}",
        "Features": f"{model.n_features:,}",
        "Counts in the fit": f"{est.feature_counts_.sum():,.0f}",
        "Algorithm": est.algorithm + (f", {est.schedule}" if sweeps else ""),
        "Iterations": f"{est.n_iter_:,} in {format_duration(seconds)}",
        "α, the shape of activations": alpha + (", learned" if est.learn_alpha else ", given"),
        "Pseudo-count of features": _pseudo_count(est),
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
        parts.insert(1, missing("How well the model fits", content, ""))
    return join(parts)


def _pseudo_count(est: Any) -> str:
    if not est.pseudo_count_:
        return "0"
    how = "chosen" if est.pseudo_count == "auto" else "given"
    if est.schedule == "posterior" and est.algorithm == "mcem-c":
        return f"{est.pseudo_count_:.3g}, {how}; components are posterior means"
    return f"{est.pseudo_count_:.3g}, {how}; log-prior {est.log_prior_:,.0f} nats"


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
            + (", computed exactly" if error == 0 else f", ± {_short(error)} (its standard error)"),
        )
    ]
    gain = (found.total - data.one_component) / n
    if math.isfinite(gain):
        boxes.append(
            _number(
                f"{math.exp(gain):.2f} ×",
                "as probable: the average gain of each count over a model with a single component, "
                "which has only the overall frequencies of the features",
            )
        )
    digits = 0 if error == 0 or found.std_error >= 10 else 2
    total = _signed(found.total, digits)
    if error > 0:
        total += f" ± {found.std_error:,.{digits}f}"
    explained = (
        f"The likelihood is the probability of the data under the model. Its natural logarithm, in "
        f"nats, is {total} in all; divided by the number of counts it can be compared between data "
        "sets of different sizes. Closer to 0 is better. A difference of 0.01 between two models "
        "means that one makes each count 1\N{NO-BREAK SPACE}% more probable."
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


def _short(value: float) -> str:
    """Write a small number with one digit, and without an exponent.

    >>> _short(0.000068)
    '0.00007'
    """
    return f"{value:.{max(0, -math.floor(math.log10(value)))}f}" if 0 < value < 1 else f"{value:g}"


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
    text = "The fit stopped by itself, because it expected to gain next to nothing from going on"
    gain = getattr(est, "last_gain_", None)
    if gain is None:
        return f"{text} (tolerance: {_short(est.tol)} nats per count)."
    return (
        f"{text}: as many iterations as its last part had would add at most "
        f"{_short(max(gain, 1e-6))} nats per count."
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
        named = set(content.order[:N_COLOURS].tolist())
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
                f"{_digits(low[i])} to {_digits(high[i])}",
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
    return [float(value) if np.isfinite(value) else None, _digits(value)]


def _digits(value: float) -> str:
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
        cost = cost.replace("-", "\N{MINUS SIGN}", 1) if report.cost[k] < 0 else cost
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
