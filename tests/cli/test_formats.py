"""`fit` and `transform` of real files of every format, and `score`: the same numbers from all."""

from __future__ import annotations

import csv
import gzip
import json

import numpy as np
import pytest
from commands import FIT, gapmf

from gapmf import GammaPoissonMF, NegativeMultinomial
from gapmf.io import FORMATS
from io_files import feature_names, sample_names

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")

# A file, its format, options, and whether samples and features have names.
FILES = [
    ("docword.zoo.txt", "uci", (), False, True),
    ("docword.packed.txt.gz", "uci", (), False, True),
    ("zoo.mtx", "mtx", (), False, False),
    ("zoo.mtx.gz", "mtx", ("--vocab", "vocab.zoo.txt"), False, True),
    ("10x", "mtx", (), True, True),
    ("zoo.npz", "npz", (), False, False),
    ("zoo.csv", "csv", (), True, True),
    ("packed.csv.gz", "csv", (), True, True),
    ("triplets.csv", "csv", (), True, True),
    ("counts", "csv", ("--format", "csv"), True, True),
    ("zoo.tsv", "tsv", (), True, True),
    ("triplets.tsv", "tsv", (), True, True),
    ("other.tsv", "tsv", ("--transpose",), True, True),
    ("zoo.parquet", "parquet", (), True, True),
    ("triplets.parquet", "parquet", (), True, True),
    ("zoo.h5ad", "h5ad", ("--layer", "raw"), True, True),
    ("zoo.txt", "text", (), False, True),
    ("texts", "text", ("--vocab", "vocab.zoo.txt"), True, True),
    ("shards", "shards", (), True, True),
]


def test_no_format_is_left_out():
    assert {kind for _, kind, *_ in FILES} == set(FORMATS)


@pytest.fixture(scope="module")
def expected(model, X):
    est = GammaPoissonMF.load(model)
    return est.components_, est.log_likelihood(X), est.transform(X)


def _samples(X, name, named):
    if not named:
        return [str(n) for n in range(len(X))]
    return [f"{sample}.txt" if name == "texts" else sample for sample in sample_names(X)]


def _rows(text):
    """The names in the first column, and the numbers in the others."""
    rows = list(csv.reader(text.splitlines()))[1:]
    return [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=float)


@pytest.mark.parametrize(
    ("name", "options", "samples"),
    [(name, options, samples) for name, _, options, samples, _ in FILES],
    ids=[name for name, *_ in FILES],
)
def test_transform(name, options, samples, files, model, X, expected, monkeypatch):
    monkeypatch.chdir(files)
    done = gapmf("transform", model, name, *options, "--activations")
    assert done.stderr == ""
    names, activations = _rows(done.stdout)
    assert names == _samples(X, name, samples)
    np.testing.assert_allclose(activations, expected[2], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "options", "features"),
    {kind: (name, options, features) for name, kind, options, _, features in FILES}.values(),
    ids=dict.fromkeys(kind for _, kind, *_ in FILES),
)
def test_fit(name, options, features, files, X, expected, tmp_path, monkeypatch):
    """One file of each format: counts are read as for `transform`."""
    monkeypatch.chdir(files)
    done = gapmf("fit", name, *options, *FIT, "-o", tmp_path / "m.gapmf")
    assert (done.stdout, done.stderr) == ("", "")
    fitted = GammaPoissonMF.load(tmp_path / "m.gapmf")
    np.testing.assert_array_equal(fitted.components_, expected[0])
    found = getattr(fitted, "feature_names_in_", None)
    assert (None if found is None else list(found)) == (feature_names(X) if features else None)


@pytest.mark.parametrize(("name", "named"), [("zoo.csv", True), ("zoo.npz", False)])
def test_score(name, named, files, model, X, expected, tmp_path):
    _, likelihood, _ = expected
    done = gapmf("score", model, files / name, "--json", "-o", tmp_path / "scores.csv")
    assert done.stderr == ""
    summary = json.loads(done.stdout)
    assert summary["log_likelihood"] == pytest.approx(likelihood.total, rel=1e-12)
    assert (summary["samples"], summary["counts"]) == (len(X), X.sum())
    with open(tmp_path / "scores.csv", encoding="utf-8") as file:
        scores = list(csv.DictReader(file))
    assert [row["sample"] for row in scores] == _samples(X, name, named)
    each = [float(row["log_likelihood"]) for row in scores]
    np.testing.assert_allclose(each, likelihood.per_sample, rtol=1e-12)


def test_nips(nips_dir, tmp_path):
    """Real data. One component has closed forms: the command's numbers are theirs."""
    data, one = nips_dir / "docword.nips.txt.gz", tmp_path / "one.gapmf"
    done = gapmf("fit", data, "-k", 5, "-o", tmp_path / "m.gapmf", "--max-iter", 12, COLUMNS="100")
    assert "1,500 samples × 12,419 features" in done.stderr
    assert "12 iterations before it converged" in done.stderr
    assert "5 components of 12,419 features" in done.stdout
    largest = gapmf("topics", tmp_path / "m.gapmf", "--by", "weight").stdout
    for word in ("network", "learning", "model"):
        assert word in largest

    # The first 100 documents: "document word count" after three lines.
    with gzip.open(data, "rt") as file:
        lines = [line for line in list(file)[3:] if int(line.split()[0]) <= 100]
    data = tmp_path / "docword.some.txt"
    data.write_text(f"100\n12419\n{len(lines)}\n{''.join(lines)}")
    body = [list(map(int, line.split())) for line in lines]
    n_counts = sum(count for _, _, count in body)

    gapmf("fit", data, "-k", 1, "-o", one, "-q")
    fitted = GammaPoissonMF.load(one)
    w, beta = fitted.components_[0], fitted.model_.beta[0]
    bare = ("score", one, data, "--smoothing", 0)
    found = json.loads(gapmf(*bare, "--json", "-o", tmp_path / "s.json").stdout)
    each = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert found["counts"] == n_counts
    assert found["log_likelihood"] == pytest.approx(sum(row["log_likelihood"] for row in each))
    names, h = _rows(gapmf("transform", one, data, "--activations").stdout)
    assert names == [str(n) for n in range(100)]
    totals = h[:, 0] * (w.sum() + beta) - fitted.alpha_[0]
    assert totals.sum() == pytest.approx(n_counts)

    x = np.zeros(w.size, dtype=int)  # the first document, by hand
    for document, word, count in body:
        if document == 1:
            x[word - 1] = count
    law = NegativeMultinomial.from_rates(fitted.alpha_[0], beta, w)
    assert each[0]["log_likelihood"] == pytest.approx(law.logpmf(x), rel=1e-10)
    assert totals[0] == pytest.approx(x.sum())
