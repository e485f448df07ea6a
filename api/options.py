"""Rarely needed keyword arguments of the public functions, and their validation."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from pydantic import Field, ValidationError

from forewarp.core.errors import UsageError
from forewarp.core.values import Language
from forewarp.tools.parts import Amounts, Part, Place, trim
from forewarp.tools.search import SearchRequest
from forewarp.tools.session import Executors

Request = TypeVar("Request", bound=Part)


class Where(TypedDict, total=False):
    """Rarely needed arguments that all verbs take.

    `pool` is a Parquet file or folder of recorded measurements for device "replay", `archive` the archive's file,
    `python` a Python that has the torch to measure with, `executor` the machines to measure on ("local", "ssh:HOST",
    "ray", "ray:ADDRESS"), `card` the card to take where these have several ("h200"), `executors` keeps devices warm
    between calls.
    """

    pool: str | Path | None
    archive: str | Path | None
    python: str | Path | None
    executor: str
    card: str
    executors: Executors | None


class Options(Where, total=False):
    """Rarely needed arguments of `optimize` and `estimate`; they mean what the flags of `forewarp optimize` mean.

    Caps besides the budget: `max_gpu_seconds`, `max_usd`, `max_tokens`, `deadline` in seconds. Models: `base_url` of an
    OpenAI-compatible server, `forecast_model`, `language` to keep to. `allow_tf32` accepts products in TF32,
    `inputs` is a file of captured calls, which become the task's shapes. Policy:
    `confirm`, `holdout`, `audit`, `explore`, `proposals`, `measure_per_round`, `patience`, `learn_across_runs`. The
    rest is that of `Where`.
    """

    max_gpu_seconds: float | None
    max_usd: float | None
    max_tokens: int | None
    deadline: float | None
    base_url: str | None
    forecast_model: str | None
    language: Language | None
    allow_tf32: bool
    inputs: str | Path | None
    confirm: bool
    holdout: bool
    audit: float | None
    explore: int | None
    proposals: int | None
    measure_per_round: int | None
    patience: int | None
    learn_across_runs: bool


class _Caps(Part):
    """Caps on what a run may spend, by the names of the keyword arguments; None leaves a currency without a cap."""

    budget: int | None = Field(default=None, ge=1)
    max_gpu_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_tokens: int | None = Field(default=None, gt=0)
    deadline: float | None = Field(default=None, gt=0, allow_inf_nan=False)


def known(given: Mapping[str, object], kind: type[Where], verb: Callable[..., object]) -> None:
    """Raise `TypeError` for an argument that neither `kind` nor the function has, and suggest the closest name."""
    unknown = next((name for name in given if name not in kind.__annotations__), None)
    if unknown is None:
        return
    names = [*kind.__annotations__, *inspect.signature(verb).parameters]
    near = difflib.get_close_matches(unknown, names, 1, cutoff=0.75)  # strict: proposer must not suggest proposals
    instead = f"did you mean {near[0]!r}?" if near else f"help(forewarp.{verb.__name__}) lists them"
    raise TypeError(f"{verb.__name__}() got an unexpected keyword argument {unknown!r}; {instead}")


def checked(kind: type[Request], **fields: Any) -> Request:
    """Construct a request; raises `UsageError` that names the first invalid field and says what it may be."""
    try:
        return kind(**fields)
    except ValidationError as e:
        first = e.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        allowed = first["msg"].removeprefix("Value error, ").replace("Input should", "it should")
        raise UsageError(f"{name} is {trim(repr(first['input']), 200)}", hint=allowed) from None


def place_of(device: str, where: Where) -> Place:
    """Return the `Place` of a call: the device, the machines to measure on, and the archive."""
    given: dict[str, object] = {**where}
    executors = given.get("executors")
    if not isinstance(executors, Executors | None):
        raise UsageError(f"executors is {trim(repr(executors), 200)}", hint="it should be made by forewarp.Executors()")
    fields: dict[str, Any] = {
        n: os.fspath(v) if isinstance(v, Path) else v for n, v in given.items() if n in Place.model_fields
    }
    return checked(Place, device=device, **fields)


def amounts_of(budget: int | None, options: Options) -> Amounts:
    """Return the caps of a run."""
    caps = checked(_Caps, budget=budget, **{name: v for name, v in options.items() if name in _Caps.model_fields})
    return Amounts(
        measurements=caps.budget,
        device_s=caps.max_gpu_seconds,
        dollars=caps.max_usd,
        tokens=caps.max_tokens,
        wall_s=caps.deadline,
    )


def rest_of(options: Options) -> dict[str, Any]:
    """Return the options that `SearchRequest` has under the same names, such as the models and the policy."""
    return {name: value for name, value in options.items() if name in SearchRequest.model_fields}
