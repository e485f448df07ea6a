"""The pieces that requests and results are made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self, TypedDict, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf, model_validator

from forewarp.core import bins
from forewarp.core.budget import Budget
from forewarp.core.values import AskedGradients, Candidate, Forecast, Language, Task

SCHEMA_VERSION = 1
"""Rises whenever a field of a result changes its meaning or goes away; new fields do not raise it."""

Source = Literal["measured", "replay"]

OnStage = Callable[[str], None]
"""Called with what a verb begins to do next."""


def unwatched(_: object) -> None:
    """Take no notice of a stage, or of an event."""


def _text_of_path(given: object) -> object:
    return os.fspath(given) if isinstance(given, Path) else given


FilePath = Annotated[str, BeforeValidator(_text_of_path)]
"""A path as text, which a `Path` becomes."""

TaskOrFile = FilePath | InstanceOf[Task]
"""A bundled task's name, a path, or a task itself."""


class Part(BaseModel):
    """Base of all requests and results: frozen, and unknown fields are an error. A result prints as its summary."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True)

    @classmethod
    def of(cls, source: object, /, **fields: Any) -> Self:
        """Build from the attributes of `source` that have the names of fields, nested ones too; `fields` go before."""
        names = [n for n in cls.model_fields if n not in fields and hasattr(source, n)]
        return cls.model_validate({n: getattr(source, n) for n in names} | fields)

    def __str__(self) -> str:
        summary = getattr(self, "summary", None)
        return summary if isinstance(summary, str) else super().__str__()


class TaskOptions(TypedDict, total=False):
    """Options that change a task: its workloads' constants, TF32 accepted, gradients."""

    allow_tf32: bool
    gradients: AskedGradients | None
    size: Mapping[str, int]


