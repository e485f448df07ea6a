"""Calls of a file's functions: those that it holds itself, and those whose arguments are guessed."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from forewarp.inspection.tracing.files import arguments
from forewarp.inspection.tracing.files.arguments import ArgumentGuess, Tensor
from forewarp.inspection.tracing.files.kernels import FileText

_OWN_CALLS = re.compile(r"^(test|bench|benchmark|main|demo|example|run_test|check)(_|$)|_(test|bench|benchmark)$")
_OF_TENSORS = (
    *("shape", "stride", "device", "dtype", "numel", "contiguous", "size", "view", "data_ptr", "is_contiguous", "ndim"),
    *("dim", "reshape", "is_cuda", "element_size", "T", "transpose", "unsqueeze", "squeeze", "permute", "new_empty"),
    *("new_zeros", "to", "clone", "flatten", "expand", "nelement", "type", "float", "half", "requires_grad"),
)
_LIKE = re.compile(r"_like$")
_WEIGHTS = re.compile(
    r"^(weight|weights|bias|gamma|beta|w|b|g|rms_w|scale|norm_weight|w1|w2|freqs|cos|sin)$", re.IGNORECASE
)


_TENSORS = re.compile(
    r"^([abcqkvxyz]\d?|inp|inputs?|self|other|query|key|src|out|d?out|do|dy|dx|grad\w*|hidden_states|logits|tensor\d?|mat\d?|"
    r"condition|residual|mask)$",
    re.IGNORECASE,
)
"""Usual names of tensors, where nothing else tells what a parameter is."""


@dataclass(frozen=True, slots=True)
class _Usage:
    """Use of a parameter in a function; `rank` is 0 if unknown."""

    tensor: bool = False
    rank: int = 0
    index: bool = False


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
class Guess:
    """A call whose arguments are guessed: its name with them, and what it does."""

    name: str
    call: Callable[[], object]
    values: Sequence[Any]


class Wrappers:
    """Guesses arguments of the functions and classes of a file."""

    def __init__(self, module: Any, tree: ast.Module, text: FileText) -> None:
        self._module, self._text = module, text
        self._nodes = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}

    def guess(self, name: str, attempt: ArgumentGuess) -> Guess | None:
        """Return the call of a function, a module's forward or an autograd function; None where there is nothing."""
        kind = getattr(self._module, name, None)
        node = self._nodes.get(name)
        if isinstance(kind, type):
            return self._of_class(name, kind, node, attempt) if isinstance(node, ast.ClassDef) else None
        if not callable(kind):
            return None
        values = self._values(kind, node if isinstance(node, ast.FunctionDef) else None, attempt)
        return Guess(f"{name}({arguments.shown(values)})", lambda: _apply(kind, values), list(values.values()))

    def _of_class(self, name: str, kind: type, node: ast.ClassDef, attempt: ArgumentGuess) -> Guess | None:
        method = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "forward"), None)
        if method is None:
            return None
        if issubclass(kind, torch.autograd.Function):
            values = self._values(kind.forward, method, attempt, skip=1)
            call: Callable[..., Any] = kind.apply
            return Guess(
                f"{name}.apply({arguments.shown(values)})", lambda: call(*values.values()), list(values.values())
            )
        if issubclass(kind, torch.nn.Module):
            made = self._values(kind.__init__, None, attempt, skip=1)
            values = self._values(kind.forward, method, attempt, skip=1)
            return Guess(
                f"{name}({arguments.shown(made)})({arguments.shown(values)})",
                lambda: _apply(_apply(kind, made).to("cuda"), values),
                list(values.values()),
            )
        return None

    def _values(
        self, function: Any, node: ast.FunctionDef | None, attempt: ArgumentGuess, skip: int = 0
    ) -> dict[str, Any]:
        """Return a value for each parameter but *args and **kwargs: guessed as a tensor, default, or guessed."""
        try:
            parameters = list(inspect.signature(function).parameters.values())[skip:]
        except (TypeError, ValueError):
            return {}
        uses = {p.name: self._usage(p.name, node) for p in parameters}
        wanted = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        tensors = {p.name: t for p in wanted if (t := self._tensor(p, uses[p.name], attempt)) is not None}
        largest = max((t for t in tensors.values()), default=attempt.rank)
        found: dict[str, Any] = {}
        for p in wanted:
            if p.name in tensors:
                index = uses[p.name].index or arguments.is_index(p.name)
                dtype = "int64" if index else attempt.dtype
                found[p.name] = arguments.make(Tensor(dtype, (arguments.side(largest),) * tensors[p.name]), p.name)
            elif p.default is not p.empty:
                found[p.name] = p.default
            else:
                found[p.name] = _plain(p, attempt, arguments.side(largest))
        return found

    def _tensor(self, parameter: inspect.Parameter, usage: _Usage, attempt: ArgumentGuess) -> int | None:
        """Return the rank of a parameter that is a tensor, None for any other."""
        said = _annotation(parameter)
        if parameter.default is not parameter.empty:
            return None
        if (said and "Tensor" not in said) or any(word in said for word in ("List", "list", "Sequence", "Tuple")):
            return None
        if not (said or usage.tensor or _TENSORS.match(parameter.name)):
            return None
        if usage.rank:
            return usage.rank
        return 1 if _WEIGHTS.match(parameter.name) or arguments.is_index(parameter.name) else attempt.rank

    def _usage(self, name: str, node: ast.FunctionDef | None) -> _Usage:
        if node is None:
            return _Usage()
        tensor, index, rank = False, False, 0
        for n in ast.walk(node):
            if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == name:
                tensor = tensor or n.attr in _OF_TENSORS
            if isinstance(n, ast.Call):
                tensor, index = _in_call(n, name, self._text, tensor, index)
            rank = max(rank, _rank(n, name))
        return _Usage(tensor, rank, index)


