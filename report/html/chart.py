"""Charts as inline SVG: axes with titles and ticks, dots, whiskers, lines. Colours come from the page's style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

LEFT, RIGHT, BOTTOM = 62, 14, 44
NARROW = 440
"""Pixels below which a chart is scrolled, not shrunk further."""
ChartPoint = tuple[float, float]

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
    middle = math.sqrt(low * high)
    half = max(math.log(high / low), 0.08) * (0.5 + room)
    low, high = middle * math.exp(-half), middle * math.exp(half)
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    choices = ([v for d in decades for s in steps if low <= (v := s * 10.0**d) <= high] for steps in _STEPS)
    chosen: list[float] = next((c for c in choices if len(c) >= 4), [low, high])
    stride = math.ceil(len(chosen) / 9)
    return Axis(title, low, high, True, tuple((v, f"{short(v)}{unit}") for v in chosen[::stride]))


def share_axis(title: str, step: float = 0.2) -> Axis:
    """Return an axis from 0 to 1 with a tick at each `step`."""
    ticks = (k * step for k in range(round(1 / step) + 1))
    return Axis(title, 0.0, 1.0, False, tuple((v, f"{v:.3g}") for v in ticks))


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
    text = short(value)
    return f"{text[:-1]} {text[-1]}{unit}" if text[-1].isalpha() else f"{text} {unit}"


def element(name: str, *inside: str, **attributes: object) -> Markup:
    """Return an SVG element. Texts inside are escaped, numbers rounded; `class_` is class, and `_` stands for `-`."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(round(v, 1) if isinstance(v, float) else v)}"'
        for key, v in attributes.items()
    )
    body = Markup().join(inside)
    return Markup(f"<{name}{written}>{body}</{name}>" if body else f"<{name}{written}/>")


def tooltip(text: str) -> Markup:
    """Return the title of an element, which browsers show beside the pointer; nothing for an empty one."""
    return element("title", text) if text else Markup()


@dataclass(frozen=True, slots=True)
class ChartFigure:
    """A chart with a title that says what is seen, a caption that says how to read it, and keys of its colours."""

    title: str
    caption: str
    svg: Markup
    width: int
    keys: tuple[tuple[str, str], ...] = ()


class PlotArea:
    """A plot area with two axes, and what is drawn on it, in the order drawn."""

    def __init__(self, x: Axis, y: Axis, width: int = 560, height: int = 330, top: int = 14) -> None:
        self.axes, self.width, self.height, self.top = (x, y), width, height, top
        self.parts: list[Markup] = []
        bottom, right = height - BOTTOM, width - RIGHT
        for value, text in x.ticks:
            self._line(self.x(value), top, self.x(value), bottom, class_="grid")
            self._text(self.x(value), bottom + 15, text, "middle")
        for value, text in y.ticks:
            self._line(LEFT, self.y(value), right, self.y(value), class_="grid")
            self._text(LEFT - 6, self.y(value) + 4, text, "end")
        middle = (top + bottom) / 2
        self._line(LEFT, bottom, right, bottom, class_="axis")
        self._line(LEFT, top, LEFT, bottom, class_="axis")
        self._text((LEFT + right) / 2, height - 8, x.title, "middle")
        self._text(13, middle, y.title, "middle", transform=f"rotate(-90 13 {middle:.0f})")

    def x(self, value: float) -> float:
        """Return the horizontal position of a value in pixels."""
        return LEFT + self.axes[0].at(value) * (self.width - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Return the vertical position of a value in pixels."""
        bottom = self.height - BOTTOM
        return bottom - self.axes[1].at(value) * (bottom - self.top)

    def dot(self, x: float, y: float, kind: str, title: str = "", radius: float = 3.5, *, hollow: bool = False) -> None:
        """Draw a dot with its title as a tooltip."""
        shape = f"{'hollow' if hollow else 'dot'} {kind}"
        self.parts.append(element("circle", tooltip(title), class_=shape, cx=self.x(x), cy=self.y(y), r=radius))

    def mark(self, x: float, y: float, kind: str, title: str, *, failed: bool = False) -> None:
        """Draw a diamond, or a cross for what failed, with its title as a tooltip."""
        a, b = self.x(x), self.y(y)
        path = f"M{a - 3.5:.1f} {b - 3.5:.1f}l7 7m0-7l-7 7" if failed else f"M{a:.1f} {b - 6:.1f}l6 6l-6 6l-6-6z"
        self.parts.append(element("path", tooltip(title), class_=f"{'cross' if failed else 'dot'} {kind}", d=path))

    def line(self, a: ChartPoint, b: ChartPoint, kind: str, **style: object) -> None:
        """Draw a line between two points."""
        self._line(self.x(a[0]), self.y(a[1]), self.x(b[0]), self.y(b[1]), class_=f"mark {kind}", **style)

    def diagonal(self) -> None:
        """Draw the dashed line on which both axes have the same value."""
        low, high = self.axes[0].low, self.axes[0].high
        self.line((low, low), (high, high), "none", stroke_dasharray="4 3")

    def path(self, points: Sequence[ChartPoint], kind: str, *, filled: bool = False) -> None:
        """Draw a line through points, or fill the area within them."""
        places = " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in points)
        self.parts.append(element("polygon" if filled else "polyline", class_=kind, points=places))

    def text(self, x: float, y: float, text: str, anchor: str = "start", up: float = 5) -> None:
        """Write beside a point, `up` pixels above it."""
        self._text(self.x(x), self.y(y) - up, text, anchor, class_="soft")

    def above(self, title: str, ticks: Sequence[tuple[float, str]]) -> None:
        """Add a second axis at the top; `ticks` stand at values of the first one."""
        for value, text in ticks:
            self._text(self.x(value), self.top - 5, text, "middle", class_="soft")
        self._text((LEFT + self.width - RIGHT) / 2, self.top - 19, title, "middle", class_="soft")

    def figure(self, title: str, caption: str, keys: Sequence[tuple[str, str]] = ()) -> ChartFigure:
        """Return the chart as a figure; `keys` are classes of colour with their meaning."""
        return ChartFigure(
            title, caption, picture(self.parts, self.width, self.height, f"{title}. {caption}"), self.width, tuple(keys)
        )

    def _line(self, x1: float, y1: float, x2: float, y2: float, **style: object) -> None:
        self.parts.append(element("line", **style, x1=x1, y1=y1, x2=x2, y2=y2))

    def _text(self, x: float, y: float, text: str, anchor: str, **style: object) -> None:
        self.parts.append(element("text", text, **style, x=x, y=y, text_anchor=anchor))


def picture(parts: Sequence[Markup], width: int, height: int, label: str) -> Markup:
    box, style = f"0 0 {width} {height}", f"min-width:{min(width, NARROW)}px"
    return element("svg", *parts, viewBox=box, width=width, height=height, role="img", aria_label=label, style=style)
