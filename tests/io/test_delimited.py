"""Tables of text: where their names are, what is wrong in which line and column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapmf.errors import InvalidInputError, ReadError
from gapmf.io import read
from io_files import (
    MATRICES,
    check,
    dense,
    feature_names,
    gives,
    put,
    sample_names,
    triplets,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("delimited")


def names(table):
    return [None if part is None else part.tolist() for part in table[1:]]


@given(
    X=MATRICES,
    packed=st.booleans(),
    kind=st.sampled_from(["csv", "tsv"]),
    end=st.sampled_from(["\n", "\r\n"]),
    cut=st.booleans(),
)
def test_round_trip(folder, X, packed, kind, end, cut):
    text = dense(X, "\t" if kind == "tsv" else ",").replace("\n", end)
    path = put(folder / f"a.{kind}", text.removesuffix(end) if cut else text, packed)
    assert names(gives(X, path)) == [feature_names(X), sample_names(X)]
    assert names(gives(X.T, path, transpose=True)) == [sample_names(X), feature_names(X)]


@given(X=MATRICES, packed=st.booleans(), order=st.permutations([0, 1, 2]))
def test_round_trip_of_triplets(folder, X, packed, order):
    lines = [line.split(",") for line in triplets(X).splitlines()]
    text = "".join(",".join(line[place] for place in order) + "\n" for line in lines)
    counts, features, samples = check(read(put(folder / "b.csv", text, packed)))
    found = np.zeros_like(X)
    places = np.ix_([int(name[1:]) for name in samples], [int(name[1:]) for name in features])
    found[places] = counts.toarray()
    np.testing.assert_array_equal(found, X)
    assert samples.tolist() == list(dict.fromkeys(line[0] for line in lines[1:]))


LABELS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=5)


@given(X=MATRICES, data=st.data(), index=st.booleans())
def test_what_pandas_writes(folder, X, data, index):
    labels = st.lists(
        LABELS.map(lambda label: f"x{label}"), min_size=X.shape[1], max_size=X.shape[1]
    )
    columns = data.draw(labels)
    rows = data.draw(st.lists(LABELS, min_size=X.shape[0], max_size=X.shape[0]))
    path = folder / "pandas.csv"
    pd.DataFrame(X, columns=columns, index=rows).to_csv(path, index=index, lineterminator="\n")
    assert names(gives(X, path, layout="dense")) == [columns, rows if index else None]


def test_over_several_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("gapmf.io.dense._BATCH_CELLS", 7)
    monkeypatch.setattr("gapmf.io.delimited._BATCH_ROWS", 2)
    X = np.arange(40).reshape(8, 5) % 4
    gives(X, put(tmp_path / "a.csv", dense(X)))
    text = "\n".join(",".join(map(str, row)) for row in [list("vwxyz"), *X.tolist()])
    gives(X, put(tmp_path / "a.csv", text))
    gives(X, put(tmp_path / "a.csv", text), sample_names=False)
    table = read(put(tmp_path / "a.csv", triplets(X)))
    assert table.counts.sum() == X.sum()


@pytest.mark.parametrize(
    ("text", "options", "X", "features", "samples"),
    [
        ("a,b\n1,2\n0,3\n", {}, [[1, 2], [0, 3]], ["a", "b"], None),
        ("id,b\nx,2\ny,3\n", {}, [[2], [3]], ["b"], ["x", "y"]),
        ("id,b\n1,2\ny,3\n", {}, [[2], [3]], ["b"], ["1", "y"]),
        ("id,b\n1,2\n2,3\n", {}, [[2], [3]], ["b"], ["1", "2"]),
        ("Doc ID,b\n1,2\n1,3\n", {}, [[1, 2], [1, 3]], ["Doc ID", "b"], None),
        ("id,b\n1,2\n2,3\n", {"sample_names": False}, [[1, 2], [2, 3]], ["id", "b"], None),
        ("acid,b\n1,2\n2,3\n", {}, [[1, 2], [2, 3]], ["acid", "b"], None),
        ("a,b\nx,2\n7,3\n", {"sample_names": True}, [[2], [3]], ["b"], ["x", "7"]),
        ("id,b\n1,2\n2,3\n", {"sample_names": True}, [[2], [3]], ["b"], ["1", "2"]),
        (",b\n1,2\n2,3\n", {}, [[2], [3]], ["b"], ["1", "2"]),
        (",b\n1,2\n2,3\n", {"sample_names": False}, [[1, 2], [2, 3]], ["", "b"], None),
        ('"a","b"\n"x",1,2\n"y",0,3\n', {}, [[1, 2], [0, 3]], ["a", "b"], ["x", "y"]),
        ('"7","8"\n"x",1,2\n', {}, [[1, 2]], ["7", "8"], ["x"]),
        (",0,1\nx,1,2\n", {}, [[1, 2]], ["0", "1"], ["x"]),
        ("1,2\n0,3\n", {"header": False}, [[1, 2], [0, 3]], None, None),
        ("1,2\n0,3\n", {"header": True}, [[0, 3]], ["1", "2"], None),
        ("x,2\ny,3\n", {"header": False}, [[2], [3]], None, ["x", "y"]),
        ("1,2\n2,3\n", {"header": False, "sample_names": True}, [[2], [3]], None, ["1", "2"]),
        ("a;b\n1;2\n", {"delimiter": ";"}, [[1, 2]], ["a", "b"], None),
        ("\ufeffa,b\r\n1,2\r\n\r\n \r\n", {}, [[1, 2]], ["a", "b"], None),
        ('a,"b\nc"\n\n1.0,+2e0\n', {}, [[1, 2]], ["a", "b\nc"], None),
        ('a,"b ""c"", d"\n1,2\n', {}, [[1, 2]], ["a", 'b "c", d'], None),
        ("a,a\n1,2\n", {}, [[1, 2]], ["a", "a"], None),
        ("a\n1\n2\n", {}, [[1], [2]], ["a"], None),
        (
            "doc,word,count\n1,2,3\n",
            {"layout": "dense"},
            [[1, 2, 3]],
            ["doc", "word", "count"],
            None,
        ),
        ("doc,word,count\n", {"layout": "dense"}, np.zeros((0, 3)), ["doc", "word", "count"], None),
        (",a,b\n", {}, np.zeros((0, 2)), ["a", "b"], []),
        ("g,x,y\na,1,2\n", {"transpose": True}, [[1], [2]], ["a"], ["x", "y"]),
        ("doc,word,n\nx,a,1\ny,b,2\nx,a,3\n", {}, [[4, 0], [0, 2]], ["a", "b"], ["x", "y"]),
        ("Word ID,docID,Freq\na,7,1\nb,5,2\n", {}, [[1, 0], [0, 2]], ["a", "b"], ["7", "5"]),
        ("gene,barcode,value\na,x,0\na,y,2\n", {}, [[0], [2]], ["a"], ["x", "y"]),
        ("u,v,w\nx,a,1\n", {"layout": "triplets"}, [[1]], ["a"], ["x"]),
        ("x,a,1\n", {"layout": "triplets", "header": False}, [[1]], ["a"], ["x"]),
        ("x,a,1\n", {"layout": "triplets", "header": True}, np.zeros((0, 0)), [], []),
        ("sample,feature,count\n", {}, np.zeros((0, 0)), [], []),
    ],
)
def test_layouts(tmp_path, text, options, X, features, samples):
    path = put(tmp_path / "a.csv", text)
    assert names(gives(X, path, **options)) == [features, samples]


@pytest.mark.parametrize(
    ("text", "options", "match"),
    [
        ("", {}, "is empty: expected a row of names, then rows of counts"),
        ("\n\n", {}, "is empty"),
        ("1,2\n3,4\n", {}, r"line 1: has numbers, \['1', '2'\], where names of"),
        ("x,1,2\ny,3,4\n", {}, "line 1: has numbers.*: say header=True if they are names, hea"),
        ("1\n2\n", {}, "line 1: has numbers"),
        ("a,b\n1,2\n1\n", {}, "line 3: expected 2 cells, as in the rows above, not 1"),
        ("a,b\n1,2\n\n1,2,3\n", {}, "line 4: expected 2 cells"),
        ("a,b,c\n1,2\n", {}, "line 2: expected 3 cells"),
        (
            "a,b\n1,2\n1,x\n",
            {},
            r"line 3: column 2 \('b'\): expected a whole number.*'x', which is",
        ),
        ("a,b\n1,2\n1,\n", {}, r"line 3: column 2 \('b'\): .*'': fill or drop missing"),
        ("a,b\n1,2\n-1,3\n", {}, r"line 3: column 1 \('a'\): .*'-1': pass raw counts"),
        ("a,b\n1,2\nNA,3\n", {}, r"line 3: column 1 \('a'\): .*'NA': fill or drop missing"),
        ("a,b\nx,0.5\n", {}, r"line 2: column 2 \('b'\): .*'0.5': pass raw counts, not normalised"),
        ("a,b\nx,1\n", {"sample_names": False}, r"line 2: column 1 \('a'\): .*'x', which is not"),
        ("1,2\n1,x\n", {"header": False}, "line 2: column 2: expected a whole number"),
        ('a,"b\nc"\n1,2\n1,x\n', {}, r"line 4: column 2 \('b\\nc'\)"),
        ('a,b\n1,2\n"1"2,3\n', {}, r"line 3: is not a row of cells \(',' expected after"),
        ('a,b\n1,2\n"1,3\n', {}, r"line 3: is not a row of cells \(unexpected end of data\)"),
        ("a,b\n1,2\r3,4\n", {}, "line 2: is not a row of cells"),
        ("a,b\n1,2\n1,\0\n", {}, r"line 3: column 2 .*which is not a number"),
        (f"a,b\n1,{'1' * 200_000}\n", {}, "line 2: is not a row of cells .*larger than field"),
        (
            "a;b\n1;2\n",
            {},
            "line 1: has a single cell, 'a;b': if ';' stands between the cells, say",
        ),
        ("a\tb\n1\t2\n", {}, r"line 1: has a single cell.*say delimiter='\\t'"),
        ("name\nx\ny\n", {}, "has a single column, of names: expected columns of counts"),
        ("doc,word,n\nx,a\n", {}, "line 2: expected three cells, but found 2"),
        ("doc,word,n\nx,a,1\n,a,1\n", {}, "line 3: has no sample"),
        ("doc,word,n\nx,,1\n", {}, "line 2: has no feature"),
        ("doc,word,n\nx,a,1.5\n", {}, "line 2: count: expected a whole number.*'1.5'"),
        ("u,v\nx,1\n", {"layout": "triplets"}, "line 1: expected three cells, sample, feature an"),
        (
            "x,a,1\ny,a,2\n",
            {"layout": "triplets"},
            "line 1: .*may be names or an entry: say header",
        ),
        (b"a,b\n1,2\n\xe9,3\n", {}, "line 3: byte 1 of the line"),
    ],
)
def test_what_is_wrong_and_where(tmp_path, text, options, match):
    path = put(tmp_path / "a.csv", text)
    with pytest.raises(ReadError, match=match) as caught:
        read(path, **options)
    assert str(path) in str(caught.value)


def test_encodings(tmp_path):
    path = put(tmp_path / "a.csv", "é,b\nü,3\n".encode("latin-1"))
    assert names(gives([[3]], path, encoding="latin-1")) == [["b"], ["ü"]]


def test_options_that_contradict(tmp_path):
    path = put(tmp_path / "a.csv", "doc,word,n\nx,a,1\n")
    for options in ({"transpose": True}, {"sample_names": True}):
        with pytest.raises(InvalidInputError, match="transpose and sample_names are for dense"):
            read(path, **options)
    path = put(tmp_path / "a.csv", "a,b\nx,1,2\n")
    with pytest.raises(InvalidInputError, match="has one name less than columns"):
        read(path, sample_names=False)
    for delimiter in ("", ",,", '"', "\n", 7):
        with pytest.raises(InvalidInputError, match="delimiter must be one character"):
            read(path, delimiter=delimiter)


@pytest.mark.parametrize("cells", [["1", "3O"], ["3O", "1"], ["1", "2", "1_000"]])
def test_one_bad_cell_does_not_make_names_of_counts(tmp_path, cells):
    path = put(tmp_path / "a.csv", "ape,bee\n" + "".join(f"{cell},1\n" for cell in cells))
    with pytest.raises(ReadError, match=r"line \d: column 1 \(.*ape.*\) has .*, and numbers else"):
        read(path)
