"""What follows the header of a MatrixMarket file: entries, or every value of a dense array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gapmf.counts import LARGEST_COUNT
from gapmf.errors import ReadError
from gapmf.io.parsing import CountReader, Numbers, first, parse_lines
from gapmf.io.source import Source
from gapmf.io.table import Entries
from gapmf.io.triplets import Promise, read_triplets


class Header(NamedTuple):
    """What the header of a MatrixMarket file says."""

    dense: bool
    pattern: bool
    symmetric: bool
    n_rows: int
    n_columns: int
    n_entries: int


def read_sparse(source: Source, header: Header) -> Entries:
    """The entries: places and, but for a pattern, counts."""
    promise = Promise(
        header.n_rows,
        header.n_columns,
        header.n_entries,
        "row",
        "column",
        has_counts=not header.pattern,
        lower=header.symmetric,
    )
    return read_triplets(source, promise)


def read_dense(source: Source, header: Header) -> Entries:
    """The values column by column, a line each; of a symmetric matrix, from the diagonal down."""
    entries, reader, n_seen = Entries(), CountReader(), 0
    places = _Columns(header)
    for block in source.blocks():
        numbers, lines = parse_lines(source, block, 1, "a count, alone on the line", reader)
        values = numbers[:, 0]
        left = header.n_entries - n_seen
        if values.size > left:
            source.fail(
                int(lines[left]),
                f"is value {header.n_entries + 1}, but a matrix of {header.n_rows} × "
                f"{header.n_columns} has {header.n_entries}",
            )
        at = first(values > LARGEST_COUNT)
        if at is not None:
            source.fail(int(lines[at]), f"count is {values[at]}: expected one from 0 to 2**53")
        n_seen += values.size
        for rows, columns, part in places.take(values):
            entries.add(rows, columns, part)
            if header.symmetric:
                off = rows != columns
                entries.add(columns[off], rows[off], part[off])
    if n_seen < header.n_entries:
        raise ReadError(
            f"{source.path} ends after line {source.line} with {n_seen} of the {header.n_entries} "
            f"values of a matrix of {header.n_rows} × {header.n_columns}: is it cut short?"
        )
    return entries


class _Columns:
    """Where the next value of a dense file belongs."""

    def __init__(self, header: Header) -> None:
        self.n_rows, self.symmetric = header.n_rows, header.symmetric
        self.row = self.column = 0

    def take(self, values: Numbers) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """The places of these values, in one piece or column by column."""
        if not self.symmetric:
            if values.size:
                at = self.column * self.n_rows + self.row + np.arange(values.size)
                yield at % self.n_rows, at // self.n_rows, values
                self.column, self.row = divmod(int(at[-1]) + 1, self.n_rows)
            return
        while values.size:
            part, values = np.split(values, [self.n_rows - self.row])
            rows = self.row + np.arange(part.size)
            yield rows, np.full(part.size, self.column), part
            self.row += part.size
            if self.row == self.n_rows:
                self.column += 1
                self.row = self.column
