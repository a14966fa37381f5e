"""Numbers from text: the fast way and the slow way agree, and both say where a line is wrong."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapmf.errors import ReadError
from gapmf.io import parsing
from gapmf.io.parsing import (
    CountReader,
    NotACountError,
    fault,
    first_bad,
    looks_like_number,
    parse_count,
    parse_lines,
)
from gapmf.io.source import Source
from io_files import put


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    with Source(str(put(tmp_path_factory.mktemp("parsing") / "file", b""))) as source:
        yield source


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("007", 7),
        (" 3 ", 3),
        ("+3", 3),
        ("-0", 0),
        ("3.0", 3),
        ("3.", 3),
        ("2.50e1", 25),
        ("5E2", 500),
        ("1.0000000000000000e+00", 1),
        ("9007199254740992", 2**53),
        ("9007199254740992.000", 2**53),
        ("0e9999", 0),
    ],
)
def test_counts(text, count):
    assert parse_count(text) == count
    assert type(parse_count(text)) is int
    assert fault(text) is None


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("-1", "'-1': pass raw counts, before centring"),
        ("0.5", "'0.5': pass raw counts, not normalised"),
        ("1e-9999", "not normalised"),
        ("9007199254740993", "not exact in float64"),
        ("9007199254740992.5", "not exact in float64"),
        ("1e9999", "not exact in float64"),
        ("", "'': fill or drop missing"),
        ("NaN", "fill or drop missing"),
        ("NA", "fill or drop missing"),
        ("-inf", "infinite"),
        ("1_000", "'1_000', which is not a number"),
        ("0x1F", "not a number"),
        ("١", "not a number"),
        ("²", "not a number"),
        ("1e99999", "not a number"),
        ("1" * 5000, r"'11.*\.\.\., which is not a number"),
        ("ape", "'ape', which is not a number"),
    ],
)
def test_what_is_no_count(text, match):
    expected = rf"expected a whole number from 0 to 2\*\*53, but found .*{match}"
    with pytest.raises(NotACountError, match=expected):
        parse_count(text)
    assert fault(text)


def test_what_looks_like_a_number():
    assert all(map(looks_like_number, ["1", "-1.5", " 2e3", "", "NA", "nan", "Inf", "-inf", "?"]))
    assert not any(map(looks_like_number, ["a", "1a", "1_0", "0x1", "s1", "--", "1 2"]))


def test_long_texts_take_no_time():
    """A pattern that tries every way to part the digits would take hours."""
    for text in ("9" * 100_000 + "x", "9" * 399 + "x", "1." + "0" * 100_000 + "x", "-" * 100_000):
        assert not looks_like_number(text)
        assert fault(text)


def test_what_a_reader_remembers_has_an_end():
    reader = CountReader()
    with mock.patch.object(parsing, "_MOST_REMEMBERED", 3):
        assert [reader[str(i)] for i in range(7)] == list(range(7))
    assert len(reader) <= 3


def _slowly(source, block, width, counts):
    with mock.patch.object(parsing, "_plain", return_value=None):
        return parse_lines(source, block, width, "numbers", counts)


LINES = st.lists(
    st.lists(st.integers(0, 10**18 - 1) | st.integers(0, 99), min_size=2, max_size=2) | st.just([]),
    max_size=6,
)
BLANKS = st.sampled_from([" ", "\t", "  "])


@given(lines=LINES, blank=BLANKS, end=st.sampled_from(["\n", "\r\n"]), last=st.booleans())
def test_both_ways_agree(source, lines, blank, end, last):
    block = end.join(blank.join(map(str, line)) for line in lines) + (end if last else "")
    fast = parsing._plain(block.encode(), 2)
    assert fast is not None
    slow = _slowly(source, block.encode(), 2, None)
    np.testing.assert_array_equal(fast[0], slow[0])
    np.testing.assert_array_equal(fast[1] + 1, slow[1])
    assert fast[0].tolist() == [line for line in lines if line]
    assert slow[1].tolist() == [n for n, line in enumerate(lines, 1) if line]


@given(block=st.text("01 \t\r\n", max_size=12).map(str.encode))
def test_what_the_fast_way_takes_the_slow_one_does_too(source, block):
    fast = parsing._plain(block, 2)
    if fast is None:
        with pytest.raises(ReadError, match=r"line \d+: expected numbers, but found b"):
            _slowly(source, block, 2, None)
    else:
        np.testing.assert_array_equal(fast[0], _slowly(source, block, 2, None)[0])


@pytest.mark.parametrize(
    ("block", "match"),
    [
        (b"1 2\n1 2 3\n", "line 2: expected numbers, but found b'1 2 3'"),
        (b"1 2\n\n1\n", "line 3: expected numbers, but found b'1'"),
        (b"1 2\n\n-1 1\n", "line 3: expected numbers"),
        (b"1 2\n1 x\n", "line 2: expected a whole number.*'x', which is not a number"),
        (b"1 2\n1 \xff\n", "line 2: expected a whole number"),
        (b"1 2\n1234567890123456789 1\n", "line 2: expected numbers"),
        (b"1 2\n1.0 1\n", "line 2: expected numbers, but found b'1.0 1'"),
        (b"1 2\n1 0.5\n", "line 2: expected a whole number.*not normalised"),
    ],
)
def test_the_line_that_is_wrong(source, block, match):
    with pytest.raises(ReadError, match=match):
        parse_lines(source, block, 2, "numbers", CountReader())


def test_counts_at_the_end_of_a_line_may_be_written_in_any_way(source):
    numbers, lines = parse_lines(source, b"1 2.0\n\n2 1e1\n", 2, "numbers", CountReader())
    assert numbers.tolist() == [[1, 2], [2, 10]]
    assert lines.tolist() == [1, 3]


@pytest.mark.parametrize("dtype", ["u1", "i1", "i8", "u8", "f2", "f4", "f8", "g"])
def test_the_first_bad_value(dtype):
    assert first_bad(np.array([0, 1, 100], dtype=dtype)) is None
    assert first_bad(np.empty(0, dtype=dtype)) is None
    if dtype[0] != "u":
        assert first_bad(np.array([0, -1, -2], dtype=dtype)) == 1
    if dtype[0] in "fg":
        for bad in (0.5, np.nan, np.inf, -np.inf):
            assert first_bad(np.array([0, 2, bad], dtype=dtype)) == 2
    if dtype in ("i8", "u8"):
        assert first_bad(np.array([2**53, 2**53 + 1], dtype=dtype)) == 1
