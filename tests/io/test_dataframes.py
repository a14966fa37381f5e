"""CSV, TSV, Parquet and data frames: where their names are, and what is wrong in which cell."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapmf.errors import InvalidInputError, ReadError
from gapmf.io import read
from io_files import (
    MATRICES,
    SMALL,
    check,
    dense,
    feature_names,
    gives,
    names,
    put,
    sample_names,
    triplets,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("frames")


def frame(X):
    """A polars frame with names of samples."""
    columns = {name: X[:, f] for f, name in enumerate(feature_names(X))}
    return pl.DataFrame({"who": sample_names(X)} | columns)


@settings(max_examples=40)
@given(
    X=MATRICES,
    packed=st.booleans(),
    kind=st.sampled_from(["csv", "tsv"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    cut=st.booleans(),
)
def test_round_trip_of_text(folder, X, packed, kind, end, cut):
    text = dense(X, "\t" if kind == "tsv" else ",").replace("\n", end)
    path = put(folder / f"a.{kind}", text.removesuffix(end) if cut else text, packed)
    assert names(gives(X, path)) == [feature_names(X), sample_names(X)]
    assert names(gives(X.T, path, transpose=True)) == [sample_names(X), feature_names(X)]


@settings(max_examples=8)
@given(X=MATRICES)
def test_round_trip_of_frames(folder, X):
    path = folder / "a[1]*.parquet"  # not a pattern
    frame(X).write_parquet(path)
    for source in (path, frame(X), frame(X).to_pandas()):
        assert names(gives(X, source)) == [feature_names(X), sample_names(X)]
        assert names(gives(X.T, source, transpose=True)) == [sample_names(X), feature_names(X)]
    bare = frame(X).drop("who")
    bare.write_parquet(path)
    for source in (path, bare, bare.to_pandas()):
        assert names(gives(X, source)) == [feature_names(X), None]


@settings(max_examples=30)
@given(X=MATRICES, order=st.permutations([0, 1, 2]))
def test_round_trip_of_triplets(folder, X, order):
    lines = [line.split(",") for line in triplets(X).splitlines()]
    path = put(folder / "b.csv", "".join(",".join(line[f] for f in order) + "\n" for line in lines))
    rows = [[line[0], line[1], int(line[2])] for line in lines[1:]]
    long = pd.DataFrame(rows, columns=lines[0]).astype({"count": int})
    for source in (path, long):
        counts, features, samples = check(read(source))
        found = np.zeros_like(X)
        places = np.ix_([int(name[1:]) for name in samples], [int(name[1:]) for name in features])
        found[places] = counts.toarray()
        np.testing.assert_array_equal(found, X)
        assert samples.tolist() == list(dict.fromkeys(line[0] for line in lines[1:]))


LABELS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=5)


@settings(max_examples=30)
@given(X=MATRICES, data=st.data(), index=st.booleans())
def test_what_pandas_writes(folder, X, data, index):
    titles = st.lists(LABELS.map("x{}".format), min_size=X.shape[1], max_size=X.shape[1])
    columns = data.draw(titles)
    rows = data.draw(st.lists(LABELS, min_size=X.shape[0], max_size=X.shape[0]))
    path = folder / "pandas.csv"
    pd.DataFrame(X, columns=columns, index=rows).to_csv(path, index=index, lineterminator="\n")
    assert names(gives(X, path, layout="dense")) == [columns, rows if index else None]


def test_over_several_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("gapmf.io.dataframes._CHUNK_CELLS", 7)
    X = np.arange(40).reshape(8, 5) % 4
    path = put(tmp_path / "a.csv", dense(X))
    gives(X, path)
    gives(X, pd.read_csv(path, index_col=0))
    text = "\n".join(",".join(map(str, row)) for row in [list("vwxyz"), *X.tolist()])
    gives(X, put(path, text))
    assert read(put(path, triplets(X))).counts.sum() == X.sum()
    for bad, match in (
        ("1,1,1,1,1,1\n", "line 9: expected 5 cells, as in the rows above, but found 6"),
        ("1,1,1,1\n", "line 9: expected 5 cells, as in the rows above, but found 4"),
        ("1,1,1,x,1\n", r"line 9: column 4 \('y'\) is 'x' \(text\)"),
    ):
        with pytest.raises(ReadError, match=match):
            read(put(path, "v,w,x,y,z\n" + "1,1,1,1,1\n" * 7 + bad + "1,1,1,1,1\n"))


@pytest.mark.parametrize(
    ("text", "options", "X", "features", "samples"),
    [
        ("a,b\n1,2\n0,3\n", {}, [[1, 2], [0, 3]], ["a", "b"], None),
        ("id,b\nx,2\ny,3\n", {}, [[2], [3]], ["b"], ["x", "y"]),
        ("id,b\n1,2\ny,3\n", {}, [[2], [3]], ["b"], ["1", "y"]),
        ("id,b\n007,2\nNA,3\n", {}, [[2], [3]], ["b"], ["007", "NA"]),
        ("Doc ID,b\n1,2\n1,3\n", {}, [[1, 2], [1, 3]], ["Doc ID", "b"], None),
        ("id,b\n1,2\n2,3\n", {"sample_names": False}, [[1, 2], [2, 3]], ["id", "b"], None),
        ("a,b\nx,2\n7,3\n", {"sample_names": True}, [[2], [3]], ["b"], ["x", "7"]),
        (",null\n1,2\nNone,3\n", {}, [[2], [3]], ["null"], ["1", "None"]),
        ('"a","b"\n"x",1,2\n"y",0,3\n', {}, [[1, 2], [0, 3]], ["a", "b"], ["x", "y"]),
        (",0,1\nx,1,2\n", {}, [[1, 2]], ["0", "1"], ["x"]),
        ("1,2\n0,3\n", {"header": False}, [[1, 2], [0, 3]], None, None),
        ("1,2\n0,3\n", {"header": True}, [[0, 3]], ["1", "2"], None),
        ("x,2\ny,3\n", {"header": False}, [[2], [3]], None, ["x", "y"]),
        ("a;b\n1;2\n", {"delimiter": ";"}, [[1, 2]], ["a", "b"], None),
        ("\ufeffa,b\r\n1,2\r\n\r\n \r\n", {}, [[1, 2]], ["a", "b"], None),
        ('\na,"b\nc"\n\n1.0,+2e0\n', {}, [[1, 2]], ["a", "b\nc"], None),
        ('a,"b ""c"", d"\n1, 2 \n', {}, [[1, 2]], ["a", 'b "c", d'], None),
        ("a\n1\n2\n", {}, [[1], [2]], ["a"], None),
        ("doc,word,n\n1,2,3\n", {"layout": "dense"}, [[2, 3]], ["word", "n"], ["1"]),
        (",a,b\n", {}, np.zeros((0, 2)), ["a", "b"], []),
        ("g,x,y\na,1,2\n", {"transpose": True}, [[1], [2]], ["a"], ["x", "y"]),
        ("doc,word,n\nx,a,1\ny,b,2\nx,a,3\n", {}, [[4, 0], [0, 2]], ["a", "b"], ["x", "y"]),
        ("Word ID,docID,Freq\na,7,1\nb,5,2\n", {}, [[1, 0], [0, 2]], ["a", "b"], ["7", "5"]),
        ("gene,barcode,value\nNA,x,0\nNA,y,2\n", {}, [[0], [2]], ["NA"], ["x", "y"]),
        ("u,v,w\nx,a,1\n", {"layout": "triplets"}, [[1]], ["a"], ["x"]),
        ("x,a,1\n", {"layout": "triplets", "header": False}, [[1]], ["a"], ["x"]),
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
        ("1,2\n3,4\n", {}, "line 1: ends with '2', where the name .*: set the option `header`"),
        ("x,1,2\ny,3,4\n", {}, "line 1: ends with '2'.*true for names or false for counts"),
        ("x,a,1\ny,a,2\n", {"layout": "triplets"}, "line 1: ends with '1'"),
        ("a,b\n1,2\n1\n", {}, "line 3: expected 2 cells, as in the rows above, but found 1"),
        ("a,b,c\n1,2\n", {}, "line 2: expected 3 cells"),
        ("a,b\n1,2\n1,x\n", {}, r"line 3: column 2 \('b'\) is 'x' \(text\): counts must be whole"),
        ("a,b\n1,2\n1,\n", {}, r"line 3: column 2 \('b'\) is '' \(missing\): .*; fill or drop"),
        ("a,b\n1,2\n-1,3\n", {}, r"line 3: column 1 \('a'\) is '-1' \(negative\)"),
        ("a,b\n1,2\nNA,3\n", {}, r"line 3: column 1 \('a'\) is 'NA' \(missing\)"),
        ("a,b\nx,0.5\n", {}, r"line 2: column 2 \('b'\) is '0.5' \(not whole\).*; pass raw counts"),
        ("a,b\n1,9007199254740993\n", {}, r"is '9007199254740993' \(too large\)"),
        ("a,b\n1,1_0\n", {}, r"line 2: column 2 \('b'\) is '1_0' \(text\)"),
        ("a,b\nx,1\n", {"sample_names": False}, r"line 2: column 1 \('a'\) is 'x' \(text\)"),
        ("1,2\n1,x\n", {"header": False}, r"line 2: column 2 is 'x' \(text\)"),
        ('a,b\n1,2\n"1,3\n', {}, "line 3: expected 2 cells"),
        ("a;b\n1;2\n", {}, "has a single column, of names: is the option `delimiter` right"),
        ("ape,b\n1,2\n3O,1\n", {}, r"line 3: column 1 \('ape'\) is '3O' .*`sample_names`"),
        ("doc,word,n\nx,a\n", {}, "line 2: expected 3 cells"),
        ("doc,word,n\nx,a,1\n,a,1\n", {}, r"line 3: column 1 \('doc'\) is empty: give a name"),
        ("doc,word,n\nx,a,1.5\n", {}, r"line 2: column 3 \('n'\) is '1.5' \(not whole\)"),
        (
            "u,v\nx,y\n",
            {"layout": "triplets", "header": True},
            "has 2 columns, but triplets have thr",
        ),
        (b"a,b\n1,2\n\xe9,3\n", {}, r"line 3: not utf-8 \(.*: set the option `encoding`"),
    ],
)
def test_what_is_wrong_in_text_and_where(tmp_path, text, options, match):
    path = put(tmp_path / "a.csv", text)
    with pytest.raises(ReadError, match=match) as caught:
        read(path, **options)
    assert str(path) in str(caught.value)


def test_options_of_text(tmp_path):
    path = put(tmp_path / "a.csv", "é,b\nü,3\n".encode("latin-1"))
    assert names(gives([[3]], path, encoding="latin-1")) == [["b"], ["ü"]]
    put(path, "é,b\nü,3\n".encode("utf-16"))
    assert names(gives([[3]], path, encoding="utf-16")) == [["b"], ["ü"]]
    for options in ({"delimiter": ",,"}, {"delimiter": 7}, {"encoding": "utf-99"}):
        with pytest.raises(
            InvalidInputError, match=r"a.csv cannot be read \(.*(unknown enc|delim)"
        ):
            read(path, **options)


@pytest.mark.parametrize(
    ("made", "options", "X", "features", "samples"),
    [
        (pd.DataFrame({"b": [1, 2]}, index=["x", "y"]), {}, [[1], [2]], ["b"], ["x", "y"]),
        (pd.DataFrame({"b": [1, 2]}, index=[7, 7]), {}, [[1], [2]], ["b"], ["7", "7"]),
        (pd.DataFrame({"b": [1]}, index=["x"]), {"sample_names": False}, [[1]], ["b"], None),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), {}, [[1, 2]], ["a", "a"], None),
        (pd.DataFrame({"who": ["u", "x"], "b": [1, 2]}), {}, [[1], [2]], ["b"], ["u", "x"]),
        (pd.DataFrame({"id": [3, 4], "b": [1.0, 2.0]}), {}, [[1], [2]], ["b"], ["3", "4"]),
        (
            pd.DataFrame({"c": pd.Categorical(["x", "y"]), "b": [True, False]}),
            {},
            [[1], [0]],
            ["b"],
            ["x", "y"],
        ),
        (pd.DataFrame({"a": pd.array([1, 2], dtype="Int64")}), {}, [[1], [2]], ["a"], None),
        (
            pl.DataFrame({"a": [1], "a.b": [2]}, schema={"a": pl.UInt8, "a.b": pl.Float32}),
            {},
            [[1, 2]],
            ["a", "a.b"],
            None,
        ),
        (
            pl.DataFrame({"row": [7, 7, 9], "col": [1, 2, 1], "n": [3.0, 1.0, 2.0]}),
            {},
            [[3, 1], [2, 0]],
            ["1", "2"],
            ["7", "9"],
        ),
        (frame(SMALL).clear(), {"sample_names": True}, np.zeros((0, 3)), ["f0", "f1", "f2"], []),
        (pl.DataFrame(schema=["sample", "feature", "count"]), {}, np.zeros((0, 0)), [], []),
    ],
)
def test_frames(folder, made, options, X, features, samples):
    assert names(gives(X, made, **options)) == [features, samples]
    if len(set(made.columns)) == len(made.columns):
        path = folder / "c.parquet"
        made.to_parquet(path) if isinstance(made, pd.DataFrame) else made.write_parquet(path)
        assert names(gives(X, path, **options)) == [features, samples]


@pytest.mark.parametrize(
    ("columns", "options", "match"),
    [
        ({"a": [1, 2], "b": [1.0, 0.5]}, {}, r", X\[1, 1\] \(column 'b'\) is 0.5 \(not whole"),
        ({"a": [1, 2], "b": [1, None]}, {}, r", X\[1, 1\] \(column 'b'\) is (nan|None) \(missing"),
        ({"a": [1, 2**53 + 1]}, {}, r"X\[1, 0\] \(column 'a'\) is 9007199254740993 \(too large\)"),
        ({"a": ["x"], "b": ["y"], "c": [1]}, {}, r"X\[0, 0\] \(column 'b'\) is 'y' \(text\)"),
        ({"a": ["x"]}, {}, "has no columns of counts"),
        ({"doc": ["x", "y"], "word": ["a", None], "n": [1, 1]}, {}, "row 1 .*'word' is empty"),
        ({"doc": ["x"], "word": ["y"], "n": [-1]}, {}, r"row 0 .*column 'n' is -1 \(negative"),
        ({"a": [1]}, {"layout": "triplets"}, "has 1 columns, but triplets have three"),
    ],
)
def test_what_is_wrong_in_frames_and_where(folder, columns, options, match):
    made, path = pl.DataFrame(columns, strict=False), folder / "d.parquet"
    made.write_parquet(path)
    for source, where in ((made, "the data frame"), (path, str(path))):
        with pytest.raises(ReadError, match=match) as caught:
            read(source, **options)
        assert str(caught.value).startswith(where)


def test_options_of_frames():
    with pytest.raises(InvalidInputError, match="a data frame has no format"):
        read(frame(SMALL), format="csv")
    with pytest.raises(InvalidInputError, match="is read as a frame, which has no option header"):
        read(frame(SMALL), header=True)
    with pytest.raises(ReadError, match="has no columns of counts"):
        read(pd.DataFrame())


@pytest.mark.parametrize("data", [b"", b"PAR1" + bytes(40)])
def test_what_is_no_parquet(tmp_path, data):
    with pytest.raises(ReadError, match=r"cannot be read \(Arrow.*: is it complete"):
        read(put(tmp_path / "a.parquet", data))


def test_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pyarrow"):
        read(put(tmp_path / "a.parquet", b""))


LONG = pd.DataFrame(
    [("Mon", "ape", 2), ("Tue", "bee", 1), ("Mon", "bee", 1), ("Mon", "ape", 3)],
    columns=["doc", "word", "n"],
)


@pytest.mark.parametrize(
    "frame",
    [
        LONG,
        LONG[["n", "word", "doc"]],
        LONG.astype({"n": str}),
        LONG.astype({"n": float, "doc": "category"}),
        LONG.convert_dtypes(),
        LONG.set_index("doc"),
        LONG.set_index(["doc", "word"]),
        LONG.groupby(["doc", "word"], sort=False)["n"].sum(),
        LONG.set_axis([7, 3, 3, 1]),
        pl.from_pandas(LONG),
        pl.from_pandas(LONG).with_columns(pl.col("n").cast(pl.String)),
    ],
    ids=range(11),
)
def test_a_long_frame_is_read_as_its_csv(tmp_path, frame):
    """However its names are kept: in columns, in the index, as categories or as text."""
    found = check(read(frame))
    assert found.counts.toarray().tolist() == [[5, 1], [0, 1]]
    assert names(found) == [["ape", "bee"], ["Mon", "Tue"]]
    path = tmp_path / "a.csv"
    if hasattr(frame, "to_csv"):
        frame.to_csv(path, index=None not in frame.index.names)
    else:
        frame.write_csv(path)
    as_csv = read(path)
    assert names(as_csv) == names(found)
    np.testing.assert_array_equal(as_csv.counts.toarray(), found.counts.toarray())


def test_an_index_that_makes_no_triplets():
    wide = pd.DataFrame({"ape": [1, 2], "bee": [0, 3]}, index=pd.Index(["Mon", "Tue"], name="doc"))
    assert names(read(wide)) == [["ape", "bee"], ["Mon", "Tue"]]
    sizes = LONG.groupby(["doc", "word"]).size()
    assert read(sizes).counts.toarray().tolist() == [[2, 1], [0, 1]]
    odd = LONG.rename(columns={"doc": "a", "word": "b"}).set_index(["a", "b"])
    assert read(odd, layout="triplets").counts.toarray().tolist() == [[5, 1], [0, 1]]
    with pytest.raises(ReadError, match=r"row 1 .*column 'n' is 'many' \(text\)"):
        read(LONG.assign(n=["2", "many", "1", "3"]))
