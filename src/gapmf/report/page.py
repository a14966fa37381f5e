"""The page of a report: its sections in one file, which loads nothing and runs one script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from datetime import date
from importlib.resources import files
from typing import NamedTuple

from gapmf.progress import format_duration
from gapmf.report.about_components import the_components, the_map
from gapmf.report.about_fit import the_check, the_fit, the_ranks
from gapmf.report.about_samples import the_samples
from gapmf.report.charts import component_styles
from gapmf.report.content import Content, file_names
from gapmf.report.elements import Html, join, tag


class Section(NamedTuple):
    """A section: its name in addresses, its title, and what it says; None leaves it out."""

    name: str
    title: str
    write: Callable[[Content], Html | None]


def next_steps(content: Content) -> Html:
    """Say what to do next."""
    model, data = file_names(content)
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


def page(content: Content, version: str) -> str:
    """Return the report as HTML."""
    script, style = _asset("page.js"), _asset("page.css") + component_styles(content.colours)
    written = [(s, s.write(content)) for s in SECTIONS]
    made = [(s, body) for s, body in written if body is not None]
    links = [tag("a", s.title, href=f"#{s.name}") for s, _ in made]
    names = (("auto", "as the system"), ("light", "light"), ("dark", "dark"))
    options = [tag("option", text, value=value) for value, text in names]
    picker = tag("select", *options, id="theme")
    sections = [
        tag("section", tag("h2", s.title, id=f"{s.name}-title"), body, id=s.name,
            aria_labelledby=f"{s.name}-title")
        for s, body in made
    ]  # fmt: skip
    made_by = (
        f"Made by gapmf {version} on {date.today():%d %B %Y}, in "
        f"{format_duration(max(content.seconds, 1.0))}. This file is complete: it loads nothing "
        "from the network."
    )
    title = tag("div", tag("h1", content.title), tag("p", made_by, class_="quiet small"))
    body = join(
        [
            tag("a", "Skip to the report", href="#fit", class_="skip"),
            tag("header", tag("div", title, tag("label", "Colours ", picker)), class_="top"),
            tag("nav", tag("div", *links), aria_label="Sections"),
            tag("main", *sections),
        ]
    )
    head = join(
        [
            tag("meta", charset="utf-8"),
            _policy(script),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", content.title),
            tag("style", Html(style)),
        ]
    )
    # A script ends at "</script", whatever is in it: the file has none.
    page = tag("html", tag("head", head), tag("body", body, tag("script", Html(script))), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _policy(script: str) -> Html:
    """Forbid all connections, and all scripts but this one, which is known by its hash."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return tag("meta", http_equiv="Content-Security-Policy", content=rules)


def _asset(name: str) -> str:
    return (files("gapmf.report") / name).read_text(encoding="utf-8")
