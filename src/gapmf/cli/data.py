"""Counts for a model: read from a file, with the features that the model knows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import typer

from gapmf.cli.options import as_options
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.io import Table, read


def say(message: str) -> None:
    """A line on standard error."""
    typer.echo(f"gapmf: {as_options(' '.join(message.split()))}", err=True)


@contextmanager
def warnings_said(*, quiet: bool = False) -> Iterator[None]:
    """Warnings become lines on standard error, each once, unless only errors are wanted."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in seen):
        if not quiet:
            say(f"note: {message}")


def read_for(est: GammaPoissonMF, path: Path, options: dict[str, Any]) -> Table:
    """The counts of a file, their features in the order of the model's."""
    with warnings_said():
        table = read(path, **options)
    names = getattr(est, "feature_names_in_", None)
    if names is not None and table.feature_names is not None:
        return table._replace(
            counts=align(table.counts, table.feature_names, names), feature_names=names
        )
    if table.counts.shape[1] != est.n_features_in_:
        raise InvalidInputError(
            f"{path} has {table.counts.shape[1]} features, but the model has "
            f"{est.n_features_in_}: these must be the same, in the same order, or both have names"
        )
    return table


def align(counts: sp.csr_array, names: Any, wanted: Any) -> sp.csr_array:
    """The columns of the names that are wanted; what is not is left out, and said."""
    if len(names) == len(wanted) and (names == wanted).all():
        return counts
    names, wanted = ([name.strip() for name in listed] for listed in (names, wanted))
    place = {name: f for f, name in enumerate(wanted)}
    for which, listed in (("data", names), ("model", wanted)):
        if len(set(listed)) < len(listed):
            raise InvalidInputError(
                f"the features of data and model differ, and the {which} has some names twice: "
                "they cannot be told apart"
            )
    to = np.array([place.get(name, -1) for name in names])
    known = to >= 0
    if not known.any():
        raise InvalidInputError(
            f"none of the {len(names)} features of the data is one of the model's: "
            f"{names[0]!r} …, but the model has {wanted[0]!r} …"
        )
    lost = counts[:, np.flatnonzero(~known)]
    if lost.shape[1]:
        say(
            f"note: {lost.shape[1]} features that the model does not know are left out, with "
            f"{float(lost.sum()) / max(float(counts.sum()), 1.0):.2%} of all counts"
        )
    kept = counts[:, np.flatnonzero(known)].tocoo()
    return sp.csr_array(
        (kept.data, (kept.coords[0], to[known][kept.coords[1]])),
        shape=(counts.shape[0], len(wanted)),
    )


def name_samples(table: Table) -> list[str]:
    """Names of samples, or their numbers."""
    if table.sample_names is not None:
        return [str(name) for name in table.sample_names]
    return [str(n) for n in range(table.counts.shape[0])]
