"""What a checkpoint holds is checked before anything is made of it."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from gapmf.em.state import pack_rng, unpack_rng
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gapmf import GammaPoissonMF, GaP, checkpoint, storage
from gapmf.errors import GapmfError, StorageError
from gapmf.layout import Maybe, Number, Numbers, Whole, check_layout

FITS = {
    "adaptive": {},
    "alpha": {"learn_alpha": True},
    "saem": {"schedule": "saem", "learn_alpha": "shared"},
    "paper": {"schedule": "paper", "n_draws": 2, "n_burn_in": 1},
    "starts": {"n_init": 2, "init": "random"},
    "exact": {"algorithm": "exact"},
}
X = GaP(np.random.default_rng(0).gamma(0.3, 10.0, (5, 2)), alpha=0.5).sample(12, random_state=0)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """What the checkpoints of fits that were killed hold."""
    found = {}
    folder = tmp_path_factory.mktemp("checkpoints")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
        patch.setattr(checkpoint, "_SHARE", 0.0)
        for name, given_ in FITS.items():
            seen = []

            def kill(record, seen=seen):
                seen.append(record)
                if len(seen) == 25:
                    raise ZeroDivisionError

            path = folder / name
            est = GammaPoissonMF(
                2, **given_, max_iter=30, random_state=0, callbacks=[kill], checkpoint=path
            )
            try:
                est.fit(X)
            except ZeroDivisionError:
                found[name] = storage.read(path, "checkpoint")
    assert len(found) >= 5
    return found


def leaves(tree, way=()):
    """The ways to all that a tree holds, and to the branches."""
    yield way
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for name, node in items:
        if isinstance(node, (dict, list)):
            yield from leaves(node, (*way, name))
        else:
            yield (*way, name)


def with_change(tree, way, value):
    tree = copy.deepcopy(tree)
    node = tree
    for name in way[:-1]:
        node = node[name]
    if value is REMOVED:
        del node[way[-1]]
    else:
        node[way[-1]] = value
    return tree


REMOVED = object()
ODD = [
    REMOVED, None, True, 0, -1, 1, 10**30, 0.5, -2.0, float("nan"), "", "text", [], {}, [1, "a"],
    np.zeros(0), np.zeros((2, 2)), np.full((5, 2), np.nan), np.array(["a", "b"]),
    np.full((5, 2), 1e300), np.full((12, 2), 7), np.zeros((5, 2)), np.full(2, -1.0),
]  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_forged_checkpoints_give_an_error_of_ours_or_a_fit(checkpoints, data, tmp_path_factory):
    content = checkpoints[data.draw(st.sampled_from(sorted(checkpoints)))]
    ways = [way for way in leaves(content) if way and way[0] != "data"]
    way = data.draw(st.sampled_from(ways))
    value = data.draw(st.sampled_from(ODD))
    assume(way[0] != "parameters" or not isinstance(value, (int, float)))  # may ask for years
    path = tmp_path_factory.mktemp("forged") / "fit"
    storage.write(path, "checkpoint", with_change(content, way, value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of fits that have not converged
        try:
            est = GammaPoissonMF.resume(path, X)
        except GapmfError:
            return
    assert np.isfinite(est.components_).all()


def test_where_and_what_is_said(checkpoints, tmp_path):
    content = with_change(checkpoints["adaptive"], ("state", "walk", "pace", "n_draws"), 0)
    storage.write(tmp_path / "fit", "checkpoint", content)
    with pytest.raises(
        StorageError, match=r"state\.walk\.pace\.n_draws must be a whole number from 1 .*is 0"
    ):
        GammaPoissonMF.resume(tmp_path / "fit", X)


@pytest.mark.parametrize(
    ("value", "layout", "match"),
    [
        (True, Whole(), "whole number"),
        (3, Whole(4, 5), "from 4 to 5, but is 3"),
        (float("nan"), Number(), "finite"),
        (1, Number(), "finite"),
        ([1], [Whole(), Whole()], "a list of 2"),
        ({"a": 1}, {"b": Whole()}, "the entries b"),
        ({"a": "1"}, {"a": Whole()}, r"x\.a must be"),
        (np.zeros(3), Numbers((2,)), "shape"),
        (np.zeros(3), Numbers((3,), 1.0), "from 1"),
        (np.zeros(3), Numbers((3,), whole=True), "whole"),
        (np.array([np.inf]), Numbers((1,)), "finite"),
        ([np.zeros(3), np.zeros(2)], [Numbers(("T",)), Numbers(("T",))], r"x\[1\]"),
        (0, type(None), "nothing"),
        (1, bool, "bool"),
    ],
)
def test_what_does_not_fit(value, layout, match):
    with pytest.raises(TypeError, match=match):
        check_layout(value, layout, "x")


def test_what_fits():
    value = {"a": None, "b": [np.zeros((3, 2)), 1], "c": 0.5, "d": np.zeros(3, int)}
    layout = {
        "a": Maybe(Whole()),
        "b": [Numbers(("T", 2)), Whole()],
        "c": Number(0.0, 1.0),
        "d": Numbers(("T",), whole=None),
    }
    check_layout(value, layout, "x")


@pytest.mark.parametrize(
    ("way", "value"),
    [
        (("data",), REMOVED),
        (("data",), np.zeros(3)),
        (("finished",), np.zeros(2)),
        (("state", "history", "n_sweeps"), np.full(24, 2**64 - 1, dtype=np.uint64)),
        (("state", "rng", "bit_generator"), "MT19937"),
        (("state", "rng", "has_uint32"), 7),
        (("state", "walk", "model", "W"), np.full((5, 2), 1e308)),
        (("state", "L"), np.full((12, 2), 7)),
    ],
)
def test_forged_places(checkpoints, way, value, tmp_path):
    """Errors of ours, and the file is kept."""
    path = tmp_path / "fit"
    storage.write(path, "checkpoint", with_change(checkpoints["adaptive"], way, value))
    with pytest.raises(GapmfError):
        GammaPoissonMF.resume(path, X)
    assert path.exists()


@pytest.mark.parametrize(
    ("name", "way", "value"),
    [
        ("MT19937", ("state", "pos"), 2**30),
        ("MT19937", ("state", "key"), np.zeros(3, dtype=np.uint64)),
        ("Philox", ("buffer_pos",), -(2**30)),
        ("Philox", ("buffer",), np.zeros(1, dtype=np.uint64)),
        ("SFC64", ("state", "state"), np.zeros(1, dtype=np.uint64)),
        ("PCG64", ("uinteger",), 2**40),
        ("PCG64DXSM", ("state", "inc"), -1),
    ],
)
def test_forged_generators(name, way, value):
    """NumPy reads beyond its arrays where these say so."""
    tree = pack_rng(np.random.Generator(getattr(np.random, name)(1)))
    np.testing.assert_array_equal(
        unpack_rng(tree).integers(2**60, size=5),
        np.random.Generator(getattr(np.random, name)(1)).integers(2**60, size=5),
    )
    with pytest.raises(TypeError, match="rng"):
        unpack_rng(with_change(tree, way, value))
