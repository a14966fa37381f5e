"""The one door through which data and parameters come in.

`check_counts` takes every kind of X that gapmf accepts (NumPy, SciPy sparse, pandas, polars,
nested lists) to one kind: a canonical CSR array of int64 counts, samples × features. Sparse
input is never made dense.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gapmf.errors import InvalidInputError

LARGEST_COUNT = 2**53  # whole numbers are exact in float64 up to here
_BLOCK_CELLS = 1 << 20  # dense input is looked at in blocks of about this many cells

_EXPECTED = "counts must be whole numbers from 0 to 2**53"
_ADVICE = {
    "negative": "pass raw counts, before centring or scaling",
    "not whole": "pass raw counts, not normalised or log-transformed values",
    "missing": "fill or drop missing values first",
    "infinite": "replace or drop infinite values first",
    "too large": "larger ones are not exact in float64",
    "text": "drop columns of names (or make them the index), convert digits to numbers, "
    "and count words first (sklearn's CountVectorizer)",
    "not a number": "convert the values to numbers first",
}


def check_counts(X: Any, *, n_features: int | None = None, name: str = "X") -> sp.csr_array:
    """Return X as a canonical CSR array of int64 counts, or say where it is wrong.

    Parameters
    ----------
    X : array, SciPy sparse matrix or array, pandas or polars frame, nested list; (N, F)
        Whole numbers ≥ 0 of any dtype, objects that hold numbers included.
    n_features : int, optional
        The number of features that X must have.
    name : str
        What the error messages call X.

    Returns
    -------
    csr_array of int64, (N, F)
        Sorted indices, no duplicates, no stored zeros. It may share memory with X and is
        to be read only.
    """
    package, kind = type(X).__module__.partition(".")[0], type(X).__name__
    if kind == "LazyFrame":
        raise InvalidInputError(f"{name} is a polars LazyFrame: call .collect() on it first")
    if package in ("pandas", "polars") and kind == "DataFrame":
        counts = _from_frame(X, package, name)
    elif sp.issparse(X):
        counts = _from_sparse(X, None, name)
    else:
        counts = _from_dense(_as_array(X, name), name)
    if n_features is not None and counts.shape[1] != n_features:
        raise InvalidInputError(
            f"{name} has {counts.shape[1]} features (columns), but the model has {n_features}: "
            f"give {name} the features that the model was made with, in the same order. "
            f"{name} is samples × features, W features × components: is one transposed?"
        )
    totals = np.add.reduceat(np.append(counts.data, 0), counts.indptr[:-1], dtype=float)
    if totals.max() > LARGEST_COUNT:
        # reduceat gives an empty row its neighbour's first entry, which is in range by now
        raise InvalidInputError(
            f"row {int(totals.argmax())} of {name} sums to more than 2**53, "
            "beyond what float64 counts exactly"
        )
    return counts


def _from_frame(frame: Any, package: str, name: str) -> sp.csr_array:
    """Counts from a pandas or polars frame, column by column: each keeps its own type."""
    _check_shape(frame.shape, name)
    labels = list(frame.columns)
    if package == "pandas" and all(_plainly_sparse(dtype) for dtype in frame.dtypes):
        return _from_sparse(frame.sparse.to_coo(), labels, name)
    columns, rows, bad = [], [], []
    for f in range(len(labels)):
        column = frame.iloc[:, f] if package == "pandas" else frame.to_series(f)
        values = _column_values(column, package)
        at = _first_bad(values)
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
    return sp.csr_array(sp.csc_array(by_column, shape=frame.shape))


def _plainly_sparse(dtype: Any) -> bool:
    """Whether a pandas dtype is sparse, numeric and filled with zeros."""
    fill = getattr(dtype, "fill_value", None)
    return fill is not None and fill == 0 and np.dtype(dtype.subtype).kind in "uif"


def _column_values(column: Any, package: str) -> NDArray[Any]:
    """A column of a frame as a NumPy array: numbers, or objects where there is something else."""
    if package == "polars":
        numbers_ = column.dtype.is_integer() or column.dtype.is_float()
        plain = numbers_ and str(column.dtype) not in ("Int128", "UInt128")
        if (plain or str(column.dtype) == "Boolean") and column.null_count() == 0:
            return np.asarray(column.to_numpy())
        return np.array([*column.to_list(), None], dtype=object)[:-1]
    plain_dtype = getattr(column.dtype, "numpy_dtype", None)  # of a nullable column
    if plain_dtype is not None and not column.isna().any():
        return np.asarray(column.to_numpy(dtype=plain_dtype))
    return np.asarray(column.to_numpy())


def _as_array(values: Any, name: str) -> NDArray[Any]:
    if np.ma.is_masked(values):
        row, column = (int(i[0]) for i in np.nonzero(np.atleast_2d(np.ma.getmaskarray(values))))
        raise InvalidInputError(f"{name}[{row}, {column}] is masked: {_ADVICE['missing']}")
    try:
        array = np.asarray(values)
        if array.dtype.kind in "UScM" and not isinstance(values, np.ndarray):
            # NumPy has turned all cells of a list into the type of the worst one.
            array = np.array(values, dtype=object)
    except ValueError:  # numpy says "inhomogeneous shape"
        raise InvalidInputError(
            f"{name} is ragged: every row (sample) must have the same number of features"
        ) from None
    if array.ndim == 0:
        raise InvalidInputError(
            f"{name} must be a 2-D array, sparse matrix or frame of counts, samples × features, "
            f"but is {type(values).__name__}: {_short(values)}"
        )
    _check_shape(array.shape, name)
    return array


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    if len(shape) != 2:
        advice = ""
        if len(shape) == 1:
            advice = (
                f"; for one sample use {name}.reshape(1, -1), for one feature {name}.reshape(-1, 1)"
            )
        raise InvalidInputError(
            f"{name} must be 2-D, samples × features, but has shape {tuple(shape)}{advice}"
        )
    if 0 in shape:
        raise InvalidInputError(
            f"{name} is empty: it has {shape[0]} samples (rows) and {shape[1]} features "
            "(columns), and at least one of each is needed"
        )


def _from_sparse(matrix: Any, labels: Sequence[Any] | None, name: str) -> sp.csr_array:
    """Canonical counts from any SciPy format; the caller's matrix is left as it was.

    The stored entries are checked in their own type, before duplicates are added: two uint8
    entries of 200 make 400, and two halves are two bad cells.
    """
    _check_shape(matrix.shape, name)
    if matrix.dtype.kind not in "buif":
        raise InvalidInputError(
            f"{name} is a sparse matrix of dtype {matrix.dtype}: {_EXPECTED}; "
            f"{_ADVICE['not a number']}"
        )
    if matrix.format not in ("csr", "csc"):
        matrix = matrix.tocoo()
    if _first_bad(matrix.data) is not None:
        cells = matrix.tocoo()
        bad = np.flatnonzero(~_is_count(cells.data))
        at = bad[np.lexsort((cells.col[bad], cells.row[bad]))[0]]
        _refuse(cells.data[at], int(cells.row[at]), int(cells.col[at]), labels, name)
    counts = sp.csr_array(matrix.astype(np.int64, copy=False))
    if not counts.has_canonical_format:
        counts = counts.copy()
        counts.sum_duplicates()
    if not counts.data.all():
        counts = counts.copy()
        counts.eliminate_zeros()
    return counts


def _from_dense(array: NDArray[Any], name: str) -> sp.csr_array:
    n_rows = max(1, _BLOCK_CELLS // array.shape[1])
    blocks = []
    for start in range(0, array.shape[0], n_rows):
        block = array[start : start + n_rows]
        at = _first_bad(block.reshape(-1))
        if at is not None:
            row, column = divmod(at, array.shape[1])
            _refuse(block[row, column], start + row, column, None, name)
        blocks.append(sp.csr_array(block.astype(np.int64, copy=False)))
    return blocks[0] if len(blocks) == 1 else sp.csr_array(sp.vstack(blocks, format="csr"))


def _first_bad(values: NDArray[Any]) -> int | None:
    """The position of the first value that is not a count."""
    good = _is_count(values)
    return None if good.all() else int(good.argmin())


def _is_count(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of these are whole numbers from 0 to 2**53."""
    kind = values.dtype.kind
    if kind == "b":
        return np.ones(values.shape, dtype=bool)
    if kind == "O":
        return np.array([_fault(value) is None for value in values], dtype=bool)
    if kind not in "uif":
        return np.zeros(values.shape, dtype=bool)
    if values.dtype == np.float16:
        values = values.astype(np.float32)  # where the limit is finite
    with np.errstate(invalid="ignore"):  # NaN compares false: that is what is wanted
        good = (values >= 0) & (values <= LARGEST_COUNT)
        if kind == "f":
            good &= values == np.floor(values)
    return np.asarray(good)


