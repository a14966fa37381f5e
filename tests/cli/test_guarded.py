"""What must not be lost, and what must not be ignored: each by a command."""

import pytest
from commands import gapmf

from gapmf import read


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table and a model of it."""
    folder = tmp_path_factory.mktemp("guarded")
    data = folder / "zoo.csv"
    data.write_text("ape,bee,cat\n1,0,4\n2,3,0\n0,1,5\n4,0,1\n")
    gapmf("fit", data, "-k", 2, "-o", folder / "zoo.gapmf", "--max-iter", 3, "-q")
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    """The same, as the current folder."""
    monkeypatch.chdir(made)
    return made


def test_outputs_do_not_replace_inputs(folder):
    before = (folder / "zoo.csv").read_bytes()
    for command in ("transform", "score"):
        assert (
            "is the data" in gapmf(command, "zoo.gapmf", "zoo.csv", "-o", "zoo.csv", code=1).stderr
        )
    assert "is the output" in gapmf("simulate", "-o", "z.npz", "--truth", "z.npz", code=1).stderr
    assert (folder / "zoo.csv").read_bytes() == before
    assert not (folder / "z.npz").exists()


def test_options_of_a_random_model_are_not_ignored(folder):
    arguments = ("simulate", "--model", "zoo.gapmf", "-o", "new.csv")
    assert "--alpha is for a random model" in gapmf(*arguments, "--alpha", "5", code=2).stderr
    gapmf(*arguments, "-n", 3)


def test_names_of_a_simulated_bag_of_words(folder):
    gapmf("simulate", "--model", "zoo.gapmf", "-o", "docword.zoo.txt.gz")
    table = read(folder / "docword.zoo.txt.gz")
    assert list(table.feature_names) == ["ape", "bee", "cat"]


def test_a_checkpoint_of_a_fit_that_ended_gives_the_model(folder):
    fit = ("fit", "zoo.csv", "-k", 2, "-o", "again.gapmf", "--max-iter", 3, "-q")
    gapmf(*fit, "--checkpoint", "c.part")
    model = (folder / "again.gapmf").read_bytes()
    (folder / "again.gapmf").unlink()
    done = gapmf(*fit, "--checkpoint", "c.part", "--resume")
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "again.gapmf").read_bytes() == model
    assert "iterations  3" in gapmf("info", "c.part").stdout


def test_quiet_says_nothing(folder):
    done = gapmf("fit", "zoo.csv", "-k", 2, "-o", "q.gapmf", "--max-iter", 3, "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_arguments_there_is_help_and_no_empty_complaint(folder):
    done = gapmf(code=None)
    assert "Usage" in done.stdout + done.stderr
    assert "gapmf: \n" not in done.stderr


def test_tables_of_other_manners(folder):
    """European separators, Latin-1, no header, and an id column in front."""
    (folder / "eu.csv").write_bytes("id;süß;cat\n7;1;4\n8;2;0\n".encode("latin-1"))
    (folder / "bare.csv").write_text("1,0\n2,3\n")
    options = ("--delimiter", ";", "--encoding", "latin-1")
    done = gapmf("fit", "eu.csv", "-k", 1, "-o", "eu.gapmf", "--max-iter", 2, *options)
    assert "2 samples × 2 features" in done.stderr
    assert "süß" in done.stdout
    done = gapmf("fit", "bare.csv", "-k", 1, "-o", "b.gapmf", "--no-header")
    assert "2 samples × 2 features" in done.stderr
    assert (
        "set --header for names, or --no-header for counts"
        in gapmf("fit", "bare.csv", "-k", 1, "-o", "c.gapmf", code=1).stderr
    )


def test_a_score_without_smoothing(folder):
    """Features without counts in the fit are possible by default, but not in the bare model."""
    (folder / "one.csv").write_text("ape,bee,cat\n1,0,0\n2,0,0\n")
    gapmf("fit", "one.csv", "-k", 1, "-o", "one.gapmf", "-q")
    for options in ((), ("--smoothing", "0.05")):
        done = gapmf("score", "one.gapmf", "zoo.csv", *options)
        assert "probability 0" not in done.stdout
        assert "nats, over 21 counts" in done.stdout
    done = gapmf("score", "one.gapmf", "zoo.csv", "--smoothing", "0")
    assert "4 samples have probability 0" in done.stdout


def test_triplets_by_other_names(folder):
    (folder / "plays.csv").write_text("user,song,plays\n7,a,3\n7,b,1\n9,a,2\n")
    done = gapmf("fit", "plays.csv", "-k", 1, "-o", "p.gapmf", "--max-iter", 2)
    assert "2 samples × 2 features" in done.stderr
    (folder / "odd.csv").write_text("who,what,often\nx,a,3\ny,b,1\n")
    assert (
        "set the options --layout or --sample-names"
        in gapmf("fit", "odd.csv", "-k", 1, "-o", "o.gapmf", code=1).stderr
    )


def test_a_missing_file(folder):
    assert "no.csv: No such file" in gapmf("fit", "no.csv", "-k", 1, "-o", "o.gapmf", code=1).stderr
