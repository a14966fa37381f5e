"""Validation of count data.

`check_counts` converts every kind of X that gapmf accepts (NumPy, SciPy sparse, pandas, polars,
AnnData, nested lists) to a canonical CSR array of int64 counts, samples × features. It never makes
sparse input dense.
"""

from __future__ import annotations

import numbers
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gapmf.errors import InvalidInputError
from gapmf.validation import shorten

LARGEST_COUNT = 2**53  # integers are exact in float64 up to here

MATCH_GENES = "gapmf.transform_anndata(adata, est) matches genes by name"

_IF_TRIPLETS = (
    "; if each row is a sample, a feature and a count, gapmf.read reads them as triplets (see its "
    "option `layout`)"
)
_SHOWN = 5  # names in a message
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
    X: Any,
    *,
    n_features: int | None = None,
    name: str = "X",
    owner: str = "the model",
    labels: Sequence[Any] | None = None,
) -> sp.csr_array:
    """Return X as a canonical CSR array of int64 counts.

    Parameters
    ----------
    X : array-like, sparse matrix, pandas or polars DataFrame of shape (n_samples, n_features)
        Integers ≥ 0 of any dtype, including objects that hold numbers. An AnnData stands for its
        `X`.
    n_features : int, optional
        Number of features that X must have.
    name : str, default="X"
        Name of X in error messages.
    owner : str, default="the model"
        What has `n_features` features, in error messages.
    labels : sequence, optional
        Names of the features in error messages, for an X that has none.

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
        values, advice = X, ""
        if is_anndata(X):
            values, labels, name = anndata_matrix(X, None, "adata.")
            if (layers := list_layers(X)) != "none":
                advice = f"; gapmf.fit_anndata also reads layers: there are {layers}"
        values = values if sp.issparse(values) else _from_dense(values, name)
        matrix = _checked(values, labels, name, advice)
    if n_features is not None and matrix.shape[1] != n_features:
        turned = f"{name} is samples × features and W is features × components: is one transposed?"
        raise InvalidInputError(
            f"{name} has {matrix.shape[1]} features, but {owner} is expecting {n_features} "
            f"features as input: pass the features of the training data, in the same order. "
            + (f"{MATCH_GENES}, in any order" if is_anndata(X) else turned)
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


def is_anndata(X: Any) -> bool:
    """Whether X is an AnnData. The package is not imported to find out."""
    return any(
        kind.__name__ == "AnnData" and kind.__module__.startswith("anndata")
        for kind in type(X).__mro__
    )


def is_backed(X: Any) -> bool:
    """Whether X is an AnnData whose `X` is in a file, by rows."""
    if not is_anndata(X) or not X.isbacked or X.is_view:
        return False
    return getattr(X.X, "format", "dense") in ("csr", "dense")


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or data frame. Dask is not imported to find out."""
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(X).__mro__}
    return ("dask", "Array") in kinds or ("dask", "DataFrame") in kinds


def is_dask_frame(X: Any) -> bool:
    """Whether X is a Dask data frame."""
    return is_dask(X) and hasattr(X, "columns")


def anndata_matrix(adata: Any, layer: str | None, place: str) -> tuple[Any, Any, str]:
    """Return the values of `X`, of a layer, or for "raw" of `adata.raw`; their genes; their name.

    A layer that is called "raw" comes before `adata.raw`. `place` begins the name.
    """
    if layer is None:
        source, values, name = adata, adata.X, f"{place}X"
    elif layer in adata.layers:
        source, values, name = adata, adata.layers[layer], f"{place}layers[{layer!r}]"
    elif layer == "raw" and adata.raw is not None:
        source, values, name = adata.raw, adata.raw.X, f"{place}raw.X"
    else:
        raise InvalidInputError(f"{place}layers has no {layer!r}: there are {list_layers(adata)}")
    if values is None:
        raise InvalidInputError(
            f"{name} is empty: set the `layer` that holds the counts; there are "
            f"{list_layers(adata)}"
        )
    values = values.to_memory() if hasattr(values, "to_memory") else values  # from a file
    return values, gene_names(source), name


