"""Files of counts: `read` turns the usual formats into one `Table`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from gapmf.counts import is_frame
from gapmf.errors import GapmfError, InvalidInputError, ReadError
from gapmf.io import dataframes, documents, matrices, shards
from gapmf.io.table import Table, files_in
from gapmf.io.vocabulary import FILTERS, check_filters, filter_features
from gapmf.validation import check_option

__all__ = ["FORMATS", "Table", "find_format", "read"]

_MATRIX_OPTIONS = ("vocab", "transpose", "encoding")
_FRAME_OPTIONS = ("layout", "sample_names", "transpose", "leave_out")
_TABLE_OPTIONS = (*_FRAME_OPTIONS, "header", "delimiter", "encoding")
_TEXT_OPTIONS = ("vocab", "encoding", "lowercase", "token_pattern", "ngram_range", "max_features")


class Format(NamedTuple):
    """A kind of file: the ends of its names, what reads it, its options, its files in folders.

    Every kind has the options `FILTERS`, too.
    """

    suffixes: tuple[str, ...]
    reader: Callable[..., Table]
    options: tuple[str, ...]
    in_folders: str | None = None


FORMATS = {
    "mtx": Format((".mtx",), matrices.read_market, _MATRIX_OPTIONS, matrices.MATRIX),
    "uci": Format(("docword*.txt",), documents.read_uci, ("vocab", "encoding"), documents.DOCWORD),
    "text": Format((".txt",), documents.read_text, _TEXT_OPTIONS, documents.TEXT),
    "npz": Format((".npz",), matrices.read_npz, _MATRIX_OPTIONS),
    "csv": Format((".csv",), dataframes.read_delimited, _TABLE_OPTIONS),
    "tsv": Format((".tsv", ".tab"), dataframes.read_delimited, _TABLE_OPTIONS),
    "parquet": Format((".parquet", ".pq"), dataframes.read_parquet, _FRAME_OPTIONS),
    "h5ad": Format((".h5ad",), matrices.read_h5ad, ("layer",)),
    "shards": Format(("manifest.json",), shards.read_shards, (), r"manifest\.json"),
}


def read(
    path: Any,
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
    leave_out: str | None = None,
    stop_words: Any = None,
    min_df: float | None = None,
    max_df: float | None = None,
    **vectorizer: Any,
) -> Table:
    r"""Read counts, samples × features, with the names of both.

    The format is found from the name of the file. Text files may be compressed by gzip: those of
    the formats "uci", "mtx", "csv", "tsv" and "text".

    ==========  =========================  =========================================================
    format      file                       options
    ==========  =========================  =========================================================
    "uci"       docword.NAME.txt           vocab, encoding
    "mtx"       .mtx, or a 10x folder      vocab, transpose, encoding
    "npz"       .npz of scipy.sparse       vocab, transpose, encoding
    "csv"       .csv                       layout, sample_names, transpose, header, delimiter,
                                           encoding, leave_out
    "tsv"       .tsv, .tab                 as "csv"
    "parquet"   .parquet, .pq              layout, sample_names, transpose, leave_out
    "h5ad"      .h5ad                      layer
    "shards"    a folder of shards
    "text"      .txt, or a folder of them  vocab, encoding, lowercase, token_pattern, ngram_range,
                                           max_features
    ==========  =========================  =========================================================

    Every format that has names of features also has the options stop_words, min_df and max_df.

    Counts are whole numbers from 0 to 2**53; they may be written as 3.0. If a file lists the same
    sample and feature more than once, the counts are added up.

    Parameters
    ----------
    path : str, path-like, or pandas or polars DataFrame
        A file, a folder, or a data frame. A data frame has the options of "parquet"; triplets may
        have names in its index, as after ``groupby``. A folder is read as "mtx" if it has a .mtx
        file, as "uci" if it has a docword file, as "text" if it has other .txt files, and as
        "shards" if it has a ``manifest.json``: all shards are then loaded into memory. Use
        `open_shards` to leave them on disk. A .txt file with one number on each of its first three
        lines is read as "uci".
    format : str, default=None
        One of the formats above; by default found from the name of the file.
    vocab : str or path-like, default=None
        A file with the names of the features, one per line; by default ``vocab.NAME.txt`` beside
        ``docword.NAME.txt``. For "text", only the words in this file are counted.
    transpose : bool, default=None
        Whether the file is features × samples. By default, only a .mtx file with
        ``features.tsv``, ``genes.tsv`` or ``barcodes.tsv`` beside it is read as features ×
        samples. These files name its features and samples.
    layer : str, default=None
        The layer of an .h5ad that holds the raw counts; by default they are in `X`. If there is no
        layer called "raw", "raw" reads `adata.raw`.
    layout : {"dense", "triplets"}, default=None
        Whether a table has one row per sample ("dense") or one row per entry ("triplets"). By
        default, it has triplets if it has three columns, of which one is called sample, doc, user
        or cell, etc., and one feature, word, item or gene, etc. The third holds the counts; its
        name does not matter.
    header : bool, default=None
        Whether the first row of a table holds names. Set it if the names are numbers.
    sample_names : bool, default=None
        Whether the first column of a table holds the names of the samples. By default, it does
        if it has no name, if it holds no numbers, or if it is called id, doc, sample_name, index
        etc. and has no duplicates. If the index of a data frame is not 0, 1, …, it is used instead.
    delimiter : str, default=None
        The column separator of a table: by default a comma in .csv, a tab in .tsv.
    encoding : str, default=None
        By default UTF-8.
    leave_out : str, default=None
        The name of a column of a dense table that is not a feature, such as an exposure. Its
        values need not be counts.
    stop_words : "english", list of str, str or path-like, default=None
        Features to leave out: scikit-learn's list of English words, a list, or a file with one
        word per line.
    min_df, max_df : int or float, default=None
        Leave out features that occur in fewer than `min_df` or in more than `max_df` samples: a
        whole number of samples, or a share of them between 0.0 and 1.0. Use these when you fit.
        The commands, `transform_anndata` and `compare_anndata` then match the features of other
        data by name. All other functions need the same columns in the same order.
    **vectorizer
        Other options of scikit-learn's CountVectorizer for "text": see the table.

    Returns
    -------
    Table
        `counts` (csr_array of int64, N × F), `feature_names` and `sample_names` (arrays of str,
        or None). It unpacks as these three.

    Raises
    ------
    ReadError
        If the file cannot be read as counts. The message names the path and the place, and says
        what to do.

    See Also
    --------
    fit_anndata : Fit to an AnnData that is in memory.

    Examples
    --------
    >>> import pandas as pd
    >>> from gapmf import read
    >>> rows = [("Monday", "ape", 2), ("Tuesday", "bee", 1), ("Monday", "bee", 1)]
    >>> counts, features, samples = read(pd.DataFrame(rows, columns=["doc", "word", "n"]))
    >>> counts.toarray()
    array([[2, 1],
           [0, 1]])
    >>> print(features, samples)
    ['ape' 'bee'] ['Monday' 'Tuesday']
    """
    options = {
        "vocab": vocab, "transpose": transpose, "layer": layer, "layout": layout,
        "header": header, "sample_names": sample_names, "delimiter": delimiter,
        "encoding": encoding, "leave_out": leave_out, "stop_words": stop_words, "min_df": min_df,
        "max_df": max_df, **vectorizer,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    if type(path).__name__ == "Series" and hasattr(path, "reset_index"):  # as groupby makes them
        path = path.to_frame("count" if path.name is None else path.name)
    if is_frame(path):
        if format is not None:
            raise InvalidInputError("a data frame has no format: leave the option `format` out")
        where = "the data frame"
        _check_options(given, where, "a frame", _FRAME_OPTIONS)
        filters = _take_filters(given)
        return _filtered(dataframes.read_frame(path, where, **given), where, filters)
    where = os.fsdecode(path)
    os.stat(where)  # that a file is missing comes before anything else
    if not os.path.isfile(where) and not os.path.isdir(where):  # opening a pipe may wait forever
        raise ReadError(f"{where} is a device or a pipe: name a file or a folder")
    try:
        kind = find_format(where) if format is None else check_option(format, FORMATS, "format")
        _check_options(given, where, repr(kind), FORMATS[kind].options)
        if kind == "tsv":
            given.setdefault("delimiter", "\t")
        filters = _take_filters(given)
        if kind == "text" and vocab is None:  # n-grams are made, and `max_features` chosen, after
            return documents.read_text(where, **given, **filters)
        return _filtered(FORMATS[kind].reader(where, **given), where, filters)
    except (GapmfError, ImportError, FileNotFoundError, PermissionError, Warning):
        raise
    except Exception as error:  # on damaged files HDF5, Arrow, zlib, SciPy, … raise many kinds
        words = str(error).strip().partition("\n")[0][:200]
        raise ReadError(
            f"{where} cannot be read ({type(error).__name__}: {words}): is it complete, and of "
            "this `format`?"
        ) from error


def find_format(path: str) -> str:
    """Find the format of a file from its name, or of a folder from what is in it."""
    if os.path.isdir(path):
        for kind, form in FORMATS.items():
            if form.in_folders is not None and files_in(path, form.in_folders):
                return kind
        raise ReadError(f"{path} is a folder without .mtx or .txt files: name a file")
    name = os.path.basename(path).lower().removesuffix(".gz")
    if name.endswith(".txt"):
        if name.startswith("docword") or documents.looks_like_uci(path):
            return "uci"
        documents.refuse_tables(path)
    for kind, form in FORMATS.items():
        if name.endswith(form.suffixes):
            return kind
    known = "; ".join(f"{kind}: {', '.join(form.suffixes)}" for kind, form in FORMATS.items())
    raise ReadError(f"{path}: the name does not tell the format; set the option `format` ({known})")


def _take_filters(given: dict[str, Any]) -> dict[str, Any]:
    """Remove the filters from the options, and return them checked."""
    filters = check_filters(given, given.get("encoding", "utf-8"))
    for name in filters:
        del given[name]
    return filters


def _filtered(table: Table, where: str, filters: dict[str, Any]) -> Table:
    return filter_features(table, where, **filters) if filters else table


def _check_options(given: dict[str, Any], where: str, kind: str, known: tuple[str, ...]) -> None:
    """Refuse options of another format; the libraries check most of their values."""
    known = (*known, *FILTERS)
    unknown = ", ".join(name for name in given if name not in known)
    if unknown:
        raise InvalidInputError(
            f"{where} is read as {kind}, which has no option {unknown}: it has {', '.join(known)}"
        )
    check_option(given.get("layout", "dense"), ("dense", "triplets"), "layout")
    for name in {"transpose", "header", "sample_names"} & given.keys():
        if not isinstance(given[name], bool):
            raise InvalidInputError(f"{name} must be True or False, but is {given[name]!r}")
