"""A command that is killed, interrupted, or that nobody reads any more: `gapmf` itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import warnings

import numpy as np
import pytest
from commands import GAPMF, gapmf, started_fit

from gapmf import GammaPoissonMF, read
from gapmf.cli import run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")


def test_a_killed_fit_is_resumed(files, tmp_path):
    checkpoint, out = tmp_path / "c", tmp_path / "m"
    args = ["fit", files / "zoo.csv", "-k", 3, "-o", out, "--tol", 1e-9, "--max-iter", 400, "-q"]
    with started_fit(checkpoint, args, stderr=subprocess.DEVNULL) as process:
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not out.exists()
    found = json.loads(gapmf("info", checkpoint, "--json").stdout)
    assert (found["kind"], found["finished"]) == ("checkpoint", False)
    assert 0 < found["iterations"] < 400
    gapmf(*args, "--checkpoint", checkpoint, "--resume")
    assert json.loads(gapmf("info", checkpoint, "--json").stdout)["finished"]
    whole = GammaPoissonMF(3, tol=1e-9, max_iter=400, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may not have converged
        whole.fit(read(files / "zoo.csv").counts)
    np.testing.assert_array_equal(GammaPoissonMF.load(out).components_, whole.components_)


def test_ctrl_c_saves_what_there_is(files, tmp_path):
    checkpoint, out = tmp_path / "c", tmp_path / "m"
    args = ["fit", files / "zoo.csv", "-k", 3, "-o", out, "--tol", 0, "--max-iter", 10**7]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started_fit(checkpoint, args, **pipes) as process:
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the model so far, after" in said
    assert "Traceback" not in said
    assert GammaPoissonMF.load(out).n_iter_ > 0


def test_ctrl_c_in_an_exact_fit_on_one_thread(tmp_path):
    """Numba hides an interruption that comes while it looks for a kernel."""
    data, out = tmp_path / "big.csv", tmp_path / "big.gapmf"
    gapmf("simulate", "-o", data, "-n", 2000, "-f", 6, "-k", 3, "--counts", 60)
    args = ["fit", data, "-k", 3, "-o", out, "--algorithm", "exact", "--jobs", 1]
    pipes = {"stderr": subprocess.PIPE, "text": True}
    with started_fit(tmp_path / "c", args, **pipes) as process:  # written before any iteration
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert out.exists() == ("is in " + str(out) in said)  # not before iteration 1


def test_a_reader_that_has_seen_enough(files, model):
    command = f"{GAPMF} transform {model} {files / 'zoo.csv'} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("sample,")
    assert done.stderr == ""


def test_ctrl_c_inside_numbas_dispatcher(monkeypatch, capsys):
    """It arrives as a SystemError; without a model to save it still ends with 130."""

    def interrupted(**options):
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr("gapmf.cli.app", interrupted)
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "gapmf: stopped\n"
