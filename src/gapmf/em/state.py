"""What a fit is made of as trees of plain values and arrays, and back: bit by bit the same."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gapmf.em.gain import Point
from gapmf.engines.base import Statistics
from gapmf.errors import InvalidInputError
from gapmf.layout import Numbers, Whole, check_layout
from gapmf.model import GaP
from gapmf.types import Tree

# NumPy does not check what it is given as a state, and may read elsewhere.
_HALF = {"has_uint32": Whole(0, 1), "uinteger": Whole(0, 2**32 - 1)}
_PCG = {
    "bit_generator": str,
    "state": {"state": Whole(0, 2**128), "inc": Whole(0, 2**128)},
    **_HALF,
}
_WORDS = partial(Numbers, whole=True, unsigned=True)
_BIT_GENERATORS: dict[str, Any] = {
    "PCG64": _PCG,
    "PCG64DXSM": _PCG,
    "MT19937": {"bit_generator": str, "state": {"key": _WORDS((624,)), "pos": Whole(0, 624)}},
    "Philox": {
        "bit_generator": str,
        "state": {"counter": _WORDS((4,)), "key": _WORDS((2,))},
        "buffer": _WORDS((4,)),
        "buffer_pos": Whole(0, 4),
        **_HALF,
    },
    "SFC64": {"bit_generator": str, "state": {"state": _WORDS((4,))}, **_HALF},
}


def pack_model(model: GaP) -> Tree:
    """W, α and β."""
    return {"W": model.W, "alpha": model.alpha, "beta": model.beta}


def unpack_model(tree: Tree) -> GaP:
    """The model."""
    return GaP(tree["W"], tree["alpha"], tree["beta"])


def pack_statistics(s: Statistics | None) -> Tree | None:
    """The sums of an E-step, if there are any."""
    return None if s is None else dict(vars(s))


def unpack_statistics(tree: Tree | None) -> Statistics | None:
    """The sums."""
    return None if tree is None else Statistics(**tree)


def pack_point(point: Point | None) -> Tree | None:
    """A model and its statistics, if there are any."""
    if point is None:
        return None
    return {
        "model": pack_model(point.model),
        "statistics": pack_statistics(point.statistics),
        "n_draws": point.n_draws,
    }


def unpack_point(tree: Tree | None) -> Point | None:
    """The point."""
    if tree is None:
        return None
    statistics = unpack_statistics(tree["statistics"])
    assert statistics is not None
    return Point(unpack_model(tree["model"]), statistics, tree["n_draws"])


def pack_rng(rng: np.random.Generator) -> Tree:
    """The state of a generator."""
    return _with_arrays_of(np.uint64, rng.bit_generator.state)


def unpack_rng(tree: Tree) -> np.random.Generator:
    """A generator that goes on from there."""
    name = tree["bit_generator"]
    if name not in _BIT_GENERATORS:
        raise InvalidInputError(f"there is no bit generator {name!r}")
    check_layout(tree, _BIT_GENERATORS[name], "rng")
    bits = getattr(np.random, name)()
    bits.state = _with_arrays_of(np.uint32, tree) if name == "MT19937" else tree
    return np.random.Generator(bits)


def _with_arrays_of(dtype: type[np.unsignedinteger[Any]], tree: Mapping[str, Any]) -> Tree:
    """A copy of a tree in which all arrays have one dtype."""
    return {
        name: _with_arrays_of(dtype, node)
        if isinstance(node, dict)
        else (node.astype(dtype) if isinstance(node, np.ndarray) else node)
        for name, node in tree.items()
    }
