"""Modules whose calls also take the backward pass, by their own autograd, and return its gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch

from forewarp.core.values import Backward, TensorSpec
from forewarp.gpu_runner.worker.nest import NestBuilder, leaves, storage_of


def find(model: torch.nn.Module, build: NestBuilder | None, values: Sequence[Any]) -> tuple[Backward, list[int | str]]:
    """Run a reference forward and backward once; return which gradients there are, and what they depend on.

    They are with respect to parameters and to the inputs that require theirs, or, where none does, to all of floating
    point; those on which no output depends are left out. Raises ValueError where there are none.
    """
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    floats = [i for i, t in enumerate(tensors) if t.is_floating_point() or t.is_complex()]
    chosen = [i for i in floats if tensors[i].requires_grad] or floats
    params = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with torch.enable_grad():
        given, wanted = _requiring(values, chosen)
        outputs = dict(enumerate(_results(model(*(build(given) if build else given)))))
        differentiable = {i: o for i, o in outputs.items() if isinstance(o, torch.Tensor) and o.requires_grad}
        sources = dict(zip([*chosen, *params], [*wanted, *params.values()], strict=True))
        first = _gradients(list(differentiable.values()), sources)
        if not first:
            raise ValueError("the task asks for gradients, and no output of forward depends on an input that has one")
        second: dict[int | str, torch.Tensor] = {}
        with contextlib.suppress(RuntimeError):  # not all of torch can be differentiated twice
            second = _gradients([g for g in first.values() if g.requires_grad], sources)
    upstream = [
        TensorSpec(str(i), tuple(o.shape), str(o.dtype).removeprefix("torch.")) for i, o in differentiable.items()
    ]
    inputs, names = (i for i in first if isinstance(i, int)), (name for name in first if isinstance(name, str))
    return Backward(tuple(upstream), tuple(inputs), tuple(names)), list(second)


def _gradients(
    ends: Sequence[torch.Tensor], sources: Mapping[int | str, torch.Tensor]
) -> dict[int | str, torch.Tensor]:
    """Return the gradients of some tensors' sum, with a graph of their own, for the sources that they depend on."""
    if not ends:
        return {}
    ones = [torch.ones_like(e) for e in ends]
    found = torch.autograd.grad(ends, list(sources.values()), ones, create_graph=True, allow_unused=True)
    known = zip(sources, cast("Sequence[torch.Tensor | None]", found), strict=True)
    return {name: gradient for name, gradient in known if gradient is not None}


def draw(backward: Backward, device: str) -> list[torch.Tensor]:
    """Return upstream gradients by torch's generator as it is."""
    return [torch.randn(s.shape, dtype=getattr(torch, s.dtype), device=device) for s in backward.upstream]


def differentiate(
    model: torch.nn.Module, build: NestBuilder | None, backward: Backward, *, results: bool
) -> torch.nn.Module:
    """Make calls of a module, which gets a class of its own, take upstream gradients and return gradients.

    They come behind `results` if asked for.
    """
    kind: Any = type(model)
    replaced = vars(model).pop("forward", None)  # by a compiled one, for example

    def forward(self: torch.nn.Module, *values: Any) -> list[Any]:
        def run(given: Sequence[Any]) -> Any:
            nest = build(given) if build else given
            return replaced(*nest) if replaced else kind.forward(self, *nest)

        outputs, gradients = _pass(self, run, values, backward)
        return [*outputs, *gradients] if results else gradients

    model.__class__ = cast("type[torch.nn.Module]", type(kind.__name__, (kind,), {"forward": forward}))
    return model


def _pass(
    model: torch.nn.Module, run: Callable[[Sequence[Any]], Any], values: Sequence[Any], backward: Backward
) -> tuple[list[Any], list[torch.Tensor]]:
    """Run forward and backward; return forward's results, and gradients in memory of their own."""
    count = len(values) - len(backward.upstream)
    # In this thread, so that what is launched is seen by whoever observes a call.
    with torch.enable_grad(), torch.autograd.set_multithreading_enabled(False):
        given, wanted = _requiring(values[:count], backward.inputs)
        results, params = _results(run(given)), dict(model.named_parameters(remove_duplicate=False))
        if missing := [name for name in backward.params if name not in params]:
            raise ValueError(f"the module has no parameter {missing[0]!r}, whose gradient the task asks for")
        ends = [results[int(s.name)] for s in backward.upstream]
        found = torch.autograd.grad(ends, [*wanted, *(params[name] for name in backward.params)], values[count:])
    taken = {storage_of(v) for v in values if isinstance(v, torch.Tensor)}
    gradients: list[torch.Tensor] = []
    for gradient in found:  # an addition passes the upstream gradient on as it is
        gradients.append(gradient.clone() if storage_of(gradient) in taken else gradient)
        taken.add(storage_of(gradients[-1]))
    return [r.detach() if isinstance(r, torch.Tensor) else r for r in results], gradients


def _requiring(values: Sequence[Any], positions: Sequence[int]) -> tuple[list[Any], list[torch.Tensor]]:
    """Return the values with those tensors, by position among the tensors, made to require gradients; and these."""
    given = list(values)
    places = [i for i, v in enumerate(given) if isinstance(v, torch.Tensor)]
    for position in positions:
        place = places[position]
        given[place] = given[place].detach().requires_grad_()
    return given, [given[places[position]] for position in positions]


def _results(result: Any) -> list[Any]:
    return [leaf for leaf in leaves(result) if leaf is not None]
