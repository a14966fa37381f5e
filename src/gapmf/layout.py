"""What a tree read from a file must look like, said before anything is made of it.

A file with the right checksums may still hold anything: a layout says which names, kinds and
shapes there must be, and how large numbers may be.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gapmf.validation import shorten

MANY = 2**53


class Whole(NamedTuple):
    """A whole number."""

    least: int = 0
    most: int = MANY


class Number(NamedTuple):
    """A finite number."""

    least: float = -math.inf
    most: float = math.inf


class Numbers(NamedTuple):
    """An array of finite numbers, or of whole ones, all at least so large.

    A length that is a name may be any, but the same wherever the name is.
    """

    shape: tuple[int | str, ...]
    least: float = -math.inf
    whole: bool | None = False  # or None, if they may be
    finite: bool = True
    unsigned: bool = False


class Maybe(NamedTuple):
    """Something, or None."""

    layout: Any


def check_layout(
    value: Any, layout: Any, where: str, lengths: dict[str, int] | None = None
) -> None:
    """Raise a TypeError that names the first place in which value is not as the layout says.

    A layout is a type, one of the above, a list of layouts, or a dictionary of them. `lengths` are
    those that have names.
    """
    lengths = {} if lengths is None else lengths
    match layout:
        case dict():
            if not isinstance(value, dict) or value.keys() != layout.keys():
                raise _mismatch(value, where, f"the entries {', '.join(layout)}")
            for name, inner in layout.items():
                check_layout(value[name], inner, f"{where}.{name}", lengths)
        case list():
            if not isinstance(value, list) or len(value) != len(layout):
                raise _mismatch(value, where, f"a list of {len(layout)}")
            for i, inner in enumerate(layout):
                check_layout(value[i], inner, f"{where}[{i}]", lengths)
        case Maybe(inner):
            if value is not None:
                check_layout(value, inner, where, lengths)
        case Numbers():
            _check_numbers(value, layout, where, lengths)
        case Whole(least, most):
            if type(value) is not int or not least <= value <= most:
                raise _mismatch(value, where, f"a whole number from {least} to {most}")
        case Number(least, most):
            if type(value) is not float or not least <= value <= most or math.isinf(value):
                raise _mismatch(value, where, f"a finite number from {least:g} to {most:g}")
        case _:
            if type(value) is not layout:
                name = "nothing" if layout is type(None) else layout.__name__
                raise _mismatch(value, where, name)


def _check_numbers(value: Any, layout: Numbers, where: str, lengths: dict[str, int]) -> None:
    kind = "whole numbers" if layout.whole else "numbers"
    kinds = "u" if layout.unsigned else {True: "i", False: "f", None: "if"}[layout.whole]
    right = isinstance(value, np.ndarray) and value.dtype.kind in kinds
    if not right or value.ndim != len(layout.shape):
        raise _mismatch(value, where, f"an array of {kind} with {len(layout.shape)} axes")
    shape = tuple(
        lengths.setdefault(wanted, length) if isinstance(wanted, str) else wanted
        for wanted, length in zip(layout.shape, value.shape, strict=True)
    )
    if value.shape != shape:
        raise _mismatch(value, where, f"an array of shape {shape}, not {value.shape}")
    if layout.finite and not (np.isfinite(value).all() and (value >= layout.least).all()):
        raise _mismatch(value, where, f"an array of finite {kind} from {layout.least:g}")


def _mismatch(value: Any, where: str, wanted: str) -> TypeError:
    return TypeError(f"{where} must be {wanted}, but is {shorten(value)}")
