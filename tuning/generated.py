"""Tunables of Inductor's code, which is read and never run: blocks of its Triton kernels, forecast as configurations.

The function `call` says what each kernel is launched with, and the kernel's text which of its blocks are left open.
"""

from __future__ import annotations

import ast
import heapq
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forewarp.core.values import Target
from forewarp.tuning import forecasts
from forewarp.tuning.counting import NotCounted
from forewarp.tuning.space import MOST_PROPOSED, Configuration, Space, TensorArgument

_TUNABLE = re.compile(r"@(\w+)@")
_GRIDS = ("Grid1D", "Grid2D", "Grid3D")
"""Kinds of grids that are blocks along x, y and z."""
_KEPT = 50
"""Choices of one kernel, the fastest, that are combined with those of the others."""


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A Triton kernel of the code; in `configuration`, texts are names of tunables."""

    function: ast.FunctionDef
    configuration: Mapping[str, int | str]
    signature: Mapping[str, str]

    @property
    def tunables(self) -> list[str]:
        """Names of the tunables in the configuration."""
        return [value for value in self.configuration.values() if isinstance(value, str)]


def forecast(
    source: str, tunables: Mapping[str, Sequence[int]], target: Target
) -> list[tuple[float, Mapping[str, int]]]:
    """Return the fastest choices of a module's tunables with the seconds of the kernels that they are of.

    Raises `NotCounted` where any of the tunables is of something else than kernels in Inductor's code.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as e:
        raise NotCounted(f"the module cannot be read: {e}") from e
    read = {name: _kernel(name, text) for name, text in _texts(tree).items()}
    kernels = {name: kernel for name, kernel in read.items() if kernel is not None and kernel.tunables}
    if not tunables or tunables.keys() - {name for kernel in kernels.values() for name in kernel.tunables}:
        raise NotCounted("the module has tunables of something else than Triton kernels of Inductor's")
    launches = _launches(tree)
    combined: list[tuple[float, Mapping[str, int]]] = [(0.0, {name: own[0] for name, own in tunables.items()})]
    for name, kernel in kernels.items():
        own = _choices(kernel, [given for launched, given in launches if launched == name], tunables, target)
        pairs = ((t + u, {**chosen, **more}) for t, chosen in combined for u, more in own)
        combined = heapq.nsmallest(MOST_PROPOSED, pairs, key=lambda pair: pair[0])
    return combined


def _texts(tree: ast.Module) -> dict[str, str]:
    """Return the texts that `async_compile.triton` takes, by the names of the kernels."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr="triton")) as call):
                texts = [n.value for n in ast.walk(call) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
                found[name] = max(texts, key=len)
            case _:
                pass
    return found


def _kernel(name: str, text: str) -> _Kernel | None:
    """Return a kernel whose configuration is fixed; None for another one, or a grid of another kind."""
    tree = ast.parse(_TUNABLE.sub(r'"\1"', text))
    function = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name), None)
    heuristic = function.decorator_list[0] if function is not None and function.decorator_list else None
    if function is None or not isinstance(heuristic, ast.Call) or not heuristic.args:
        return None
    fixed, meta = heuristic.args[0], {k.arg: k.value for k in heuristic.keywords}
    grid, signature = _entry(meta.get("inductor_meta"), "grid_type"), _entry(meta.get("triton_meta"), "signature")
    if grid is None or signature is None or ast.literal_eval(grid) not in _GRIDS:
        return None
    return _Kernel(function, ast.literal_eval(fixed), ast.literal_eval(signature))


def _entry(table: ast.expr | None, key: str) -> ast.expr | None:
    """Return the value of a key in a written dict, of which other values may be calls."""
    if not isinstance(table, ast.Dict):
        return None
    named = zip(table.keys, table.values, strict=True)
    return next((value for k, value in named if isinstance(k, ast.Constant) and k.value == key), None)


def _launches(tree: ast.Module) -> list[tuple[str, list[Any]]]:
    """Return the kernels that `call` launches, each with its arguments: numbers, and tensors as their shapes."""
    shapes: dict[str, tuple[int, ...]] = {}
    found: list[tuple[str, list[Any]]] = []

    def described(value: ast.expr) -> Any:
        match value:
            case ast.Constant(value=number):
                return number
            case ast.Name(id=name):
                return shapes.get(name)
            case ast.Call(func=ast.Name(id="reinterpret_tensor"), args=[_, shape, *_]):
                return ast.literal_eval(shape)
            case ast.Call(func=ast.Name(id=made), args=[shape, *_]) if made.startswith("empty_strided"):
                return ast.literal_eval(shape)
            case _:
                return None

    statements = [n for n in ast.walk(tree) if isinstance(n, ast.Assign | ast.Expr)]
    for statement in sorted(statements, key=lambda n: n.lineno):
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Name(id="assert_size_stride"), args=[ast.Name(id=name), shape, *_])):
                shapes[name] = ast.literal_eval(shape)
            case ast.Expr(value=ast.Call(func=ast.Name(id="assert_size_stride_grouped"), args=[names, listed, *_])):
                own = [n.id for n in ast.walk(names) if isinstance(n, ast.Name)]
                shapes |= zip(own, ast.literal_eval(listed), strict=True)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if isinstance(shape := described(value), tuple):
                shapes[name] = shape
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=kernel), attr="run"), args=arguments)):
                found.append((kernel, [described(a) for a in arguments]))
            case _:
                pass
    return found


def _choices(
    kernel: _Kernel, launches: Sequence[Sequence[Any]], tunables: Mapping[str, Sequence[int]], target: Target
) -> list[tuple[float, Mapping[str, int]]]:
    """Return the fastest choices of a kernel's own tunables with the seconds of all its launches."""
    names = kernel.tunables
    listed = [dict(zip(names, row, strict=True)) for row in itertools.product(*(tunables[n] for n in names))]
    rows = [{k: chosen[v] if isinstance(v, str) else v for k, v in kernel.configuration.items()} for chosen in listed]
    configurations = [
        Configuration({k: v for k, v in row.items() if not k.startswith("num_")}, row["num_warps"], row["num_stages"])
        for row in rows
    ]
    seconds = np.zeros(len(rows))
    for given in launches:
        space = _space(kernel, given, configurations)
        seconds = seconds + forecasts.forecast(space, target).seconds
    return heapq.nsmallest(_KEPT, zip(seconds.tolist(), listed, strict=True), key=lambda pair: pair[0])


def _space(kernel: _Kernel, given: Sequence[Any], configurations: Sequence[Configuration]) -> Space:
    arguments: dict[str, Any] = {}
    whole = math.prod(value for value in given if isinstance(value, int))  # what a tensor of unknown shape has
    for (name, kind), value in zip(kernel.signature.items(), given, strict=False):
        is_pointer = kind.startswith("*")
        arguments[name] = TensorArgument(_dtype(kind), (whole,) if value is None else value) if is_pointer else value
    sizes = [arguments.get(f"{axis}numel", 1) for axis in "xyz"]
    grids = [
        tuple(math.ceil(size / c.values.get(f"{axis}BLOCK", 1)) for axis, size in zip("XYZ", sizes, strict=True))
        for c in configurations
    ]
    return Space(kernel.function.name, ast.unparse(kernel.function), arguments, configurations, grids)


def _dtype(kind: str) -> str:
    """Return "int64" for "*i64", "fp32" for "*fp32"."""
    return re.sub(r"^fp8", "float8", re.sub(r"^i(?=\d)", "int", re.sub(r"^u(?=\d)", "uint", kind.removeprefix("*"))))
