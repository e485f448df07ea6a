# pyright: reportPrivateUsage=false, reportUnusedClass=false, reportUnusedFunction=false
"""The shape guard: the kernel where it was found right, the reference everywhere else."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

_Case = Mapping[str, Any]
_Launch = Callable[[Mapping[str, torch.Tensor]], None]
_Answer = Callable[[Sequence[Any], Mapping[str, torch.Tensor]], Any]


class _Guard:
    """Calls the kernel for values of a known case; says None for all others."""

    def __init__(
        self, cases: Sequence[_Case], device: Mapping[str, str], prepare: Callable[[_Case, torch.device], _Answer]
    ) -> None:
        self._device, self._prepare = device, prepare
        self._cases: dict[Any, list[_Case]] = {}
        for case in cases:  # by what is quick to look up at each call
            key = tuple((getattr(torch, k), v) if isinstance(v, tuple) else (k, v) for k, v in case["values"])
            state = {name: (getattr(torch, dtype), shape) for name, (dtype, shape) in case["state"].items()}
            self._cases.setdefault(key, []).append({**case, "state": state})
        self._ready: dict[tuple[str, torch.device], _Answer] = {}
        self._fitting: dict[torch.device, bool] = {}
        self._broken = False
        self.calls = 0

    def run(
        self,
        values: Sequence[Any],
        find: Callable[[str], torch.Tensor],
        training: bool,
        given: Sequence[Any],
        wanted: Sequence[Any],
        names: Mapping[str, Any],
    ) -> Any:
        """Return what the reference would, or None where it has to be asked.

        `find` returns a parameter by name, `training` is the module's mode, `given` what it was made with, `wanted`
        what it was made with when the kernel was judged, `names` the constants that the reference sees.
        """
        case = None if self._broken else self._case(values, given, wanted, names)
        if case is None or case["training"] not in (None, training):
            return None
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        state = self._state(case, find)
        if state is None or not self._plain([*tensors, *state.values()], case):
            return None
        key = (case["name"], tensors[0].device)
        answer = self._ready.get(key)
        if answer is None:
            try:
                answer = self._ready[key] = self._prepare(case, tensors[0].device)
            except Exception as e:
                self._broken = True
                warnings.warn(f"the kernel cannot be used here, so the reference is: {e}", RuntimeWarning, stacklevel=3)
                return None
        self.calls += 1
        return answer(values, state)

    def _case(
        self, values: Sequence[Any], given: Sequence[Any], wanted: Sequence[Any], names: Mapping[str, Any]
    ) -> _Case | None:
        key: list[Any] = []
        for value in values:
            if type(value) in (torch.Tensor, torch.nn.Parameter):
                key.append((value.dtype, value.shape))
            elif type(value) in (int, float, bool):
                key.append((type(value).__name__, value))
            else:
                return None
        for case in self._cases.get(tuple(key), ()):
            if _fits(case, given, wanted, names):
                return case
        return None

    def _state(self, case: _Case, find: Callable[[str], torch.Tensor]) -> dict[str, torch.Tensor] | None:
        found: dict[str, torch.Tensor] = {}
        for name, (dtype, shape) in case["state"].items():
            try:
                tensor = find(name)
            except AttributeError:
                return None
            if tensor.dtype != dtype or tensor.shape != shape:
                return None
            found[name] = tensor
        return found

    def _plain(self, tensors: Sequence[torch.Tensor], case: _Case) -> bool:
        """Return whether all lie on the device in plain order, and nobody wants their gradients."""
        device = tensors[0].device
        if device not in self._fitting:
            named = device.type != "cuda" or torch.cuda.get_device_name(device) == self._device["name"]
            self._fitting[device] = device.type == self._device["kind"] and named
        if not self._fitting[device] or torch.is_autocast_enabled(device.type):
            return False
        if _followed(tensors) or (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
            return False
        if case["writes"] and len({t.data_ptr() for t in tensors}) < len(tensors):
            return False
        for t in tensors:
            if t.device != device or not t.is_contiguous() or t.is_conj() or t.is_neg() or t.data_ptr() % 16:
                return False
        return True


def _followed(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether torch follows the operations on tensors otherwise than by recording them for a backward pass.

    That is so within `torch.func` (`jvp`, `vmap`, `grad`) and for forward-mode derivatives, which end at a kernel.
    """
    unpack = torch.autograd.forward_ad.unpack_dual
    return torch._C._are_functorch_transforms_active() or any(unpack(t).tangent is not None for t in tensors)


def _on_buffers(case: _Case, launch: _Launch) -> _Answer:
    """Return a function of values and parameters that makes the other buffers of a launch and returns its outputs."""
    inputs, params, aliases = case["inputs"], case["params"].items(), case["aliases"]
    scratch = [(name, shape, getattr(torch, dtype)) for name, (dtype, shape) in case["scratch"].items()]
    made = [(name, shape, getattr(torch, dtype)) for name, (dtype, shape) in case["outputs"].items()]

    def answer(values: Sequence[Any], state: Mapping[str, torch.Tensor]) -> Any:
        device = next(v for v in values if isinstance(v, torch.Tensor)).device
        buffers: dict[str, Any] = dict(zip(inputs, values, strict=True))
        for local, key in params:
            buffers[local] = state[key]
        for name, shape, dtype in scratch:
            buffers[name] = torch.zeros(shape, dtype=dtype, device=device)
        for name, shape, dtype in made:
            source = aliases.get(name)
            buffers[name] = buffers[source] if source else torch.empty(shape, dtype=dtype, device=device)
        outputs = [buffers[name] for name, _, _ in made]
        launch(buffers)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return answer


def _fits(case: _Case, given: Sequence[Any], wanted: Sequence[Any], names: Mapping[str, Any]) -> bool:
    """Return whether the module was made, and the reference's constants are, as when the kernel was judged."""
    if len(given) != len(wanted) or any(names.get(name) != value for name, value in case["constants"].items()):
        return False
    for place, (have, want) in enumerate(zip(given, wanted, strict=True)):
        expected = case["init"].get(place, want)
        if isinstance(have, (torch.Tensor, torch.nn.Module)) or have != expected:  # a union takes longer
            return False
    return True
