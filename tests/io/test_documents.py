"""UCI bags of words, and text whose words are counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapmf.errors import InvalidInputError, ReadError
from gapmf.io import read
from io_files import MATRICES, SMALL, check, gives, names, put, text, uci

ZOO = "An ape, an APE!\n\nthe bee; the ape\n"
HEAD = "2\n2\n2\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("documents")


@settings(max_examples=30)
@given(X=MATRICES, packed=st.booleans(), end=st.sampled_from(["\n", "\r\n"]), cut=st.booleans())
def test_uci_round_trip(folder, X, packed, end, cut):
    content = uci(X).replace("\n", end)
    path = put(folder / "docword.any.txt", content.removesuffix(end) if cut else content, packed)
    assert gives(X, path)[1:] == (None, None)


def test_the_vocabulary_is_found(tmp_path):
    path = put(tmp_path / "docword.zoo.txt", uci(SMALL))
    assert read(path).feature_names is None
    vocab = put(tmp_path / "vocab.zoo.txt", "ape\nbée\ncat fish\n\n")
    assert names(gives(SMALL, path)) == [["ape", "bée", "cat fish"], None]
    assert names(gives(SMALL, tmp_path)) == [["ape", "bée", "cat fish"], None]
    vocab.unlink()
    put(tmp_path / "vocab.zoo.txt.gz", "x\r\nx\r\nz", packed=True)
    assert names(gives(SMALL, path))[0] == ["x", "x", "z"]
    put(tmp_path / "docword.zoo.txt.gz", uci(SMALL), packed=True)
    with pytest.raises(ReadError, match=r"one docword.NAME.txt, but has docword.zoo.txt, docw"):
        read(tmp_path)
    assert names(gives(SMALL, tmp_path / "docword.zoo.txt.gz"))[0] == ["x", "x", "z"]


def test_a_vocabulary_that_is_named(tmp_path):
    path = put(tmp_path / "any", uci(SMALL))
    words = put(tmp_path / "words", "\ufeffä\nb\nc")
    assert names(gives(SMALL, path, format="uci", vocab=words))[0] == ["ä", "b", "c"]
    latin = put(tmp_path / "latin", "a\né\nc".encode("latin-1"))
    with pytest.raises(ReadError, match=r"latin, line 2: not utf-8.*set the option `encoding`"):
        read(path, format="uci", vocab=latin)
    table = gives(SMALL, path, format="uci", vocab=str(latin), encoding="latin-1")
    assert table.feature_names[1] == "é"
    with pytest.raises(FileNotFoundError, match="missing"):
        read(path, format="uci", vocab=tmp_path / "missing")


@pytest.mark.parametrize(("words", "n"), [("a\nb\n", 2), ("a\nb\nc\nd", 4), ("", 0), ("\n\n\n", 0)])
def test_a_vocabulary_of_another_length(tmp_path, words, n):
    path = put(tmp_path / "docword.zoo.txt", uci(SMALL))
    put(tmp_path / "vocab.zoo.txt", words)
    with pytest.raises(ReadError, match=rf"vocab.zoo.txt has {n} names, but there are 3 features"):
        read(path)


@pytest.mark.parametrize(
    ("content", "X"),
    [
        ("2\n2\n4\n2 1 1\n1 2 3\n2 1 4\n1 1 0\n", [[0, 3], [5, 0]]),
        ("\ufeff2\n2\n1\n1 2 3\n", [[0, 3], [0, 0]]),
        (" 2 \n2\t\n1\n\n  1\t2   3  ", [[0, 3], [0, 0]]),
        ("2\n2\n2\n1 2 3.0\n\n1 1 2e0\n \n", [[2, 3], [0, 0]]),
        ("2\n2\n1\n01 002 0000000000000000000003\n", [[0, 3], [0, 0]]),
        ("0\n3\n0\n", np.zeros((0, 3))),
        ("2\n3\n0", np.zeros((2, 3))),
    ],
)
def test_other_ways_to_write_uci(tmp_path, content, X):
    gives(X, put(tmp_path / "docword.a.txt", content))


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("", r"must begin with N, F and NNZ .*, one per line, but begins with \['', '', ''\]"),
        ("2\n-2\n2\n", r"must begin with N, F and NNZ .*\['2', '-2', '2'\]"),
        (HEAD + "1 1 1\n", "has 1 entries, but its header announces 2"),
        (HEAD + "1 1 1\n1 2\n", "line 5: expected numbers, 3 per line, but found '1 2'"),
        (HEAD + "1 1 1\n\n1 2 1 1\n", "line 6: expected numbers, 3 per line"),
        (HEAD + "0 1 1\n1 2 1\n", "line 4: '0 1 1' is not in a matrix of .2, 2."),
        (HEAD + "1 1 1\n\n2 1.5 1\n", "line 6: '2 1.5 1' is not in a matrix"),
        (HEAD + "1 1 1\n2 2 0.5\n", r"X\[1, 1\] is 0.5 \(not whole\)"),
        (HEAD + "1 1 1\n2 2 nan\n", r"X\[1, 1\] is nan \(missing\)"),
        (HEAD + "1 1 1\n2 2 9007199254740993\n", r"X\[1, 1\] is 9007199254740993 \(too large\)"),
        (HEAD + "1 1 1\n2 1_0 1\n", "line 5: expected numbers"),
        (HEAD.encode() + b"1 1 1\n2 2 \xe9\n", "line 5: not utf-8"),
        ("1\n1\n2048\n" + f"1 1 {2**53}\n" * 2048, r"row 0 of .* sums to more than 2\*\*53"),
    ],
)
def test_what_is_wrong_in_uci_and_where(tmp_path, content, match):
    path = put(tmp_path / "docword.a.txt", content)
    with pytest.raises(ReadError, match=match) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_the_line_is_right_far_into_a_file(tmp_path):
    body = "1 1 1\n\n" * 20_000
    for last, match in (("2 1 1", "'2 1 1' is not"), ("1 1 x", "expected")):
        path = put(tmp_path / "docword.a.txt", f"1\n1\n20001\n{body}{last}\n", packed=True)
        with pytest.raises(ReadError, match=f"line 40004: {match}"):
            read(path)


def test_real_data(nips_dir):
    counts, features, samples = check(read(nips_dir / "docword.nips.txt.gz"))
    assert counts.shape == (1500, 12419)
    assert (counts.nnz, counts.sum(), counts.max()) == (746_316, 1_932_365, 132)
    assert features[2] == "aaai"
    assert samples is None
    assert np.flatnonzero(counts[[0]].toarray()[0])[:2].tolist() == [1, 38]


@settings(max_examples=10)
@given(X=MATRICES, packed=st.booleans())
def test_text_round_trip(folder, X, packed):
    X = X % 5
    words = [f"word{f}" for f in range(X.shape[1])]
    path = put(folder / "a.txt", text(X), packed)
    assert names(gives(X, path, vocab=put(folder / "vocab", "\n".join(words)))) == [words, None]


def test_one_document_per_line(tmp_path):
    path = put(tmp_path / "zoo.txt", ZOO)
    table = gives([[2, 2, 0, 0], [0, 0, 0, 0], [0, 1, 1, 2]], path)
    assert names(table) == [["an", "ape", "bee", "the"], None]
    for changed in (ZOO.strip(), ZOO + "\n \n\n", ZOO.replace("\n", "\r\n"), "\ufeff" + ZOO):
        gives(table.counts.toarray(), put(path, changed))


def test_one_document_per_file(tmp_path):
    put(tmp_path / "b.txt", "ape bee\nape")
    put(tmp_path / "a.TXT", "")
    put(tmp_path / "c.txt.gz", "cat", packed=True)
    put(tmp_path / "d.md", "dog")
    (tmp_path / "e.txt").mkdir()
    table = gives([[0, 0, 0], [2, 1, 0], [0, 0, 1]], tmp_path)
    assert names(table) == [["ape", "bee", "cat"], ["a.TXT", "b.txt", "c.txt.gz"]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stop_words": "english"}, ["ape", "bee"]),
        ({"min_df": 2}, ["ape"]),
        ({"max_features": 1}, ["ape"]),
        ({"token_pattern": "[aeo]+"}, ["a", "e", "ee"]),
        ({"ngram_range": (2, 2)}, ["an ape", "ape an", "bee the", "the ape", "the bee"]),
    ],
)
def test_options_of_the_vectorizer(tmp_path, options, words):
    assert names(check(read(put(tmp_path / "zoo.txt", ZOO), **options)))[0] == words


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"token_pattern": "("}, r"zoo.txt cannot be read \("),
        ({"ngram_range": (2, 1)}, r"zoo.txt: .*ngram_range"),
        ({"min_df": 0.5, "max_df": 1}, r"zoo.txt: max_df corresponds to < documents than min_df"),
        ({"stop_words": ["an", "ape", "the", "bee"]}, "zoo.txt: empty vocabulary"),
    ],
)
def test_options_that_the_vectorizer_refuses(tmp_path, options, match):
    path = put(tmp_path / "zoo.txt", ZOO)
    with pytest.raises(InvalidInputError, match=match):
        read(path, **options)


def test_a_vocabulary_for_text(tmp_path):
    path = put(tmp_path / "zoo.txt", ZOO)
    vocab = put(tmp_path / "vocab", "the\nelk\r\nape\n\n")
    table = gives([[0, 0, 2], [0, 0, 0], [2, 0, 1]], path, vocab=vocab)
    assert names(table)[0] == ["the", "elk", "ape"]
    with pytest.raises(ReadError, match="Duplicate term in vocabulary: 'the'"):
        read(path, vocab=put(vocab, "the\nelk\nthe\n"))
    with pytest.raises(ReadError, match="empty vocabulary"):
        read(path, vocab=put(vocab, "\n"))


def test_bytes_that_are_not_in_the_encoding(tmp_path):
    path = put(tmp_path / "a.txt", "ape\nder Bär\n".encode("latin-1"))
    for where in (path, tmp_path):
        with pytest.raises(ReadError, match=r"a.txt, line 2: not utf-8 \(.*: set the option"):
            read(where)
        assert "bär" in check(read(where, encoding="latin-1")).feature_names


@pytest.mark.parametrize("data", ["", "\n\n", "a b\nc\n", "ape".encode("utf-16")])
def test_files_without_words(tmp_path, data):
    with pytest.raises(ReadError, match=r"a\.txt.*(empty vocabulary|not utf-8)"):
        read(put(tmp_path / "a.txt", data))


def test_a_header_does_not_decide_how_much_memory_is_taken(tmp_path):
    path = tmp_path / "docword.big.txt"
    path.write_text("2000000000\n5\n1\n1 1 1\n")
    with pytest.raises(ReadError, match=r"announces a matrix of \(2000000000, 5\), but has only 1"):
        read(path)
