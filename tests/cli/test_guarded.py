"""What must not be lost, and what must not be ignored: each by a command."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gapmf

GAPMF = str(Path(sys.executable).with_name("gapmf"))


def run(*arguments, cwd):
    return subprocess.run(
        [GAPMF, *map(str, arguments)],
        capture_output=True, text=True, timeout=300, check=False, cwd=cwd,
    )  # fmt: skip


def fails(*arguments, cwd, said):
    done = run(*arguments, cwd=cwd)
    assert done.returncode in (1, 2)
    (line,) = done.stderr.splitlines()
    assert line.startswith("gapmf: ")
    assert said in line


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table and a model of it."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "zoo.csv").write_text("ape,bee,cat\n1,0,4\n2,3,0\n0,1,5\n4,0,1\n")
    run("fit", "zoo.csv", "-k", 2, "-o", "zoo.gapmf", "--max-iter", 3, "-q", cwd=folder)
    return folder


def test_outputs_do_not_replace_inputs(folder):
    before = (folder / "zoo.csv").read_bytes()
    for command in ("transform", "score"):
        fails(command, "zoo.gapmf", "zoo.csv", "-o", "zoo.csv", cwd=folder, said="is the data")
    fails("simulate", "-o", "z.npz", "--truth", "z.npz", cwd=folder, said="is the output")
    assert (folder / "zoo.csv").read_bytes() == before
    assert not (folder / "z.npz").exists()


def test_options_of_a_random_model_are_not_ignored(folder):
    arguments = ("simulate", "--model", "zoo.gapmf", "-o", "new.csv")
    fails(*arguments, "--alpha", "5", cwd=folder, said="--alpha is for a random model")
    assert run(*arguments, "-n", 3, cwd=folder).returncode == 0


def test_names_of_a_simulated_bag_of_words(folder):
    run("simulate", "--model", "zoo.gapmf", "-o", "docword.zoo.txt.gz", cwd=folder)
    table = gapmf.read(folder / "docword.zoo.txt.gz")
    assert list(table.feature_names) == ["ape", "bee", "cat"]


def test_a_checkpoint_of_a_fit_that_ended_gives_the_model(folder):
    fit = ("fit", "zoo.csv", "-k", 2, "-o", "again.gapmf", "--max-iter", 3, "-q")
    run(*fit, "--checkpoint", "c.part", cwd=folder)
    model = (folder / "again.gapmf").read_bytes()
    (folder / "again.gapmf").unlink()
    done = run(*fit, "--checkpoint", "c.part", "--resume", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "again.gapmf").read_bytes() == model
    assert "iterations  3" in run("info", "c.part", cwd=folder).stdout


def test_quiet_says_nothing(folder):
    done = run("fit", "zoo.csv", "-k", 2, "-o", "q.gapmf", "--max-iter", 3, "-q", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_arguments_there_is_help_and_no_empty_complaint(folder):
    done = run(cwd=folder)
    assert "Usage" in done.stdout + done.stderr
    assert "gapmf: \n" not in done.stderr


def test_tables_of_other_manners(folder):
    """European separators, Latin-1, no header, and an id column in front."""
    (folder / "eu.csv").write_bytes("id;süß;cat\n7;1;4\n8;2;0\n".encode("latin-1"))
    (folder / "bare.csv").write_text("1,0\n2,3\n")
    options = ("--delimiter", ";", "--encoding", "latin-1")
    done = run("fit", "eu.csv", "-k", 1, "-o", "eu.gapmf", "--max-iter", 2, *options, cwd=folder)
    assert "2 samples × 2 features" in done.stderr
    assert "süß" in done.stdout
    done = run("fit", "bare.csv", "-k", 1, "-o", "b.gapmf", "--no-header", cwd=folder)
    assert "2 samples × 2 features" in done.stderr
    fails("fit", "bare.csv", "-k", 1, "-o", "c.gapmf", cwd=folder, said="set the option `header`")


def test_smoothing_can_be_asked_for_later(folder):
    (folder / "new.csv").write_text("ape,bee,cat,dog\n1,0,0,9\n")
    (folder / "one.csv").write_text("ape,bee,cat\n1,0,0\n2,0,0\n")
    run("fit", "one.csv", "-k", 1, "-o", "one.gapmf", "-q", cwd=folder)
    done = run("score", "one.gapmf", "zoo.csv", cwd=folder)
    assert "4 samples have probability 0" in done.stdout
    done = run("score", "one.gapmf", "zoo.csv", "--smoothing", "0.05", cwd=folder)
    assert "probability 0" not in done.stdout


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_in_an_exact_fit_on_one_thread(folder):
    """Numba hides an interruption that comes while it looks for a kernel."""
    run("simulate", "-o", "big.csv", "-n", 300, "-f", 6, "-k", 3, "--counts", 60, cwd=folder)
    fit = ("fit", "big.csv", "-k", "3", "-o", "big.gapmf", "--algorithm", "exact", "--jobs", "1")
    process = subprocess.Popen([GAPMF, *fit], cwd=folder, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "read in" in line:
            break
    time.sleep(4.0)  # into the fit
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert "Traceback" not in said
    assert process.returncode in (0, 130)  # 0 if the fit ended before
    assert (folder / "big.gapmf").exists() == ("is in big.gapmf" in said)  # not before iteration 1


def test_triplets_by_other_names(folder):
    (folder / "plays.csv").write_text("user,song,plays\n7,a,3\n7,b,1\n9,a,2\n")
    done = run("fit", "plays.csv", "-k", 1, "-o", "p.gapmf", "--max-iter", 2, cwd=folder)
    assert "2 samples × 2 features" in done.stderr
    (folder / "odd.csv").write_text("who,what,often\nx,a,3\ny,b,1\n")
    fails("fit", "odd.csv", "-k", 1, "-o", "o.gapmf", cwd=folder, said="the option `layout`")


def test_a_missing_file(folder):
    fails("fit", "no.csv", "-k", 1, "-o", "o.gapmf", cwd=folder, said="no.csv: No such file")
