"""Calls as users write them: `scaled(float32[4096, 4096], n=4096, causal=True, ids=int64[8])`.

Tensors are named by dtype and shape, all else as Python writes it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forewarp.core.errors import UsageError

_DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"),
    *("float8_e4m3fn", "float8_e5m2", "complex64"),
)
_HOW = 'write NAME=DTYPE[SHAPE] or NAME=VALUE, such as "x=float32[4096,4096], n=4096"'
_CALL = 'write it as "run", "run(4096)" or "scaled(float32[4096, 4096], factor=2.0)"'


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor to make."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def parse(text: str) -> dict[str, Any]:
    """Return the values that a text names by parameter; raises `UsageError` for what cannot be read."""
    try:
        call = _parsed(f"_({text})")
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or call.args or any(k.arg is None for k in call.keywords):
        raise UsageError(f"the arguments cannot be read at {text[:40]!r}", hint=_HOW)
    return {k.arg: value(k.arg, k.value) for k in call.keywords if k.arg}


def parse_call(text: str) -> ast.Call:
    """Return a call that a text writes, a bare name as one without arguments; raises `UsageError`.

    What is called may be a result itself, as in `Layer(64)(float32[8, 64])`, or an attribute, as in `Scale.apply(…)`.
    """
    try:
        node = _parsed(text)
    except SyntaxError:
        raise UsageError(f"the call {text[:40]!r} cannot be read", hint=_CALL) from None
    call = inner = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    while not isinstance(inner, ast.Name):
        if isinstance(inner, ast.Call):
            for name, argument in (*(("", a) for a in inner.args), *((k.arg or "**", k.value) for k in inner.keywords)):
                value(name, argument)
            inner = inner.func
        elif isinstance(inner, ast.Attribute):
            inner = inner.value
        else:
            raise UsageError(f"the call {text[:40]!r} cannot be read", hint=_CALL)
    return call


def _parsed(text: str) -> ast.expr:
    scalars = re.sub(r"([(,=]\s*\w+)\[\s*\]", r"\1[()]", text)  # Python has no empty subscripts
    return ast.parse(scalars, mode="eval").body


def value(name: str, node: ast.expr) -> Any:
    """Return the value of an argument, or the tensor that it names; raises `UsageError` for any other."""
    whose = name or "the call"
    try:
        if not isinstance(node, ast.Subscript):
            return ast.literal_eval(node)
        sides = ast.literal_eval(node.slice)
        tensor = Tensor(ast.unparse(node.value), sides if isinstance(sides, tuple) else (sides,))
    except (ValueError, SyntaxError):
        raise UsageError(f"{whose}: {ast.unparse(node)!r} is neither a tensor nor a value", hint=_HOW) from None
    if tensor.dtype not in _DTYPES:
        raise UsageError(f"{whose}: {tensor.dtype!r} is no dtype of a tensor", hint=f"use one of {', '.join(_DTYPES)}")
    if not all(type(n) is int and n >= 0 for n in tensor.shape):
        raise UsageError(f"{whose}: {list(tensor.shape)} is no shape of a tensor", hint=_HOW)
    return tensor


_LENGTHS = re.compile(r"len|count|num", re.IGNORECASE)


def make(tensor: Tensor, name: str = "") -> Any:
    """Make a tensor: random numbers, or small whole ones that do as lengths and as indices."""
    import torch

    dtype: torch.dtype = getattr(torch, tensor.dtype)
    if dtype == torch.bool:
        return torch.ones(tensor.shape, dtype=dtype, device="cuda")
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(tensor.shape, device="cuda").to(dtype)
    if name.startswith("cu_") or "cu_seq" in name:
        return torch.arange(tensor.shape[0] if tensor.shape else 1, device="cuda").to(dtype)
    if _LENGTHS.search(name):
        return torch.full(tensor.shape, 16, dtype=dtype, device="cuda")
    return torch.zeros(tensor.shape, dtype=dtype, device="cuda")


def shown(values: Mapping[str, Any]) -> str:
    """Return values as `parse` reads them, as far as it does."""
    import torch

    def one(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return str(Tensor(str(value.dtype).removeprefix("torch."), tuple(value.shape)))
        return repr(value) if isinstance(value, int | float | str | bool | tuple | None) else "…"

    return ", ".join(f"{name}={one(value)}" for name, value in values.items())
