"""Results in short, for readers with little room: language models, and clients of a server."""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel

from forewarp.tools.measured import Micros
from forewarp.tools.parts import Device, KernelId, Part

_UNREAD = ("schema_version", "subgraph", "evidence")
"""Fields of results that such a reader does without."""


def digest(value: Any, most: int | None = None) -> Any:
    """Return a result, or a part of one, in short and without what is empty; of lists the first `most` items.

    Devices and kernels are named, times are their medians, and what has a text of its own, such as an interval, is told
    by it. Numbers have four digits.
    """
    match value:
        case Device(name=name) | KernelId(short=name):
            return name
        case Micros(median=median):
            return digest(median)
        case BaseModel() if type(value).__str__ is not Part.__str__:
            return str(value)
        case BaseModel():
            return digest({n: getattr(value, n) for n in type(value).model_fields if n not in _UNREAD}, most)
        case dict():
            short = {str(k): digest(v, most) for k, v in cast("dict[Any, Any]", value).items()}
            return {k: v for k, v in short.items() if v is not None and v not in ("", [], {})}
        case object(__dataclass_fields__=names):
            return digest({n: getattr(value, n) for n in names}, most)
        case list() | tuple():
            return [digest(v, most) for v in cast("list[Any]", value)[:most]]
        case float():
            return float(f"{value:.4g}")
        case _:
            return value


def picked(source: object, names: str, /, **more: Any) -> dict[str, Any]:
    """Return attributes of an object by their names, and `more`, in short."""
    return digest({name: getattr(source, name) for name in names.split()} | more)
