"""Warnings on standard error; a model and counts that are read for it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf.cli.options import Request, echo
from gapmf.errors import InvalidInputError
from gapmf.estimator import GammaPoissonMF
from gapmf.io import Table, read
from gapmf.output import check_output


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


def load(request: Request) -> tuple[GammaPoissonMF, Table]:
    """Load the model and the data of a command, whose output must be neither."""
    check_output(request.output)
    check_not_input(request.output, data=request.data, model=request.model)
    est = GammaPoissonMF.load(request.model).set_params(n_jobs=request.jobs)
    return est, read_for(est, request.data, request.reading)


def check_not_input(output: Path | None, **inputs: Path | None) -> None:
    """Refuse to write to a file that is read."""
    for name, path in inputs.items():
        if output and path and output.exists() and path.exists() and output.samefile(path):
            raise InvalidInputError(f"{output} is the {name}: name another file for the output")


def read_for(est: GammaPoissonMF, path: Path, options: dict[str, Any]) -> Table:
    """Read counts, with their features in the order of the model's."""
    names = getattr(est, "feature_names_in_", None)
    return read_like(path, options, names, est.n_features_in_, "the model")


def read_like(
    path: Path, options: dict[str, Any], names: Any, n_features: int, owner: str
) -> Table:
    """Read counts, with their features as those of `owner`: by name if both have names."""
    with echo_warnings():
        table = read(path, **options)
    if names is not None and table.feature_names is not None:
        return table._replace(
            counts=align(table.counts, table.feature_names, names), feature_names=names
        )
    if table.counts.shape[1] != n_features:
        raise InvalidInputError(
            f"{path} has {table.counts.shape[1]} features, but {owner} has "
            f"{n_features}: use the same features in the same order, or give names to both"
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
                f"the features of data and model differ, and the {which} has duplicate names, so "
                "that they cannot be matched"
            )
    position = {name: f for f, name in enumerate(wanted)}
    to = np.array([position.get(name, -1) for name in names])
    known = to >= 0
    if not known.any():
        raise InvalidInputError(
            f"none of the {len(names)} features of the data is one of the model's: "
            f"{names[0]!r} …, but the model has {wanted[0]!r} …"
        )
    lost = counts[:, np.flatnonzero(~known)]
    if lost.shape[1]:
        echo(
            f"note: {lost.shape[1]} features that the model does not know are left out, with "
            f"{float(lost.sum()) / max(float(counts.sum()), 1.0):.2%} of all counts"
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