def gene_names(adata: Any) -> Any:
    """Return the names of genes; those that occur twice are numbered, as anndata does it."""
    if adata.var_names.is_unique:
        return adata.var_names
    from anndata.utils import make_index_unique

    return make_index_unique(adata.var_names)


def list_layers(adata: Any) -> str:
    """List what the option `layer` may be."""
    known = [*adata.layers, *(["raw"] if adata.raw is not None else [])]
    return ", ".join(map(repr, dict.fromkeys(known))) or "none"


def with_feature_names(X: Any) -> Any:
    """Return what scikit-learn finds the names of features in: for an AnnData, a frame of genes."""
    return X.var.iloc[:, :0].T.set_axis(gene_names(X), axis=1) if is_anndata(X) else X


def warn_of_duplicates(names: Iterable[Any], advice: str) -> None:
    """Warn if features share a name."""
    repeated = [(name, times) for name, times in Counter(names).items() if times > 1]
    if repeated:
        listed = ", ".join(f"{str(name)!r} ({times} times)" for name, times in repeated[:_SHOWN])
        more = f", …, {len(repeated):,} names in all" if len(repeated) > _SHOWN else ""
        warnings.warn(
            f"some features have the same name: {listed}{more}. {advice}", UserWarning, stacklevel=4
        )


def warn_of_duplicate_genes(adata: Any) -> None:
    """Warn if genes of an AnnData share a name."""
    warn_of_duplicates(
        adata.var_names,
        "They are numbered, as adata.var_names_make_unique() does: cells whose genes are in "
        "another order would be matched wrongly, so give the genes unique names",
    )


def list_features(totals: NDArray[Any], names: Sequence[Any] | None = None) -> str:
    """List features by name, or else by number, with their counts, the largest first.

    >>> list_features(np.array([0, 1200, 3]), ["ape", "bee", "cat"])
    "'bee' (1,200), 'cat' (3), 'ape' (0)"
    """
    order = np.argsort(-totals, kind="stable")
    shown = [f if names is None else repr(str(names[f])) for f in order[:_SHOWN]]
    listed = [f"{name} ({int(totals[f]):,})" for name, f in zip(shown, order, strict=False)]
    return ", ".join(listed) + (", …" if len(order) > _SHOWN else "")


def describe_unknown(counts: sp.csr_array, known: NDArray[np.bool_], names: Any) -> str:
    """Describe the counts of features that a fit knows nothing of: how many, and which."""
    totals = np.asarray(counts.sum(axis=0))
    unknown = np.flatnonzero(~known & (totals > 0))
    named = [f"feature {f}" if names is None else names[f] for f in unknown]
    return (
        "features that had no counts in the fit say nothing about activations and are "
        f"ignored: {unknown.size:,} of {known.size:,}, with "
        f"{totals[unknown].sum() / totals.sum():.2%} of all counts: "
        f"{list_features(totals[unknown], named)}"
    )


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
        _refuse(value, row, f, labels, name, _IF_TRIPLETS if len(labels) == 3 else "")
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
    first = array.reshape(-1)[:1].tolist()  # Python's own types, which are shown without a prefix
    if array.ndim > 1 or not first or not isinstance(first[0], (str, bytes, os.PathLike)):
        return
    kind, advice = "", "if it is the name of a file, pass gapmf.read(name).counts"
    if array.ndim == 1:
        kind = "a list of texts, beginning with "
        advice = (
            f"count words first, for example by sklearn's CountVectorizer().fit_transform({name});"
        )
        advice += " gapmf.read reads and counts text files"
    shown = f"{kind}{shorten(first[0])}"
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


def _checked(matrix: Any, labels: Sequence[Any] | None, name: str, advice: str = "") -> Any:
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
        _refuse(cells.data[at], int(cells.row[at]), int(cells.col[at]), labels, name, advice)
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


def _refuse(
    value: Any, row: int, column: int, labels: Sequence[Any] | None, name: str, advice: str = ""
) -> None:
    label = "" if labels is None else f" (column {labels[column]!r})"
    raise InvalidInputError(f"{name}[{row}, {column}]{label} {explain(value)}{advice}")
