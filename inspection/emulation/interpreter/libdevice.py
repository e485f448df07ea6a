"""Functions of CUDA's math library by name, without `__nv_` and the f of single precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from forewarp.inspection.emulation.interpreter.numerics import AnyArray, through_torch, to_integers

Unary = Callable[[AnyArray], AnyArray]
Binary = Callable[[AnyArray, AnyArray], AnyArray]
Ternary = Callable[[AnyArray, AnyArray, AnyArray], AnyArray]
MathFunction = Unary | Binary | Ternary


def table() -> dict[str, MathFunction]:
    """Return every function that is known here, by name."""
    return {**_unary(), **_rounding(), **_of_several()}


def find(symbol: str, known: Mapping[str, MathFunction]) -> Callable[..., AnyArray] | None:
    """Return what computes a function of the library such as `__nv_expf`; None where it is not known."""
    name = symbol.removeprefix("__nv_")
    return known.get(name) or (known.get(name[:-1]) if name.endswith("f") else None)


def _of_torch(name: str) -> Unary:
    function = getattr(torch.special, name)
    return lambda x: through_torch(function, x)


def _rounded_to(kind: Any, rounding: Unary) -> Unary:
    return lambda x: to_integers(rounding(x), np.dtype(kind))


def _as(kind: Any) -> Unary:
    return lambda x: x.astype(kind)


def _seen_as(kind: Any) -> Unary:
    return lambda x: np.ascontiguousarray(x).view(kind)


def _flag(function: Unary) -> Unary:
    return lambda x: function(x).astype(np.int32)


def _half_away(x: AnyArray) -> AnyArray:
    return np.trunc(x + np.copysign(np.asarray(0.5, x.dtype), x))


def _reciprocal_root(x: AnyArray) -> AnyArray:
    return 1 / np.sqrt(x)


def _power_of_ten(x: AnyArray) -> AnyArray:
    return np.power(np.asarray(10, x.dtype), x)


def _fma(x: AnyArray, y: AnyArray, z: AnyArray) -> AnyArray:
    return x * y + z


def _bit_rows(x: AnyArray) -> AnyArray:
    """Return the bits of each number as a row, the lowest first."""
    words = np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(-1, x.dtype.itemsize)
    return np.unpackbits(words, axis=1, bitorder="little")


def _counted(count: Unary) -> Unary:
    """Return a function that counts in the rows of bits of its argument."""
    return lambda x: count(_bit_rows(x)).astype(np.int32).reshape(x.shape)


def _leading_zeros(bits: AnyArray) -> AnyArray:
    return np.where(bits.any(axis=1), bits[:, ::-1].argmax(axis=1), bits.shape[1])


def _wide(function: Binary, kind: Any, goal: Any) -> Binary:
    """Return a function of integers that computes in a wider type."""
    return lambda x, y: function(x.astype(kind), y.astype(kind)).astype(goal)


def _unary() -> dict[str, Unary]:
    same = (
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "floor", "ceil", "trunc", "rint"),
        *("sin", "cos", "tan", "sinh", "cosh", "tanh"),
    )
    found: dict[str, Unary] = {n: getattr(np, n) for n in same}
    found |= {f"a{n}": getattr(np, f"arc{n}") for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
    found |= {f"{n}d": _flag(getattr(np, n)) for n in ("isnan", "isinf", "isfinite", "signbit")}
    found |= {n: _flag(getattr(np, n)) for n in ("isnan", "isinf", "signbit")}
    special = {n: n for n in ("erf", "erfc", "erfcx", "erfinv")}
    special |= {"normcdf": "ndtr", "normcdfinv": "ndtri", "lgamma": "gammaln"}
    special |= {f"{kind}{n}": f"bessel_{kind}{n}" for kind in "jy" for n in (0, 1)}
    special |= {f"cyl_bessel_i{n}": f"i{n}" for n in (0, 1)}
    found |= {name: _of_torch(of_torch) for name, of_torch in special.items()}
    bits: dict[str, Unary] = {
        "popc": _counted(lambda b: b.sum(axis=1)),
        "clz": _counted(_leading_zeros),
        "ffs": _counted(lambda b: np.where(b.any(axis=1), b.argmax(axis=1) + 1, 0)),
    }
    found |= bits | {f"{name}ll": function for name, function in bits.items()}
    found |= dict.fromkeys(("abs", "fabs", "llabs"), np.abs)
    views = {"float_as_int": np.int32, "float_as_uint": np.uint32, "int_as_float": np.float32}
    views |= {"uint_as_float": np.float32, "double_as_longlong": np.int64, "longlong_as_double": np.float64}
    found |= {name: _seen_as(kind) for name, kind in views.items()}
    more: dict[str, Unary] = {
        "finite": _flag(np.isfinite),
        "exp10": _power_of_ten,
        "nearbyint": np.rint,
        "round": _half_away,
        "llrint": _rounded_to(np.int64, np.rint),
        "llround": _rounded_to(np.int64, _half_away),
        "rsqrt": _reciprocal_root,
        "rcbrt": lambda x: 1 / np.cbrt(x),
        "sinpi": lambda x: np.sin(np.pi * x.astype(np.float64)).astype(x.dtype),
        "cospi": lambda x: np.cos(np.pi * x.astype(np.float64)).astype(x.dtype),
        "saturate": lambda x: np.clip(np.nan_to_num(x, nan=0.0), 0, 1),
        "logb": lambda x: (np.frexp(x)[1] - 1).astype(x.dtype),
        "ilogb": lambda x: (np.frexp(x)[1] - 1).astype(np.int32),
        "erfcinv": lambda x: through_torch(torch.special.erfinv, 1 - x),
    }
    return found | more


def _rounding() -> dict[str, MathFunction]:
    """Return functions with a rounding in their names, of which only those to integers do it, and `fast_` ones.

    The others round to nearest, off by one unit at most, and what trades digits for speed is as precise as any.
    """
    whole: dict[str, Unary] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
    kinds: dict[str, Any] = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
    floats: dict[str, Any] = {"float": np.float32, "double": np.float64}
    arithmetic: dict[str, MathFunction] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
    arithmetic |= {"sqrt": np.sqrt, "rcp": np.reciprocal}
    found: dict[str, MathFunction] = {f"fast_{n}": getattr(np, n) for n in ("sin", "cos", "tan", "exp", "log", "tanh")}
    found |= {"fast_log2": np.log2, "fast_log10": np.log10, "fast_exp10": _power_of_ten, "fast_fdivide": np.divide}
    found["frsqrt_rn"] = _reciprocal_root
    for rounding, function in whole.items():
        for name, kind in kinds.items():
            found |= {f"{source}2{name}_{rounding}": _rounded_to(kind, function) for source in floats}
            found |= {f"{name}2{goal}_{rounding}": _as(wide) for goal, wide in floats.items()}
        found[f"double2float_{rounding}"] = _as(np.float32)
        found |= {f"{prefix}{name}_{rounding}": act for name, act in arithmetic.items() for prefix in ("f", "d")}
        found |= {f"{name}_{rounding}": _fma for name in ("fmaf", "fma")}
    return found


def _of_several() -> dict[str, MathFunction]:
    names = ("hypot", "copysign", "nextafter", "ldexp", "fmod", "fmax", "fmin")
    found: dict[str, MathFunction] = {n: getattr(np, n) for n in names}
    for prefix in ("", "ll", "u", "ull"):
        found |= {f"{prefix}min": np.minimum, f"{prefix}max": np.maximum}
    more: dict[str, Binary] = {
        "fast_pow": lambda x, y: np.exp2(y * np.log2(x)),
        "atan2": np.arctan2,
        "rhypot": lambda x, y: 1 / np.hypot(x, y),
        "pow": np.power,
        "powi": np.power,
        "scalbn": np.ldexp,
        "remainder": lambda x, y: x - y * np.rint(x / y),
        "fdim": lambda x, y: np.maximum(x - y, 0).astype(x.dtype),
        "mulhi": _wide(lambda x, y: (x * y) >> 32, np.int64, np.int32),
        "umulhi": _wide(lambda x, y: (x * y) >> np.uint64(32), np.uint64, np.uint32),
        "hadd": lambda x, y: ((x.astype(np.int64) + y) >> 1).astype(x.dtype),
        "rhadd": lambda x, y: ((x.astype(np.int64) + y + 1) >> 1).astype(x.dtype),
    }
    ternary: dict[str, Ternary] = {"fma": _fma, "norm3d": lambda x, y, z: np.sqrt(x * x + y * y + z * z)}
    return {**found, **more, **ternary}
