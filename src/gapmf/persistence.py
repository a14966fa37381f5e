"""Estimators in files: what a model file and a checkpoint hold.

A file holds arrays and JSON, never code: see docs/file-format.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gapmf.em.averages import Stream
from gapmf.em.history import HISTORY, Certificate
from gapmf.errors import InvalidInputError, StorageError
from gapmf.model import GaP
from gapmf.storage import archive
from gapmf.storage import checkpoint as checkpoint_files
from gapmf.storage.checkpoint import Checkpoint
from gapmf.storage.state import from_tree, to_tree
from gapmf.types import Array, Tree
from gapmf.validation import shorten

if TYPE_CHECKING:
    from gapmf.em.fit_state import FitState

# Parameters that change nothing in the result, so that `resume` may be given others.
MAY_CHANGE = ("n_jobs", "verbose", "callbacks", "checkpoint", "engine")


@dataclass(frozen=True)
class Fitted:
    """The fitted attributes of an estimator, by the names that they have there."""

    model_: GaP
    rank_: int
    n_iter_: int
    converged_: bool
    history_: dict[str, NDArray[Any]]
    feature_counts_: Array
    seed: int
    """The seed of the draws behind `transform` and `score`."""
    feature_names_in_: NDArray[np.str_] | None = None
    log_likelihood_: float | None = None
    certificate_: Certificate | None = None
    interrupted_: bool = False
    activations_: Array | None = None
    exposure_: str | None = None
    """"total" or "given", if the fit had exposures."""
    mean_total_: float | None = None
    """The mean total count of the samples of the fit, with exposure="total"."""
    n_unobserved_: int = 0
    last_gain_: float | None = None
    pseudo_count_: float = 0.0
    stream: Stream | None = None
    """What `partial_fit` goes on from, if the fit was one."""


@dataclass(frozen=True)
class SavedFit:
    """The content of a checkpoint."""

    parameters: Tree
    data: str
    """The fingerprint of the counts."""
    state: FitState | None = None
    """Where the fit is, while it has not ended."""
    fitted: Fitted | None = None
    """The result, when it has."""

    def check_data(self, path: Any, found: str) -> None:
        """Raise unless this is the fingerprint of the fit's data."""
        if found != self.data:
            raise InvalidInputError(
                f"X (or sample_weight, exposure or observed) is not what the fit in {path} was "
                "started with: resume it with the same samples in the same order"
            )


def write_model(path: Any, parameters: Tree, fitted: Fitted, *, version: str) -> None:
    """Write a fitted estimator to one file, at exactly that path."""
    content = {"parameters": plain_parameters(parameters), "fitted": _fitted_tree(fitted)}
    archive.write(path, "model", content, version=version)


def read_model(path: Any) -> tuple[Tree, Fitted]:
    """Read what `write_model` wrote: the constructor's parameters and the fitted attributes."""
    content = archive.read(path, "model")
    with conversion(path):
        return _parameters(content["parameters"]), _fitted(content["fitted"])


def new_checkpoint(
    path: Any, saved: SavedFit, *, version: str, resumed: bool = False
) -> Checkpoint:
    """Return the checkpoint of a fit with these parameters and data."""
    head = {"parameters": plain_parameters(saved.parameters), "data": saved.data}
    return Checkpoint(path, head, version=version, resumed=resumed)


def write_finished(checkpoint: Checkpoint, fitted: Fitted) -> None:
    """Write that the fit has ended, and its result."""
    checkpoint.write(_fitted_tree(fitted), finished=True)


def read_checkpoint(path: Any, changes: Tree, *, version: str) -> SavedFit:
    """Read a checkpoint of this version, and apply changes of parameters that may change."""
    from gapmf.em.fit_state import FitState  # compiled kernels: a model is read without them

    unknown = sorted(set(changes) - set(MAY_CHANGE))
    if unknown:
        raise InvalidInputError(
            f"resume cannot change {unknown[0]}, which may change the result: the parameters that "
            f"may differ are {', '.join(MAY_CHANGE)}"
        )
    content = checkpoint_files.read_checkpoint(path, version=version)
    with conversion(path):
        parameters = _parameters(content["parameters"]) | {"checkpoint": path} | changes
        data, state = content["data"], content["state"]
        if not isinstance(data, str):
            raise TypeError(f"data is {shorten(data)}")
        if content["finished"] is True:
            return SavedFit(parameters, data, fitted=_fitted(state))
        return SavedFit(parameters, data, state=from_tree(FitState, state))


def plain_parameters(parameters: Tree) -> Tree:
    """Return the constructor's parameters as far as a file can hold them."""
    kept = parameters | {"callbacks": None, "checkpoint": None}
    if not isinstance(kept["random_state"], (int, np.integer)):
        kept["random_state"] = None
    if not isinstance(kept.get("engine", "local"), str):
        kept["engine"] = "dask"  # of a client, which is not kept
    return {name: _plain(value) for name, value in kept.items()}


def _plain(value: Any) -> Any:
    """Return numbers and text as they are, the rest as an array."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return np.asarray(value, dtype=float)


def _parameters(tree: Any) -> Tree:
    """Return parameters for the constructor. A fit checks them, but for these two."""
    parameters = dict(tree)
    for name in ("warm_start", "verbose"):
        if not isinstance(parameters[name], int):
            raise TypeError(f"{name} is {shorten(parameters[name])}")
    return parameters


def _fitted_tree(fitted: Fitted) -> Tree:
    tree: Tree = to_tree(fitted)
    return {name: part for name, part in tree.items() if part is not None}


def _fitted(tree: Any) -> Fitted:
    """Return the fitted attributes from a tree, checked against each other."""
    fitted = from_tree(Fitted, tree, "fitted")
    _check_length(fitted.feature_counts_, fitted.model_.n_features, "feature_counts_")
    if fitted.feature_names_in_ is not None:
        _check_length(fitted.feature_names_in_, fitted.model_.n_features, "feature_names_in_")
    if fitted.stream is not None:
        for averages in (fitted.stream.averages, fitted.stream.slow):
            averages.check(fitted.model_.W.shape)
    for name in HISTORY:
        _check_length(fitted.history_[name], fitted.n_iter_, f"history_[{name!r}]")
    return fitted


def _check_length(array: NDArray[Any], length: int, name: str) -> None:
    if array.shape[:1] != (length,):
        raise TypeError(f"{name} has shape {array.shape}, but should have length {length}")


@contextmanager
def conversion(path: Any) -> Iterator[None]:
    """Blame the file for whatever is missing from it or of another type."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StorageError(
            f"{path} cannot be loaded: {error}. It was probably written by another version of "
            "gapmf; use that version, or fit again"
        ) from error
