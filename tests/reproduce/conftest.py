"""Every figure in its quick form, made once, by the command."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from figure_files import NEED_DATA, Made

import gapmf.cli
from gapmf.reproduce import FIGURES

# The quick form of some figures again, at sizes that show the same.
SMALLER = {
    "fig2": lambda config: replace(config, n_draws=25),
    "fig3a": lambda config: replace(config, n_draws=25),
    # most of its time goes into the likelihood of all documents
    "fig4": lambda config: replace(config, part=replace(config.part, judged=10)),
    "spare": lambda config: replace(
        config, cells=tuple(replace(cell, n_samples=50) for cell in config.cells)
    ),
}


@pytest.fixture(scope="session")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    data = os.environ.get("GAPMF_NIPS_DIR")
    if data is not None and Path(data).is_dir():
        calls = [("all", "--data", data)]
    else:
        calls = [(name,) for name in FIGURES if name not in NEED_DATA]
    with pytest.MonkeyPatch.context() as patch:
        for name, smaller in SMALLER.items():
            figure = FIGURES[name]
            patch.setitem(FIGURES, name, replace(figure, quick=smaller(figure.quick)))
        for name, *options in calls:
            given = ["reproduce", name, "--quick", *options, "-o", str(folder)]
            patch.setattr("sys.argv", ["gapmf", *given])
            with pytest.raises(SystemExit) as ended:
                gapmf.cli.run()
            assert not ended.value.code
    return Made(folder)


@pytest.fixture
def with_nips(quick):
    if not (quick.folder / "fig4.json").exists():
        pytest.skip("needs the NIPS counts: set GAPMF_NIPS_DIR")
    return quick