def _fault(value: Any) -> str | None:
    """What keeps `value` from being a count, as a key of the table of advice."""
    if isinstance(value, (str, bytes)):
        return "text"
    if not isinstance(value, (numbers.Real, Decimal, np.bool_)):
        missing = value is None or type(value).__name__ in ("NAType", "NaTType")
        return "missing" if missing else "not a number"
    number: Any = value
    is_nan = number.is_nan() if isinstance(number, Decimal) else number != number  # noqa: PLR0124
    if is_nan:
        return "missing"
    if number in (float("inf"), float("-inf")):
        return "infinite"
    if number < 0:
        return "negative"
    if number != int(number):
        return "not whole"
    return "too large" if number > LARGEST_COUNT else None


def _refuse(value: Any, row: int, column: int, labels: Sequence[Any] | None, name: str) -> None:
    is_number = isinstance(value, np.generic) and value.dtype.kind in "buifc"
    fault = _fault(value) or "not a number"
    is_text = isinstance(value, (str, bytes))  # NumPy's too, whose repr names their type
    if is_number:
        value = value.item()
    elif is_text:
        value = str(value) if isinstance(value, str) else bytes(value)
    shown = _short(value)
    label = "" if labels is None else f" (column {labels[column]!r})"
    raise InvalidInputError(
        f"{name}[{row}, {column}]{label} is {shown} ({fault}): {_EXPECTED}; {_ADVICE[fault]}"
    )


