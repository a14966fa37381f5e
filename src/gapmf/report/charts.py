"""Charts as HTML and SVG, and pictures as PNG, made here so that a report needs no other package.

A chart is as wide as the page. So its shapes are SVG that is stretched, and its text is HTML
beside them, which stays legible on a narrow screen. Colours come from the style sheet.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapmf.report.elements import Html, escape, join, tag
from gapmf.types import Array

# Dark to bright, like Matplotlib's "magma": seen on white and on black.
HEAT = np.array(
    [[10, 8, 32], [70, 22, 105], [136, 44, 122], [200, 66, 106], [245, 122, 94], [252, 238, 190]],
    dtype=float,
)
LINE_POINTS = 200
MAP = (520.0, 425.0)  # about the width and the height of the map of components, in pixels
LETTER = 6.5  # about the width of a letter there
SPACE = "\N{NO-BREAK SPACE}"


def png(pixels: NDArray[np.uint8]) -> str:
    """Return pixels, (height, width) grey or (height, width, 3 or 4), as a PNG in a data URL."""
    height, width = pixels.shape[:2]
    kind = {1: 0, 3: 2, 4: 6}[1 if pixels.ndim == 2 else pixels.shape[2]]
    rows = pixels.reshape(height, -1)
    raw = np.column_stack([np.zeros(height, dtype=np.uint8), rows]).tobytes()  # filter 0: none

    def chunk(name: bytes, data: bytes) -> bytes:
        check = zlib.crc32(name + data)
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
    data += chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


def picture(values: Array, alt: str, **attributes: object) -> Html:
    """Return an image of values (height, width), from dark for 0 to bright for the largest."""
    level = np.asarray(values, dtype=float)
    level = level / (level.max() or 1.0) * (len(HEAT) - 1)
    places = np.arange(len(HEAT))
    colours = np.stack([np.interp(level, places, HEAT[:, i]) for i in range(3)], axis=-1)
    return tag(
        "img", src=png(colours.round().astype(np.uint8)), alt=alt, class_="pixels", **attributes
    )


def svg(*shapes: Html, width: float, height: float, label: str) -> Html:
    """Return shapes that are stretched over all the space that there is."""
    return tag(
        "svg",
        tag("title", label),
        *shapes,
        viewBox=f"0 0 {width:g} {height:g}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def structure(proportions: Array, colours: Sequence[str | None], label: str) -> Html:
    """Return stacked shares: one thin column per sample (M, K), one area per component.

    The area of component k has the class that `colours` gives, or is not drawn if that is None.
    """
    M = len(proportions)
    edges = np.column_stack([np.zeros(M), np.cumsum(proportions, axis=1)])
    edges = (1000 * (1.0 - edges)).round().astype(int)
    shapes = []
    for k, colour in enumerate(colours):
        lower, upper = edges[:, k], edges[:, k + 1]
        if colour is not None and (upper < lower).any():
            path = f"M0 {upper[0]}{_steps(upper)}V{lower[-1]}{_steps_back(lower)}Z"
            shapes.append(tag("path", d=path, class_=colour))
    return svg(*shapes, width=M, height=1000, label=label)


def _steps(values: NDArray[np.int_]) -> str:
    """Return a path from left to right: at each value for one unit."""
    ends = np.append(np.flatnonzero(np.diff(values)) + 1, values.size)
    return "".join(f"H{end}" + (f"V{values[end]}" if end < values.size else "") for end in ends)


def _steps_back(values: NDArray[np.int_]) -> str:
    """Return the same from right to left."""
    ends = np.flatnonzero(np.diff(values)) + 1
    return "".join(f"H{end}V{values[end - 1]}" for end in ends[::-1]) + "H0"


def lines(
    x: Array, curves: Sequence[tuple[Array, str]], *, x_label: str, y_label: str, label: str
) -> Html:
    """Return curves with axes. Each curve has values at x, nan for none, and a class."""
    values = np.concatenate([y[np.isfinite(y)] for y, _ in curves])
    low, high = float(values.min()), float(values.max())
    if high - low <= 1e-9 * max(abs(high), 1e-300):
        low, high = low - 0.5 * abs(low) - 1e-9, high + 0.5 * abs(high) + 1e-9
    y_ticks, x_ticks = nice_ticks(low, high), nice_ticks(float(x[0]), float(x[-1]))
    low, high = min(low, y_ticks[0]), max(high, y_ticks[-1])
    first, width = float(x[0]), max(float(x[-1] - x[0]), 1e-9)
    shapes = []
    for y, colour in curves:
        known = np.flatnonzero(np.isfinite(y))
        if known.size > LINE_POINTS:
            known = known[np.linspace(0, known.size - 1, LINE_POINTS).astype(int)]
        across, down = 1000 * (x[known] - first) / width, 1000 * (high - y[known]) / (high - low)
        points = [f"{a:.0f} {b:.1f}" for a, b in zip(across, down, strict=True)]
        shapes.append(tag("path", d="M" + "L".join(points), class_=f"line {colour}"))
    grid = [(1000 * (high - t) / (high - low)) for t in y_ticks]
    rules = [tag("path", d=f"M0 {y:.1f}H1000", class_="rule") for y in grid]
    plot = svg(*rules, *shapes, width=1000, height=1000, label=label)
    digits = y_ticks[1] - y_ticks[0] if len(y_ticks) > 1 else 1.0
    marks = [
        tag("span", write(t, digits), class_="y", style=f"top:{y / 10:.1f}%")
        for t, y in zip(y_ticks, grid, strict=True)
    ]
    step = x_ticks[1] - x_ticks[0] if len(x_ticks) > 1 else 1.0
    marks += [
        tag("span", write(t, step), class_="x", style=f"left:{100 * (t - first) / width:.1f}%")
        for t in x_ticks
    ]
    axes = tag("div", plot, *marks, class_="axes")
    return tag(
        "div",
        tag("p", y_label, class_="axis"),
        axes,
        tag("p", x_label, class_="axis across"),
        class_="plot",
    )


def nice_ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers from low to high.

    >>> nice_ticks(0.0, 87.0)
    [0.0, 20.0, 40.0, 60.0, 80.0]
    """
    raw = max(high - low, 1e-300) / 5
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= raw * 0.75)
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    return [float(i * step) for i in range(first, last + 1)] or [low]


