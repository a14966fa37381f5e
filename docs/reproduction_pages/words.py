"""Results as numbers, words, tables and sections."""

from __future__ import annotations

import csv
import json
import re
import textwrap
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).parents[1] / "figures"
NAMES = {"mcem-c": "MCEM-C", "mcem-h": "MCEM-H", "mcem-ch": "MCEM-CH"}
OTHERS = ("mcem-h", "mcem-ch")


def head(name: str) -> dict:
    """Return the JSON file of a figure."""
    return json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8"))


def rows(name: str) -> list[dict]:
    """Return the rows of a CSV file, with numbers where they are numbers."""
    with (FIGURES / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return [{key: _value(cell) for key, cell in row.items()} for row in csv.DictReader(file)]


def _value(cell: str) -> Any:
    try:
        return float(cell)
    except ValueError:
        return cell


def number(x: float | None, digits: int = 3) -> str:
    """Return a number with so many significant digits, and "never" for an infinite one."""
    if x is None:
        return "never"
    if x != 0 and abs(x) < 1e-4:
        mantissa, exponent = f"{x:.{digits - 1}e}".split("e")
        small = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return minus(f"{mantissa}·10{small}")
    return minus(f"{x:,.0f}" if abs(x) >= 10 ** (digits - 1) else f"{x:.{digits}g}")


def minus(text: str) -> str:
    """Return a number with a proper minus sign."""
    return text.replace("-", "−")


def percent(x: float, digits: int = 2) -> str:
    """Return a fraction in per cent."""
    return f"{number(100 * x, digits)} %"


def between(values: list[float], digits: int = 3) -> str:
    """Return "smallest to largest", or one number if they look the same."""
    low, high = number(min(values), digits), number(max(values), digits)
    return low if low == high else f"{low} to {high}"


def several(n: int, what: str, plural: str = "") -> str:
    """Return "one chain" or "10 chains"."""
    return f"one {what}" if n == 1 else f"{n:,} {plural or what + 's'}"


def data_sets(n: int) -> str:
    """Return how many data sets there are."""
    return several(n, "data set")


def ordinal(n: int) -> str:
    """Return "first", "second" … "tenth", "11th"."""
    names = [
        "first",
        "second",
        "third",
        "fourth",
        "fifth",
        "sixth",
        "seventh",
        "eighth",
        "ninth",
        "tenth",
    ]
    return names[n - 1] if n <= len(names) else f"{n}th"


def count(n: int, of: int) -> str:
    """Return "none of 6", "2 of 6" or "all 6"."""
    return f"all {of}" if 0 < n == of else f"{n or 'none'} of {of}"


def listed(parts: list[str]) -> str:
    """Return "a, b and c"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def spread(quartiles: list | None, digits: int = 3) -> str:
    """Return "median (lower quartile – upper quartile)", or the value if there is only one."""
    if quartiles is None:
        return "–"
    _, low, middle, high, _ = (number(x, digits) for x in quartiles)
    if quartiles[0] == quartiles[-1]:
        return middle
    return f"{middle} ({low} – {high})"


def extremes(quartiles: list, digits: int = 2) -> str:
    """Return minimum, quartiles and maximum, or the value if there is only one."""
    if quartiles[0] == quartiles[-1]:
        return number(quartiles[0], digits)
    return " · ".join(number(x, digits) for x in quartiles)


def paired(table: list[dict], keys: tuple[str, ...], column: str, a: str, b: str) -> list[float]:
    """Return the difference a − b of a column, for all rows of two algorithms with the same keys."""
    of: dict[str, dict] = {a: {}, b: {}}
    for row in table:
        if row["algorithm"] in of:
            of[row["algorithm"]][tuple(row[key] for key in keys)] = row[column]
    return [of[a][key] - of[b][key] for key in of[a] if key in of[b]]


def table(columns: list[str], lines: list[list]) -> str:
    """Return a Markdown table."""
    text = [columns, ["---"] * len(columns), *lines]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in text)


def section(name: str, title: str, command: str, alt: str, *paragraphs: str) -> str:
    """Return the section of a figure; it says how many results are missing."""
    content = head(name)
    missing = content.get("results_missing", 0)
    parts = [f"## {name}: {title}", f"`{command}`", f"![{alt}](figures/{name}.png)", *paragraphs]
    if "note" in content:
        parts.append(f"*{content['note']}*")
    if missing:
        parts.append(
            f"*Not complete: {missing} or more results of this protocol have not been computed yet. "
            "What is shown is what was run.*"
        )
    return "\n\n".join(wrapped(part) for part in parts if part)


def wrapped(text: str) -> str:
    """Return a paragraph in lines of the width of other pages; tables and links as they are."""
    if text.startswith(("|", "!", "#", "`")):
        return text
    indent = "  " if text.startswith("- ") else ""
    lines = textwrap.fill(
        text, 125, break_long_words=False, break_on_hyphens=False, subsequent_indent=indent
    )
    # A line that begins with % would be a comment: its number goes with it.
    return re.sub(r" (\S+)\n( *)(%)", r"\n\2\1 \3", lines)


def ahead_by(gaps: list[float], what: str = "it", unit: str = "") -> str:
    """Return differences to something in words."""
    unit = f" {unit}" if unit else ""
    if min(gaps) >= 0:
        return f"{between(gaps, 2)}{unit} above {what}"
    if max(gaps) <= 0:
        return f"{between([-x for x in gaps], 2)}{unit} below {what}"
    return f"from {number(-min(gaps), 2)}{unit} below {what} to {number(max(gaps), 2)} above it"
