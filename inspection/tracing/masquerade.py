"""CPU tensors that pass for CUDA tensors: a mode that looks at every call of torch, and stand-ins in `torch.cuda`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors  # pyright: ignore[reportPrivateUsage]

from forewarp.core.values import Target
from forewarp.inspection.tracing.cuda_stand_ins import constant, stand_ins
from forewarp.inspection.tracing.recorder import Recorder

_CUDA = re.compile(r"cuda(:\d+)?")
_DEVICE = torch.device("cuda", 0)
_KINDS = re.compile(r"torch\.cuda\.(\w+Tensor)")


def _is_cuda(value: Any) -> bool:
    if isinstance(value, str):
        return _CUDA.fullmatch(value) is not None
    return isinstance(value, torch.device) and value.type == "cuda"


class Masquerade(TorchFunctionMode):
    """Runs every call of torch on the CPU, whatever device it names, and says "cuda" when a tensor is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0
        self._constructors: frozenset[Any] = frozenset(_device_constructors())
        tensor: Any = torch.Tensor
        self._answers: dict[Any, Callable[..., Any]] = {
            tensor.device.__get__: _device_of,
            tensor.is_cuda.__get__: _is_on_cuda,
            tensor.is_cpu.__get__: constant(False),
            tensor.get_device: constant(0),
            tensor.is_pinned: constant(False),
            tensor.record_stream: constant(None),
            tensor.pin_memory: _itself,
            tensor.cuda: _itself,
        }

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        self.inside += 1
        try:
            if func is torch.device:
                return func(*args, **named)
            answer = self._answers.get(func)
            if answer is not None:
                return answer(*args, **named)
            # A `with torch.device("cuda")` of the module comes after this mode, and fills in what is missing.
            if func in self._constructors and named.get("device") is None and not _on_meta():
                named["device"] = "cpu"
            if func is torch.Tensor.to and len(args) > 1 and type(args[1]) is int:
                args = (args[0], "cpu", *args[2:])
            if func is torch.Tensor.type and len(args) > 1 and isinstance(args[1], str):
                args = (args[0], _KINDS.sub(r"torch.\1", args[1]), *args[2:])
            if type(named.get("device")) is int:
                named["device"] = "cpu"
            args = ["cpu" if _is_cuda(a) else a for a in args]
            return func(*args, **{k: "cpu" if _is_cuda(v) else v for k, v in named.items()})
        finally:
            self.inside -= 1


def _device_of(tensor: torch.Tensor) -> torch.device:
    return tensor.device if tensor.device.type == "meta" else _DEVICE


def _is_on_cuda(tensor: torch.Tensor) -> bool:
    return tensor.device.type != "meta"


def _itself(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    del args, kwargs
    return tensor


def _on_meta() -> bool:
    device = torch.get_default_device()
    return device.type == "meta"


@contextlib.contextmanager
def replaced(changes: Sequence[tuple[Any, str, Any]]) -> Generator[None]:
    """Replace attributes (owner, name, value) within this context; those that were not there are removed again."""
    nothing = object()
    before = [(owner, name, vars(owner).get(name, nothing)) for owner, name, _ in changes]
    try:
        for owner, name, value in changes:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            if value is nothing:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


@contextlib.contextmanager
def masquerading(target: Target, recorder: Recorder) -> Generator[Masquerade]:
    """Let this thread's CPU tensors pass for tensors on `target`, and `torch.cuda` for one with such a device."""
    with replaced(stand_ins(target, recorder)), Masquerade() as mode:
        yield mode
