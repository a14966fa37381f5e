"""The page of a report: one file, which loads nothing and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
from datetime import date
from importlib.resources import files

from gapmf.progress import format_duration
from gapmf.report.charts import component_styles
from gapmf.report.content import Content
from gapmf.report.elements import Html, join, tag
from gapmf.report.sections import SECTIONS


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
