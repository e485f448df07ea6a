"""Functions of CUDA's math library by name, without `__nv_` and the f of single precision."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import torch

from forewarp.inspection.emulation.interpreter.numerics import AnyArray, through_torch, to_integers

MathFunction = Callable[..., AnyArray]
Unary = Callable[[AnyArray], AnyArray]
Binary = Callable[[AnyArray, AnyArray], AnyArray]
Ternary = Callable[[AnyArray, AnyArray, AnyArray], AnyArray]

_SAME = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "floor", "ceil", "trunc", "rint"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "abs"),
    *("hypot", "copysign", "nextafter", "ldexp", "fmod", "fmax", "fmin"),
)
"""Functions that numpy has under the same name."""
_OF_NUMPY = {
    **{f"a{n}": f"arc{n}" for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"fast_{n}": n for n in ("sin", "cos", "tan", "exp", "log", "tanh", "log2", "log10")},
    **{f"{prefix}{n}": f"{n}imum" for prefix in ("", "ll", "u", "ull") for n in ("min", "max")},
    **{
        "fabs": "abs",
        "llabs": "abs",
        "nearbyint": "rint",
        "atan2": "arctan2",
        "pow": "power",
        "powi": "power",
        "scalbn": "ldexp",
    },
    "fast_fdivide": "divide",
}
_FLAGS = {
    **{f"{n}d": n for n in ("isnan", "isinf", "isfinite", "signbit")},
    **{"isnan": "isnan", "isinf": "isinf", "signbit": "signbit", "finite": "isfinite"},
}
"""Functions that say 1 or 0, by numpy's names."""
_OF_TORCH = {
    **{n: n for n in ("erf", "erfc", "erfcx", "erfinv")},
    **{"normcdf": "ndtr", "normcdfinv": "ndtri", "lgamma": "gammaln"},
    **{f"{kind}{n}": f"bessel_{kind}{n}" for kind in "jy" for n in (0, 1)},
    **{f"cyl_bessel_i{n}": f"i{n}" for n in (0, 1)},
}
"""Functions of `torch.special`."""
_VIEWS = {
    **{"float_as_int": np.int32, "float_as_uint": np.uint32, "int_as_float": np.float32},
    **{"uint_as_float": np.float32, "double_as_longlong": np.int64, "longlong_as_double": np.float64},
}
_INTEGERS = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
_FLOATS = {"float": np.float32, "double": np.float64}
_ROUNDED: dict[str, MathFunction] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}


def find(symbol: str) -> MathFunction | None:
    """Return what computes a function of the library such as `__nv_expf`; None where it is not known."""
    name = symbol.removeprefix("__nv_")
    return _table().get(name) or (_table().get(name[:-1]) if name.endswith("f") else None)


@cache
def _table() -> dict[str, MathFunction]:
    found: dict[str, MathFunction] = {n: getattr(np, n) for n in _SAME}
    found |= {name: getattr(np, of_numpy) for name, of_numpy in _OF_NUMPY.items()}
    found |= {name: partial(_flag, getattr(np, of_numpy)) for name, of_numpy in _FLAGS.items()}
    found |= {name: partial(through_torch, getattr(torch.special, n)) for name, n in _OF_TORCH.items()}
    found |= {name: partial(_seen_as, kind) for name, kind in _VIEWS.items()}
    counts: dict[str, Unary] = {
        "popc": lambda bits: bits.sum(axis=1),
        "clz": _leading_zeros,
        "ffs": lambda bits: np.where(bits.any(axis=1), bits.argmax(axis=1) + 1, 0),
    }
    found |= {f"{name}{long}": partial(_counted, count) for name, count in counts.items() for long in ("", "ll")}
    return found | _formulas() | _with_rounding()


