"""Validation of count data.

`check_counts` converts every kind of X that gapmf accepts (NumPy, SciPy sparse, pandas, polars,
nested lists) to a canonical CSR array of int64 counts, samples × features. It never makes sparse
input dense.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.errors import InvalidInputError
from gapmf.validation import shorten

LARGEST_COUNT = 2**53  # integers are exact in float64 up to here

_EXPECTED = "counts must be whole numbers from 0 to 2**53"
_ADVICE = {
    "negative": "Negative values in data are not counts: pass raw, unscaled counts",
    "not whole": "pass raw counts, not normalised or log-transformed values",
    "missing": "fill or drop missing values (NaN) first",
    "infinite": "replace or drop infinite values first",
    "too large": "divide the counts by a common factor: larger ones are not exact in float64",
    "text": "drop a column of names, or make it the index; convert digits to numbers; count words "
    "first, for example with sklearn's CountVectorizer",
    "complex": "Complex data not supported: pass real counts",
    "not a number": "convert the values to numbers first",
}


def check_counts(
    X: Any, *, n_features: int | None = None, name: str = "X", owner: str = "the model"
) -> sp.csr_array:
    """Return X as a canonical CSR array of int64 counts.

    Parameters
    ----------
    X : array-like, sparse matrix, pandas or polars DataFrame of shape (n_samples, n_features)
        Integers ≥ 0 of any dtype, including objects that hold numbers.
    n_features : int, optional
        Number of features that X must have.
    name : str, default="X"
        Name of X in error messages.
    owner : str, default="the model"
        What has `n_features` features, in error messages.

    Returns
    -------
    csr_array of int64 of shape (n_samples, n_features)
        Counts with sorted indices, without duplicates and stored zeros. Do not write to it: it
        may share memory with X.

    Raises
    ------
    InvalidInputError
        If X is not a matrix of counts. The message names the first bad cell.
    """
    if type(X).__name__ == "LazyFrame":
        raise InvalidInputError(f"{name} is a polars LazyFrame: call .collect() on it first")
    if hasattr(X, "counts") and hasattr(X, "feature_names"):
        raise InvalidInputError(
            f"{name} is a table of counts and names, as gapmf.read returns it: "
            "pass its counts, table.counts"
        )
    if is_frame(X):
        matrix = _from_frame(X, name)
    else:
        matrix = _checked(X if sp.issparse(X) else _from_dense(X, name), None, name)
    if n_features is not None and matrix.shape[1] != n_features:
        raise InvalidInputError(
            f"{name} has {matrix.shape[1]} features, but {owner} is expecting {n_features} "
            f"features as input: pass the features of the training data, in the same order. "
            f"{name} is samples × features and W is features × components: is one transposed?"
        )
    totals = np.asarray(matrix.astype(np.float64).sum(axis=1)).reshape(-1)
    if totals.max() > LARGEST_COUNT:
        raise InvalidInputError(
            f"row {int(totals.argmax())} of {name} sums to more than 2**53, the largest count that "
            "is exact in float64: divide the counts by a common factor"
        )
    counts = sp.csr_array(matrix.astype(np.int64, copy=False))
    if not counts.has_canonical_format or not counts.data.all():
        counts = counts.copy()
        counts.sum_duplicates()
        counts.eliminate_zeros()
    return counts


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of pandas or polars."""
    package, kind = type(X).__module__.partition(".")[0], type(X).__name__
    return package in ("pandas", "polars") and kind == "DataFrame"


def _from_frame(frame: Any, name: str) -> Any:
    """Counts from a pandas or polars frame, column by column: each keeps its own type."""
    _check_shape(frame.shape, name)
    labels = list(frame.columns)
    if hasattr(frame, "iloc") and all(_plainly_sparse(dtype) for dtype in frame.dtypes):
        return _checked(frame.sparse.to_coo(), labels, name)
    columns, rows, bad = [], [], []
    for f in range(len(labels)):
        values = column_values(frame, f)
        at = first_bad(values)
        if at is not None:
            bad.append((at, f, values[at]))
            continue
        rows.append(np.flatnonzero(values))
        columns.append(values[rows[-1]].astype(np.int64))
    if bad:
        row, f, value = min(bad, key=lambda place: place[:2])
        _refuse(value, row, f, labels, name)
    indptr = np.concatenate([[0], np.cumsum([part.size for part in rows])])
    by_column = (np.concatenate(columns), np.concatenate(rows), indptr)
    return sp.csc_array(by_column, shape=frame.shape)


def _plainly_sparse(dtype: Any) -> bool:
    """Return whether a pandas dtype is sparse, numeric and filled with zeros."""
    fill = getattr(dtype, "fill_value", None)
    return fill is not None and fill == 0 and np.dtype(dtype.subtype).kind in "uif"


def column_values(frame: Any, f: int) -> NDArray[Any]:
    """Return column f of a pandas or polars frame: numbers, or objects if there are others."""
    column = frame.iloc[:, f] if hasattr(frame, "iloc") else frame.to_series(f)
    return np.asarray(column.to_numpy())


