"""Dense tables of text: where their names are, and their rows."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import numpy as np

from gapmf.errors import InvalidInputError, ReadError
from gapmf.io.columns import says_ids
from gapmf.io.parsing import CountReader, NotACountError, fault, looks_like_number
from gapmf.io.source import Source
from gapmf.io.table import Entries, Table, as_names
from gapmf.validation import shorten

Row = tuple[int, list[str]]  # the number of its line, and its cells
_BATCH_CELLS = 1 << 16


class Head(NamedTuple):
    """How a dense table begins."""

    titles: list[str] | None
    """The first row, a cell a column; None if it is not one of names."""
    width: int
    """The number of columns, that of names included."""
    named: bool | None
    """Whether the first column has names; None if its entries will tell."""

    @classmethod
    def find(
        cls,
        source: Source,
        top: Row,
        below: Row | None,
        header: bool | None,
        sample_names: bool | None,
    ) -> Head:
        """From the first two rows, and from what the caller says."""
        line, titles = top
        width = len(titles)
        if header is False:
            return cls(None, width, sample_names)
        cornered = width > 1 and not titles[0].strip()
        narrow = below is not None and len(below[1]) == width + 1  # R leaves the corner out
        certain = header is True or cornered or narrow
        if not certain and all(map(looks_like_number, titles[1:] or titles)):
            source.fail(
                line,
                f"has numbers, {shorten(titles)}, where names of columns were expected: say "
                "header=True if they are names, header=False if they are counts",
            )
        if narrow:
            if sample_names is False:
                raise InvalidInputError(
                    f"{source.path} has one name less than columns, so its first column has names: "
                    "leave sample_names=False out"
                )
            return cls(["", *titles], width + 1, True)
        return cls(titles, width, True if cornered and sample_names is None else sample_names)


class Grid:
    """A dense table as its rows come."""

    def __init__(self, source: Source, head: Head) -> None:
        self.source, self.head, self.named = source, head, head.named
        self.n_rows = 0
        self._entries, self._reader = Entries(), CountReader()
        self._leading: list[str] = []  # the first column, unless it has counts for certain
        self._lines: list[int] = []  # of the rows, as long as it may have counts
        self._first_text: Row | None = None  # that told that it has names
        self._some_numbers = False
        self._batch: list[list[int]] = []

    def add(self, line: int, cells: list[str]) -> None:
        """Take a row."""
        if len(cells) != self.head.width:
            self.source.fail(
                line, f"expected {self.head.width} cells, as in the rows above, not {len(cells)}"
            )
        if self.head.named is None:
            self._look_at_first(line, cells)
        if self.named is not False:
            self._leading.append(cells[0])
            cells = cells[1:]
        try:
            self._batch.append([*map(self._reader.__getitem__, cells)])
        except NotACountError:
            self._refuse(line, cells, self.head.width - len(cells))
        self.n_rows += 1
        if len(self._batch) * self.head.width >= _BATCH_CELLS:
            self._flush()

    def _look_at_first(self, line: int, cells: list[str]) -> None:
        """See whether the first column has names: it has if something in it is no number."""
        if looks_like_number(cells[0]):
            self._some_numbers = True
        elif self.named is None:
            self.named, self._first_text = True, (line, cells)
        if self.named is None:
            self._lines.append(line)

    def _settle_first(self) -> None:
        """Refuse a first column that may be either; numbers in it are ids if its title says so."""
        titles = self.head.titles
        ids = titles is not None and (not titles[0].strip() or says_ids(titles[0]))
        if self._first_text is not None and self._some_numbers and titles is not None and not ids:
            line, cells = self._first_text
            self.source.fail(
                line,
                f"column 1 ({shorten(titles[0])}) has {shorten(cells[0])}, and numbers elsewhere: "
                "mend the cell if these are counts, or say sample_names=True if they are names",
            )
        if self.named is None and ids and len(set(self._leading)) == len(self._leading) > 1:
            self.named = True

    def table(self, transpose: bool) -> Table:
        """The table of all rows so far."""
        self._flush()
        if self.head.named is None:
            self._settle_first()
        if not self.named and self._leading:  # all of them are numbers
            self._add_leading()
        titles = self.head.titles
        width = self.head.width
        samples = None
        if self.named:
            samples, width = as_names(self._leading), width - 1
            titles = None if titles is None else titles[1:]
        if not width:
            raise ReadError(
                f"{self.source.path} has a single column, of names: expected columns of counts, "
                "with a comma between them in .csv, a tab in .tsv, or what delimiter= says"
            )
        features = None if titles is None else as_names(titles)
        shape = (self.n_rows, width)
        if transpose:
            self._entries.transpose()
            features, samples, shape = samples, features, shape[::-1]
        return Table(self._entries.to_counts(self.source.path, shape), features, samples)

    def _flush(self) -> None:
        """Keep the counts of the last rows that are not 0.

        While it is open whether the first column has names, the second is taken as the first
        one of counts.
        """
        if not self._batch:
            return
        values = np.array(self._batch, dtype=np.int64).reshape(len(self._batch), -1)
        rows, columns = np.nonzero(values)
        start = self.n_rows - len(self._batch)
        self._entries.add(rows + start, columns, values[rows, columns])
        self._batch = []

    def _add_leading(self) -> None:
        """Move all columns by one, and put the first before them."""
        self._entries.shift_columns(1)
        values = np.empty(len(self._leading), dtype=np.int64)
        for n, cell in enumerate(self._leading):
            try:
                values[n] = self._reader[cell]
            except NotACountError:
                self._refuse(self._lines[n], [cell], 0)
        self._entries.add(np.arange(values.size), np.zeros(values.size, dtype=np.int64), values)

    def _refuse(self, line: int, cells: list[str], start: int) -> NoReturn:
        """Raise at the first of these cells, from column `start` on, that is no count."""
        faults = ((place, fault(cell)) for place, cell in enumerate(cells, start))
        place, what = next((place, what) for place, what in faults if what is not None)
        title = "" if self.head.titles is None else f" ({shorten(self.head.titles[place])})"
        triplets = "; if the columns are sample, feature and count, say layout='triplets'"
        hint = triplets if self.head.width == 3 else ""
        self.source.fail(line, f"column {place + 1}{title}: {what}{hint}")
