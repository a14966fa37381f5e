"""Validation of parameters. Error messages say what was expected, what came and what to do."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gapmf.errors import InvalidInputError


def check_dictionary(W: ArrayLike) -> NDArray[np.float64]:
    """Return a read-only float64 copy of W (F, K): finite, non-negative, not empty."""
    array = as_float(W, "W", "a matrix of numbers, features × components")
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidInputError(
            f"W must be 2-D, features × components (F, K), with at least one of each, "
            f"but has shape {array.shape}"
        )
    check_entries(array, "W")
    return frozen(array)


def check_positive(
    value: ArrayLike, n_components: int, name: str, largest: float = 1e100
) -> NDArray[np.float64]:
    """Return a read-only float64 copy of shape (K,) of one number or K numbers, finite and > 0."""
    array = as_float(value, name, f"a number, or {n_components} numbers, one per component")
    if array.shape not in ((), (n_components,)):
        raise InvalidInputError(
            f"{name} has shape {array.shape}, but there are {n_components} components (columns of "
            "W): give one number for all, or one per component"
        )
    bad = ~((array >= 1e-100) & (array <= largest))
    if bad.any():
        place = f"{name}[{int(bad.argmax())}]" if array.ndim else name
        shown = float(array.flat[int(bad.argmax())])
        raise InvalidInputError(
            f"{place} is {shown}: it must be finite and greater than 0 (1e-100 to {largest:g})"
        )
    return frozen(np.broadcast_to(array, (n_components,)))


def check_activations(H: ArrayLike, n_samples: int, n_components: int) -> NDArray[np.float64]:
    """Return H (N, K) as float64: finite and non-negative, with one row per sample."""
    array = as_float(H, "H", "a matrix of numbers, samples × components")
    if array.shape != (n_samples, n_components):
        raise InvalidInputError(
            f"H must have shape {(n_samples, n_components)}, samples × components (N, K), "
            f"but has shape {array.shape}"
        )
    check_entries(array, "H")
    return array


def check_entries(array: NDArray[np.float64], name: str) -> None:
    """Raise an error at the first entry that is infinite, NaN or negative."""
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        place = np.unravel_index(int(bad.argmax()), array.shape)
        where = ", ".join(str(i) for i in place)
        raise InvalidInputError(
            f"{name}[{where}] is {array[place]}: the entries of {name} must be finite and 0 or more"
        )


# Above this, Gamma(α, β) is constant to all digits and differences of log Γ lose all of them.
LARGEST_ALPHA = 1e15


def check_alpha(value: ArrayLike, n_components: int) -> NDArray[np.float64]:
    """Return a read-only float64 copy of alpha of shape (K,)."""
    return check_positive(value, n_components, "alpha", LARGEST_ALPHA)


def check_whole(value: Any, name: str, least: int = 1) -> int:
    """Return an integer that is at least `least`."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise InvalidInputError(f"{name} must be a whole number, {least} or more, but is {value!r}")
    return int(value)


def check_number(
    value: Any, name: str, *, least: float | None = None, above: float | None = None
) -> float:
    """Return a number that is at least `least`, or above `above`; NaN is neither."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    good = number and (least is None or value >= least) and (above is None or value > above)
    if not good:
        bound = f"{least:g} or more" if above is None else f"above {above:g}"
        raise InvalidInputError(f"{name} must be a number, {bound}, but is {value!r}")
    return float(value)


def check_option(value: Any, known: Iterable[str], name: str) -> str:
    """Return `value` if it is one of the known words."""
    known = tuple(known)
    if not isinstance(value, str) or value not in known:
        words = ", ".join(repr(word) for word in known)
        raise InvalidInputError(f"{name} must be one of {words}, but is {value!r}")
    return str(value)


def check_random_state(random_state: Any) -> np.random.Generator:
    """Return a Generator from None, an int, a Generator or a RandomState (which then advances)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.Generator(cast(Any, random_state)._bit_generator)
    whole = isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool)
    if random_state is not None and (not whole or random_state < 0):
        raise InvalidInputError(
            "random_state must be None, a whole number that is 0 or more, a numpy Generator "
            f"or a RandomState, but is {random_state!r}"
        )
    return np.random.default_rng(None if random_state is None else int(random_state))


def own_generator(random_state: Any) -> np.random.Generator:
    """Return the generator of a fit, of the kind whose state a checkpoint can hold."""
    rng = check_random_state(random_state)
    if isinstance(rng.bit_generator, np.random.PCG64):
        return rng
    return np.random.default_rng(int(rng.integers(2**63)))


def as_float(value: ArrayLike, name: str, expected: str) -> NDArray[np.float64]:
    """Return a float64 copy of numbers; text, masks, None and other objects are refused."""
    try:
        array = np.asarray(value)
        objects = () if array.dtype.kind in "buif" else array.flat
        plain = all(isinstance(x, (numbers.Real, Decimal)) for x in objects)
        if not plain or np.ma.is_masked(value):
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        advice = "; use .toarray()" if hasattr(value, "toarray") else ""
        raise InvalidInputError(
            f"{name} must be {expected}, but is {type(value).__name__}: {shorten(value)}{advice}"
        ) from None


def shorten(value: object) -> str:
    """Return the repr of a value, cut to one line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a read-only copy."""
    array = np.array(array, dtype=np.float64, order="C")
    array.setflags(write=False)
    return array
