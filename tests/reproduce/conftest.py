"""Every figure in its quick form, made once, by the command."""

import os
from pathlib import Path

import pytest
from figure_files import NEED_DATA, Made, gapmf

from gapmf.reproduce import FIGURES


@pytest.fixture(scope="session")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    data = os.environ.get("GAPMF_NIPS_DIR")
    if data is not None and Path(data).is_dir():
        calls = [("all", "--data", data)]
    else:
        calls = [(name,) for name in FIGURES if name not in NEED_DATA]
    for name, *options in calls:
        done = gapmf("reproduce", name, "--quick", *options, "-o", folder)
        assert done.returncode == 0, done.stderr
    return Made(folder)


@pytest.fixture
def with_nips(quick):
    if not (quick.folder / "fig4.json").exists():
        pytest.skip("needs the NIPS counts: set GAPMF_NIPS_DIR")
    return quick