def _from_dense(values: Any, name: str) -> sp.coo_array:
    """Cells other than 0 from an array or nested lists; what is no number is refused here."""
    if np.ma.is_masked(values):
        row, column = (int(i[0]) for i in np.nonzero(np.atleast_2d(np.ma.getmaskarray(values))))
        raise InvalidInputError(f"{name}[{row}, {column}] is masked: {_ADVICE['missing']}")
    try:
        array = np.asarray(values)
        if array.dtype.kind in "UScM" and not isinstance(values, np.ndarray):
            # NumPy converts all cells of a list to one common type.
            array = np.array(values, dtype=object)
    except ValueError:  # numpy says "inhomogeneous shape"
        raise InvalidInputError(
            f"{name} is ragged: its rows differ in length, but every row (sample) must have one "
            "count per feature"
        ) from None
    _refuse_text(array, name)
    if array.ndim == 0:
        raise InvalidInputError(
            f"{name} must be a 2-D array, sparse matrix or frame of counts, samples × features, "
            f"but is {type(values).__name__}: {shorten(values)}"
        )
    _check_shape(array.shape, name)
    if array.dtype.kind not in "buif":
        if (at := first_bad(array.reshape(-1))) is not None:
            row, column = divmod(at, array.shape[1])
            _refuse(array[row, column], row, column, None, name)
        array = array.astype(np.int64)
    return sp.coo_array(array.astype(np.float32) if array.dtype == np.float16 else array)


def _refuse_text(array: NDArray[Any], name: str) -> None:
    """Refuse documents and the names of files, which must become counts first."""
    if array.ndim > 1 or not array.size or not isinstance(array.flat[0], (str, bytes, os.PathLike)):
        return
    kind, advice = "", "if it is the name of a file, pass gapmf.read(name).counts"
    if array.ndim == 1:
        kind = "a list of texts, beginning with "
        advice = (
            f"count words first, for example by sklearn's CountVectorizer().fit_transform({name});"
        )
        advice += " gapmf.read reads and counts text files"
    shown = f"{kind}{shorten(array.flat[0])}"
    raise InvalidInputError(f"{name} is {shown}, but must be counts, samples × features: {advice}")


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    if len(shape) != 2:
        raise InvalidInputError(
            f"{name} must be 2-D, samples × features, but has shape {tuple(shape)}. Reshape your "
            f"data: {name}.reshape(1, -1) for one sample, {name}.reshape(-1, 1) for one feature"
        )
    if 0 in shape:
        raise InvalidInputError(
            f"{name} is empty: found {shape[0]} sample(s) and {shape[1]} feature(s) "
            f"(shape={tuple(shape)}) while a minimum of 1 is required."
        )


def _checked(matrix: Any, labels: Sequence[Any] | None, name: str) -> Any:
    """Return a sparse matrix as CSR, CSC or COO, if all stored entries are counts.

    They are checked in their own type, before duplicates are summed: two uint8 entries of 200 make
    400, and two entries of 0.5 are two bad cells.
    """
    _check_shape(matrix.shape, name)
    if matrix.dtype.kind not in "buif":
        raise InvalidInputError(
            f"{name} is a sparse matrix of dtype {matrix.dtype}: {_EXPECTED}; "
            f"{_ADVICE['not a number']}"
        )
    if matrix.format not in ("csr", "csc"):
        matrix = matrix.tocoo()
    if first_bad(matrix.data) is not None:
        cells = matrix.tocoo()
        bad = np.flatnonzero(~is_count(cells.data))
        at = bad[np.lexsort((cells.col[bad], cells.row[bad]))[0]]
        _refuse(cells.data[at], int(cells.row[at]), int(cells.col[at]), labels, name)
    return matrix


def first_bad(values: NDArray[Any]) -> int | None:
    """Return the position of the first value that is not a count."""
    good = is_count(values)
    return None if good.all() else int(good.argmin())


def is_count(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which values are whole numbers from 0 to 2**53."""
    kind = values.dtype.kind
    if kind == "b":
        return np.ones(values.shape, dtype=bool)
    if kind == "O":
        return np.array([_fault(value) is None for value in values], dtype=bool)
    if kind not in "uif":
        return np.zeros(values.shape, dtype=bool)
    if values.dtype == np.float16:
        values = values.astype(np.float32)  # the limit overflows in float16
    with np.errstate(invalid="ignore"):  # NaN compares false, as it should
        good = (values >= 0) & (values <= LARGEST_COUNT)
        if kind == "f":
            good &= values == np.floor(values)
    return np.asarray(good)


def _fault(value: Any) -> str | None:
    """Return why `value` is not a count, as a key of `_ADVICE`."""
    if isinstance(value, (str, bytes)):
        return "text"
    is_number = isinstance(value, (numbers.Real, Decimal, np.bool_))
    if not is_number or isinstance(value, np.timedelta64):  # which NumPy takes for an integer
        missing = value is None or type(value).__name__ in ("NAType", "NaTType")
        if isinstance(value, numbers.Complex):
            return "complex"
        return "missing" if missing else "not a number"
    number: Any = value
    if number != number:  # noqa: PLR0124
        return "missing"
    if number in (float("inf"), float("-inf")):
        return "infinite"
    if number < 0:
        return "negative"
    if number > LARGEST_COUNT:
        return "too large"
    return None if number == int(number) else "not whole"


def explain(value: Any, shown: str | None = None) -> str:
    """Say why a value is not a count, and what to do; it is shown as it is, or as `shown`."""
    fault = _fault(value) or "not a number"
    if isinstance(value, np.generic) and value.dtype.kind in "buifcSU":
        value = value.item()
    return f"is {shown or shorten(value)} ({fault}): {_EXPECTED}; {_ADVICE[fault]}"


def _refuse(value: Any, row: int, column: int, labels: Sequence[Any] | None, name: str) -> None:
    label = "" if labels is None else f" (column {labels[column]!r})"
    raise InvalidInputError(f"{name}[{row}, {column}]{label} {explain(value)}")
