"""Values for the parameters of functions: as a request names them, from annotations, and from names.

`x=float32[4096,4096], n=4096, causal=True, mode="mean", ids=int64[8]` names tensors by dtype and shape, all else as
Python writes it.
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


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor to make."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def parse(text: str, option: str = "args") -> dict[str, Any]:
    """Return the values that `--args`, or another option, names; raises `UsageError` for what cannot be read."""
    scalars = re.sub(r"(=\s*\w+)\[\s*\]", r"\1[()]", text)  # Python has no empty subscripts
    try:
        call = ast.parse(f"_({scalars})", mode="eval").body
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or call.args or any(k.arg is None for k in call.keywords):
        raise UsageError(f"{option} cannot be read at {text[:40]!r}", hint=_HOW)
    return {k.arg: value(k.arg, k.value) for k in call.keywords if k.arg}


def value(name: str, node: ast.expr) -> Any:
    """Return the value of an expression, or the tensor that it names; raises `UsageError` for any other."""
    try:
        if not isinstance(node, ast.Subscript):
            return ast.literal_eval(node)
        sides = ast.literal_eval(node.slice)
        tensor = Tensor(ast.unparse(node.value), sides if isinstance(sides, tuple) else (sides,))
    except (ValueError, SyntaxError):
        raise UsageError(f"{name}: {ast.unparse(node)!r} is neither a tensor nor a value", hint=_HOW) from None
    if tensor.dtype not in _DTYPES:
        raise UsageError(f"{name}: {tensor.dtype!r} is no dtype of a tensor", hint=f"use one of {', '.join(_DTYPES)}")
    if not all(type(n) is int and n >= 0 for n in tensor.shape):
        raise UsageError(f"{name}: {list(tensor.shape)} is no shape of a tensor", hint=_HOW)
    return tensor


_FLOATS = re.compile(
    r"(^|_)(eps|epsilon|scale|alpha|beta\d?|lr|p|prob|dropout|theta|decay|temperature|temp|momentum|scaling|base|"
    r"factor|weight_decay|gamma|slope|threshold|smoothing|softcap|cap|const|norm|rate|value)($|_|\d)",
    re.IGNORECASE,
)
_INDICES = re.compile(
    r"(^|_)(idx|index|indices|ids?|table|tables|lens?|lengths?|seqlens?|offsets?|loc|locs|targets?|labels?|pos|"
    r"positions?|perm|order|map|mapping|count|counts|starts?|ends?|slots?)($|_|\d)",
    re.IGNORECASE,
)
_LENGTHS = re.compile(r"len|count|num", re.IGNORECASE)
_FLAGS = re.compile(
    r"^(is|has|have|use|do|enable|need|even|store|with|return|apply|fuse|add|save|inplace|causal|reverse|training|"
    r"accumulate|transposed?|keep|not|no|allow|compute|output|recompute)(_|$)|causal|_flag$|fused$",
    re.IGNORECASE,
)
_STRIDES = re.compile(r"stride", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ArgumentGuess:
    """One way to guess: the type of numbers, and the rank of tensors."""

    dtype: str = "float32"
    rank: int = 2


CALL_ATTEMPTS = (
    ArgumentGuess(),
    ArgumentGuess(rank=3),
    ArgumentGuess("float16"),
    ArgumentGuess("float16", rank=4),
    ArgumentGuess("float16", rank=3),
    ArgumentGuess(rank=1),
    ArgumentGuess(rank=4),
)
"""Guesses, tried in turn until a function's call goes through."""


def is_index(name: str) -> bool:
    """Return whether a tensor of this name holds whole numbers."""
    return _INDICES.search(name) is not None


def scalar(name: str, annotation: str, size: int) -> Any:
    """Return a number for a parameter that is no tensor."""
    said = annotation.lower()
    if "bool" in said or ("int1" in said and "int16" not in said):
        return False
    if "float" in said or "fp" in said or "bf16" in said:
        return 0.5
    if not said.startswith("int") and "tl.int" not in said and not _STRIDES.search(name):
        if _FLOATS.search(name):
            return 0.5
        if _FLAGS.search(name):
            return False
    return 8 if re.search(r"head|group|expert|batch|^[bBhHzZ]$", name) else size


def side(largest: int) -> int:
    """Return how long all sides of guessed tensors are, so that they fit one another; `largest` is their most rank."""
    return {1: 1024, 2: 1024, 3: 128, 4: 32}.get(largest, 16)


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
