"""Estimators in files: `save`, `load`, and `resume` after a fit was killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import gapmf.storage as storage
from gapmf import __version__
from gapmf.em.history import HISTORY
from gapmf.em.layouts import draws_layout
from gapmf.em.maximum import Certificate
from gapmf.em.state import pack_model, unpack_model, unpack_rng
from gapmf.errors import InvalidInputError
from gapmf.layout import check_layout
from gapmf.storage.checkpoint import Checkpoint, read_checkpoint
from gapmf.types import Tree
from gapmf.validation import shorten

Est = TypeVar("Est")

_PLAIN = {"rank_": int, "n_iter_": int, "converged_": bool, "log_likelihood_": float}
_HEAD = {"parameters": dict, "data": str, "state": dict, "finished": bool}
_MAY_CHANGE = ("n_jobs", "verbose", "callbacks", "checkpoint")


class Saving:
    """The part of `GammaPoissonMF` that goes into files and comes out of them.

    A file holds arrays and JSON, never code: see docs/file-format.md.
    """

    get_params: Any
    model_: Any
    _begin: Any
    _run: Any
    checkpoint: Any

    def save(self, path: Any) -> None:
        """Write the fitted estimator to one file, at exactly that path.

        All parameters are kept but `callbacks`, and a `random_state` that is a generator. An
        earlier file is replaced at once, when the new one is complete.

        Parameters
        ----------
        path : str or path

        Examples
        --------
        >>> import os, tempfile
        >>> from gapmf import GammaPoissonMF
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [0, 2], [3, 1]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     est.save(os.path.join(folder, "counts.gapmf"))
        ...     again = GammaPoissonMF.load(os.path.join(folder, "counts.gapmf"))
        >>> bool((again.components_ == est.components_).all())
        True
        """
        check_is_fitted(self, "model_")
        content = {"parameters": pack_parameters(self), "fitted": pack_fitted(self)}
        storage.write(path, "model", content, version=__version__)

    @classmethod
    def load(cls, path: Any) -> Self:
        """An estimator from the file that `save` wrote. It gives the same answers, bit by bit.

        Parameters
        ----------
        path : str or path

        Examples
        --------
        >>> import os, tempfile
        >>> from gapmf import GammaPoissonMF
        >>> est = GammaPoissonMF(1, random_state=0).fit([[4, 1], [0, 2], [3, 1]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     est.save(os.path.join(folder, "counts.gapmf"))
        ...     again = GammaPoissonMF.load(os.path.join(folder, "counts.gapmf"))
        >>> again.n_components
        1
        """
        content = storage.read(path, "model")
        with _unpacking(path):
            return unpack_fitted(cls(**unpack_parameters(content)), content["fitted"])

    @classmethod
    def resume(cls, path: Any, X: Any, *, sample_weight: Any = None, **changes: Any) -> Self:
        """Go on with a fit that was killed, from its checkpoint: to the same bits.

        Parameters
        ----------
        path : str or path
            The `checkpoint` of the fit, which is written further on.
        X, sample_weight : as they were given to `fit`
        **changes
            New values for `n_jobs`, `verbose`, `callbacks` or `checkpoint`, which change nothing
            in the result.

        Examples
        --------
        >>> import os, tempfile
        >>> from gapmf import GammaPoissonMF
        >>> X = [[4, 1], [0, 2], [3, 1]]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "fit.checkpoint")
        ...     est = GammaPoissonMF(1, random_state=0, checkpoint=path).fit(X)
        ...     again = GammaPoissonMF.resume(path, X)  # it had ended
        >>> bool((again.components_ == est.components_).all())
        True
        """
        unknown = sorted(set(changes) - set(_MAY_CHANGE))
        if unknown:
            raise InvalidInputError(
                f"resume cannot change {unknown[0]}: only {', '.join(_MAY_CHANGE)}, which change "
                "nothing in the result"
            )
        content = read_checkpoint(path, version=__version__)
        with _unpacking(path):
            check_layout({name: content[name] for name in _HEAD}, _HEAD, "content")
            parameters = unpack_parameters(content) | {"checkpoint": path} | changes
            est, state = cls(**parameters), content["state"]
        task = est._begin(X, sample_weight)
        if task.fingerprint() != content["data"]:
            raise InvalidInputError(
                f"X (or sample_weight) is not what the fit of {path} was given: resume needs the "
                "same samples in the same order"
            )
        with _unpacking(path):
            if content["finished"]:
                return unpack_fitted(est, state["fitted"])
            if task.settings.monte_carlo and state["walk"] is not None:
                check_layout(state, draws_layout(task.settings, task.counts), "state")
                unpack_model(state["walk"]["model"])
            else:
                check_layout(state, {"rng": dict, "walk": type(None)}, "state")
            rng = unpack_rng(state["rng"])
        head = {"parameters": content["parameters"], "data": content["data"]}
        checkpoint = None
        if est.checkpoint is not None:
            checkpoint = Checkpoint(est.checkpoint, head, version=__version__, resumed=True)
        resumed: Self = est._run(task, rng, checkpoint, state if state["walk"] else None)
        return resumed


@contextmanager
def _unpacking(path: Any) -> Iterator[None]:
    """Whatever is missing or of another kind in a file that could be read is the file's fault."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise storage.StorageError(
            f"{path} is a gapmf file, but what it holds does not fit together ({error}): it was "
            "not written by this version of gapmf; load a copy of it, or fit anew"
        ) from error


