"""Number formats that numpy lacks: bf16 and fp8 as floats that hold only their values, TF32 as tensor cores see it.

bf16 values are kept as fp32 arrays in between, rounded after every operation, and are two bytes only in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

AnyArray = npt.NDArray[Any]

_FP8 = {
    "fp8e5": torch.float8_e5m2,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz,
}


def round_bf16(values: AnyArray) -> AnyArray:
    """Return the nearest bf16 values, ties to even, as fp32."""
    wide = np.ascontiguousarray(values, dtype=np.float32)
    word = wide.view(np.uint32)
    rounded = ((word + (((word >> 16) & 1) + np.uint32(0x7FFF))) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isnan(wide), wide, rounded).reshape(values.shape)


def bf16_from_bits(bits: AnyArray) -> AnyArray:
    """Return the values of 16-bit words as fp32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bf16_to_bits(values: AnyArray) -> AnyArray:
    """Return bf16 values, given as fp32, as 16-bit words."""
    return (np.ascontiguousarray(round_bf16(values)).view(np.uint32) >> 16).astype(np.uint16).reshape(values.shape)


def as_tf32(values: AnyArray) -> AnyArray:
    """Return fp32 values as tensor cores read them: the low 13 bits of the mantissa are cut off, not rounded."""
    if values.dtype != np.float32:
        return values
    word = np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), word.view(np.float32), values)


def towards_zero(values: AnyArray, kind: str) -> AnyArray:
    """Return fp32 values cut off, not rounded, to "bf16" or "fp16"."""
    wide = np.ascontiguousarray(values, dtype=np.float32)
    if kind == "bf16":
        return (wide.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    near = wide.astype(np.float16)
    over = np.abs(near.astype(np.float32)) > np.abs(wide)
    return np.where(over, np.nextafter(near, np.float16(0)), near)


def fp8_values(bits: AnyArray, kind: str) -> AnyArray:
    """Return fp8 bytes as fp32; raises KeyError for a format that torch lacks."""
    raw = torch.from_numpy(np.array(bits, dtype=np.uint8))
    return raw.view(_FP8[kind]).float().numpy()


def fp8_bits(values: AnyArray, kind: str) -> AnyArray:
    """Return fp32 values as fp8 bytes, saturated as on a GPU; raises KeyError for a format that torch lacks."""
    form = _FP8[kind]
    most = torch.finfo(form).max
    wide = torch.from_numpy(np.array(values, dtype=np.float32)).clamp(-most, most)
    return wide.to(form).view(torch.uint8).numpy()


def to_integers(values: AnyArray, kind: np.dtype[Any]) -> AnyArray:
    """Convert floats as a GPU does: cut off, out of range as the nearest that there is, NaN as zero."""
    limits = np.iinfo(kind)
    wide = np.nan_to_num(np.trunc(values.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
    inside = (wide >= float(limits.min)) & (wide < float(limits.max))
    ends = np.where(wide < 0, limits.min, limits.max).astype(kind)
    return np.where(inside, np.where(inside, wide, 0.0).astype(kind), ends)


def through_torch(function: Any, values: AnyArray) -> AnyArray:
    wide = values.astype(np.float32) if values.dtype == np.float16 else values
    return function(torch.from_numpy(np.array(wide))).numpy().astype(values.dtype)
