"""Make a task of a PyTorch function or module: the user's file as it is, and what a KernelBench file has beside it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from forewarp.core.errors import TaskError, UsageError
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.formats.task import KERNELBENCH_NAMES
from forewarp.inspection.tracing.files import arguments
from forewarp.inspection.tracing.files.arguments import Tensor
from forewarp.tools.describe import languages_at
from forewarp.tools.interface import KernelInterface, interface_of, signature_of
from forewarp.tools.parts import Part, Place
from forewarp.tools.requests import TaskCall
from forewarp.tools.session import Executors, closing_executors


class MadeTask(Part):
    """A task as the text of a KernelBench file, with what it passes to a kernel."""

    text: str
    interface: KernelInterface


def make_task(source: str, name: str, call: TaskCall, place: Place, executors: Executors | None = None) -> MadeTask:
    """Make a task of a function of `source`, and run its reference once, confined; raises as `task_text`."""
    text = task_text(source, call.function, call.args, call.init)
    task = tasks.from_source(text, name)
    with closing_executors(executors) as kept:
        signature = signature_of(task, place, kept)
    return MadeTask(text=text, interface=interface_of(task, signature, languages_at(place)[0]))


def task_text(source: str, function: str, args: str, init: str = "") -> str:
    """Return a KernelBench file that calls a function, or a module class, of `source`.

    `args` are the arguments of the function, or of the module's `forward`, as in "x=float32[4096,4096], n=3"; `init`
    those of the module's constructor. Tensors are drawn anew for each call. Raises `UsageError` and `TaskError`.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise TaskError(f"the file is no Python: {e}") from None
    defined = {n.name: n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    taken = [name for name in KERNELBENCH_NAMES if name in defined and name != function]
    if taken:
        raise UsageError(
            f"the file defines {', '.join(taken)} already",
            hint="a KernelBench file is a task as it is: pass it as task; else rename them",
        )
    node = defined.get(function)
    if node is None:
        raise UsageError(
            f"the file defines no function or class {function!r}", hint=f"it defines {', '.join(defined) or 'none'}"
        )
    values, made = arguments.parse(args), arguments.parse(init, "init")
    if isinstance(node, ast.FunctionDef) and made:
        raise UsageError("init is for a module's constructor", hint=f"{function} is a function: leave init out")
    if tensors := [name for name, value in made.items() if isinstance(value, Tensor)]:
        raise UsageError(f"init: {', '.join(tensors)} is a tensor", hint="a constructor gets plain values")
    return "\n\n\n".join([source.rstrip(), *_parts(node, values, made)]) + "\n"


def _parts(node: ast.FunctionDef | ast.ClassDef, values: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    if isinstance(node, ast.FunctionDef):
        order = _checked(node, values, node.name)
        passed = ", ".join(f"{name}={name}" for name in order)
        model = (
            "class Model(torch.nn.Module):\n"
            f"    def forward(self, {', '.join(order)}):\n"
            f"        return {node.name}({passed})"
        )
        given = ""
    else:
        methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
        if "forward" not in methods:
            raise UsageError(f"{node.name} has no forward of its own", hint="name a torch module, or a function")
        order = _checked(methods["forward"], values, f"args: forward of {node.name}", skip=1)
        constructor = (
            _checked(methods["__init__"], made, f"init: {node.name}", skip=1) if "__init__" in methods else list(made)
        )
        given = ", ".join(repr(made[name]) for name in constructor)
        model = "" if node.name == "Model" else f"class Model({node.name}):\n    pass"
    drawn = ", ".join(_drawn(values[name], values) for name in order)
    return [
        "import torch",
        *([model] if model else []),
        f"def get_inputs():\n    return [{drawn}]",
        f"def get_init_inputs():\n    return [{given}]",
    ]


def _checked(node: ast.FunctionDef, values: Mapping[str, Any], called: str, skip: int = 0) -> list[str]:
    """Return the given names in the order of a function's parameters.

    Raises `UsageError` where they do not fit, which calls the function `called`.
    """
    a = node.args
    positional = [*a.posonlyargs, *a.args][skip:]
    needed = [p.arg for p in positional[: len(positional) - len(a.defaults)]]
    needed += [p.arg for p, default in zip(a.kwonlyargs, a.kw_defaults, strict=True) if default is None]
    known = [p.arg for p in (*positional, *a.kwonlyargs)]
    if missing := [name for name in needed if name not in values]:
        raise UsageError(f"{called} needs {', '.join(missing)}", hint=f"it takes {', '.join(known)}")
    if unknown := [name for name in values if name not in known]:
        raise UsageError(
            f"{called} takes no {', '.join(unknown)}", hint=f"it takes {', '.join(known) or 'no arguments'}"
        )
    return [name for name in known if name in values]


def _drawn(value: Any, values: Mapping[str, Any]) -> str:
    """Return the expression that draws a value."""
    if not isinstance(value, Tensor):
        return repr(value)
    shape = f"({''.join(f'{side}, ' for side in value.shape).rstrip(' ')})"
    if value.dtype == "bool":
        return f"torch.rand({shape}) < 0.5"
    if value.dtype.startswith(("int", "uint")):
        return f"torch.randint(0, {_below(values)}, {shape}, dtype=torch.{value.dtype})"
    if value.dtype in ("float32", "float64", "complex64"):
        return f"torch.randn({shape}, dtype=torch.{value.dtype})"
    return f"torch.randn({shape}).to(torch.{value.dtype})"


def _below(values: Mapping[str, Any]) -> int:
    """Return a bound for whole numbers that does as an index into any of the tensors."""
    sides = [min(v.shape) for v in values.values() if isinstance(v, Tensor) and v.shape and "int" not in v.dtype]
    return max(1, min([*sides, 100]))
