"""What several sections say."""

from __future__ import annotations

import shlex

from gapmf.report.content import Content
from gapmf.report.elements import Html, tag


def chips(content: Content) -> list[tuple[int, str]]:
    """Return the number and label of each component, in order of their shares."""
    return [(int(k), content.labels[k]) for k in content.order]


def files(content: Content) -> tuple[str, ...]:
    """Return the names of the files of the model and of the data, for commands."""
    return tuple(
        default if name is None else shlex.quote(name)
        for name, default in ((content.model_name, "MODEL"), (content.data_name, "DATA"))
    )


def missing(what: str, content: Content, option: str, more: str = "") -> Html:
    """Say how to get what is not in this report."""
    model, data = files(content)
    needs = "" if content.data is not None else " needs data, and"
    return tag(
        "div",
        tag("p", f"{what}{needs} is not in this report.{more} To add it:"),
        tag("pre", tag("code", f"gapmf report {model} --data {data}{option} -o report.html")),
        class_="note",
    )
