"""What each command does: its output, its files, and what it refuses."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import sys

import numpy as np
import polars as pl
import pytest
from commands import gapmf

from gapmf import GammaPoissonMF, read

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")
SIMULATED = ("toy.csv", "toy.mtx", "toy.npz", "toy.h5ad", "docword.toy.txt", "docword.toy.txt.gz")
SIZES = ("-n", 60, "-f", 20, "-k", 3, "--counts", 50, "--seed", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A simulated file in every format that `simulate` has, and a model of one."""
    folder = tmp_path_factory.mktemp("files")
    for name in SIMULATED:
        gapmf("simulate", "-o", folder / name, *SIZES)
    (folder / "vocab.toy.txt").write_text("".join(f"word{f}\n" for f in range(20)))
    gapmf(
        "fit", folder / "docword.toy.txt.gz", "-k", 3, "--learn-alpha", "-o", folder / "m.gapmf",
        "--tol", 1e-3,
    )  # fmt: skip
    return folder


def test_simulated_files_are_the_same_in_every_format(folder):
    tables = [read(folder / name).counts.toarray() for name in SIMULATED]
    assert tables[0].shape == (60, 20)
    assert tables[0].sum() > 1000
    for table in tables[1:]:
        np.testing.assert_array_equal(table, tables[0])


def test_fit_says_what_it_does_and_writes_a_model(folder):
    out = folder / "again.gapmf"
    done = gapmf(
        "fit", folder / "docword.toy.txt.gz", "-k", 3, "--learn-alpha", "-o", out, "--tol", 1e-3
    )
    assert "60 samples × 20 features" in done.stderr
    assert f"the model is in {out}" in done.stderr
    assert "3 components of 20 features" in done.stdout
    assert "word" in done.stdout
    est, first = GammaPoissonMF.load(out), GammaPoissonMF.load(folder / "m.gapmf")
    np.testing.assert_array_equal(est.components_, first.components_)
    assert est.feature_names_in_[3] == "word3"
    counts = read(folder / "docword.toy.txt").counts
    own = GammaPoissonMF(3, learn_alpha=True, tol=1e-3, random_state=0).fit(counts)
    np.testing.assert_array_equal(est.components_, own.components_)


@pytest.mark.parametrize("algorithm", ["vbem", "mjle"])
def test_fit_by_another_objective(folder, algorithm):
    out, kept = folder / f"{algorithm}.gapmf", folder / f"{algorithm}.checkpoint"
    given = ["--algorithm", algorithm, "--tol", 1e-3, "--checkpoint", kept]
    gapmf("fit", folder / "toy.csv", "-k", 2, "-o", out, "-q", *given)
    own = GammaPoissonMF(2, algorithm=algorithm, tol=1e-3, random_state=0)
    own.fit(read(folder / "toy.csv").counts)
    np.testing.assert_array_equal(GammaPoissonMF.load(out).components_, own.components_)
    for path in (out, kept):
        found = json.loads(gapmf("info", path, "--json").stdout)
        assert found["iterations"] == own.n_iter_
        assert found["parameters"]["algorithm"] == algorithm


def test_quiet(folder):
    done = gapmf("fit", folder / "toy.csv", "-k", 2, "-o", folder / "q.gapmf", "-q", "--tol", 0.1)
    assert (done.stdout, done.stderr) == ("", "")


