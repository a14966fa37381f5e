"""Files of names, a name a line, and where they are found beside a file of counts."""

from __future__ import annotations

import os
from collections.abc import Iterable

from gapmf.errors import ReadError
from gapmf.io.source import Source
from gapmf.io.table import Names, as_names


def find_beside(path: str, names: Iterable[str]) -> str | None:
    """The first of these files that is in the folder of `path`, packed or not."""
    folder = os.path.dirname(path)
    for name in names:
        for suffix in ("", ".gz"):
            candidate = os.path.join(folder, name + suffix)
            if os.path.isfile(candidate):
                return candidate
    return None


def read_names(
    path: str, expected: int, what: str, encoding: str, column: int | None = None
) -> Names:
    """The names in a file, a line each; those of empty lines at its end are dropped.

    Parameters
    ----------
    path : str
    expected : int
        How many there must be.
    what : str
        What they name, for errors: "features of counts.mtx".
    encoding : str
    column : int, optional
        Which of the columns of a line, between tabs, has the name; where a line has fewer, its
        last one. By default the whole line is the name.
    """
    names: list[str] = []
    n_names = 0
    with Source(path) as source:
        for number, text in source.texts(encoding):
            if text.strip():
                n_names = number
            if number <= expected:  # more are counted, not kept
                parts = [text] if column is None else text.split("\t")
                names.append(parts[min(column or 0, len(parts) - 1)])
    if n_names != expected:
        raise ReadError(
            f"{path} has {n_names} names, but there are {expected} {what}: give the names of "
            "these, a line each and in their order"
        )
    return as_names(names)


def check_name_file(path: str | None) -> str | None:
    """The path of a file of names, which must be there if it is named."""
    if path is None:
        return None
    path = os.fspath(path)
    os.stat(path)  # if it is missing, the error comes before a long file is read
    return path
