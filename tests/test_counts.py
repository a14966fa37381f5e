"""Every kind of X that is accepted, every kind that is refused, and what is said then."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gapmf.counts import check_counts
from gapmf.errors import GapmfError, InvalidInputError

X = np.array([[0, 3, 1], [0, 0, 0], [2, 0, 7]])
SPARSE = [
    getattr(sp, f"{fmt}_{kind}")
    for fmt in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")
    for kind in ("array", "matrix")
]


def _same(counts, expected=X):
    assert isinstance(counts, sp.csr_array)
    assert counts.dtype == np.int64
    assert counts.has_canonical_format
    assert counts.data.all()
    np.testing.assert_array_equal(counts.toarray(), expected)
    return True


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "i8", "u8", "f2", "f4", "f8", "g", object])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_dtype_of_array(dtype, order):
    assert _same(check_counts(np.array(X, dtype=dtype, order=order)))


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_bools_lists_matrices_and_objects():
    assert _same(check_counts(X > 0), X > 0)
    assert _same(check_counts(X.tolist()))
    assert _same(check_counts(np.asmatrix(X)))
    assert _same(check_counts(np.ma.array(X)))
    mixed = [[0, 3.0, True], [Decimal(0), Fraction(0), np.int8(0)], [np.float32(2), 0, 7]]
    assert _same(check_counts(np.array(mixed, dtype=object)))


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("dtype", ["u1", "i8", "f4", "f8"])
def test_every_sparse_format(kind, dtype):
    assert _same(check_counts(kind(X.astype(dtype))))


def test_frames():
    assert _same(check_counts(pd.DataFrame(X)))
    assert _same(check_counts(pd.DataFrame(X, columns=list("abc")).astype("Int64")))
    assert _same(check_counts(pd.DataFrame(X).astype(pd.SparseDtype("int64", 0))))
    assert _same(check_counts(pd.DataFrame({0: X[:, 0], 1: X[:, 1] * 1.0, 2: X[:, 2]})))
    assert _same(check_counts(pl.DataFrame(X)))
    assert _same(check_counts(pl.DataFrame({"a": X[:, 0], "b": X[:, 1] * 1.0, "c": X[:, 2]})))


def test_sparse_stays_sparse():
    """A matrix whose dense form would take 8 TB."""
    wide = sp.csr_array(([3, 4], ([0, 999_999], [5, 999_999])), shape=(10**6, 10**6))
    counts = check_counts(wide)
    assert counts.nnz == 2
    assert counts.shape == (10**6, 10**6)
    frame = pd.DataFrame.sparse.from_spmatrix(sp.eye(2000, format="csr", dtype=np.int64) * 3)
    assert check_counts(frame).nnz == 2000


@pytest.mark.parametrize(
    "column",
    [
        pl.Series("d", ["2020-01-01"]).str.to_date(),
        pl.Series("d", [1]).cast(pl.Duration),
        pl.Series("d", [3600]).cast(pl.Time),
        pl.Series("d", [1]).cast(pl.Datetime),
        pl.Series("d", [[1]]),
        pl.Series("d", [None], dtype=pl.Int64),
    ],
)
def test_columns_of_other_kinds_are_not_counts(column):
    frame = pl.DataFrame({"a": [1]}).with_columns(column)
    with pytest.raises(InvalidInputError, match=r"X\[0, 1\] \(column 'd'\) is "):
        check_counts(frame)


def test_frames_keep_the_type_of_each_column():
    mixed = pd.DataFrame(
        {"a": pd.arrays.SparseArray([0, 2]), "b": pd.arrays.SparseArray([True] * 2)}
    )
    assert _same(check_counts(mixed), [[0, 1], [2, 1]])
    for make in (pd.DataFrame, pl.DataFrame):
        with pytest.raises(InvalidInputError, match=r"X\[0, 0\].*too large"):
            check_counts(make({"a": [2**53 + 1], "b": [0.5]}))


def test_bad_stored_entries_do_not_cancel():
    place = (np.zeros(2, int), np.zeros(2, int))
    for data in ([-5, 7], [0.5, 0.5], np.array([2**63] * 2, np.uint64), [2**62] * 2):
        with pytest.raises(InvalidInputError, match=r"X\[0, 0\] is"):
            check_counts(sp.coo_array((np.asarray(data), place), shape=(1, 1)))
    almost = np.array([[1], [1]], dtype=np.longdouble)
    almost[1] += np.longdouble(2) ** -60
    if almost[1] != 1:  # where a long double is longer than a double
        with pytest.raises(InvalidInputError, match="not whole"):
            check_counts(sp.csr_array(almost))


def test_duplicates_are_added_without_overflow_and_the_input_is_untouched():
    data = np.array([200, 200, 0], dtype=np.uint8)
    matrix = sp.csr_matrix((data, np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    assert _same(check_counts(matrix), [[0, 400]])
    assert matrix.data.tolist() == [200, 200, 0]
    assert matrix.indices.tolist() == [1, 1, 0]
    stored_zero = sp.csr_array((np.array([0, 5]), np.array([0, 1]), np.array([0, 2])))
    assert _same(check_counts(stored_zero), [[0, 5]])
    assert stored_zero.nnz == 2


BAD = [
    (-1, "negative", "-1"),
    (1.5, "not whole", "1.5"),
    (np.nan, "missing", "nan"),
    (np.inf, "infinite", "inf"),
    (-np.inf, "infinite", "-inf"),
    (2.0**60, "too large", "1.15"),
]


@pytest.mark.parametrize(("value", "fault", "shown"), BAD)
@pytest.mark.parametrize(
    "make",
    [
        *(np.asarray, sp.csr_array, sp.csc_matrix, sp.coo_array, pd.DataFrame, pl.DataFrame),
        *(lambda x: x.astype(object), lambda x: x.astype(np.float32), lambda x: x.tolist()),
    ],
)
def test_first_bad_cell_is_named_row_by_row(make, value, fault, shown):
    bad = X.astype(float)
    bad[2, 0] = value
    bad[2, 2] = -5  # a later one, though first in a column-wise format's neighbour
    bad[0, 2] = 4
    with pytest.raises(InvalidInputError) as error:
        check_counts(make(bad))
    message = str(error.value)
    assert message.startswith("X[2, 0]")
    assert f"is {shown}" in message
    assert f"({fault})" in message
    assert "counts must be whole numbers from 0 to 2**53" in message


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("a", "text"),
        ("3", "text"),
        (None, "missing"),
        (pd.NA, "missing"),
        (Decimal("NaN"), "missing"),
        (Decimal("1.5"), "not whole"),
        ([1], "not a number"),
        (1 + 2j, "complex"),
    ],
)
def test_bad_objects(value, fault):
    bad = X.astype(object)
    bad[1, 2] = value
    with pytest.raises(InvalidInputError, match=rf"X\[1, 2\] is .*\({fault}\)"):
        check_counts(bad)


def test_bad_cells_of_frames_name_their_column():
    frame = pd.DataFrame({"ham": [1, 2], "egg": [0.5, 1]})
    with pytest.raises(InvalidInputError, match=r"X\[0, 1\] \(column 'egg'\) is 0.5 \(not whole\)"):
        check_counts(frame)
    with pytest.raises(InvalidInputError, match=r"X\[1, 1\] \(column 'egg'\) is .* \(missing\)"):
        check_counts(pd.DataFrame({"ham": [1, 2], "egg": pd.array([1, None], dtype="Int64")}))
    with pytest.raises(InvalidInputError, match=r"X\[0, 1\] \(column 'b'\) is 'x' \(text\)"):
        check_counts(pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}))


def test_bad_cell_far_down_a_large_array():
    big = np.zeros((3000, 1000), dtype=np.int32)
    big[2999, 998] = -7
    with pytest.raises(InvalidInputError, match=r"X\[2999, 998\] is -7"):
        check_counts(big)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (np.array([1, 2]), r"must be 2-D, .*shape \(2,\).*reshape\(1, -1\)"),
        (5, r"X must be a 2-D array, .*but is int: 5"),
        ("counts.csv", r"X is 'counts.csv', .*gapmf\.read\(name\)\.counts"),
        (Path("counts.csv"), r"counts.csv'?\)?, .*gapmf\.read\(name\)\.counts"),
        (np.zeros((2, 2, 2)), r"must be 2-D"),
        (np.zeros((0, 3)), "X is empty: found 0 sample"),
        (sp.csr_array((3, 0)), "X is empty: found 3 sample.s. and 0 feature.s. .shape=.3, 0"),
        ([[1, 2], [3]], "X is ragged"),
        ([[1, 2], [3, "a"]], r"X\[1, 1\] is 'a' \(text\)"),
        ([[1, 2], [3, 1j]], r"X\[1, 1\] is 1j \(complex\)"),
        ([["x" * 10**5]], r"X\[0, 0\] is 'x{50,60}\.\.\. \(text\)"),
        (np.array([["2020-01-01"]], dtype="M8[ns]"), r"2020-01-01.*\(not a number\)"),
        ([["a", "b"]], r"X\[0, 0\] is 'a' \(text\)"),
        (np.array([[b"a"]]), r"X\[0, 0\] is b'a' \(text\)"),
        (np.array([[1 + 1j]]), r"X\[0, 0\] is \(1\+1j\) \(complex\)"),
        (sp.csr_array(np.array([[1j]])), "sparse matrix of dtype complex128"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "not a number"),
        (pl.LazyFrame({"a": [1]}), r"call \.collect\(\)"),
        (np.ma.array(X, mask=X > 3), "masked"),
        (pd.Series([1, 2]), "must be 2-D"),
        (np.full((1, 3), 2**52), "row 0 of X sums to more than"),
        (np.array([[2**64 - 1]], dtype=np.uint64), "too large"),
        (sp.csr_array(np.array([[2**64 - 1]], dtype=np.uint64)), "too large"),
    ],
)
def test_refusals(bad, says):
    with pytest.raises(ValueError, match=says):
        check_counts(bad)


def test_row_sum_names_the_right_row():
    counts = np.zeros((4, 3), dtype=np.int64)
    counts[2] = 2**52
    with pytest.raises(InvalidInputError, match="row 2 of X"):
        check_counts(counts)


def test_wrong_number_of_features():
    with pytest.raises(InvalidInputError, match=r"X has 3 features, but the model is expecting 5"):
        check_counts(X, n_features=5)
    with pytest.raises(InvalidInputError, match="is one transposed"):
        check_counts(X[:2], n_features=2)
    for other in (None, {"a": 1}):
        with pytest.raises(InvalidInputError, match=f"but is {type(other).__name__}"):
            check_counts(other)


@given(hnp.arrays(st.sampled_from([np.float64, np.int64, np.float32]), (3, 2)))
def test_arbitrary_numbers_are_counts_or_refused(array):
    good = np.isfinite(array) & (array >= 0) & (array <= 2**50)
    good &= np.mod(np.where(np.isfinite(array), array, 0), 1) == 0
    try:
        counts = check_counts(array)
    except GapmfError:
        assert not good.all()
    else:
        np.testing.assert_array_equal(counts.toarray(), array)


def test_what_read_returns_is_not_counts_yet():
    from gapmf.io import Table

    with pytest.raises(InvalidInputError, match=r"pass its counts, table\.counts"):
        check_counts(Table(check_counts([[1, 2]]), None, None))


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, pl.Series])
def test_texts_are_to_be_counted_first(kind):
    match = "X is a list of texts, beginning with 'an ape', but must be counts.*: count words"
    with pytest.raises(InvalidInputError, match=f"{match}.*CountVectorizer.*gapmf.read"):
        check_counts(kind(["an ape", "a bee"]))


def test_triplets_are_to_be_read_first():
    frame = pd.DataFrame({"doc": ["a", "b"], "word": ["ape", "bee"], "n": [1, 2]})
    with pytest.raises(InvalidInputError, match=r"'a' \(text\).*gapmf.read reads them as triplets"):
        check_counts(frame)
    with pytest.raises(InvalidInputError, match=r"'a' \(text\)") as caught:
        check_counts(frame[["doc", "n"]])
    assert "triplets" not in str(caught.value)
