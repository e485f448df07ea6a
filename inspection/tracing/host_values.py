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


_DTYPES = {
    **dict.fromkeys(("kFloat", "kFloat32"), torch.float32),
    **dict.fromkeys(("kDouble", "kFloat64"), torch.float64),
    **dict.fromkeys(("kHalf", "kFloat16"), torch.float16),
    "kBFloat16": torch.bfloat16,
    **dict.fromkeys(("kInt", "kInt32"), torch.int32),
    **dict.fromkeys(("kLong", "kInt64"), torch.int64),
    **dict.fromkeys(("kByte", "kUInt8"), torch.uint8),
    **dict.fromkeys(("kChar", "kInt8"), torch.int8),
    "kBool": torch.bool,
    **dict.fromkeys(("ScalarType::Float", "ScalarType::Half", "ScalarType::BFloat16"), None),
}
_C_TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
    torch.int32: "int",
    torch.int64: "int64_t",
    torch.uint8: "uint8_t",
    torch.int8: "int8_t",
    torch.bool: "bool",
}
_SCALAR_TYPES = {"Float": torch.float32, "Half": torch.float16, "BFloat16": torch.bfloat16, "Double": torch.float64}


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


_NAMES: dict[str, Any] = {
    **{"true": True, "false": False, "INT_MAX": 2147483647, "nullptr": 0, "NULL": 0},
    **{"torch::nullopt": None, "c10::nullopt": None, "std::nullopt": None, "torch::kCUDA": "cuda", "at::kCUDA": "cuda"},
}
_MATHS: dict[str, Callable[..., Any]] = {
    **{"min": min, "max": max, "abs": abs, "fabs": abs, "ceil": math.ceil, "ceilf": math.ceil, "floor": math.floor},
    **{"sqrt": math.sqrt, "sqrtf": math.sqrt, "pow": math.pow, "powf": math.pow, "log2": math.log2, "log2f": math.log2},
    **{
        "log": math.log,
        "exp": math.exp,
        "round": round,
        "ceil_div": _ceil_div,
    },
}


def c_type(value: Any) -> str:
    """Return the C++ type for a torch type; empty for anything else."""
    return _C_TYPES.get(value, "") if isinstance(value, torch.dtype) else ""


def named(name: str) -> Any:
    """Return the value of a name that the source does not define."""
    last = name.rpartition("::")[2]
    if "ScalarType::" in name:
        return _SCALAR_TYPES.get(last, UNKNOWN)
    if name.startswith(("torch::", "at::", "c10::")) or last == name:
        return _NAMES.get(name, _DTYPES.get(last, UNKNOWN))
    return _NAMES.get(name, UNKNOWN)


def call(name: str, arguments: list[Any]) -> Any:
    """Call a function that the source does not define."""
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
    """Call a member function."""
    if isinstance(owner, TensorOptions):
        return _with(owner, arguments) if name == "dtype" else owner
    if isinstance(owner, list | tuple) and not isinstance(owner, Dim):
        known: dict[str, Any] = {"size": len(owner), "length": len(owner), "vec": owner}
        return known.get(name, UNKNOWN)
    if name in ("has_value", "defined") and owner is not UNKNOWN:
        return owner is not None
    if name == "value" and owner is not UNKNOWN:
        return owner
    if isinstance(owner, torch.dtype) and name == "toScalarType":
        return owner
    return _of_tensor(owner, name, arguments) if isinstance(owner, torch.Tensor) else UNKNOWN


def _of_tensor(tensor: torch.Tensor, name: str, arguments: list[Any]) -> Any:
    if "data_ptr" in name or "accessor" in name or name in ("data", "item"):
        return UNKNOWN
    if name in ("size", "stride"):
        return getattr(tensor, name)(*arguments)
    simple: dict[str, Callable[[], Any]] = {
        "sizes": lambda: list(tensor.shape),
        "strides": lambda: list(tensor.stride()),
        "scalar_type": lambda: tensor.dtype,
        "dtype": lambda: tensor.dtype,
        "type": lambda: tensor.dtype,
        "options": lambda: TensorOptions(tensor.dtype),
        "device": lambda: "cuda",
        "get_device": lambda: 0,
        "is_cuda": lambda: True,
        "element_size": tensor.element_size,
        "itemsize": tensor.element_size,
        "nbytes": lambda: tensor.numel() * tensor.element_size(),
    }
    if name in simple:
        return simple[name]()
    return _torch(getattr(tensor, name, None), arguments)


def _torch(function: Any, arguments: list[Any]) -> Any:
    """Call torch on known arguments; options become keywords."""
    if function is None or any(a is UNKNOWN or _unknown_inside(a) for a in arguments):
        return UNKNOWN
    named: dict[str, Any] = {}
    plain: list[Any] = []
    for argument in arguments:
        if isinstance(argument, TensorOptions):
            named["dtype"] = argument.dtype
        else:
            plain.append(argument)
    name = getattr(function, "__name__", "")
    if name in ("empty", "zeros", "ones", "full", "rand", "randn") and "dtype" not in named:
        types = [a for a in plain if isinstance(a, torch.dtype)]
        plain = [a for a in plain if not isinstance(a, torch.dtype)]
        named["dtype"] = types[0] if types else torch.float32
    try:
        result = function(*plain, **named)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return UNKNOWN
    return list(result) if isinstance(result, torch.Size) else result


def _unknown_inside(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(v is UNKNOWN for v in value)


def _with(options: TensorOptions, arguments: Sequence[Any]) -> TensorOptions:
    kinds = [a for a in arguments if isinstance(a, torch.dtype)]
    return replace(options, dtype=kinds[0]) if kinds else options
