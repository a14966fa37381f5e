"""Where the functions and tests of the tables of equations are; tests ask it without Sphinx."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[2]
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


def is_linked(text: str) -> bool:
    """Return whether a literal looks like the name of a function or of a test."""
    named = TEST.fullmatch(text) or DOTTED.fullmatch(text)
    return bool(named) and not text.endswith((".py", ".md"))


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
