"""Every figure in its quick form, with still smaller sizes, made once, by the command."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from figure_files import NEED_DATA, Made

import gapmf.cli
from gapmf.reproduce import FIGURES
from gapmf.reproduce.nips import QUICK

# What the findings do not need: samples, data sets, and iterates whose exact cost is computed.
FEW = replace(QUICK, judged=10)
SIZES = {
    "fig1": {"n_samples": 150, "n_iter": 60},
    "fig2": {"n_looks": 12},
    "fig3a": {"n_looks": 12},
    "fig3b": {"n_looks": 8},
    "fig4": {"part": FEW, "milestones": (25,)},
    "race": {"part": FEW},
    "spare": {"scales": (1.0, 30.0), "n_samples": 50},
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
        for name, sizes in SIZES.items():
            smaller = replace(FIGURES[name].quick, **sizes)
            patch.setitem(FIGURES, name, replace(FIGURES[name], quick=smaller))
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
