"""Values of names, functions and methods of torch, CUDA and the standard library in an extension's host code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch


class Unknown:
    """A value that cannot be told; whatever is computed from it is unknown, too."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()


class Dim(tuple[Any, ...]):
    """A `dim3`: three integers, each perhaps unknown."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TensorOptions:
    """A `TensorOptions`: only the type matters here."""

    dtype: torch.dtype = torch.float32


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


_C_TYPES = {
    **{torch.float32: "float", torch.float64: "double", torch.float16: "c10::Half", torch.bfloat16: "c10::BFloat16"},
    **{torch.int32: "int", torch.int64: "int64_t", torch.uint8: "uint8_t", torch.int8: "int8_t", torch.bool: "bool"},
}
_DTYPES = {
    **{"Float": torch.float32, "Float32": torch.float32, "Double": torch.float64, "Float64": torch.float64},
    **{"Half": torch.float16, "Float16": torch.float16, "BFloat16": torch.bfloat16, "Bool": torch.bool},
    **{"Int": torch.int32, "Int32": torch.int32, "Long": torch.int64, "Int64": torch.int64},
    **{"Byte": torch.uint8, "UInt8": torch.uint8, "Char": torch.int8, "Int8": torch.int8},
}
"""Types by torch's names: `torch::kFloat` and `at::ScalarType::Float` are the same."""
_NAMES: dict[str, Any] = {
    **{"true": True, "false": False, "INT_MAX": 2147483647, "nullptr": 0, "NULL": 0},
    **{"torch::nullopt": None, "c10::nullopt": None, "std::nullopt": None, "torch::kCUDA": "cuda", "at::kCUDA": "cuda"},
}
_MATHS: dict[str, Callable[..., Any]] = {
    **{"min": min, "max": max, "abs": abs, "fabs": abs, "round": round, "ceil_div": _ceil_div},
    **{"ceil": math.ceil, "ceilf": math.ceil, "floor": math.floor, "sqrt": math.sqrt, "sqrtf": math.sqrt},
    **{"pow": math.pow, "powf": math.pow, "log2": math.log2, "log2f": math.log2, "log": math.log, "exp": math.exp},
}


def c_type(value: Any) -> str:
    """Return the C++ type for a torch type; empty for anything else."""
    return _C_TYPES.get(value, "") if isinstance(value, torch.dtype) else ""


def named(name: str) -> Any:
    space, _, last = name.rpartition("::")
    if space.endswith("ScalarType"):
        return _DTYPES.get(last, UNKNOWN)
    if last.startswith("k") and space.partition("::")[0] in ("", "torch", "at", "c10"):
        return _NAMES.get(name, _DTYPES.get(last[1:], UNKNOWN))
    return _NAMES.get(name, UNKNOWN)


def call(name: str, arguments: list[Any]) -> Any:
    space, _, last = name.rpartition("::")
    if last == "dim3":
        return Dim((*arguments, 1, 1, 1)[:3])
    if last in ("TensorOptions", "dtype") and space in ("torch", "at", "c10"):
        return _with(TensorOptions(), arguments)
    if last == "device" and space in ("torch", "at"):
        return TensorOptions()
    if last in ("optional", "IntArrayRef", "move", "vector", "make_optional"):
        return arguments[0] if len(arguments) == 1 else arguments
    if last in ("make_tuple", "tie", "make_pair"):
        return tuple(arguments)
    if last in _MATHS and space in ("", "std", "at", "c10"):
        known = all(isinstance(a, int | float) for a in arguments)
        return _MATHS[last](*arguments) if known and arguments else UNKNOWN
    if space in ("torch", "at", "torch::nn::functional"):
        return _torch(getattr(torch, last, None) or getattr(torch.nn.functional, last, None), arguments)
    return UNKNOWN


def method(owner: Any, name: str, arguments: list[Any]) -> Any:
    if isinstance(owner, torch.Tensor):
        return _of_tensor(owner, name, arguments)
    if isinstance(owner, TensorOptions):
        return _with(owner, arguments) if name == "dtype" else owner
    if isinstance(owner, list | tuple) and not isinstance(owner, Dim):
        return {"size": len(owner), "length": len(owner), "vec": owner}.get(name, UNKNOWN)
    if owner is UNKNOWN:
        return UNKNOWN
    if name in ("has_value", "defined"):
        return owner is not None
    plain = name == "value" or (name == "toScalarType" and isinstance(owner, torch.dtype))
    return owner if plain else UNKNOWN


def _of_tensor(tensor: torch.Tensor, name: str, arguments: list[Any]) -> Any:
    if "data_ptr" in name or "accessor" in name or name in ("data", "item"):
        return UNKNOWN
    if name in ("size", "stride"):
        return getattr(tensor, name)(*arguments)
    known = {
        **{"sizes": list(tensor.shape), "strides": list(tensor.stride()), "options": TensorOptions(tensor.dtype)},
        **{"scalar_type": tensor.dtype, "dtype": tensor.dtype, "type": tensor.dtype, "value": tensor},
        **{"device": "cuda", "get_device": 0, "is_cuda": True, "defined": True, "has_value": True},
        **{"element_size": tensor.itemsize, "itemsize": tensor.itemsize, "nbytes": tensor.numel() * tensor.itemsize},
    }
    return known[name] if name in known else _torch(getattr(tensor, name, None), arguments)


def _torch(function: Any, arguments: list[Any]) -> Any:
    """Call torch on known arguments; options become keywords."""
    inside = [v for a in arguments for v in (a if isinstance(a, list | tuple) else [a])]
    if function is None or any(v is UNKNOWN for v in inside):
        return UNKNOWN
    options: dict[str, Any] = {}
    for argument in arguments:
        options |= {"dtype": argument.dtype} if isinstance(argument, TensorOptions) else {}
    plain = [a for a in arguments if not isinstance(a, TensorOptions)]
    if getattr(function, "__name__", "") in ("empty", "zeros", "ones", "full", "rand", "randn") and not options:
        types = [a for a in plain if isinstance(a, torch.dtype)]
        plain = [a for a in plain if not isinstance(a, torch.dtype)]
        options = {"dtype": types[0] if types else torch.float32}
    try:
        result = function(*plain, **options)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return UNKNOWN
    return list(result) if isinstance(result, torch.Size) else result


def _with(options: TensorOptions, arguments: Sequence[Any]) -> TensorOptions:
    kinds = [a for a in arguments if isinstance(a, torch.dtype)]
    return replace(options, dtype=kinds[0]) if kinds else options
