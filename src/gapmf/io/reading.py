"""`gapmf.read`: which kind of file this is, and which options that kind has."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from gapmf.errors import InvalidInputError, ReadError
from gapmf.io.delimited import read_delimited
from gapmf.io.h5ad import read_h5ad
from gapmf.io.market import matrices_in, read_market
from gapmf.io.npz import read_npz
from gapmf.io.parquet import read_parquet
from gapmf.io.table import Table
from gapmf.io.text import documents_in, read_text, refuse_tables
from gapmf.io.uci import looks_like_uci, read_uci
from gapmf.validation import check_option

WORD_OPTIONS = (
    "lowercase",
    "stop_words",
    "token_pattern",
    "ngram_range",
    "min_df",
    "max_df",
    "max_features",
)
_TABLE_OPTIONS = ("layout", "header", "sample_names", "delimiter", "transpose", "encoding")


class Format(NamedTuple):
    """A kind of file."""

    suffixes: tuple[str, ...]
    reader: Callable[..., Table]
    options: tuple[str, ...]


FORMATS = {
    "uci": Format(("docword*.txt",), read_uci, ("vocab", "encoding")),
    "mtx": Format((".mtx",), read_market, ("vocab", "transpose", "encoding")),
    "npz": Format((".npz",), read_npz, ("vocab", "transpose", "encoding")),
    "csv": Format((".csv",), read_delimited, _TABLE_OPTIONS),
    "tsv": Format((".tsv", ".tab"), read_delimited, _TABLE_OPTIONS),
    "parquet": Format((".parquet", ".pq"), read_parquet, ("layout", "transpose")),
    "h5ad": Format((".h5ad",), read_h5ad, ("layer",)),
    "text": Format((".txt",), read_text, ("vocab", "encoding", *WORD_OPTIONS)),
}
_DOCWORD = re.compile(r"docword.*\.txt(\.gz)?", re.IGNORECASE | re.DOTALL)


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    vocab: str | os.PathLike[str] | None = None,
    transpose: bool | None = None,
    layer: str | None = None,
    layout: str | None = None,
    header: bool | None = None,
    sample_names: bool | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    lowercase: bool | None = None,
    stop_words: str | list[str] | None = None,
    token_pattern: str | None = None,
    ngram_range: tuple[int, int] | None = None,
    min_df: float | None = None,
    max_df: float | None = None,
    max_features: int | None = None,
) -> Table:
    r"""Read counts, samples × features, with their names.

    The kind of file is known by its name; ``.gz`` may follow the names of text files, and what
    is packed is unpacked whatever it is called.

    ==========  =========================  =========================================================
    format      file                       options
    ==========  =========================  =========================================================
    "uci"       docword.NAME.txt           vocab, encoding
    "mtx"       .mtx, or a 10x folder      vocab, transpose, encoding
    "npz"       .npz of scipy.sparse       vocab, transpose, encoding
    "csv"       .csv                       layout, header, sample_names, delimiter, transpose,
                                           encoding
    "tsv"       .tsv, .tab                 as "csv"
    "parquet"   .parquet, .pq              layout, transpose
    "h5ad"      .h5ad                      layer
    "text"      .txt, or a folder of them  vocab, encoding, lowercase, stop_words, token_pattern,
                                           ngram_range, min_df, max_df, max_features
    ==========  =========================  =========================================================

    Counts are whole numbers from 0 to 2**53, also when written as 3.0; zeros are not stored, and
    counts that a file gives twice for the same place are added up. An option that a format does
    not have is an error, not ignored.

    What a file claims is not believed: one that promises more entries than it has, or more than
    ten million samples or features with next to no counts, or that unpacks to more than 500 times
    its size, is refused before it takes the memory. Parquet and HDF5 are parsed by their own
    libraries: these may fail in worse ways than by an error on files that were made to harm.

    Parameters
    ----------
    path : str or path
        A file; or a folder: with a .mtx it is "mtx", with a docword file "uci", else "text". A
        .txt that begins as UCI files do, with a number on each of three lines, is "uci".
    format : str, optional
        One of the above, whatever the file is called.
    vocab : str or path, optional
        A file with the names of the features, a line each. Next to ``docword.NAME.txt``,
        ``vocab.NAME.txt`` is found. For "text": the words to count, and no others.
    transpose : bool, optional
        Whether the file is features × samples. By default no, but for a .mtx with
        ``features.tsv`` (or ``genes.tsv``) and ``barcodes.tsv`` beside it, which name its
        features and samples.
    layer : str, optional
        Of an .h5ad, where the raw counts are; by default in `X`.
    layout : {"dense", "triplets"}, optional
        Of a table: a row a sample, or a row an entry. By default it is "triplets" if there are
        three columns named sample, feature and count, or such as doc, word and n.
    header : bool, optional
        Whether the first row has names; it must be said if these are numbers.
    sample_names : bool, optional
        Whether the first column has the names of the samples. By default it has if it is itself
        without a name, has no numbers, or is called id, doc_id, index and the like and has no
        number twice. With numbers and other texts in it this must be said.
    delimiter : str, optional
        What stands between cells: a comma in .csv, a tab in .tsv.
    encoding : str, optional
        UTF-8 by default.
    lowercase, stop_words, token_pattern, ngram_range, min_df, max_df, max_features : optional
        Those of scikit-learn's CountVectorizer, with its defaults.

    Returns
    -------
    Table
        `counts` (CSR array of int64, N × F), `feature_names` and `sample_names` (arrays of str,
        or None). It unpacks as these three.

    Raises
    ------
    ReadError
        If the file is not what it should be; the message has the path, the line and what to do.

    Examples
    --------
    >>> import os, tempfile
    >>> from gapmf.io import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "zoo.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("doc,word,n\nMonday,ape,2\nTuesday,bee,1\nMonday,bee,1\n")
    ...     counts, features, samples = read(path)
    >>> counts.toarray()
    array([[2, 1],
           [0, 1]])
    >>> print(features, samples)
    ['ape' 'bee'] ['Monday' 'Tuesday']
    """
    options = {name: value for name, value in locals().items() if name not in ("path", "format")}
    given = {name: value for name, value in options.items() if value is not None}
    where = os.fsdecode(path)
    os.stat(where)  # a missing file is the first thing to be told
    kind = find_format(where) if format is None else check_option(format, FORMATS, "format")
    unknown = [name for name in given if name not in FORMATS[kind].options]
    if unknown:
        known = ", ".join(FORMATS[kind].options)
        raise InvalidInputError(
            f"{where} is read as {kind!r}, which has no option {', '.join(unknown)}: it has {known}"
        )
    _check_types(given)
    if kind == "uci" and os.path.isdir(where):
        where = _docword_in(where)
    if kind == "tsv":
        given.setdefault("delimiter", "\t")
    return FORMATS[kind].reader(where, **given)


def find_format(path: str) -> str:
    """The format of a file, by its name, or of a folder, by what is in it."""
    if os.path.isdir(path):
        if matrices_in(path):
            return "mtx"
        if _docwords_in(path):
            return "uci"
        if documents_in(path):
            return "text"
        raise ReadError(
            f"{path} is a folder without .mtx (10x) or .txt files (documents): name a file"
        )
    name = os.path.basename(path).lower().removesuffix(".gz")
    if name.endswith(".txt"):
        if _DOCWORD.fullmatch(name) is not None or looks_like_uci(path):
            return "uci"
        refuse_tables(path)
        return "text"
    for kind, format_ in FORMATS.items():
        if name.endswith(format_.suffixes):
            return kind
    known = "; ".join(f"{kind!r}: {', '.join(f.suffixes)}" for kind, f in FORMATS.items())
    raise ReadError(
        f"{path}: the format cannot be told from the name; say format=, one of these ({known})"
    )


def _docwords_in(folder: str) -> list[str]:
    return sorted(name for name in os.listdir(folder) if _DOCWORD.fullmatch(name))


def _docword_in(folder: str) -> str:
    """The one UCI file of a folder."""
    found = _docwords_in(folder)
    if len(found) != 1:
        listed = ", ".join(found) or "none"
        raise ReadError(f"{folder} must have one docword.NAME.txt, but has {listed}: name the file")
    return os.path.join(folder, found[0])


def _check_types(given: dict[str, Any]) -> None:
    """Refuse options of the wrong type; those of CountVectorizer it checks itself."""
    if "layout" in given:
        check_option(given["layout"], ("dense", "triplets"), "layout")
    if "vocab" in given:
        given["vocab"] = os.fsdecode(given["vocab"])
    for name in ("transpose", "header", "sample_names"):
        if name in given and not isinstance(given[name], bool):
            raise InvalidInputError(f"{name} must be True or False, but is {given[name]!r}")
    if "layer" in given and not isinstance(given["layer"], str):
        raise InvalidInputError(f"layer must be the name of a layer, but is {given['layer']!r}")
    delimiter = given.get("delimiter", ",")
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise InvalidInputError(f"delimiter must be one character, but is {delimiter!r}")
