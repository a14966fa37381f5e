"""Which format a file has, which options a format has, and what comes back."""

from __future__ import annotations

import ast
import gzip
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gapmf.io
from gapmf.errors import InvalidInputError, ReadError
from gapmf.io import FORMATS, Table, find_format, read
from io_files import SMALL, check, dense, gives, mtx, npz, put, triplets, uci


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("docword.a.txt", uci, "uci"),
        ("DOCWORD.A.TXT.GZ", uci, "uci"),
        ("any.txt", uci, "uci"),
        ("a.mtx", mtx, "mtx"),
        ("a.npz", npz, "npz"),
        ("a.csv", dense, "csv"),
        ("a.b.csv.gz", triplets, "csv"),
        ("a.tsv", dense, "tsv"),
        ("a.parquet", dense, "parquet"),
        ("a.h5ad", dense, "h5ad"),
        ("a.txt", lambda X: "an ape, a bee\n\n1, 2 or 3\n", "text"),
        ("a.txt.gz", lambda X: "an ape\na bee\n", "text"),
        ("a.txt", lambda X: b"\xff\xfe\n\xe9", "text"),
        ("a.txt", lambda X: "1\n2\n3\n", "uci"),
        ("a.txt", lambda X: "\ufeff1\n2\n3\n\n", "uci"),
        ("a.txt", lambda X: "", "text"),
    ],
)
def test_the_format_by_name_and_content(tmp_path, name, content, kind):
    path = put(tmp_path / name, content(SMALL), packed=name.lower().endswith("gz"))
    assert find_format(str(path)) == kind


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_is_not_taken_for_documents(tmp_path, delimiter):
    path = put(tmp_path / "a.txt", dense(SMALL).replace(",", delimiter))
    kind = "tsv" if delimiter == "\t" else "csv"
    with pytest.raises(ReadError, match=f"looks like a table.*set the option `format` to {kind}, "):
        read(path)
    assert read(path, format=kind, delimiter=delimiter).counts.shape == SMALL.shape
    assert read(path, format="text").counts.shape[0] > SMALL.shape[0]


def test_the_format_of_a_folder(tmp_path):
    with pytest.raises(ReadError, match=r"is a folder without .mtx or .txt files: name a file"):
        read(tmp_path)
    put(tmp_path / "a.txt", "ape")
    assert find_format(str(tmp_path)) == "text"
    put(tmp_path / "docword.zoo.txt", uci(SMALL))
    assert find_format(str(tmp_path)) == "uci"
    put(tmp_path / "matrix.mtx", mtx(SMALL))
    assert find_format(str(tmp_path)) == "mtx"
    for kind in ("uci", "mtx"):
        gives(SMALL, tmp_path, format=kind)
    assert check(read(tmp_path, format="text")).counts.shape[0] == 2
    with pytest.raises(ReadError, match=r"cannot be read \(IsADirectoryError"):
        read(tmp_path, format="csv")


def test_a_format_that_is_said(tmp_path):
    path = put(tmp_path / "counts", dense(SMALL))
    gives(SMALL, path, format="csv")
    with pytest.raises(ReadError, match=r"set the option `format` \(mtx: .mtx; uci: docword.*h5ad"):
        read(path)
    with pytest.raises(
        InvalidInputError, match=r"format must be one of 'mtx', 'uci', .*, but is 'xls'"
    ):
        read(path, format="xls")
    gives(SMALL, put(tmp_path / "x.csv", uci(SMALL)), format="uci")


@pytest.mark.parametrize("form", [str, os.fsencode, Path])
def test_kinds_of_paths(tmp_path, monkeypatch, form):
    put(tmp_path / "a b.csv", dense(SMALL))
    gives(SMALL, form(tmp_path / "a b.csv"))
    monkeypatch.chdir(tmp_path)
    gives(SMALL, form("a b.csv"))


