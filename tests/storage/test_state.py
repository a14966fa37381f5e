"""Objects as trees: the same object comes back, and a tree that does not fit is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple, Optional

import numpy as np
import pytest
from numpy.typing import NDArray

from gapmf.em.gain import EStep
from gapmf.engines.base import Statistics
from gapmf.model import GaP
from gapmf.storage import archive, read
from gapmf.storage.state import from_tree, to_tree


class Phase(Enum):
    MOVE = auto()
    REST = auto()


class Range(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True)
class Paper:
    pass


@dataclass(frozen=True)
class Adaptive:
    n_draws: int
    factors: tuple[NDArray[np.float64], NDArray[np.float64]] | None


@dataclass(frozen=True)
class Saem:
    n_draws: int


@dataclass(frozen=True)
class State:
    model: GaP
    schedule: Adaptive | Saem | Paper
    point: EStep | None
    rng: np.random.Generator
    phase: Phase = Phase.MOVE
    ranges: tuple[Range, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    values: list[float] = field(default_factory=list)
    L: Optional[NDArray[np.int64]] = None  # noqa: UP045
    anything: NDArray[Any] | None = None
    name: str = ""
    done: bool = False
    n_values: int = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "n_values", len(self.values))


MOVING = Adaptive(2, (np.ones((2, 3)), np.array([np.nan, -0.0])))


def make_state(schedule=MOVING):
    model = GaP([[3.0, 0.1], [1.0, 2.0]], alpha=[0.5, 2.0])
    statistics = Statistics(np.ones((2, 2)), np.ones(2), 480.0, sizes=np.ones((2, 4), np.int64))
    rng = np.random.default_rng(3)
    rng.integers(9, dtype=np.int32)  # half a word is left
    return State(
        model, schedule, EStep(model, statistics, 8), rng, Phase.REST,
        (Range(-np.inf, np.float64(0.1)), Range(-0.0, 3.0)), {"sweeps": 2**70},
        [np.nan, -0.0, 5e-324], np.arange(3), np.array([True]), "é", True,
    )  # fmt: skip


@pytest.mark.parametrize("schedule", [MOVING, Adaptive(1, None), Saem(3), Paper()], ids=repr)
def test_round_trip_through_a_file(schedule, tmp_path):
    state = make_state(schedule)
    archive.write(tmp_path / "file", "checkpoint", to_tree(state), version="1")
    found = from_tree(State, read(tmp_path / "file", "checkpoint"))
    assert repr(to_tree(found)) == repr(to_tree(state))
    assert type(found.schedule) is type(schedule)
    assert type(found.ranges[1]) is Range
    assert (found.model, found.phase, found.n_values) == (state.model, Phase.REST, 3)
    assert found.rng.random() == state.rng.random()


def test_an_int_is_a_float_to_type_checkers():
    found = from_tree(Range, to_tree(Range(0, 1)))
    assert repr(found) == "Range(low=0.0, high=1.0)"


REMOVED = object()


@pytest.mark.parametrize(
    ("way", "value", "match"),
    [
        ((), [], r"state must be State, but is \[\]"),
        (("model",), REMOVED, "state is not valid: .*missing .*'model'"),
        (("more",), 1, "state must be a State of model"),
        (("model", "W"), np.ones((2, 2), int), "state.model.W must be an array of float64, but is"),
        (("model", "W"), np.full((2, 2), -1.0), r"state.model is not valid: W\[0, 0\] is -1.0"),
        (("model",), None, "state.model must be GaP, but is None"),
        (("schedule", "class"), "GaP", "state.schedule must be Adaptive or Saem or Paper"),
        (("schedule", "class"), "Saem", "state.schedule must be a Saem of n_draws"),
        (("schedule", "n_draws"), True, "state.schedule.n_draws must be int, but is True"),
        (("schedule", "factors", 1), None, r"state.schedule.factors\[1\] must be an array"),
        (("phase",), "STOP", "state.phase must be Phase, but is 'STOP'"),
        (("ranges", 1, "high"), "x", r"state.ranges\[1\].high must be float, but is 'x'"),
        (("counters", "sweeps"), 0.5, "state.counters.sweeps must be int, but is 0.5"),
        (("L",), np.zeros(2), "state.L must be an array of int64, but is an array of float64"),
        (("rng", "state", "inc"), 2**200, "state.rng must be the state of a PCG64"),
    ],
)
def test_a_tree_that_does_not_fit(way, value, match):
    node = root = {"state": to_tree(make_state())}
    *path, last = ("state", *way)
    for step in path:
        node = node[step]
    node[last] = value
    if value is REMOVED:
        del node[last]
    with pytest.raises(TypeError, match=match):
        from_tree(State, root["state"])


class Untyped:
    def __init__(self, x=1):
        self.x = x


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ({"a": [{1}]}, r"state\.a\[0\] must be plain, or of a class with .*, but is {1}"),
        (Untyped(), "state must be plain"),
        (np.random.Generator(np.random.MT19937(0)), "state must be a generator on PCG64"),
    ],
)
def test_what_has_no_tree(value, match):
    with pytest.raises(TypeError, match=match):
        to_tree(value)
