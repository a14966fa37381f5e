"""Numbers from text: thousands of lines at once where they are plain, else one by one.

The slow way defines what is right and finds the line that is not; the fast way takes only
blocks of digits and blanks, on which both agree.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapmf.counts import LARGEST_COUNT
from gapmf.io.source import Source
from gapmf.validation import shorten

Numbers = NDArray[np.int64]

LARGEST_SIDE = 2**31 - 1  # of a matrix: what the indices of a sparse one can count to
_MOST_DIGITS = 18  # always within an int64
_MOST_REMEMBERED = 100_000
_LONGEST = 400  # characters of a number
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "?"}
_INFINITE = {"inf", "infinity"}


class NotACountError(ValueError):
    """A text that is no count; the message says why, and what to do."""


def parse_count(text: str) -> int:
    """The count that a text stands for: 3, but also 3.0, +3 and 3e0.

    >>> parse_count("12"), parse_count("2.50e1")
    (12, 25)
    """
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    shown = f"expected a whole number from 0 to 2**53, but found {shorten(text)}"
    if not _is_number(text):
        if _is_missing(text):
            raise NotACountError(f"{shown}: fill or drop missing values first")
        if _is_infinite(text):
            raise NotACountError(f"{shown}: replace or drop infinite values first")
        raise NotACountError(f"{shown}, which is not a number")
    number = Decimal(text)
    if number < 0:
        raise NotACountError(f"{shown}: pass raw counts, before centring or scaling")
    if number > LARGEST_COUNT:
        raise NotACountError(f"{shown}: larger ones are not exact in float64")
    if number != int(number):
        raise NotACountError(f"{shown}: pass raw counts, not normalised or transformed values")
    return int(number)


def fault(text: str) -> str | None:
    """What keeps a text from being a count."""
    try:
        parse_count(text)
    except NotACountError as error:
        return str(error)
    return None


def looks_like_number(text: str) -> bool:
    """Whether a cell stands for a number, be it a count or not, or for a missing one."""
    text = text.strip()
    return _is_number(text) or _is_missing(text) or _is_infinite(text)


def _is_number(text: str) -> bool:
    return len(text) <= _LONGEST and _NUMBER.fullmatch(text) is not None


def _is_missing(text: str) -> bool:
    return text.lower() in _MISSING


def _is_infinite(text: str) -> bool:
    return text.lower().lstrip("+-") in _INFINITE


class CountReader(dict[str, int]):
    """Counts by their text: a table of counts says the same few numbers again and again."""

    def __missing__(self, text: str) -> int:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        self[text] = count = parse_count(text)
        return count


def parse_lines(
    source: Source, block: bytes, width: int, expected: str, counts: CountReader | None
) -> tuple[Numbers, Numbers]:
    """The numbers of a block of lines.

    Parameters
    ----------
    source : Source
        At this block: errors name its path and line.
    block : bytes
        Whole lines, each with `width` whole numbers, or blank.
    width : int
    expected : str
        What a line should be, for errors.
    counts : CountReader, optional
        When given, the last number of a line may be written in any way that `parse_count` knows.

    Returns
    -------
    numbers : int64 array, (n, width)
        The lines that are not blank.
    lines : int64 array, (n,)
        Their numbers in the file.
    """
    plain = _plain(block, width)
    if plain is not None:
        return plain[0], plain[1] + source.line + 1
    rows: list[list[int]] = []
    numbers: list[int] = []
    for number, line in enumerate(block.split(b"\n"), source.line + 1):
        parts = line.decode("latin-1").split()
        if not parts:
            continue
        if len(parts) != width:
            source.fail(number, f"expected {expected}, but found {shorten(line)}")
        try:
            last = [counts[parts.pop()]] if counts is not None else []
        except NotACountError as error:
            source.fail(number, str(error))
        if not all(_is_whole(part) for part in parts):
            source.fail(number, f"expected {expected}, but found {shorten(line)}")
        rows.append([*map(int, parts), *last])
        numbers.append(number)
    return np.array(rows, dtype=np.int64).reshape(-1, width), np.array(numbers, dtype=np.int64)


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _plain(block: bytes, width: int) -> tuple[Numbers, Numbers] | None:
    """The numbers of a block that is all digits and blanks, and the places of their lines."""
    text = np.frombuffer(block, dtype=np.uint8)
    digit = text - np.uint8(48)  # everything but a digit wraps round to 10 or more
    is_digit = digit <= 9
    is_end = text == 10
    blank = (text == 32) | is_end | (text == 9) | (text == 13)
    if not (is_digit | blank).all():
        return None
    padded = np.zeros(text.size + 2, dtype=bool)
    padded[1:-1] = is_digit
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    starts, ends = edges[0::2], edges[1::2]
    before = np.append(np.searchsorted(starts, np.flatnonzero(is_end)), starts.size)
    per_line = np.diff(before, prepend=0)
    filled = np.flatnonzero(per_line)
    if (per_line[filled] != width).any():
        return None
    lengths = ends - starts
    longest = int(lengths.max(initial=0))
    if longest > _MOST_DIGITS:
        return None
    values = digit[ends - 1].astype(np.int64)
    for k in range(1, longest):
        longer = np.flatnonzero(lengths > k)
        values[longer] += digit[ends[longer] - 1 - k] * np.int64(10) ** k
    return values.reshape(-1, width), filled


def first(condition: NDArray[Any]) -> int | None:
    """The place of the first true one."""
    return int(condition.argmax()) if condition.any() else None


def first_bad(values: NDArray[Any]) -> int | None:
    """The place of the first number that is not a count: negative, fractional, NaN, too large."""
    if values.dtype == np.float16:
        values = values.astype(np.float32)  # where the limit is finite
    with np.errstate(invalid="ignore"):  # NaN compares false: that is what is wanted
        good = (values >= 0) & (values <= LARGEST_COUNT)
        if values.dtype.kind == "f":
            good &= values == np.floor(values)
    return first(~good)