def pack_parameters(est: Any) -> Tree:
    """What the constructor was given, as far as a file can hold it."""
    given = est.get_params(deep=False)
    given["callbacks"] = given["checkpoint"] = None
    if not isinstance(given["random_state"], (int, np.integer)):
        given["random_state"] = None
    return {name: _plain(value) for name, value in given.items()}


def unpack_parameters(content: Tree) -> Tree:
    """Parameters for the constructor: a fit checks them, but for these."""
    parameters = dict(content["parameters"])
    for name in ("warm_start", "verbose"):
        if not isinstance(parameters[name], int):
            raise TypeError(f"{name} is {shorten(parameters[name])}")
    return parameters


def _plain(value: Any) -> Any:
    """A value that a file can hold: numbers and text as they are, the rest as an array."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return np.asarray(value, dtype=float)


def pack_fitted(est: Any) -> Tree:
    """Everything that a fit has left."""
    tree: Tree = {
        name: kind(getattr(est, name)) for name, kind in _PLAIN.items() if hasattr(est, name)
    }
    if hasattr(est, "feature_names_in_"):
        tree["feature_names_in_"] = est.feature_names_in_.astype(str)
    if hasattr(est, "certificate_"):
        tree["certificate_"] = dict(vars(est.certificate_))
    return tree | {
        "model_": pack_model(est.model_),
        "history_": dict(est.history_),
        "feature_counts_": est.feature_counts_,
        "seed": est._seed,
    }


def unpack_fitted(est: Est, tree: Tree) -> Est:
    """The estimator, fitted."""
    fitted: Any = est
    model = fitted.model_ = unpack_model(tree["model_"])
    fitted.components_ = model.W.T.copy()
    fitted.alpha_ = model.alpha.copy()
    for name, kind in _PLAIN.items():
        if name in tree:
            setattr(fitted, name, _of_kind(tree[name], kind))
    fitted.n_features_in_ = model.n_features
    fitted.feature_counts_ = _of_shape(tree["feature_counts_"], model.n_features)
    if "feature_names_in_" in tree:
        names = _of_shape(tree["feature_names_in_"], model.n_features)
        fitted.feature_names_in_ = names.astype(str).astype(object)
    if "certificate_" in tree:
        fitted.certificate_ = Certificate(**tree["certificate_"])
    fitted.history_ = {name: _of_shape(tree["history_"][name], fitted.n_iter_) for name in HISTORY}
    fitted._seed = _of_kind(tree["seed"], int)
    fitted._interrupted = False
    return est


def _of_kind(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


def _of_shape(value: Any, length: int) -> NDArray[Any]:
    if not isinstance(value, np.ndarray) or value.shape[:1] != (length,):
        raise TypeError(f"{shorten(value)} is not an array of length {length}")
    return value
