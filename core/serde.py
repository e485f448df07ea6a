"""Frozen values to JSON-ready data and back, by their annotations; standard library only."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")


def to_data(value: Any) -> Any:
    """Return dicts, lists, strings and numbers that hold the same as `value`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_data(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): to_data(v) for k, v in typing.cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [to_data(v) for v in typing.cast("list[Any]", value)]
    return value


def from_data(kind: type[T], data: Any) -> T:
    """Build a `kind` from data made by `to_data`; unknown keys are dropped, missing ones take their defaults."""
    return _build(kind, data)


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _build(kind: Any, data: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        hints = _hints(typing.cast("type", kind))
        known = {f.name for f in dataclasses.fields(kind)}
        return typing.cast("Any", kind)(**{k: _build(hints[k], v) for k, v in data.items() if k in known})
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        inner = [a for a in args if a is not type(None)]
        return None if data is None else _build(inner[0], data) if len(inner) == 1 else data
    if origin is tuple:
        return tuple(_build(args[0], v) for v in data) if args[1:] == (...,) else tuple(map(_build, args, data))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return {k: _build(args[1], v) for k, v in data.items()}
    return float(data) if kind is float and data is not None else data