def write(value: float, step: float) -> str:
    """Write a number with the digits that a step of an axis needs.

    >>> write(-1500.0, 500.0), write(0.25, 0.05)
    ('−1,500', '0.25')
    """
    digits = int(np.clip(-np.floor(np.log10(step) + 1e-9), 0, 8))
    return f"{value:,.{digits}f}".replace("-", "\N{MINUS SIGN}")


def scatter(places: Array, sizes: Array, labels: Sequence[str], texts: Sequence[str]) -> Html:
    """Return a map of components: circles (K) at places (K, 2), which are links to their cards.

    The area of a circle is proportional to its size. Large circles have a label beside them where
    there is space for it. `texts` say what each circle is.
    """
    low, extent = places.min(axis=0), np.ptp(places, axis=0)
    centre = (places - low - extent / 2) / np.maximum(extent, 1e-9)
    across, down = 46 + 76 * centre[:, 0], 50 - 84 * centre[:, 1]
    largest = min(56.0, 200.0 / len(sizes) ** 0.5)
    diameters = np.maximum(largest * np.sqrt(sizes / max(float(sizes.max()), 1e-300)), 8.0)
    taken = [(x - a, x + a, y - b, y + b) for x, y, a, b in zip(
        across, down, 50 * diameters / MAP[0], 50 * diameters / MAP[1], strict=True)]  # fmt: skip
    circles, words = [], []
    for k in np.argsort(-sizes, kind="stable"):
        x, y, size = float(across[k]), float(down[k]), float(diameters[k])
        circles.append(
            tag(
                "a",
                class_=f"circle k{k}",
                href=f"#component-{k}",
                style=f"left:{x:.1f}%;top:{y:.1f}%;width:{size:.0f}px;height:{size:.0f}px",
                title=texts[k],
                aria_label=texts[k],
            )
        )
        # To the right of the circle or to its left, where there is no other circle and no label;
        # first towards the middle, where narrow screens have space, too.
        gap, long, high = 50 * size / MAP[0] + 1, 100 * LETTER * len(labels[k]) / MAP[0], 1.6
        sides = (("left", x + gap), ("right", x - gap - long))
        for side, start in sides if x < 60 else sides[::-1]:
            box = (start, start + long, y - high, y + high)
            inside = box[0] >= 1 and box[1] <= 98  # a letter may be wider than most
            if inside and not any(_meet(box, other) for i, other in enumerate(taken) if i != k):
                taken.append(box)
                from_edge = x if side == "left" else 100 - x
                where = f"{side}:calc({from_edge:.1f}% + {size / 2 + 2:.0f}px);top:{y:.1f}%"
                words.append(tag("span", labels[k], class_="word", style=where, aria_hidden="true"))
                break
    return tag("div", *circles, *words, class_="map")


