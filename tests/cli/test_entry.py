"""The command line, as a subprocess."""

from __future__ import annotations

import os
import subprocess
import sys

import commands
import pytest

import gapmf

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