def _in_call(call: ast.Call, name: str, text: FileText, tensor: bool, index: bool) -> tuple[bool, bool]:
    """Return `tensor` and `index`, updated by a call that may take the parameter: a launch, or a function of torch."""
    launched = call.func.value if isinstance(call.func, ast.Subscript) else None
    kernel = text.jitted.get(launched.id) if isinstance(launched, ast.Name) else None
    if isinstance(call.func, ast.Name) and call.func.id in text.jitted:  # a decorator makes a function of the kernel
        tensor = tensor or any(isinstance(a, ast.Name) and a.id == name for a in call.args)
    if kernel is not None:
        names = [p.name for p in kernel.parameters]
        given = dict(zip(names, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
        places = [p for p, value in given.items() if isinstance(value, ast.Name) and value.id == name]
        tensor = tensor or any(p in kernel.pointers for p in places)
        index = index or any(p in kernel.indices for p in places)
    elif call.args and isinstance(call.args[0], ast.Name) and call.args[0].id == name:
        function = ast.unparse(call.func)
        tensor = tensor or (function.startswith("torch.") and _LIKE.search(function) is not None)
    return tensor, index


def _rank(node: ast.AST, name: str) -> int:
    """Return the rank that a piece of a function takes a tensor to have, 0 where it says nothing."""

    def of_tensor(value: ast.AST, *attributes: str) -> bool:
        if isinstance(value, ast.Call):
            value = value.func
        return isinstance(value, ast.Attribute) and value.attr in attributes and ast.unparse(value.value) == name

    def number(value: ast.expr) -> int:
        """Return the rank that a tensor with this axis has at least."""
        try:
            axis = ast.literal_eval(value)
        except ValueError:
            return 0
        return 0 if type(axis) is not int else -axis if axis < 0 else axis + 1

    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        pairs = [(node.targets[0], node.value)]
        if isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(node.targets[0].elts):
            pairs = list(zip(node.targets[0].elts, node.value.elts, strict=True))
        for target, value in pairs:
            if isinstance(target, ast.Tuple) and of_tensor(value, "shape", "size", "stride"):
                starred = any(isinstance(e, ast.Starred) for e in target.elts)
                return 0 if starred else len(target.elts)
    if isinstance(node, ast.Subscript) and of_tensor(node.value, "shape"):
        return number(node.slice)
    if isinstance(node, ast.Call) and of_tensor(node, "size", "stride") and node.args:
        return number(node.args[0])
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq) and len(node.comparators) == 1:
        left, right = node.left, node.comparators[0]
        counted = of_tensor(left, "ndim", "dim") or ast.unparse(left) == f"len({name}.shape)"
        if counted and isinstance(right, ast.Constant) and type(right.value) is int:
            return right.value
    return 0


def _annotation(parameter: inspect.Parameter) -> str:
    said = parameter.annotation
    if said is parameter.empty:
        return ""
    return said if isinstance(said, str) else getattr(said, "__name__", None) or str(said)


def _plain(parameter: inspect.Parameter, attempt: ArgumentGuess, size: int) -> Any:
    said = _annotation(parameter)
    if "Tensor" in said:
        return [arguments.make(Tensor(attempt.dtype, (size, size))) for _ in range(2)]
    if any(word in said.lower() for word in ("list", "tuple", "sequence", "size")):
        return (size, size)
    if said.startswith("str"):
        return ""
    if "dtype" in said or "dtype" in parameter.name:
        return getattr(torch, attempt.dtype)
    if "device" in parameter.name:
        return torch.device("cuda")
    if parameter.name in ("dim", "axis"):
        return -1
    if parameter.name in ("dims", "repeats", "reps", "pad", "padding"):
        return (1, 1)
    if parameter.name in ("shape", "size"):
        return (size, size)
    return arguments.scalar(parameter.name, said, size)


def _apply(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call with values by position where that can be, by name otherwise."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return function(*values.values())
    by_name = {
        n: v for n, v in values.items() if n in parameters and parameters[n].kind == inspect.Parameter.KEYWORD_ONLY
    }
    return function(*(v for n, v in values.items() if n not in by_name), **by_name)
