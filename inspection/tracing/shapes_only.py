"""Tensors that have a shape and no values, for modules whose data would not fit or take long to make."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator
from typing import Any, cast

import torch

from forewarp.inspection.tracing.masquerade import Masquerade, replaced

_FIRST_ADDRESS, _ALIGNED = 1 << 32, 512


class _Addresses:
    """Gives each storage an address of its own, aligned as CUDA's allocator does, that no memory stands behind."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._next = itertools.count(1)

    def of(self, tensor: Any) -> int:
        base = self._known.setdefault(
            tensor.untyped_storage()._cdata, _FIRST_ADDRESS + (next(self._next) << 24) * _ALIGNED
        )
        return base + tensor.storage_offset() * tensor.element_size()


@contextlib.contextmanager
def shapes_only(mode: Masquerade) -> Generator[None]:
    """Make tensors without values within this context; the masquerade answers questions as for real tensors."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    addresses, kind = _Addresses(), cast("Any", FakeTensor)
    own = kind.device

    def device(tensor: Any) -> torch.device:
        found: torch.device = own.fget(tensor)
        return torch.device("cuda", 0) if found.type == "cpu" and not mode.inside else found

    def data_ptr(tensor: Any) -> int:
        return addresses.of(tensor)

    changes: list[tuple[Any, str, Any]] = [
        (kind, "device", property(device, own.fset)),
        (kind, "data_ptr", data_ptr),
        (torch.nn.Module, "_apply", _apply),
    ]
    with replaced(changes), FakeTensorMode(allow_non_fake_inputs=True):
        yield


def _apply(module: Any, function: Any, recurse: bool = True) -> Any:
    """Apply `function` to parameters and buffers as `Module._apply`, which cannot swap tensors without values."""
    if recurse:
        for child in module.children():
            child._apply(function)
    for name, parameter in module._parameters.items():
        if parameter is not None:
            changed = function(parameter.data)
            module._parameters[name] = torch.nn.Parameter(changed, parameter.requires_grad)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = function(buffer)
    return module
