"""Link equations to the source of their functions and tests, and pages to those of the gallery."""

from __future__ import annotations

import html
import re

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from source_names import PROJECT, find, is_linked
from sphinx.util import logging

PAGES = {"equations", "theory"}
GALLERY = re.compile(r"\]\(((?:\.\./)*)gallery/(\w+)\.py\)")


def _link(app, doctree, docname):
    if docname not in PAGES:
        return
    for literal in list(doctree.findall(nodes.literal)):
        text = literal.astext()
        if not is_linked(text):
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
        _let_break(literal)


def _let_break(literal):
    """Let a name break after its dots, colons and underscores, and nowhere else."""
    first, *rest = re.split(r"(?<=[._:])(?![._:])", literal.astext())
    literal.clear()
    literal += nodes.Text(first)
    for part in rest:
        literal += [nodes.raw("", "<wbr>", format="html"), nodes.Text(part)]


def _to_gallery(app, docname, source):
    """Lead links to a script of the gallery, as GitHub shows it, to its page."""
    source[0] = GALLERY.sub(r"](\1_gallery/\2.rst)", source[0])


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
    app.connect("source-read", _to_gallery)
    app.connect("doctree-resolved", _link)
    app.connect("html-collect-pages", _pages)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
