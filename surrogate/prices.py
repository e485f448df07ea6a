"""Prices of tokens and of devices: a dated table that the user can override, and what asking and measuring cost."""

from __future__ import annotations

import os
import re
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from forewarp.core.errors import UsageError
from forewarp.core.protocols import Trial
from forewarp.core.values import Cost, DeviceKind, Language, Target

BUNDLED = Path(__file__).with_name("prices.toml")
VARIABLE = "FOREWARP_PRICES"

CPU = "cpu"
"""Entry of the table for a processor; its price is that of one hardware thread."""

MEASUREMENT_S: Mapping[DeviceKind, float] = {"cuda": 0.98, "cpu": 5.95}
"""Typical device seconds of a measurement: the medians of `benchmarks/results/h200/*_*.json` and
`equal_budget_cpu.json`."""

BUILD_S = 8.4
"""Typical seconds of building a torch extension on two processors (`benchmarks/results/load_inline_two_cores.json`)."""

_BUILT_S = 0.5
"""Builds of modules that took less were of no extension."""

ANSWER = Cost(seconds=3.0, input_tokens=693, output_tokens=50, dollars=None)
"""Typical cost of a language model's forecast of one candidate (`benchmarks/results/llm_test.parquet`, four at a
time)."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per million input and output tokens by model, dollars per hour by device, and the date of the table."""

    dated: str
    models: Mapping[str, tuple[float, float]]
    devices: Mapping[str, float] = field(default_factory=dict[str, float])

    def dollars(self, model: str, input_tokens: int, output_tokens: int) -> float | None:
        """Return the price of a call, None where the model is not listed. Cached input counts at the full price."""
        if model not in self.models:
            return None
        per_input, per_output = self.models[model]
        return (input_tokens * per_input + output_tokens * per_output) / 1e6

    def hour(self, target: Target) -> float | None:
        """Return the dollars of an hour of a device, None where it is not listed; the longest fitting entry counts."""
        if target.kind == "cpu":
            return self.devices[CPU] * target.processors if CPU in self.devices else None
        words = _words(target.name)
        fitting = [name for name in self.devices if name != CPU and _words(name) <= words]
        return self.devices[max(fitting, key=len)] if fitting else None

    def held(self, target: Target, seconds: float) -> float | None:
        """Return the dollars of holding a device for some seconds; None where its price is not known."""
        hour = self.hour(target)
        return None if hour is None else seconds * hour / 3600

    def measuring(self, target: Target, language: Language, history: Sequence[Trial]) -> Cost:
        """Return the expected cost of measuring a kernel: the trials' mean, of its language if any, else typical."""
        timed = [t for t in history if t.measurement.device_s > 0]
        alike = [t for t in timed if t.subject.candidate.language == language] or timed
        return self._mean([t.measurement.device_s for t in alike] or [MEASUREMENT_S[target.kind]], target)

    def building(self, target: Target, history: Sequence[Trial]) -> Cost:
        """Return the expected cost of building a torch extension while the device waits."""
        built = [t.subject.build for t in history if t.subject.candidate.language == "python"]
        return self._mean([b.seconds for b in built if b.seconds > _BUILT_S and not b.cached] or [BUILD_S], target)

    def _mean(self, seconds: Sequence[float], target: Target) -> Cost:
        mean = statistics.fmean(seconds)
        return Cost(mean, dollars=self.held(target, mean))

    def asking(self, target: Target, answer: Cost) -> Cost:
        """Return the cost of an answer with that of the device, which waits for it."""
        held = self.held(target, answer.seconds)
        known = answer.dollars is not None and held is not None
        return replace(answer, dollars=(answer.dollars or 0.0) + (held or 0.0) if known else None)


def comparable(a: Cost, b: Cost) -> tuple[float, float]:
    """Return two costs in one currency: dollars where both are known and not both nothing, else seconds."""
    if a.dollars is not None and b.dollars is not None and a.dollars + b.dollars > 0:
        return a.dollars, b.dollars
    return a.seconds, b.seconds


def load(override: Path | None = None) -> Prices:
    """Return the bundled table with the user's entries over it; `override` replaces the search for the user's file."""
    bundled = _read(BUNDLED)
    path = override or _user_table()
    if path is None:
        return bundled
    own = _read(path)
    return Prices(own.dated or bundled.dated, {**bundled.models, **own.models}, {**bundled.devices, **own.devices})


def _user_table() -> Path | None:
    if named := os.environ.get(VARIABLE):
        return Path(named)
    import platformdirs

    path = platformdirs.user_config_path("forewarp") / "prices.toml"
    return path if path.is_file() else None


def _read(path: Path) -> Prices:
    """Read a table; raises `UsageError` that says what is wrong with it."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        models = cast("dict[str, dict[str, Any]]", table.get("models", {}))
        prices = {name: (float(entry["input"]), float(entry["output"])) for name, entry in models.items()}
        devices = {str(name): float(hour) for name, hour in table.get("devices", {}).items()}
    except OSError as e:
        raise UsageError(f"the price table {path} cannot be read: {e.strerror}", hint=f"correct ${VARIABLE}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError) as e:
        raise UsageError(
            f"the price table {path} is malformed: {type(e).__name__}: {e}",
            hint='write [models."provider:name"] with input = and output =, in dollars per million tokens, and '
            "[devices] with H200 = dollars per hour",
        ) from None
    return Prices(str(table.get("dated", "")), prices, devices)


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.lower()))
