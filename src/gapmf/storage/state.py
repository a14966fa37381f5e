"""Objects as trees that `archive` can write, and back, by their type hints.

The hints are the check of what was read: nothing but the classes that they name is called.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from gapmf.validation import shorten

T = TypeVar("T")


def to_tree(value: Any, place: str = "state") -> Any:
    """Convert an object to a tree, in which classes are named and `place` is its name in errors.

    It may be None, bool, int, float, str, an array, a generator on PCG64, an Enum, a list, tuple
    or dict of such objects, or a dataclass, a NamedTuple or an instance of another class whose
    constructor's parameters are annotated attributes.
    """
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.generic):
        return value.item()
    if value is None or type(value) in (bool, int, float, str, np.ndarray):
        return value
    if type(value) in (list, tuple):
        return [to_tree(part, f"{place}[{i}]") for i, part in enumerate(value)]
    if type(value) is dict:
        return {key: to_tree(part, f"{place}.{key}") for key, part in value.items()}
    if isinstance(value, np.random.Generator):
        if type(value.bit_generator) is not np.random.PCG64:
            raise _mismatch(value, place, "a generator on PCG64")
        return value.bit_generator.state
    cls: Any = type(value)
    if (hints := _hints(cls)) is None:
        raise _mismatch(value, place, "plain, or of a class with annotated attributes")
    parts = {name: to_tree(getattr(value, name), f"{place}.{name}") for name in hints}
    return {"class": cls.__name__} | parts


def from_tree(cls: type[T], tree: Any, place: str = "state") -> T:
    """Convert a tree back to an instance of a class.

    A TypeError names the first place where the tree does not fit the hints.
    """
    instance: T = _convert(cls, tree, place)
    return instance


@cache
def _hints(cls: Any) -> dict[str, Any] | None:
    """Return the types of a constructor's parameters, if all are annotated attributes."""
    hints = get_type_hints(cls)
    with suppress(ValueError, KeyError):  # ValueError: many builtins have no signature
        found = {name: hints[name] for name in inspect.signature(cls).parameters}
        return found if found or is_dataclass(cls) else None
    return None


def _convert(hint: Any, tree: Any, place: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _convert_union(hint, tree, place)
    if origin is np.ndarray:
        scalar = get_args(args[1])[0]
        scalar = get_origin(scalar) or scalar
        if type(tree) is np.ndarray and (scalar is Any or np.issubdtype(tree.dtype, scalar)):
            return tree
        raise _mismatch(tree, place, f"an array of {scalar.__name__}")
    if origin is list and type(tree) is list:
        return [_convert(args[0], part, f"{place}[{i}]") for i, part in enumerate(tree)]
    if origin is tuple and type(tree) is list:
        hints = [args[0]] * len(tree) if args[-1] is Ellipsis else args
        if len(hints) == len(tree):
            return tuple(_convert(h, tree[i], f"{place}[{i}]") for i, h in enumerate(hints))
    if origin is dict and type(tree) is dict:
        return {key: _convert(args[1], part, f"{place}.{key}") for key, part in tree.items()}
    if hint is Any or (hint in (bool, int, float, str, NoneType) and type(tree) is hint):
        return tree
    if hint is float and type(tree) is int and abs(tree) <= 2**53:
        return float(tree)  # type checkers take an int for a float, too
    if hint is np.random.Generator:
        return _convert_generator(tree, place)
    if isinstance(hint, type):
        if issubclass(hint, Enum) and type(tree) is str and tree in hint.__members__:
            return hint[tree]
        if type(tree) is dict and tree.get("class", hint.__name__) == hint.__name__:
            return _convert_class(hint, tree, place)
    raise _mismatch(tree, place, str(hint) if origin else getattr(hint, "__name__", str(hint)))


def _convert_union(hint: Any, tree: Any, place: str) -> Any:
    options = [option for option in get_args(hint) if (option is NoneType) == (tree is None)]
    names = [getattr(option, "__name__", str(option)) for option in options]
    if len(options) > 1 and type(tree) is dict and tree.get("class") in names:
        return _convert(options[names.index(tree["class"])], tree, place)
    if len(options) == 1:
        return _convert(options[0], tree, place)
    raise _mismatch(tree, place, " or ".join(names) or str(hint))


def _convert_class(cls: type, tree: dict[str, Any], place: str) -> Any:
    hints = _hints(cls)
    if hints is None or not tree.keys() <= {"class", *hints}:
        raise _mismatch(list(tree), place, f"a {cls.__name__} of {', '.join(hints or ())}")
    found = hints.keys() & tree.keys()
    parts = {name: _convert(hints[name], tree[name], f"{place}.{name}") for name in found}
    try:
        return cls(**parts)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{place} is not valid: {error}") from error


def _convert_generator(tree: Any, place: str) -> np.random.Generator:
    bits = np.random.PCG64(0)
    try:
        bits.state = tree
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        raise _mismatch(tree, place, "the state of a PCG64") from error
    return np.random.Generator(bits)


def _mismatch(value: Any, place: str, wanted: str) -> TypeError:
    is_array = isinstance(value, np.ndarray)
    shown = f"an array of {value.dtype}" if is_array else shorten(value)
    return TypeError(f"{place} must be {wanted}, but is {shown}")
