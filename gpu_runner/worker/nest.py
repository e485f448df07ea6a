"""Nested data as a flat list of values, and back: what a task makes its inputs of, and what it returns, is any nest."""

from __future__ import annotations

import copy
import enum
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, cast

import torch

NestBuilder = Callable[[Sequence[Any]], Any]
"""Given the values of a nest, in order, make the nest anew; containers are fresh at each call."""

_CONSTANTS = (
    *(type(None), str, bytes, complex, range, slice, type(...), enum.Enum, type, FunctionType, BuiltinFunctionType),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
"""What is handed over as it is: it looks the same however often it is made."""


def flatten(data: Any, *, strided: bool = True) -> tuple[list[Any], NestBuilder]:
    """Return the tensors and numbers of `data` in order of appearance, and how to build such a nest from values.

    Tuples, lists and dicts are entered, and so are objects that hold tensors as attributes, but only for their tensors.
    A tensor appears once, contiguous: where its memory is dense in another order of its dimensions, the value has that
    order and the nest gets a view.

    Without `strided`, for results: values and nest have a tensor's own order, and numbers come from the values, too.
    """
    flattener = _Flattener(strided)
    build = flattener.enter(data, numbers=True)
    return flattener.values, build


def leaves(result: Any) -> list[Any]:
    if isinstance(result, dict):
        return [leaf for item in cast("dict[Any, Any]", result).values() for leaf in leaves(item)]
    if isinstance(result, tuple | list):
        return [leaf for item in cast("list[Any]", result) for leaf in leaves(item)]
    return [result]


def storage_of(tensor: torch.Tensor) -> int:
    """Return a number that tells storages of living tensors apart, those without values too."""
    return int(tensor.untyped_storage()._cdata)  # pyright: ignore[reportPrivateUsage]


def is_flat(data: Sequence[Any]) -> bool:
    """Return whether these are values already: different contiguous tensors, and numbers."""
    tensors = [v for v in data if isinstance(v, torch.Tensor)]
    distinct = len({id(t) for t in tensors}) == len(tensors)
    return distinct and all(v.is_contiguous() if isinstance(v, torch.Tensor) else _is_number(v) for v in data)


def check_inputs(data: Sequence[Any]) -> None:
    for index, item in enumerate(data):
        what = _refused(item, set())
        if what:
            raise TypeError(
                f"input {index} is {what}, which cannot be handed to a kernel; inputs are dense tensors, numbers, "
                "strings, None, and tuples, lists, dicts and objects of these"
            )


def _is_constant(value: Any) -> bool:
    return isinstance(value, _CONSTANTS)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, enum.Enum)


def _refused(item: Any, path: set[int]) -> str:
    """Return the kind of what cannot be handed over with its article, or ""."""
    if isinstance(item, torch.Tensor):
        if type(item) not in (torch.Tensor, torch.nn.Parameter) and type(item).__name__ != "FakeTensor":
            return _article(f"{type(item).__name__} (a subclass of Tensor)")
        if item.layout is not torch.strided or item.is_nested or item.is_quantized:
            kind = "nested" if item.is_nested else "quantized" if item.is_quantized else str(item.layout)[6:]
            return _article(f"{kind} tensor")
        return ""
    if isinstance(item, int | float) or _is_constant(item) or id(item) in path:
        return ""
    parts: list[Any]
    if isinstance(item, dict):
        parts = list(cast("dict[Any, Any]", item).values())
    elif isinstance(item, tuple | list):
        parts = list(cast("list[Any]", item))
    elif isinstance(getattr(item, "__dict__", None), dict) and not isinstance(item, ModuleType):
        parts = list(vars(item).values())
    else:
        return _article(type(item).__name__)
    found = next((what for part in parts if (what := _refused(part, path | {id(item)}))), "")
    return f"{_article(type(item).__name__)} that holds {found}" if found else ""


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


class _Flattener:
    def __init__(self, strided: bool) -> None:
        self.strided = strided
        self.values: list[Any] = []
        self.known: dict[int, NestBuilder] = {}
        self.path: set[int] = set()
        self.visits = 0

    def enter(self, item: Any, *, numbers: bool) -> NestBuilder:
        if isinstance(item, torch.Tensor):
            self.visits += 1
            if id(item) not in self.known:
                self.known[id(item)] = self._tensor(item)
            return self.known[id(item)]
        if _is_number(item):
            return self._number(item, numbers)
        if id(item) in self.path:  # an object that refers to itself
            return lambda _: item
        self.path.add(id(item))
        try:
            return self._container(item, numbers)
        finally:
            self.path.discard(id(item))

    def _number(self, number: Any, numbers: bool) -> NestBuilder:
        position = len(self.values)
        if numbers:
            self.values.append(number)
        if not numbers or self.strided:
            return lambda _: number
        return lambda values: values[position].item() if isinstance(values[position], torch.Tensor) else number

    def _tensor(self, tensor: torch.Tensor) -> NestBuilder:
        position = len(self.values)
        plain = tensor.detach()
        order = sorted(range(plain.dim()), key=lambda d: -plain.stride(d))
        if not self.strided or plain.is_contiguous() or not plain.permute(order).is_contiguous():
            self.values.append(plain.contiguous())
            return lambda values: values[position]
        self.values.append(plain.permute(order))
        inverse = sorted(range(len(order)), key=order.__getitem__)
        return lambda values: values[position].permute(inverse)

    def _container(self, item: Any, numbers: bool) -> NestBuilder:
        if isinstance(item, dict):
            parts = {k: self.enter(v, numbers=numbers) for k, v in cast("dict[Any, Any]", item).items()}
            empty = copy.copy(cast("dict[Any, Any]", item))  # its kind, without the tensors that it held
            empty.clear()
            return lambda values: _filled(empty, parts, values)
        if isinstance(item, tuple | list):
            kind = cast("Any", type(item))
            builds = [self.enter(v, numbers=numbers) for v in cast("list[Any]", item)]
            if hasattr(kind, "_make"):
                return lambda values: kind(*(b(values) for b in builds))
            return lambda values: kind(b(values) for b in builds)
        return self._object(item)

    def _object(self, item: Any) -> NestBuilder:
        attributes = getattr(item, "__dict__", None)
        if not isinstance(attributes, dict) or isinstance(item, ModuleType) or _is_constant(item):
            return lambda _: item
        before = self.visits
        parts = {k: self.enter(v, numbers=False) for k, v in cast("dict[str, Any]", attributes).items()}
        if self.visits == before:
            return lambda _: item

        def build(values: Sequence[Any]) -> Any:
            made = object.__new__(type(item))
            made.__dict__.update({k: b(values) for k, b in parts.items()})
            return made

        return build


def _filled(empty: dict[Any, Any], parts: dict[Any, NestBuilder], values: Sequence[Any]) -> dict[Any, Any]:
    made = copy.copy(empty)
    for key, build in parts.items():
        made[key] = build(values)
    return made