def check_dictionary(W: ArrayLike) -> NDArray[np.float64]:
    """A private, read-only float64 copy of W (F, K): finite, non-negative, not empty."""
    array = as_float(W, "W", "a matrix of numbers, features × components")
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidInputError(
            f"W must be 2-D, features × components (F, K), with at least one of each, "
            f"but has shape {array.shape}"
        )
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        f, k = np.unravel_index(int(bad.argmax()), array.shape)
        raise InvalidInputError(
            f"W[{f}, {k}] is {array[f, k]}: the entries of W must be finite and 0 or more"
        )
    return frozen(array)


def check_positive(value: ArrayLike, n_components: int, name: str) -> NDArray[np.float64]:
    """A read-only (K,) float64 copy of alpha or beta: a scalar or K numbers, finite, > 0."""
    array = as_float(value, name, f"a number, or {n_components} numbers, one a component")
    if array.ndim > 1:
        raise InvalidInputError(
            f"{name} must be a number or 1-D of length {n_components}, but has shape {array.shape}"
        )
    if array.ndim == 1 and array.size != n_components:
        raise InvalidInputError(
            f"{name} has length {array.size}, but there are {n_components} components "
            "(columns of W): give one number for all, or one a component"
        )
    bad = ~(np.isfinite(array) & (array > 0))
    if bad.any():
        place = f"{name}[{int(bad.argmax())}]" if array.ndim else name
        shown = float(array.flat[int(bad.argmax())])
        raise InvalidInputError(f"{place} is {shown}: it must be finite and greater than 0")
    if array.min() < 1e-100 or array.max() > 1e100:
        raise InvalidInputError(f"{name} must lie between 1e-100 and 1e100, but is {value!r}")
    return frozen(np.broadcast_to(array, (n_components,)))


def check_activations(H: ArrayLike, n_samples: int, n_components: int) -> NDArray[np.float64]:
    """H (N, K) as float64: finite and non-negative, a row a sample."""
    array = as_float(H, "H", "a matrix of numbers, samples × components")
    if array.shape != (n_samples, n_components):
        raise InvalidInputError(
            f"H must have shape {(n_samples, n_components)}, samples × components (N, K), "
            f"but has shape {array.shape}"
        )
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        n, k = np.unravel_index(int(bad.argmax()), array.shape)
        raise InvalidInputError(
            f"H[{n}, {k}] is {array[n, k]}: activations must be finite and 0 or more"
        )
    return array


def check_whole(value: Any, name: str, least: int = 1) -> int:
    """A whole number that is at least `least`."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise InvalidInputError(f"{name} must be a whole number, {least} or more, but is {value!r}")
    return int(value)


def check_number(
    value: Any, name: str, *, least: float | None = None, above: float | None = None
) -> float:
    """One number, not NaN, that is at least `least`, or above `above`."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    x = float(value) if number else float("nan")
    if (least is not None and not x >= least) or (above is not None and not x > above):
        bound = f"{least:g} or more" if above is None else f"above {above:g}"
        raise InvalidInputError(f"{name} must be a number, {bound}, but is {value!r}")
    return x


def check_option(value: Any, known: Iterable[str], name: str) -> str:
    """One of the known words."""
    known = tuple(known)
    if not isinstance(value, str) or value not in known:
        words = ", ".join(repr(word) for word in known)
        raise InvalidInputError(f"unknown {name} {value!r}: known are {words}")
    return str(value)


def check_random_state(random_state: Any) -> np.random.Generator:
    """A Generator from None, an int, a Generator or a RandomState (which then advances)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        bits = cast(Any, random_state)._bit_generator
        return np.random.Generator(bits)
    whole = isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool)
    if random_state is not None and (not whole or random_state < 0):
        raise InvalidInputError(
            "random_state must be None, a whole number that is 0 or more, a numpy Generator "
            f"or a RandomState, but is {random_state!r}"
        )
    return np.random.default_rng(None if random_state is None else int(random_state))


def as_float(value: ArrayLike, name: str, expected: str) -> NDArray[np.float64]:
    """A float64 copy of numbers; text, masks, None and whatever else is not a number is refused."""
    try:
        if sp.issparse(value):
            raise TypeError
        array = np.asarray(value)
        objects = array.dtype.kind == "O"
        if objects and not all(isinstance(x, (numbers.Real, Decimal)) for x in array.flat):
            raise TypeError
        if np.ma.is_masked(value) or array.dtype.kind not in "buifO":
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        advice = "; use .toarray()" if sp.issparse(value) else ""
        raise InvalidInputError(
            f"{name} must be {expected}, but is {type(value).__name__}: {_short(value)}{advice}"
        ) from None


def _short(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of more digits than Python prints
        text = "a number of thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


def frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """A read-only copy."""
    array = np.array(array, dtype=np.float64, order="C")
    array.setflags(write=False)
    return array
