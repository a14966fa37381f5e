"""What an experiment is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapmf.reproduce.outcome import Outcome
from gapmf.reproduce.pieces import Workshop


@dataclass(frozen=True)
class Order:
    """What a user asks for besides the name of a figure."""

    seed: int = 0
    data: Path | None = None
    """A folder with the NIPS counts."""
    until: int | None = None
    """Iterations at most."""


@dataclass(frozen=True)
class Experiment:
    """A figure.

    Attributes
    ----------
    title : str
    full, quick
        Two configurations: the whole protocol, and one of some seconds.
    run : callable
        From a configuration, an order and a workshop to the numbers.
    draw : callable
        From the numbers to a figure.
    needs_nips : bool
        Whether `Order.data` must have the NIPS counts.
    """

    title: str
    full: Any
    quick: Any
    run: Callable[[Any, Order, Workshop], Outcome]
    draw: Callable[[Outcome], Any]
    needs_nips: bool = False
