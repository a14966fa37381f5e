"""Parquet files: a row a sample, a column a feature; or a row an entry."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapmf.errors import InvalidInputError, ReadError
from gapmf.io.columns import find_triplets, says_ids
from gapmf.io.frames import NUMBER, TEXT, Frame, open_frame
from gapmf.io.parsing import LARGEST_SIDE, first_bad
from gapmf.io.source import check_expansion, check_regular
from gapmf.io.table import Entries, Labels, Table, as_names
from gapmf.validation import shorten

_BATCH_CELLS = 1 << 24  # columns are loaded together up to about this many cells
_PANDAS_INDEX = "__index_level_0__"  # where pandas keeps the index of a frame


def read_parquet(path: str, *, layout: str | None = None, transpose: bool = False) -> Table:
    """Read a Parquet file by pyarrow or, if that is not installed, by polars.

    Dense: a row is a sample, a column of numbers a feature; a column of text, of which there is
    one at most, has the names of the samples, and so has the index that pandas stores.
    Triplets: three columns with the same names as in .csv, one row an entry.

    Parameters
    ----------
    path : str
    layout : {"dense", "triplets"}, optional
        By default found by the names of the columns.
    transpose : bool
        Whether the rows of a dense table are features, and its columns samples.

    Examples
    --------
    >>> import os, polars, tempfile
    >>> from gapmf.io.parquet import read_parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "zoo.parquet")
    ...     frame = polars.DataFrame({"day": ["Mo", "Tu"], "ape": [0, 1], "bee": [2, 0]})
    ...     frame.write_parquet(path)
    ...     read_parquet(path)
    Table of 2 samples × 2 features, 2 counts above 0; features have names, samples have names
    """
    size = check_regular(path)
    frame = open_frame(path)
    if frame.n_rows > LARGEST_SIDE:
        raise ReadError(f"{path} has {frame.n_rows} rows: {LARGEST_SIDE} is the most")
    check_expansion(path, 8 * frame.n_rows, size)
    order = find_triplets(frame.names)
    if layout == "triplets" or (layout is None and order is not None):
        if transpose:
            raise InvalidInputError("transpose is for dense tables, and these are triplets")
        if len(frame.names) != 3:
            raise ReadError(f"{path} has {len(frame.names)} columns: triplets have three")
        return _read_triplets(path, frame, order or (0, 1, 2))
    return _read_dense(path, frame, size, transpose)


def _read_triplets(path: str, frame: Frame, order: tuple[int, int, int]) -> Table:
    sample, feature, count = (frame.names[place] for place in order)
    loaded = frame.load([sample, feature, count])
    places, labels = [], []
    for name in (sample, feature):
        labels.append(Labels())
        numbered = map(labels[-1].__getitem__, _texts(path, frame, loaded, name))
        places.append(np.fromiter(numbered, dtype=np.int64, count=frame.n_rows))
    entries = Entries()
    entries.add(places[0], places[1], _counts(path, frame, loaded, count))
    samples, features = (part.names() for part in labels)
    return Table(entries.to_counts(path, (len(samples), len(features))), features, samples)


def _read_dense(path: str, frame: Frame, size: int, transpose: bool) -> Table:
    texts = [name for name in frame.names if frame.kind(name) == TEXT or name == _PANDAS_INDEX]
    if not texts and _has_ids(frame):
        texts = frame.names[:1]
    if len(texts) > 1:
        listed = ", ".join(map(repr, texts))
        raise ReadError(
            f"{path} has {len(texts)} columns of names, {shorten(listed)}: leave one, the names of "
            "the samples, and drop the others; if the columns are sample, feature and count, say "
            "layout='triplets'"
        )
    features = [name for name in frame.names if name not in texts]
    if not features:
        raise ReadError(f"{path} has no column of counts")
    samples = None
    if texts:
        samples = as_names(_texts(path, frame, frame.load(texts), texts[0]))
    entries = Entries()
    step = max(1, _BATCH_CELLS // max(1, frame.n_rows))
    for start in range(0, len(features), step):
        names = features[start : start + step]
        loaded = frame.load(names)
        for f, name in enumerate(names, start):
            values = _counts(path, frame, loaded, name)
            rows = np.flatnonzero(values)
            entries.add(rows, np.full(rows.size, f), values[rows])
        check_expansion(path, 16 * entries.size, size)
    shape, titles = (frame.n_rows, len(features)), as_names(features)
    if not transpose:
        return Table(entries.to_counts(path, shape), titles, samples)
    entries.transpose()
    return Table(entries.to_counts(path, shape[::-1]), samples, titles)


def _has_ids(frame: Frame) -> bool:
    """Whether the first column is called as ids are, and has no number twice."""
    name = frame.names[0]
    if not says_ids(name) or frame.kind(name) != NUMBER or frame.n_rows < 2:
        return False
    values = frame.array(frame.load([name]), name)
    return bool(np.unique(values).size == frame.n_rows)


def _check_column(path: str, frame: Frame, loaded: Any, name: str, n_found: int) -> None:
    """Refuse a column in which something is missing."""
    if n_found != frame.n_rows:
        raise ReadError(
            f"{path} is damaged: column {name!r} has {n_found} of {frame.n_rows} rows: save or "
            "copy it again"
        )
    row = frame.first_missing(loaded, name)
    if row is not None:
        raise ReadError(
            f"{path}: column {name!r} has no value in row {row} (from 0): fill or drop missing "
            "values first"
        )


def _texts(path: str, frame: Frame, loaded: Any, name: str) -> list[str]:
    """A column of names."""
    texts = frame.texts(loaded, name)
    _check_column(path, frame, loaded, name, len(texts))
    return texts


def _counts(path: str, frame: Frame, loaded: Any, name: str) -> NDArray[np.int64]:
    """A column of counts; the first value that is none is refused."""
    if frame.kind(name) != NUMBER:
        raise ReadError(
            f"{path}: column {name!r} is of type {frame.dtype(name)}: expected whole numbers; "
            "convert or drop it"
        )
    values = frame.array(loaded, name)
    _check_column(path, frame, loaded, name, values.size)
    at = None if values.dtype.kind == "b" else first_bad(values)
    if at is not None:
        raise ReadError(
            f"{path}: column {name!r} has {values[at].item()} in row {at} (from 0): expected a "
            "whole number from 0 to 2**53; pass raw counts"
        )
    return values.astype(np.int64)
