"""Reliability diagrams: how often forecasts came true against how often they said they would."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from markupsafe import Markup

from forewarp.core.errors import DeviceError, UsageError
from forewarp.report import plots
from forewarp.report.html.chart import PlotArea, element, share_axis

if TYPE_CHECKING:
    from forewarp.tools.calibration import CalibrationResult, CalibrationScores, ReliabilityPoint, TierCalibration

ReliabilityKind = Literal["confidence", "faster"]
DIAGRAMS: tuple[tuple[str, ReliabilityKind], ...] = (
    ("likeliest bin: share right, by confidence", "confidence"),
    ("correct and faster: share that was, by forecast probability", "faster"),
)

WIDTH, HEIGHT = 64, 16
SIDE, TOP = 370, 44
_STYLE = (
    "svg{font:11px sans-serif;fill:#1c1c1c;background:#fff}.grid{stroke:#ddd}.axis,.none{stroke:#888}"
    ".before{fill:#c0652b;stroke:#c0652b}.after{fill:#2c5c99;stroke:#2c5c99}text.before,text.after{stroke:none}"
)
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


def terminal(tier: TierCalibration, kind: ReliabilityKind, title: str) -> str:
    """Return one diagram as text; "" with fewer than two points."""
    before, after = _points(tier.before, kind), _points(tier.after, kind)
    if len(before) < 2:
        return ""
    drawn = plots.reliability([("○", before), ("●", after)], plots.fitting(WIDTH), HEIGHT).strip("\n ")
    legend = "○ as given, ● corrected" if after else "○ as given"
    return f"{title} ({legend})\n   {drawn}"


def svg(found: CalibrationResult) -> str:
    """Return the diagrams as one picture: a row for each tier, a column for each kind."""
    panels = [
        element("svg", *_panel(tier, kind, title), x=column * SIDE, y=place * SIDE, width=SIDE, height=SIDE)
        for place, tier in enumerate(found.tiers)
        for column, (title, kind) in enumerate(DIAGRAMS)
    ]
    wide, high = SIDE * len(DIAGRAMS), SIDE * len(found.tiers)
    box = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {wide} {high}", "width": wide, "height": high}
    return element("svg", element("style", Markup(_STYLE)), *panels, **box) + "\n"


def _panel(tier: TierCalibration, kind: ReliabilityKind, title: str) -> list[Markup]:
    x, y = share_axis("forecast probability; bars are 95 % intervals"), share_axis("share that came true")
    frame = PlotArea(x, y, SIDE, SIDE, TOP)
    frame.diagonal()
    frame.text(0, 1, title, up=8)
    frame.text(0, 1, f"{tier.forecaster[:20]}, {tier.outcomes} outcomes", up=24)
    series = (("as given", "before", _points(tier.before, kind)), ("corrected", "after", _points(tier.after, kind)))
    for place, (label, style, points) in enumerate(s for s in series if s[2]):
        frame.parts.append(element("text", f"● {label}", class_=style, x=SIDE - 150 + 70 * place, y=TOP - 24))
        # Moved aside a little, so that two series do not hide each other.
        for p in points:
            at = p.forecast + 0.014 * place - 0.007
            text = f"{label}: {p.count} forecasts of {p.forecast:.0%} on average, {p.observed:.0%} came true"
            frame.line((at, p.low), (at, p.high), style)
            frame.dot(at, p.observed, style, text, min(7.0, 2.5 + p.count**0.5 / 6))
    return frame.parts


def _points(scores: CalibrationScores | None, kind: ReliabilityKind) -> list[ReliabilityPoint]:
    if scores is None:
        return []
    return scores.confidence if kind == "confidence" else scores.faster


def _converter() -> tuple[str, ...] | None:
    return next((c for c in _CONVERTERS if shutil.which(c[0])), None)
