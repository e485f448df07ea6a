"""The parameters and buffers of a module that its calls change, kept so that they can be put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def held_by(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers by name, those included that are left out of `state_dict`."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    return {**parameters, **dict(module.named_buffers(remove_duplicate=False))}


class State:
    """Some parameters and buffers of a module, with what they hold now (`saved`); names that it lacks are left out."""

    def __init__(self, module: torch.nn.Module, names: Sequence[str]) -> None:
        held = held_by(module) if names else {}
        self._module = module
        self._places = {name: held[name] for name in names if name in held}
        self.saved = {name: tensor.detach().clone() for name, tensor in self._places.items()}

    def put_back(self) -> None:
        """Give every tensor its contents again, in the same memory if possible: a graph may have captured it."""
        for name, saved in self.saved.items():
            store, last = self._store(name)
            current = store.get(last)
            if current is not None and current is self._places[name]:
                current.detach().copy_(saved)
                continue
            # Its memory may be that of an input or an output by now, which must not change.
            kept = saved if current is None else saved.to(current.dtype)
            self._places[name] = store[last] = kept.clone()

    def now(self) -> dict[str, torch.Tensor]:
        """Return copies of the tensors as they are; those that are gone are left out."""
        found = {name: store.get(last) for name in self.saved for store, last in [self._store(name)]}
        return {name: tensor.detach().clone() for name, tensor in found.items() if tensor is not None}

    def _store(self, name: str) -> tuple[dict[str, Any], str]:
        owner, _, last = name.rpartition(".")
        module: Any = self._module.get_submodule(owner)
        store: dict[str, Any] = module._parameters if last in module._parameters else module._buffers
        return store, last