class Place(Part):
    """Device and machines to measure on, and the archive to record in."""

    device: str = Field(
        default="auto",
        description="Device to measure on: auto (cuda, else cpu), cuda, cuda:N (the N-th GPU), cuda:all (every GPU), "
        "cpu, or replay, which looks up a recorded pool.",
    )
    executor: str = Field(default="local", description="Machine to measure on: local (this one) or ssh:HOST.")
    card: str = Field(
        default="",
        description="Card to measure on where the place has several, such as h200; anything else there is an error.",
    )
    pool: FilePath | None = Field(
        default=None,
        description="Parquet file or folder of recorded measurements, for device replay; left out, those that come "
        "with forewarp.",
    )
    archive: FilePath | None = Field(default=None, description="Archive file; the user's own where this is left out.")
    python: FilePath | None = Field(
        default=None, description="Python that has the torch to measure with; this one if left out."
    )

    @model_validator(mode="before")
    @classmethod
    def _with_a_pool(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        fields = cast("dict[str, Any]", given)
        if fields.get("device") != "replay" or fields.get("pool"):
            return fields
        from forewarp.gpu_runner.formats.task import BUNDLED_POOL

        return fields | {"pool": str(BUNDLED_POOL)}


class Kernel(Part):
    """One candidate, by file or by text."""

    path: FilePath | None = Field(default=None, description="File that holds the candidate.")
    source: str | None = Field(default=None, description="The candidate's text, instead of a file.")
    language: Language | None = Field(default=None, description="Language of the text; told from it if left out.")
    tunables: dict[str, int] = Field(
        default_factory=dict[str, int], description="Values of declared tunables; the plan's defaults for the rest."
    )
    name: str = Field(default="", description="What to call a kernel that is given by its text.")

    @property
    def called(self) -> str:
        """The path, else the name; empty where there is neither."""
        return self.path or self.name

    @model_validator(mode="before")
    @classmethod
    def _of_anything(cls, given: object) -> object:
        """Take a path, a text with a line break in it, or a candidate for a kernel."""
        match given:
            case Candidate(source=source, language=language, tunables=tunables):
                return {"source": source, "language": language, "tunables": dict(tunables)}
            case Path():
                return {"path": str(given)}
            case str():
                return {"source" if "\n" in given else "path": given}
            case _:
                return given


class _Timed(Protocol):
    """A speed-up with the ends of its 95 % interval: a measurement, a shape of one, a comparison, a winner."""

    @property
    def speedup(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def rounded(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits, a large one with its thousands apart: 1,230, never 1.23e+03."""
    return f"{float(f'{value:.{digits}g}'):,.15g}"


class Interval(Part):
    """A speed-up over the reference (reference time / candidate time) with its interval."""

    ratio: float
    low: float
    high: float
    level: float = 0.95

    @model_validator(mode="before")
    @classmethod
    def _measured(cls, given: Any) -> Any:
        """Take any object with a `speedup` and its ends `low` and `high`, too."""
        if not hasattr(given, "speedup"):
            return given
        return {"ratio": given.speedup, "low": given.low, "high": given.high}

    def __str__(self) -> str:
        return f"{rounded(self.ratio)}× [{rounded(self.low)}, {rounded(self.high)}]"


class Device(Part):
    """The device that the numbers belong to."""

    name: str
    kind: str
    arch: str


class KernelId(Part):
    """Identity of the candidate that a result is about."""

    sha256: str
    short: str
    language: Language
    tunables: dict[str, int]


class Bin(Part):
    """One of the eight ranges of the speed-up S with its probability, given that the candidate is valid."""

    label: str
    range: str
    probability: float


class TierAnswer(Part):
    """Answer of one tier of a cascade before it was combined with the others."""

    forecaster: str
    p_valid: float
    p_faster: float
    median: Interval


class Prediction(Part):
    """A forecast of the speed-up over its anchor, and of whether the candidate is valid at all."""

    forecaster: str
    p_valid: float = Field(description="Probability that the candidate is correct, given that it compiled.")
    p_faster: float = Field(description="Probability that it is correct and faster than the anchor.")
    median: Interval = Field(description="Median speed-up of a correct candidate with the central 80 % interval.")
    confidence: float = Field(description="Probability of the likeliest of the eight ranges.")
    distribution: list[Bin]
    rationale: str = ""
    tiers: list[TierAnswer] = Field(
        default_factory=list[TierAnswer],
        description="Of a cascade: who was asked, each answer over the reference; else empty.",
    )


class Facts(Part):
    """Evidence on a candidate before it runs: facts and problems."""

    facts: dict[str, float] = Field(default_factory=dict[str, float])
    problems: list[str] = Field(default_factory=list[str])


class Price(Part):
    """Cost of an answer. `dollars` is null where the model's price is unknown."""

    seconds: float = 0.0
    device_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float | None = 0.0


class ChosenConfiguration(Part):
    """The configuration that a kernel gets in one call, in short."""

    kernel: str
    call: str
    configuration: str
    considered: int
    measured: int
    speedup: float | None = Field(description="Over the file's first configuration; null where none was measured.")
    low: float | None
    high: float | None


class Amounts(Part):
    """An amount of each currency; null in a limit leaves that currency open."""

    measurements: int | None = None
    device_s: float | None = None
    dollars: float | None = None
    tokens: int | None = None
    wall_s: float | None = None

    def budget(self) -> Budget:
        return Budget(self.measurements, self.device_s, self.dollars, self.tokens, self.wall_s)


def prediction_of(forecast: Forecast | None) -> Prediction | None:
    """Return a forecast with its ranges in words; None where there is none."""
    if forecast is None:
        return None
    spans = zip(bins.ranges(), forecast.probabilities, strict=True)
    return Prediction.of(
        forecast,
        median=median_of(forecast),
        distribution=[Bin(label=label, range=span, probability=p) for (label, span), p in spans],
        tiers=[TierAnswer.of(t, median=median_of(t)) for t in forecast.tiers],
    )


def median_of(forecast: Forecast) -> Interval:
    """Return a forecast's median with its central 80 % interval."""
    low, high = forecast.interval
    return Interval(ratio=forecast.median, low=low, high=high, level=0.8)


def speedup_of(timed: _Timed | None) -> Interval | None:
    """Return a measured speed-up with its 95 % interval; None where there is none."""
    known = timed is not None and None not in (timed.speedup, timed.low, timed.high)
    return Interval.model_validate(timed) if known else None


def shown(values: Mapping[str, int]) -> str:
    return " ".join(f"{k}={v}" for k, v in values.items())
