"""Replies of a language model to a question: the schema, its checks, and the forecast that follows from it.

The forecaster that asks a model and the training that rewards one read replies with this module, so that a model is
rewarded for what it is asked for later.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_ai import ModelRetry

from forewarp.core import bins
from forewarp.core.values import Z80, Forecast
from forewarp.surrogate.questions import name_of

_MEDIAN_RANGE = (2.0**-10, 2.0**14)

Probability = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class OneForecast(BaseModel):
    """What the model says of one candidate; the reason first, so that the numbers rest on it."""

    model_config = ConfigDict(extra="ignore")

    candidate: str = Field(description="the candidate's name, such as c1")
    rationale: str = Field(description="what decides its speed-up, in one or two sentences")
    median: float = Field(gt=0.0, allow_inf_nan=False, description="speed-up to bet on at even odds")
    p: list[Probability] = Field(
        min_length=bins.COUNT, max_length=bins.COUNT, description="eight probabilities, in the order of the table"
    )
    p_valid: float = Field(ge=0.0, le=1.0, description="probability that the candidate is valid")


class SpeedupForecasts(BaseModel):
    """The model's reply."""

    model_config = ConfigDict(extra="ignore")

    analysis: str = Field(description="what bounds the reference and the candidates, and their order; a few sentences")
    forecasts: list[OneForecast] = Field(description="one per candidate")


def complaint(reply: SpeedupForecasts, count: int) -> str:
    """Return the fault of a reply about `count` candidates, in words for the model; "" if it has none."""
    named = [f.candidate for f in reply.forecasts]
    missing = [name_of(i) for i in range(count) if name_of(i) not in named]
    if missing:
        return f"There is no forecast for {', '.join(missing)}. Give one for each of the {count} candidates."
    if any(sum(f.p) <= 0 for f in reply.forecasts):
        return "Eight probabilities are all zero; they must sum to 1."
    return ""


def checked(reply: SpeedupForecasts, count: int) -> SpeedupForecasts:
    """Return a reply about `count` candidates; raises `ModelRetry` with its fault."""
    if problem := complaint(reply, count):
        raise ModelRetry(problem)
    return reply


def about(reply: SpeedupForecasts, place: int) -> list[OneForecast]:
    """Return a reply's readable forecasts of the candidate at a position of the batch, from 0."""
    return [f for f in reply.forecasts if f.candidate == name_of(place) and sum(f.p) > 0]


def pooled(said: Sequence[OneForecast], name: str, problem: str) -> Forecast:
    """Return the mean of a candidate's forecasts; a uniform one if there are none, because of `problem`."""
    if not said:
        note = f"scored as uniform, because the model's reply was malformed: {problem}"
        return Forecast(bins.normalise([1.0] * bins.COUNT), 0.5, name, note, raw_sum=0.0)
    each = [bins.normalise(f.p) for f in said]
    mean = bins.normalise([sum(p[k] for p in each) for k in range(bins.COUNT)])
    low, high = bins.quantile(mean, 0.1), bins.quantile(mean, 0.9)
    centre = sum(math.log2(min(max(f.median, _MEDIAN_RANGE[0]), _MEDIAN_RANGE[1])) for f in said) / len(said)
    return Forecast(
        mean,
        sum(f.p_valid for f in said) / len(said),
        name,
        said[0].rationale,
        raw_sum=sum(sum(f.p) for f in said) / len(said),
        mean_log2=centre,
        sd_log2=max(0.02, math.log2(high / low) / (2 * Z80)),
    )


def read(text: str, count: int = 1) -> SpeedupForecasts | None:
    """Return the last well-formed reply about `count` candidates in a model's text, whatever stands around it."""
    found: SpeedupForecasts | None = None
    for value in _objects(text):
        try:
            reply = SpeedupForecasts.model_validate(value)
        except ValidationError:
            continue
        found = reply if not complaint(reply, count) else found
    return found


def _objects(text: str) -> Iterator[Any]:
    """Yield the JSON objects of a text, outermost only, out of the envelope that some servers' tool calls have."""
    decoder, place = json.JSONDecoder(), text.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            yield _unwrapped(value)
        place = text.find("{", end)


def _unwrapped(value: dict[str, Any]) -> Any:
    inner = value.get("arguments", value.get("parameters", value))
    if isinstance(inner, str):
        try:
            inner = json.loads(inner)
        except ValueError:
            return value
    return inner
