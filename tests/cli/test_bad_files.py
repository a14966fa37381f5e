"""Files that `fit`, `score` and `transform` refuse: a line that says where, and nothing written."""

from __future__ import annotations

import gzip
import shutil

import polars as pl
import pytest
from commands import FIT, gapmf

from gapmf.io import FORMATS
from io_files import put

MARKET = "%%MatrixMarket matrix coordinate integer general\n"

# A file, its format, what is in it, options, and what is said after its path.
FILES = [
    ("docword.a.txt", "uci", "2\n5\n2\n1 1 4\n2 9 1\n", (), ", line 5: "),
    ("docword.b.txt", "uci", "2\n5\nmany\n1 1 4\n", (), " must begin with N, F and NNZ"),
    ("docword.c.txt.gz", "uci", gzip.compress(b"2\n5\n2\n1 1 4\n2 1 x\n"), (), ", line 5: "),
    ("docword.d.txt.gz", "uci", gzip.compress(b"2\n5\n2\n1 1 4\n")[:-9], (), ""),
    ("a.mtx", "mtx", MARKET + "2 5 2\n1 1 4\n3 1 1\n", (), ", line 4: "),
    ("b.mtx", "mtx", "1 1 4\n", (), ", line 1: "),
    ("a.npz", "npz", b"PK\3\4 and no more", (), ""),
    ("a.csv", "csv", "f0,f1,f2,f3,f4\n1,2,3,4,5\n1,2,3,-4,5\n", (), ", line 3"),
    ("b.csv", "csv", "f0,f1,f2,f3,f4\n1,2,3,4,5\n1,2,3,4\n", (), ", line 3"),
    ("c.csv", "csv", "sample,feature,count\na,f0,1\na,f1,1.5\n", (), ", line 3"),
    ("d.csv", "csv", "", (), " is empty"),
    ("e.csv.gz", "csv", gzip.compress(b"f0,f1,f2,f3,f4\n1,2,3,4,none\n"), (), ", line 2"),
    ("a.tsv", "tsv", "f0\tf1\tf2\tf3\tf4\n1\t2\t3\t4\t5\n1\t2\t3\t4\tmany\n", (), ", line 3"),
    ("b.tsv", "tsv", "f0,f1,f2,f3,f4\n1,2,3,4,5\n", (), " has a single column, of names"),
    ("a.parquet", "parquet", b"PAR1 and no more", (), ""),
    ("negative.parquet", "parquet", None, (), ", X[1, 1] (column 'f1') is -2 "),
    ("a.h5ad", "h5ad", b"\x89HDF\r\n\x1a\n" + bytes(100), (), " cannot be read (OSError"),
    ("zoo.h5ad", "h5ad", None, (), ", X[0, 0] (column 'f0') is "),
    ("zoo.h5ad", "h5ad", None, ("--layer", "counts"), ", layers has no 'counts': there are 'raw'"),
    ("a.txt", "text", "f0 f1\nder Bär f2\n".encode("latin-1"), (), ", line 2: not utf-8"),
    ("b.txt", "text", "", (), ": empty vocabulary"),
    ("texts", "text", None, (), "/b.txt, line 3: not utf-8"),
    ("nothing", "text", None, (), " is a folder without .mtx or .txt files"),
    ("shards", "shards", None, (), "/manifest.json has no 'format'"),
    ("lost", "shards", None, (), "/00000.parquet cannot be read (No such file"),
    ("a.xls", "text", "f0 f1\n", (), ": the name does not tell the format"),
    ("f.csv", "csv", "f0,f1\n1,2\n", ("--format", "excel"), None),
    ("f.csv", "csv", "f0,f1\n1,2\n", ("--layer", "raw"), " is read as 'csv', which has no option"),
    ("f.csv", "csv", "f0,f1\n1,2\n", ("--vocab", "v"), " is read as 'csv', which has no option"),
    ("missing.csv", "csv", None, (), ""),
]
COMMANDS = ("fit", "score", "transform")


def test_no_format_is_left_out():
    assert {kind for _, kind, *_ in FILES} == set(FORMATS)


@pytest.fixture(scope="module")
def bad(tmp_path_factory, files):
    folder = tmp_path_factory.mktemp("bad")
    for name, _, data, *_ in FILES:
        if data is not None:
            put(folder / name, data)
    pl.DataFrame({"f0": [1, 2], "f1": [0, -2]}).write_parquet(folder / "negative.parquet")
    put(folder / "zoo.h5ad", (files / "zoo.h5ad").read_bytes())
    for name in ("texts", "nothing", "shards"):
        (folder / name).mkdir()
    put(folder / "shards" / "manifest.json", "{}")
    shutil.copytree(files / "shards", folder / "lost")
    (folder / "lost" / "00000.parquet").unlink()
    put(folder / "texts" / "a.txt", "f0 f1\n")
    put(folder / "texts" / "b.txt", "f0\nf1\nBär\n".encode("latin-1"))
    return folder


@pytest.mark.parametrize(
    ("command", "name", "options", "said"),
    [(COMMANDS[i % 3], name, given, said) for i, (name, _, _, given, said) in enumerate(FILES)],
    ids=[" ".join([name, *options]) for name, _, _, options, _ in FILES],
)
def test_files_that_are_refused(command, name, options, said, bad, model, tmp_path, monkeypatch):
    """All commands read in the same way, so each file is for one of them."""
    monkeypatch.chdir(bad)
    before = sorted(bad.rglob("*"))
    out = tmp_path / ("m.gapmf" if command == "fit" else "out.csv")
    call = [name, *FIT] if command == "fit" else [model, name]
    done = gapmf(command, *call, *options, "-o", out, code=1)
    assert ("format must be one of 'mtx', " if said is None else f"{name}{said}") in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert sorted(bad.rglob("*")) == before


def test_a_download_that_was_cut_off(nips_dir, model, tmp_path):
    whole = (nips_dir / "docword.nips.txt.gz").read_bytes()
    data = put(tmp_path / "docword.nips.txt.gz", whole[:200_000])
    for command in COMMANDS:
        call = [data, *FIT, "-o", tmp_path / "m"] if command == "fit" else [model, data]
        assert str(data) in gapmf(command, *call, code=1).stderr
    assert list(tmp_path.iterdir()) == [data]


def test_features_that_the_model_does_not_have(model, tmp_path):
    """Other names, none at all and another number of them."""
    other = put(tmp_path / "other.csv", "ape,bee\n1,2\n3,4\n")
    few = put(tmp_path / "few.mtx", MARKET + "2 3 1\n1 1 4\n")
    for command in ("score", "transform"):
        said = gapmf(command, model, other, "-o", tmp_path / "o.csv", code=1).stderr
        assert (
            "none of the 2 features of the data is one of the model's: the data have 'ape'" in said
        )
        said = gapmf(command, model, few, "-o", tmp_path / "o.csv", code=1).stderr
        assert f"{few} has 3 features, but the model has 5" in said
    assert sorted(tmp_path.iterdir()) == [few, other]