def test_topics(folder):
    found = json.loads(gapmf("topics", folder / "m.gapmf", "-n", 4, "--json").stdout)
    assert [len(c["features"]) for c in found] == [4, 4, 4]
    shares = [c["share"] for c in found]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0)
    gapmf("topics", folder / "m.gapmf", "-n", 4, "-o", folder / "topics.csv")
    with open(folder / "topics.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert rows[0]["feature"] == found[0]["features"][0]["feature"]
    est = GammaPoissonMF.load(folder / "m.gapmf")
    for by in ("distinctive", "weight"):
        shown = json.loads(gapmf("topics", folder / "m.gapmf", "--by", by, "--json").stdout)
        for c in shown:
            top = [(x["feature"], x["weight"]) for x in c["features"]]
            assert top == est.top_features(10, by=by)[c["component"]]
    assert "largest features" in gapmf("topics", folder / "m.gapmf", "--by", "weight").stdout
    for columns in ("80", "120"):
        shown = gapmf("topics", folder / "m.gapmf", COLUMNS=columns).stdout
        assert max(map(len, shown.splitlines())) <= int(columns)


def test_score(folder):
    counts = read(folder / "docword.toy.txt").counts
    est = GammaPoissonMF.load(folder / "m.gapmf")
    expected = est.log_likelihood(counts)
    out = folder / "scores.parquet"
    done = gapmf("score", folder / "m.gapmf", folder / "docword.toy.txt", "--json", "-o", out)
    found = json.loads(done.stdout)
    assert found["log_likelihood"] == pytest.approx(expected.total, rel=1e-12)
    frame = pl.read_parquet(out)
    np.testing.assert_allclose(frame["log_likelihood"].to_numpy(), expected.per_sample)
    assert (
        "log p(60 samples) = "
        in gapmf("score", folder / "m.gapmf", folder / "docword.toy.txt").stdout
    )


def test_transform(folder):
    counts = read(folder / "docword.toy.txt").counts
    est = GammaPoissonMF.load(folder / "m.gapmf")
    given = ("transform", folder / "m.gapmf", folder / "docword.toy.txt")
    H, proportions = (
        np.array([row[1:] for row in list(csv.reader(shown.splitlines()))[1:]], dtype=float)
        for shown in (gapmf(*given, "--activations").stdout, gapmf(*given).stdout)
    )
    np.testing.assert_allclose(H, est.transform(counts))
    np.testing.assert_allclose(proportions, est.proportions(counts))
    np.testing.assert_allclose(proportions.sum(axis=1), 1.0)
    as_json = gapmf("transform", folder / "m.gapmf", folder / "docword.toy.txt", "--json").stdout
    assert len(json.loads(as_json)) == 60


def test_features_are_found_by_name(folder, tmp_path):
    """In another order, with one that the model does not know, and without one that it has."""
    counts = read(folder / "docword.toy.txt").counts.toarray()
    order = np.random.default_rng(0).permutation(20)[:19]
    names = [f"word{f}" for f in order] + ["new"]
    with open(tmp_path / "other.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(np.column_stack([counts[:, order], np.full(60, 2)]).tolist())
    done = gapmf("transform", folder / "m.gapmf", tmp_path / "other.csv", "--activations")
    said = (
        "that the model does not have are left out: 1 of 20, with 5.12% of the counts: 'new' (120)"
    )
    assert said in done.stderr
    known = np.zeros_like(counts)
    known[:, order] = counts[:, order]
    expected = GammaPoissonMF.load(folder / "m.gapmf").transform(known)
    rows = list(csv.reader(done.stdout.splitlines()))
    np.testing.assert_allclose(np.array([r[1:] for r in rows[1:]], dtype=float), expected)


def test_info(folder):
    found = json.loads(gapmf("info", folder / "m.gapmf", "--json").stdout)
    assert (found["kind"], found["components"], found["features"]) == ("model", 3, 20)
    assert "converged" in gapmf("info", folder / "m.gapmf").stdout


def test_simulate_from_a_model_and_its_truth(folder, tmp_path):
    gapmf("simulate", "-o", tmp_path / "s.npz", "--model", folder / "m.gapmf", "-n", 7)
    assert read(tmp_path / "s.npz").counts.shape == (7, 20)
    gapmf("simulate", "-o", tmp_path / "t.csv", "-k", 2, "-f", 5, "--truth", tmp_path / "t.npz")
    assert np.load(tmp_path / "t.npz")["W"].shape == (5, 2)


@pytest.mark.parametrize(
    ("args", "match"),
    [
        (["fit", "nowhere.csv", "-k", 2, "-o", "m"], "No such file"),
        (["fit", "toy.csv", "-k", 2, "-o", "no/such/m"], "no/such does not exist"),
        (
            ["fit", "nowhere", "-k", 2, "-o", "m", "--checkpoint", "no/such/c"],
            "no/such does not exist",
        ),
        (
            ["fit", "toy.csv", "-k", 2, "-o", "m", "--min-df", "0"],
            "--min-df must be a whole number",
        ),
        (["fit", "toy.csv", "-k", 2, "-o", "m", "--max-df", "1.5"], "from 0.0 to 1.0, but is 1.5"),
        (["fit", "toy.npz", "-k", 2, "-o", "m", "--min-df", "2"], "has no names of features"),
        (["fit", "toy.csv", "-k", 2, "-o", "m", "--stop-words", "x"], "there is no such file"),
        (["fit", "toy.csv", "-k", 2, "-o", "toy.csv"], "is the data"),
        (["fit", "toy.npz", "-k", 2, "-o", "toy.csv"], "is not a model, so it is not replaced"),
        (["fit", "toy.csv", "-k", 2, "-o", "m", "--resume"], "--resume needs --checkpoint"),
        (["fit", "toy.csv", "-k", 2, "-o", "m", "--layer", "x"], "no option layer"),
        (["fit", "toy.csv", "-k", 2, "-o", "m", "--algorithm", "no"], "algorithm"),
        (["fit", "toy.csv", "-k", 2, "-o", "m", "--alpha", -1], "--alpha is -1"),
        (
            ["fit", "toy.csv", "-k", 2, "-o", "m", "--schedule", "posterior"],
            "--schedule posterior needs a prior on the components, but --pseudo-count is 0: use "
            "--pseudo-count auto, or a number such as 0.1",
        ),
        (
            ["fit", "toy.csv", "-k", 2, "-o", "m", "--learn-alpha", "--algorithm", "mjle"],
            "or no --learn-alpha",
        ),
        (
            ["fit", "toy.csv", "-k", 2, "-o", "m", "-q", "--checkpoint", "toy.mtx"],
            "not a gapmf file",
        ),
        (["score", "nowhere.gapmf", "toy.npz"], "nowhere.gapmf"),
        (["score", "toy.csv", "toy.npz"], "toy.csv is not a gapmf file"),
        (["score", "m.gapmf", "toy.npz", "-o", "x.xls"], "must end in .csv, .tsv, .json"),
        (["score", "m.gapmf", "toy.npz", "-o", "no/such/x.csv"], "no/such does not exist"),
        (["transform", "m.gapmf", "toy.npz", "-o", "x"], "must end in .csv, .tsv, .json"),
        (["transform", "cut.gapmf", "toy.npz", "-o", "x.csv"], "cut.gapmf"),
        (["topics", "toy.csv"], "not a gapmf file"),
        (["topics", "nowhere.gapmf"], "nowhere.gapmf"),
        (["topics", "cut.gapmf", "--json"], "cut.gapmf"),
        (["topics", "m.gapmf", "-o", "x.xls"], "must end in .csv, .tsv, .json"),
        (
            ["topics", "m.gapmf", "--by", "size"],
            "by must be one of 'distinctive', 'weight', but is 'size'",
        ),
        (["info", "toy.csv"], "not a gapmf file"),
        (["info", "nowhere.gapmf", "--json"], "nowhere.gapmf"),
        (["info", "cut.gapmf"], "cut.gapmf"),
        (["simulate", "-o", "x.xls"], "must end in .csv, .mtx, .npz or .h5ad"),
        (["simulate", "-o", "no/such/x.csv"], "no/such does not exist"),
        (["simulate", "-o", "x.csv", "--alpha", 0], "alpha must be"),
        (["simulate", "-o", "x.csv", "--counts", "nan"], "counts must be"),
        (["simulate", "-o", "x.csv", "--model", "toy.csv"], "toy.csv is not a gapmf file"),
        (["simulate", "-o", "x.csv", "--model", "m.gapmf", "--truth", "t.npz"], "--truth is for"),
        (["simulate", "-o", "x.csv", "--truth", "t.csv"], "the name must end in .npz"),
    ],
)
def test_bad_input(folder, args, match, monkeypatch):
    _refused(folder, args, match, 1, monkeypatch)


@pytest.mark.parametrize(
    ("args", "match"),
    [
        (["fit", "toy.csv", "-k", 0, "-o", "m"], "--components"),
        (["fit", "toy.csv", "-o", "m"], "Missing option"),
        (["fit", "-k", 2, "-o", "m"], "Missing argument 'DATA'"),
        (["fit", "toy.csv", "-k", 2, "-o", "m", "--min-df", "few"], "'few' is not a number of"),
        (["score", "m.gapmf"], "Missing argument 'DATA'"),
        (["transform", "m.gapmf", "toy.csv", "toy.csv"], "unexpected extra argument"),
        (["topics", "m.gapmf", "-n", 0], "-n"),
        (["topics"], "Missing argument 'MODEL'"),
        (["info"], "Missing argument 'MODEL'"),
        (["simulate", "-o", "x.csv", "-n", 0], "--samples"),
        (["simulate", "-o", "x.csv", "--seed", -1], "--seed"),
    ],
)
def test_wrong_calls(folder, args, match, monkeypatch):
    _refused(folder, args, match, 2, monkeypatch)


def _refused(folder, args, match, code, monkeypatch):
    """In a line, and without a file that was not there before."""
    whole = (folder / "m.gapmf").read_bytes()
    (folder / "cut.gapmf").write_bytes(whole[: len(whole) // 2])
    monkeypatch.chdir(folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert match in gapmf(*args, code=code).stderr
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_text(tmp_path):
    lines = ["apes eat bananas and apes sleep", "bees make honey honey", "apes and bees"] * 5
    (tmp_path / "docs.txt").write_text("\n".join(lines))
    gapmf("fit", tmp_path / "docs.txt", "-k", 2, "-o", tmp_path / "m", "--stop-words", "english",
          "--tol", 0.1)  # fmt: skip
    (tmp_path / "new.txt").write_text("honey bees dance\n")
    done = gapmf("transform", tmp_path / "m", tmp_path / "new.txt")
    assert "left out" in done.stderr


def test_filters_of_features(folder, tmp_path):
    """For any format with names; data that are not filtered are then matched by name."""
    data, out = folder / "docword.toy.txt", tmp_path / "m.gapmf"
    (tmp_path / "stop").write_text("word1\nword2\n")
    options = ("--min-df", 3, "--max-df", "0.9", "--stop-words", tmp_path / "stop")
    done = gapmf("fit", data, "-k", 2, "-o", out, "--tol", 0.1, *options)
    table = read(data, min_df=3, max_df=0.9, stop_words=["word1", "word2"])
    assert f"60 samples × {len(table.feature_names)} features" in done.stderr
    assert list(GammaPoissonMF.load(out).feature_names_in_) == list(table.feature_names)
    assert not {"word1", "word2"} & set(table.feature_names)
    [note] = gapmf("score", out, data).stderr.splitlines()
    lost, part = 20 - len(table.feature_names), 1 - table.counts.sum() / read(data).counts.sum()
    assert f"does not have are left out: {lost} of 20, with {part:.2%} of the counts: 'word" in note


def test_no_counts_have_no_value_per_count(folder, tmp_path):
    (tmp_path / "none.csv").write_text("word1,word2\n0,0\n0,0\n")
    done = gapmf("score", folder / "m.gapmf", tmp_path / "none.csv", "--json")
    assert '"per_count": null' in done.stdout
    assert json.loads(done.stdout)["log_likelihood"] < 0
    shown = gapmf("score", folder / "m.gapmf", tmp_path / "none.csv").stdout
    assert "the data have no counts, so there is no value per count" in shown


def test_duplicated_names_are_said_before_the_fit(tmp_path):
    (tmp_path / "twice.csv").write_text("ape,bee,ape\n1,2,3\n3,0,1\n")
    args = ("fit", tmp_path / "twice.csv", "-k", 1, "-o", tmp_path / "m", "--tol", 0.1)
    said, after = gapmf(*args).stderr.split("2 samples × 3 features")
    assert "note: some features have the same name: 'ape' (2 times)." in said
    assert "the same name" not in after


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="names of files are Unicode")
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".json", ".parquet"])
def test_names_that_are_not_unicode(tmp_path, suffix):
    """The bytes of a name are escaped in the same way in every format, and on the terminal."""
    texts = tmp_path / "texts"
    texts.mkdir()
    for name in (b"caf\xe9.txt", "café.txt".encode(), b"tea.txt"):
        (texts / os.fsdecode(name)).write_text("word1 word2 word3")
    gapmf("fit", texts, "-k", 1, "-o", tmp_path / "m", "--tol", 0.1, "-q")
    out = tmp_path / f"scores{suffix}"
    gapmf("score", tmp_path / "m", texts, "-o", out)
    if suffix == ".parquet":
        found = pl.read_parquet(out)["sample"].to_list()
    elif suffix == ".json":
        found = [row["sample"] for row in json.loads(out.read_text(encoding="utf-8"))]
    else:
        lines = out.read_text(encoding="utf-8").splitlines()
        rows = csv.DictReader(lines, delimiter="," if suffix == ".csv" else "\t")
        found = [row["sample"] for row in rows]
    assert sorted(found) == [r"caf\udce9.txt", "café.txt", "tea.txt"]
    for options in ((), ("--json",)):
        shown = gapmf("transform", tmp_path / "m", texts, *options).stdout
        assert r"caf\udce9.txt" in shown.replace("\\\\", "\\")


def test_other_compressions(folder, tmp_path):
    """Packed whatever it is called."""
    data = gzip.compress((folder / "toy.csv").read_bytes())
    (tmp_path / "toy.csv").write_bytes(data)
    np.testing.assert_array_equal(
        read(tmp_path / "toy.csv").counts.toarray(), read(folder / "toy.csv").counts.toarray()
    )


def test_exposures_from_a_file_a_column_and_totals(folder, tmp_path):
    table = read(folder / "toy.csv")
    size = np.arange(1, 61) / 4  # a column of numbers that are no counts
    lines = (folder / "toy.csv").read_text().splitlines()
    hours = ["hours", *map(str, size)]
    both = [f"{line},{hour}" for line, hour in zip(lines, hours, strict=True)]
    (tmp_path / "both.csv").write_text("\n".join(both) + "\n")
    (tmp_path / "hours.txt").write_text("".join(f"{s}\n" for s in size))
    short = ("-k", 2, "--tol", 0.1, "-q")
    own = GammaPoissonMF(2, tol=0.1, random_state=0)
    for name, data, exposure, how in (
        ("column", tmp_path / "both.csv", "hours", size),
        ("file", folder / "toy.csv", tmp_path / "hours.txt", size),
        ("total", folder / "toy.csv", "total", "total"),
    ):
        model = tmp_path / f"{name}.gapmf"
        gapmf("fit", data, *short, "-o", model, "--exposure", exposure)
        est = GammaPoissonMF.load(model)
        own.fit(table.counts, exposure=how)
        np.testing.assert_array_equal(est.components_, own.components_)
        asked = () if name == "total" else ("--exposure", exposure)
        done = gapmf("score", model, data, "--json", *asked)
        found = json.loads(done.stdout)["log_likelihood"]
        assert found == pytest.approx(own.score(table.counts, exposure=how) * 60, rel=1e-9)
        done = gapmf("transform", model, data, "--activations", *asked)
        H = np.array([row[1:] for row in csv.reader(done.stdout.splitlines()[1:])], dtype=float)
        np.testing.assert_allclose(H, own.transform(table.counts, exposure=how), rtol=1e-9)


def test_the_pseudo_count(folder, tmp_path):
    model = tmp_path / "m.gapmf"
    done = gapmf(
        "fit", folder / "toy.csv", "-k", 2, "--tol", 0.1, "-o", model, "--pseudo-count", 0.5
    )
    est = GammaPoissonMF.load(model)
    assert (est.pseudo_count, est.pseudo_count_) == (0.5, 0.5)
    assert f"the log-prior, which is {est.log_prior_:,.0f} nats" in done.stderr
    described = json.loads(gapmf("info", model, "--json").stdout)
    assert described["pseudo-count"] == 0.5
    assert described["log prior"] == pytest.approx(est.log_prior_)
    bad = ("fit", folder / "toy.csv", "-k", 2, "-o", model, "--pseudo-count")
    assert "must be a number, such as 0.1, or auto" in gapmf(*bad, "few", code=1).stderr
    assert "--pseudo-count must be" in gapmf(*bad, "-1", code=1).stderr


@pytest.mark.parametrize(
    ("exposure", "said"),
    [
        ("hours", "neither a file nor a column"),
        ("short.txt", "has 2 exposures, one per line, but there are 60 samples"),
        ("words.txt", "line 2: 'two' is not a number"),
        ("zero.txt", r"exposure\[0\] is 0.0"),
    ],
)
def test_bad_exposures_are_a_sentence(folder, tmp_path, exposure, said):
    (tmp_path / "short.txt").write_text("1\n2\n")
    (tmp_path / "words.txt").write_text("1\ntwo\n")
    (tmp_path / "zero.txt").write_text("0\n" * 60)
    given = exposure if exposure == "hours" else tmp_path / exposure
    done = gapmf(
        "fit", folder / "toy.csv", "-k", 2, "-q", "-o", tmp_path / "m", "--exposure", given, code=1
    )
    assert re.search(said, done.stderr)


def test_recommend(folder, tmp_path):
    table = read(folder / "docword.toy.txt")
    given = ("recommend", folder / "m.gapmf", folder / "docword.toy.txt", "-n", 3)
    est = GammaPoissonMF.load(folder / "m.gapmf")
    found = est.recommend(table.counts, 3)
    rows = list(csv.DictReader(gapmf(*given).stdout.splitlines()))
    assert len(rows) == (found.items >= 0).sum()
    assert [row["feature"] for row in rows[:3]] == [f"word{f}" for f in found.items[0]]
    assert [int(row["place"]) for row in rows[:3]] == [1, 2, 3]
    values = [float(row["expected_count"]) for row in rows]
    np.testing.assert_allclose(values, found.expected[found.items >= 0])
    done = gapmf(*given, "--include-seen", "--json", "-o", tmp_path / "r.csv")
    shown = json.loads(done.stdout)
    every = est.recommend(table.counts, 3, exclude_seen=False)
    assert [item["feature"] for item in shown[1]["items"]] == [f"word{f}" for f in every.items[1]]
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 1 + 60 * 3
