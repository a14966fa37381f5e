"""Link the functions and tests in the tables of equations to pages with their source."""

from __future__ import annotations

import ast
import html
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.util import logging

PROJECT = Path(__file__).parents[2]
PAGES = {"equations"}
TEST = re.compile(r"([\w/]+\.py)::(\w+)")
DOTTED = re.compile(r"[a-z]\w*(\.\w+)+")


class Place(NamedTuple):
    """A line of a file of this project."""

    path: str
    line: int


@cache
def _lines(path: Path) -> dict[str, int]:
    """The line of each function, class and method of a file, by its dotted name."""

    def walk(node: ast.AST, prefix: str):
        for child in getattr(node, "body", ()):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                yield prefix + child.name, child.lineno
                yield from walk(child, f"{prefix}{child.name}.")

    return dict(walk(ast.parse(path.read_text(encoding="utf-8")), ""))


def find(text: str) -> Place | None:
    """Return where a function of gapmf ("model.GaP") or a test ("test_model.py::test_x") is."""
    if test := TEST.fullmatch(text):
        return _place(PROJECT / "tests" / test[1], test[2])
    parts = text.split(".")
    for n in range(len(parts), 0, -1):
        stem = PROJECT.joinpath("src", "gapmf", *parts[:n])
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.exists():
                return _place(path, ".".join(parts[n:]))
    return None


def _place(path: Path, name: str) -> Place | None:
    line = 1 if not name else _lines(path).get(name) if path.exists() else None
    return line and Place(path.relative_to(PROJECT).as_posix(), line)


def _link(app, doctree, docname):
    if docname not in PAGES:
        return
    for literal in list(doctree.findall(nodes.literal)):
        text = literal.astext()
        if not (TEST.fullmatch(text) or DOTTED.fullmatch(text)) or text.endswith((".py", ".md")):
            continue
        place = find(text)
        if place is None:
            logging.getLogger(__name__).warning("%s is nowhere in the source", text)
            continue
        app.env.source_pages.add(place.path)
        target = app.builder.get_relative_uri(docname, f"source/{place.path}")
        link = nodes.reference("", "", internal=True, refuri=f"{target}#line-{place.line}")
        literal.replace_self(link)
        link += literal


def _start(app):
    app.env.source_pages = set()


def _pages(app):
    form = HtmlFormatter(linenos="inline", lineanchors="line", anchorlinenos=True)
    for path in sorted(app.env.source_pages):
        code = (PROJECT / path).read_text(encoding="utf-8")
        body = f"<h1><code>{html.escape(path)}</code></h1>{highlight(code, PythonLexer(), form)}"
        yield f"source/{path}", {"title": path, "body": body}, "page.html"


def setup(app):
    """Connect to Sphinx."""
    app.connect("builder-inited", _start)
    app.connect("doctree-resolved", _link)
    app.connect("html-collect-pages", _pages)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
