"""Storage of raw samples apart from the columns that people query: packed on writing, unpacked on reading.

A measurement's JSON with 200 blocks on four workloads is some 170 kB, nearly all of it samples that only a new analysis
reads. They go into a compressed column of their own, at full precision; the JSON keeps every other field.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, cast

from forewarp.core import serde
from forewarp.core.values import Measurement


def split(measurement: Measurement) -> tuple[str, bytes | None]:
    """Return a measurement as JSON without its samples, and these packed; None where it has none."""
    data: dict[str, Any] = serde.to_data(measurement)
    taken = [_take(timing) for timing in data["workloads"]]
    packed = zlib.compress(_compact(taken).encode()) if any(taken) else None
    return _compact(data), packed


def join(data: str, packed: bytes | None) -> Measurement:
    """Build the measurement that `split` took apart; without `packed`, as it is in the JSON alone."""
    whole: dict[str, Any] = json.loads(data)
    if packed is not None:
        for timing, series in zip(whole["workloads"], json.loads(zlib.decompress(packed)), strict=True):
            _put(timing, series)
    found = serde.from_data(Measurement, whole)
    if found.source not in ("measured", "replay"):
        raise ValueError(f"a measurement's source is no {found.source!r}")
    return found


def _take(timing: dict[str, Any]) -> dict[str, Any]:
    """Remove the lists of numbers from a timing and from the comparisons inside it, and return them."""
    taken: dict[str, Any] = {}
    for name, value in list(timing.items()):
        if isinstance(value, list):
            series = cast("list[float]", timing.pop(name))
            if series:
                taken[name] = series
        elif isinstance(value, dict) and (inner := _take(cast("dict[str, Any]", value))):
            taken[name] = inner
    return taken


def _put(timing: dict[str, Any], series: dict[str, Any]) -> None:
    for name, value in series.items():
        if isinstance(value, dict):
            _put(timing[name], cast("dict[str, Any]", value))
        else:
            timing[name] = value


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
