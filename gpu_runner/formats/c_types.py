"""C types of what a launch plan passes to kernels in C++ and CUDA."""

from __future__ import annotations

import re
from collections.abc import Mapping

from forewarp.core.values import Language

_ELEMENTS = {
    "float64": "double",
    "float32": "float",
    "int64": "int64_t",
    "int32": "int",
    "int16": "int16_t",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
}
# NVRTC has no <cstdint>.
_OWN: Mapping[Language, Mapping[str, str]] = {
    "cuda": {"int64": "long long", "int16": "short", "float16": "__half", "bfloat16": "__nv_bfloat16"},
    "cpp": {"float16": "_Float16", "bfloat16": "uint16_t"},
}
KINDS = {"i32": "int32", "i64": "int64", "f32": "float32", "f64": "float64"}
"""Dtypes of the numbers in a plan's `args`, by what stands behind the colon."""


def element(dtype: str, language: Language) -> str:
    """Return the type that a pointer to a tensor of this dtype points to; "" where C has none of that name."""
    return _OWN.get(language, {}).get(dtype) or _ELEMENTS.get(dtype, "")


def size(dtype: str) -> int:
    """Return the bytes of an element; the dtypes' names hold their bits, but for "bool"."""
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits.group()) // 8) if bits else 1


def number(kind: str, language: Language) -> str:
    """Return the type of a number that a plan passes as "i32", "i64", "f32" or "f64"."""
    return element(KINDS[kind], language)
