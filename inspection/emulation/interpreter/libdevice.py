"""What CUDA's math library computes, by the names of its functions without `__nv_` and the f of single precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from forewarp.inspection.emulation.interpreter.numerics import Array, through_torch, to_integers

Unary = Callable[[Array], Array]
Binary = Callable[[Array, Array], Array]
Ternary = Callable[[Array, Array, Array], Array]
Function = Unary | Binary | Ternary

_ROUNDINGS = ("rn", "rz", "rd", "ru")


def table() -> dict[str, Function]:
    """Return every function that is known here, by name."""
    unary = _plain() | _special() | _approximate() | _bits() | _conversions()
    ternary: dict[str, Ternary] = {"fma": _fma, "norm3d": lambda x, y, z: np.sqrt(x * x + y * y + z * z)}
    for rounding in _ROUNDINGS:
        ternary |= {f"fmaf_{rounding}": _fma, f"fma_{rounding}": _fma}
    return {**unary, **_binary(), **ternary}


def find(symbol: str, known: Mapping[str, Function]) -> Callable[..., Array] | None:
    """Return what computes a function of the library such as `__nv_expf`; None where it is not known."""
    name = symbol.removeprefix("__nv_")
    return known.get(name) or (known.get(name[:-1]) if name.endswith("f") else None)


def _fma(x: Array, y: Array, z: Array) -> Array:
    return x * y + z


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


def _half_away(x: Array) -> Array:
    return np.trunc(x + np.copysign(np.asarray(0.5, x.dtype), x))


def _power_of_ten(x: Array) -> Array:
    return np.power(np.asarray(10, x.dtype), x)


def _bit_rows(x: Array, *, highest_first: bool) -> Array:
    """Return the bits of each number as a row."""
    words = np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(-1, x.dtype.itemsize)
    return np.unpackbits(words[:, ::-1], axis=1) if highest_first else np.unpackbits(words, axis=1, bitorder="little")


def _popcount(x: Array) -> Array:
    return _bit_rows(x, highest_first=True).sum(axis=1).astype(np.int32).reshape(x.shape)


def _leading_zeros(x: Array) -> Array:
    bits = _bit_rows(x, highest_first=True)
    return np.where(bits.any(axis=1), bits.argmax(axis=1), bits.shape[1]).astype(np.int32).reshape(x.shape)


def _first_set(x: Array) -> Array:
    bits = _bit_rows(x, highest_first=False)
    return np.where(bits.any(axis=1), bits.argmax(axis=1) + 1, 0).astype(np.int32).reshape(x.shape)


def _plain() -> dict[str, Unary]:
    same = (
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "floor", "ceil", "trunc", "rint"),
        *("sin", "cos", "tan", "sinh", "cosh", "tanh"),
    )
    found: dict[str, Unary] = {n: getattr(np, n) for n in same}
    found |= {f"a{n}": getattr(np, f"arc{n}") for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
    found |= {f"{n}d": _flag(getattr(np, n)) for n in ("isnan", "isinf", "isfinite", "signbit")}
    found |= {n: _flag(getattr(np, n)) for n in ("isnan", "isinf", "signbit")}
    more: dict[str, Unary] = {
        "finite": _flag(np.isfinite),
        "exp10": _power_of_ten,
        "nearbyint": np.rint,
        "round": _half_away,
        "llrint": _rounded_to(np.int64, np.rint),
        "llround": _rounded_to(np.int64, _half_away),
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "rcbrt": lambda x: 1 / np.cbrt(x),
        "fabs": np.abs,
        "sinpi": lambda x: np.sin(np.pi * x.astype(np.float64)).astype(x.dtype),
        "cospi": lambda x: np.cos(np.pi * x.astype(np.float64)).astype(x.dtype),
        "saturate": lambda x: np.clip(np.nan_to_num(x, nan=0.0), 0, 1),
        "logb": lambda x: (np.frexp(x)[1] - 1).astype(x.dtype),
        "ilogb": lambda x: (np.frexp(x)[1] - 1).astype(np.int32),
    }
    return found | more


def _special() -> dict[str, Unary]:
    same = {n: n for n in ("erf", "erfc", "erfcx", "erfinv")}
    same |= {"normcdf": "ndtr", "normcdfinv": "ndtri", "lgamma": "gammaln"}
    same |= {"j0": "bessel_j0", "j1": "bessel_j1", "y0": "bessel_y0", "y1": "bessel_y1"}
    same |= {"cyl_bessel_i0": "i0", "cyl_bessel_i1": "i1"}
    found: dict[str, Unary] = {name: _of_torch(torchs) for name, torchs in same.items()}
    found["erfcinv"] = lambda x: through_torch(torch.special.erfinv, 1 - x)
    return found


def _approximate() -> dict[str, Unary]:
    """Return the functions that trade digits for speed; here they are as precise as any."""
    names = ("sin", "cos", "tan", "exp", "log", "log2", "log10", "tanh")
    found: dict[str, Unary] = {f"fast_{n}": getattr(np, n) for n in names}
    found["fast_exp10"] = _power_of_ten
    for rounding in _ROUNDINGS:
        for prefix in ("f", "d"):
            found |= {f"{prefix}sqrt_{rounding}": np.sqrt, f"{prefix}rcp_{rounding}": np.reciprocal}
    found["frsqrt_rn"] = lambda x: 1 / np.sqrt(x)
    return found


def _bits() -> dict[str, Unary]:
    found: dict[str, Unary] = {"popc": _popcount, "clz": _leading_zeros, "ffs": _first_set}
    found |= {f"{name}ll": function for name, function in list(found.items())}
    more: dict[str, Unary] = {
        "abs": np.abs,
        "llabs": np.abs,
        "float_as_int": _seen_as(np.int32),
        "float_as_uint": _seen_as(np.uint32),
        "int_as_float": _seen_as(np.float32),
        "uint_as_float": _seen_as(np.float32),
        "double_as_longlong": _seen_as(np.int64),
        "longlong_as_double": _seen_as(np.float64),
    }
    return found | more


def _conversions() -> dict[str, Unary]:
    """Return conversions with a rounding in their names; those to floats all round to nearest here."""
    found: dict[str, Unary] = {}
    whole: dict[str, Unary] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
    kinds: dict[str, Any] = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
    floats: dict[str, Any] = {"float": np.float32, "double": np.float64}
    for rounding, function in whole.items():
        for name, kind in kinds.items():
            found |= {f"{source}2{name}_{rounding}": _rounded_to(kind, function) for source in floats}
            found |= {f"{name}2{goal}_{rounding}": _as(wide) for goal, wide in floats.items()}
        found[f"double2float_{rounding}"] = _as(np.float32)
    return found


def _binary() -> dict[str, Binary]:
    names = ("hypot", "copysign", "nextafter", "ldexp", "fmod", "fmax", "fmin")
    found: dict[str, Binary] = {n: getattr(np, n) for n in names}
    arithmetic: dict[str, Binary] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
    for name, function in arithmetic.items():
        # All of them round to nearest here, off by one unit at most.
        found |= {f"{prefix}{name}_{rounding}": function for rounding in _ROUNDINGS for prefix in ("f", "d")}
    least, most = ("min", "llmin", "umin", "ullmin"), ("max", "llmax", "umax", "ullmax")
    found |= {**dict.fromkeys(least, np.minimum), **dict.fromkeys(most, np.maximum)}
    more: dict[str, Binary] = {
        "atan2": np.arctan2,
        "rhypot": lambda x, y: 1 / np.hypot(x, y),
        "pow": np.power,
        "powi": np.power,
        "scalbn": np.ldexp,
        "remainder": lambda x, y: x - y * np.rint(x / y),
        "fdim": lambda x, y: np.maximum(x - y, 0).astype(x.dtype),
        "fast_pow": lambda x, y: np.exp2(y * np.log2(x)),
        "fast_fdivide": np.divide,
        "mulhi": lambda x, y: ((x.astype(np.int64) * y.astype(np.int64)) >> 32).astype(np.int32),
        "umulhi": lambda x, y: ((x.astype(np.uint64) * y.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32),
        "hadd": lambda x, y: ((x.astype(np.int64) + y) >> 1).astype(x.dtype),
        "rhadd": lambda x, y: ((x.astype(np.int64) + y + 1) >> 1).astype(x.dtype),
    }
    return found | more
