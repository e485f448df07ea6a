"""Arguments that no verb takes, and values that make no sense, are refused before anything begins."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
from support import synthetic_executor as synthetic

import forewarp
from forewarp.archive.store import Archive, default_path
from forewarp.tools.parts import Place
from forewarp.tools.search import SearchRequest


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"max_usd": 2.0}, forewarp.UsageError, "no language model"),
        ({"budget": None}, forewarp.UsageError, "no cap"),
        ({"forecaster": "oracle"}, forewarp.UsageError, "forecaster is 'oracle'"),
        ({"model": "nobody:x"}, forewarp.ModelError, "nobody"),
        ({"device": "gpu"}, forewarp.UsageError, "device 'gpu' is unknown"),
        ({"device": "cpu", "executor": "elsewhere"}, forewarp.UsageError, "executor 'elsewhere' is unknown"),
        ({"budget": 0}, forewarp.UsageError, "budget is 0\nit should be greater than or equal to 1"),
        ({"budget": -3}, forewarp.UsageError, "budget is -3"),
        ({"seed": "x"}, forewarp.UsageError, "seed is 'x'"),
    ],
)
@pytest.mark.parametrize("verb", [forewarp.optimize])
def test_bad_arguments_say_what_is_wrong(
    verb: Callable[..., Any], options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        verb(synthetic.task(), **options)
    with Archive(default_path()) as archive:
        assert not archive.runs()


OUT_OF_RANGE: list[tuple[str, Any, str]] = [
    ("max_gpu_seconds", -1, "it should be greater than 0"),
    ("max_gpu_seconds", math.nan, "finite"),
    ("max_usd", 0, "it should be greater than 0"),
    ("max_tokens", 1.5, "valid integer"),
    ("deadline", 0, "it should be greater than 0"),
    ("deadline", math.inf, "finite"),
    ("audit", 3, "it should be less than or equal to 1"),
    ("explore", -1, "greater than or equal to 0"),
    ("proposals", 0, "greater than or equal to 1"),
    ("proposals", 10_000, "less than or equal to 1000"),
    ("measure_per_round", 10_000, "less than or equal to 1000"),
    ("patience", -1, "greater than or equal to 0"),
    ("plans", 99, "less than or equal to 16"),
    ("allow_tf32", "perhaps", "boolean"),
    ("gradients", "all", "'only' or 'too'"),
    ("size", "many", "valid dictionary"),
    ("language", "rust", "'cpp', 'triton'"),
    ("confirm", "perhaps", "boolean"),
    ("holdout", None, "boolean"),
    ("base_url", 3, "string"),
    ("forecast_model", 3, "string"),
]
PLACES: list[tuple[str, Any, str]] = [
    ("pool", 3, "string"),
    ("archive", 3, "string"),
    ("python", 3, "string"),
    ("executor", None, "string"),
    ("card", 3, "string"),
    ("executors", 3, "forewarp.Executors"),
]


def test_the_cases_are_all_options() -> None:
    assert {name for name, _, _ in OUT_OF_RANGE + PLACES} == set(forewarp.Options.__annotations__)
    assert {name for name, _, _ in PLACES} == set(forewarp.Where.__annotations__)


@pytest.mark.parametrize(("name", "value", "says"), OUT_OF_RANGE + PLACES)
def test_a_value_that_makes_no_sense_is_refused_by_its_name(name: str, value: Any, says: str) -> None:
    given: dict[str, Any] = {name: value}
    asked: list[Callable[[], object]] = [
        lambda: forewarp.optimize(synthetic.task(), **given),
    ]
    if name in forewarp.Where.__annotations__:
        asked += [
            lambda: forewarp.measure(synthetic.task(), synthetic.SOURCE, **given),
            lambda: forewarp.measure_all(synthetic.task(), [synthetic.SOURCE], **given),
            lambda: forewarp.forecast(synthetic.task(), synthetic.SOURCE, **given),
            lambda: forewarp.validate(synthetic.task(), **given),
            lambda: forewarp.resume("20260101-abc", **given),
        ]
    for ask in asked:
        with pytest.raises(forewarp.UsageError) as told:
            ask()
        assert told.value.message == f"{name} is {value!r}"
        assert says in told.value.hint


@pytest.mark.parametrize(
    ("verb", "given", "meant"),
    [
        (forewarp.optimize, "max_gpu_second", "did you mean 'max_gpu_seconds'?"),
        (forewarp.optimize, "budgt", "did you mean 'budget'?"),
        (forewarp.optimize, "nonsense", "help(forewarp.optimize) lists them"),
        (forewarp.measure, "tunable", "did you mean 'tunables'?"),
        (forewarp.measure_all, "againt", "did you mean 'against'?"),
        (forewarp.forecast, "executr", "did you mean 'executor'?"),
        (forewarp.validate, "devices", "did you mean 'device'?"),
        (forewarp.resume, "on_events", "did you mean 'on_event'?"),
    ],
)
def test_arguments_that_a_verb_does_not_take_are_refused(verb: Callable[..., Any], given: str, meant: str) -> None:
    first: tuple[Any, ...] = {
        "resume": ("20260101-abc",),
        "measure": (synthetic.task(), synthetic.SOURCE),
        "measure_all": (synthetic.task(), [synthetic.SOURCE]),
    }.get(verb.__name__, (synthetic.task(),))
    with pytest.raises(TypeError) as told:
        verb(*first, **{given: 1})
    assert str(told.value) == f"{verb.__name__}() got an unexpected keyword argument {given!r}; {meant}"


def test_every_part_of_a_request_can_be_said() -> None:
    named = set(inspect.signature(forewarp.optimize).parameters) | set(forewarp.Options.__annotations__)
    renamed = {"place": "device", "seed_kernels": "seeds"}
    assert {renamed.get(f, f) for f in SearchRequest.model_fields} <= named
    assert {"device", *Place.model_fields} <= named
