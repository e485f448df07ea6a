"""A chart as inline SVG: axes with titles and ticks, dots, whiskers, lines. Colours come from the page's style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

LEFT, RIGHT, BOTTOM = 62, 14, 44
NARROW = 560
"""Pixels below which a chart is scrolled, not shrunk further."""

_STEPS = (
    (1.0,),
    (1.0, 2.0, 5.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 1.2, 1.5, 1.8, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0),
    tuple(1 + k / 10 for k in range(90)),
    tuple(1 + k / 20 for k in range(180)),
    tuple(1 + k / 100 for k in range(900)),
)
"""Positions of ticks within a decade of a logarithmic axis, from few to many."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its title, its ends (as values), whether it is logarithmic, and its ticks as (value, text)."""

    title: str
    low: float
    high: float
    log: bool
    ticks: tuple[tuple[float, str], ...]

    def at(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 to 1; values outside are clamped."""
        if self.log:
            share = (math.log(max(value, 1e-300)) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))


def log_axis(title: str, values: Sequence[float], unit: str = "", room: float = 0.06) -> Axis:
    """Return a logarithmic axis that holds all values (> 0), with a margin of `room` of its length on both sides."""
    low, high = min(values), max(values)
    span = max(math.log(high / low), 0.08)
    middle = math.sqrt(low * high)
    half = span * (0.5 + room)
    low, high = middle * math.exp(-half), middle * math.exp(half)
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    choices = ([v for d in decades for s in steps if low <= (v := s * 10.0**d) <= high] for steps in _STEPS)
    chosen: list[float] = next((c for c in choices if len(c) >= 4), [low, high])
    stride = math.ceil(len(chosen) / 9)
    return Axis(title, low, high, True, tuple((v, f"{short(v)}{unit}") for v in chosen[::stride]))


def linear_axis(title: str, low: float, high: float, unit: str = "") -> Axis:
    """Return a linear axis with ticks at 1, 2 or 5 times a power of ten."""
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough)
    first = math.ceil(low / step)
    values = [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]
    return Axis(title, low, high, False, tuple((v, f"{short(v)}{unit}") for v in values))


def count_axis(title: str, count: int) -> Axis:
    """Return an axis of whole numbers from 1 to `count`."""
    step = next(s for k in range(9) for s in (10**k, 2 * 10**k, 5 * 10**k) if s * 8 >= count)
    values = [1, *range(step if step > 1 else 2, count + 1, step)]
    return Axis(title, 0.5, count + 0.5, False, tuple((float(v), str(v)) for v in values))


def short(value: float) -> str:
    """Format a number with at most three figures and, where it is large, a letter such as M for millions."""
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.3g}{letter}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def rate(value: float, unit: str) -> str:
    """Return a rate with its unit, such as 4.8 TB/s."""
    said = short(value)
    return f"{said[:-1]} {said[-1]}{unit}" if said[-1].isalpha() else f"{said} {unit}"


class Frame:
    """A plot area with two axes, and what is drawn on it, in the order drawn."""

    def __init__(self, x: Axis, y: Axis, width: int = 560, height: int = 330, top: int = 14) -> None:
        self.axes, self.width, self.height, self.top = (x, y), width, height, top
        self._parts: list[str] = []
        bottom, right = height - BOTTOM, width - RIGHT
        for value, said in x.ticks:
            self._line(self.x(value), top, self.x(value), bottom, "grid")
            self._text(self.x(value), bottom + 15, said, "middle")
        for value, said in y.ticks:
            self._line(LEFT, self.y(value), right, self.y(value), "grid")
            self._text(LEFT - 6, self.y(value) + 4, said, "end")
        middle = (top + bottom) / 2
        self._line(LEFT, bottom, right, bottom, "axis")
        self._line(LEFT, top, LEFT, bottom, "axis")
        self._text((LEFT + right) / 2, height - 8, x.title, "middle")
        self._text(13, middle, y.title, "middle", f' transform="rotate(-90 13 {middle:.0f})"')

    def x(self, value: float) -> float:
        """Return the horizontal position of a value in pixels."""
        return LEFT + self.axes[0].at(value) * (self.width - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Return the vertical position of a value in pixels."""
        bottom = self.height - BOTTOM
        return bottom - self.axes[1].at(value) * (bottom - self.top)

    def dot(self, x: float, y: float, kind: str, title: str = "", radius: float = 3.5, *, hollow: bool = False) -> None:
        """Draw a dot with its title as a tooltip."""
        shape = "hollow" if hollow else "dot"
        place = f'cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="{radius:g}"'
        self._parts.append(f'<circle class="{shape} {kind}" {place}>{_titled(title)}</circle>')

    def cross(self, x: float, y: float, kind: str, title: str) -> None:
        """Draw a cross with its title as a tooltip."""
        a, b = self.x(x), self.y(y)
        drawn = f"M{a - 3.5:.1f} {b - 3.5:.1f}l7 7m0-7l-7 7"
        self._parts.append(
            f'<path class="mark {kind}" stroke-width="1.6" fill="none" d="{drawn}">{_titled(title)}</path>'
        )

    def diamond(self, x: float, y: float, kind: str, title: str) -> None:
        """Draw a diamond with its title as a tooltip."""
        a, b = self.x(x), self.y(y)
        drawn = f"M{a:.1f} {b - 6:.1f}l6 6l-6 6l-6-6z"
        self._parts.append(f'<path class="dot {kind}" d="{drawn}">{_titled(title)}</path>')

    def line(self, a: tuple[float, float], b: tuple[float, float], kind: str, more: str = "") -> None:
        """Draw a line between two points."""
        self._line(self.x(a[0]), self.y(a[1]), self.x(b[0]), self.y(b[1]), f"mark {kind}", more)

    def path(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Draw a line through points."""
        drawn = " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in points)
        self._parts.append(f'<polyline class="{kind}" points="{drawn}"/>')

    def area(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Fill the area within points."""
        drawn = " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in points)
        self._parts.append(f'<polygon class="{kind}" points="{drawn}"/>')

    def said(self, x: float, y: float, text: str, anchor: str = "start", up: float = 5) -> None:
        """Write beside a point, `up` pixels above it."""
        self._text(self.x(x), self.y(y) - up, text, anchor, ' class="soft"')

    def above(self, title: str, ticks: Sequence[tuple[float, str]]) -> None:
        """Add a second axis at the top; `ticks` stand at values of the first one."""
        for value, said in ticks:
            self._text(self.x(value), self.top - 5, said, "middle", ' class="soft"')
        self._text((LEFT + self.width - RIGHT) / 2, self.top - 19, title, "middle", ' class="soft"')

    def figure(self, title: str, caption: str, legend: str = "") -> str:
        """Return the chart under a title that says what is seen, with a caption that says how to read it.

        `legend` is ready markup; a narrow screen scrolls what is wider than can be read there.
        """
        told = f'role="img" aria-label="{escape(f"{title}. {caption}")}"'
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        svg = f'<svg {size} style="min-width:{min(self.width, NARROW)}px" {told}>'
        drawn = "".join(self._parts)
        return (
            f'<figure style="width:{self.width}px"><h3>{escape(title)}</h3><div class="wide">{svg}{drawn}</svg></div>'
            f"<figcaption>{escape(caption)}</figcaption>{legend}</figure>"
        )

    def _line(self, x1: float, y1: float, x2: float, y2: float, kind: str, more: str = "") -> None:
        ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        self._parts.append(f'<line class="{kind}" {ends}{more and f" {more}"}/>')

    def _text(self, x: float, y: float, text: str, anchor: str, more: str = "") -> None:
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>')


def _titled(title: str) -> str:
    return f"<title>{escape(title)}</title>" if title else ""
