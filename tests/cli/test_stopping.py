"""A command that is killed, interrupted, or that nobody reads any more: `gapmf` itself."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
import warnings

import numpy as np
from commands import GAPMF, gapmf

from gapmf import GammaPoissonMF, read


@contextlib.contextmanager
def a_long_fit(checkpoint, args, **options):
    """A fit that has begun to work, and has written its first checkpoint."""
    process = subprocess.Popen([GAPMF, *map(str, args)], **options)
    try:
        deadline = time.monotonic() + 120
        while not checkpoint.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_killed_fit_is_resumed(files, tmp_path):
    checkpoint, out = tmp_path / "c", tmp_path / "m"
    args = ["fit", files / "zoo.csv", "-k", 3, "-o", out, "--tol", "1e-9"]
    args += ["--max-iter", 400, "--checkpoint", checkpoint, "-q"]
    with a_long_fit(checkpoint, args, stderr=subprocess.DEVNULL) as process:
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not out.exists()
    found = json.loads(gapmf("info", checkpoint, "--json").stdout)
    assert (found["kind"], found["finished"]) == ("checkpoint", False)
    assert 0 < found["iterations"] < 400
    gapmf(*args, "--resume")
    assert json.loads(gapmf("info", checkpoint, "--json").stdout)["finished"]
    whole = GammaPoissonMF(3, tol=1e-9, max_iter=400, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may not have converged
        whole.fit(read(files / "zoo.csv").counts)
    np.testing.assert_array_equal(GammaPoissonMF.load(out).components_, whole.components_)


def test_ctrl_c_saves_what_there_is(files, tmp_path):
    checkpoint, out = tmp_path / "c", tmp_path / "m"
    args = ["fit", files / "zoo.csv", "-k", 3, "-o", out, "--tol", "1e-12"]
    args += ["--max-iter", 10**7, "--checkpoint", checkpoint]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with a_long_fit(checkpoint, args, **pipes) as process:
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the model so far, after" in said
    assert "Traceback" not in said
    assert GammaPoissonMF.load(out).n_iter_ > 0


def test_a_reader_that_has_seen_enough(files, model):
    command = f"{GAPMF} transform {model} {files / 'zoo.csv'} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("sample,")
    assert done.stderr == ""
