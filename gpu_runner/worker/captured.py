"""Captured inputs: read a file of calls into text, and draw a call's values from that text.

The text (JSON) travels in a task's `files`, so that jobs need no file of the user's, here or on another machine. It has
what a draw needs: tensors that stay as captured with their elements, all others with their mean and standard deviation.
"""

from __future__ import annotations

import base64
import inspect
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch

from forewarp.core.values import CAPTURED, Task
from forewarp.gpu_runner.worker.tracebacks import first_line

MOST_BYTES = 24 << 20
"""Bytes of the text: it is part of every job of the task."""
_MOST_KEPT = 1 << 30
"""Bytes of one tensor that is kept; more would hardly compress to `MOST_BYTES`."""
_PIECE = 1 << 24
_IN_PLACE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""What torch draws random numbers of; other dtypes are converted from float32."""
_KEYS = ("name", "weight", "values", "redraw")


class BadCapture(ValueError):
    """A file that holds no calls, or a call that is no use; the message is for the user."""


def read(path: str, sha256: str) -> dict[str, str]:
    """Return the text of a file with this digest, or an error for the user: `{"text": …}` or `{"error": …}`."""
    try:
        text = json.dumps({"sha256": sha256, "calls": _calls(_loaded(path))})
    except BadCapture as e:
        return {"error": str(e)}
    if len(text) > MOST_BYTES:
        return {
            "error": f"what stays as captured takes {len(text) / 2**20:.0f} MiB compressed, more than "
            f'{MOST_BYTES >> 20} MiB; capture fewer calls, or drop "redraw": False'
        }
    return {"text": text}


def _loaded(path: str) -> Any:
    try:
        return torch.load(path, weights_only=True, mmap=True, map_location="cpu")
    except Exception as e:  # torch raises whatever its unpickler runs into
        said = str(e)
        if "mmap can only be used" in said:
            raise BadCapture("it is no file that torch.save wrote, or one in torch's format before 1.6") from e
        if "WeightsUnpickler error:" in said:
            reason = said.partition("WeightsUnpickler error:")[2].strip().partition(". Please")[0]
            raise BadCapture(
                "it holds more than tensors, numbers, strings, tuples, lists and dicts, and code in a pickle is not "
                f"run: {next(iter(reason.splitlines()), 'an object of another kind')}"
            ) from e
        raise BadCapture(f"torch.load cannot read it: {type(e).__name__}: {first_line(e)}") from e


def _calls(data: Any) -> list[dict[str, Any]]:
    if not isinstance(data, list) or not data:
        raise BadCapture(
            f"it holds {'an empty list' if data == [] else f'a {type(data).__name__}, not a list of calls'}"
        )
    found = [_call(index, item) for index, item in enumerate(cast("list[Any]", data))]
    names = [c["name"] for c in found]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise BadCapture(f"several calls are named {', '.join(twice)}; give each call a name of its own")
    return found


def _call(index: int, item: Any) -> dict[str, Any]:
    given = cast("dict[Any, Any]", item) if isinstance(item, dict) else {"values": item}
    name, weight, redraw = given.get("name", f"call{index}"), given.get("weight", 1), given.get("redraw", True)
    unknown = [str(k) for k in given if k not in _KEYS]
    if unknown:
        raise BadCapture(f"call {index} has {', '.join(unknown)}; a call may have {', '.join(_KEYS)}")
    if not isinstance(name, str) or not name.strip():
        raise BadCapture(f"call {index} has the name {name!r}; a name is a text")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
        raise BadCapture(f"the weight of call {name} is {weight!r}; a weight is a number above 0")
    if not isinstance(redraw, bool):
        raise BadCapture(f"redraw of call {name} is {redraw!r}; it is True or False")
    values = given.get("values")
    if not isinstance(values, tuple | list):
        raise BadCapture(f"call {name} has no tuple or list of values, but {type(values).__name__}")
    writer = _Writer(name, redraw=redraw)
    nest = [writer.node(v) for v in cast("list[Any]", values)]
    return {"name": name, "weight": float(weight), "values": nest, "tensors": writer.tensors}


class _Writer:
    """Writer of one call's values; a tensor that appears twice is written once."""

    def __init__(self, name: str, *, redraw: bool) -> None:
        self.name, self.redraw = name, redraw
        self.tensors: list[dict[str, Any]] = []
        self._known: dict[int, int] = {}
        self._kept = 0

    def node(self, item: Any) -> list[Any]:
        """Return a value as JSON: its kind, and what it is made of."""
        if isinstance(item, torch.Tensor):
            if id(item) not in self._known:
                self._known[id(item)] = len(self.tensors)
                self.tensors.append(self._tensor(item.detach()))
            return ["tensor", self._known[id(item)]]
        if item is None or isinstance(item, bool | int | float | str):
            return ["value", item]
        if isinstance(item, torch.dtype):
            return ["dtype", str(item).removeprefix("torch.")]
        if isinstance(item, dict):
            return ["dict", [[k, self.node(v)] for k, v in self._texts(cast("dict[Any, Any]", item)).items()]]
        if isinstance(item, tuple | list):
            kind = "tuple" if isinstance(item, tuple) else "list"
            return [kind, [self.node(v) for v in cast("list[Any]", item)]]
        raise BadCapture(
            f"call {self.name} holds a {type(item).__name__}; captured values are tensors, numbers, strings, None, "
            "dtypes, and tuples, lists and dicts of these"
        )

    def _texts(self, item: dict[Any, Any]) -> dict[Any, Any]:
        if not all(isinstance(k, str | int) for k in item):
            raise BadCapture(f"call {self.name} holds a dict whose keys are not all texts or whole numbers")
        return item

    def _tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized or tensor.is_meta:
            raise BadCapture(f"call {self.name} holds a tensor that is not dense")
        order = sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d))
        if tensor.is_contiguous() or not tensor.permute(order).is_contiguous():
            order = list(range(tensor.dim()))
        plain = tensor.permute(order).contiguous()
        about = {"dtype": str(plain.dtype).removeprefix("torch."), "shape": list(plain.shape), "order": order}
        drawn = distribution(plain) if self.redraw and plain.is_floating_point() else None
        return about | (drawn or {"data": self._packed(plain)})

    def _packed(self, tensor: torch.Tensor) -> str:
        size = tensor.numel() * tensor.element_size()
        if size > _MOST_KEPT:
            raise BadCapture(
                f"call {self.name} holds a {tensor.dtype} tensor of {size / 2**30:.1f} GiB that stays as captured; at "
                f"most {_MOST_KEPT >> 30} GiB may"
            )
        packed = base64.b64encode(zlib.compress(tensor.reshape(-1).view(torch.uint8).numpy().tobytes(), 1)).decode()
        self._kept += len(packed)
        if self._kept > MOST_BYTES:
            raise BadCapture(
                f"what stays as captured in call {self.name} takes more than {MOST_BYTES >> 20} MiB compressed; "
                'capture smaller calls, or drop "redraw": False'
            )
        return packed


