"""Frozen values to JSON-ready data and back, by their annotations; standard library only."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache
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
    read = _reader(kind)
    return data if read is None else read(data)


_Reader = Callable[[Any], Any]


@cache
def _reader(kind: Any) -> _Reader | None:
    """Return the function that builds a `kind` from data, None if data is used as it is; cached for each type."""
    if dataclasses.is_dataclass(kind):
        return _Fields(typing.cast("type", kind))
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        inner = [a for a in args if a is not type(None)]
        if len(inner) > 1:  # a dataclass among plain values is what is written as an object
            inner = [a for a in inner if dataclasses.is_dataclass(a)]
            fields = _reader(inner[0]) if len(inner) == 1 else None
            return None if fields is None else lambda data: fields(data) if isinstance(data, Mapping) else data
        read = _reader(inner[0])
        return None if read is None else lambda data: None if data is None else read(data)
    if origin is tuple:
        each = [_reader(a) or _same for a in args]
        if args[1:] == (...,):
            return lambda data: tuple(map(each[0], data))
        return lambda data: tuple(read(v) for read, v in zip(each, data, strict=False))
    if origin is Sequence:
        item = _reader(args[0]) or _same
        return lambda data: list(map(item, data))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        value = _reader(args[1]) or _same
        return lambda data: {k: value(v) for k, v in data.items()}
    return _number if kind is float else None


class _Fields:
    """Builds a dataclass. Its fields are looked at with the first data, as they may be of its own type."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._readers: dict[str, _Reader | None] | None = None

    def __call__(self, data: Mapping[str, Any]) -> Any:
        readers = self._readers
        if readers is None:
            hints = typing.get_type_hints(self._kind)
            fields = dataclasses.fields(typing.cast("Any", self._kind))
            self._readers = readers = {f.name: _reader(hints[f.name]) for f in fields}
        known = [(k, readers[k], v) for k, v in data.items() if k in readers]
        return self._kind(**{k: v if read is None else read(v) for k, read, v in known})


def _number(data: Any) -> Any:
    return data if data is None else float(data)


def _same(data: Any) -> Any:
    return data
