"""UCI's bag of words: what it holds, its vocabulary, and what is wrong in which line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapmf.errors import ReadError
from gapmf.io import read
from io_files import MATRICES, SMALL, check, feature_names, gives, put, uci


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("uci")


@given(X=MATRICES, packed=st.booleans(), end=st.sampled_from(["\n", "\r\n"]), cut=st.booleans())
def test_round_trip(folder, X, packed, end, cut):
    text = uci(X).replace("\n", end)
    path = put(folder / "docword.any.txt", text.removesuffix(end) if cut else text, packed)
    assert gives(X, path)[1:] == (None, None)


def test_the_vocabulary_is_found(tmp_path):
    path = put(tmp_path / "docword.zoo.txt", uci(SMALL))
    assert read(path).feature_names is None
    put(tmp_path / "vocab.zoo.txt", "ape\nbée\ncat fish\n\n")
    table = gives(SMALL, path)
    assert table.feature_names.tolist() == ["ape", "bée", "cat fish"]
    assert table.sample_names is None
    assert gives(SMALL, tmp_path).feature_names.tolist() == ["ape", "bée", "cat fish"]
    (tmp_path / "vocab.zoo.txt").unlink()
    put(tmp_path / "vocab.zoo.txt.gz", "x\r\nx\r\nz", packed=True)
    assert gives(SMALL, path).feature_names.tolist() == ["x", "x", "z"]
    put(tmp_path / "docword.zoo.txt.gz", uci(SMALL), packed=True)
    path.unlink()
    assert gives(SMALL, tmp_path / "docword.zoo.txt.gz").feature_names.tolist() == ["x", "x", "z"]


def test_a_vocabulary_that_is_named(tmp_path):
    path = put(tmp_path / "any", uci(SMALL))
    put(tmp_path / "vocab.zoo.txt", "wrong")
    words = put(tmp_path / "words", "\ufeffä\nb\nc")
    assert gives(SMALL, path, format="uci", vocab=words).feature_names.tolist() == ["ä", "b", "c"]
    latin = put(tmp_path / "latin", "é\nb\nc".encode("latin-1"))
    with pytest.raises(ReadError, match=r"latin, line 1: byte 1 of the line, b'\\xe9', is not utf"):
        read(path, format="uci", vocab=latin)
    table = gives(SMALL, path, format="uci", vocab=str(latin), encoding="latin-1")
    assert table.feature_names[0] == "é"
    with pytest.raises(FileNotFoundError, match="missing"):
        read(path, format="uci", vocab=tmp_path / "missing")


@pytest.mark.parametrize(("words", "n"), [("a\nb\n", 2), ("a\nb\nc\nd", 4), ("", 0), ("\n\n\n", 0)])
def test_a_vocabulary_of_another_length(tmp_path, words, n):
    path = put(tmp_path / "docword.zoo.txt", uci(SMALL))
    put(tmp_path / "vocab.zoo.txt", words)
    with pytest.raises(ReadError, match=rf"vocab.zoo.txt has {n} names, but there are 3 features"):
        read(path)


def test_entries_are_added_up_and_zeros_dropped(tmp_path):
    path = put(tmp_path / "docword.a.txt", "2\n2\n4\n2 1 1\n1 2 3\n2 1 4\n1 1 0\n")
    gives([[0, 3], [5, 0]], path)


def test_other_ways_to_write_a_file(tmp_path):
    path = tmp_path / "docword.a.txt"
    for text in (
        "\ufeff2\n2\n1\n1 2 3\n",
        "2\r\n2\r\n1\r\n1 2 3\r\n\r\n",
        " 2 \n2\t\n1\n\n  1\t2   3  ",
        "2\n2\n1\n1 2 3.0\n\n\n \n",
        "2\n2\n1\n01 002 0000000000000000000003\n",
    ):
        put(path, text)
        gives([[0, 3], [0, 0]], path)


def test_empty_tables(tmp_path):
    path = tmp_path / "docword.a.txt"
    for shape in ((0, 3), (2, 0), (0, 0), (2, 3)):
        put(path, f"{shape[0]}\n{shape[1]}\n0\n")
        assert check(read(path)).counts.shape == shape
    put(path, "2\n3\n0")
    assert check(read(path)).counts.shape == (2, 3)


HEAD = "2\n2\n2\n"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "line 1: expected N, the number of documents, alone on the line, but the file ends"),
        ("2\n", "line 2: expected F, the number of words in the vocabulary.*the file ends"),
        ("2\n2\n", "line 3: expected NNZ, the number of entries.*the file ends: a UCI file begins"),
        ("2 2 2\n1 1 1\n", "line 1: expected N.*alone on the line, but found b'2 2 2'"),
        ("\n2\n2\n1\n", "line 1: expected N.*found b''"),
        ("2\n-2\n2\n", "line 2: expected F.*found b'-2'"),
        ("2\n2\n1e3\n", "line 3: expected NNZ.*found b'1e3'"),
        ("1" * 19 + "\n2\n1\n", "line 1: expected N"),
        (f"2\n{10**12}\n1\n", f"line 2: F is {10**12}, and 2147483647 is the most that can be"),
        (
            HEAD + "1 1 1\n",
            "ends after line 4 with 1 of the 2 entries that its header promised: is",
        ),
        (HEAD + "1 1 1\n1 2 1\n2 1 1\n", "line 6: is entry 3, but the header promised 2"),
        (HEAD + "1 1 1\n1 2\n", "line 5: expected 'document word count', 3 whole.*found b'1 2'"),
        (HEAD + "1 1 1\n\n1 2 1 1\n", "line 6: expected 'document word count'"),
        (HEAD + "0 1 1\n1 2 1\n", "line 4: document is 0, but the header says .* from 1 to 2"),
        (HEAD + "1 1 1\n3 2 1\n", "line 5: document is 3, but the header says .* from 1 to 2"),
        (HEAD + "1 1 1\n2 7 1\n", "line 5: word is 7, but the header says that .* from 1 to 2"),
        (HEAD + "1 1 1\n2 2 -1\n", "line 5: expected a whole number .*'-1': pass raw counts"),
        (HEAD + "1 1 1\n2 2 0.5\n", "line 5: expected a whole number .*'0.5': pass raw counts"),
        (HEAD + "1 1 1\n2 2 nan\n", "line 5: .*missing"),
        (HEAD + "1 1 1\n2 2 9007199254740993\n", "line 5: count is 9007199254740993: expected"),
        (HEAD + "1 1 1\n2 x 1\n", "line 5: expected 'document word count'.*found b'2 x 1'"),
        (HEAD + "1 1 1\nthe end\n", "line 5: expected 'document word count'.*found b'the end'"),
        (
            HEAD + "1 1 9007199254740992\n1 2 2\n",
            r"sample 0 \(from 0\) add up to more than 2\*\*53",
        ),
    ],
)
def test_what_is_wrong_and_where(tmp_path, text, match):
    path = put(tmp_path / "docword.a.txt", text)
    with pytest.raises(ReadError, match=match) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_the_line_is_right_far_into_a_file(tmp_path):
    """Beyond the first block, also where blank lines are in between."""
    body = "1 1 1\n\n" * 300_000
    path = put(tmp_path / "docword.a.txt", f"1\n1\n300001\n{body}2 1 1\n", packed=True)
    with pytest.raises(ReadError, match="line 600004: document is 2"):
        read(path)
    path = put(tmp_path / "docword.a.txt", f"1\n1\n300001\n{body}1 1 x\n", packed=True)
    with pytest.raises(ReadError, match="line 600004: expected a whole number"):
        read(path)


def test_sums_that_would_wrap_round_are_refused(tmp_path):
    text = "1\n1\n2048\n" + f"1 1 {2**53}\n" * 2048  # 2**64 in all
    path = put(tmp_path / "docword.a.txt", text)
    with pytest.raises(ReadError, match="sample 0"):
        read(path)


def test_real_data(nips_dir):
    counts, features, samples = check(read(nips_dir / "docword.nips.txt.gz"))
    assert counts.shape == (1500, 12419)
    assert counts.nnz == 746_316
    assert counts.sum() == 1_932_365
    assert counts.max() == 132
    assert len(features) == 12419
    assert features[2] == "aaai"
    assert samples is None
    row = counts[[0]].toarray()[0]
    assert row[[1, 38]].tolist() == [1, 1]
    assert np.flatnonzero(row)[:2].tolist() == [1, 38]


def test_names_that_are_features_of_the_words(tmp_path):
    put(tmp_path / "docword.z.txt", uci(SMALL))
    put(tmp_path / "vocab.z.txt", "\n".join(feature_names(SMALL)))
    assert gives(SMALL, tmp_path).feature_names.tolist() == feature_names(SMALL)
    put(tmp_path / "docword.y.txt", uci(SMALL))
    with pytest.raises(ReadError, match=r"one docword.NAME.txt, but has docword.y.txt, docword.z"):
        read(tmp_path)
