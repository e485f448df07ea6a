# pyright: reportUnusedFunction=false
"""The op's implementation, and that of its gradients: a kernel where it was found right, else the reference."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

_NAMES: Mapping[str, Any] = {}
_STATE: Sequence[str] = ()
_NUMBERS: Sequence[int] = ()
_TRAINING = False
_LAUNCHES = False
"""True if the kernel writes to outputs that are allocated for it, so that they share no memory with inputs."""
_GUARD: Any = None
_BACKWARD: Any = None
"""Guard of the kernel of gradients, if there is one: it takes those of the outputs at `_UPSTREAM` behind the values,
and returns those of what stands at `_GIVEN` among values and weights."""
_UPSTREAM: Sequence[int] = ()
_GIVEN: Sequence[int] = ()
_KEPT: dict[Any, torch.nn.Module] = {}
_CALLING = threading.RLock()
"""Held while a kept module has a call's weights."""


def _answer(values: Sequence[Any], state: Sequence[torch.Tensor], numbers: Sequence[Any]) -> Any:
    """Return the outputs, in memory of their own and in plain order."""
    given, wanted = _constructor(numbers)
    device = _device(values)
    with torch.no_grad(), _plainly(device):
        found = _GUARD.run(values, dict(zip(_STATE, state, strict=True)).__getitem__, _TRAINING, given, wanted, _NAMES)
        if found is not None and _LAUNCHES:
            return found
        outputs = _several(_call(_kept(numbers, device), values, state) if found is None else found)
    taken = {t.untyped_storage().data_ptr() for t in (*values, *state) if isinstance(t, torch.Tensor)}
    own: list[torch.Tensor] = []
    for output in outputs:
        plain = output.contiguous()
        own.append(plain.clone() if plain.untyped_storage().data_ptr() in taken else plain)
        taken.add(own[-1].untyped_storage().data_ptr())
    return _returned(own)


def _reference(values: Sequence[Any], state: Sequence[torch.Tensor], numbers: Sequence[Any]) -> Any:
    """Return the outputs by the reference's own operations, which torch follows in all its ways."""
    outputs = _several(_call(_kept(numbers, _device(values)), values, state))
    return _returned([o.clone(memory_format=torch.contiguous_format) for o in outputs])


def _shapes(values: Sequence[Any], state: Sequence[torch.Tensor], numbers: Sequence[Any]) -> Any:
    """Return outputs without elements, by the reference on tensors without elements."""
    device = _device(values)
    with torch.no_grad(), _plainly(device):
        outputs = _several(_call(_made(numbers, device), values, state))
    return _returned([torch.empty_like(o, memory_format=torch.contiguous_format) for o in outputs])


def _gradients(
    grads: Sequence[torch.Tensor],
    places: Sequence[int],
    values: Sequence[Any],
    state: Sequence[torch.Tensor],
    numbers: Sequence[Any],
) -> list[torch.Tensor]:
    """Return the gradients of what stands at some places among values and weights, which are of floating point.

    Without a kernel for them, they are those of the reference's autograd, which computes it again.
    """
    device = _device(values)
    if _BACKWARD is not None and set(places) <= set(_GIVEN):
        upstream = [grads[i].contiguous() for i in _UPSTREAM]
        find = dict(zip(_STATE, state, strict=True)).__getitem__
        with torch.no_grad(), _plainly(device):
            found = _BACKWARD.run([*values, *upstream], find, _TRAINING, *_constructor(numbers), _NAMES)
        if found is not None:
            made = dict(zip(_GIVEN, _several(found), strict=True))
            return [made[place] for place in places]

    with torch.no_grad(), _plainly(device):
        return _reference_gradients(grads, places, values, state, numbers)


def _reference_gradients(
    grads: Sequence[torch.Tensor],
    places: Sequence[int],
    values: Sequence[Any],
    state: Sequence[torch.Tensor],
    numbers: Sequence[Any],
) -> list[torch.Tensor]:
    """Return gradients as `_gradients` does, by operations that have gradients themselves."""
    together = [*values, *state]
    model = _kept(numbers, _device(values))

    def reference(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        whole = list(together)
        for place, tensor in zip(places, tensors, strict=True):
            whole[place] = tensor
        outputs = _several(_call(model, whole[: len(values)], whole[len(values) :]))
        return tuple(o for o in outputs if _is_float(o))

    pull = torch.func.vjp(reference, *(together[i] for i in places))[1]
    return [g.clone(memory_format=torch.contiguous_format) for g in pull(tuple(g for g in grads if _is_float(g)))]


def _gradient_shapes(
    places: Sequence[int], values: Sequence[Any], state: Sequence[torch.Tensor], numbers: Sequence[Any]
) -> list[torch.Tensor]:
    """Return gradients without elements."""
    together = [*values, *state]
    return [torch.empty_like(together[i], memory_format=torch.contiguous_format) for i in places]


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _device(values: Sequence[Any]) -> torch.device:
    return next(v.device for v in values if isinstance(v, torch.Tensor))


def _plainly(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Compute in the dtypes given, whatever autocast says around: fake and real outputs must not differ."""
    if torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return contextlib.nullcontext()


def _constructor(numbers: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the constructor's arguments, with `numbers` for those that differ among shapes, and the usual ones."""
    wanted = list(_NAMES["get_init_inputs"]())
    given = list(wanted)
    for place, number in zip(_NUMBERS, numbers, strict=True):
        given[place] = number
    return given, wanted


def _made(numbers: Sequence[Any], device: torch.device) -> torch.nn.Module:
    """Return the reference without weights of its own: each call brings its weights along."""
    with torch.device(device):
        model = _NAMES["Model"](*_constructor(numbers)[0]).train(_TRAINING).requires_grad_(False)
    held = model.state_dict(keep_vars=True)
    for name in _STATE:
        held[name].data = held[name].data.new_empty(()).expand(held[name].shape)
    return model


def _kept(numbers: Sequence[Any], device: torch.device) -> torch.nn.Module:
    key = repr(_constructor(numbers)[0]), device
    if key not in _KEPT:
        with ThreadPoolExecutor(1) as plain:  # a thread of its own knows nothing of transforms and traces around this
            _KEPT[key] = plain.submit(_made, numbers, device).result()
    return _KEPT[key]


def _call(model: torch.nn.Module, values: Sequence[Any], state: Sequence[torch.Tensor]) -> Any:
    with _CALLING:
        return torch.func.functional_call(model, dict(zip(_STATE, state, strict=True)), tuple(values))


def _returned(outputs: Sequence[torch.Tensor]) -> Any:
    """Return outputs as the op does: one alone, several as a tuple."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _several(result: Any) -> tuple[torch.Tensor, ...]:
    outputs = (result,) if isinstance(result, torch.Tensor) else tuple(result)
    if not all(isinstance(o, torch.Tensor) for o in outputs):
        raise TypeError("the op returns tensors, and the reference returns something else")
    return outputs
