"""HTML elements. Text is escaped unless it is `Html` already, so that names stay data."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PAGE_ROWS = 25  # of a table, that are shown at once

VOID = ("img", "input", "meta")  # elements without an end


class Html(str):
    """Text that is HTML, not to be escaped."""

    __slots__ = ()


def escape(text: object) -> Html:
    """Return text as HTML. What is not Unicode, as in names of some files, is shown as an escape.

    >>> escape("<b> & 'c'")
    '&lt;b&gt; &amp; &#x27;c&#x27;'
    """
    if isinstance(text, Html):
        return text
    plain = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    # A zero byte is no character of HTML.
    return Html(html.escape(plain.replace("\0", "\N{REPLACEMENT CHARACTER}")))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element. An attribute that is None or False is left out; class_ is class.

    >>> tag("a", "x < y", href="#top", aria_label='"up"')
    '<a href="#top" aria-label="&quot;up&quot;">x &lt; y</a>'
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        words.append(attribute if value is True else f'{attribute}="{escape(value)}"')
    start = f"<{' '.join(words)}>"
    return Html(start if name in VOID else f"{start}{join(children)}</{name}>")


def join(children: Iterable[object], between: str = "") -> Html:
    """Return elements and texts, one after another; None is nothing."""
    return Html(between.join(escape(child) for child in children if child is not None))


def json_element(content: Any, **attributes: object) -> Html:
    """Return data for the page's script. A "<" in it is escaped, so that no tag can end it."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return tag("script", Html(text), type="application/json", **attributes)


def paragraphs(*texts: object) -> Html:
    """Return paragraphs."""
    return join(tag("p", text) for text in texts if text)


def facts(pairs: Mapping[str, object]) -> Html:
    """Return a list of names and values."""
    return tag(
        "dl",
        *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs.items()),
        class_="facts",
    )


@dataclass(frozen=True)
class Column:
    """A column of a table: "text", "number" (a number and how it is written) or "chips".

    A cell of chips is a list of (component, share, deviation or None).
    """

    label: str
    kind: str = "text"
    note: str = ""


def table(
    name: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Any]],
    components: Sequence[tuple[int, str]] = (),
    choose: str = "",
) -> Html:
    """Return a table that can be sorted and searched; all its rows are there as JSON.

    Its first rows are HTML too, for a page whose script does not run. `components` are the numbers
    and labels that chips are made with. If `choose` is given, rows can be chosen by component.
    """
    labels = dict(components)
    heads = [
        tag(
            "th",
            tag("button", column.label, type="button", title=column.note or None),
            scope="col",
            class_=column.kind,
            aria_sort="none",
        )
        for column in columns
    ]
    body = [
        tag("tr", *(_cell(c.kind, v, labels) for c, v in zip(columns, row, strict=True)))
        for row in rows[:PAGE_ROWS]
    ]
    content = {"kinds": [c.kind for c in columns], "rows": rows, "components": components}
    controls = [
        tag(
            "label",
            tag("span", "Search"),
            tag(
                "input",
                type="search",
                aria_label=f"Search: {caption}",
                autocomplete="off",
                spellcheck="false",
            ),
            class_="search",
        )
    ]
    if choose:
        options = [tag("option", "all", value="")]
        options += [tag("option", f"{k}: {label}", value=k) for k, label in components]
        picker = tag("select", *options)
        controls.append(tag("label", tag("span", choose), picker, class_="choose"))
    one = len(rows) <= PAGE_ROWS
    pages = tag(
        "div",
        tag("button", "Previous", type="button", class_="previous", hidden=one),
        tag("p", _status(len(rows)), role="status"),
        tag("button", "Next", type="button", class_="next", hidden=one),
        class_="pages",
    )
    head = tag("thead", tag("tr", *heads))
    grid = tag("table", tag("caption", caption), head, tag("tbody", *body))
    scroll = tag("div", grid, class_="scroll", tabindex="0", role="region", aria_label=caption)
    data = json_element(content)
    tools = tag("div", *controls, class_="tools")
    return tag("div", tools, scroll, pages, data, class_="table", id=f"table-{name}")


def _status(n: int) -> str:
    return f"{min(n, 1)} to {min(n, PAGE_ROWS):,} of {n:,}"


def _cell(kind: str, value: Any, labels: Mapping[int, str]) -> Html:
    if kind == "chips":
        return tag("td", *(chip(k, labels[k], share, sd) for k, share, sd in value), class_=kind)
    return tag("td", value[1] if kind == "number" else value, class_=kind)


def chip(k: int, label: str, share: float | None = None, sd: float | None = None) -> Html:
    """Return a component's number and name, in its colour, with a share; a link to its card."""
    words = [tag("b", k), f" {label}" if label else ""]
    if share is not None:
        percent = f"{100 * share:.0f}"
        if sd is not None:
            percent += f" ± {100 * sd:.{int(sd < 0.01)}f}"
        words.append(tag("span", f" {percent}\N{NO-BREAK SPACE}%", class_="quiet"))
    return tag("a", *words, class_=f"chip k{k}", href=f"#component-{k}")
