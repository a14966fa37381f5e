"""Documents: a line each, or a file each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapmf.errors import InvalidInputError, ReadError
from gapmf.io import read
from io_files import MATRICES, check, gives, put, text

ZOO = "An ape, an APE!\n\nthe bee; the ape\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("text")


@given(X=MATRICES, packed=st.booleans())
def test_round_trip(folder, X, packed):
    X = X % 5
    words = [f"word{f}" for f in range(X.shape[1])]
    path = put(folder / "a.txt", text(X), packed)
    vocab = put(folder / "vocab", "\n".join(words))
    table = gives(X, path, vocab=vocab)
    assert table.feature_names.tolist() == words
    assert table.sample_names is None


def test_a_document_a_line(tmp_path):
    path = put(tmp_path / "zoo.txt", ZOO)
    table = gives([[2, 2, 0, 0], [0, 0, 0, 0], [0, 1, 1, 2]], path)
    assert table.feature_names.tolist() == ["an", "ape", "bee", "the"]
    for changed in (ZOO.strip(), ZOO + "\n \n\n", ZOO.replace("\n", "\r\n"), "\ufeff" + ZOO):
        gives(table.counts.toarray(), put(path, changed))
    gives(table.counts.toarray(), put(tmp_path / "zoo.txt.gz", ZOO, packed=True))


def test_options_of_the_vectorizer(tmp_path):
    path = put(tmp_path / "zoo.txt", ZOO)
    for options, words in (
        ({"lowercase": False}, ["APE", "An", "an", "ape", "bee", "the"]),
        ({"stop_words": "english"}, ["ape", "bee"]),
        ({"stop_words": ["an", "bee"]}, ["ape", "the"]),
        ({"min_df": 2}, ["ape"]),
        ({"max_df": 1}, ["an", "bee", "the"]),
        ({"max_df": 0.5}, ["an", "bee", "the"]),
        ({"max_features": 1}, ["ape"]),
        ({"token_pattern": "[aeo]+"}, ["a", "e", "ee"]),
        ({"ngram_range": (2, 2)}, ["an ape", "ape an", "bee the", "the ape", "the bee"]),
    ):
        assert check(read(path, **options)).feature_names.tolist() == words


@pytest.mark.parametrize(
    "options",
    [
        {"min_df": -1},
        {"max_features": 0},
        {"stop_words": "german"},
        {"lowercase": "yes"},
        {"token_pattern": "("},
        {"ngram_range": (2, 1)},
        {"ngram_range": 2},
    ],
)
def test_options_that_cannot_be(tmp_path, options):
    path = put(tmp_path / "zoo.txt", ZOO)
    with pytest.raises(InvalidInputError, match="options of CountVectorizer: "):
        read(path, **options)


def test_a_document_a_file(tmp_path):
    put(tmp_path / "b.txt", "ape bee\nape")
    put(tmp_path / "a.TXT", "")
    put(tmp_path / "c.txt.gz", "cat", packed=True)
    put(tmp_path / "d.md", "dog")
    (tmp_path / "e.txt").mkdir()
    table = gives([[0, 0, 0], [2, 1, 0], [0, 0, 1]], tmp_path)
    assert table.feature_names.tolist() == ["ape", "bee", "cat"]
    assert table.sample_names.tolist() == ["a.TXT", "b.txt", "c.txt.gz"]


def test_bytes_that_are_not_in_the_encoding(tmp_path):
    path = put(tmp_path / "a.txt", "ape\nder Bär\n".encode("latin-1"))
    with pytest.raises(
        ReadError, match=r"a.txt, line 2: byte 6 of the line, b'\\xe4', is not utf-8"
    ):
        read(path)
    with pytest.raises(
        ReadError, match=r"a.txt, line 2: byte 10 of the file, b'\\xe4', is not utf"
    ):
        read(tmp_path)
    for where in (path, tmp_path):
        assert "bär" in check(read(where, encoding="latin-1")).feature_names


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ("", "is empty: expected a document a line"),
        ("\n\n", "is empty"),
        ("a b\nc\n", "no words to count in 2 documents: empty vocabulary"),
        ("ape".encode("utf-16"), "is UTF-16"),
    ],
)
def test_files_without_words(tmp_path, data, match):
    path = put(tmp_path / "a.txt", data)
    with pytest.raises(ReadError, match=match):
        read(path)


def test_folders_without_documents(tmp_path):
    with pytest.raises(ReadError, match=r"is a folder without .mtx \(10x\) or .txt files"):
        read(tmp_path)
    with pytest.raises(ReadError, match=r"has no .txt file: expected a folder with a document a"):
        read(tmp_path, format="text")
    put(tmp_path / "a.txt", "")
    with pytest.raises(ReadError, match="no words to count in 1 documents"):
        read(tmp_path)


def test_a_vocabulary(tmp_path):
    path = put(tmp_path / "zoo.txt", ZOO)
    vocab = put(tmp_path / "vocab", "the\nelk\r\nape\n\n")
    table = gives([[0, 0, 2], [0, 0, 0], [2, 0, 1]], path, vocab=vocab)
    assert table.feature_names.tolist() == ["the", "elk", "ape"]
    with pytest.raises(ReadError, match="vocab, line 3: 'the' is in line 1, too"):
        read(path, vocab=put(vocab, "the\nelk\nthe\n"))
    with pytest.raises(ReadError, match="vocab is empty: expected the words to count"):
        read(path, vocab=put(vocab, "\n"))
    with pytest.raises(FileNotFoundError):
        read(path, vocab=tmp_path / "missing")


def test_counts_are_canonical(tmp_path):
    path = put(tmp_path / "a.txt", "zz yy xx zz\nww zz\n")
    counts = check(read(path)).counts
    assert counts.indices.tolist() == sorted(counts.indices[:3]) + sorted(counts.indices[3:])
    assert counts.toarray().sum(axis=0).tolist() == [1, 1, 1, 3]
    assert counts.dtype == np.int64
