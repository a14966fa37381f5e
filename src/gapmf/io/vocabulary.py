"""Which features of a table are used: all but stop words, rare and frequent ones; or a model's."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.counts import list_features
from gapmf.errors import InvalidInputError
from gapmf.io.table import Table, as_names, read_lines

FILTERS = ("stop_words", "min_df", "max_df")


def check_filters(given: dict[str, Any], encoding: str) -> dict[str, Any]:
    """Return the filters among the options that were given, with the words of a file read."""
    filters = {name: given[name] for name in FILTERS if name in given}
    for name in {"min_df", "max_df"} & filters.keys():
        _check_frequency(filters[name], name)
    if "stop_words" in filters:
        filters["stop_words"] = _read_words(filters["stop_words"], encoding)
    return filters


def _read_words(words: Any, encoding: str) -> Any:
    """Return "english", or words as a list: those of a file, if this is the name of one."""
    is_name = isinstance(words, (str, os.PathLike))
    if is_name and words == "english":
        return words
    if is_name and os.path.isfile(words):
        return list(filter(None, map(str.strip, read_lines(os.fsdecode(words), encoding))))
    if is_name or not isinstance(words, Iterable):
        raise InvalidInputError(
            "stop_words must be english, a list of words, or a file with one word per line, but is "
            f"{str(words)!r}" + (", and there is no such file" if is_name else "")
        )
    return list(words)


def _check_frequency(value: Any, name: str) -> None:
    whole = _is_whole(value) and value >= 1
    share = isinstance(value, (float, np.floating)) and 0 <= value <= 1
    if not whole and not share:
        raise InvalidInputError(
            f"{name} must be a whole number of samples, 1 or more, or a share of them with a "
            f"decimal point, from 0.0 to 1.0, but is {value!r}"
        )


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def filter_features(
    table: Table, where: str, *, stop_words: Any = (), min_df: float = 1, max_df: float = 1.0
) -> Table:
    """Leave out stop words, and features that occur in too few or too many samples.

    The rules are those of scikit-learn's CountVectorizer. A stop word in small letters stands for
    the word with capitals, too.
    """
    names = table.feature_names
    if names is None:
        raise InvalidInputError(
            f"{where} has no names of features, so that it could not be told which of them were "
            "left out by stop_words, min_df or max_df: give names with the option `vocab`, or "
            "leave these out"
        )
    N, F = table.counts.shape
    n_samples = np.bincount(table.counts.indices, minlength=F)
    least, most = (limit if _is_whole(limit) else limit * N for limit in (min_df, max_df))
    words = _english() if isinstance(stop_words, str) else frozenset(stop_words)
    stopped = np.array([name in words or name.lower() in words for name in names], dtype=bool)
    kept = np.flatnonzero((n_samples >= least) & (n_samples <= most) & ~stopped)
    if not kept.size:
        raise InvalidInputError(
            f"stop_words, min_df and max_df leave none of the {F:,} features of {where}: "
            f"{int(stopped.sum()):,} are stop words, {int((n_samples < least).sum()):,} are in "
            f"fewer than {least:g} samples, {int((n_samples > most).sum()):,} in more than {most:g}"
        )
    return table._replace(counts=table.counts[:, kept], feature_names=names[kept])


def _english() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


def align_features(table: Table, wanted: Iterable[Any]) -> Table:
    """Select and order features by the names of a model's; say which others are left out.

    Features that the table does not have get no counts.
    """
    assert table.feature_names is not None
    counts, wanted = table.counts, as_names(wanted)
    if np.array_equal(table.feature_names, wanted):
        return table
    names = [name.strip() for name in table.feature_names]
    position = {name.strip(): f for f, name in enumerate(wanted)}
    for which, n_distinct, listed in (
        ("data have", len(set(names)), names),
        ("model has", len(position), wanted),
    ):
        if n_distinct < len(listed):
            raise InvalidInputError(
                f"the features of data and model differ, and the {which} "
                f"{len(listed) - n_distinct:,} names more than once, so that they cannot be "
                "matched: make the names unique"
            )
    to = np.array([position.get(name, -1) for name in names])
    known = to >= 0
    if not known.any():
        raise InvalidInputError(
            f"none of the {len(names):,} features of the data is one of the model's: the data "
            f"have {names[0]!r} …, and the model has {wanted[0]!r} …"
        )
    if not known.all():
        totals = np.asarray(counts.sum(axis=0)).reshape(-1)
        lost = np.flatnonzero(~known)
        share = float(totals[lost].sum()) / max(float(totals.sum()), 1.0)
        most = list_features(totals[lost], table.feature_names[lost].tolist())
        warnings.warn(
            f"features that the model does not have are left out: {lost.size:,} of {len(names):,}, "
            f"with {share:.2%} of the counts: {most}",
            UserWarning,
            stacklevel=3,
        )
    kept = counts[:, np.flatnonzero(known)].tocoo()
    places = (kept.row, to[known][kept.col])
    aligned = sp.csr_array((kept.data, places), shape=(counts.shape[0], len(wanted)))
    return table._replace(counts=aligned, feature_names=wanted)
