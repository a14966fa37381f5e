"""Sentences of docs/reproduction.md that depend on how results come out."""

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True)
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    yield
    for name in [name for name in sys.modules if name.startswith("reproduction_pages")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("p", "ratio", "words"),
    [
        ((0.01, 0.02), (1.2, 1.4), "MCEM-C is marginally faster indeed: in the median over 10"),
        ((0.01, 0.30), (1.2, 1.1), "MCEM-C is marginally faster than MCEM-H; for the other one"),
        ((0.40, 0.30), (1.2, 1.1), "That MCEM-C is faster is not seen in 10 data sets"),
        ((0.01, 0.02), (0.8, 0.9), "That MCEM-C is faster is not seen in 10 data sets"),
    ],
)
def test_the_verdict_on_v1_follows_the_numbers(p, ratio, words):
    from reproduction_pages.synthetic import verdict

    sets = {"mcem-c": {"runs": 10}}
    for name, its_p, its_ratio in zip(("mcem-h", "mcem-ch"), p, ratio, strict=True):
        quartiles = [its_ratio] * 5
        sets[name] = {"p_of_no_difference": its_p, "iterations_relative_to_mcem_c": quartiles}
    assert verdict(sets).startswith(words)
    assert f"MCEM-H needs {ratio[0]} times" in verdict(sets)


@pytest.mark.parametrize(
    ("gaps", "words"),
    [
        ([0.001, 0.002], "0.001 to 0.002 above it"),
        ([-0.001, -0.002], "0.001 to 0.002 below it"),
        ([-0.001, 0.002], "from 0.001 below it to 0.002 above it"),
    ],
)
def test_differences_in_words(gaps, words):
    from reproduction_pages.words import ahead_by

    assert ahead_by(gaps) == words
    if min(gaps) < 0 < max(gaps):
        assert ahead_by(gaps, "MCEM-C", "nats") == "from 0.001 nats below MCEM-C to 0.002 above it"


def test_lists_and_numbers():
    from reproduction_pages.words import between, count, listed, number, ordinal, paired

    assert [ordinal(n) for n in (1, 6, 10, 12)] == ["first", "sixth", "tenth", "12th"]
    assert [count(n, 6) for n in (0, 2, 6)] == ["none of 6", "2 of 6", "all 6"]
    assert [listed(["a"]), listed(["a", "b", "c"])] == ["a", "a, b and c"]
    assert between([-0.0021, 0.4]) == "−0.0021 to 0.4"
    assert [number(x, 2) for x in (-1.5e-6, 0.0213, 1234.0, None)] == [
        "−1.5·10⁻⁶", "0.021", "1,234", "never"
    ]  # fmt: skip
    rows = [
        {"algorithm": a, "seed": seed, "x": x}
        for a, seed, x in (
            ("a", 0, 5.0),
            ("b", 0, 2.0),
            ("a", 1, 7.0),
            ("b", 1, 1.0),
            ("a", 2, 0.0),
        )
    ]
    assert paired(rows, ("seed",), "x", "a", "b") == [3.0, 6.0]
