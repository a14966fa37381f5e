"""Lines of (row, column, count), numbered from 1: the body of UCI and MatrixMarket files."""

from __future__ import annotations

from typing import NamedTuple

from gapmf.counts import LARGEST_COUNT
from gapmf.errors import ReadError
from gapmf.io.parsing import CountReader, Numbers, first, parse_lines
from gapmf.io.source import Source
from gapmf.io.table import Entries


class Promise(NamedTuple):
    """What the header of a file says of its body."""

    n_rows: int
    n_columns: int
    n_entries: int
    row: str  # what a row is called in errors
    column: str
    has_counts: bool = True  # else a line is a row and a column, and the count is 1
    lower: bool = False  # whether entries stand for their mirror image, too

    @property
    def width(self) -> int:
        """How many numbers a line has."""
        return 3 if self.has_counts else 2

    @property
    def expected(self) -> str:
        """What a line should be."""
        words = [self.row, self.column, "count"][: self.width]
        return f"'{' '.join(words)}', {self.width} whole numbers"


def read_triplets(source: Source, promise: Promise) -> Entries:
    """What is left of a file: exactly the entries that its header promised."""
    entries, reader, n_seen = Entries(), CountReader(), 0
    for block in source.blocks():
        numbers, lines = parse_lines(
            source,
            block,
            promise.width,
            promise.expected,
            reader if promise.has_counts else None,
        )
        left = promise.n_entries - n_seen
        if len(numbers) > left:
            source.fail(
                int(lines[left]),
                f"is entry {promise.n_entries + 1}, but the header promised {promise.n_entries}: "
                "is the header right, or is another file attached?",
            )
        _check_places(source, numbers, lines, promise)
        n_seen += len(numbers)
        _add(entries, numbers, promise)
    if n_seen < promise.n_entries:
        raise ReadError(
            f"{source.path} ends after line {source.line} with {n_seen} of the "
            f"{promise.n_entries} entries that its header promised: is it cut short?"
        )
    return entries


def _check_places(source: Source, numbers: Numbers, lines: Numbers, promise: Promise) -> None:
    """Refuse the first line with a row, a column or a count that cannot be."""
    bad = (numbers[:, :2] < 1).any(axis=1)
    bad |= (numbers[:, 0] > promise.n_rows) | (numbers[:, 1] > promise.n_columns)
    if promise.has_counts:
        bad |= numbers[:, 2] > LARGEST_COUNT
    if promise.lower:
        bad |= numbers[:, 0] < numbers[:, 1]
    at = first(bad)
    if at is None:
        return
    line, (i, j) = int(lines[at]), numbers[at, :2].tolist()
    for place, size, name in (
        (i, promise.n_rows, promise.row),
        (j, promise.n_columns, promise.column),
    ):
        if not 1 <= place <= size:
            source.fail(
                line, f"{name} is {place}, but the header says that it goes from 1 to {size}"
            )
    if promise.has_counts and numbers[at, 2] > LARGEST_COUNT:
        source.fail(
            line,
            f"count is {numbers[at, 2]}: expected a whole number from 0 to 2**53, "
            "as larger ones are not exact in float64",
        )
    source.fail(
        line,
        f"{promise.row} {i} and {promise.column} {j} are above the diagonal, but a symmetric "
        "file lists only what is on or below it",
    )


def _add(entries: Entries, numbers: Numbers, promise: Promise) -> None:
    rows, columns = numbers[:, 0] - 1, numbers[:, 1] - 1
    counts = numbers[:, 2] if promise.has_counts else rows * 0 + 1
    entries.add(rows, columns, counts)
    if promise.lower:
        off = rows != columns
        entries.add(columns[off], rows[off], counts[off])
