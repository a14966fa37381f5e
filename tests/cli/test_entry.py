"""The command line, as a subprocess."""

from __future__ import annotations

import os
import subprocess
import sys

import commands
import pytest

import gapmf
from gapmf.cli.options import as_options

COMMANDS = (
    "demo", "fit", "score", "transform", "recommend", "topics", "info", "check", "compare", "rank",
    "select", "simulate", "reproduce",
)  # fmt: skip


def _run(*args, **env):
    command = [commands.GAPMF, *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=os.environ | env
    )


def test_version():
    done = _run("--version")
    assert (done.returncode, done.stdout) == (0, f"gapmf {gapmf.__version__}\n")


def test_help_lists_the_commands():
    done = _run("--help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert command in done.stdout
        shown = commands.gapmf(command, "--help")
        assert f"gapmf {command}" in shown.stdout
        assert shown.stderr == ""


@pytest.mark.parametrize("command", ["fit", "report", "simulate"])
def test_help_fits_80_columns(command):
    lines = _run(command, "--help", COLUMNS="80").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.strip().startswith("Example: gapmf ") for line in lines) == 1
    assert not any("…" in line for line in lines)  # nothing is cut


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("algorithm='em-c' needs learn_alpha=False", "--algorithm em-c needs no --learn-alpha"),
        ("raise max_iter or tol", "raise --max-iter or --tol"),
        ("tol must be at least 0", "--tol must be at least 0"),
        ("learn it (learn_alpha=True).", "learn it (--learn-alpha)."),
        ("use a number, such as pseudo_count=0.1.", "use a number, such as --pseudo-count 0.1."),
        ("the option `header`, true for names or false for counts",
         "--header for names, or --no-header for counts"),
        ("min_df.csv, /tmp/max_df/x: alpha > 1", "min_df.csv, /tmp/max_df/x: alpha > 1"),
        ("est.set_params(smoothing=1e-3)", "est.set_params(smoothing=1e-3)"),
    ],
)  # fmt: skip
def test_messages_name_options(python, shell):
    assert as_options(python) == shell


def test_help_is_light():
    """Neither NumPy nor scikit-learn is imported for it."""
    code = (
        "import sys; sys.argv = ['gapmf', '--help']\nimport gapmf.cli\n"
        "try: gapmf.cli.run()\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'pandas'} & set(sys.modules)\n"
        "sys.exit(str(sorted(heavy)) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["topics", "topics --json", "info"])
def test_printing_a_model_is_light(model, command):
    """It takes NumPy, but no compiled kernels, and none of the libraries that a fit needs."""
    code = (
        "import sys\nimport gapmf.cli\n"
        "try: gapmf.cli.run()\nexcept SystemExit as end: assert end.code in (0, None), end.code\n"
        "heavy = {'scipy', 'sklearn', 'numba', 'pandas', 'joblib', 'gapmf.estimator'}\n"
        "sys.exit(str(sorted(heavy & set(sys.modules))) if heavy & set(sys.modules) else 0)"
    )
    args = [*command.split(), str(model)]
    done = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "f0" in done.stdout or "components" in done.stdout


def test_errors_are_short_and_non_zero():
    for bad in (["nonsense"], ["demo", "--seed", "-1"], ["--nonsense"]):
        done = _run(*bad)
        assert done.returncode != 0
        assert done.stdout == ""
        assert done.stderr.startswith("gapmf: ")
        assert done.stderr.count("\n") == 1


def test_a_terminal_without_greek_letters(model):
    done = _run("topics", str(model), PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "2 components of 5 features" in done.stdout
    assert "α" in commands.gapmf("topics", model).stdout
    assert done.stdout.isascii()


def test_the_papers_truth():
    W = gapmf.datasets.paper_model().W
    assert W.tolist() == [[0.638, 0.075], [0.009, 0.568], [0.044, 0.126], [0.309, 0.231]]
