"""A model's file with kernels in the places of subgraphs: the text of a module that stands in for the model."""

from __future__ import annotations

import json
import pprint
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forewarp.models.jobs import ModelGraph, Statement, Subgraph, SubgraphPlace

_TEXT = '''

# From here on by `forewarp apply`: the model's graph, with kernels in the places of {count} of its subgraphs. The model
# above is as it was.
import inspect as _inspect
import linecache as _linecache
import sys as _sys
import types as _types

import torch as _torch
import torch.nn.functional as _F
from torch.utils import _pytree

_KERNELS = {kernels}
"""Text of a module by the subgraph that its `ModelNew` is for."""
_PLACES = {places}
"""For each place: its subgraph, weights by the names that the kernel's module has, and layouts of what it returns."""
_INPUTS = {inputs}
"""Shapes and dtypes of the inputs that the graph is for, or values."""
_SPEC = {spec}
_ACTIVE = []


def _loaded(name, text):
    file = f"<{{name}}>"
    _linecache.cache[file] = (len(text), None, text.splitlines(True), file)  # Triton reads what it compiles
    module = _sys.modules[name] = _types.ModuleType(name)
    exec(compile(text, file, "exec"), module.__dict__)
    return module


def _described(leaf):
    return (tuple(leaf.shape), str(leaf.dtype)) if isinstance(leaf, _torch.Tensor) else leaf


def _run(active, place, inputs):
    made = _ACTIVE[active][place](*inputs)
    made = [made] if isinstance(made, _torch.Tensor) else list(made)
    for index, (shape, stride, dtype) in enumerate(_PLACES[place][2]):
        one = made[index]
        if one.stride() != stride:  # what comes after may count on it
            empty = _torch.empty_strided(shape, stride, dtype=getattr(_torch, dtype), device=one.device)
            made[index] = empty.copy_(one)
    return made


@_torch.library.custom_op("forewarp_{digest}::run", mutates_args=())
def _op(active: int, place: int, inputs: list[_torch.Tensor]) -> list[_torch.Tensor]:
    return _run(active, place, inputs)


@_op.register_fake
def _(active, place, inputs):
    return [
        inputs[0].new_empty_strided(shape, stride, dtype=getattr(_torch, dtype))
        for shape, stride, dtype in _PLACES[place][2]
    ]


class ModelNew(Model):
    """The model, with kernels in some places; with gradients, or on other inputs, the model as it was."""

    _kernels = ()

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        modules = {{name: _loaded(f"_kernel_{{name}}", text) for name, text in _KERNELS.items()}}
        self._kernels = [modules[name].ModelNew() for name, _, _ in _PLACES]
        self._active = len(_ACTIVE)
        _ACTIVE.append(self._kernels)
        self._share()
{constants}
    def _share(self):
        for kernel, (_, weights, _) in zip(self._kernels, _PLACES):
            for name, path in weights.items():
                owner, _, last = path.rpartition(".")
                held = kernel._parameters if name in kernel._parameters else kernel._buffers
                if name not in held:
                    raise RuntimeError(f"the kernel's module has no weight {{name}} to take the model's {{path}}")
                held[name] = getattr(self.get_submodule(owner), last)

    def _apply(self, *args, **kwargs):
        super()._apply(*args, **kwargs)
        self._share()
        return self

    def _at(self, place, *inputs):
        if _torch.compiler.is_compiling():
            return _op(self._active, place, list(inputs))
        return _run(self._active, place, inputs)

    def forward(self, *args, **kwargs):
        if kwargs:
            args = _inspect.signature(super().forward).bind(*args, **kwargs).args
        leaves = _pytree.tree_leaves(args)
        if _torch.is_grad_enabled() or self.training != {training} or [_described(leaf) for leaf in leaves] != _INPUTS:
            return super().forward(*args)
{body}
'''

_COMPILED = '''

class ModelNew({base}):
    """The model, compiled by torch.compile."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._compiled = _torch.compile(super().forward, dynamic=False)

    def forward(self, *args, **kwargs):
        return self._compiled(*args, **kwargs)
'''


@dataclass(frozen=True, slots=True)
class Replacement:
    """A subgraph with the text of a module whose `ModelNew` does what it does."""

    subgraph: Subgraph
    text: str


