"""Warnings on standard error, and counts that are read for a model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.cli.options import echo
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.io import Table, read


@contextmanager
def echo_warnings(*, quiet: bool = False) -> Iterator[None]:
    """Print each distinct warning as one line on standard error, unless `quiet`."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in seen):
        if not quiet:
            echo(f"note: {message}")


def read_for(est: GammaPoissonMF, path: Path, options: dict[str, Any]) -> Table:
    """Read counts, with their features in the order of the model's."""
    with echo_warnings():
        table = read(path, **options)
    names = getattr(est, "feature_names_in_", None)
    if names is not None and table.feature_names is not None:
        return table._replace(
            counts=align(table.counts, table.feature_names, names), feature_names=names
        )
    if table.counts.shape[1] != est.n_features_in_:
        raise InvalidInputError(
            f"{path} has {table.counts.shape[1]} features, but the model has "
            f"{est.n_features_in_}: use the same features in the same order, or give names to both"
        )
    return table


def align(counts: sp.csr_array, names: Any, wanted: Any) -> sp.csr_array:
    """Select and order columns by name. Unknown features are dropped, with a note."""
    if len(names) == len(wanted) and (names == wanted).all():
        return counts
    names, wanted = ([name.strip() for name in listed] for listed in (names, wanted))
    for which, listed in (("data", names), ("model", wanted)):
        if len(set(listed)) < len(listed):
            raise InvalidInputError(
                f"the features of data and model differ, and cannot be matched by name, because "
                f"the {which} has duplicate names: make them unique"
            )
    position = {name: f for f, name in enumerate(wanted)}
    to = np.array([position.get(name, -1) for name in names])
    known = to >= 0
    if not known.any():
        raise InvalidInputError(
            f"the model knows none of the {len(names)} features of the data: these begin with "
            f"{names[0]!r}, but those of the model begin with {wanted[0]!r}"
        )
    lost = counts[:, np.flatnonzero(~known)]
    if lost.shape[1]:
        echo(
            f"note: features that the model does not know are left out: {lost.shape[1]} of "
            f"{len(names)}, with {float(lost.sum()) / (float(counts.sum()) or 1.0):.2%} of counts"
        )
    kept = counts[:, np.flatnonzero(known)].tocoo()
    return sp.csr_array(
        (kept.data, (kept.coords[0], to[known][kept.coords[1]])),
        shape=(counts.shape[0], len(wanted)),
    )


def name_samples(table: Table) -> list[str]:
    """Return the names of samples, or their numbers."""
    if table.sample_names is not None:
        return [str(name) for name in table.sample_names]
    return [str(n) for n in range(table.counts.shape[0])]
