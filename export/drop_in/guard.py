# pyright: reportUnusedClass=false, reportUnusedFunction=false
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
        for case in cases:
            self._cases.setdefault(case["values"], []).append(case)
        self._ready: dict[tuple[str, torch.device], _Answer] = {}
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
        if case is None:
            return None
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        state = self._state(case, find)
        if state is None or not self._plain([*tensors, *state.values()], case):
            return None
        if case["training"] not in (None, training):
            return None
        key = (case["name"], tensors[0].device)
        try:
            answer = self._ready.get(key) or self._prepare(case, tensors[0].device)
        except Exception as e:
            self._broken = True
            warnings.warn(f"the kernel cannot be used here, so the reference is: {e}", RuntimeWarning, stacklevel=3)
            return None
        self._ready[key] = answer
        self.calls += 1
        return answer(values, state)

    def _case(
        self, values: Sequence[Any], given: Sequence[Any], wanted: Sequence[Any], names: Mapping[str, Any]
    ) -> _Case | None:
        key: list[Any] = []
        for value in values:
            if type(value) in (torch.Tensor, torch.nn.Parameter):
                key.append((str(value.dtype).removeprefix("torch."), tuple(value.shape)))
            elif type(value) in (int, float, bool):
                key.append((type(value).__name__, value))
            else:
                return None
        return next((c for c in self._cases.get(tuple(key), ()) if _fits(c, given, wanted, names)), None)

    def _state(self, case: _Case, find: Callable[[str], torch.Tensor]) -> dict[str, torch.Tensor] | None:
        found: dict[str, torch.Tensor] = {}
        for name, (dtype, shape) in case["state"].items():
            try:
                tensor = find(name)
            except AttributeError:
                return None
            if str(tensor.dtype) != f"torch.{dtype}" or tuple(tensor.shape) != shape:
                return None
            found[name] = tensor
        return found

    def _plain(self, tensors: Sequence[torch.Tensor], case: _Case) -> bool:
        """Return whether all lie on the device in plain order, and nobody wants their gradients."""
        device = tensors[0].device
        if device.type != self._device["kind"] or torch.is_autocast_enabled(device.type):
            return False
        if device.type == "cuda" and torch.cuda.get_device_name(device) != self._device["name"]:
            return False
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return False
        if case["writes"] and len({t.data_ptr() for t in tensors}) < len(tensors):
            return False
        return all(
            t.device == device and t.is_contiguous() and not t.is_conj() and not t.is_neg() and t.data_ptr() % 16 == 0
            for t in tensors
        )


def _on_buffers(case: _Case, launch: _Launch) -> _Answer:
    """Return a function of values and parameters that makes the other buffers of a launch and returns its outputs."""

    def answer(values: Sequence[Any], state: Mapping[str, torch.Tensor]) -> Any:
        device = next(v for v in values if isinstance(v, torch.Tensor)).device
        buffers: dict[str, Any] = dict(zip(case["inputs"], values, strict=True))
        buffers |= {local: state[key] for local, key in case["params"].items()}
        for name, (dtype, shape) in case["scratch"].items():
            buffers[name] = torch.zeros(shape, dtype=getattr(torch, dtype), device=device)
        outputs: list[torch.Tensor] = []
        for name, (dtype, shape) in case["outputs"].items():
            source = case["aliases"].get(name)
            made = buffers[source] if source else torch.empty(shape, dtype=getattr(torch, dtype), device=device)
            buffers[name] = made
            outputs.append(made)
        launch(buffers)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return answer


def _fits(case: _Case, given: Sequence[Any], wanted: Sequence[Any], names: Mapping[str, Any]) -> bool:
    """Return whether the module was made, and the reference's constants are, as when the kernel was judged."""
    if len(given) != len(wanted) or any(names.get(name) != value for name, value in case["constants"].items()):
        return False
    for place, (have, want) in enumerate(zip(given, wanted, strict=True)):
        expected = case["init"].get(place, want)
        if isinstance(have, torch.Tensor | torch.nn.Module) or have != expected:
            return False
    return True
