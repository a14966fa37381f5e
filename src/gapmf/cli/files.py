"""Warnings on standard error, and counts that are read for a model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gapmf.cli.options import echo
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.io import Table, read
from gapmf.io.features import align_features


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
    names = getattr(est, "feature_names_in_", None)
    with echo_warnings():
        table = read(path, **options)
        if names is not None and table.feature_names is not None:
            return align_features(table, names)
    if table.counts.shape[1] != est.n_features_in_:
        raise InvalidInputError(
            f"{path} has {table.counts.shape[1]} features, but the model has "
            f"{est.n_features_in_}: use the same features in the same order, or give names to both"
        )
    return table


def name_samples(table: Table) -> list[str]:
    """Return the names of samples, or their numbers."""
    if table.sample_names is not None:
        return [str(name) for name in table.sample_names]
    return [str(n) for n in range(table.counts.shape[0])]