@pytest.mark.parametrize("name", ["docword.a.txt", "a.mtx", "a.csv", "a.txt"])
def test_gzip_is_known_by_its_content(tmp_path, name):
    content = {"docword.a.txt": uci, "a.mtx": mtx, "a.csv": dense}.get(name, lambda X: "an ape\n")
    plain = check(read(put(tmp_path / name, content(SMALL))))
    packed = gzip.compress(content(SMALL).encode())
    gives(plain.counts.toarray(), put(tmp_path / name, packed))
    flipped = bytearray(packed)
    flipped[-8] ^= 1  # of the check sum
    for damaged in (packed[:-9], bytes(flipped)):
        with pytest.raises(ReadError, match=f"{name} cannot be read .*is it complete"):
            read(put(tmp_path / name, damaged))


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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_is_not_opened(tmp_path):
    for name in ("pipe.csv", "pipe.txt"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(ReadError, match="is a device or a pipe: name a file or a folder"):
            read(tmp_path / name)


OPTIONS = {"nonsense", *(name for form in FORMATS.values() for name in form.options)}


@pytest.mark.parametrize("kind", FORMATS)
def test_options_that_a_format_does_not_have(tmp_path, kind):
    path = put(tmp_path / "a", "")
    for name in OPTIONS - set(FORMATS[kind].options):
        with pytest.raises(
            InvalidInputError, match=f"a is read as '{kind}', which has no option {name}: it has"
        ):
            read(path, format=kind, **{name: 1})


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"transpose": 1}, "transpose must be True or False, but is 1"),
        ({"header": "yes"}, "header must be True or False, but is 'yes'"),
        ({"sample_names": "id"}, "sample_names must be True or False, but is 'id'"),
        ({"layout": "wide"}, "layout must be one of 'dense', 'triplets', but is 'wide'"),
        ({"layer": "x", "vocab": 1}, r"no option vocab, layer: it has layout, sample_names, "),
        ({"min_df": 0}, "min_df must be a whole number of samples, 1 or more, or a share .*is 0$"),
        ({"max_df": 1.5}, "max_df must be .* from 0.0 to 1.0, but is 1.5"),
        ({"min_df": True}, "min_df must be"),
        ({"stop_words": "german"}, "word per line, but is 'german', and there is no such file"),
        ({"stop_words": 5}, "stop_words must be english, a list of words, .* but is '5'$"),
    ],
)
def test_options_that_cannot_be(tmp_path, options, match):
    path = put(tmp_path / "a.csv", dense(SMALL))
    with pytest.raises(InvalidInputError, match=match):
        read(path, **options)


def test_the_signature_and_the_docstring_agree():
    text = inspect.getdoc(read)
    for kind, form in FORMATS.items():
        rows = re.search(rf'"{kind}" .*?(?=\n"|\n=)', text, re.S)[0]
        if kind != "tsv":  # which refers to "csv"
            assert set(re.findall(r"\w+", rows)) >= set(form.options), kind
    for name in inspect.signature(read).parameters:
        assert re.search(rf"^(\w+, )*{name}(, \w+)* : |^\*\*{name}$", text, re.M), name


def test_messages_are_not_python(tmp_path):
    """They are shown on the command line, too: an option is named, not assigned."""
    for module in Path(gapmf.io.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                code = node.value if "-------" not in node.value else ""  # a docstring
                assert not re.search(rf"\b({'|'.join(OPTIONS)}|format)=", code), code


def test_a_table_unpacks_as_three(tmp_path):
    table = read(put(tmp_path / "a.csv", dense(SMALL)))
    assert isinstance(table, Table)
    counts, features, samples = table
    assert counts is table.counts
    assert features is table.feature_names
    assert samples is table.sample_names
    said = "Table of 3 samples × 3 features, 4 counts above 0; features have names, samples have"
    assert repr(table) == f"{said} names"
    assert repr(table._replace(sample_names=None)) == f"{said} none"


def test_imports_are_late():
    code = "import sys, gapmf.io; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    heavy = {"pandas", "polars", "pyarrow", "anndata", "h5py", "sklearn", "numba", "typer"}
    assert not heavy & set(done.stdout.split())
