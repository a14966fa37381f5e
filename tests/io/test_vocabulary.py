"""Which features are used: stop words, rare and frequent ones, and those of a model."""

from __future__ import annotations

import anndata
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from gapmf import Table, read
from gapmf.errors import InvalidInputError, ReadError
from gapmf.io.table import as_names
from gapmf.io.vocabulary import align_features
from io_files import check, mtx, names, npz, put, uci

WORDS = ["ape", "bee", "The", "cat", "the"]
X = np.array([[2, 0, 1, 1, 0], [1, 0, 1, 0, 3], [0, 1, 1, 0, 1], [1, 0, 1, 0, 0]])
VOCAB = "".join(f"{word}\n" for word in WORDS)
FRAME = pd.DataFrame(X, columns=WORDS)
TRIPLETS = FRAME.stack().rename_axis(["doc", "word"]).rename("n")[lambda n: n > 0]


def source(folder, kind):
    """X in a format that has names of features, with the options that read it."""
    vocab = put(folder / "vocab.zoo.txt", VOCAB)
    if kind == "uci":
        return put(folder / "docword.zoo.txt", uci(X)), {}
    if kind in ("mtx", "npz"):
        return put(folder / f"a.{kind}", {"mtx": mtx, "npz": npz}[kind](X)), {"vocab": vocab}
    if kind == "csv":
        return put(folder / "a.csv", FRAME.to_csv(index=False)), {}
    if kind == "triplets":
        return put(folder / "a.tsv", TRIPLETS.to_csv(sep="\t")), {}
    if kind == "parquet":
        pl.from_pandas(FRAME).write_parquet(folder / "a.parquet")
        return folder / "a.parquet", {}
    if kind == "h5ad":
        anndata.AnnData(X.astype(float), var=pd.DataFrame(index=WORDS)).write_h5ad(
            folder / "a.h5ad"
        )
        return folder / "a.h5ad", {}
    if kind == "text":
        lines = [" ".join(np.repeat(WORDS, row)) for row in X]
        options = {"lowercase": False, "vocab": vocab}
        return put(folder / "a.txt", "\n".join(lines)), options
    return FRAME, {}


KINDS = ["uci", "mtx", "npz", "csv", "triplets", "parquet", "h5ad", "text", "frame"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"min_df": 2}, {"ape", "The", "the"}),
        ({"min_df": 0.75}, {"ape", "The"}),
        ({"max_df": 3}, {"ape", "bee", "cat", "the"}),
        ({"max_df": 0.5}, {"bee", "cat", "the"}),
        ({"min_df": np.int64(2), "max_df": np.float64(0.75)}, {"ape", "the"}),
        ({"stop_words": "english"}, {"ape", "bee", "cat"}),
        ({"stop_words": ["the", "bee"], "min_df": 2}, {"ape"}),
        ({"stop_words": ["The", "Bee"]}, {"ape", "bee", "cat", "the"}),
    ],
)
def test_filters_of_every_format(tmp_path, kind, options, kept):
    where, reading = source(tmp_path, kind)
    table = check(read(where, **reading, **options))
    assert set(table.feature_names) == kept
    counts = pd.DataFrame(table.counts.toarray(), columns=table.feature_names)
    for word in kept:
        assert counts[word].tolist() == FRAME[word].tolist()


@pytest.mark.parametrize("kind", ["csv", "frame", "text"])
def test_a_file_of_stop_words(tmp_path, kind):
    where, reading = source(tmp_path, kind)
    words = put(tmp_path / "stop", "the \r\n\n ape\nbär\n".encode("latin-1"))
    for path in (words, str(words)):
        with pytest.raises(ReadError, match=r"stop, line 4: not utf-8"):
            read(where, **reading, stop_words=path)
    put(words, "the \r\n\n ape\nelk\n")
    for path in (words, str(words)):
        assert set(read(where, **reading, stop_words=path).feature_names) == {"bee", "cat"}


def test_words_of_a_text_are_filtered_by_the_vectorizer(tmp_path):
    path = put(tmp_path / "a.txt", "The ape saw the cat\nan ape\nthe Ape saw bees\n")
    assert names(read(path, min_df=2))[0] == ["ape", "saw", "the"]
    assert names(read(path, max_df=0.5, max_features=2))[0] == ["an", "bees"]
    assert names(read(path, stop_words="english"))[0] == ["ape", "bees", "cat", "saw"]
    assert names(read(path, stop_words={"the", "an"}, min_df=2))[0] == ["ape", "saw"]
    assert "ape cat" in read(path, stop_words=["the", "saw"], ngram_range=(2, 2)).feature_names


def test_no_names_and_nothing_left(tmp_path):
    path = put(tmp_path / "a.npz", npz(X))
    with pytest.raises(InvalidInputError, match=r"a.npz has no names of features.*option `vocab`"):
        read(path, min_df=2)
    match = "none of the 5 features of the data frame: 2 are stop words, 4 are in fewer than 4 s"
    with pytest.raises(InvalidInputError, match=match):
        read(FRAME, min_df=4, stop_words="english")


def table(counts, feature_names):
    return Table(sp.csr_array(counts), as_names(feature_names), None)


def test_features_of_a_model():
    data = table(X, WORDS)
    assert align_features(data, WORDS) is data
    turned = align_features(data, [*WORDS[::-1], "elk"])
    np.testing.assert_array_equal(turned.counts.toarray()[:, :5], X[:, ::-1])
    assert not turned.counts.toarray()[:, 5].any()
    said = r"not have are left out: 2 of 5, with 57.14% of the counts: 'The' \(4\), 'the' \(4\)$"
    with pytest.warns(UserWarning, match=said) as caught:
        known = align_features(data, [" cat", "bee", "ape\r"])
    assert len(caught) == 1
    np.testing.assert_array_equal(known.counts.toarray(), X[:, [3, 1, 0]])


def test_only_the_most_frequent_of_many_are_named():
    many = table([np.arange(1000, 1012)], [f"w{f}" for f in range(12)])
    match = r"11 of 12, .*: 'w11' \(1,011\), 'w10' \(1,010\), .*, 'w7' \(1,007\), …$"
    with pytest.warns(UserWarning, match=match):
        align_features(many, ["w0"])


def test_features_that_cannot_be_matched():
    twice = table(X, ["ape", "ape", "bee", "cat", "cat"])
    assert align_features(twice, twice.feature_names) is twice
    with pytest.raises(InvalidInputError, match=r"the data have 2 names more than once.*unique"):
        align_features(twice, WORDS)
    with pytest.raises(InvalidInputError, match="the model has 1 names more than once"):
        align_features(table(X, WORDS), ["ape", "ape"])
    with pytest.raises(
        InvalidInputError, match=r"none of the 5 .*'ape' …, and the model has 'elk'"
    ):
        align_features(table(X, WORDS), ["elk"])
