from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Property tests draw the same examples every time, and no example is too slow: compiling is.
settings.register_profile("gapmf", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("gapmf")

# Commands, figures, every example of the docs and scikit-learn's own checks are slow as a whole;
# elsewhere single tests are marked.
SLOW = ("cli/", "reproduce/", "test_docs", "test_nips", "test_sklearn")

# With several processes, these files begin first: whoever began one last would work on it alone.
# Between the first ones stand two that need other kernels, so that two processes with nothing
# compiled do not compile the same ones.
LONGEST = (
    "reproduce/test_figures", "likelihood/test_smc", "test_checkpoint", "likelihood/test_exact",
    "test_docs", "engines/test_cluster", "test_sklearn", "ranks/test_report", "test_selection",
    "em/", "likelihood/", "ranks/", "cli/", "kernels/",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    """Mark tests as slow by their files, and begin with the longest files."""
    tests = Path(__file__).parent
    places = {item: item.path.relative_to(tests).as_posix() for item in items}
    for item, place in places.items():
        if place.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: [not places[item].startswith(long) for long in LONGEST])


@pytest.fixture(scope="session")
def nips_dir():
    """The folder with the NIPS bag of words, which is not part of the project."""
    folder = os.environ.get("GAPMF_NIPS_DIR")
    if not folder or not (Path(folder) / "docword.nips.txt.gz").exists():
        pytest.skip("real data: set GAPMF_NIPS_DIR to a folder with docword.nips.txt.gz")
    return Path(folder)
