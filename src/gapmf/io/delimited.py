"""Tables of text, .csv and .tsv: a row a sample, or a row an entry."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain

import numpy as np

from gapmf.errors import InvalidInputError, ReadError
from gapmf.io.columns import find_triplets
from gapmf.io.dense import Grid, Head, Row
from gapmf.io.parsing import CountReader, NotACountError, looks_like_number
from gapmf.io.source import Source, check_encoding
from gapmf.io.table import Entries, Labels, Table
from gapmf.validation import shorten

_BATCH_ROWS = 1 << 16


def read_delimited(
    path: str,
    *,
    delimiter: str = ",",
    layout: str | None = None,
    header: bool | None = None,
    sample_names: bool | None = None,
    transpose: bool = False,
    encoding: str | None = None,
) -> Table:
    r"""Read a table of text: dense, a sample a row, or triplets, an entry a row.

    Dense: the first row has the names of the features. The first column has the names of the
    samples if the first row has nothing above it, or no cell for it (as R writes), if nothing
    that is in it is a number, or if they are all different and called ``id``, ``doc_id``, ….

    Triplets: three columns, in any order, whose names are ``sample``, ``feature`` and ``count``,
    or others that `gapmf.io.columns` lists (``doc``, ``word``, ``n``, …). Samples and features are
    numbered in the order in which they first appear; entries of the same place are added up.

    Parameters
    ----------
    path : str
    delimiter : str
        What stands between cells; a tab in .tsv.
    layout : {"dense", "triplets"}, optional
        By default found by the names of the columns. Columns of "triplets" with other names
        are taken in the order sample, feature, count.
    header : bool, optional
        Whether the first row has names. It must be said when these are numbers.
    sample_names : bool, optional
        Whether the first column of a dense table has the names of the samples.
    transpose : bool
        Whether the rows of a dense table are features, and its columns samples.
    encoding : str, optional
        UTF-8 by default.

    Examples
    --------
    >>> import os, tempfile
    >>> from gapmf.io.delimited import read_delimited
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "zoo.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("day,ape,bee\nMonday,0,2\nTuesday,1,0\n")
    ...     counts, features, samples = read_delimited(path)
    >>> counts.toarray()
    array([[0, 2],
           [1, 0]])
    >>> print(features, samples)
    ['ape' 'bee'] ['Monday' 'Tuesday']
    """
    with Source(path) as source:
        rows = _rows(source, check_encoding(encoding), delimiter)
        top = next(rows, None)
        if top is None:
            raise ReadError(f"{path} is empty: expected a row of names, then rows of counts")
        order = None if header is False else find_triplets(top[1])
        if layout == "triplets" or (layout is None and order is not None):
            if transpose or sample_names is not None:
                raise InvalidInputError(
                    "transpose and sample_names are for dense tables: triplets have a column for "
                    "samples and one for features"
                )
            return _read_triplets(source, top, rows, order, header)
        _check_delimiter(source, top, delimiter)
        below = next(rows, None)
        head = Head.find(source, top, below, header, sample_names)
        grid = Grid(source, head)
        for line, cells in chain([top] if header is False else [], [below] if below else [], rows):
            grid.add(line, cells)
        return grid.table(transpose)


def _rows(source: Source, encoding: str, delimiter: str) -> Iterator[Row]:
    """The rows that are not blank."""
    texts = (f"{text}\n" for _, text in source.texts(encoding))
    reader = csv.reader(texts, delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            source.fail(max(line, reader.line_num), f"is not a row of cells ({error})")
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield line, cells


def _check_delimiter(source: Source, top: Row, delimiter: str) -> None:
    """Refuse a table that has one column because its cells are parted by something else."""
    line, cells = top
    for other in ("\t", ";", ",", "|"):
        if len(cells) == 1 and other in cells[0]:
            source.fail(
                line,
                f"has a single cell, {shorten(cells[0])}: if {other!r} stands between the cells, "
                f"say delimiter={other!r}, else put the cell between quotes or drop the character",
            )


def _read_triplets(
    source: Source,
    top: Row,
    rows: Iterator[Row],
    order: tuple[int, int, int] | None,
    header: bool | None,
) -> Table:
    """An entry a row."""
    line, cells = top
    if len(cells) != 3:
        source.fail(line, f"expected three cells, sample, feature and count, not {len(cells)}")
    if header is None and order is None and looks_like_number(cells[2]):
        source.fail(
            line,
            f"{shorten(cells)} may be names or an entry: say header=True or header=False",
        )
    if header is False:
        rows = chain([top], rows)
    places = order or (0, 1, 2)
    samples, features, entries, reader = Labels(), Labels(), Entries(), CountReader()
    batch: list[tuple[int, int, int]] = []
    for line, cells in rows:
        if len(cells) != 3:
            source.fail(line, f"expected three cells, but found {len(cells)}: {shorten(cells)}")
        sample, feature, count = (cells[place] for place in places)
        if not sample.strip() or not feature.strip():
            source.fail(line, f"has no {'feature' if sample.strip() else 'sample'}: {cells}")
        try:
            batch.append((samples[sample], features[feature], reader[count]))
        except NotACountError as error:
            source.fail(line, f"count: {error}")
        if len(batch) == _BATCH_ROWS:
            entries.add(*np.array(batch).T)
            batch = []
    if batch:
        entries.add(*np.array(batch).T)
    counts = entries.to_counts(source.path, (len(samples), len(features)))
    return Table(counts, features.names(), samples.names())
