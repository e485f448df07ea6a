"""Reliability diagrams: how often forecasts came true against how often they said they would."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from forewarp.core.errors import DeviceError, UsageError
from forewarp.report import plots
from forewarp.report.terminal_plots import width

if TYPE_CHECKING:
    from forewarp.tools.calibration import CalibrationResult, CalibrationScores, ReliabilityPoint, TierCalibration

Kind = Literal["confidence", "faster"]
DIAGRAMS: tuple[tuple[str, Kind], ...] = (
    ("likeliest bin: share right, by confidence", "confidence"),
    ("correct and faster: share that was, by forecast probability", "faster"),
)

WIDTH, HEIGHT = 64, 16
SIDE, LEFT, TOP, BOTTOM, GAP = 280, 46, 44, 40, 26
_BEFORE, _AFTER, _GREY = "#c0652b", "#2c5c99", "#dddddd"
_CONVERTERS = (
    ("rsvg-convert", "{svg}", "-o", "{png}"),
    ("inkscape", "{svg}", "--export-filename={png}"),
    ("magick", "{svg}", "{png}"),
)


def check(image: Path) -> None:
    """Raise an error for a file that cannot be drawn here, before any work is done."""
    if image.suffix not in (".svg", ".png"):
        raise UsageError(f"{image} is neither an .svg nor a .png", hint="pass a file that ends in .svg")
    if image.suffix == ".png" and _converter() is None:
        names = ", ".join(c[0] for c in _CONVERTERS)
        raise DeviceError(f"{image} needs one of {names}, and none is on PATH", hint="pass a file that ends in .svg")


def draw(found: CalibrationResult, image: Path) -> Path:
    """Write the diagrams of every tier into one picture and return its path; raises `UsageError`."""
    image = image.expanduser().absolute()
    text = svg(found)
    try:
        image.parent.mkdir(parents=True, exist_ok=True)
        if image.suffix == ".svg":
            image.write_text(text)
            return image
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "diagram.svg"
            source.write_text(text)
            command = [part.format(svg=source, png=image) for part in _converter() or ()]
            subprocess.run(command, check=True, capture_output=True, timeout=60)
    except OSError as e:
        raise UsageError(f"{image} cannot be written: {e.strerror}", hint="pass a file in a writable folder") from None
    except subprocess.SubprocessError as e:
        raise DeviceError(f"the picture cannot be converted: {e}", hint="pass a file that ends in .svg") from None
    return image


def terminal(tier: TierCalibration, kind: Kind, title: str) -> str:
    """Return one diagram as text; "" with fewer than two points."""
    before, after = _points(tier.before, kind), _points(tier.after, kind)
    if len(before) < 2:
        return ""
    drawn = plots.reliability([("○", before), ("●", after)], width(WIDTH), HEIGHT).strip("\n ")
    legend = "○ as given, ● corrected" if after else "○ as given"
    return f"{title} ({legend})\n   {drawn}"


def svg(found: CalibrationResult) -> str:
    """Return the diagrams as one picture: a row for each tier, a column for each kind."""
    step = SIDE + LEFT + GAP
    width, row = step * len(DIAGRAMS) + GAP, SIDE + TOP + BOTTOM
    height = row * len(found.tiers) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11" fill="#1c1c1c">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for place, tier in enumerate(found.tiers):
        for column, (title, kind) in enumerate(DIAGRAMS):
            parts.append(f'<g transform="translate({LEFT + column * step},{TOP + place * row})">')
            parts += _panel(tier, kind, title)
            parts.append("</g>")
    return "".join([*parts, "</svg>\n"])


def _panel(tier: TierCalibration, kind: Kind, title: str) -> list[str]:
    before, after = _points(tier.before, kind), _points(tier.after, kind)
    parts = [
        _text(0, -26, f"{tier.forecaster[:20]}, {tier.outcomes}", "start", 'font-weight="bold"'),
        _text(0, -10, title, "start"),
    ]
    for tick in range(0, 11, 2):
        at = SIDE * tick / 10
        parts += [_line(at, 0, at, SIDE, _GREY), _line(0, at, SIDE, at, _GREY)]
        parts += [_text(at, SIDE + 14, f"{tick / 10:g}", "middle"), _text(-6, SIDE - at + 4, f"{tick / 10:g}", "end")]
    parts.append(_line(0, SIDE, SIDE, 0, "#888888"))
    parts.append(_text(SIDE / 2, SIDE + 28, "forecast probability; bars are 95 % intervals", "middle"))
    parts += _curve(before, _BEFORE, -2, "as given")
    parts += _curve(after, _AFTER, 2, "corrected")
    parts += _legend(bool(after))
    return parts


def _legend(corrected: bool) -> list[str]:
    entries = [("as given", _BEFORE), *([("corrected", _AFTER)] if corrected else [])]
    parts: list[str] = []
    for place, (label, colour) in enumerate(entries):
        x = SIDE - 78 * (len(entries) - place)
        parts.append(f'<circle cx="{x}" cy="-30" r="4" fill="{colour}"/>')
        parts.append(_text(x + 8, -26, label, "start"))
    return parts


def _curve(points: Sequence[ReliabilityPoint], colour: str, aside: float, label: str) -> list[str]:
    """Return points with their intervals, moved aside a little so that two curves do not hide each other."""
    parts: list[str] = []
    if len(points) > 1:
        path = " ".join(f"{SIDE * p.forecast + aside:.1f},{SIDE * (1 - p.observed):.1f}" for p in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1" opacity="0.5"/>')
    for p in points:
        x, y = SIDE * p.forecast + aside, SIDE * (1 - p.observed)
        parts.append(_line(x, SIDE * (1 - p.low), x, SIDE * (1 - p.high), colour))
        said = f"{label}: {p.count} forecasts of {p.forecast:.0%} on average, {p.observed:.0%} came true"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{min(7.0, 2.5 + p.count**0.5 / 6):.1f}" fill="{colour}">'
            f"<title>{escape(said)}</title></circle>"
        )
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'


def _points(scores: CalibrationScores | None, kind: Kind) -> list[ReliabilityPoint]:
    if scores is None:
        return []
    return scores.confidence if kind == "confidence" else scores.faster


def _converter() -> tuple[str, ...] | None:
    return next((c for c in _CONVERTERS if shutil.which(c[0])), None)
