"""Calls of a module made alike: buffers that a call changes are put back, and random numbers begin at a known seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def held_by(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers by name, those included that are left out of `state_dict`."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    return {**parameters, **dict(module.named_buffers(remove_duplicate=False))}


class State:
    """Some parameters and buffers of a module, with what they hold now; names that it lacks are left out."""

    def __init__(self, module: torch.nn.Module, names: Sequence[str]) -> None:
        held = held_by(module) if names else {}
        self._module = module
        self._places = {name: held[name] for name in names if name in held}
        self._saved = {name: tensor.detach().clone() for name, tensor in self._places.items()}

    @property
    def saved(self) -> dict[str, torch.Tensor]:
        """What `put_back` puts back, by name."""
        return self._saved

    def put_back(self) -> None:
        """Give every tensor the contents that it had; one that was replaced by another gets a place of its own again.

        Contents go into the same memory where they can: a module may have it captured in a graph.
        """
        for name, saved in self._saved.items():
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
        found = {name: store.get(last) for name in self._saved for store, last in [self._store(name)]}
        return {name: tensor.detach().clone() for name, tensor in found.items() if tensor is not None}

    def _store(self, name: str) -> tuple[dict[str, Any], str]:
        owner, _, last = name.rpartition(".")
        module: Any = self._module.get_submodule(owner)
        store: dict[str, Any] = module._parameters if last in module._parameters else module._buffers
        return store, last


class AlikeCalls(torch.nn.Module):
    """A reference that does the same at each call: its state is put back, and torch seeded if there is a seed.

    It returns the outputs, then those of the state's tensors that are named in `compared`. Made with `own_precision`,
    it refuses to be converted to fp64, in which its random numbers would be others.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        state: State,
        compared: Sequence[str],
        seed: int | None,
        outputs_of: Callable[[Any], list[torch.Tensor]],
        *,
        own_precision: bool = False,
    ) -> None:
        super().__init__()
        self.model, self.state, self.compared, self.seed = model, state, tuple(compared), seed
        self.own_precision, self._outputs_of = own_precision, outputs_of

    def _apply(self, fn: Any, recurse: bool = True) -> AlikeCalls:
        """Convert all tensors; raises TypeError where the reference has to stay in its own precision."""
        if self.own_precision:
            raise TypeError("in another precision, the reference would draw other random numbers")
        return super()._apply(fn, recurse)

    def forward(self, *values: Any) -> list[torch.Tensor]:
        """Return the outputs, then the state that is compared, as it is after the call."""
        self.state.put_back()
        if self.seed is not None:
            torch.manual_seed(self.seed)
        outputs = self._outputs_of(self.model(*values))
        now = self.state.now()
        return [*outputs, *(now[name] for name in self.compared)]