def distribution(tensor: torch.Tensor) -> dict[str, Any] | None:
    """Return mean, standard deviation and whether all values are in [0, 1]; None of what is no sample of anything.

    That is a tensor with infinities or NaN, or with two values at most: a mask or a constant, which means something.
    """
    count = tensor.numel()
    if not count:
        return None
    least, most, total = math.inf, -math.inf, 0.0
    for piece in _pieces(tensor):
        if not bool(piece.isfinite().all()):
            return None
        least, most = min(least, float(piece.min())), max(most, float(piece.max()))
        total += float(piece.sum())
    mean = total / count
    squares, others = 0.0, False
    for piece in _pieces(tensor):
        squares += float((piece - mean).square().sum())
        others = others or bool(((piece != least) & (piece != most)).any())
    if not others:
        return None
    return {"mean": mean, "std": math.sqrt(squares / count), "unit": least >= 0.0 and most <= 1.0}


def _pieces(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the elements in fp64, so many at a time that this takes little memory."""
    return (piece.double() for piece in tensor.reshape(-1).split(_PIECE))


@dataclass(frozen=True, slots=True)
class Call:
    """One captured call. `known` keeps the tensors that stay as captured."""

    name: str
    values: Sequence[Any]
    tensors: Sequence[Mapping[str, Any]]
    known: dict[int, torch.Tensor] = field(default_factory=dict[int, torch.Tensor], compare=False)

    @staticmethod
    def of_task(task: Task, workload: str) -> Call | None:
        """Return the call that a workload of a task is; None where the task has no captured inputs."""
        text = task.files.get(CAPTURED)
        if text is None:
            return None
        found = next(c for c in json.loads(text)["calls"] if c["name"] == workload)
        return Call(found["name"], found["values"], found["tensors"])

    def draw(self, seed: int, device: str) -> list[Any]:
        """Return what forward takes, fresh tensors on `device`; equal seeds give equal values."""
        torch.manual_seed(seed)
        tensors = [self._made(index, device) for index in range(len(self.tensors))]
        return [_built(node, tensors) for node in self.values]

    def check(self, forward: Any) -> None:
        """Raise `BadCapture` where a method does not take as many arguments as the call has."""
        try:
            inspect.signature(forward).bind(None, *self.values)
        except TypeError as e:
            raise BadCapture(
                f"the captured call {self.name} has {len(self.values)} values, which forward"
                f"{_parameters(forward)} does not take: {e}"
            ) from e

    def _made(self, index: int, device: str) -> torch.Tensor:
        about = self.tensors[index]
        dtype, shape, order = getattr(torch, about["dtype"]), about["shape"], about["order"]
        if device == "meta":
            made = torch.empty(shape, dtype=dtype, device="meta")
        elif "data" in about:
            if index not in self.known:
                raw = bytearray(zlib.decompress(base64.b64decode(about["data"])))
                flat = torch.frombuffer(raw, dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)
                self.known[index] = flat.view(dtype).reshape(shape)
            made = self.known[index].to(device, copy=True)
        else:
            made = _drawn(about, dtype, shape, device)
        return made.permute(sorted(range(len(order)), key=order.__getitem__))


def _parameters(forward: Any) -> str:
    names = list(inspect.signature(forward).parameters.values())[1:]
    return f"({', '.join(str(n) for n in names)})"


def _drawn(about: Mapping[str, Any], dtype: torch.dtype, shape: Sequence[int], device: str) -> torch.Tensor:
    made = torch.empty(shape, dtype=dtype if dtype in _IN_PLACE else torch.float32, device=device)
    mean, std = about["mean"], about["std"]
    if about["unit"]:
        half = min(math.sqrt(3.0) * std, mean, 1.0 - mean)  # the mean is kept, the spread as far as [0, 1] allows
        return made.uniform_(mean - half, mean + half).clamp_(0.0, 1.0).to(dtype)
    most = torch.finfo(dtype).max
    return made.normal_(mean, std).clamp_(-most, most).to(dtype)


def _built(node: Sequence[Any], tensors: Sequence[torch.Tensor]) -> Any:
    kind, content = node
    if kind == "tensor":
        return tensors[content]
    if kind == "dtype":
        return getattr(torch, content)
    if kind == "dict":
        return {key: _built(part, tensors) for key, part in content}
    if kind == "value":
        return content
    parts = [_built(part, tensors) for part in content]
    return tuple(parts) if kind == "tuple" else parts
