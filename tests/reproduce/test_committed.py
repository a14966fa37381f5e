"""The results in docs/figures are those of the full protocols, and the page shows them."""

import dataclasses
import json
from pathlib import Path

import pytest

from gapmf.reproduce import FIGURES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", FIGURES)
def test_committed_results_have_the_full_settings(name):
    """Fails when a protocol is changed without making its figure anew."""
    content = json.loads((DOCS / "figures" / f"{name}.json").read_text(encoding="utf-8"))
    full = json.loads(json.dumps(dataclasses.asdict(FIGURES[name].full)))
    assert {key: content["settings"][key] for key in full} == full
    page = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    assert f"(figures/{name}.png)" in page
    assert f"gapmf reproduce {name}" in page
