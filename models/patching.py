"""A model's file with kernels in the places of subgraphs: the text of a module that stands in for the model."""

from __future__ import annotations

import json
import pprint
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forewarp.core.errors import CandidateError
from forewarp.core.files import literal, template
from forewarp.models.jobs import ModelGraph, Statement, Subgraph, SubgraphPlace


@dataclass(frozen=True, slots=True)
class Replacement:
    """A subgraph with the text of a module whose `ModelNew` does what it does."""

    subgraph: Subgraph
    text: str


def patched(source: str, graph: ModelGraph, replacements: Sequence[Replacement], *, under_compile: bool = True) -> str:
    """Return a model's file with a `ModelNew` that has the replacements; raises `CandidateError`.

    Unless `under_compile`, torch.compile gets the model as it was.
    """
    if not all(graph.constants.values()):
        raise CandidateError("the model makes a large tensor of literals; hold it in a buffer")
    places = [(r.subgraph, place) for r in replacements for place in r.subgraph.places]
    table = [(s.sha256, dict(zip(s.parameters, p.weights, strict=True)), list(s.layouts)) for s, p in places]
    digest = "_".join(r.subgraph.sha256[:8] for r in replacements)
    constants = [f"        self._{name} = {_own(text)}" for name, text in graph.constants.items()]
    return (
        source.rstrip()
        + "\n"
        + template(__file__, "templates/patched.py.txt").substitute(
            count=len(replacements),
            kernels=_strings({r.subgraph.sha256: r.text for r in replacements}),
            places=pprint.pformat(table, width=118, sort_dicts=False),
            inputs=pprint.pformat([_leaf(d) for d in graph.described], width=118),
            spec="None" if not graph.spec or _is_plain(graph.spec) else f"_pytree.treespec_loads({graph.spec!r})",
            digest=digest,
            other_mode=_other_mode(graph.training),
            compiled="" if under_compile else " So it is under torch.compile, without a warning.",
            as_it_was="" if under_compile else "_torch.compiler.is_compiling() or ",
            constants="\n".join(constants) + "\n" if constants else "",
            body="\n".join(f"        {line}" for line in _body(graph, [p for _, p in places])),
        )
    )


def _other_mode(training: bool | None) -> str:
    """Return the branch for the mode that the graph is not for, "" where it is for both."""
    if training is None:
        return ""
    this, call = ("training", ".train()") if training else ("evaluation", ".eval()")
    return (
        f"        elif {'not ' * training}self.training:\n"
        f'            why = "they are for the model in {this} mode: call {call}, or apply them to the other one"\n'
    )


def _leaf(described: Any) -> Any:
    """Return what the text compares an input with; JSON made a list of a tensor's shape and dtype."""
    return (tuple(described[0]), described[1]) if isinstance(described, list) else described


def compiled(text: str, base: str) -> str:
    """Return a file whose `ModelNew` is `base`, a class of it, compiled by torch.compile."""
    kept = "import torch as _torch\n" if "import torch as _torch\n" not in text else ""
    if base == "ModelNew":
        return f"{text}\n\n_Patched = ModelNew\n" + _compiled("_Patched")
    return f"{text.rstrip()}\n\n\n{kept}" + _compiled(base)


def _compiled(base: str) -> str:
    return template(__file__, "templates/compiled.py.txt").substitute(base=base)


def _strings(texts: Mapping[str, str]) -> str:
    return "{" + ",\n".join(f"{name!r}: {literal(text)}" for name, text in texts.items()) + "}"


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