def patched(source: str, graph: ModelGraph, replacements: Sequence[Replacement]) -> str:
    """Return a model's file with a `ModelNew` that has the replacements in all places of their subgraphs."""
    places = [(r.subgraph, place) for r in replacements for place in r.subgraph.places]
    table = [(s.sha256, dict(zip(s.parameters, p.weights, strict=True)), list(s.layouts)) for s, p in places]
    digest = "_".join(r.subgraph.sha256[:8] for r in replacements)
    constants = [f"        self._{name} = {_own(text)}" for name, text in graph.constants.items()]
    return (
        source.rstrip()
        + "\n"
        + _TEXT.format(
            count=len(replacements),
            kernels=_strings({r.subgraph.sha256: r.text for r in replacements}),
            places=pprint.pformat(table, width=118, sort_dicts=False),
            inputs=pprint.pformat([_leaf(d) for d in graph.described], width=118),
            spec="None" if not graph.spec or _is_plain(graph.spec) else f"_pytree.treespec_loads({graph.spec!r})",
            digest=digest,
            training=graph.training,
            constants="\n".join(constants) + "\n" if constants else "",
            body="\n".join(f"        {line}" for line in _body(graph, [p for _, p in places])),
        )
    )


def _leaf(described: Any) -> Any:
    """Return what the text compares an input with; JSON made a list of a tensor's shape and dtype."""
    return (tuple(described[0]), described[1]) if isinstance(described, list) else described


def compiled(text: str, base: str) -> str:
    """Return a file whose `ModelNew` is `base`, a class of it, compiled by torch.compile."""
    kept = "import torch as _torch\n" if "import torch as _torch\n" not in text else ""
    if base == "ModelNew":
        return f"{text}\n\n_Patched = ModelNew\n" + _COMPILED.format(base="_Patched")
    return f"{text.rstrip()}\n\n\n{kept}" + _COMPILED.format(base=base)


def _strings(texts: Mapping[str, str]) -> str:
    return "{" + ",\n".join(f"{name!r}: {_literal(text)}" for name, text in texts.items()) + "}"


def _literal(text: str) -> str:
    """Return a string literal that reads as the text does where that can be."""
    return repr(text) if "'''" in text or "\\" in text or text.endswith("'") else f"'''\\\n{text}'''"


def _own(text: str) -> str:
    """Return an expression under the names that this module's text has for torch."""
    return re.sub(r"(?<![.\w])(torch|F)\.", r"_\1.", text)


def _body(graph: ModelGraph, places: Sequence[SubgraphPlace]) -> list[str]:
    """Return the lines of forward: the graph's statements, places as calls, and what nothing needs left out."""
    statements = list(_with_calls(graph, places))
    needed = set(graph.result)
    kept: list[tuple[Statement, list[str]]] = []
    for s in reversed(statements):
        makes = {n.strip() for n in s.name.split(",")}
        if s.kind == "change" or makes & needed:
            dying = sorted(n for n in {*s.uses, *makes} if n and n not in needed)
            kept.append((s, [n for n in dying if n not in graph.weights]))
            needed |= set(s.uses)
    used = {u for s, _ in kept for u in s.uses} | set(graph.result)
    lines = [f"{', '.join(graph.inputs)}{',' * (len(graph.inputs) == 1)} = leaves"] if graph.inputs else []
    lines += [f"{name} = {_path(path)}" for name, path in graph.weights.items() if name in used]
    lines += [f"{name} = self._{name}" for name in graph.constants if name in used]
    for s, dying in reversed(kept):
        lines.append(f"{s.name} = {_own(s.text)}" if s.name else _own(s.text))
        if dying:
            lines.append(f"del {', '.join(dying)}")  # as early as the model's own code would free it
    result = ", ".join(graph.result)
    if not graph.spec:
        return [*lines, f"return {result}"]
    if _is_plain(graph.spec):
        return [*lines, f"return [{result}]" if "builtins.list" in graph.spec else f"return ({result},)"]
    return [*lines, f"return _pytree.tree_unflatten([{result}], _SPEC)"]


def _is_plain(spec: str) -> bool:
    """Return whether a nest is one tuple or list of tensors."""
    top = json.loads(spec)[1]
    return top["type"] in ("builtins.tuple", "builtins.list") and not any(c["type"] for c in top["children_spec"])


def _path(path: str) -> str:
    parts = "".join(f'._modules["{p}"]' if p.isdigit() else f".{p}" for p in path.split("."))
    return f"self{parts}"


def _with_calls(graph: ModelGraph, places: Sequence[SubgraphPlace]) -> list[Statement]:
    """Return the statements with a call at the end of each place, followed by the views that lie in it."""
    number = {place.first: n for n, place in enumerate(places)}
    made: list[Statement] = []
    index = 0
    while index < len(graph.statements):
        if index not in number:
            made.append(graph.statements[index])
            index += 1
            continue
        place = places[number[index]]
        names = ", ".join(place.outputs) + "," * (len(place.outputs) == 1)
        call = f"self._at({', '.join((str(number[index]), *place.inputs))})"
        made.append(Statement(names, call, place.inputs))
        made += [s for s in graph.statements[index : place.last + 1] if s.kind == "view"]
        index = place.last + 1
    return made
