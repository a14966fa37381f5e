"""Which format a file has, which options a format has, and what comes back."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gapmf.errors import InvalidInputError, ReadError
from gapmf.io import Table, read, reading
from gapmf.io.reading import FORMATS, find_format
from io_files import SMALL, check, dense, gives, mtx, npz, put, triplets, uci


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("docword.a.txt", uci, "uci"),
        ("DOCWORD.A.TXT.GZ", uci, "uci"),
        ("any.txt", uci, "uci"),
        ("a.mtx", mtx, "mtx"),
        ("A.MTX.gz", mtx, "mtx"),
        ("a.npz", npz, "npz"),
        ("a.csv", dense, "csv"),
        ("a.b.csv.gz", triplets, "csv"),
        ("a.tsv", dense, "tsv"),
        ("a.tab.gz", dense, "tsv"),
        ("a.pq", dense, "parquet"),
        ("a.parquet", dense, "parquet"),
        ("a.h5ad", dense, "h5ad"),
        ("a.txt", lambda X: "an ape, a bee\n\n1, 2 or 3\n", "text"),
        ("a.txt.gz", lambda X: "an ape\na bee\n", "text"),
    ],
)
def test_the_format_by_the_name(tmp_path, name, content, kind):
    path = put(tmp_path / name, content(SMALL), packed=name.lower().endswith("gz"))
    assert find_format(str(path)) == kind


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_is_not_taken_for_documents(tmp_path, delimiter):
    path = put(tmp_path / "a.txt", dense(SMALL).replace(",", delimiter))
    kind = "tsv" if delimiter == "\t" else "csv"
    with pytest.raises(ReadError, match=f"looks like a table.*say format='{kind}'"):
        read(path)
    assert read(path, format=kind, delimiter=delimiter).counts.shape == SMALL.shape
    assert read(path, format="text").counts.shape[0] > SMALL.shape[0]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("1\n2\n3\n", "uci"),
        ("1\n2\n3\n\n", "uci"),
        ("1\n2\n3\n1 1 1\n", "uci"),
        ("1\n2\n3\n1 1\n", "text"),
        ("1\n2\n3\nfour\n", "text"),
        ("1\n2\n", "text"),
        ("1\n2\n3 4\n1 1 1\n", "text"),
        ("", "text"),
    ],
)
def test_texts_that_look_like_uci(tmp_path, content, kind):
    assert find_format(str(put(tmp_path / "a.txt", content))) == kind


def test_the_format_of_a_folder(tmp_path):
    put(tmp_path / "a.txt", "ape")
    assert find_format(str(tmp_path)) == "text"
    put(tmp_path / "docword.zoo.txt", uci(SMALL))
    assert find_format(str(tmp_path)) == "uci"
    put(tmp_path / "matrix.mtx", mtx(SMALL))
    assert find_format(str(tmp_path)) == "mtx"
    for kind, counts in (("uci", SMALL), ("mtx", SMALL)):
        gives(counts, tmp_path, format=kind)
    assert check(read(tmp_path, format="text")).counts.shape[0] == 2
    with pytest.raises(ReadError, match="is a folder, and a file was expected: name a file in it"):
        read(tmp_path, format="csv")


def test_a_format_that_is_said(tmp_path):
    path = put(tmp_path / "counts", dense(SMALL))
    gives(SMALL, path, format="csv")
    with pytest.raises(ReadError, match=r"the format cannot be told .*'uci': docword.*'h5ad': .h5"):
        read(path)
    with pytest.raises(
        InvalidInputError, match="unknown format 'xls': known are 'uci', 'mtx', 'npz"
    ):
        read(path, format="xls")
    gives(SMALL, put(tmp_path / "x.csv", uci(SMALL)), format="uci")


@pytest.mark.parametrize("form", [str, os.fsencode, Path])
def test_kinds_of_paths(tmp_path, monkeypatch, form):
    put(tmp_path / "a b.csv", dense(SMALL))
    gives(SMALL, form(tmp_path / "a b.csv"))
    monkeypatch.chdir(tmp_path)
    gives(SMALL, form("a b.csv"))


def test_errors_of_the_system_pass(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.csv"):
        read(tmp_path / "missing.csv")
    with pytest.raises(FileNotFoundError, match="missing"):
        read(tmp_path / "missing", format="nonsense")
    with pytest.raises(TypeError):
        read(7.5)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do everything"
)
@pytest.mark.parametrize("kind", FORMATS)
def test_no_permission(tmp_path, kind):
    path = put(tmp_path / "a", "")
    path.chmod(0)
    with pytest.raises(PermissionError):
        read(path, format=kind)


OPTIONS = {
    "vocab": "x",
    "transpose": True,
    "layer": "x",
    "layout": "dense",
    "header": True,
    "sample_names": True,
    "delimiter": ",",
    "encoding": "utf-8",
    "lowercase": True,
    "stop_words": "english",
    "token_pattern": "x",
    "ngram_range": (1, 1),
    "min_df": 1,
    "max_df": 1,
    "max_features": 1,
}


@pytest.mark.parametrize("kind", FORMATS)
def test_options_that_a_format_does_not_have(tmp_path, kind):
    path = put(tmp_path / "a", "")
    assert set(FORMATS[kind].options) <= set(OPTIONS)
    for name in set(OPTIONS) - set(FORMATS[kind].options):
        with pytest.raises(
            InvalidInputError, match=f"a is read as '{kind}', which has no option {name}: it has"
        ):
            read(path, format=kind, **{name: OPTIONS[name]})


def test_several_options_are_named_at_once(tmp_path):
    path = put(tmp_path / "a.csv", dense(SMALL))
    with pytest.raises(InvalidInputError, match=r"no option layer, min_df: it has layout, header"):
        read(path, layer="x", min_df=1, header=True)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"transpose": 1}, "transpose must be True or False, but is 1"),
        ({"header": "yes"}, "header must be True or False, but is 'yes'"),
        ({"sample_names": "id"}, "sample_names must be True or False, but is 'id'"),
        ({"layout": "wide"}, "unknown layout 'wide': known are 'dense', 'triplets'"),
        ({"encoding": "utf-99"}, "encoding='utf-99' cannot be used"),
    ],
)
def test_options_that_cannot_be(tmp_path, options, match):
    path = put(tmp_path / "a.csv", dense(SMALL))
    with pytest.raises(InvalidInputError, match=match):
        read(path, **options)


def test_a_layer_that_is_no_name(tmp_path):
    with pytest.raises(InvalidInputError, match="layer must be the name of a layer, but is 7"):
        read(put(tmp_path / "a.h5ad", ""), layer=7)


def test_the_signature_and_the_docstring_agree():
    parameters = inspect.signature(read).parameters
    assert set(parameters) == {"path", "format", *OPTIONS}
    text = inspect.getdoc(read)
    for kind, form in FORMATS.items():
        rows = re.search(rf'"{kind}" .*?(?=\n"|\n=)', text, re.S)[0]
        if kind != "tsv":  # which refers to "csv"
            assert set(form.options) <= set(re.findall(r"\w+", rows)), kind
    for name in parameters:
        assert re.search(rf"^(\w+, )*{name}(, \w+)* : ", text, re.M), name


def test_a_table_unpacks_as_three(tmp_path):
    table = read(put(tmp_path / "a.csv", dense(SMALL)))
    assert isinstance(table, Table)
    counts, features, samples = table
    assert counts is table.counts
    assert features is table.feature_names
    assert samples is table.sample_names
    with pytest.raises(AttributeError):
        table.counts = None
    np.testing.assert_array_equal(counts.toarray(), SMALL)
    said = "Table of 3 samples × 3 features, 4 counts above 0; features have names, samples have"
    assert repr(table) == f"{said} names"
    assert repr(table._replace(sample_names=None)) == f"{said} none"


def test_imports_are_late_and_few():
    code = "import sys, gapmf.io; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    heavy = {"pandas", "polars", "pyarrow", "anndata", "h5py", "sklearn", "numba", "typer"}
    assert not heavy & set(done.stdout.split())
    allowed = {"errors", "validation", "counts", "rows", "storage", "io"}
    for path in Path(reading.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("gapmf."):
                assert node.module.split(".")[1] in allowed, path