def _formulas() -> dict[str, MathFunction]:
    unary: dict[str, Unary] = {
        "exp10": _power_of_ten,
        "fast_exp10": _power_of_ten,
        "round": _half_away,
        "llrint": lambda x: to_integers(np.rint(x), np.dtype(np.int64)),
        "llround": lambda x: to_integers(_half_away(x), np.dtype(np.int64)),
        "rsqrt": _reciprocal_root,
        "frsqrt_rn": _reciprocal_root,
        "rcbrt": lambda x: 1 / np.cbrt(x),
        "sinpi": lambda x: np.sin(np.pi * x.astype(np.float64)).astype(x.dtype),
        "cospi": lambda x: np.cos(np.pi * x.astype(np.float64)).astype(x.dtype),
        "saturate": lambda x: np.clip(np.nan_to_num(x, nan=0.0), 0, 1),
        "logb": lambda x: (np.frexp(x)[1] - 1).astype(x.dtype),
        "ilogb": lambda x: (np.frexp(x)[1] - 1).astype(np.int32),
        "erfcinv": lambda x: through_torch(torch.special.erfinv, 1 - x),
    }
    binary: dict[str, Binary] = {
        "fast_pow": lambda x, y: np.exp2(y * np.log2(x)),
        "rhypot": lambda x, y: 1 / np.hypot(x, y),
        "remainder": lambda x, y: x - y * np.rint(x / y),
        "fdim": lambda x, y: np.maximum(x - y, 0).astype(x.dtype),
        "mulhi": lambda x, y: ((x.astype(np.int64) * y.astype(np.int64)) >> 32).astype(np.int32),
        "umulhi": lambda x, y: ((x.astype(np.uint64) * y.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32),
        "hadd": lambda x, y: ((x.astype(np.int64) + y) >> 1).astype(x.dtype),
        "rhadd": lambda x, y: ((x.astype(np.int64) + y + 1) >> 1).astype(x.dtype),
    }
    ternary: dict[str, Ternary] = {"fma": _fma, "norm3d": lambda x, y, z: np.sqrt(x * x + y * y + z * z)}
    return {**unary, **binary, **ternary}


def _with_rounding() -> dict[str, MathFunction]:
    """Return functions with a rounding in their names; those not to integers round to nearest, off by a unit."""
    arithmetic: dict[str, MathFunction] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
    arithmetic |= {"sqrt": np.sqrt, "rcp": np.reciprocal}
    found: dict[str, MathFunction] = {}
    for rounding, function in _ROUNDED.items():
        for name, kind in _INTEGERS.items():
            found |= {f"{source}2{name}_{rounding}": partial(_rounded, function, kind) for source in _FLOATS}
            found |= {f"{name}2{goal}_{rounding}": partial(_as, wide) for goal, wide in _FLOATS.items()}
        found[f"double2float_{rounding}"] = partial(_as, np.float32)
        found |= {f"{prefix}{name}_{rounding}": act for name, act in arithmetic.items() for prefix in ("f", "d")}
        found |= {f"{name}_{rounding}": _fma for name in ("fma", "fmaf")}
    return found


def _flag(function: MathFunction, x: AnyArray) -> AnyArray:
    return function(x).astype(np.int32)


def _seen_as(kind: Any, x: AnyArray) -> AnyArray:
    return np.ascontiguousarray(x).view(kind)


def _as(kind: Any, x: AnyArray) -> AnyArray:
    return x.astype(kind)


def _rounded(rounding: MathFunction, kind: Any, x: AnyArray) -> AnyArray:
    return to_integers(rounding(x), np.dtype(kind))


def _counted(count: MathFunction, x: AnyArray) -> AnyArray:
    """Count in the bits of each number, given as rows with the lowest first."""
    words = np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(-1, x.dtype.itemsize)
    return count(np.unpackbits(words, axis=1, bitorder="little")).astype(np.int32).reshape(x.shape)


def _leading_zeros(bits: AnyArray) -> AnyArray:
    return np.where(bits.any(axis=1), bits[:, ::-1].argmax(axis=1), bits.shape[1])


def _power_of_ten(x: AnyArray) -> AnyArray:
    return np.power(np.asarray(10, x.dtype), x)


def _reciprocal_root(x: AnyArray) -> AnyArray:
    return 1 / np.sqrt(x)


def _half_away(x: AnyArray) -> AnyArray:
    return np.trunc(x + np.copysign(np.asarray(0.5, x.dtype), x))


def _fma(x: AnyArray, y: AnyArray, z: AnyArray) -> AnyArray:
    return x * y + z