def _meet(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether two boxes (left, right, top, bottom) have points in common."""
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def overlap_picture(overlap: Array, order: NDArray[np.intp], alt: str) -> Html:
    """Return the overlaps of two or more components: the more alike, the more opaque."""
    K = len(order)
    pixels = np.zeros((K, K, 4), dtype=np.uint8)
    pixels[..., :3] = (59, 111, 182)
    off = overlap[~np.eye(K, dtype=bool)]
    low, range_ = float(off.min()), max(float(np.ptp(off)), 0.2)  # small differences stay pale
    level = (overlap[np.ix_(order, order)] - low) / range_
    pixels[..., 3] = np.round(20 + 235 * np.clip(level, 0.0, 1.0))
    pixels[np.arange(K), np.arange(K)] = (128, 128, 128, 70)  # of no interest
    image = tag("img", src=png(pixels), alt=alt, class_="pixels")
    if K > 40:
        return tag("div", image, class_="overlap")
    marks = [tag("span", k, class_=f"k{k}") for k in order]
    top = tag("div", *marks, class_="marks across", aria_hidden="true")
    side = tag("div", *marks, class_="marks down", aria_hidden="true")
    return tag("div", top, side, image, class_="overlap marked")


def bars(items: Sequence[tuple[Any, float]], largest: float) -> Html:
    """Return names with their weights as bars: a list."""
    rows = []
    for name, weight in items:
        width = f"width:{100 * weight / max(largest, 1e-300):.1f}%"
        rows.append(
            tag(
                "li",
                tag("span", name, class_="name"),
                tag("span", percent(weight), class_="quiet"),
                tag("span", class_="bar", style=width),
            )
        )
    return tag("ol", *rows, class_="bars")


def percent(share: float) -> str:
    """Write a share with two digits; the space before % does not break.

    >>> [percent(x).replace(SPACE, "_") for x in (0.123, 0.0123, 0.00123, 1e-9)]
    ['12_%', '1.2_%', '0.12_%', '<_0.01_%']
    """
    digits = 0 if share >= 0.0995 else 1 if share >= 0.00995 else 2
    text = "< 0.01 %" if 0 < share < 1e-4 else f"{100 * share:.{digits}f} %"
    return text.replace(" ", SPACE)


def component_styles(colours: Sequence[str]) -> str:
    """Return the rules that give each component its colour."""
    return "".join(f".k{k}{{--c:{escape(colour)}}}" for k, colour in enumerate(colours))


def shade(share: float, text: str) -> Html:
    """Return a cell of a table with a background as strong as a share."""
    return tag("td", text, class_="shade", style=f"--share:{100 * share:.0f}%")


def legend(items: Sequence[Html]) -> Html:
    """Return chips beside each other."""
    return tag("p", join(items, " "), class_="legend")
