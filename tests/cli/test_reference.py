"""docs/cli.md is generated from the commands, and up to date."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_is_up_to_date():
    made = runpy.run_path(str(DOCS / "generate_cli.py"))["reference"]()
    assert made == (DOCS / "cli.md").read_text(encoding="utf-8"), "run docs/generate_cli.py"
    for command in ("demo", "fit", "score", "transform", "topics", "info", "rank", "select"):
        assert f"## `gapmf {command}" in made
