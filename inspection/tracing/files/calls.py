"""Calls of a file's functions: those that it holds itself, and those that a user names."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch

from forewarp.core.errors import UsageError
from forewarp.inspection.tracing.files import arguments
from forewarp.inspection.tracing.files.arguments import Tensor

_OWN_CALLS = re.compile(r"^(test|bench|benchmark|main|demo|example|run_test|check)(_|$)|_(test|bench|benchmark)$")


def own_calls(module: Any, tree: ast.Module) -> dict[str, Callable[[], object]]:
    """Return the file's tests, benchmarks and examples that can be called as they are."""
    found: dict[str, Callable[[], object]] = {}
    for node in tree.body:
        function = getattr(module, node.name, None) if isinstance(node, ast.FunctionDef) else None
        if function is None or not _OWN_CALLS.search(function_name := getattr(node, "name", "")):
            continue
        values = _parametrised(function)
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            continue
        if all(p.name in values or p.default is not p.empty or p.kind in (2, 4) for p in parameters):
            given = {p.name: values[p.name] for p in parameters if p.name in values}
            found[f"{function_name}({arguments.shown(given)})"] = lambda f=function, g=given: f(**g)
    return found


def _parametrised(function: Any) -> dict[str, Any]:
    """Return the first values that pytest would give to a test."""
    found: dict[str, Any] = {}
    for mark in getattr(function, "pytestmark", []):
        if getattr(mark, "name", "") == "parametrize" and len(mark.args) > 1 and mark.args[1]:
            names = [n.strip() for n in mark.args[0].split(",")] if isinstance(mark.args[0], str) else mark.args[0]
            first = mark.args[1][0]
            first = getattr(first, "values", first) if type(first).__name__ == "ParameterSet" else first
            found |= dict(zip(names, first if len(names) > 1 else [first], strict=False))
    return found


def of_model(module: Any) -> Callable[[], object] | None:
    """Return the call of a KernelBench file that brings its own inputs, None where it is none."""
    kind = getattr(module, "ModelNew", None) or getattr(module, "Model", None)
    if kind is None or not hasattr(module, "get_inputs"):
        return None

    def call() -> object:
        model = kind(*(module.get_init_inputs() if hasattr(module, "get_init_inputs") else []))
        return model(*module.get_inputs())

    return call


@dataclass(frozen=True, slots=True)
class NamedCall:
    """A call of something in a file as a user wrote it; raises `UsageError` for what the file does not have."""

    module: Any
    text: str

    def __post_init__(self) -> None:
        root: ast.AST = arguments.parse_call(self.text)
        while not isinstance(root, ast.Name):
            root = root.func if isinstance(root, ast.Call) else cast("ast.Attribute", root).value
        if not callable(getattr(self.module, root.id, None)):
            raise UsageError(f"{root.id} is no function or class of the file", hint="name one of the file's own")

    def make(self) -> tuple[Callable[[], object], list[torch.Tensor]]:
        """Make the arguments; return what does the call, and the tensors among them."""
        tensors: list[torch.Tensor] = []
        return self._bound(arguments.parse_call(self.text), tensors), tensors

    def _bound(self, call: ast.Call, tensors: list[torch.Tensor]) -> Callable[[], object]:
        def made(name: str, node: ast.expr) -> Any:
            value = arguments.value(name, node)
            if not isinstance(value, Tensor):
                return value
            tensors.append(arguments.make(value, name))
            return tensors[-1]

        positional = [made("", a) for a in call.args]
        named = {str(k.arg): made(str(k.arg), k.value) for k in call.keywords}
        function = self._called(call.func, tensors)
        return lambda: function(*positional, **named)

    def _called(self, node: ast.expr, tensors: list[torch.Tensor]) -> Any:
        match node:
            case ast.Call():
                result = self._bound(node, tensors)()
                return result.to("cuda") if isinstance(result, torch.nn.Module) else result
            case ast.Attribute(value=owner, attr=name):
                return getattr(self._called(owner, tensors), name)
            case _:
                return getattr(self.module, cast("ast.Name", node).id)
